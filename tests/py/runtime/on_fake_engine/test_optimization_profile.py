"""Scopes from Python: per thread and lazy, by name, index and shape. The fake engine raises on a wrong profile."""

from __future__ import annotations

import base64
import copy
import gc
import threading
import weakref

import numpy as np
import pytest
import torch
from fake_torch_tensorrt import MutableTorchTensorRTModule, TorchTensorRTModule
from torch_tensorrt_profiles.dynamo import _metadata
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles
from torch_tensorrt_profiles.runtime._context_per_profile import context_per_profile
from torch_tensorrt_profiles.runtime._explain import explain
from torch_tensorrt_profiles.runtime._inspect import optimization_profiles, profile_names
from torch_tensorrt_profiles.runtime._optimization_profile import optimization_profile
from torch_tensorrt_profiles.runtime._prepared import prepared_scope

PREFILL, DECODE = (2, 64), (1, 1)
ops = torch.ops.tensorrt


def make_engine(*ranges, names=None):
    metadata = base64.b64encode(b"").decode()
    if names is not None:
        shapes = tuple({"x": ((low, 3), (low, 3), (high, 3))} for low, high in ranges)
        metadata = _metadata.append(metadata, EngineProfiles(tuple(names), shapes))
    return ops.fake_engine("engine", [list(pair) for pair in ranges], metadata)


class Program(torch.nn.Module):
    def __init__(self, *engines) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList()
        for engine in engines:
            self.parts.append(TorchTensorRTModule(engine))

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


@pytest.fixture
def engine():
    # As a loaded program, whose engine tells its own names.
    return make_engine(PREFILL, DECODE, names=("prefill", "decode"))


class Loaded(torch.nn.Module):
    """A loaded program: the engine is an attribute, and its own metadata has the names."""

    def __init__(self, engine) -> None:
        super().__init__()
        self.engine = engine

    def forward(self, x):
        return torch.ops.tensorrt.execute_engine([x], self.engine)[0]


@pytest.fixture
def program(engine):
    return Loaded(engine)


def runs(engine):
    counters = ops.get_profile_counters(engine)
    return [counters[f"runs_{i}"] for i in range(len(counters) - 1)]


def call(program, extent):
    assert program(torch.ones(extent, 3)).shape == (extent, 3)


def test_entering_switches_nothing(program, engine):
    for _ in range(5):
        with optimization_profile(program, "decode"):
            pass
    with optimization_profile(program, "prefill"):
        call(program, 2)
    assert ops.get_profile_counters(engine)["switches"] == 0


def test_by_name_index_and_shape(program, engine):
    for which, extent in (("decode", 1), (0, 64), (None, 2), (1, 1), ("auto", 30), ("auto", 1)):
        with optimization_profile(program, which) as entered:
            assert entered is program
            call(program, extent)
    assert runs(engine) == [3, 3]


def test_nesting_exceptions_and_the_base(program, engine):
    with optimization_profile(program, "decode"):
        call(program, 1)
        with optimization_profile(program, "prefill"):
            call(program, 2)
        with pytest.raises(ZeroDivisionError), optimization_profile(program, "prefill"):
            1 / 0
        call(program, 1)
    call(program, 2)
    assert ops.get_active_profile(engine) == 0


def test_a_misfit_names_everything(program):
    with (
        optimization_profile(program, "decode"),
        pytest.raises(ValueError, match=r"input 'x' has shape \[7, 3\].*1 'decode' takes \[1, 3\].*0 'prefill' would"),
    ):
        call(program, 7)


def test_other_threads_are_not_affected(program, engine):
    seen = []
    with optimization_profile(program, "decode"):
        thread = threading.Thread(target=lambda: seen.append(ops.get_active_profile(engine)))
        thread.start()
        thread.join()
        assert ops.get_active_profile(engine) == 1
    assert seen == [0]


def test_leaving_out_of_order_raises_and_names_asyncio(program, engine):
    outer, inner = optimization_profile(program, "decode"), optimization_profile(program, "prefill")
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="asyncio"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    assert ops.get_active_profile(engine) == 0


