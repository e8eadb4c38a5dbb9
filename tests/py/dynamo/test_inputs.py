"""The Inputs that a program is compiled with, from its profiles and from what the user gave."""

from __future__ import annotations

from collections import deque, namedtuple
from dataclasses import dataclass
from typing import Any

import exported_programs as programs
import pytest
import torch
import torch_tensorrt
from torch.export import Dim, export
from torch_tensorrt import Input
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt_profiles.dynamo._envelope import Envelope
from torch_tensorrt_profiles.dynamo._inputs import PreparedInputs, needs_resolution, prepare

PREFILL = OptimizationProfile("prefill", {"input_ids": {1: (32, 64, 128)}})
DECODE = OptimizationProfile("decode", {"input_ids": {1: 1}})


def shapes(low: int, opt: int, high: int) -> dict[str, tuple[int, int]]:
    return {"min_shape": (1, low), "opt_shape": (1, opt), "max_shape": (1, high)}


BOTH = [shapes(32, 64, 128), shapes(1, 1, 1)]


def by_name(prepared: PreparedInputs) -> dict[str, Any]:
    return {spec.name: spec for spec in (*prepared.arg_inputs, *prepared.kwarg_inputs.values())}


def test_everything_from_the_program() -> None:
    prepared = prepare(programs.decoder(), [PREFILL, DECODE])
    ids, positions, cache = prepared.arg_inputs
    assert (ids.profiles, positions.profiles, cache.profiles) == (BOTH, BOTH, None)
    assert (ids.name, positions.name, cache.name) == ("input_ids", "position_ids", "cache")
    assert ids.dtype == positions.dtype == torch_tensorrt.dtype.i64
    assert (cache.shape, cache.dtype) == ((1, 8, 4), torch_tensorrt.dtype.f32)
    assert prepared.kwarg_inputs == {}
    assert prepared.resolution.names == ("prefill", "decode")


def test_the_unnamed_profile_carries_our_optimum() -> None:
    """Torch-TensorRT takes the exporter's example for the optimum of an Input without profiles."""
    prepared = prepare(programs.decoder(), None)
    assert prepared.arg_inputs[0].profiles == [shapes(1, 1024, 2048)]
    assert prepared.resolution.names == ("",)


def test_nesting_and_constants_stay_in_place() -> None:
    prepared = prepare(programs.nested(), [OptimizationProfile("p", {"mask": {0: 2, 1: (3, 4, 5)}})])
    batch, scale = prepared.arg_inputs
    assert list(batch) == ["ids"]
    assert [spec.name for spec in batch["ids"]] == ["batch_ids_0", "batch_ids_1"]
    assert isinstance(batch["ids"], list)
    assert scale == 3
    assert list(prepared.kwarg_inputs) == ["mask", "tag"]
    assert prepared.kwarg_inputs["tag"] is None
    expected = [{"min_shape": (2, 3), "opt_shape": (2, 4), "max_shape": (2, 5)}]
    assert batch["ids"][0].profiles == batch["ids"][1].profiles == prepared.kwarg_inputs["mask"].profiles == expected


def test_a_static_program_without_anything() -> None:
    (x,) = prepare(programs.double(None, None), None).arg_inputs
    assert (x.shape, x.profiles, x.name) == ((4, 4), None, "x")


def ids(**options: Any) -> Input:
    return Input(dtype=torch.int64, **options)


@pytest.mark.parametrize(
    "given",
    [
        {"inputs": [ids(), ids(), Input((1, 8, 4))]},
        {"arg_inputs": (ids(name="input_ids"), ids(name="position_ids"))},
        {"inputs": [ids(name="position_ids"), ids(name="input_ids")]},
        {"inputs": ids()},
        {"inputs": [None, ids()]},
        {"inputs": [torch.zeros(1, 7, dtype=torch.int64)] * 2 + [torch.zeros(1, 8, 4)]},
        {"inputs": [Input((1, 7), dtype=torch.int64)]},
        {"inputs": [Input.from_tensor(torch.zeros(1, 1, dtype=torch.int64))]},
        {"kwarg_inputs": {"position_ids": ids(), "cache": torch.zeros(1, 8, 4)}},
        {"inputs": [ids()], "kwarg_inputs": {"cache": Input((1, 8, 4))}},
        {"inputs": [ids(**shapes(1, 4, 128))]},
        {"inputs": [ids(**shapes(1, 4, 128), shared_dims={1: "seq"}), ids(shared_dims={1: "seq"})]},
    ],
)
def test_what_the_user_gives_does_not_change_the_profiles(given: dict[str, Any]) -> None:
    prepared = prepare(programs.decoder(), [PREFILL, DECODE], **given)
    found = by_name(prepared)
    assert found["input_ids"].profiles == found["position_ids"].profiles == BOTH
    assert found["input_ids"].dtype == torch_tensorrt.dtype.i64


