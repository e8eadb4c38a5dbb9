"""``torchtrtprof run`` without a GPU: what it refuses, and in which order."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner
from torch_tensorrt_profiles.cli import _run, main
from torch_tensorrt_profiles.latency._load import (
    LoadedProgram,
    LoadError,
    _inputs_of_engine,
    _script_inputs,
    _with_spec,
    make_tensors,
)
from torch_tensorrt_profiles.latency._shapes import InputShape
from torch_tensorrt_profiles.latency._statistics import Latency
from torch_tensorrt_profiles.saved._inputs import Extent, ProgramInput, inputs_of_wrapper, with_engine_names
from torch_tensorrt_profiles.saved._program import read_program

SEQ = Extent("s0", 1, 128)


def run(*arguments):
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program with the profiles "prefill" (16 to 128) and "decode" (1) of two int64 inputs ``[2, seq]``."""
    import torch_tensorrt
    from programs import export_two_inputs
    from torch_tensorrt.dynamo import OptimizationProfile

    profiles = [
        OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
        OptimizationProfile("decode", {"ids": {1: 1}}),
    ]
    compiled = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=profiles, min_block_size=1)
    path = tmp_path_factory.mktemp("program") / "two.ep"
    torch_tensorrt.save(compiled, str(path), retrace=False)
    return path


