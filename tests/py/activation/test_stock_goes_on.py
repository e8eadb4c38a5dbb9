"""What stock and others do with Torch-TensorRT's modules works as before."""

from __future__ import annotations

import os
import subprocess
import sys


def test_submodules_run_as_scripts():
    command = [sys.executable, "-m", "torch_tensorrt.distributed.run", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


def test_reload_keeps_the_graft(run_python):
    code = """
import importlib, inspect, torch_tensorrt
import torch_tensorrt.dynamo._compiler as compiler
from torch_tensorrt_profiles import deactivate
importlib.reload(compiler)
kept = "optimization_profiles" in inspect.signature(compiler.compile).parameters
deactivate()
report(kept=kept, left="optimization_profiles" in inspect.signature(compiler.compile).parameters)
"""
    assert run_python("import torch\ntorch.cuda.current_device = lambda *a: 0\n" + code).values == {
        "kept": True,
        "left": False,
    }


def test_deactivate_leaves_the_patches_of_others(run_python):
    code = """
import torch_tensorrt, torch_tensorrt_profiles
import torch_tensorrt.dynamo._compiler as compiler
def mine(*args, ours=compiler.compile, **kwargs):
    return ours(*args, **kwargs)
compiler.compile = mine
torch_tensorrt_profiles.deactivate()
report(kept=compiler.compile is mine)
"""
    assert run_python(code).values == {"kept": True}


def test_a_refusal_is_no_error_where_warnings_are(run_python, answer_cuda):
    code = (
        """
import os; os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
"""
        + answer_cuda
        + """
import torch_tensorrt_profiles._version as version
version.SUPPORTED_SERIES = "3.0"
import warnings, torch_tensorrt_profiles._activate as activation
warnings.simplefilter("error", RuntimeWarning)
import torch_tensorrt
report(refused=activation.refusal() is not None)
"""
    )
    outcome = run_python(code)
    assert outcome.values == {"refused": True}
    assert "torch-tensorrt-profiles" in outcome.stderr


def test_a_child_called_optimization_profile_is_itself(run_python):
    code = """
import torch, torch_tensorrt
class M(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.optimization_profile = torch.nn.Linear(4, 4)
    def forward(self, x): return self.optimization_profile(x)
traced = torch.fx.symbolic_trace(M())
other = torch.fx.symbolic_trace(torch.nn.ReLU())
report(shape=list(traced(torch.ones(1, 4)).shape), method=callable(other.optimization_profile))
"""
    assert run_python(code).values == {"shape": [1, 4], "method": True}
