"""Whatever is imported first, Torch-TensorRT carries the grafts, under every name, and nothing is left behind."""

from __future__ import annotations

import pytest

SEEN = """
import sys, torch
import torch_tensorrt
from torch_tensorrt_profiles import is_active
from torch_tensorrt.dynamo import OptimizationProfile
import inspect
names = {
    "dynamo.compile": torch_tensorrt.dynamo.compile,
    "_compiler.compile": torch_tensorrt.dynamo._compiler.compile,
    "_compile.dynamo_compile": sys.modules["torch_tensorrt._compile"].dynamo_compile,
    "mutable": sys.modules["torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule"].dynamo_compile,
    "compile": torch_tensorrt.compile,
    "_compile.compile": sys.modules["torch_tensorrt._compile"].compile,
}
report(
    active=is_active(),
    grafted=[n for n, f in names.items() if "optimization_profiles" in inspect.signature(f).parameters],
    all=list(names),
    scope=torch_tensorrt.optimization_profile.__module__ + "/" + torch_tensorrt.runtime.optimization_profile.__name__,
    one_scope=torch_tensorrt.optimization_profile is torch_tensorrt.runtime.optimization_profile,
    ours=torch_tensorrt.optimization_profile.__code__.co_filename,
    cuda_questions=[torch.cuda.current_device.__module__, torch.cuda.get_device_capability.__module__],
    profile=OptimizationProfile.__module__,
)
"""

ORDERS = {
    "torch first": "import torch\nimport torch_tensorrt\n",
    "torch_tensorrt first": "import torch_tensorrt\n",
    "OptimizationProfile first": "from torch_tensorrt.dynamo import OptimizationProfile\n",
    "submodule first": "import torch_tensorrt.dynamo._compiler\n",
    "our package first": "import torch_tensorrt_profiles\nimport torch_tensorrt\n",
    "activate() first": "import torch_tensorrt_profiles\ntorch_tensorrt_profiles.activate()\n",
}


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_activates(run_python, order):
    seen = run_python(ORDERS[order] + SEEN).values
    assert seen["active"]
    assert seen["grafted"] == seen["all"]
    assert seen["one_scope"]
    assert "torch_tensorrt_profiles" in seen["ours"]
    assert seen["cuda_questions"] == ["torch.cuda", "torch.cuda"]
    assert seen["profile"].startswith("torch_tensorrt_profiles")


def test_autoload_off_then_explicit_import(run_python):
    seen = run_python("import torch_tensorrt_profiles\n" + SEEN, TORCH_DEVICE_BACKEND_AUTOLOAD="0").values
    assert seen["active"]
    assert seen["grafted"] == seen["all"]


def test_autoload_off_alone_is_stock(run_python, answer_cuda):
    code = answer_cuda + "import torch_tensorrt, sys\nreport(ours='torch_tensorrt_profiles' in sys.modules)"
    assert run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").values == {"ours": False}


def test_already_imported(run_python, answer_cuda):
    """References taken before activation follow by identity."""
    code = (
        answer_cuda
        + "import torch_tensorrt\nimport torch_tensorrt_profiles\n"
        + SEEN.replace("report(", "questions = 0\nreport(")
    )
    seen = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").values
    assert seen["active"]
    assert seen["grafted"] == seen["all"]
    assert seen["one_scope"]


def test_import_that_fails_half_way(run_python, tmp_path):
    """The stand-ins are taken back, the error is stock's, and torch goes on working."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tensorrt_rtx.py").write_text("raise ImportError('no TensorRT today')\n")
    (broken / "tensorrt.py").write_text("raise ImportError('no TensorRT today')\n")
    code = """
import torch
try:
    import torch_tensorrt
except Exception as error:
    failure = str(error)
import sys
report(failure=failure, imported="torch_tensorrt" in sys.modules, sum=torch.ones(2).sum().item(),
       cuda=[torch.cuda.current_device.__module__, torch.cuda.get_device_capability.__module__])
"""
    seen = run_python(code, path=[broken]).values
    stock = run_python(code, path=[broken], TORCHTRT_PROFILES="0").values
    assert seen["failure"]
    assert seen["failure"] == stock["failure"]
    assert not seen["imported"]
    assert seen["cuda"] == ["torch.cuda", "torch.cuda"]


def test_failed_import_can_be_repeated(run_python, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "packaging.py").write_text("raise ImportError('half-way')\n")
    code = f"""
import sys
try:
    import torch_tensorrt
except ImportError as error:
    assert "half-way" in str(error), error
sys.path.remove({str(broken)!r})
"""
    seen = run_python(code + SEEN, path=[broken]).values
    assert seen["active"]
    assert seen["grafted"] == seen["all"]
