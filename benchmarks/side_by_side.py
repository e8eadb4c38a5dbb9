"""Measuring stock Torch-TensorRT and ours side by side: processes that answer requests in turns, and a report's head.

Not a benchmark itself. A measured process calls :func:`serve_requests`; the one that measures it holds a
:class:`Process`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KINDS = ("stock", "ours")


# In a measured process


def check_kind(kind: str) -> None:
    """Ends the process if our package is active in a stock one, or not in one of ours."""
    import torch
    import torch_tensorrt  # noqa: F401, it activates our package

    ours = hasattr(torch.ops.tensorrt, "set_profile_execution")
    if ours != (kind == "ours"):
        raise RuntimeError(f"a process that is to be {kind} has torch-tensorrt-profiles {'on' if ours else 'off'}")


def versions() -> dict[str, Any]:
    import torch
    import torch_tensorrt

    return {
        "gpu": torch.cuda.get_device_name(),
        "compute_capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "torch": torch.__version__,
        "torch_tensorrt": torch_tensorrt.__version__,
        "tensorrt": getattr(sys.modules.get("tensorrt"), "__version__", None),
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
    }


def take_over_output() -> Any:
    """Where answers go: what was standard output, which whatever else is printed must not get between."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def serve_requests(answers: Any, answer: Callable[[dict[str, Any]], Any]) -> None:
    """Says the versions, then answers requests, one JSON line each, until there are no more."""
    gc.collect()
    gc.freeze()
    gc.disable()
    print(json.dumps(versions()), file=answers)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers)


# In the process that measures the others


class Process:
    """A measured process of one kind: ``script --serve KIND OPTIONS...``."""

    def __init__(self, script: str, kind: str, *options: str) -> None:
        environment = {**os.environ, "TORCHTRT_PROFILES": "0" if kind == "stock" else "1"}
        self.kind = kind
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, it is the child's
        self._child = subprocess.Popen(
            [sys.executable, script, "--serve", kind, *options],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            bufsize=1,
        )

    def answer(self) -> Any:
        line = self._child.stdout.readline()
        if not line:
            self._child.wait()
            self._log.seek(0)
            raise SystemExit(f"a {self.kind} process ended with {self._child.returncode}:\n{self._log.read()[-6000:]}")
        return json.loads(line)

    def ask(self, **request: Any) -> Any:
        with contextlib.suppress(BrokenPipeError):  # answer() says why
            print(json.dumps(request), file=self._child.stdin, flush=True)
        return self.answer()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def output_of(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def git_revision() -> str | None:
    folder = str(Path(__file__).resolve().parent)
    revision = output_of("git", "-C", folder, "rev-parse", "HEAD")
    if revision and output_of("git", "-C", folder, "status", "--porcelain", "--untracked-files=no"):
        revision += " (changed)"
    return os.environ.get("GIT_REVISION") or revision


def driver_version() -> str | None:
    said = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    if said:
        return said.splitlines()[0]
    file = Path("/proc/driver/nvidia/version")
    return file.read_text().splitlines()[0] if file.is_file() else None


def about(versions: dict[str, Any]) -> dict[str, Any]:
    """What a report says of where it was made."""
    return {
        **versions,
        "driver": driver_version(),
        "cpu": next(
            (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").open() if line.startswith("model name")),
            None,
        ),
        "revision": git_revision(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def headline(report: dict[str, Any]) -> str:
    return (
        f"{report['gpu']}, driver {report['driver']}, revision {report['revision']}\n"
        f"torch {report['torch']}, Torch-TensorRT {report['torch_tensorrt']}, TensorRT {report['tensorrt']}, kernel "
        f"specialization {report['dynamic_shapes_kernel_specialization_strategy']!r}"
    )


def write(report: dict[str, Any], output: Path | None) -> None:
    """As JSON, with a row of samples on a line, in one step: a file that is there is whole."""
    if output is None:
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    text = re.sub(r"\[\s+([-\d.,\s]+?)\s+\]", lambda row: f"[{' '.join(row[1].split())}]", json.dumps(report, indent=1))
    new = output.with_name(output.name + ".new")
    new.write_text(text + "\n")
    new.replace(output)
