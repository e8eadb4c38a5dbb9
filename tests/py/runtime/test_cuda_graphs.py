"""CUDA graphs of programs with profiles, as far as no GPU is needed: warm-up inputs, and which graph is replayed."""

from __future__ import annotations

import contextlib
import copy
import io
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch_tensorrt
from programs import BREAK, device, export_broken
from torch.export import Dim
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
from torch_tensorrt.dynamo.runtime._CudaGraphsTorchTensorRTModule import CudaGraphsTorchTensorRTModule
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles
from torch_tensorrt_profiles.runtime import _cuda_graphs, _whole_graphs
from torch_tensorrt_profiles.runtime._engines import ProgramEngine, engines_of
from torch_tensorrt_profiles.runtime._program_inputs import example_leaves, profile_to_warm_up, program_inputs
from torch_tensorrt_profiles.runtime._whole_graphs import (
    CapturedGraph,
    Conditions,
    KeptGraphs,
    Kind,
    Place,
    WholeGraphs,
)


class Mixed(torch.nn.Module):
    """``sin`` breaks it; ``shift`` feeds only what PyTorch runs, and ``state['bias']`` is nested and static."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.second = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, state: dict[str, torch.Tensor], *, shift: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x) + state["bias"])
        return torch.tanh(self.second(torch.sin(hidden) + torch.sin(shift)))


@pytest.fixture(scope="module")
def mixed() -> torch.fx.GraphModule:
    torch.manual_seed(0)
    where = device()
    seq = Dim("seq", min=1, max=64)
    program = torch.export.export(
        Mixed().eval().to(where),
        (torch.randn(2, 8, 16, device=where), {"bias": torch.randn(16, device=where)}),
        {"shift": torch.randn(2, 8, 1, device=where)},
        dynamic_shapes={"x": {1: seq}, "state": {"bias": None}, "shift": {1: seq}},
    )
    profiles = [OptimizationProfile("long", {"x": {1: (4, 32, 64)}}), OptimizationProfile("one", {"x": {1: 1}})]
    compiled = torch_tensorrt.dynamo.compile(program, optimization_profiles=profiles, **BREAK)
    assert len(engines_of(compiled)) == 2
    return compiled


def saved_and_loaded(program: Any) -> Any:
    file = io.BytesIO()
    torch.save(program, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("kept", [lambda program: program, copy.deepcopy, saved_and_loaded])
@pytest.mark.parametrize(("index", "seq"), [(0, 32), (1, 1)])
def test_example_inputs_have_the_optimum_of_the_profile(mixed, kept, index, seq):
    program = kept(mixed)
    leaves = example_leaves(program_inputs(program), index, "cpu")
    args, kwargs = torch.utils._pytree.tree_unflatten(leaves, program._in_spec)
    x, state = args
    assert x.shape == (2, seq, 16)
    assert state["bias"].shape == (16,)  # static in every profile
    assert kwargs["shift"].shape == (2, seq, 1)  # no engine has it; it shares the symbol
    assert {leaf.dtype for leaf in leaves} == {torch.float32}


def test_dtypes_and_values_that_are_no_tensors():
    record = [
        {"dtype": "int64", "opt": [[2, 8], [2, 1]]},
        {"dtype": "int64", "opt": [[8], [1]], "is_integer": True},
        {"value": None},
    ]
    ids, length, nothing = example_leaves(record, 1, "cpu")
    assert (ids.dtype, tuple(ids.shape), ids.abs().max().item()) == (torch.int64, (2, 1), 0)
    assert (type(length), length, nothing) == (int, 1, None)


def test_a_program_without_profiles_has_no_record():
    compiled = torch_tensorrt.dynamo.compile(export_broken(), inputs=[torch.zeros(2, 8, 16, device=device())], **BREAK)
    assert program_inputs(compiled) is None
    assert not _cuda_graphs.has_profiles(compiled)


def an_engine(*ranges: tuple[int, int, int], names: tuple[str, ...] = ("a", "b")) -> ProgramEngine:
    return ProgramEngine("engine", None, EngineProfiles(names, tuple({"x": tuple((n,) for n in r)} for r in ranges)))


@pytest.mark.parametrize(
    ("selected", "expected"), [((0, 0), 0), ((1, 1), 1), ((0, 1), None), ((2, 0), 2), ((2, 1), 1), ((2, 2), 2)]
)
def test_profile_to_warm_up(selected, expected):
    names = ("long", "one", "any")
    first = an_engine((4, 8, 16), (1, 1, 1), (1, 12, 16), names=names)
    second = an_engine((64, 128, 256), (16, 16, 16), (16, 192, 256), names=names)
    assert profile_to_warm_up([first, second], selected) == expected


def test_engines_without_profiles_take_no_part():
    plain = ProgramEngine("plain", None, None)
    assert profile_to_warm_up([plain, an_engine((4, 8, 16), (1, 1, 1)), plain], (0, 1, 0)) == 1
    assert profile_to_warm_up([plain], (0,)) is None


class TestOnABuildHost:
    """Engines are only data on a host without a GPU."""

    @pytest.fixture(autouse=True)
    def _no_gpu(self):
        if torch.cuda.is_available():
            pytest.skip("this host has a GPU")

    def test_the_error_says_where_to_run(self, mixed):
        with pytest.raises(RuntimeError, match=r"torch_tensorrt\.load\('program\.pt2'\)\.module\(\)"):
            CudaGraphsTorchTensorRTModule(mixed)

    def test_a_failed_enter_leaves_the_mode_as_it_was(self, mixed):
        with pytest.raises(RuntimeError, match="GPU host"), torch_tensorrt.runtime.enable_cudagraphs(mixed):
            pass
        assert not torch_tensorrt.runtime.get_whole_cudagraphs_mode()
        assert torch.ops.tensorrt.get_cudagraphs_mode() == 0

    def test_stock_wraps_a_program_without_profiles(self):
        compiled = torch_tensorrt.dynamo.compile(
            export_broken(), inputs=[torch.zeros(2, 8, 16, device=device())], **BREAK
        )
        with pytest.raises((RuntimeError, AssertionError)) as raised:
            CudaGraphsTorchTensorRTModule(compiled)
        assert "GPU host" not in str(raised.value)


def a_graph(resets: list[str], name: str) -> CapturedGraph:
    return CapturedGraph(SimpleNamespace(reset=lambda: resets.append(name)), [], None, Conditions(0, ()), [])


def a_place(index: int) -> Place:
    return Place((index,), Kind((), torch.utils._pytree.tree_flatten(())[1]), 0)


def test_the_graph_used_longest_ago_goes_first():
    resets: list[str] = []
    kept = KeptGraphs(limit=2)
    kept.keep(a_place(0), a_graph(resets, "0"))
    kept.keep(a_place(1), a_graph(resets, "1"))
    assert kept.find(a_place(0)) is not None
    kept.keep(a_place(2), a_graph(resets, "2"))
    assert resets == ["1"]
    assert kept.find(a_place(1)) is None
    kept.keep(a_place(2), a_graph(resets, "2 again"))
    assert resets == ["1", "2"]
    kept.drop_where(lambda place, graph: place.profiles == (0,))
    assert resets == ["1", "2", "0"]
    assert len(kept) == 1


class Engine:
    """What :class:`WholeGraphs` asks an engine for."""

    def __init__(self) -> None:
        self.selected = self.active = 0
        self.by_shape: Any = None  # the profile that runs, from where the call starts and its extent
        self.context = 1
        self.use_pre_allocated_outputs = False

    def profile_for(self, extent: int) -> int:
        return self.selected if self.by_shape is None else self.by_shape(self.selected, extent)


class Graph:
    """A graph that does again what was recorded: it computes on the same tensors."""

    def __init__(self) -> None:
        self.work: list[Any] = []
        self.was_reset = False

    def replay(self) -> None:
        assert not self.was_reset
        for again in self.work:
            again()

    def reset(self) -> None:
        self.was_reset = True


class Stream:
    count = 0

    def __init__(self, device: Any = None) -> None:
        Stream.count += 1
        self.cuda_stream = Stream.count
        self.waited_for: list[Any] = []

    def wait_stream(self, other: Any) -> None:
        self.waited_for.append(other)


class Part(TorchTensorRTModule):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Program(torch.nn.Module):
    """``x -> 10 * profile + x``, which switches its engine's profile as the runtime does."""

    def __init__(self, cuda: FakeCuda) -> None:
        super().__init__()
        self.cuda = cuda
        self.part = Part()
        self.part.engine = Engine()
        self.runs: list[tuple[int, int]] = []
        self.flags: list[bool] = []

    def forward(self, x: torch.Tensor) -> Any:
        engine, x = self.part.engine, self.part(x)
        profile = engine.profile_for(x.shape[0])
        if engine.active != profile:
            assert self.cuda.capturing is None, "a switch inside a capture"
            engine.active = profile
        index, y = engine.active, torch.empty_like(x)
        self.flags.append(engine.use_pre_allocated_outputs)

        def work() -> None:
            y.copy_(x + 10 * index)

        if self.cuda.capturing is None:
            self.runs.append((index, x.shape[0]))
            work()
        else:
            self.cuda.capturing.work.append(work)
        return {"y": y}