def test_properties_of_a_users_input_are_kept_on_a_new_one() -> None:
    own = Input(
        name="tokens",
        dtype=torch.int64,
        format=torch.channels_last,
        tensor_domain=(0, 100),
        shared_dims={0: "b", 1: "s"},
    )
    before = dict(vars(own))
    built = prepare(programs.decoder(), [PREFILL, DECODE], inputs=[own]).arg_inputs[0]
    assert built is not own
    assert (built.name, built.format, built.tensor_domain) == ("tokens", own.format, (0.0, 100.0))
    assert built.shared_dims == {1: "s"}, "axis 0 never varies, and stock refuses to name it"
    assert vars(own) == before


def test_a_complete_static_input_is_passed_on_as_it_is() -> None:
    cache = Input((1, 8, 4), tensor_domain=(0, 5))
    example = torch.zeros(1, 8, 4)
    assert prepare(programs.decoder(), [DECODE], inputs=[None, None, cache]).arg_inputs[2] is cache
    assert prepare(programs.decoder(), [DECODE], kwarg_inputs={"cache": example}).arg_inputs[2] is example
    assert prepare(programs.decoder(), [DECODE], inputs=[None, None, Input(name="cache")]).arg_inputs[2].shape == (
        1,
        8,
        4,
    )


def test_an_input_narrows_and_gives_the_optimum_where_profiles_say_nothing() -> None:
    program = programs.double(Dim("a", max=64), Dim("b", max=64))
    own = Input(min_shape=(2, 3), opt_shape=(4, 5), max_shape=(6, 7))
    (x,) = prepare(program, [OptimizationProfile("p", {"x": {0: 6}})], inputs=[own]).arg_inputs
    assert x.profiles == [{"min_shape": (6, 3), "opt_shape": (6, 5), "max_shape": (6, 7)}]


def test_an_optimum_alone_moves_the_midpoint() -> None:
    prepared = prepare(programs.decoder(), None, inputs=[ids(opt_shape=(1, 100))])
    assert prepared.arg_inputs[1].profiles == [shapes(1, 100, 2048)]


def test_inputs_that_name_their_profiles() -> None:
    own = ids(profiles={"prefill": shapes(32, 64, 128), "decode": (1, 1)}, name="input_ids")
    prepared = prepare(programs.decoder(), None, inputs=[own])
    assert prepared.resolution.names == ("prefill", "decode")
    assert prepared.arg_inputs[0].profiles == prepared.arg_inputs[1].profiles == BOTH


def test_lists_of_profiles_stay_without_names() -> None:
    own = ids(profiles=BOTH)
    prepared = prepare(programs.decoder(), None, inputs=[own, ids()])
    assert prepared.resolution.names == ("", "")
    assert prepared.arg_inputs[1].profiles == BOTH


def test_nested_inputs_of_the_user() -> None:
    program = programs.nested()
    profile = OptimizationProfile("p", {"mask": {1: (3, 4, 5)}})
    own = Input(name="mine", dtype=torch.float32)
    batch, _ = prepare(program, [profile], inputs=[{"ids": (None, own)}, 3]).arg_inputs
    assert [spec.name for spec in batch["ids"]] == ["batch_ids_0", "mine"]
    kwargs = prepare(program, [profile], kwarg_inputs={"mask": own, "batch": {}}).kwarg_inputs
    assert (kwargs["mask"].name, list(kwargs)) == ("mine", ["mask", "tag"])


