"""Torch-TensorRT's place is taken by the GoogleTest tests' fake engine, so that selection runs without a GPU.

The fake registers Torch-TensorRT's own class name, so these tests need a process of their own: test_scopes.py starts it
(``python -m pytest tests/py/runtime/on_fake_engine``).
"""

from __future__ import annotations

import ctypes
import os
import sys
import types

import torch


class TorchTensorRTModule(torch.nn.Module):
    def __init__(self, engine: torch.ScriptObject) -> None:
        super().__init__()
        self.engine = engine
        self.serialized_engine = b""
        self.name = "fake"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.tensorrt.execute_engine([x], self.engine)[0]


class MutableTorchTensorRTModule:
    """Compiles at its first call, and again when it is told to. Grafted below, as Torch-TensorRT's is."""

    def __init__(self, make) -> None:
        self.make, self.gm, self.additional_settings = make, None, {}

    def compile(self) -> None:
        self.gm = self.make()

    def refit_gm(self) -> None:
        raise NotImplementedError

    def _validate_inputs(self) -> None:
        raise NotImplementedError

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.gm is None:
            self.compile()
        return self.gm(x)


def _module(name: str, **members: object) -> None:
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(members)


_module("torch_tensorrt")
_module("torch_tensorrt.dynamo")
_module("torch_tensorrt.dynamo.runtime", TorchTensorRTModule=TorchTensorRTModule)
_module(
    "torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule",
    MutableTorchTensorRTModule=MutableTorchTensorRTModule,
)
ctypes.CDLL(os.environ["FAKE_ENGINE_LIBRARY"])


@torch.library.register_fake("tensorrt::execute_engine")
def _(inputs, engine):
    return [torch.empty_like(tensor) for tensor in inputs]


from torch_tensorrt_profiles import _library  # noqa: E402
from torch_tensorrt_profiles._patching import Patches  # noqa: E402
from torch_tensorrt_profiles.runtime import _mutable_module  # noqa: E402

_library.activate()
_mutable_module.graft(
    sys.modules["torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule"], Patches("torch_tensorrt")
)
