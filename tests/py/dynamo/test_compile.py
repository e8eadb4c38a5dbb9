"""Profiles reach TensorRT's builder: min, opt and max are read back from its IOptimizationProfile objects."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
import torch_tensorrt
from programs import BREAK, TwoInputs, device, export_broken, export_two_inputs
from torch.export import Dim
from torch_tensorrt.dynamo import OptimizationProfile

SHAPES = ("min_shape", "opt_shape", "max_shape")
PREFILL = OptimizationProfile("prefill", {"ids": {"min": (2, 16), "opt": (2, 64), "max": (2, 128)}})
DECODE = OptimizationProfile("decode", {"ids": {1: 1}})


@pytest.fixture
def built(monkeypatch):
    """For every engine that is built, the profiles that reached the builder: [{binding: (min, opt, max)}]."""
    from torch_tensorrt.dynamo.conversion._TRTInterpreter import TRTInterpreter

    engines: list[list[dict[str, tuple]]] = []
    populate = TRTInterpreter._populate_trt_builder_config

    def spy(self, *args, **kwargs):
        config = populate(self, *args, **kwargs)
        network = self.ctx.net
        names = [network.get_input(i).name for i in range(network.num_inputs)]
        engines.append(
            [
                {name: tuple(tuple(shape) for shape in profile.get_shape(name)) for name in names}
                for profile in self.optimization_profiles or []
            ]
        )
        return config

    monkeypatch.setattr(TRTInterpreter, "_populate_trt_builder_config", spy)
    return engines


def both(low, opt, high):
    shape = ((2, low), (2, opt), (2, high))
    return {"ids": shape, "positions": shape}


def test_named_profiles_without_inputs(built, caplog):
    with caplog.at_level(logging.WARNING):
        program = torch_tensorrt.dynamo.compile(
            export_two_inputs(), optimization_profiles=[PREFILL, DECODE], min_block_size=1
        )
    assert built == [[both(16, 64, 128), both(1, 1, 1)]]
    assert torch_tensorrt.runtime.profile_names(program) == ["prefill", "decode"]
    assert not [r for r in caplog.records if "0/1 specialization" in r.getMessage()]


@pytest.mark.parametrize("how", ["inputs", "arg_inputs", "examples", "kwarg_inputs"])
def test_named_profiles_with_inputs(built, how):
    spec = [
        torch_tensorrt.Input(name="ids", dtype=torch.int64),
        torch_tensorrt.Input(name="positions", dtype=torch.int64),
    ]
    example = torch.zeros(2, 8, dtype=torch.int64, device=device())
    given = {
        "inputs": {"inputs": spec},
        "arg_inputs": {"arg_inputs": tuple(spec)},
        "examples": {"arg_inputs": [example, example]},
        "kwarg_inputs": {"arg_inputs": [spec[0]], "kwarg_inputs": {"positions": spec[1]}},
    }[how]
    exported = export_two_inputs()
    if how == "kwarg_inputs":
        seq = torch.export.Dim("seq", min=1, max=128)
        exported = torch.export.export(
            TwoInputs().eval().to(device()),
            (example,),
            {"positions": example.clone()},
            dynamic_shapes={"ids": {1: seq}, "positions": {1: seq}},
        )
    torch_tensorrt.dynamo.compile(exported, **given, optimization_profiles=[PREFILL, DECODE], min_block_size=1)
    assert built == [[both(16, 64, 128), both(1, 1, 1)]]


def test_compile_alone_takes_the_exported_range(built):
    program = torch_tensorrt.dynamo.compile(export_two_inputs(low=10, high=121), min_block_size=1)
    assert built == [[both(10, 65, 121)]]
    assert torch_tensorrt.runtime.profile_names(program) == [""]


def test_front_end_with_an_exported_program_and_nothing_else(built):
    torch_tensorrt.compile(export_two_inputs(), ir="dynamo", min_block_size=1)
    assert built == [[both(1, 64, 128)]]


def test_opt_shape_alone_moves_the_midpoint(built):
    spec = [
        torch_tensorrt.Input(opt_shape=(2, 100), dtype=torch.int64, name="ids"),
        torch_tensorrt.Input(name="positions", dtype=torch.int64),
    ]
    torch_tensorrt.dynamo.compile(export_two_inputs(), inputs=spec, min_block_size=1)
    assert built == [[both(1, 100, 128)]]


def test_mapping_on_input_yields_the_same_names(built):
    ranges = {
        "prefill": {"min": (2, 16), "opt": (2, 64), "max": (2, 128)},
        "decode": {"min_shape": (2, 1), "opt_shape": (2, 1), "max_shape": (2, 1)},
    }
    spec = [torch_tensorrt.Input(profiles=ranges, dtype=torch.int64) for _ in range(2)]
    program = torch_tensorrt.dynamo.compile(export_two_inputs(), inputs=spec, min_block_size=1)
    assert built == [[both(16, 64, 128), both(1, 1, 1)]]
    assert torch_tensorrt.runtime.profile_names(program) == ["prefill", "decode"]


def test_mapping_on_keyword_inputs_of_the_front_end(built):
    """Stock's front end drops keyword inputs of an exported program."""
    seq = torch.export.Dim("seq", min=1, max=64)
    exported = torch.export.export(
        torch.nn.ReLU(),
        kwargs={"input": torch.ones(8, 4, device=device())},
        args=(),
        dynamic_shapes={"input": {0: seq}},
    )
    spec = torch_tensorrt.Input(profiles={"a": {"min": (4, 4), "opt": (8, 4), "max": (16, 4)}, "b": (1, 4)})
    program = torch_tensorrt.compile(exported, ir="dynamo", kwarg_inputs={"input": spec}, min_block_size=1)
    assert torch_tensorrt.runtime.profile_names(program) == ["a", "b"]
    assert [shape[2] for profile in built[0] for shape in profile.values()] == [(16, 4), (1, 4)]


