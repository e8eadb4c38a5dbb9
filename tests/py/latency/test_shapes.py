"""Shapes from the command line, checked against the program and its profiles."""

from __future__ import annotations

import pytest
from torch_tensorrt_profiles.latency._shapes import InputShape, ShapeError, parse_shapes, shapes_for
from torch_tensorrt_profiles.saved._inputs import Extent, ProgramInput

SEQ = Extent("seq", 1, 2048)
INPUTS = [
    ProgramInput("input_ids", "int64", (1, SEQ)),
    ProgramInput("position_ids", "int64", (1, SEQ)),
    ProgramInput("cache", "float16", (1, 8, 64)),
    ProgramInput("scale", "float32", ()),
]
PREFILL = {
    "input_ids": ((1, 32), (1, 1024), (1, 2048)),
    "position_ids": ((1, 32), (1, 1024), (1, 2048)),
    "cache": ((1, 8, 64),) * 3,
}


@pytest.mark.parametrize(
    ("texts", "shapes"),
    [
        ([], {}),
        (["a=1x128"], {"a": (1, 128)}),
        (["a=1x2,b=3", "c=4"], {"a": (1, 2), "b": (3,), "c": (4,)}),
        ([" a=1 , b=scalar ,"], {"a": (1,), "b": ()}),
        (["batch['ids'][0]=2x3"], {"batch['ids'][0]": (2, 3)}),
    ],
)
def test_parsed(texts, shapes):
    assert parse_shapes(texts) == shapes


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "=1",
        "a=",
        "a=x",
        "a=1x",
        "a=1x-2",
        "a=1.5",
        "a=1X2",
        "a=1*2",
        "1x2",
        "a=1 x2",
        "a=\u00b2",
        "a=" + "9" * 5000,
    ],
)
def test_not_a_shape(text):
    with pytest.raises(ShapeError, match="expected NAME=EXTENTxEXTENT"):
        parse_shapes([text])


def test_named_twice():
    with pytest.raises(ShapeError, match="'a' is given two shapes"):
        parse_shapes(["a=1", "a=2"])


def resolved(given, ranges=PREFILL):
    return {entry.name: entry.shape for entry in shapes_for(INPUTS, given, ranges, "profile 'prefill'")}


def test_the_profiles_optimum_by_default():
    assert resolved({}) == {"input_ids": (1, 1024), "position_ids": (1, 1024), "cache": (1, 8, 64), "scale": ()}


def test_data_types_are_the_programs():
    assert shapes_for(INPUTS, {}, PREFILL, "prefill")[2] == InputShape("cache", "float16", (1, 8, 64))


@pytest.mark.parametrize("name", ["input_ids", "position_ids", "0", "1"])
def test_inputs_of_one_symbol_follow(name):
    shapes = resolved({name: (1, 100)})
    assert shapes["input_ids"] == shapes["position_ids"] == (1, 100)


def test_without_a_record_of_the_profile():
    assert resolved({"input_ids": (1, 7)}, {})["position_ids"] == (1, 7)
    with pytest.raises(ShapeError, match="--shapes input_ids="):
        resolved({}, {})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ids": (1, 64)}, "no input 'ids'; its inputs are input_ids (1x1..2048), position_ids"),
        ({"9": (1,)}, "no input '9'"),
        ({"input_ids": (64,)}, "takes 1x1..2048, not 64"),
        ({"input_ids": (2, 64)}, "takes 1x1..2048, not 2x64"),
        ({"input_ids": (1, 4096)}, "takes 1x1..2048, not 1x4096"),
        ({"scale": (1,)}, "takes scalar, not 1"),
        ({"input_ids": (1, 1)}, "1x1 is outside profile 'prefill', which takes 1x32 to 1x2048"),
        ({"input_ids": (1, 64), "position_ids": (1, 65)}, "position_ids axis 1 is 65, but input_ids axis 1 is 64"),
    ],
)
def test_refused(given, says):
    with pytest.raises(ShapeError) as raised:
        resolved(given)
    assert says in str(raised.value)


def test_a_data_type_that_nobody_knows():
    with pytest.raises(ShapeError, match="does not tell its data type"):
        shapes_for([ProgramInput("x", None, (1,))], {}, {}, "profile 0")
