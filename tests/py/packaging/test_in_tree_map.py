"""docsrc/in_tree.md says of every file where it would live in Torch-TensorRT's tree, and names places that exist."""

from __future__ import annotations

import fnmatch
import importlib.util
import re
from pathlib import Path, PurePosixPath

from torch_tensorrt_profiles._seams import SEAMS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docsrc" / "in_tree.md").read_text(encoding="utf-8")

#: The first two columns of the page's tables.
ROWS = [[cell.strip() for cell in line.split("|")[1:3]] for line in PAGE.splitlines() if line.startswith("| `")]
PATTERNS = [pattern for here, _ in ROWS for pattern in re.findall(r"`([^`]+)`", here)]
PLACES = [(place, bool(new)) for _, there in ROWS for place, new in re.findall(r"`([^`]+)`( \(new\))?", there)]

BUILT = {"lib", "include", "share", "__pycache__"}


def files() -> list[str]:
    package = ROOT / "py" / "torch_tensorrt_profiles"
    found = [path for folder in (ROOT / "core", ROOT / "cpp") for path in folder.rglob("*")]
    found += [path for path in package.rglob("*") if not BUILT & set(path.relative_to(package).parts)]
    return [path.relative_to(ROOT).as_posix() for path in found if path.is_file()]


def test_every_file_is_in_the_map_once():
    rows = {file: [pattern for pattern in PATTERNS if fnmatch.fnmatchcase(file, pattern)] for file in files()}
    assert {file: patterns for file, patterns in rows.items() if len(patterns) != 1} == {}


def test_every_pattern_is_of_a_file():
    assert [pattern for pattern in PATTERNS if not fnmatch.filter(files(), pattern)] == []


def test_places_in_the_wheel_are_there_and_new_ones_are_not():
    (folder,) = importlib.util.find_spec("torch_tensorrt").submodule_search_locations
    package = PurePosixPath("py/torch_tensorrt")
    places = [row for row in PLACES if PurePosixPath(row[0]).is_relative_to(package)]
    assert places
    wrong = [
        place for place, new in places if (Path(folder) / PurePosixPath(place).relative_to(package)).exists() == new
    ]
    assert wrong == []


def test_every_module_that_is_grafted_is_a_place():
    names = {module: f"py/{module.replace('.', '/')}" for module in SEAMS}
    places = {place for place, new in PLACES if not new}
    assert [module for module, path in names.items() if not {f"{path}.py", f"{path}/__init__.py"} & places] == []
