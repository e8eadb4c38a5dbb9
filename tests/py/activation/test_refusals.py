"""When we may not or cannot extend Torch-TensorRT, it works as stock and says why."""

from __future__ import annotations

STOCK = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch, torch_tensorrt
ours = [str(w.message) for w in caught if "torch-tensorrt-profiles" in str(w.message)]
import torch_tensorrt_profiles, inspect
try:
    from torch_tensorrt.dynamo import OptimizationProfile
    importable = True
except ImportError:
    importable = False
try:
    torch_tensorrt_profiles.activate()
    raised = None
except torch_tensorrt_profiles.ActivationError as error:
    raised = str(error)
report(warnings=ours, importable=importable, raised=raised, active=torch_tensorrt_profiles.is_active(),
       stock="optimization_profiles" not in inspect.signature(torch_tensorrt.dynamo.compile).parameters,
       runs=torch_tensorrt.Input((1, 2)).shape)
"""


def test_switched_off_by_environment(run_python, answer_cuda):
    seen = run_python(answer_cuda + STOCK, TORCHTRT_PROFILES="0").values
    assert seen["warnings"] == []
    assert not seen["importable"]
    assert seen["stock"]
    assert not seen["active"]
    assert "TORCHTRT_PROFILES=0" in seen["raised"]


def test_wrong_version(run_python, answer_cuda):
    """Stock works, one warning names both versions, OptimizationProfile is absent, activate() raises."""
    # The supported series is moved instead of installing another Torch-TensorRT.
    code = (
        """
import importlib.util, sys
spec = importlib.util.find_spec("torch_tensorrt_profiles")
import os; os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
"""
        + answer_cuda
        + """
import torch_tensorrt_profiles._version as version
version.SUPPORTED_SERIES = "3.0"
import torch_tensorrt_profiles._activate as activation
activation.SUPPORTED_SERIES = "3.0"
"""
        + STOCK
    )
    seen = run_python(code).values
    assert len(seen["warnings"]) == 1
    assert "3.0" in seen["warnings"][0]
    assert "2.14" in seen["warnings"][0]
    assert not seen["importable"]
    assert seen["stock"]
    assert not seen["active"]
    assert "2.14" in seen["raised"]


def test_torch_tensorrt_absent(run_python):
    code = """
import sys, importlib.abc
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torch_tensorrt":
            raise ModuleNotFoundError("No module named 'torch_tensorrt'", name="torch_tensorrt")
sys.meta_path.insert(0, Absent())
import torch, torch_tensorrt_profiles
try:
    torch_tensorrt_profiles.activate()
except torch_tensorrt_profiles.ActivationError as error:
    report(raised=str(error), sum=torch.ones(3).sum().item(), active=torch_tensorrt_profiles.is_active())
"""
    seen = run_python(code).values
    assert "not installed" in seen["raised"]
    assert "pip install" in seen["raised"]
    assert seen["sum"] == 3
    assert not seen["active"]


def test_a_graft_that_fails_leaves_stock(run_python, answer_cuda):
    code = (
        answer_cuda
        + """
import torch_tensorrt_profiles._seams as seams
seams.SEAMS["torch_tensorrt.dynamo._compiler"] = ("torch_tensorrt_profiles._seams:missing",)
"""
        + STOCK
    )
    outcome = run_python(code)
    seen = outcome.values
    assert "could not extend torch_tensorrt.dynamo._compiler" in outcome.stderr
    assert "torch_tensorrt.dynamo._compiler" in seen["raised"]
    assert seen["stock"]
    assert not seen["importable"]


def test_entry_point_never_raises(run_python):
    code = """
import torch_tensorrt_profiles._activate as activation, warnings
def broken(): raise OSError("disk")
activation._install = broken
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    activation.torch_backend_entry_point()
report(said=[str(w.message) for w in caught])
"""
    assert "disk" in run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").values["said"][0]


def test_bad_compute_capability(run_python):
    outcome = run_python("import torch_tensorrt", check=False, TORCHTRT_PROFILES_COMPUTE_CAPABILITY="ninety")
    import torch

    if not torch.cuda.is_available():
        assert outcome.returncode != 0
        assert "TORCHTRT_PROFILES_COMPUTE_CAPABILITY='ninety'" in outcome.stderr
