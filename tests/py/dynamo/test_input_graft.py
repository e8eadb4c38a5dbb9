"""torch_tensorrt.Input with named profiles and without shapes, and stock's own Inputs left alone."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import textwrap
from collections import namedtuple
from typing import Any

import pytest
import torch
import torch_tensorrt
from torch_tensorrt import Input
from torch_tensorrt.ts._Input import TorchScriptInput
from torch_tensorrt_profiles.dynamo._input_graft import is_incomplete, profile_names

Shape = namedtuple("Shape", ["batch", "seq"])
RANGE = {"min_shape": (1, 8), "opt_shape": (1, 16), "max_shape": (1, 32)}
ONE = {"min_shape": (1, 1), "opt_shape": (1, 1), "max_shape": (1, 1)}


@pytest.mark.parametrize(
    "profiles",
    [
        {"prefill": RANGE, "decode": ONE},
        {"prefill": {"min": (1, 8), "opt": [1, 16], "max": torch.Size([1, 32])}, "decode": (1, 1)},
    ],
)
def test_a_mapping_of_profiles_is_the_list_plus_names(profiles: dict[str, Any]) -> None:
    mapping = Input(profiles=profiles, dtype=torch.int64, name="x", shared_dims={1: "seq"})
    listed = Input(profiles=[RANGE, ONE], dtype=torch.int64, name="x", shared_dims={1: "seq"})
    assert mapping.profile_names == ("prefill", "decode")
    assert (mapping.profiles, mapping.shape, mapping.shared_dims) == (listed.profiles, listed.shape, {1: "seq"})
    assert str(mapping) == str(listed)
    assert profile_names(listed) is None


def test_named_tuples_in_a_mapping_name_the_axes_that_vary() -> None:
    spec = Input(profiles={"a": {"min": Shape(1, 8), "opt": Shape(1, 9), "max": Shape(1, 9)}, "b": Shape(1, 1)})
    assert spec.shared_dims == {1: "seq"}
    assert {type(shape) for profile in spec.profiles for shape in profile.values()} == {tuple}


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"profiles": {}}, ValueError, "empty"),
        ({"profiles": {"auto": RANGE}}, ValueError, "'auto'"),
        ({"profiles": {1: RANGE}}, TypeError, "string"),
        ({"profiles": {"a": {1: 4}}}, ValueError, "'a': an Input needs whole shapes"),
        ({"profiles": {"a": {"min": (1, 1)}}}, ValueError, "'a': opt_shape and max_shape missing"),
        ({"profiles": {"a": {**RANGE, "opt_shape": (1, 64)}}}, ValueError, "'a', axis 1: opt 64 is larger than max 32"),
        ({"profiles": {"a": (1, 2), "b": (1, 2, 3)}}, ValueError, "same number of dimensions"),
        ({"profiles": {"a": RANGE}, "opt_shape": (1, 2)}, ValueError, "mutually exclusive"),
        ({"profiles": {"a": Shape(1, 2), "b": Shape(1, 3)}, "shared_dims": {1: "s"}}, ValueError, "in one place"),
        ({"opt_shape": (1, 0)}, ValueError, "axis 1: opt_shape is 0"),
        ({"opt_shape": 4}, TypeError, "opt_shape has to be a tuple"),
        ({"opt_shape": Shape(1, 2), "shared_dims": {1: "s"}}, ValueError, "in one place"),
        ({"name": "x", "shared_dims": {-1: "s"}}, ValueError, "-1: 's'"),
        ({"name": "x", "shared_dims": [1]}, TypeError, "mapping"),
    ],
)
def test_refused(options: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Input(**options)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((), {}),
        ((), {"min_shape": (1,), "max_shape": (2,)}),
        ((), {"min_shape": (1,)}),
        ((), {"max_shape": (2,), "name": "x"}),
        ((), {"shpae": (1, 2)}),
        ((), {"min_shpe": (1,), "opt_shape": (2,), "max_shpe": (3,)}),
        ((), {"name": "x", "dtpye": torch.int64}),
    ],
)
def test_what_stock_refuses_otherwise_is_still_refused(args: tuple[Any, ...], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Missing required arguments"):
        Input(*args, **options)


def test_a_torchscript_input_still_needs_its_shape() -> None:
    with pytest.raises(ValueError, match="Missing required arguments"):
        TorchScriptInput(dtype=torch.float32)


INCOMPLETE = [
    {"name": "ids", "dtype": torch.int64},
    {"opt_shape": (1, 16)},
    {"opt_shape": [1, 16], "name": "ids", "dtype": torch.int64, "shared_dims": {1: "seq"}},
    {"dtype": torch.float16, "profiles": None},
    {"name": "n", "dtype": torch.int64, "is_shape_tensor": True},
]


@pytest.mark.parametrize("options", INCOMPLETE)
def test_an_incomplete_input_shows_copies_and_pickles(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    spec = Input(**options)
    assert is_incomplete(spec)
    assert "no shape yet" in repr(spec) == str(spec)
    for other in (copy.copy(spec), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert vars(other) == vars(spec)
        assert is_incomplete(other)
    assert {type(value).__module__.split(".")[0] for value in vars(spec).values()} <= {"builtins", "torch_tensorrt"}
    assert not caplog.records


USES = [
    lambda spec: spec.shape,
    lambda spec: spec.shape_mode,
    lambda spec: spec.torch_tensor,
    lambda spec: spec.example_tensor("opt_shape"),
    lambda spec: Input.equivalent_spec(spec, spec),
    lambda spec: torch_tensorrt.dynamo.utils.input_is_dynamic([spec]),
    lambda spec: torch_tensorrt.dynamo.utils.get_torch_inputs([spec], "cpu"),
]


@pytest.mark.parametrize("use", USES)
def test_using_an_incomplete_input_where_a_shape_is_needed_says_so(use: Any) -> None:
    with pytest.raises(ValueError, match=r"Input\(name='ids'.* has no (shape|shape_mode|torch_tensor) yet.*min_shape"):
        use(Input(name="ids", dtype=torch.int64))


def test_class_attributes_read_as_in_stock() -> None:
    assert (Input.shape, Input.shape_mode, Input.torch_tensor) == (None, None, None)
    bare = Input.__new__(Input)
    assert (bare.shape, bare.shape_mode, bare.torch_tensor) == (None, None, None)


STOCK_INPUTS = textwrap.dedent(
    """
    import inspect, torch, torch_tensorrt_profiles, torch_tensorrt
    from torch_tensorrt import Input

    S = {"min_shape": (1, 2), "opt_shape": (1, 3), "max_shape": (1, 4)}

    def shown():
        specs = [
            Input((1, 2)), Input([1, 2], dtype=torch.int64), Input(shape=torch.Size([1])), Input(**S, name="x"),
            Input(**S, format=torch.channels_last, tensor_domain=(0, 9), shared_dims={1: "seq"}),
            Input(profiles=[S, S], dtype=torch.float16), Input(shape=(1,), shape_ranges=[((1,), (2,), (3,))]),
            Input.from_tensor(torch.zeros(2)), Input(**S, is_shape_tensor=True, dtype=torch.int64),
        ]
        texts = [(str(s), repr(s), sorted(vars(s)), str(s.shape_mode), str(s.shape)) for s in specs]
        return [*texts, str(inspect.signature(Input.__init__)), str(inspect.signature(Input))]

    ours, init = shown(), Input.__init__
    torch_tensorrt_profiles.deactivate()
    assert Input.__init__ is not init
    stock = shown()
    assert ours == stock, (ours, stock)
    print(len(stock))
    """
)


def test_stock_inputs_are_byte_for_byte_what_they_are_without_this_package() -> None:
    """The engine cache keys on str(Input). Stock does not import without a GPU, so the graft is undone instead."""
    done = subprocess.run([sys.executable, "-c", STOCK_INPUTS], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["11"]), done.stderr


def test_grafted_methods_pickle_copy_and_keep_their_signatures() -> None:
    for method in (Input.__init__, Input.__str__):
        assert pickle.loads(pickle.dumps(method)) is method
        assert copy.deepcopy(method) is method
        assert inspect.signature(method) == inspect.signature(method.__wrapped__)
        assert method.__doc__ == method.__wrapped__.__doc__


def test_pickles_are_plain_for_a_process_without_this_package() -> None:
    named = pickle.dumps(Input(profiles={"a": RANGE}))
    assert b"torch_tensorrt_profiles" not in named
    assert b"torch_tensorrt_profiles" not in pickle.dumps(Input(name="x", opt_shape=(1, 2)))
    assert profile_names(pickle.loads(named)) == ("a",)
