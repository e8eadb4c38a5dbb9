"""Profiles reach TensorRT's builder: min, opt and max are read back from its IOptimizationProfile objects."""

from __future__ import annotations

import logging

import pytest
import torch
import torch_tensorrt
from programs import BREAK, TwoInputs, device, export_broken, export_two_inputs
from torch_tensorrt.dynamo import OptimizationProfile

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


def test_an_input_that_profiles_cannot_be_carried_over_to_takes_the_union():
    """Where stock falls back to the union of the profiles for one input of an engine, so does our record."""
    from torch_tensorrt_profiles.dynamo._build import _profiles_of_engine

    one = {"min_shape": (1,), "opt_shape": (1,), "max_shape": (1,)}
    carried = torch_tensorrt.Input(profiles=[one, {**one, "max_shape": (8,)}], name="a")
    union = torch_tensorrt.Input(min_shape=(1,), opt_shape=(2,), max_shape=(9,), name="b")
    record = _profiles_of_engine(("x", "y"), [carried, union, torch_tensorrt.Input((3,), name="c")])
    assert record.ranges[1] == {"a": ((1,), (1,), (8,)), "b": ((1,), (2,), (9,)), "c": ((3,), (3,), (3,))}


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

    def test_profiles_on_input_and_as_keyword(self, built):
        spec = torch_tensorrt.Input(
            profiles=[{"min_shape": (2, 1), "opt_shape": (2, 1), "max_shape": (2, 1)}], dtype=torch.int64
        )
        with pytest.raises(ValueError, match="optimization_profiles"):
            torch_tensorrt.dynamo.compile(
                export_two_inputs(), inputs=[spec, spec], optimization_profiles=[PREFILL, DECODE]
            )
        assert built == []
