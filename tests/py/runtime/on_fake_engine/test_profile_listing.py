"""``torch.ops.tensorrt.get_optimization_profiles``: the same record that Python reads, from the engine itself."""

from __future__ import annotations

import base64

import pytest
import torch
from torch_tensorrt_profiles.dynamo import _metadata
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles

ops = torch.ops.tensorrt
PROFILES = EngineProfiles(
    ("prefill", 'd\u00e9code "1"'),
    ({"y": ((2,), (3,), (4,)), "x": ((2, 3), (8, 3), (64, 3))}, {"x": ((1, 3), (1, 3), (1, 3))}),
)


def make_engine(count, metadata=""):
    return ops.fake_engine("llm", [[1, 64]] * count, metadata)


def test_names_and_ranges():
    names, indices, inputs, low, opt, high = ops.get_optimization_profiles(
        make_engine(2, _metadata.append("", PROFILES))
    )
    ranges = [{} for _ in names]
    for index, name, *shapes in zip(indices, inputs, low, opt, high, strict=True):
        ranges[index][name] = tuple(map(tuple, shapes))
    assert EngineProfiles(tuple(names), tuple(ranges)) == PROFILES


def test_without_names():
    assert ops.get_optimization_profiles(make_engine(3)) == (["", "", ""], [], [], [], [], [])


def test_a_record_that_does_not_belong():
    engine = make_engine(1, _metadata.append("", PROFILES))
    with pytest.raises(ValueError, match="'llm' holds 1 optimization profile"):
        ops.get_optimization_profiles(engine)
    engine = make_engine(1, base64.b64encode(_metadata.MARK + b"{}").decode())
    with pytest.raises(ValueError, match="'llm': the record of its optimization profiles is damaged"):
        ops.get_optimization_profiles(engine)


@pytest.mark.parametrize("value", [None, 1, "llm", torch.ones(1)])
def test_what_is_no_engine(value):
    with pytest.raises((RuntimeError, TypeError), match="tensorrt.Engine|Engine"):
        ops.get_optimization_profiles(value)
