"""Runs the tests of on_fake_engine/ in a process without Torch-TensorRT."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FAKE = ROOT / "build" / "plain" / "tests" / "core" / "runtime" / "libfake_engine.so"


@pytest.mark.skipif(not FAKE.exists(), reason="the fake engine is not built: make test-core")
def test_on_the_fake_engine():
    environment = {**os.environ, "TORCHTRT_PROFILES": "0", "FAKE_ENGINE_LIBRARY": str(FAKE)}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir", ".", "."],
        cwd=Path(__file__).parent / "on_fake_engine",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
