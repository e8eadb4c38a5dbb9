"""CUDA graphs of programs with profiles on a GPU. Captures and replays are counted where torch makes them."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch_tensorrt
from programs import BREAK, Broken, TwoInputs, export_broken, export_two_inputs
from torch.export import Dim
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
from torch_tensorrt.runtime import enable_cudagraphs, optimization_profile, profile_execution, runtime_config

pytestmark = pytest.mark.gpu

#: "wide" overlaps both others.
PROFILES = [
    OptimizationProfile("long", {"x": {1: (4, 32, 64)}}),
    OptimizationProfile("one", {"x": {1: 1}}),
    OptimizationProfile("wide", {"x": {1: (1, 16, 64)}}),
]


class Layer(torch.nn.Module):
    """Attention, a convolution and normalisation around a graph break: ``[2, seq, 64] -> [2, seq, 64]``."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(64, 192)
        self.conv = torch.nn.Conv1d(64, 64, 3, padding=1)
        self.norm = torch.nn.LayerNorm(64)
        self.out = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).split(64, dim=-1)
        attended = torch.softmax(q @ k.transpose(1, 2) / 8, dim=-1) @ v
        broken = torch.sin(self.norm(x + attended))
        mixed = self.conv(broken.transpose(1, 2)).transpose(1, 2)
        return torch.tanh(self.out(torch.relu(mixed)) + mixed.mean(dim=1, keepdim=True))


def of(model: type[torch.nn.Module]) -> Any:
    torch.manual_seed(0)
    return model().eval().cuda()


@pytest.fixture(scope="module")
def broken():
    return torch_tensorrt.dynamo.compile(export_broken(), optimization_profiles=PROFILES, **BREAK)


@pytest.fixture(scope="module")
def layer():
    seq = Dim("seq", min=1, max=256)
    program = torch.export.export(of(Layer), (torch.randn(2, 8, 64, device="cuda"),), dynamic_shapes=({1: seq},))
    profiles = [
        OptimizationProfile("prefill", {"x": {1: (2, 128, 256)}}),
        OptimizationProfile("decode", {"x": {1: 1}}),
    ]
    return torch_tensorrt.dynamo.compile(program, optimization_profiles=profiles, **BREAK)


def x_of(seq: int, width: int = 16) -> torch.Tensor:
    return torch.randn(2, seq, width, device="cuda")


def assert_runs(program: Any, reference: Any, *inputs: torch.Tensor) -> None:
    torch.testing.assert_close(program(*inputs), reference(*inputs), rtol=2e-2, atol=2e-2)


def engines(program: Any) -> list[Any]:
    return [module.engine for module in program.modules() if isinstance(module, TorchTensorRTModule)]


def runs(program: Any) -> list[list[int]]:
    """Per engine, how many calls ran on each profile."""
    counters = [torch.ops.tensorrt.get_profile_counters(engine) for engine in engines(program)]
    return [[c[f"runs_{i}"] for i in range(sum(name.startswith("runs_") for name in c))] for c in counters]


def more_runs(before: list[list[int]], after: list[list[int]]) -> list[list[int]]:
    return [[new - old for old, new in zip(*pair, strict=True)] for pair in zip(before, after, strict=True)]


@dataclass
class Counted:
    captures: int = 0
    replays: int = 0


@pytest.fixture
def counted(monkeypatch) -> Counted:
    """What torch itself captured and replayed."""
    counted = Counted()
    enter, replay = torch.cuda.graph.__enter__, torch.cuda.CUDAGraph.replay

    def count_capture(self):
        counted.captures += 1
        return enter(self)

    def count_replay(self):
        counted.replays += 1
        return replay(self)

    monkeypatch.setattr(torch.cuda.graph, "__enter__", count_capture)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", count_replay)
    return counted


@pytest.mark.parametrize(("which", "index", "seq"), [("long", 0, 32), ("one", 1, 1), ("wide", 2, 16)])
def test_the_documented_line_inside_a_profile_block(broken, counted, which, index, seq):
    before = runs(broken)
    with optimization_profile(broken, which), enable_cudagraphs(broken) as graphed:
        warm_up = more_runs(before, runs(broken))
        assert warm_up == [[3 if i == index else 0 for i in range(3)]] * 2
        for _ in range(4):
            assert_runs(graphed, of(Broken), x_of(seq))
        assert graphed.graph_counters == {"captures": 1, "replays": 3, "kept": 1}
    assert (counted.captures, counted.replays) == (1, 3)
    assert graphed.graph_counters["kept"] == 0


