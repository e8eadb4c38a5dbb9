"""A context per profile from Python. The fake engine raises on a wrong profile, and aborts on weights of its own."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from fake_torch_tensorrt import MutableTorchTensorRTModule
from test_optimization_profile import DECODE, PREFILL, Loaded, Program, call, make_engine, runs
from torch_tensorrt_profiles import _library
from torch_tensorrt_profiles.runtime._context_per_profile import context_per_profile
from torch_tensorrt_profiles.runtime._explain import explain
from torch_tensorrt_profiles.runtime._optimization_profile import optimization_profile
from torch_tensorrt_profiles.runtime._profiling import get_profiling, profile_execution, set_profiling

ops = torch.ops.tensorrt

#: What each context of a fake engine takes of the fake device's memory, and its weights.
ACTIVATION_BYTES, WEIGHT_BYTES = 10, 1000


@pytest.fixture
def engine():
    return make_engine(PREFILL, DECODE, names=("prefill", "decode"))


@pytest.fixture
def program(engine):
    return Loaded(engine)


def contexts() -> int:
    """How many contexts' worth of memory is taken; the weights of each engine are there once."""
    gc.collect()
    return (_free_at_start - ops.fake_device_memory()) % WEIGHT_BYTES // ACTIVATION_BYTES


_free_at_start = ops.fake_device_memory()


def switches(engine) -> int:
    return ops.get_profile_counters(engine)["switches"]


def alternate(program, steps: int = 3) -> None:
    for _ in range(steps):
        for which, extent in (("prefill", 64), ("decode", 1)):
            with optimization_profile(program, which):
                call(program, extent)


def test_in_a_block_nothing_is_switched(program, engine):
    with context_per_profile(program) as entered:
        assert entered is program
        alternate(program)
        assert contexts() == 2
    assert switches(engine) == 0
    assert contexts() == 1
    alternate(program)
    assert switches(engine) == 5
    assert runs(engine) == [6, 6]


def test_blocks_end_after_deactivate(program, tmp_path):
    before = get_profiling()
    try:
        with context_per_profile(program), profile_execution(tmp_path):
            _library.deactivate()
    finally:
        _library.activate()
        set_profiling(before.enabled, format=before.format, path_prefix=before.path_prefix)


def test_a_plain_call_is_for_good(engine):
    program = Loaded(engine)
    context_per_profile(program)
    gc.collect()
    alternate(program)
    with context_per_profile(program):
        alternate(program)
    alternate(program)
    assert switches(engine) == 0
    assert contexts() == 2


def test_they_go_with_the_program():
    program = Loaded(make_engine(PREFILL, DECODE))
    context_per_profile(program)
    call(program, 2)
    assert contexts() == 2
    del program
    assert contexts() == 0


def test_blocks_nest_and_exceptions_end_them(program, engine):
    with context_per_profile(program):
        with pytest.raises(ZeroDivisionError), context_per_profile(program):
            1 / 0
        alternate(program)
        assert switches(engine) == 0
    assert contexts() == 1
    ended = context_per_profile(program)
    ended.close()
    ended.close()
    with pytest.raises(RuntimeError, match="again for each block"):
        ended.__enter__()


def test_what_was_made_is_told():
    program = Program(make_engine(PREFILL, DECODE), make_engine((1, 100)))
    with optimization_profile(program, 1):
        made = context_per_profile(program)
        assert [engine.profiles for engine in made.engines] == [2, 1]
        assert made.engines[0].plan_bytes > 0
        assert made.engines[1].plan_bytes is None
        call(program, 1)


def test_selection_goes_on_as_it_was(program, engine):
    with context_per_profile(program):
        ops.set_active_profile(engine, 1)
        call(program, 1)
        assert ops.get_active_profile(engine) == 1
        with optimization_profile(program, "prefill"):
            assert explain(program)[0].profile == "prefill"
            call(program, 2)
        with optimization_profile(program, "auto"):
            call(program, 1)
            call(program, 30)
        with pytest.raises(ValueError, match=r"input 'x' has shape \[7, 3\].*1 'decode' takes \[1, 3\]"):
            call(program, 7)
        ops.clear_active_profile(engine)
        call(program, 2)
    assert switches(engine) == 0
    assert runs(engine) == [3, 2]


