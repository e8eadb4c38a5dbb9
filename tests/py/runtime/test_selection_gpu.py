"""Selection per thread, lazily, on live engines: streams, base and pins, fallback, errors, explain."""

from __future__ import annotations

import threading
import time

import pytest
import torch
import torch_tensorrt
from programs import BREAK, TwoInputs, export_broken, export_two_inputs
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
from torch_tensorrt.runtime import explain, optimization_profile, profile_execution, set_profiling

pytestmark = pytest.mark.gpu

ops = torch.ops.tensorrt
CALLS = 10_000


def compile_two():
    profiles = [
        OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
        OptimizationProfile("decode", {"ids": {1: 1}}),
    ]
    return torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=profiles, min_block_size=1)


def compile_stock():
    ranges = [
        {"min_shape": (2, 16), "opt_shape": (2, 64), "max_shape": (2, 128)},
        {"min_shape": (2, 1), "opt_shape": (2, 1), "max_shape": (2, 1)},
    ]
    spec = [torch_tensorrt.Input(profiles=ranges, dtype=torch.int64) for _ in range(2)]
    return torch_tensorrt.dynamo.compile(export_two_inputs(), inputs=spec, min_block_size=1)


@pytest.fixture(scope="module")
def program():
    return compile_two()


def engine_of(program):
    (module,) = [m for m in program.modules() if isinstance(m, TorchTensorRTModule)]
    return module.engine


