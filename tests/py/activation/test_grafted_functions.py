"""Grafted functions are as good citizens as the functions that they replace."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest
import torch
import torch_tensorrt


def _functions():
    runtime_module = torch_tensorrt.dynamo.runtime.TorchTensorRTModule
    return {
        "compile": torch_tensorrt.compile,
        "dynamo.compile": torch_tensorrt.dynamo.compile,
        "convert": torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine,
        "save": torch_tensorrt.save,
        "load": torch_tensorrt.load,
        "optimization_profile": torch_tensorrt.runtime.optimization_profile,
        "encode_metadata": runtime_module.encode_metadata,
        "Input.__init__": torch_tensorrt.Input.__init__,
    }


@pytest.mark.parametrize("name", _functions())
def test_pickle_deepcopy_and_signature(name):
    function = _functions()[name]
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function
    stock = inspect.signature(function.__wrapped__).parameters
    ours = inspect.signature(function).parameters
    assert [p for p in ours if p not in ("optimization_profiles", "fallback")] == list(stock)
    assert function.__name__ == function.__wrapped__.__name__
    assert function.__module__ == function.__wrapped__.__module__
    assert name == "optimization_profile" or function.__doc__ == function.__wrapped__.__doc__


def test_they_go_through_dynamo_and_export():
    class Program(torch.nn.Module):
        def forward(self, x):
            spec = torch_tensorrt.runtime.optimization_profile
            return x + (1 if callable(spec) else 2)

    x = torch.ones(3)
    assert torch.equal(torch.compile(Program(), backend="eager", fullgraph=True)(x), x + 1)
    assert torch.equal(torch.export.export(Program(), (x,)).module()(x), x + 1)
