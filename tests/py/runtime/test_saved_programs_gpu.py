"""Programs that cross processes: saved with and without a GPU, loaded on this GPU, profiles and names intact."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_tensorrt
from programs import Broken, TwoInputs
from torch_tensorrt.runtime import optimization_profile, profile_names

pytestmark = pytest.mark.gpu

BUILD = """
import sys, torch, torch_tensorrt
from torch_tensorrt.dynamo import OptimizationProfile
from programs import BREAK, export_broken, export_two_inputs
path, kind = sys.argv[1:]
if kind == "two":
    profiles = [OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}})]
    profiles += [OptimizationProfile("decode", {"ids": {1: 1}})]
    program = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=profiles, min_block_size=1)
else:
    profiles = [OptimizationProfile("prefill", {"x": {1: (4, 32, 64)}}), OptimizationProfile("decode", {"x": {1: 1}})]
    program = torch_tensorrt.dynamo.compile(export_broken(), optimization_profiles=profiles, **BREAK)
if torch.cuda.is_available():
    torch_tensorrt.save(program, path, retrace=False)
else:
    torch_tensorrt.save(program, path)
"""


def build(path: Path, kind: str, **environment: str) -> None:
    tests = str(Path(__file__).parents[1])
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]), **environment}
    done = subprocess.run([sys.executable, "-c", BUILD, str(path), kind], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", ["two", "broken"])
@pytest.mark.parametrize("where", ["without a GPU", "with a GPU"])
def test_saved_and_loaded(tmp_path, kind, where):
    path = tmp_path / "program.ep"
    build(path, kind, **({"CUDA_VISIBLE_DEVICES": ""} if where == "without a GPU" else {}))
    loaded = torch_tensorrt.load(str(path))
    assert profile_names(loaded) == ["prefill", "decode"]
    program = loaded.module()
    assert profile_names(program) == ["prefill", "decode"]
    torch.manual_seed(0)
    reference = (TwoInputs() if kind == "two" else Broken()).eval().cuda()
    for name, seq in (("decode", 1), ("prefill", 40), ("decode", 1)):
        if kind == "two":
            ids = torch.randint(0, 32, (2, seq), device="cuda")
            inputs = (ids, torch.arange(seq, device="cuda").expand(2, seq).contiguous())
        else:
            inputs = (torch.randn(2, seq, 16, device="cuda"),)
        with optimization_profile(program, name):
            torch.testing.assert_close(program(*inputs), reference(*inputs), rtol=2e-2, atol=2e-2)
        with optimization_profile(loaded, name):
            torch.testing.assert_close(program(*inputs), reference(*inputs), rtol=2e-2, atol=2e-2)


def test_loads_in_stock(tmp_path):
    """A program built on a GPU host needs nothing of ours to be loaded and run by index."""
    path = tmp_path / "program.ep"
    build(path, "two")
    code = f"""
import torch, torch_tensorrt, sys
assert "torch_tensorrt_profiles.runtime" not in sys.modules
program = torch_tensorrt.load({str(path)!r}).module()
engine = next(v for m in program.modules() for v in vars(m).values() if isinstance(v, torch.ScriptObject))
assert engine.num_optimization_profiles == 2
engine.set_active_profile(1)
ids = torch.zeros(2, 1, dtype=torch.int64, device="cuda")
print("OUT", tuple(program(ids, ids).shape))
"""
    environment = {**os.environ, "TORCHTRT_PROFILES": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert "OUT (2, 1, 16)" in done.stdout, done.stderr
