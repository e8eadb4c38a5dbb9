"""OptimizationProfile: the forms it accepts, and what kind of value it is. test_bad_input.py has what it refuses."""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple

import numpy as np
import pytest
import torch
from torch_tensorrt_profiles.dynamo import OptimizationProfile
from torch_tensorrt_profiles.dynamo._optimization_profile import AxisRanges, Extents, ShapeRange

Shape = namedtuple("Shape", ["batch", "seq"])

PREFILL = {"input_ids": {"min_shape": (1, 32), "opt_shape": (1, 1024), "max_shape": (1, 2048)}}


@pytest.mark.parametrize(
    "spec",
    [
        {"min_shape": (1, 32), "opt_shape": (1, 64), "max_shape": (1, 128)},
        {"min": (1, 32), "opt": (1, 64), "max": (1, 128)},
        {"min": (1, 32), "opt_shape": (1, 64), "max": (1, 128)},
        {"max": [1, 128], "min": torch.Size([1, 32]), "opt": (1, 64)},
        {"min": Shape(1, 32), "opt": Shape(1, 64), "max": Shape(1, 128)},
        {"min": (np.int64(1), np.uint8(32)), "opt": (1, torch.tensor(64)), "max": (np.int32(1), np.array(128))},
    ],
)
def test_whole_shapes(spec: object) -> None:
    parsed = OptimizationProfile("p", {"x": spec}).inputs["x"]
    assert parsed == ShapeRange((1, 32), (1, 64), (1, 128))
    assert isinstance(parsed, ShapeRange)
    assert {type(extent) for shape in (parsed.min, parsed.opt, parsed.max) for extent in shape} == {int}
    assert {type(shape) for shape in (parsed.min, parsed.opt, parsed.max)} == {tuple}


@pytest.mark.parametrize("shape", [(1, 16), [1, 16], torch.Size([1, 16]), Shape(1, 16), (np.int64(1), 16)])
def test_plain_shape_is_minimum_optimum_and_maximum(shape: object) -> None:
    assert OptimizationProfile("p", {"x": shape}).inputs["x"] == ShapeRange((1, 16), (1, 16), (1, 16))


def test_scalar_input_has_an_empty_shape() -> None:
    assert OptimizationProfile("p", {"x": ()}).inputs["x"] == ShapeRange((), (), ())


@pytest.mark.parametrize(
    ("spec", "ranges"),
    [
        ({1: 1}, ((1, Extents(1, 1, 1)),)),
        ({1: (1, 8, 16)}, ((1, Extents(1, 8, 16)),)),
        ({-1: [1, 8, 16], 0: np.int64(2)}, ((-1, Extents(1, 8, 16)), (0, Extents(2, 2, 2)))),
        ({np.int64(2): torch.tensor(4)}, ((2, Extents(4, 4, 4)),)),
    ],
)
def test_by_axis(spec: object, ranges: object) -> None:
    assert OptimizationProfile("p", {"x": spec}).inputs["x"] == AxisRanges(ranges)


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "Auto", "x" * 64])
def test_names_that_are_allowed(name: str) -> None:
    assert OptimizationProfile(name, PREFILL).name == name


def test_equality_and_hash_go_by_meaning() -> None:
    shapes = {"a": (1, 16), "b": {1: (1, 2, 3)}}
    same = {"b": {np.int64(1): [1, 2, 3]}, "a": {"min": (1, 16), "opt": (1, 16), "max": (1, 16)}}
    assert OptimizationProfile("p", shapes) == OptimizationProfile("p", same)
    assert hash(OptimizationProfile("p", shapes)) == hash(OptimizationProfile("p", same))
    assert OptimizationProfile("p", shapes) != OptimizationProfile("P", shapes)
    assert OptimizationProfile("p", shapes) != OptimizationProfile("p", {"a": (1, 16)})
    assert OptimizationProfile("p", shapes) != "p"


def test_later_changes_to_what_it_was_made_from_do_not_reach_it() -> None:
    shape = [1, 32]
    spec = {"min": shape, "opt": shape, "max": shape}
    inputs = {"x": spec}
    profile = OptimizationProfile("p", inputs)
    before = hash(profile)
    shape[1] = 99
    spec["max"] = [7, 7]
    inputs["y"] = {1: 1}
    assert (dict(profile.inputs), hash(profile)) == ({"x": ShapeRange((1, 32), (1, 32), (1, 32))}, before)


def test_frozen_all_the_way_down() -> None:
    profile = OptimizationProfile("p", {**PREFILL, "mask": {1: 1}})
    with pytest.raises(AttributeError, match="immutable"):
        profile.name = "q"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        del profile.name
    with pytest.raises(AttributeError):
        profile.extra = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        profile.inputs["x"] = (1,)  # type: ignore[index]
    with pytest.raises(AttributeError):
        profile.inputs["input_ids"].min = (1, 1)
    with pytest.raises(AttributeError):
        profile.inputs["mask"].ranges = ()


def test_survives_pickle_copy_and_its_own_repr() -> None:
    profile = OptimizationProfile("p", {**PREFILL, "mask": {-1: (1, 2, 3), 0: 4}, "x": (1, 16)})
    assert pickle.loads(pickle.dumps(profile)) == profile
    assert copy.copy(profile) == copy.deepcopy(profile) == profile
    assert eval(repr(profile)) == profile


def test_ranges_of_one_profile_can_be_given_to_another() -> None:
    profile = OptimizationProfile("p", {**PREFILL, "mask": {1: (1, 2, 3)}})
    assert OptimizationProfile("q", profile.inputs).inputs == profile.inputs


def test_hand_made_ranges_are_checked_too() -> None:
    with pytest.raises(ValueError, match="axis 0: min 3 is larger than opt 2"):
        OptimizationProfile("p", {"x": ShapeRange((3,), (2,), (4,))})
    with pytest.raises(ValueError, match="axis 1: min is 0"):
        OptimizationProfile("p", {"x": AxisRanges(((1, Extents(0, 0, 0)),))})