def tokens(seq: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(0, 32, (2, seq), generator=torch.Generator().manual_seed(seed)).cuda()
    return ids, torch.arange(seq, device="cuda").expand(2, seq).contiguous()


def eager() -> TwoInputs:
    torch.manual_seed(0)
    return TwoInputs().eval().cuda()


class Caller(threading.Thread):
    """Calls a program under one name on a stream of its own, and counts the outputs that are not eager's."""

    def __init__(self, program, name: str, seq: int, calls: int, before=None, after=None) -> None:
        super().__init__()
        self.program, self.profile, self.calls = program, name, calls
        self.before, self.after = before, after
        self.inputs = [tokens(seq, seed) for seed in range(4)]
        with torch.no_grad():
            self.expected = [eager()(*inputs) for inputs in self.inputs]
        self.stream = torch.cuda.Stream()
        self.wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        self.error: BaseException | None = None
        torch.cuda.synchronize()

    def run(self) -> None:
        try:
            with torch.no_grad(), torch.cuda.stream(self.stream):
                for number in range(self.calls):
                    if self.before:
                        self.before()
                    with optimization_profile(self.program, self.profile):
                        output = self.program(*self.inputs[number % 4])
                    self.wrong += ((output - self.expected[number % 4]).abs().max() > 2e-2).long()
                    if self.after:
                        self.after()
            self.stream.synchronize()
        except BaseException as error:
            self.error = error
            if self.after:
                self.after()

    def finish(self) -> None:
        self.join()
        if self.error is not None:
            raise self.error
        assert int(self.wrong) == 0


def test_two_threads_on_their_own_streams_take_turns(program):
    """Strict turns, so the number of switches is known; nobody waits for the GPU between them."""
    turns = [threading.Semaphore(1), threading.Semaphore(0)]
    before = dict(ops.get_profile_counters(engine_of(program)))
    with optimization_profile(program, "decode"):
        program(*tokens(1))  # known start: the engine is on decode
    start = dict(ops.get_profile_counters(engine_of(program)))
    threads = [
        Caller(program, "prefill", 64, CALLS, turns[0].acquire, turns[1].release),
        Caller(program, "decode", 1, CALLS, turns[1].acquire, turns[0].release),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.finish()
    end = ops.get_profile_counters(engine_of(program))
    assert end["runs_0"] - start["runs_0"] == CALLS
    assert end["runs_1"] - start["runs_1"] == CALLS
    assert end["switches"] - start["switches"] == 2 * CALLS
    assert start["runs_1"] - before["runs_1"] == 1


def test_two_threads_run_freely_while_a_third_toggles_profiling(program, tmp_path):
    start = dict(ops.get_profile_counters(engine_of(program)))
    threads = [Caller(program, "prefill", 64, CALLS), Caller(program, "decode", 1, CALLS)]
    for thread in threads:
        thread.start()
    with profile_execution(tmp_path):
        while any(thread.is_alive() for thread in threads):
            set_profiling(True)
            time.sleep(0.02)
            set_profiling(False)
            time.sleep(0.5)
    for thread in threads:
        thread.finish()
    end = ops.get_profile_counters(engine_of(program))
    assert end["runs_0"] - start["runs_0"] == CALLS
    assert end["runs_1"] - start["runs_1"] == CALLS
    assert 1 <= end["switches"] - start["switches"] <= 2 * CALLS
    assert list(tmp_path.iterdir())


def test_work_in_flight_on_another_stream_is_not_overtaken(program):
    """A long kernel before the call on one stream; the other stream's call must not use the context meanwhile."""
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    many, one = tokens(128, 1), tokens(1, 2)
    with torch.no_grad():
        expected = eager()(*many), eager()(*one)
        torch.cuda.synchronize()
        for _ in range(50):
            with torch.cuda.stream(first), optimization_profile(program, "prefill"):
                torch.cuda._sleep(2_000_000)
                long = program(*many)
            with torch.cuda.stream(second), optimization_profile(program, "decode"):
                short = program(*one)
            torch.cuda.synchronize()
            torch.testing.assert_close(long, expected[0], rtol=2e-2, atol=2e-2)
            torch.testing.assert_close(short, expected[1], rtol=2e-2, atol=2e-2)


def test_a_block_that_does_not_change_the_profile_switches_nothing(program):
    with optimization_profile(program, "decode"):
        program(*tokens(1))
    before = ops.get_profile_counters(engine_of(program))["switches"]
    for _ in range(20):
        with optimization_profile(program, "decode"):
            program(*tokens(1))
    assert ops.get_profile_counters(engine_of(program))["switches"] == before


def test_what_stocks_api_sets_is_the_base(program):
    (module,) = [m for m in program.modules() if isinstance(m, TorchTensorRTModule)]
    module.set_optimization_profile(1)
    program(*tokens(1))
    with optimization_profile(program, "prefill"):
        program(*tokens(20))
    program(*tokens(1))
    module.engine.set_active_profile(0)
    program(*tokens(20))
    ops.set_active_profile(module.engine, 1)
    program(*tokens(1))
    with pytest.raises(IndexError, match="2 profiles, indices 0 to 1"):
        ops.set_active_profile(module.engine, 2)
    ops.clear_active_profile(module.engine)
    program(*tokens(20))


def test_a_misfit_names_input_shape_profile_range_and_what_would_fit(program):
    with optimization_profile(program, "decode"), pytest.raises(ValueError, match="decode") as caught:
        program(*tokens(20))
    for part in ("input 'ids' has shape [2, 20]", "1 'decode' takes [2, 1]", "0 'prefill' would fit"):
        assert part in str(caught.value)
    with optimization_profile(program, "auto"), pytest.raises(ValueError, match=r"'prefill' takes \[2, 16\.\.128\]"):
        program(*tokens(7))  # in the gap
    with optimization_profile(program, "auto"):
        torch.testing.assert_close(program(*tokens(20)), eager()(*tokens(20)), rtol=2e-2, atol=2e-2)


def test_without_names_the_error_says_the_index_and_auto_recovers():
    stock = compile_stock()
    with optimization_profile(stock, 0), pytest.raises(RuntimeError, match=r"optimization profile 0 of 2"):
        stock(*tokens(1))
    for seq in (1, 20, 1):  # the shape that has just failed, too
        with optimization_profile(stock, "auto"):
            torch.testing.assert_close(stock(*tokens(seq)), eager()(*tokens(seq)), rtol=2e-2, atol=2e-2)
    with optimization_profile(stock, "auto"), pytest.raises(RuntimeError):
        stock(*tokens(7))


def test_fallback(program, capfd):
    before = dict(ops.get_profile_counters(engine_of(program)))
    with optimization_profile(program, "decode", fallback=True):
        for seq in (1, 20, 20, 1):
            torch.testing.assert_close(program(*tokens(seq)), eager()(*tokens(seq)), rtol=2e-2, atol=2e-2)
    after = ops.get_profile_counters(engine_of(program))
    assert after["runs_0"] - before["runs_0"] == 2
    assert capfd.readouterr().err.count("lets another run") == 1


def test_overlapping_profiles_are_deterministic():
    profiles = [
        OptimizationProfile("small", {"ids": {1: (1, 8, 32)}}),
        OptimizationProfile("large", {"ids": {1: (1, 64, 128)}}),
    ]
    program = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=profiles, min_block_size=1)
    for seq in (8, 100, 8, 100, 8):
        with optimization_profile(program, "auto"):
            program(*tokens(seq))
    assert ops.get_profile_counters(engine_of(program))["runs_1"] == 2
    ops.set_active_profile(engine_of(program), 1)
    with optimization_profile(program, "auto"):
        program(*tokens(8))
    assert ops.get_profile_counters(engine_of(program))["runs_1"] == 3


def test_explain_runs_nothing(program):
    before = dict(ops.get_profile_counters(engine_of(program)))
    with optimization_profile(program, "decode"):
        (fits,) = explain(program, *tokens(1))
        (misfit,) = explain(program, *(t.cpu() for t in tokens(20)))
    assert (fits.index, fits.profile, fits.shapes) == (1, "decode", ((2, 1), (2, 1)))
    assert misfit.index is None
    assert "'prefill' would fit" in misfit.reason
    assert dict(ops.get_profile_counters(engine_of(program))) == before


def test_explain_a_graph_broken_program():
    profiles = [OptimizationProfile("long", {"x": {1: (4, 32, 64)}}), OptimizationProfile("one", {"x": {1: 1}})]
    broken = torch_tensorrt.dynamo.compile(export_broken(), optimization_profiles=profiles, **BREAK)
    with optimization_profile(broken, "one"):
        first, second = explain(broken, torch.randn(2, 1, 16, device="cuda"))
    assert (first.index, second.index) == (1, 1)
    assert first.shapes == ((2, 1, 16),)
    assert second.shapes is not None
    assert second.shapes[0][1] == 16  # derived: 16 * seq


def test_a_weight_change_inside_of_a_block():
    model = eager()
    profiles = [
        OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}, "positions": {1: (16, 64, 128)}}),
        OptimizationProfile("decode", {"ids": {1: 1}, "positions": {1: 1}}),
    ]
    mutable = torch_tensorrt.MutableTorchTensorRTModule(model, optimization_profiles=profiles, min_block_size=1)
    changed = eager()
    with torch.no_grad():
        changed.linear.weight.mul_(-2)
    with mutable.optimization_profile("decode"):
        torch.testing.assert_close(mutable(*tokens(1)), eager()(*tokens(1)), rtol=2e-2, atol=2e-2)
        mutable.load_state_dict(changed.state_dict())
        torch.testing.assert_close(mutable(*tokens(1)), changed.cuda()(*tokens(1)), rtol=2e-2, atol=2e-2)


def test_torch_compile_callables():
    by_name = torch.compile(compile_two(), backend="eager")  # its engines can be seen
    with optimization_profile(by_name, "decode"):
        torch.testing.assert_close(by_name(*tokens(1)), eager()(*tokens(1)), rtol=2e-2, atol=2e-2)
    hidden = torch.compile(eager(), backend="tensorrt", options={"min_block_size": 1})
    with optimization_profile(hidden, 0):
        torch.testing.assert_close(hidden(*tokens(16)), eager()(*tokens(16)), rtol=2e-2, atol=2e-2)
    with pytest.raises(TypeError, match="hidden"), optimization_profile(hidden, "decode"):
        pass