def test_a_dynamic_integer() -> None:
    class Scale(torch.nn.Module):
        def forward(self, x, n):
            return x * n

    program = export(Scale(), (torch.zeros(4), 5), dynamic_shapes={"x": {0: Dim.AUTO(max=8)}, "n": Dim.DYNAMIC})
    profile = OptimizationProfile("p", {"x": {0: 4}, "n": {0: (1, 2, 9)}})
    _, n = prepare(program, [profile], inputs=[torch.zeros(4), 5]).arg_inputs
    assert (n.is_shape_tensor, n.profiles) == (True, [{"min_shape": (1,), "opt_shape": (2,), "max_shape": (9,)}])
    assert n.dtype == torch_tensorrt.dtype.i64


@pytest.mark.parametrize("given", [None, torch.zeros(3, dtype=torch.complex64), Input((3, 2)), Input(opt_shape=(3,))])
def test_a_complex_input_goes_by_its_real_form(given: Any) -> None:
    program = export(programs.Double(), (torch.zeros(4, dtype=torch.complex64),), dynamic_shapes={"x": {0: Dim.AUTO}})
    (x,) = prepare(program, [OptimizationProfile("p", {"x": {0: (2, 3, 4)}})], inputs=[given]).arg_inputs
    assert x.profiles == [{"min_shape": (2, 2), "opt_shape": (3, 2), "max_shape": (4, 2)}]
    assert x.dtype == torch_tensorrt.dtype.f32
    (named,) = prepare(program, None, inputs=[Input(profiles={"a": (3, 2)})]).arg_inputs
    assert named.profiles == [{"min_shape": (3, 2), "opt_shape": (3, 2), "max_shape": (3, 2)}]


@dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


Named = namedtuple("Named", ["a", "b"])
torch.export.register_dataclass(Pair, serialized_type_name="test_inputs.Pair")


class Sum(torch.nn.Module):
    def forward(self, x, more=None):
        a, b = (x.a, x.b) if isinstance(x, Pair) else x
        return a + b


def summing(*args: Any) -> torch.export.ExportedProgram:
    shapes = torch.export.ShapesCollection()
    for leaf in torch.utils._pytree.tree_leaves(args):
        if isinstance(leaf, torch.Tensor):
            shapes[leaf] = {0: Dim.AUTO(max=64)}
    return export(Sum(), args, dynamic_shapes=shapes.dynamic_shapes(Sum(), args))


@pytest.mark.parametrize(
    ("container", "says"),
    [
        (lambda a, b: (Pair(a, b),), "'x' holds a Pair.*in a dict"),
        (lambda a, b: (deque([a, b]),), "'x' holds a deque"),
        (lambda a, b: ((a, b), {"deep": [Pair(a + 1, b + 1)]}), "'more' holds a Pair"),
        (lambda a, b: ((a, b), "mean"), "'mean', and Torch-TensorRT takes no str.*constructor"),
    ],
)
def test_containers_and_constants_that_torch_tensorrt_does_not_take(container: Any, says: str) -> None:
    with pytest.raises(TypeError, match=says):
        prepare(summing(*container(torch.zeros(4), torch.ones(4))), None)


@pytest.mark.parametrize("container", [Named, lambda a, b: [a, b], lambda a, b: (a, b)])
def test_containers_that_it_takes(container: Any) -> None:
    program = summing(container(torch.zeros(4), torch.ones(4)), 3.5)
    (name, *_) = (spec.path for spec in Envelope.of(program).inputs)
    x, number = prepare(program, [OptimizationProfile("p", {name: {0: (2, 3, 4)}})]).arg_inputs
    assert ([spec.profiles[0]["opt_shape"] for spec in x], number) == ([(3,), (3,)], 3.5)


def test_a_module_is_no_program() -> None:
    with pytest.raises(TypeError, match=r"ExportedProgram is compiled here, found Sum\. Export.*ir='dynamo'"):
        torch_tensorrt.dynamo.compile(Sum(), optimization_profiles=[DECODE])


def test_which_inputs_need_the_program() -> None:
    complete = ids(**shapes(1, 2, 3))
    assert needs_resolution(None, None, None)
    assert not needs_resolution([complete, torch.zeros(1), Input((1, 2))], None, None)
    assert not needs_resolution([ids(profiles=BOTH)], None, {})
    assert not needs_resolution([], None, None)
    assert needs_resolution(None, [{"x": [complete, ids()]}], None)
    assert needs_resolution([complete], None, {"y": ids(opt_shape=(1, 2))})
    assert needs_resolution([ids(profiles={"a": (1, 2)})], None, None)