def test_profiles_that_reach_no_engine_are_said_to(caplog):
    with caplog.at_level(logging.WARNING, logger="torch_tensorrt_profiles"):
        torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=[PREFILL, DECODE], min_block_size=99)
    assert "['prefill', 'decode'] have no effect" in caplog.text


def test_graph_break_every_engine_carries_all_profiles(built):
    profiles = [OptimizationProfile("long", {"x": {1: (4, 32, 64)}}), OptimizationProfile("one", {"x": {1: 1}})]
    program = torch_tensorrt.dynamo.compile(export_broken(), optimization_profiles=profiles, **BREAK)
    assert len(built) == 2
    first, second = built
    assert [profile["x"] for profile in first] == [
        ((2, 4, 16), (2, 32, 16), (2, 64, 16)),
        ((2, 1, 16), (2, 1, 16), (2, 1, 16)),
    ]
    (binding,) = second[0]
    assert [tuple(shape[1] for shape in profile[binding]) for profile in second] == [(64, 512, 1024), (16, 16, 16)]
    listed = torch_tensorrt.runtime.optimization_profiles(program)
    assert [[p["name"] for p in engine] for engine in listed.values()] == [["long", "one"]] * 2
    assert listed[next(reversed(listed))][0]["inputs"][binding]["max"][1] == 1024


class Falling(torch.nn.Module):
    """The second engine gets 128 - s, and beside it s unless ``alone``."""

    def __init__(self, alone: bool = False) -> None:
        super().__init__()
        self.alone = alone

    def forward(self, x, cache):
        rest = torch.relu(torch.sin(cache[:, x.shape[1] :] * 2) + 1) * 3
        return rest if self.alone else (rest, torch.relu(torch.sin(x * 2) + 1))


class Between(torch.nn.Module):
    """The second engine gets s - t more than the cache."""

    def forward(self, a, b, cache):
        return torch.relu(torch.sin(torch.cat([cache * 2, a * 3], 1)[:, b.shape[1] :]) + 1) * 3


class Product(torch.nn.Module):
    def forward(self, x):
        return torch.relu(torch.sin(torch.relu(x * 2).reshape(-1)) + 1)


