"""What can be told without importing torch: versions, the entry point, the environment."""

from __future__ import annotations

import dataclasses
import enum
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from torch_tensorrt_profiles._activate import SWITCH, switched_off
from torch_tensorrt_profiles._version import SUPPORTED_SERIES, __version__, in_supported_series

DISTRIBUTION = "torch-tensorrt-profiles"
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_ENTRY_POINTS = "torch.backends"
_PYTHONS = ((3, 10), (3, 14))
_TENSORRTS = ("tensorrt-rtx", "tensorrt", "tensorrt-cu13", "tensorrt-cu12")


class Status(enum.Enum):
    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    """What was found, and what to do where that is a problem."""

    name: str
    status: Status
    found: str
    fix: str = ""

    def as_record(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "status": self.status.value}


def static_checks(environment: Mapping[str, str] = os.environ) -> list[Check]:
    """Checks that import nothing."""
    return [
        _python(),
        _ours(),
        _torch(),
        _torch_tensorrt(),
        _entry_point(),
        _environment(environment),
    ]


def version_of(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Check:
    low, end = _PYTHONS
    found = ".".join(map(str, sys.version_info[:3]))
    if low <= sys.version_info[:2] < end:
        return Check("Python", Status.OK, found)
    needed = f"{low[0]}.{low[1]} to {end[0]}.{end[1] - 1}"
    return Check("Python", Status.PROBLEM, f"{found}; needed is {needed}", f"Make an environment with Python {needed}.")


def _ours() -> Check:
    installed = version_of(DISTRIBUTION)
    if installed is None:
        return Check(
            DISTRIBUTION,
            Status.PROBLEM,
            f"{__version__}, on the path but not installed, so that torch does not call it",
            f"Install it, from a checkout with: {sys.executable} -m pip install --no-build-isolation .",
        )
    if installed != __version__:
        return Check(
            DISTRIBUTION,
            Status.PROBLEM,
            f"{__version__} is imported, {installed} is installed",
            "Remove the copy that comes first on PYTHONPATH, or install this one again.",
        )
    return Check(DISTRIBUTION, Status.OK, installed)


def _torch() -> Check:
    found, fix = version_of("torch"), f"pip install 'torch=={SUPPORTED_SERIES}.*'"
    if found is None:
        return Check("torch", Status.PROBLEM, f"not installed; needed is {SUPPORTED_SERIES}", fix)
    if not in_supported_series(found):
        return Check("torch", Status.PROBLEM, f"{found}; needed is {SUPPORTED_SERIES}", fix)
    return Check("torch", Status.OK, found)


def _torch_tensorrt() -> Check:
    names = ("torch-tensorrt-rtx", "torch-tensorrt")
    found = {name: version for name in names if (version := version_of(name)) is not None}
    shown = ", ".join(f"{name} {version}" for name, version in found.items())
    fix = f"pip install '{next(iter(found), names[0])}=={SUPPORTED_SERIES}.*'"
    if not found:
        return Check("Torch-TensorRT", Status.PROBLEM, f"not installed; needed is {SUPPORTED_SERIES}", fix)
    if len(found) > 1:
        return Check(
            "Torch-TensorRT",
            Status.PROBLEM,
            f"{shown}: both are the package torch_tensorrt, and overwrite each other's files",
            "pip uninstall torch-tensorrt torch-tensorrt-rtx, then pip install the one of them that is wanted",
        )
    (version,) = found.values()
    if not in_supported_series(version):
        return Check("Torch-TensorRT", Status.PROBLEM, f"{shown}; needed is {SUPPORTED_SERIES}", fix)
    tensorrt = {name: known for name in _TENSORRTS if (known := version_of(name)) is not None}
    with_tensorrt = "".join(f", {name} {known}" for name, known in tensorrt.items())
    return Check("Torch-TensorRT", Status.OK, shown + with_tensorrt)


def _entry_point() -> Check:
    ours = [point for point in metadata.entry_points(group=_ENTRY_POINTS) if point.name == "torch_tensorrt_profiles"]
    again = f"Install {DISTRIBUTION} again."
    if not ours:
        found = f"there is none in the group {_ENTRY_POINTS!r}, so that 'import torch_tensorrt' alone activates nothing"
        return Check("entry point", Status.PROBLEM, found, again)
    places = {str(point.dist.locate_file("")) if point.dist is not None else "" for point in ours}
    if len(places) > 1:
        found = f"{DISTRIBUTION} is installed in {len(places)} places: {', '.join(sorted(places))}"
        return Check("entry point", Status.NOTE, found, "Remove all but one.")
    return Check("entry point", Status.OK, ours[0].value)


def _environment(environment: Mapping[str, str]) -> Check:
    if switched_off(environment):
        found = f"{SWITCH}={environment[SWITCH]} switches this package off"
        return Check("environment", Status.PROBLEM, found, f"unset {SWITCH}")
    if (autoload := environment.get(AUTOLOAD, "1")) != "1":  # torch compares with that
        found = f"{AUTOLOAD}={autoload} keeps torch from calling it"
        fix = f"Unset {AUTOLOAD}, or import torch_tensorrt_profiles before torch_tensorrt in your program."
        return Check("environment", Status.PROBLEM, found, fix)
    return Check("environment", Status.OK, "nothing switches this package off")