def test_alternating_profiles_are_captured_once_each(broken, counted):
    with enable_cudagraphs(broken) as graphed:
        before = runs(broken)
        for _ in range(10):
            with optimization_profile(broken, "long"):
                assert_runs(graphed, of(Broken), x_of(48))
            with graphed.optimization_profile("one"):
                assert_runs(graphed, of(Broken), x_of(1))
        # One call as it is and one that is captured; a replay does not go through the engine.
        assert more_runs(before, runs(broken)) == [[2, 2, 0]] * 2
    assert (counted.captures, counted.replays) == (2, 18)
    for which, seq in (("long", 64), ("one", 1)):
        with optimization_profile(broken, which):
            assert_runs(broken, of(Broken), x_of(seq))
            assert_runs(graphed, of(Broken), x_of(seq))  # outside of the block it runs the program
    assert (counted.captures, counted.replays) == (2, 18)


@pytest.mark.parametrize("strategy", ["lazy", "none"])
def test_graphs_stay_right_while_the_engines_switch(layer, counted, strategy):
    """Graphs of several profiles and shapes share one context; between replays it runs on something else."""
    reference = of(Layer)
    with (
        runtime_config(layer, dynamic_shapes_kernel_specialization_strategy=strategy),
        enable_cudagraphs(layer) as graphed,
    ):
        for step in range(6):
            for seq in (128, 2, 256, 77):
                with optimization_profile(layer, "prefill"):
                    assert_runs(graphed, reference, x_of(seq, 64))
            with optimization_profile(layer, "decode"):
                assert_runs(graphed, reference, x_of(1, 64))
            # As it is: the context is on other shapes, and on either profile, when the graphs are replayed next.
            with optimization_profile(layer, "prefill" if step % 2 else "decode"):
                assert_runs(layer, reference, x_of(200 if step % 2 else 1, 64))
        assert graphed.graph_counters == {"captures": 5, "replays": 25, "kept": 5}
    assert (counted.captures, counted.replays) == (5, 25)


def test_overlapping_profiles_share_no_graph(broken, counted):
    with enable_cudagraphs(broken) as graphed:
        before = runs(broken)
        for which in ("long", "wide", "long", "wide", "wide"):
            with optimization_profile(broken, which):
                assert_runs(graphed, of(Broken), x_of(32))
        assert more_runs(before, runs(broken)) == [[2, 0, 2]] * 2
    assert (counted.captures, counted.replays) == (2, 3)


def test_choice_by_shape(broken, counted):
    reference = of(Broken)
    with enable_cudagraphs(broken) as graphed:
        for _ in range(3):
            with optimization_profile(broken, "auto"):
                assert_runs(graphed, reference, x_of(48))  # "long", which the engines are set to
                assert_runs(graphed, reference, x_of(1))  # "one", the first that takes it
        assert (counted.captures, counted.replays) == (2, 4)
        with optimization_profile(broken, "one"):
            assert_runs(graphed, reference, x_of(1))
        assert (counted.captures, counted.replays) == (2, 5)
        with optimization_profile(broken, "long", fallback=True):
            assert_runs(graphed, reference, x_of(1))
        assert (counted.captures, counted.replays) == (2, 6)
        with optimization_profile(broken, "long"), pytest.raises((RuntimeError, ValueError)):
            graphed(x_of(1))
    assert (counted.captures, counted.replays) == (2, 6)


def test_two_threads_on_streams_of_their_own(broken, counted):
    failures: list[BaseException] = []

    def serve(which: str, inputs: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()), optimization_profile(broken, which):
                for number in range(200):
                    result = graphed(inputs[number % 4])
                    torch.testing.assert_close(result, expected[number % 4], rtol=2e-2, atol=2e-2)
        except BaseException as error:
            failures.append(error)

    with torch.no_grad(), enable_cudagraphs(broken) as graphed:
        threads = []
        for which, seq in (("long", 48), ("one", 1)):
            inputs = [x_of(seq) for _ in range(4)]  # not in the threads: torch's generator has no use during a capture
            expected = [of(Broken)(x) for x in inputs]
            threads.append(threading.Thread(target=serve, args=(which, inputs, expected)))
        torch.cuda.synchronize()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    assert (counted.captures, counted.replays) == (2, 398)