class Found(torch.nn.Module):
    """The second engine gets an axis that data decide."""

    def forward(self, x):
        return torch.relu(x * 2), torch.relu(torch.sin(torch.nonzero(x[0]) * 1.0) + 1) * 3


def second_engine(
    built: list, module: torch.nn.Module, shapes: list[tuple[Any, ...]], *profiles: dict[str, Any]
) -> set[tuple[tuple[int, ...], ...]]:
    """The axis that varies of every binding of the second engine: (min, opt, max) of each profile."""
    dims = [{n: dim for n, dim in enumerate(shape) if not isinstance(dim, int)} or None for shape in shapes]
    examples = [torch.ones([dim if isinstance(dim, int) else 8 for dim in s], device=device()) for s in shapes]
    program = torch.export.export(module.to(device()), tuple(examples), dynamic_shapes=tuple(dims))
    named = [OptimizationProfile(f"p{index}", inputs) for index, inputs in enumerate(profiles)]
    broken = BREAK | {"torch_executed_ops": {"torch.ops.aten.sin.default", "torch.ops.aten.nonzero.default"}}
    compiled = torch_tensorrt.dynamo.compile(program, optimization_profiles=named, **broken)
    listed = torch_tensorrt.runtime.optimization_profiles(compiled)
    assert [[p["name"] for p in engine] for engine in listed.values()] == [[p.name for p in named]] * len(built)
    return {
        tuple(tuple(shape[0 if isinstance(module, (Product, Found)) else 1] for shape in p[name]) for p in built[-1])
        for name in built[-1][0]
    }


S, T = (Dim(name, min=1, max=64) for name in "st")
FALLING = [(2, S), (2, 128)]
BETWEEN = [(2, S), (2, T), (2, 64)]
SMALL = [(2, S), (2, T), (2, 8)]


@pytest.mark.parametrize(
    ("module", "shapes", "profiles", "expected"),
    [
        (
            Falling(),
            FALLING,
            [{"x": {1: (8, 16, 32)}}, {"x": {1: 1}}],
            {((96, 112, 120), (127,) * 3), ((8, 16, 32), (1,) * 3)},
        ),
        (Falling(alone=True), FALLING, [{"x": {1: (8, 16, 32)}}, {"x": {1: 1}}], {((96, 112, 120), (127,) * 3)}),
        (
            Between(),
            BETWEEN,
            [{"a": {1: (1, 16, 60)}, "b": {1: (1, 4, 8)}}, {"a": {1: 1}, "b": {1: 1}}],
            {((57, 76, 123), (64,) * 3)},
        ),
        (Between(), SMALL, [{"a": {1: 1}, "b": {1: (1, 9, 12)}}], {((1, 1, 8),)}),
        (
            Product(),
            [(S, T)],
            [{"x": {0: (4, 5, 9), 1: (2, 5, 10)}}, {"x": {0: 3, 1: (2, 4, 4)}}],
            {((8, 25, 90), (6, 12, 12))},
        ),
        (Found(), [(2, S)], [{"x": {1: (3, 4, 9)}}, {"x": {1: 1}}], {((1, 32, 64),) * 2}),
    ],
    ids=["falling", "falling alone", "s - t", "s - t may be empty", "s * t", "of data"],
)
def test_after_a_graph_break_every_profile_has_its_exact_ranges(built, module, shapes, profiles, expected):
    assert second_engine(built, module, shapes, *profiles) == expected


def test_an_engine_that_would_get_nothing_but_empty_tensors(built):
    with pytest.raises(ValueError, match=r"'p0': inside the program, 'sin'.*never above 0.*axis 1 of 'b'.*at least 1"):
        second_engine(built, Between(), SMALL, {"a": {1: 1}, "b": {1: (9, 9, 12)}})