class FakeCuda:
    """Stands for streams and graphs of ``torch.cuda``; tensors stay on the CPU."""

    def __init__(self) -> None:
        self.default = self.current = Stream()
        self.capturing: Graph | None = None
        self.profiling = False
        self.generation = 0

    @contextlib.contextmanager
    def stream(self, stream: Stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextlib.contextmanager
    def graph(self, graph: Graph, **options: Any):
        self.capturing = graph
        yield
        self.capturing = None


@pytest.fixture
def cuda(monkeypatch) -> FakeCuda:
    fake = FakeCuda()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device=None: fake.current)
    monkeypatch.setattr(torch.cuda, "default_stream", lambda device=None: fake.default)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", fake.stream)
    monkeypatch.setattr(torch.cuda, "graph", fake.graph)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(_whole_graphs, "device_of", lambda leaves: torch.device("cpu"))
    for name, answer in {
        "get_active_profile": lambda engine: engine.selected,
        "_explain_profile": lambda engine, shapes: (engine.profile_for(shapes[0][0]), "because"),
        "_context_numbers": lambda engines: [engine.context for engine in engines],
        "get_profile_generation": lambda: fake.generation,
        "get_profile_execution": lambda: fake.profiling,
    }.items():
        monkeypatch.setattr(torch.ops.tensorrt, name, answer, raising=False)
    return fake


