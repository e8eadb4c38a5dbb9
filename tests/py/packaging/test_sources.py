"""core/runtime/sources.bzl, which CMake and Bazel build from, lists what is in the folder."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[3] / "core" / "runtime"


def test_the_list_is_the_folder():
    listed: dict[str, list[str]] = {}
    exec((FOLDER / "sources.bzl").read_text(), listed)  # Starlark that is Python as well
    assert listed["SOURCES"] == sorted(path.name for path in FOLDER.glob("*.cpp"))