def test_an_integer_between_engines_may_be_below_one():
    """It is a value, not an extent: TensorRT takes any."""
    from torch_tensorrt_profiles.dynamo._build import _input

    profiles = [{"min_shape": (-1,), "opt_shape": (0,), "max_shape": (4,)}, dict.fromkeys(SHAPES, (7,))]
    spec = _input(profiles, dtype=torch.int64, is_shape_tensor=True)
    assert (spec.profiles, spec.shape["min_shape"], spec.shape["max_shape"]) == (profiles, (-1,), (7,))


class Complex(torch.nn.Module):
    def forward(self, x, y):
        return (x + x) * y


class Rotary(torch.nn.Module):
    """No complex input, but a complex buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("factors", torch.polar(torch.ones(64, 4), torch.ones(64, 4)))

    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(2, -1, 4, 2))
        return torch.view_as_real(pairs * self.factors[: x.shape[1]]).flatten(2) + 1


@pytest.mark.parametrize("function", ["compile", "convert_exported_program_to_serialized_trt_engine"])
@pytest.mark.parametrize("kind", ["input", "buffer"])
def test_lowering_that_fixes_an_axis_is_refused_before_anything_is_built(built, function, kind):
    examples = [torch.ones(2, 8, dtype=torch.complex64, device=device())] * 2
    module, args = (Complex(), examples) if kind == "input" else (Rotary(), [torch.ones(2, 8, 8, device=device())])
    program = torch.export.export(
        module.to(device()), tuple(a.clone() for a in args), dynamic_shapes=({1: Dim("s", min=2, max=64)},) * len(args)
    )
    profiles = [OptimizationProfile("a", {"x": {1: (4, 8, 16)}}), OptimizationProfile("b", {"x": {1: 2}})]
    with pytest.raises(ValueError, match=r"fixed axis 1 of 'x' at 8.*complex.*view_as_real.*Export the program again"):
        getattr(torch_tensorrt.dynamo, function)(program, optimization_profiles=profiles, min_block_size=1)
    assert built == []


def test_a_complex_input_that_lowering_leaves_alone(built):
    class Halves(torch.nn.Module):
        def forward(self, x):
            return torch.relu(torch.view_as_real(x) * 2)

    example = torch.ones(2, 8, dtype=torch.complex64, device=device())
    program = torch.export.export(Halves(), (example,), dynamic_shapes=({1: Dim("s", min=2, max=64)},))
    profiles = [OptimizationProfile("a", {"x": {1: (4, 8, 16)}}), OptimizationProfile("b", {"x": {1: 2}})]
    for _ in range(2):
        torch_tensorrt.dynamo.compile(program, optimization_profiles=profiles, min_block_size=1)
    for ((first, second),) in ([engine] for engine in built):
        assert {shapes[1][1] for shapes in first.values()} == {8}
        assert {shapes[1][1] for shapes in second.values()} == {2}


def test_module_is_exported_over_the_union(built):
    example = torch.zeros(2, 1, dtype=torch.int64, device=device())
    model = TwoInputs().eval().to(device())
    profiles = [
        OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}, "positions": {1: (16, 64, 128)}}),
        OptimizationProfile("decode", {"ids": {1: 1}, "positions": {1: 1}}),
    ]
    program = torch_tensorrt.compile(
        model, ir="dynamo", arg_inputs=[example, example], optimization_profiles=profiles, min_block_size=1
    )
    assert built == [[both(16, 64, 128), both(1, 1, 1)]]
    assert torch_tensorrt.runtime.profile_names(program) == ["prefill", "decode"]


def test_convert_to_serialized_engine(built):
    engine = torch_tensorrt.dynamo.convert_exported_program_to_serialized_trt_engine(
        export_two_inputs(), optimization_profiles=[PREFILL, DECODE], min_block_size=1
    )
    assert isinstance(engine, bytes)
    assert len(engine) > 1000
    assert built == [[both(16, 64, 128), both(1, 1, 1)]]


def test_convert_method_to_trt_engine(built):
    engine = torch_tensorrt.convert_method_to_trt_engine(
        export_two_inputs(), ir="dynamo", optimization_profiles=[PREFILL, DECODE], min_block_size=1
    )
    assert isinstance(engine, bytes)
    assert built == [[both(16, 64, 128), both(1, 1, 1)]]


def test_stock_list_form_is_untouched(built):
    ranges = [
        {"min_shape": (2, 16), "opt_shape": (2, 64), "max_shape": (2, 128)},
        {"min_shape": (2, 1), "opt_shape": (2, 1), "max_shape": (2, 1)},
    ]
    spec = [torch_tensorrt.Input(profiles=ranges, dtype=torch.int64) for _ in range(2)]
    program = torch_tensorrt.dynamo.compile(export_two_inputs(), inputs=spec, min_block_size=1)
    assert built == [[both(16, 64, 128), both(1, 1, 1)]]
    (module,) = [m for m in program.modules() if isinstance(m, torch_tensorrt.dynamo.runtime.TorchTensorRTModule)]
    from torch_tensorrt_profiles._stand_ins import cuda_questions_answered
    from torch_tensorrt_profiles.dynamo import _metadata

    with cuda_questions_answered():
        packed = module._pack_engine_info()
    assert _metadata.read(packed[int(torch.ops.tensorrt.SERIALIZED_METADATA_IDX())]) is None


class TestRefusals:
    def test_refittable(self, built):
        with pytest.raises(ValueError, match=r"immutable_weights=True.*one\s+optimization profile"):
            torch_tensorrt.dynamo.compile(
                export_two_inputs(), optimization_profiles=[PREFILL, DECODE], immutable_weights=False
            )
        assert built == []

    def test_torch_compile_options(self):
        model = torch.compile(torch.nn.Linear(4, 4), backend="tensorrt", options={"optimization_profiles": [DECODE]})
        with pytest.raises(Exception, match=r"torch_tensorrt\.dynamo\.compile\(exported_program"):
            model(torch.ones(1, 4))

    def test_torch_compile_front_end(self):
        with pytest.raises(ValueError, match="not an option of torch.compile"):
            torch_tensorrt.compile(torch.nn.Linear(4, 4), ir="torch_compile", optimization_profiles=[DECODE])

    def test_torchscript(self):
        scripted = torch.jit.script(torch.nn.Linear(4, 4))
        with pytest.raises(ValueError, match="TorchScript front end"):
            torch_tensorrt.compile(scripted, ir="ts", inputs=[torch.ones(1, 4)], optimization_profiles=[DECODE])

    def test_compilation_settings(self):
        from torch_tensorrt.dynamo import CompilationSettings

        with pytest.raises(TypeError, match=r"CompilationSettings.*Pass it to torch_tensorrt\.dynamo\.compile"):
            CompilationSettings(optimization_profiles=[DECODE])

    @pytest.mark.parametrize("compile", [torch_tensorrt.dynamo.compile, torch_tensorrt.compile])
    @pytest.mark.parametrize("keyword", ["optimization_profile", "optimisation_profiles"])
    def test_near_misses_of_the_keyword(self, compile, keyword):
        with pytest.raises(TypeError, match=f"{keyword}.*did you mean 'optimization_profiles'"):
            compile(export_two_inputs(), **{keyword: [DECODE]})

    @pytest.mark.parametrize("profiles", [DECODE, [DECODE], (PREFILL, DECODE)])
    def test_profiles_under_a_keyword_that_stock_drops(self, profiles):
        with pytest.raises(TypeError, match="unknown keyword 'profiles'; did you mean 'optimization_profiles'"):
            torch_tensorrt.dynamo.compile(export_two_inputs(), profiles=profiles)

    def test_profiles_on_input_and_as_keyword(self, built):
        spec = torch_tensorrt.Input(
            profiles=[{"min_shape": (2, 1), "opt_shape": (2, 1), "max_shape": (2, 1)}], dtype=torch.int64
        )
        with pytest.raises(ValueError, match="optimization_profiles"):
            torch_tensorrt.dynamo.compile(
                export_two_inputs(), inputs=[spec, spec], optimization_profiles=[PREFILL, DECODE]
            )
        assert built == []