class Served:
    """A program behind :class:`WholeGraphs`, called on a profile."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.program = Program(cuda)
        self.graphs = WholeGraphs(self.program)
        self.engine = self.program.part.engine

    def __call__(self, index: int, size: int, value: float = 1.0, *, runs_on: int | None = None) -> None:
        self.engine.selected = index
        result = self.graphs.run((), {"x": torch.full((size,), float(value))}, lambda stream: None)["y"]
        assert result.tolist() == [value + 10 * (index if runs_on is None else runs_on)] * size

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.graphs.captures, self.graphs.replays, self.graphs.kept


@pytest.fixture
def served(cuda) -> Served:
    return Served(cuda)


def test_alternating_profiles_are_captured_once_each(served):
    for step in range(5):
        served(0, 8, step)
        served(1, 1, -step)
    assert served.counts == (2, 8, 2)
    assert served.program.runs == [(0, 8), (1, 1)]


def test_profiles_of_one_shape_share_no_graph(served):
    for index in (0, 1, 0, 1, 1, 0):
        served(index, 8, index)
    assert served.counts == (2, 4, 2)


def test_results_are_the_callers_own(served):
    served(0, 2)
    first = served.graphs.run((), {"x": torch.zeros(2)}, lambda stream: None)["y"]
    served(0, 2, 5)
    assert first.tolist() == [0, 0]


def test_shape_dtype_and_structure_tell_graphs_apart(served):
    served(0, 2)
    served(0, 3)
    served.graphs.run((), {"x": torch.zeros(2, dtype=torch.int64)}, lambda stream: None)
    served.graphs.run((torch.zeros(2),), {}, lambda stream: None)
    assert served.counts == (4, 0, 4)


def test_a_new_context_makes_the_graphs_of_its_profile_stale(served):
    served(0, 8)
    served(0, 4)
    served(1, 1)
    stale = [graph.graph for graph in served.graphs._kept._graphs.values()]
    served.engine.context += 1
    served(0, 8)
    assert [graph.was_reset for graph in stale] == [True, True, False]
    served(1, 1)
    assert [graph.was_reset for graph in stale] == [True, True, True]
    assert served.counts == (5, 0, 2)


def test_a_dropped_context_makes_the_graphs_stale(served):
    served(0, 8)
    served.engine.context = -1  # the next run makes another
    served(0, 8)
    served.engine.context = 2
    served(0, 8)
    served(0, 8)
    assert served.counts == (3, 1, 1)


def test_a_context_made_by_the_first_run_is_the_graphs_own(served, monkeypatch):
    forward = served.program.forward

    def first_makes_a_context(x):
        served.engine.context = 2
        return forward(x)

    monkeypatch.setattr(served.program, "forward", first_makes_a_context)
    served(0, 8)
    served(0, 8)
    assert served.counts == (1, 1, 1)


def test_while_profiling_is_on_every_call_runs(served, cuda):
    served(0, 8)
    cuda.profiling, cuda.generation = True, 1
    served(0, 8)
    served(0, 8)
    assert served.counts == (1, 0, 0)
    cuda.profiling, cuda.generation = False, 2
    served(0, 8)
    served(0, 8)
    assert served.counts == (2, 1, 1)
    assert served.program.runs == [(0, 8)] * 4


def test_a_new_revision_frees_every_graph(served, cuda):
    served(0, 8)
    served(1, 1)
    stale = [graph.graph for graph in served.graphs._kept._graphs.values()]
    cuda.generation += 1
    served(0, 8)
    assert all(graph.was_reset for graph in stale)
    assert served.counts == (3, 0, 1)


def test_another_engine_object_frees_every_graph(served):
    served(0, 8)
    (stale,) = served.graphs._kept._graphs.values()
    served.engine = served.program.part.engine = Engine()
    served(0, 8)
    assert stale.graph.was_reset
    assert served.counts == (2, 0, 1)


def decode_at_one(start: int, extent: int) -> int:
    return 1 if extent == 1 else 0


def test_choice_by_shape(served):
    served.engine.by_shape = decode_at_one
    for step in range(3):
        served(0, 8, step)
        served(0, 1, step, runs_on=1)
    assert served.counts == (2, 4, 2)
    served.engine.by_shape = None
    served(1, 1)  # said so, it is the same graph
    assert served.counts == (2, 5, 2)
    served(0, 1)  # and where the choice is off, this is another
    assert served.counts == (3, 5, 3)


def test_a_choice_that_depends_on_the_call_before_is_not_captured(served, monkeypatch):
    """Torch-TensorRT's own: what it chose is where the next call starts from."""
    served.engine.by_shape = decode_at_one
    forward = served.program.forward

    def choose(x):
        result = forward(x)
        served.engine.selected = served.engine.active
        return result

    monkeypatch.setattr(served.program, "forward", choose)
    served(0, 8)
    for step in range(3):
        served(0, 1, step, runs_on=1)
    assert served.counts == (1, 0, 1)
    served(0, 8)
    assert served.counts == (1, 1, 1)