def test_a_failing_enter_changes_nothing(program, engine):
    with pytest.raises(ValueError, match=r"'decod'.*\['prefill', 'decode'\].*Did you mean 'decode'"):
        optimization_profile(program, "decod").__enter__()
    for bad in (2, -1):
        with pytest.raises(ValueError, match="out of range"):
            optimization_profile(program, bad).__enter__()
    for bad in (True, np.True_, 1.0, b"decode", [1]):
        with pytest.raises(TypeError):
            optimization_profile(program, bad).__enter__()
    for bad in (3, None, "model.pt2", [engine]):
        with pytest.raises(TypeError, match="takes a compiled program"):
            optimization_profile(bad, "decode").__enter__()
    scope = optimization_profile(program, "decode")
    with scope, pytest.raises(RuntimeError, match="already entered"):
        scope.__enter__()
    assert ops.get_active_profile(engine) == 0


def test_one_is_not_true(program):
    with optimization_profile(program, 1):  # remembered
        pass
    with pytest.raises(TypeError):
        optimization_profile(program, True).__enter__()


def test_names_on_engines_without(engine):
    plain = Loaded(make_engine(PREFILL, DECODE))
    with pytest.raises(TypeError, match="by index"):
        optimization_profile(plain, "decode").__enter__()
    with optimization_profile(plain, 1):
        call(plain, 1)


def test_single_profile_engines_beside_are_left_alone():
    single, double = make_engine((1, 100)), make_engine(PREFILL, DECODE)
    program = Program(single, double)
    with optimization_profile(program, 1):
        call(program, 1)
    assert runs(single) == [1]
    assert runs(double) == [0, 1]
    with pytest.raises(ValueError, match=r"have 2 profile\(s\), index 0 to 1"):
        optimization_profile(program, 2).__enter__()
    uneven = Program(double, make_engine(PREFILL, DECODE, (100, 200)))
    with pytest.raises(ValueError, match="'fake_engine', which has 2 profiles, index 0 to 1"):
        optimization_profile(uneven, 2).__enter__()


def test_fallback_runs_and_warns_once_per_block(program, engine, capfd):
    for _ in range(2):
        with optimization_profile(program, "decode", fallback=True):
            for extent in (1, 5, 6):
                call(program, extent)
    assert capfd.readouterr().err.count("lets another run") == 2
    assert runs(engine) == [4, 2]


def test_a_torch_compile_callable_covers_the_threads_engines_by_index(program, engine):
    hidden = torch.compile(lambda x: x, backend="eager")
    with optimization_profile(hidden, 1):
        call(program, 1)
    with optimization_profile(hidden, "auto"):
        call(program, 1)
    with pytest.raises(TypeError, match="hidden"):
        optimization_profile(hidden, "decode").__enter__()
    with pytest.raises(ValueError, match="negative"):
        optimization_profile(hidden, -1).__enter__()


def test_enter_and_exit_are_not_traced(program, engine):
    def step(x):
        with optimization_profile(program, "decode"):
            return program(x) * 2

    compiled = torch.compile(step, backend="eager")
    for _ in range(3):
        assert compiled(torch.ones(1, 3)).shape == (1, 3)
    assert ops.get_active_profile(engine) == 0
    assert runs(engine) == [0, 3]


def test_entering_while_exporting_is_refused(program):
    class Holder(torch.nn.Module):
        def forward(self, x):
            with optimization_profile(program, "decode"):
                return x + 1

    with pytest.raises(Exception, match="being exported"):
        torch.export.export(Holder(), (torch.ones(1, 3),), strict=False)


def test_a_deep_copy_that_shares_the_engine_shares_the_block(program, engine):
    class Copied(Loaded):
        def __deepcopy__(self, memo):  # as Torch-TensorRT's module does
            return Copied(self.engine)

    original = Copied(engine)
    with optimization_profile(copy.deepcopy(original), "decode"):
        call(original, 1)


