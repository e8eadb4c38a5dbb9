"""``runtime_config`` and friends on programs whose engines no TorchTensorRTModule holds. The engines are stand-ins."""

from __future__ import annotations

import logging
import weakref
from functools import partial
from typing import Any

import pytest
import torch
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
from torch_tensorrt.runtime import (
    RuntimeCache,
    RuntimeSettings,
    _runtime_config,
    enable_cudagraphs,
    get_cudagraphs_mode,
    runtime_cache,
    runtime_config,
    set_dynamic_shapes_kernel_strategy,
)
from torch_tensorrt_profiles.runtime import _cuda_graphs, _engines, _runtime_settings
from torch_tensorrt_profiles.runtime._engines import ProgramEngine

LAZY, EAGER, NONE = 0, 1, 2
DISABLED, WHOLE_GRAPH = 0, 1


class Engine:
    """What Torch-TensorRT's engine object takes, and what the C++ library notes of it."""

    def __init__(self) -> None:
        self.settings: list[Any] = []
        self.fails = False

    def update_runtime_settings(self, kernels: int, graphs: int, cache: Any) -> None:
        if self.fails:
            raise RuntimeError("no such setting")
        self.settings = [kernels, graphs, cache]


class Runner:
    """As an AOTInductor package's: callable, and no torch.nn.Module."""

    def __init__(self, *engines: Engine) -> None:
        self.engines = engines

    def __call__(self) -> None:
        raise NotImplementedError


class Loaded(torch.nn.Module):
    def __init__(self, *engines: Engine | None) -> None:
        super().__init__()
        self.engines = engines


class Part(TorchTensorRTModule):
    def get_engine(self) -> Any:  # which a host without a GPU refuses
        return self.engine


class Compiled(torch.nn.Module):
    """Modules hold its engines."""

    def __init__(self, *engines: Engine) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList()
        for engine in engines:
            part = Part()
            part.engine = engine
            part.runtime_settings = RuntimeSettings(runtime_cache=None)
            self.parts.append(part)


class Mutable(torch.nn.Module):
    """As a MutableTorchTensorRTModule: what it was compiled to is none of its own modules."""

    def __init__(self, *engines: Engine) -> None:
        super().__init__()
        self.compiled = (Compiled(*engines),)

    @property
    def parts(self) -> torch.nn.ModuleList:
        return self.compiled[0].parts


@pytest.fixture(autouse=True)
def engines_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def engines_of(program: Any) -> list[ProgramEngine]:
        held = [ProgramEngine("engine", part.engine, None, part) for part in getattr(program, "parts", ())]
        return held + [ProgramEngine("engine", engine, None) for engine in getattr(program, "engines", ())]

    monkeypatch.setattr(_runtime_settings, "engines_of", engines_of)
    monkeypatch.setattr(_engines, "engines_of", engines_of)
    monkeypatch.setattr(_cuda_graphs, "engines_of", engines_of)
    monkeypatch.setattr(_runtime_settings, "may_be_compiled_again", lambda program: isinstance(program, Mutable))
    monkeypatch.setattr(torch.ops.tensorrt, "_get_runtime_settings", lambda engine: engine.settings)


@pytest.mark.parametrize("form", [Loaded, Runner])
def test_settings_hold_in_the_block_and_nest(form):
    first, second = Engine(), Engine()
    second.update_runtime_settings(EAGER, DISABLED, None)
    program = form(first, second)
    with runtime_config(program, cuda_graph_strategy="whole_graph_capture") as entered:
        assert entered is program
        assert [engine.settings for engine in (first, second)] == [
            [LAZY, WHOLE_GRAPH, None],
            [EAGER, WHOLE_GRAPH, None],
        ]
        with set_dynamic_shapes_kernel_strategy(program, "none"):
            assert [engine.settings[:2] for engine in (first, second)] == [[NONE, WHOLE_GRAPH]] * 2
        assert [engine.settings[:2] for engine in (first, second)] == [[LAZY, WHOLE_GRAPH], [EAGER, WHOLE_GRAPH]]
    assert [engine.settings for engine in (first, second)] == [[LAZY, DISABLED, None], [EAGER, DISABLED, None]]


def test_several_programs(caplog):
    first, second = Engine(), Engine()
    programs = [Loaded(first), Runner(second)]
    with runtime_config(programs, cuda_graph_strategy="whole_graph_capture") as entered:
        assert entered == tuple(programs)
        assert first.settings[1] == second.settings[1] == WHOLE_GRAPH
    assert first.settings[1] == second.settings[1] == DISABLED
    assert caplog.text == ""


@pytest.mark.parametrize("form", [Loaded, Compiled, Mutable])
def test_an_engine_that_refuses_leaves_the_others_as_they_were(form):
    first, second = Engine(), Engine()
    program = form(first, second)
    second.fails = True
    with pytest.raises(RuntimeError, match="no such setting"):
        runtime_config(program, cuda_graph_strategy="whole_graph_capture").__enter__()
    assert first.settings == [LAZY, DISABLED, None]


@pytest.mark.parametrize("form", [Loaded, Compiled, Mutable, Runner])
def test_a_block_is_entered_again(form):
    engine = Engine()
    program = form(engine)
    block = runtime_config(program, cuda_graph_strategy="whole_graph_capture")
    for _ in range(2):
        with block:
            assert engine.settings == [LAZY, WHOLE_GRAPH, None]
        assert engine.settings == [LAZY, DISABLED, None]
    assert not block._saved  # which would keep the modules, and their weights on the device
    reference = weakref.ref(program)
    del program, block
    assert reference() is None