def test_calls_of_one_engine_on_several_profiles_are_not_captured(served, monkeypatch):
    served.engine.by_shape = decode_at_one
    forward = served.program.forward

    def twice(x):
        served.program.part(x[:1])
        return forward(x)

    monkeypatch.setattr(served.program, "forward", twice)
    served(0, 8)
    assert served.counts == (0, 0, 0)
    served(0, 1, runs_on=1)
    assert served.counts == (1, 0, 1)


def test_pre_allocated_outputs_are_not_captured(served):
    served.engine.use_pre_allocated_outputs = True
    served(0, 8)
    assert served.program.flags == [False, False]
    assert served.engine.use_pre_allocated_outputs


def test_a_program_that_raises_captures_nothing(served, monkeypatch):
    served.program.part.engine.use_pre_allocated_outputs = True
    good = served.program.forward

    def bad(x):
        raise ZeroDivisionError

    monkeypatch.setattr(served.program, "forward", bad)
    with pytest.raises(ZeroDivisionError):
        served(0, 8)
    assert served.engine.use_pre_allocated_outputs
    monkeypatch.setattr(served.program, "forward", good)
    served(0, 8)
    assert served.counts == (1, 0, 1)


def test_streams(served, cuda):
    """The default stream cannot be captured, so one of our own stands in; each stream has graphs of its own."""
    served(0, 8)
    (own,) = served.graphs._own_streams.values()
    assert own.waited_for == [cuda.default]
    assert cuda.default.waited_for == [own]
    other = Stream()
    with cuda.stream(other):
        served(0, 8)
        served(0, 8)
    assert other.waited_for == [own]  # the engines' memory is shared, so it waits for the last caller, once
    served(0, 8)
    assert own.waited_for == [cuda.default, cuda.default, other]
    assert served.counts == (2, 2, 2)