def test_a_shape_outside_of_the_profile_raises_and_is_not_captured(broken, counted):
    with enable_cudagraphs(broken) as graphed:
        with optimization_profile(broken, "wide"):
            assert_runs(graphed, of(Broken), x_of(32))
        with optimization_profile(broken, "one"), pytest.raises((RuntimeError, ValueError)):
            graphed(x_of(32))
        with optimization_profile(broken, "wide"):
            assert_runs(graphed, of(Broken), x_of(32))
    assert (counted.captures, counted.replays) == (1, 1)


def test_profiling_between_replays(broken, counted, tmp_path):
    with enable_cudagraphs(broken) as graphed, optimization_profile(broken, "one"):
        assert_runs(graphed, of(Broken), x_of(1))
        assert_runs(graphed, of(Broken), x_of(1))
        with profile_execution(tmp_path):
            before = runs(broken)
            assert_runs(graphed, of(Broken), x_of(1))
            assert_runs(graphed, of(Broken), x_of(1))
            assert more_runs(before, runs(broken)) == [[0, 2, 0]] * 2
            assert graphed.graph_counters["kept"] == 0
        assert len(list(tmp_path.rglob("*_engine_execution_profile.trace"))) == 2
        assert (counted.captures, counted.replays) == (1, 1)
        assert_runs(graphed, of(Broken), x_of(1))
        assert_runs(graphed, of(Broken), x_of(1))
    assert (counted.captures, counted.replays) == (2, 2)


def test_a_context_that_was_made_anew_is_captured_anew(broken, counted):
    with enable_cudagraphs(broken) as graphed, optimization_profile(broken, "one"):
        assert_runs(graphed, of(Broken), x_of(1))
        with runtime_config(broken, dynamic_shapes_kernel_specialization_strategy="none"):
            for _ in range(2):
                assert_runs(graphed, of(Broken), x_of(1))
        for _ in range(2):
            assert_runs(graphed, of(Broken), x_of(1))
    assert (counted.captures, counted.replays) == (3, 2)


def test_callers_on_streams_of_their_own(broken, counted):
    with enable_cudagraphs(broken) as graphed:
        for _ in range(2):
            for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream), optimization_profile(broken, "one"):
                    for _ in range(3):
                        assert_runs(graphed, of(Broken), x_of(1))
                torch.cuda.current_stream().wait_stream(stream)
    assert counted.captures == 3  # two streams and the one that stands in for the default
    assert counted.replays == 9


def test_inference_mode_and_results_of_ones_own(broken, counted):
    x = x_of(1)
    with enable_cudagraphs(broken) as graphed, optimization_profile(broken, "one"):
        with torch.inference_mode():
            first = graphed(x)
        second = graphed(torch.zeros_like(x))
        with torch.inference_mode():
            third = graphed(x)
    with torch.no_grad():
        for result, given in ((first, x), (second, torch.zeros_like(x)), (third, x)):
            torch.testing.assert_close(result.clone(), of(Broken)(given), rtol=2e-2, atol=2e-2)
    assert (counted.captures, counted.replays) == (1, 2)


def test_pre_allocated_outputs(broken, counted):
    with (
        torch_tensorrt.runtime.enable_pre_allocated_outputs(broken),
        enable_cudagraphs(broken) as graphed,
    ):
        for seq in (8, 64, 8, 33, 64, 8):
            with optimization_profile(broken, "long"):
                assert_runs(graphed, of(Broken), x_of(seq))
    assert (counted.captures, counted.replays) == (3, 3)


def test_the_strategy_of_tensorrt_rtx_gives_way(broken, counted):
    """Its own capture must not be met inside of ours; afterwards the engines' settings are as before."""
    settings = [module.runtime_settings for module in broken.modules() if isinstance(module, TorchTensorRTModule)]
    with enable_cudagraphs(broken, cuda_graph_strategy="whole_graph_capture") as graphed:
        for which, seq in (("long", 32), ("one", 1)) * 3:
            with optimization_profile(broken, which):
                assert_runs(graphed, of(Broken), x_of(seq))
    assert (counted.captures, counted.replays) == (2, 4)
    after = [module.runtime_settings for module in broken.modules() if isinstance(module, TorchTensorRTModule)]
    assert [s.cuda_graph_strategy for s in after] == [s.cuda_graph_strategy for s in settings]


