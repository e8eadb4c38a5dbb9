"""Exporting a module over everything that its profiles allow."""

from __future__ import annotations

import io
from typing import Any

import exported_programs as programs
import pytest
import torch
import torch_tensorrt
from torch.export import ExportedProgram
from torch_tensorrt import Input
from torch_tensorrt.dynamo import OptimizationProfile as Profile
from torch_tensorrt_profiles.dynamo._envelope import Envelope
from torch_tensorrt_profiles.dynamo._export import export_over_profiles
from torch_tensorrt_profiles.dynamo._inputs import prepare


class Tokens(torch.nn.Module):
    """Fails on any index that is not one of its 50 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 8)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        hidden = self.embedding(ids) + self.embedding(positions)
        return hidden if mask is None else hidden * mask.unsqueeze(-1)


def tokens(*shape: int) -> torch.Tensor:
    return torch.full(shape, 49, dtype=torch.int64)


def seq(low: int, opt: int, high: int, *names: str) -> dict[str, Any]:
    return {name: {1: (low, opt, high)} for name in names or ("ids", "positions")}


PAIR = [Profile("prefill", seq(32, 64, 128)), Profile("decode", seq(1, 1, 1))]


def ranges(program: ExportedProgram) -> dict[str, list[str]]:
    envelope = Envelope.of(program)
    return {spec.path: [str(envelope.bounds_of(axis)) for axis in spec.axes] for spec in envelope.inputs}


def reloaded(program: ExportedProgram) -> ExportedProgram:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


@pytest.mark.parametrize("length", [1, 2, 16, 128, 4000])
def test_whatever_the_example_the_union_is_exported(length: int) -> None:
    examples = (tokens(1, length), tokens(1, length))
    program = export_over_profiles(Tokens(), examples, None, PAIR)
    assert ranges(program) == {"ids": ["1 to 1", "1 to 128"], "positions": ["1 to 1", "1 to 128"]}
    assert len(Envelope.of(program).symbols) == 1
    for extent in (1, 31, 128):
        assert program.module()(tokens(1, extent), tokens(1, extent)).shape == (1, extent, 8)
    assert prepare(program, PAIR, arg_inputs=examples).resolution.names == ("prefill", "decode")


def test_a_single_example_needs_no_list() -> None:
    program = export_over_profiles(programs.Double(), torch.zeros(2, 4), None, [Profile("p", {"x": {0: (1, 2, 8)}})])
    assert ranges(program) == {"x": ["1 to 8", "4 to 4"]}


def test_values_of_the_example_are_repeated_or_cut() -> None:
    seen = []

    class Spy(torch.nn.Module):
        def forward(self, x):
            return x * 2

    example = torch.arange(3).reshape(1, 3)
    module = Spy()
    export = torch.export.export
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.export, "export", lambda m, args, *a, **k: seen.append(args[0]) or export(m, args, *a, **k))
        export_over_profiles(module, (example,), None, [Profile("p", {"x": {0: (1, 2, 4), 1: (5, 6, 7)}})])
        export_over_profiles(module, (example,), None, [Profile("p", {"x": {1: (1, 2, 2)}})])
    assert seen[0].tolist() == [[0, 1, 2, 0, 1]] * 2
    assert seen[1].tolist() == [[0, 1]]
    assert example.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("read", [lambda p: p, reloaded, lambda p: p.run_decompositions()])
def test_a_minimum_of_one_is_recorded_for_good(read) -> None:
    program = read(export_over_profiles(Tokens(), (tokens(1, 1), tokens(1, 1)), None, PAIR))
    assert ranges(program)["ids"] == ["1 to 1", "1 to 128"]


def test_a_minimum_above_one_is_kept() -> None:
    program = export_over_profiles(Tokens(), (tokens(1, 1),) * 2, None, [Profile("p", seq(2, 3, 9))])
    assert ranges(program)["ids"] == ["1 to 1", "2 to 9"]


def test_a_derived_axis_and_its_minimum() -> None:
    profile = Profile("p", {"a": {0: (1, 4, 8)}, "b": {0: (2, 8, 16)}})
    program = export_over_profiles(programs.Repeat(), (torch.zeros(3), torch.zeros(6)), None, [profile])
    assert ranges(program) == {"a": ["1 to 8"], "b": ["2 to 16"]}


def test_two_axes_of_one_extent_stay_two() -> None:
    profile = Profile("p", {name: {0: (1, 2, 4), 1: (1, 8, 16)} for name in ("ids", "positions", "mask")})
    program = export_over_profiles(Tokens(), (tokens(1, 1),) * 2, {"mask": torch.ones(1, 1)}, [profile])
    assert ranges(program) == {name: ["1 to 4", "1 to 16"] for name in ("ids", "positions", "mask")}
    assert len(Envelope.of(program).symbols) == 2


def test_one_tensor_given_twice_need_not_vary_twice() -> None:
    class Pair(torch.nn.Module):
        def forward(self, x, y):
            return x.sum() + y.sum()

    x = torch.zeros(4)
    program = export_over_profiles(Pair(), (x, x), None, [Profile("p", {"x": {0: (1, 2, 8)}})])
    assert ranges(program) == {"x": ["1 to 8"], "y": ["4 to 4"]}


class Cache(torch.nn.Module):
    """Reads two inputs of one shape, and may write to the first."""

    def __init__(self, writes: bool = False) -> None:
        super().__init__()
        self.writes = writes
        self.register_buffer("state", torch.ones(4))

    def forward(self, ids, k, v):
        if self.writes:
            k.add_(self.state)
        return torch.relu(ids) * 2 + k.sum() - v.sum() * 3


@pytest.mark.parametrize("share", ["object", "storage", "buffer", "Input"])
@pytest.mark.parametrize("writes", [False, True])
def test_inputs_that_share_an_example_stay_two_inputs(share: str, writes: bool) -> None:
    model = Cache(writes)
    one = torch.zeros(8)
    given = {
        "object": (one[:4],) * 2,
        "storage": (one[:4], one[4:]),
        "buffer": (model.state, model.state),
        "Input": (Input((4,)),) * 2,
    }[share]
    profiles = [Profile("a", {"ids": {1: (4, 8, 16)}}), Profile("b", {"ids": {1: 1}})]
    program = export_over_profiles(model, (torch.zeros(2, 8), *given), None, profiles).run_decompositions()
    x, k, v = torch.randn(2, 5), torch.randn(4), torch.randn(4)
    torch.testing.assert_close(program.module()(x, k.clone(), v), model(x, k.clone(), v))


@pytest.mark.parametrize("key", ["batch['ids'][{}]", "batch_ids_{}"])
def test_nested_keyword_and_constant_inputs(key: str) -> None:
    x = torch.zeros(2, 16)
    names = [key.format(0), key.format(1), "mask"]
    program = export_over_profiles(
        programs.Nested(), ({"ids": [x, x]}, 3), {"mask": x, "tag": None}, [Profile("p", seq(1, 8, 64, *names))]
    )
    assert ranges(program) == {name: ["2 to 2", "1 to 64"] for name in ("batch['ids'][0]", "batch['ids'][1]", "mask")}


def test_variable_arguments() -> None:
    class Variable(torch.nn.Module):
        def forward(self, x, *rest, **named):
            return x + rest[0] + rest[1] + named["last"]

    x = torch.zeros(1, 4)
    profile = Profile("p", seq(1, 8, 64, "x", "rest_0", "rest_1", "last"))
    program = export_over_profiles(Variable(), (x, x, x), {"last": x}, [profile])
    assert set(map(tuple, ranges(program).values())) == {("1 to 1", "1 to 64")}


def test_inputs_without_shapes_take_them_from_the_profiles() -> None:
    whole = {name: {"min": (1, 1), "opt": (1, 8), "max": (1, 16)} for name in ("ids", "positions")}
    specs = (Input(dtype=torch.int64), Input(dtype=torch.int64, opt_shape=(1, 8)))
    program = export_over_profiles(Tokens(), specs, None, [Profile("p", whole)])
    assert ranges(program)["ids"] == ["1 to 1", "1 to 16"]


def test_such_a_profile_may_quote_its_paths_either_way() -> None:
    class Keyed(torch.nn.Module):
        def forward(self, d):
            return d["it's"] * 2

    profile = Profile("p", {"d['it\\'s']": {"min": (1, 1), "opt": (1, 8), "max": (1, 16)}})
    program = export_over_profiles(Keyed(), ({"it's": Input(dtype=torch.float32)},), None, [profile])
    assert list(ranges(program).values()) == [["1 to 1", "1 to 16"]]


def test_inputs_with_ranges_and_axis_names() -> None:
    spec = Input(min_shape=(1, 1), opt_shape=(1, 8), max_shape=(1, 64), dtype=torch.int64, shared_dims={1: "seq"})
    profiles = [Profile("p", {"ids": {1: (4, 5, 6)}})]
    program = export_over_profiles(Tokens(), (spec, spec), None, profiles)
    assert ranges(program) == {"ids": ["1 to 1", "1 to 64"], "positions": ["1 to 1", "1 to 64"]}
    assert len(Envelope.of(program).symbols) == 1


def test_a_shared_name_with_two_ranges() -> None:
    specs = [Input(dtype=torch.int64, opt_shape=(1, 8), shared_dims={1: "seq"}) for _ in range(2)]
    profile = Profile("p", {"ids": {1: (1, 2, 3)}, "positions": {1: (1, 2, 4)}})
    with pytest.raises(
        ValueError, match=r"axis 1 of 'ids' and axis 1 of 'positions' are both called 'seq'.*1 to 3 and 1 to 4"
    ):
        export_over_profiles(Tokens(), specs, None, [profile])


@pytest.mark.parametrize("decode", [(1, 1, 1), (1, 4, 8), (4, 8, 32)])
def test_axes_that_the_module_makes_one_need_one_range(decode: tuple[int, int, int]) -> None:
    """Profile a gives all three, profile b only the mask."""
    x = torch.zeros(2, 8)
    names = ("batch['ids'][0]", "batch['ids'][1]", "mask")
    profiles = [Profile("a", seq(4, 8, 16, *names)), Profile("b", {"mask": {-1: decode}})]
    with pytest.raises(
        ValueError, match=r"one extent.*Name axis 1 of .batch\['ids'\]\[0\].*\[1\].* in profile 'b'"
    ) as e:
        export_over_profiles(programs.Nested(), ({"ids": [x, x]}, 3), {"mask": x, "tag": None}, profiles)
    assert f"axis 1 of 'mask' ({min(4, decode[0])} to {max(16, decode[2])})" in str(e.value)
    assert "(4 to 16)" in str(e.value)
    assert "profile 'a'" not in str(e.value)


def test_axes_that_the_module_makes_one_and_inputs_with_ranges() -> None:
    spec = Input(min_shape=(1, 1), opt_shape=(1, 8), max_shape=(1, 64), dtype=torch.int64)
    profile = Profile("p", seq(4, 8, 16, "positions"))
    with pytest.raises(ValueError, match=r"'ids' \(1 to 64\).*same range.*Name axis 1 of 'ids' in profile 'p'"):
        export_over_profiles(Tokens(), (spec, tokens(1, 8)), None, [profile])


def test_a_module_that_takes_less_than_the_profiles_ask_for() -> None:
    """That is left to resolving the profiles, which says what was exported."""

    class Narrow(torch.nn.Module):
        def forward(self, x, y):
            torch._check(x.shape[0] >= 6)
            return (x + y)[5:] * 2

    profiles = [Profile("a", {name: {0: (2, 8, 16)} for name in "xy"})]
    program = export_over_profiles(Narrow(), (torch.zeros(8),) * 2, None, profiles)
    with pytest.raises(ValueError, match=r"\(2, 8, 16\) given, but the axis is \d+ to 16, as exported"):
        prepare(program, profiles)


@pytest.mark.parametrize("length", [16, 4000])
def test_an_input_that_no_profile_names_does_not_freeze_the_rest_silently(length: int) -> None:
    with pytest.raises(ValueError, match=r"axis 1 of 'ids'.*[Nn]ame every input"):
        export_over_profiles(Tokens(), (tokens(1, length),) * 2, None, [Profile("p", seq(1, 8, 64, "ids"))])


def test_a_module_that_needs_one_size() -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x.reshape(4, 4)

    with pytest.raises(ValueError, match="the module fixes axis 0 of 'x' at 16, where the profiles vary it"):
        export_over_profiles(Fixed(), (torch.zeros(16),), None, [Profile("p", {"x": {0: (1, 2, 64)}})])


BAD: list[tuple[Any, list[Any], str]] = [
    ((tokens(1, 16),) * 2, [], "optimization_profiles is empty"),
    ((tokens(1, 16),) * 2, [Profile("p", {"idz": {1: 1}})], "'p', input 'idz'.*Did you mean 'ids'"),
    ((tokens(1, 16),) * 2, [Profile("p", {"ids": {2: 1}})], "'p', input 'ids', axis 2"),
    ((tokens(1, 16),) * 2, [Profile("p", {"ids": (1, 2, 3)})], r"'p', input 'ids': \(1, 2, 3\) has 3 axes"),
    (
        (tokens(1, 16),) * 2,
        [Profile("p", {"ids": {1: 1}})],
        "'p', input 'ids', axis 1: always 1, but the example input has 16",
    ),
    ((Input(dtype=torch.int64), tokens(1, 16)), PAIR, "Input for 'ids' has no shape.*example tensor"),
    (
        (Input(dtype=torch.int64, profiles={"a": (1, 2)}), tokens(1, 16)),
        PAIR,
        "Input for 'ids' has profiles.*one place",
    ),
]


@pytest.mark.parametrize(("examples", "profiles", "says"), BAD)
def test_bad_profiles_and_examples(examples: Any, profiles: list[Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        export_over_profiles(Tokens(), examples, None, profiles)


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ({}, {}, r"takes \(ids.*missing a required argument: 'ids'\. Give.*arg_inputs.*opt_shape"),
        ({"arg_inputs": [tokens(1, 4)] * 4}, {}, "too many positional arguments"),
        ({"inputs": [tokens(1, 4)] * 2}, {"maks": tokens(1, 4)}, "unexpected keyword argument 'maks'"),
    ],
)
def test_inputs_that_do_not_fit_the_module(args: dict[str, Any], kwargs: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        torch_tensorrt.compile(Tokens(), ir="dynamo", **args, kwarg_inputs=kwargs, optimization_profiles=PAIR)


def test_a_module_quantized_by_modelopt_is_left_to_the_user() -> None:
    quantizer = type("TensorQuantizer", (torch.nn.Module,), {"__module__": "modelopt.torch.quantization.nn"})
    with pytest.raises(ValueError, match=r"ModelOpt.*export_torch_mode"):
        export_over_profiles(
            torch.nn.Sequential(quantizer()), (torch.zeros(1),), None, [Profile("p", {"input": {0: 1}})]
        )


def test_errors_of_the_module_itself_come_through() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        export_over_profiles(Broken(), (torch.zeros(4),), None, [Profile("p", {"x": {0: (1, 2, 8)}})])
