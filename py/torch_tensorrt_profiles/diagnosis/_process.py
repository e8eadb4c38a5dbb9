"""What shows only when Torch-TensorRT is imported, in a process of its own: that may crash, or print."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from torch_tensorrt_profiles._stand_ins import CAPABILITY_VARIABLE
from torch_tensorrt_profiles._version import SUPPORTED_SERIES
from torch_tensorrt_profiles.diagnosis._checks import Check, Status

_PROBE = Path(__file__).with_name("_probe.py")
_TIMEOUT_SECONDS = 600


def process_checks(*, run_an_engine: bool) -> list[Check]:
    """Imports Torch-TensorRT as a user's program does, and on a GPU host builds and profiles a small engine."""
    found, trouble = _probed(run_an_engine=run_an_engine)
    if "imported" not in found:
        trouble = found.get("import_error") or trouble or "the process told nothing"
        checks = [Check("import", Status.PROBLEM, trouble, _fix_of_import(trouble))]
        return checks + ([_activation(found)] if found.get("refusal") else [])
    checks = [
        Check("import", Status.OK, f"torch_tensorrt {found['imported']} is imported as in a program"),
        *_state(found),
    ]
    checks.append(_gpu(found))
    checks.append(_engine(found, trouble))
    return checks


def _probed(*, run_an_engine: bool) -> tuple[dict[str, Any], str]:
    """What the probe found until it ended, and why it ended badly, if it did."""
    with tempfile.TemporaryDirectory(prefix="torchtrtprof-") as folder:
        findings = Path(folder, "findings")
        command = [sys.executable, str(_PROBE), str(findings), folder if run_an_engine else ""]
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIMEOUT_SECONDS, cwd=folder
            )
            output, code = done.stdout.decode(errors="replace"), done.returncode
        except subprocess.TimeoutExpired as error:
            output, code = (error.stdout or b"").decode(errors="replace"), None
        found: dict[str, Any] = {}
        if findings.exists():
            for line in findings.read_text().splitlines():
                found.update(json.loads(line))
    if code == 0:
        return found, ""
    last = [line for line in output.splitlines() if line.strip()][-1:]
    how = f"took more than {_TIMEOUT_SECONDS} s" if code is None else _ending(code)
    return found, ": ".join([f"the process {how}", *last])


def _ending(code: int) -> str:
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"exited with {code}"


def _fix_of_import(trouble: str) -> str:
    if "NVIDIA driver" in trouble:
        return (
            "Torch-TensorRT alone needs a GPU to be imported. Use a GPU host, or have this package active, with which "
            "it is imported anywhere: see the other checks for why it is not."
        )
    if CAPABILITY_VARIABLE in trouble:
        return f"Unset {CAPABILITY_VARIABLE}, or set it to a compute capability such as 8.9."
    if re.search(r"lib(nvinfer|nvonnxparser|tensorrt)\w*\.so", trouble):
        return (
            "TensorRT's libraries are not found. Install Torch-TensorRT with all that it depends on "
            "(tensorrt-cu13-libs or tensorrt-rtx-cu13-libs holds them), or put their folder on LD_LIBRARY_PATH."
        )
    return f"Run {sys.executable} -c 'import torch_tensorrt' and read its whole output; reinstall what it names."


def _state(found: dict[str, Any]) -> list[Check]:
    checks = [_activation(found)]
    library = found.get("library")
    if library is None:
        checks.append(Check("C++ library", Status.OK, found.get("library_file", "loaded")))
    else:
        checks.append(Check("C++ library", Status.PROBLEM, library, _fix_of_library(library)))
    return checks


def _activation(found: dict[str, Any]) -> Check:
    if found.get("active"):
        return Check("activation", Status.OK, "'import torch_tensorrt' alone has extended Torch-TensorRT")
    refusal = found.get("refusal")
    if refusal is None:
        why, fix = "torch did not call this package", "See the checks of the entry point and the environment above."
    elif "LibraryError" in refusal:
        why, fix = refusal, _fix_of_library(refusal)
    else:
        series = f"torch and Torch-TensorRT have to be {SUPPORTED_SERIES}."
        why, fix = refusal, f"See the checks of versions above: {series}"
    return Check("activation", Status.PROBLEM, why, fix)


def _fix_of_library(problem: str) -> str:
    if "another copy" in problem:
        return "Keep one installation of torch-tensorrt-profiles."
    return "Install torch-tensorrt-profiles again, beside the torch that it is to work with (--no-build-isolation)."


def _gpu(found: dict[str, Any]) -> Check:
    driver = _driver()
    devices = found.get("devices") or []
    if devices:
        shown = ", ".join(f"cuda:{i} {name} ({capability})" for i, (name, capability) in enumerate(devices))
        return Check("GPU", Status.OK, f"{shown}, driver {driver or 'unknown'}, CUDA {found.get('cuda')}")
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if driver is not None and hidden is None:
        return Check(
            "GPU",
            Status.PROBLEM,
            f"torch finds none, but there is an NVIDIA driver, {driver}; torch is built for CUDA {found.get('cuda')}",
            "Update the driver to one for that CUDA version, or install a torch for the driver's.",
        )
    why = f"none visible, CUDA_VISIBLE_DEVICES={hidden!r}" if hidden is not None else "none"
    if found.get("builds_anywhere"):
        use = "programs are built, saved and inspected here, and run elsewhere"
    else:
        use = "saved programs are inspected here, and built elsewhere: TensorRT's builder needs a GPU"
    return Check("GPU", Status.NOTE, f"{why}: {use}")


def _driver() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    words = text.splitlines()[0].split() if text.strip() else []
    return next((word for word in words if word[0].isdigit() and "." in word), "of unknown version")


def _engine(found: dict[str, Any], trouble: str) -> Check:
    name = "small engine"
    result = found.get("engine")
    if result is not None and result["ok"]:
        return Check(name, Status.OK, result["found"])
    if result is not None:
        fix = "Report this with the whole output of 'torchtrtprof doctor --json'."
        return Check(name, Status.PROBLEM, result["found"], fix)
    if trouble:
        return Check(name, Status.PROBLEM, trouble, "Run 'torchtrtprof doctor --no-run' to leave this out.")
    return Check(name, Status.NOTE, found.get("no_engine", "not run"))