@pytest.mark.parametrize(
    "open_block", [runtime_cache, partial(enable_cudagraphs, cuda_graph_strategy="whole_graph_capture")]
)
def test_deactivated_inside_the_block(open_block, monkeypatch):
    engine = Engine()
    cls = _runtime_config._RuntimeConfigContextManager
    with open_block(Runner(engine)):
        assert engine.settings[1] == WHOLE_GRAPH or engine.settings[2] is not None
        monkeypatch.setattr(cls, "__exit__", cls.__exit__.__wrapped__)  # stock's
    assert engine.settings == [LAZY, DISABLED, None]


def test_activated_inside_the_block():
    engine = Engine()
    cls = _runtime_config._RuntimeConfigContextManager
    block = object.__new__(cls)
    cls.__init__.__wrapped__(block, Compiled(engine), cuda_graph_strategy="whole_graph_capture")  # stock's
    cls.__enter__.__wrapped__(block)
    assert engine.settings == [LAZY, WHOLE_GRAPH, None]
    block.__exit__(None, None, None)
    assert engine.settings == [LAZY, DISABLED, None]


@pytest.mark.parametrize("form", [Loaded, Compiled, Mutable, Runner])
def test_a_cache_is_attached_and_saved(form, tmp_path, monkeypatch):
    saved: list[Any] = []
    monkeypatch.setattr(RuntimeCache, "save", lambda self, path=None: saved.append((self.path, engine.settings[2])))
    engine = Engine()
    file = str(tmp_path / "kernels.bin")
    with runtime_cache(form(engine), file) as cache:
        assert engine.settings[2] is cache._handle
        assert cache.path == file
    assert saved == [(file, None)]  # detached first


def test_a_path_is_one_cache_for_all_engines(tmp_path, monkeypatch):
    saved: list[Any] = []
    monkeypatch.setattr(RuntimeCache, "save", lambda self, path=None: saved.append(self.path))
    first, second = Engine(), Engine()
    file = str(tmp_path / "kernels.bin")
    with runtime_config(Runner(first, second), runtime_cache=file):
        assert first.settings[2] is second.settings[2] is not None
        assert saved == []
    assert saved == [file]
    assert first.settings[2] is second.settings[2] is None


def test_a_cache_that_cannot_be_saved_is_a_warning(tmp_path, monkeypatch, caplog):
    def fail(self: Any, path: Any = None) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(RuntimeCache, "save", fail)
    with runtime_config(Runner(Engine()), runtime_cache=str(tmp_path / "kernels.bin")):
        pass
    assert "disk full" in caplog.text


def test_a_cache_that_cannot_be_read_begins_empty(tmp_path, monkeypatch, caplog):
    def fail(self: Any, path: Any = None) -> None:
        raise OSError("no permission")

    monkeypatch.setattr(RuntimeCache, "load", fail)
    engine = Engine()
    with runtime_config(Runner(engine), runtime_cache=str(tmp_path / "kernels.bin")):
        assert engine.settings[2] is not None
    assert "no permission" in caplog.text


def test_bad_input():
    engine = Engine()
    with pytest.raises(TypeError, match="Unknown RuntimeSettings field"):
        runtime_config(Runner(engine), cuda_graphs="whole_graph_capture")
    with pytest.raises(ValueError, match="cuda_graph_strategy"):
        runtime_config(Runner(engine), cuda_graph_strategy="all").__enter__()
    for open_block in (runtime_config, runtime_cache, enable_cudagraphs):
        for bad in (3, "a.pt2"):
            with pytest.raises(TypeError, match=rf"{open_block.__name__}\(\) takes a compiled program, got {bad!r} of"):
                open_block(bad).__enter__()
    assert engine.settings == []
    assert not get_cudagraphs_mode()


def test_without_engines(caplog):
    with caplog.at_level(logging.WARNING), runtime_config(torch.nn.Linear(1, 1), cuda_graph_strategy="disabled"):
        pass
    assert "runtime_config() found no TensorRT engine in Linear, so nothing is set. Give" in caplog.text
    with pytest.raises(RuntimeError, match="at least one TorchTensorRTModule"):
        runtime_cache(torch.nn.Linear(1, 1)).__enter__()


def test_engines_that_are_only_data():
    with pytest.raises(RuntimeError, match="Engine 'engine' is only data here"):
        runtime_cache(Loaded(None)).__enter__()
    with pytest.raises(ValueError, match=r"runtime_cache\(\) found no TensorRT engine in Runner"):
        runtime_cache(Runner()).__enter__()


def test_cuda_graphs_of_a_runner():
    engine = Engine()
    runner = Runner(engine)
    before = get_cudagraphs_mode()
    with enable_cudagraphs(runner, cuda_graph_strategy="whole_graph_capture") as entered:
        assert entered is runner
        assert get_cudagraphs_mode()
        assert engine.settings == [LAZY, WHOLE_GRAPH, None]
    assert engine.settings == [LAZY, DISABLED, None]
    assert get_cudagraphs_mode() == before


def test_cuda_graphs_of_torchscript_with_graph_breaks():
    """It has no graph of Python's that could be captured as a whole, so each engine is captured."""

    class Broken(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._run_on_gpu_0 = torch.nn.ReLU()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self._run_on_gpu_0(x)

    script = torch.jit.trace(Broken(), (torch.zeros(1),))
    with enable_cudagraphs(script) as entered:
        assert entered is script
        assert get_cudagraphs_mode()
    assert not get_cudagraphs_mode()