def test_warm_up_runs_and_captures_nothing(served):
    leaves, structure = torch.utils._pytree.tree_flatten(((torch.zeros(4),), {}))
    served.graphs.warm_up(leaves, structure)
    assert served.program.runs == [(0, 4)] * _whole_graphs.WARM_UP_CALLS
    assert served.counts == (0, 0, 0)


class TestWrapper:
    """The wrapper itself, over a program whose engines look live."""

    @pytest.fixture
    def wrapper(self, cuda, mixed, monkeypatch):
        program = copy.deepcopy(mixed)
        parts = [part for part in program.modules() if isinstance(part, TorchTensorRTModule)]
        calls = []
        for part in parts:
            part.engine = Engine()
            part.engine.num_optimization_profiles = 2
            part.engine.selected = 1
        monkeypatch.setattr(torch.fx.GraphModule, "__call__", lambda self, *a, **k: calls.append((a, k)))
        monkeypatch.setattr(_cuda_graphs, "device_of", lambda leaves: torch.device("cpu"))
        wrapper = CudaGraphsTorchTensorRTModule(program)
        return SimpleNamespace(wrapper=wrapper, calls=calls, parts=parts, program=program)

    def test_warm_up_is_at_the_active_profiles_optimum(self, wrapper):
        assert len(wrapper.calls) == _whole_graphs.WARM_UP_CALLS
        (x, state), kwargs = wrapper.calls[0]
        assert (x.shape, state["bias"].shape, kwargs["shift"].shape) == ((2, 1, 16), (16,), (2, 1, 1))

    def test_its_engines_are_found_and_its_method_is_there(self, wrapper):
        assert [engine.live for engine in engines_of(wrapper.wrapper)] == [part.engine for part in wrapper.parts]
        assert isinstance(wrapper.wrapper, CudaGraphsTorchTensorRTModule)
        scope = wrapper.wrapper.optimization_profile("one")
        assert scope.module is wrapper.wrapper

    def test_engines_on_different_profiles_are_not_warmed_up(self, wrapper):
        wrapper.calls.clear()
        wrapper.parts[0].engine.selected = 0
        wrapper.wrapper.warm_up()
        assert wrapper.calls == []

    def test_outside_of_the_block_the_program_runs_and_the_graphs_go(self, wrapper, monkeypatch):
        resets = []
        monkeypatch.setattr(wrapper.wrapper._graphs, "reset", lambda: resets.append(True))
        wrapper.calls.clear()
        wrapper.wrapper(torch.zeros(2, 1, 16))
        assert (len(wrapper.calls), resets) == (1, [True])

    def test_graphs_of_the_runtime_itself_are_switched_off(self, wrapper, monkeypatch):
        part = wrapper.parts[0]
        part.engine.update_runtime_settings = lambda *settings: None
        monkeypatch.setattr(TorchTensorRTModule, "get_engine", lambda self: self.engine)
        part.runtime_settings = part.runtime_settings.merge(
            cuda_graph_strategy="whole_graph_capture", runtime_cache=None
        )
        wrapper.wrapper.warm_up()
        assert part.runtime_settings.cuda_graph_strategy == "disabled"

    def test_wrapping_another_program_warms_it_up(self, wrapper):
        wrapper.calls.clear()
        before = wrapper.wrapper._graphs
        assert _cuda_graphs.rewrapped(wrapper.wrapper, wrapper.program) is wrapper.wrapper
        assert wrapper.wrapper._graphs is not before
        assert len(wrapper.calls) == _whole_graphs.WARM_UP_CALLS
        assert _cuda_graphs.unwrapped(wrapper.wrapper) is wrapper.program
        assert _cuda_graphs.rewrapped(None, wrapper.program) is wrapper.program


def test_a_recompiled_mutable_module_keeps_its_new_program(monkeypatch):
    """Stock puts back what there was when the block was entered, with the weights of then."""
    from torch_tensorrt_profiles.dynamo._refusals import KEYWORD

    old, new = torch.nn.Identity(), torch.nn.Identity()
    mutable = SimpleNamespace(gm=old, additional_settings={KEYWORD: ["a profile"]})
    block = torch_tensorrt.runtime.enable_cudagraphs(mutable)
    block.old_module = old
    mutable.gm = new
    block.__exit__(None, None, None)
    assert mutable.gm is new