def test_programs_without_engines_that_can_be_seen():
    with pytest.raises(ValueError, match=r"no TensorRT engine in Linear.*torch\.compile"):
        context_per_profile(torch.nn.Linear(1, 1))


def test_a_failure_leaves_the_whole_program_as_it_was(monkeypatch, program, engine):
    program = Program(engine, make_engine(PREFILL, DECODE))
    make, made = ops._make_profile_contexts, []

    def make_one(live):
        if made:
            raise RuntimeError("out of device memory")
        made.append(live)
        return make(live)

    monkeypatch.setattr(ops, "_make_profile_contexts", make_one)
    with pytest.raises(RuntimeError, match="out of device memory"):
        context_per_profile(program)
    assert contexts() == 0
    with optimization_profile(program, 1):
        call(program, 1)


def test_made_and_ended_while_threads_call(program, engine):
    errors = []

    def work(which, extent):
        try:
            for _ in range(200):
                with optimization_profile(program, which):
                    call(program, extent)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=each) for each in (("prefill", 2), ("decode", 1), ("auto", 1))]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with context_per_profile(program):
            pass
    for thread in threads:
        thread.join()
    assert errors == []
    assert sum(runs(engine)) == 600


class TestCompiledAgain:
    @pytest.fixture
    def mutable(self):
        mutable = MutableTorchTensorRTModule(lambda: Loaded(make_engine(PREFILL, DECODE, names=("prefill", "decode"))))
        mutable.compile()
        return mutable

    def test_contexts_that_are_for_good(self, mutable):
        context_per_profile(mutable)
        before = mutable.gm.engine
        mutable.compile()
        assert mutable.gm.engine is not before
        alternate(mutable)
        assert switches(mutable.gm.engine) == 0
        del before
        assert contexts() == 2

    def test_a_block_that_was_open_ends_those_of_the_new_engines(self, mutable):
        with context_per_profile(mutable), context_per_profile(mutable):
            mutable.compile()
            alternate(mutable)
            assert switches(mutable.gm.engine) == 0
        assert contexts() == 1
        mutable.compile()
        alternate(mutable)
        assert switches(mutable.gm.engine) == 5

    def test_where_there_is_no_room_it_goes_on_with_one(self, mutable, monkeypatch, caplog):
        context_per_profile(mutable)
        with monkeypatch.context() as patch:

            def fail(engine):
                raise RuntimeError("too little memory")

            patch.setattr(ops, "_make_profile_contexts", fail)
            mutable.compile()
        assert "too little memory" in caplog.text
        alternate(mutable)
        assert switches(mutable.gm.engine) == 5
        assert contexts() == 1

    def test_without_engines_it_goes_on(self, mutable, caplog):
        context_per_profile(mutable)
        mutable.make = lambda: torch.nn.Linear(1, 1)
        mutable.compile()
        assert "no TensorRT engine" in caplog.text
        assert mutable(torch.zeros(1, 1)).shape == (1, 1)

    def test_another_thread_closes_meanwhile(self, mutable, monkeypatch):
        first, second = context_per_profile(mutable), context_per_profile(mutable)
        closing = threading.Thread(target=second.close)
        make = ops._make_profile_contexts

        def make_while_closing(engine):
            if closing.ident is None:
                closing.start()
                closing.join(0.2)  # it waits until all uses have moved
            return make(engine)

        monkeypatch.setattr(ops, "_make_profile_contexts", make_while_closing)
        mutable.compile()
        closing.join()
        first.close()
        alternate(mutable)
        assert switches(mutable.gm.engine) == 5
        assert contexts() == 1