def test_a_program_from_a_file(broken, counted):
    file = io.BytesIO()
    torch.save(broken, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    with optimization_profile(loaded, "one"), enable_cudagraphs(loaded) as graphed:
        for _ in range(3):
            assert_runs(graphed, of(Broken), x_of(1))
    assert (counted.captures, counted.replays) == (1, 2)


def test_a_program_without_profiles_is_stocks(counted):
    x = torch_tensorrt.Input(min_shape=(2, 4, 16), opt_shape=(2, 32, 16), max_shape=(2, 64, 16))
    plain = torch_tensorrt.dynamo.compile(export_broken(), inputs=[x], **BREAK)
    with enable_cudagraphs(plain) as graphed:
        assert type(graphed).__module__.startswith("torch_tensorrt.")
        for seq in (32, 16, 32):  # stock captures at every change of shape, and replays at once
            assert_runs(graphed, of(Broken), x_of(seq))
    assert (counted.captures, counted.replays) == (3, 3)


def test_mutable_module_before_and_after_a_weight_change(counted):
    # An example of one token must not freeze the axis: the profiles say what varies.
    mutable = torch_tensorrt.MutableTorchTensorRTModule(of(Broken), optimization_profiles=PROFILES, **BREAK)
    with optimization_profile(mutable, "long"):
        assert_runs(mutable, of(Broken), x_of(8))
    changed = of(Broken)
    with torch.no_grad():
        changed.first.weight.mul_(-2)
    with enable_cudagraphs(mutable) as graphed:
        assert graphed is mutable
        for reference in (of(Broken), changed):
            for which, seq in (("long", 48), ("one", 1)) * 2:
                with mutable.optimization_profile(which):
                    assert_runs(mutable, reference, x_of(seq))
            if reference is not changed:
                assert (counted.captures, counted.replays) == (2, 2)
                mutable.load_state_dict(changed.state_dict())
    assert (counted.captures, counted.replays) == (4, 4)
    assert isinstance(mutable.gm, torch.fx.GraphModule)
    for which, seq in (("long", 48), ("one", 1)):
        with mutable.optimization_profile(which):
            assert_runs(mutable, changed, x_of(seq))


class TestSubgraph:
    """A program without graph breaks: the runtime captures each engine itself, inside of every call."""

    @pytest.fixture(scope="class")
    def program(self):
        profiles = [
            OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
            OptimizationProfile("decode", {"ids": {1: 1}}),
            OptimizationProfile("wide", {"ids": {1: (1, 32, 128)}}),
        ]
        return torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=profiles, min_block_size=1)

    @staticmethod
    def tokens(seq: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.randint(0, 32, (2, seq), device="cuda")
        return ids, torch.arange(seq, device="cuda").expand(2, seq).contiguous()

    @staticmethod
    def launches(call: Any) -> tuple[int, int]:
        """CUDA graphs and single kernels that a call launches, as torch.profiler sees them."""
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            call()
            torch.cuda.synchronize()
        names = [event.name for event in profiler.events()]
        return sum("GraphLaunch" in name for name in names), sum("LaunchKernel" in name for name in names)

    def test_every_call_runs_on_its_own_profile(self, program, counted):
        before = runs(program)
        with enable_cudagraphs(program, cuda_graph_strategy="whole_graph_capture") as graphed:
            assert graphed is program
            for which, seq in (("prefill", 32), ("wide", 32), ("decode", 1), ("wide", 1)) * 5:
                with optimization_profile(program, which):
                    for _ in range(3):
                        assert_runs(graphed, of(TwoInputs), *self.tokens(seq))
        assert more_runs(before, runs(program)) == [[15, 15, 30]]
        assert counted.captures == 0  # none of torch's

    def test_inside_of_a_profile_block(self, program):
        with (
            optimization_profile(program, "decode"),
            enable_cudagraphs(program, cuda_graph_strategy="whole_graph_capture") as graphed,
        ):
            for _ in range(4):
                assert_runs(graphed, of(TwoInputs), *self.tokens(1))

    def test_graphs_are_launched(self, program):
        ids, positions = self.tokens(1)
        call = lambda: program(ids, positions)  # noqa: E731
        found = []
        for strategy in ("disabled", "whole_graph_capture"):
            with (
                optimization_profile(program, "decode"),
                runtime_config(program, dynamic_shapes_kernel_specialization_strategy="eager"),
                enable_cudagraphs(program, cuda_graph_strategy=strategy),
            ):
                for _ in range(5):
                    call()
                torch.cuda.synchronize()
                found.append(self.launches(call))
        (plain_graphs, plain_kernels), (graphs, kernels) = found
        assert graphs > plain_graphs or kernels < plain_kernels, found
