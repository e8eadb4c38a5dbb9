"""Activation is tested in processes of its own: what is imported first is what is tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Lets stock Torch-TensorRT be imported on a host without a GPU, where it asks for a device while it is imported.
ANSWER_CUDA = """
import torch
if not torch.cuda.is_available():
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.current_device = lambda *a: 0
"""

REPORT = """
import json as _json
def report(**values): print("REPORT" + _json.dumps(values))
"""


class Outcome:
    def __init__(self, completed: subprocess.CompletedProcess[str]) -> None:
        self.returncode = completed.returncode
        self.stdout, self.stderr = completed.stdout, completed.stderr
        lines = [line[len("REPORT") :] for line in completed.stdout.splitlines() if line.startswith("REPORT")]
        self.values: dict[str, object] = json.loads(lines[-1]) if lines else {}


@pytest.fixture
def run_python(tmp_path: Path):
    def run(code: str, *, path: list[Path] | None = None, check: bool = True, **environment: str) -> Outcome:
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*map(str, path or []), os.environ.get("PYTHONPATH", "")]),
            **environment,
        }
        completed = subprocess.run(
            [sys.executable, "-c", REPORT + code],
            capture_output=True,
            text=True,
            env=variables,
            cwd=tmp_path,
            timeout=300,
        )
        outcome = Outcome(completed)
        if check:
            assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome

    return run


@pytest.fixture
def answer_cuda() -> str:
    return ANSWER_CUDA
