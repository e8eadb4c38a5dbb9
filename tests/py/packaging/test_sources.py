"""core/runtime/sources.bzl, which CMake and Bazel build from, lists what is in the folder."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[3] / "core" / "runtime"


def test_the_list_is_the_folder():
    listed: dict[str, list[str]] = {}
    exec((FOLDER / "sources.bzl").read_text(), listed)  # Starlark that is Python as well
    assert listed["SOURCES"] == sorted(path.name for path in FOLDER.glob("*.cpp"))


def test_every_core_test_is_built():
    tests = FOLDER.parents[1] / "tests" / "core" / "runtime"
    listed = (tests / "CMakeLists.txt").read_text()
    assert [path.name for path in tests.glob("test_*.cpp") if path.name not in listed] == []