class TestPreparedScopes:
    def test_several_scopes_of_one_program_are_kept(self, program):
        wanted = [("prefill", False), ("decode", False), ("decode", True)]
        first = [prepared_scope(program, *each) for each in wanted]
        assert [prepared_scope(program, *each) for each in wanted] == first

    def test_an_integer_of_numpy_is_the_same_selection(self, program):
        assert prepared_scope(program, np.int64(1), False) is prepared_scope(program, 1, False)
        with pytest.raises(TypeError, match="bool"):
            prepared_scope(program, True, False)

    def test_a_block_that_cannot_be_opened_is_an_error(self, program):
        ops._forget_profile_scope(prepared_scope(program, "decode", False).number)
        block = optimization_profile(program, "decode")
        with pytest.raises(RuntimeError, match="nothing is selected"):
            block.__enter__()
        assert ops.get_active_profile(program.engine) == 0

    def test_a_new_engine_is_seen(self, program):
        with optimization_profile(program, "decode"):
            call(program, 1)
        program.engine = make_engine(DECODE, PREFILL, names=("decode", "prefill"))
        with optimization_profile(program, "decode"):
            call(program, 1)
        assert runs(program.engine) == [1, 0]

    def test_a_new_child_is_seen(self):
        program = Program(make_engine(PREFILL, DECODE))
        with optimization_profile(program, 1):
            pass
        program.parts.append(TorchTensorRTModule(make_engine(PREFILL, DECODE)))
        with optimization_profile(program, 1):
            call(program, 1)
        assert runs(program.parts[1].engine) == [0, 1]

    def test_nothing_is_kept_alive(self):
        program = Loaded(make_engine(PREFILL, DECODE))
        number = prepared_scope(program, 1, False).number
        references = [weakref.ref(program), weakref.ref(program.engine)]
        del program
        gc.collect()
        assert [reference() for reference in references] == [None, None]
        with pytest.raises(RuntimeError, match="no prepared scope"):
            ops._push_prepared_profile_scope(number)


class TestRecompiledPrograms:
    def test_a_program_compiled_inside_of_its_block_runs_in_it(self):
        made = [make_engine(PREFILL, DECODE, names=("prefill", "decode")) for _ in range(2)]
        program = MutableTorchTensorRTModule(lambda: Loaded(made[len(history)]))
        history = []
        with optimization_profile(program, "decode"):
            call(program, 1)
            history.append(0)
            program.compile()
            call(program, 1)
        assert [runs(engine) for engine in made] == [[0, 1], [0, 1]]
        assert ops.get_active_profile(made[1]) == 0


def test_explain_follows_the_shapes_through_the_program_and_runs_nothing(engine):
    class Broken(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = Loaded(engine), Loaded(make_engine((1, 4), (5, 200), names=("few", "lots")))

        def forward(self, x):
            return self.second(torch.cat([self.first(x)] * 3))

    program = Broken()
    with optimization_profile(program, "auto"):
        first, second = explain(program, torch.ones(1, 3))
        assert (first.index, first.profile, first.shapes) == (1, "decode", ((1, 3),))
        assert (second.index, second.profile, second.shapes) == (0, "few", ((3, 3),))
        assert [each.index for each in explain(program, x=torch.ones(10, 3))] == [0, 1]
    (misfit, _) = explain(program, torch.ones(1, 3))
    assert misfit.index is None
    assert "'decode' would fit" in misfit.reason
    assert runs(engine) == [0, 0]


@pytest.mark.parametrize("caller", [profile_names, optimization_profiles, explain, context_per_profile])
def test_what_is_no_program_is_refused(caller):
    with pytest.raises(
        TypeError, match=rf"{caller.__name__}\(\) takes a compiled program, got 'a\.pt2' of type str; load"
    ):
        caller("a.pt2")


def test_leaving_what_was_not_entered_is_an_error(program, engine):
    scope = optimization_profile(program, "decode")
    with pytest.raises(RuntimeError, match="not open; use a with statement"):
        scope.__exit__(None, None, None)
    with scope:
        call(program, 1)
    with pytest.raises(RuntimeError, match="not open"):
        scope.__exit__(None, None, None)
    assert runs(engine) == [0, 1]


def test_explain_without_shapes(program):
    with optimization_profile(program, "decode"):
        (explanation,) = explain(program)
    assert (explanation.engine, explanation.index, explanation.profile) == ("engine", 1, "decode")
    assert explanation.shapes is None
    assert "innermost optimization_profile() block" in explanation.reason
    with pytest.raises(ValueError, match="no TensorRT engine"):
        explain(torch.nn.Linear(1, 1))


def test_torchscript_with_a_container():
    """A ModuleList has no method of its own in TorchScript."""
    engine = make_engine(PREFILL, DECODE, names=("prefill", "decode"))
    program = Program(engine)
    with optimization_profile(Loaded(engine), "prefill"):
        script = torch.jit.trace(program, (torch.zeros(2, 3),), check_trace=False)
    assert profile_names(script) == ["prefill", "decode"]
    with optimization_profile(script, "decode"):
        call(script, 1)
    assert runs(engine) == [1, 1]