@pytest.fixture
def with_gpu(monkeypatch):
    """What is refused before anything runs needs none in truth."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


@pytest.mark.parametrize("arguments", [[], ["--profile", "decod"], ["--shapes", "ids=one"], ["--shapes", "ids=3x1"]])
def test_no_gpu_is_exit_code_2_whatever_else_is_wrong(program, monkeypatch, arguments):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    done = run(program, *arguments)
    assert done.exit_code == 2
    assert "needs an NVIDIA GPU" in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--profile", "decod"], "the program has no optimization profile 'decod'; its profiles are prefill, decode"),
        (["--profile", "2"], "no optimization profile '2'"),
        (["--profile", "\u00b2"], "no optimization profile '\u00b2'"),
        (["--profile", "9" * 5000], "no optimization profile '999"),
        (["--shapes", "ids=one"], "expected NAME=EXTENTxEXTENT"),
        (["--shapes", "tokens=2x1"], "no input 'tokens'; its inputs are ids (2x1..128)"),
        (["--shapes", "ids=3x1"], "takes 2x1..128, not 3x1"),
        (["--shapes", "ids=2x1"], "outside profile 'prefill'"),
        (["--profile", "decode", "--shapes", "ids=2x16"], "outside profile 'decode'"),
    ],
)
def test_bad_options_are_told_before_anything_runs(program, with_gpu, arguments, says):
    done = run(program, *arguments)
    assert done.exit_code == 1
    assert says in done.output


@pytest.mark.parametrize(
    "arguments",
    [["--iterations", "0"], ["--warm-up", "-1"], ["--warm-up", "inf"], ["--warm-up", "nan"], ["--trace-format", "svg"]],
)
def test_a_wrong_call(program, arguments):
    assert run(program, *arguments).exit_code == 2


def test_no_package(tmp_path, with_gpu):
    (tmp_path / "p.pt2").write_text("nothing")
    done = run(tmp_path / "p.pt2")
    assert (done.exit_code, "no saved program" in done.output) == (1, True)
    torch.save({"a": 1}, tmp_path / "p.pt")
    done = run(tmp_path / "p.pt")
    assert done.exit_code == 1
    assert "holds no TensorRT engine: file of torch.save. Compile the program with" in done.output


def test_a_folder_for_traces_that_is_not_empty(program, tmp_path, with_gpu):
    (tmp_path / "mine").write_text("precious")
    done = run(program, "--trace", tmp_path)
    assert (done.exit_code, "is not empty" in done.output) == (1, True)
    done = run(program, "--trace", tmp_path / "mine")
    assert (done.exit_code, "is a file" in done.output) == (1, True)


def test_profiles_by_index_and_by_default(program):
    saved = read_program(program)
    assert _run._profiles(saved, []) == ["prefill", "decode"]
    assert _run._profiles(saved, ["1", "prefill"]) == [1, "prefill"]
    assert _run._ranges(saved, 1) == _run._ranges(saved, "decode") == dict.fromkeys(("ids", "positions"), ((2, 1),) * 3)


def test_what_is_asked_for_reaches_the_measurement(program, tmp_path, with_gpu, monkeypatch):
    """Without a GPU: what would be timed and profiled is only noted."""
    timed, profiled = [], []
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(_run, "load", lambda saved: LoadedProgram(lambda *args: None, saved.inputs))
    monkeypatch.setattr(_run, "make_tensors", lambda shapes, device: [])
    monkeypatch.setattr(_run, "measure", lambda call, scope, **options: timed.append(options) or Latency(2.0, (1.0,)))
    monkeypatch.setattr(_run, "trace", lambda calls, folder, **options: profiled.append((len(calls), folder, options)))
    options = ["--iterations", 7, "--warm-up", 0.5, "--trace", tmp_path, "--trace-format", "trex"]
    done = run(program, *options, "--trace-iterations", 3, "--json")
    assert done.exit_code == 0, done.output
    assert [(entry["iterations"], entry["warm_up_seconds"]) for entry in timed] == [(7, 0.5)] * 2
    ((calls, folder, how),) = profiled
    assert (calls, folder, how["format"], how["iterations"]) == (2, tmp_path, "trex", 3)
    told = json.loads(done.stdout)
    assert (told["iterations"], told["warm_up_seconds"], told["traces"]) == (7, 0.5, str(tmp_path))
    assert (told["cuda_graphs"], told["context_per_profile"]) == (False, False)
    assert [entry["profile"] for entry in told["profiles"]] == ["prefill", "decode"]


def document(**options):
    profile = {
        "profile": "decode",
        "inputs": {"ids": {"shape": [2, 1], "dtype": "int64"}, "scale": {"shape": [], "dtype": "float32"}},
        "median_ms": 0.5,
        "p90_ms": 0.6,
        "p99_ms": 0.75,
        "first_ms": 12.25,
    }
    plain = {"file": "p.pt2", "gpu": "NVIDIA H200", "cuda_graphs": False, "context_per_profile": False, "traces": None}
    return {**plain, "profiles": [profile], **options}


def test_the_table():
    text = _run._as_text(document(cuda_graphs=True, traces="out"), 120)
    assert text.splitlines()[0] == "p.pt2 on NVIDIA H200, CUDA graphs"
    line = next(line for line in text.splitlines() if line.startswith("decode"))
    assert "ids 2x1, scale scalar" in line
    assert line.split()[-4:] == ["0.500", "0.600", "0.750", "12.250"]
    assert text.endswith("torchtrtprof report out")


class TestInputs:
    def test_of_an_aot_inductor_package(self, tmp_path):
        """The C++ that torch generates tells types, extents and keywords."""

        class Module(torch.nn.Module):
            def forward(self, ids, mask, *, cache):
                return ids * 2 + mask.long(), cache.half() + 1

        batch = torch.export.Dim("batch", min=4, max=128)
        exported = torch.export.export(
            Module(),
            (torch.zeros(8, 3, dtype=torch.int64), torch.zeros(8, 3, dtype=torch.bool)),
            {"cache": torch.zeros(5)},
            dynamic_shapes={"ids": {0: batch}, "mask": {0: batch}, "cache": None},
        )
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "p.pt2"))
        varying = Extent(None, 4, 128)
        saved = read_program(tmp_path / "p.pt2")
        assert saved.form == "AOTInductor package"
        assert saved.inputs == [
            ProgramInput("0", "int64", (varying, 3)),
            ProgramInput("1", "bool", (varying, 3)),
            ProgramInput("cache", "float32", (5,)),
        ]
        # And they are put into the call that the package takes.
        runner = torch._inductor.aoti_load_package(path)
        loaded = _with_spec(runner, saved.inputs, runner.loader.get_call_spec()[0])
        shapes = [
            InputShape("0", "int64", (6, 3)),
            InputShape("1", "bool", (6, 3)),
            InputShape("cache", "float32", (5,)),
        ]
        first, second = loaded.call_with(make_tensors(shapes, "cpu"))()
        assert (first.shape, second.dtype) == ((6, 3), torch.float16)

    def test_a_range_that_begins_at_two_may_begin_at_one(self):
        source = "static void check_input_0(\n) {\n    if (x_size[0] < 2) {\n    if (x_size[0] > 9) {\n}\n"
        assert inputs_of_wrapper(source)[0].shape == (Extent(None, None, 9),)

    def test_no_wrapper(self):
        assert inputs_of_wrapper("int main() {}") == []

    def test_names_of_the_engine_that_takes_the_programs_inputs(self, program):
        engines = read_program(program).engines
        varying = Extent(None, None, 128)
        inputs = [ProgramInput("0", "int64", (2, varying)), ProgramInput("1", "int64", (2, varying))]
        named = with_engine_names(inputs, engines)
        assert [entry.name for entry in named] == ["ids", "positions"]
        (symbol,) = {entry.shape[1].symbol for entry in named}
        assert symbol
        assert with_engine_names(inputs[:1], engines) == inputs[:1]
        other = [inputs[0], ProgramInput("1", "float32", (2, varying))]
        assert with_engine_names(other, engines) == other
        assert with_engine_names(inputs, engines * 2) == inputs

    def test_of_a_package_without_its_source(self, program):
        """Those of its engine, where it is one."""
        engines = read_program(program).engines
        ids, positions = _inputs_of_engine(engines)
        assert (ids.name, ids.dtype, positions.name) == ("ids", "int64", "positions")
        assert ids.shape[0] == 2
        assert isinstance(ids.shape[1], Extent)
        assert ids.shape[1].symbol
        assert ids.shape == positions.shape
        assert _inputs_of_engine(engines * 2) == []

    def test_of_torchscript(self, program):
        class Module(torch.nn.Module):
            def forward(self, ids, other):
                return ids + other

        traced = torch.jit.trace(Module(), (torch.zeros(2, 3), torch.zeros(2, 3)))
        ids, other = _script_inputs(traced, read_program(program).engines)
        assert (ids.name, ids.dtype, ids.shape[0]) == ("ids", "int64", 2)
        assert (other.name, other.dtype) == ("other", None)

    def test_values_that_are_no_tensors(self):
        from torch.utils import _pytree as pytree

        spec = pytree.tree_structure(((torch.zeros(1), 3), {}))
        with pytest.raises(LoadError, match="takes 2 values, and the file describes 1 tensors"):
            _with_spec(None, [ProgramInput("x", "float32", (1,))], spec)

    def test_nested_inputs_and_keywords(self):
        from torch.utils import _pytree as pytree

        spec = pytree.tree_structure((((0, {"a": 0}),), {"cache": 0}))
        seen = []
        loaded = _with_spec(lambda *args, **kwargs: seen.append((args, kwargs)), [None] * 3, spec)
        loaded.call_with(["x", "y", "z"])()
        assert seen == [((("x", {"a": "y"}),), {"cache": "z"})]
        assert isinstance(loaded, LoadedProgram)

    def test_values(self):
        shapes = [InputShape("a", name, (64,)) for name in ("int64", "bool", "float16", "complex64", "float8_e4m3fn")]
        integers, flags, halves, complexes, eighths = make_tensors(shapes, "cpu")
        assert not integers.any()
        assert not flags.any()
        assert halves.dtype == torch.float16
        assert halves.unique().numel() > 30
        assert complexes.dtype == torch.complex64
        assert eighths.dtype == torch.float8_e4m3fn
        assert torch.equal(make_tensors(shapes[2:3], "cpu")[0], make_tensors(shapes[2:3], "cpu")[0])
