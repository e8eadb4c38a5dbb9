"""What is measured against what: ways of running one decoder's prefill and decode.

A contender is made fresh with :meth:`start`, which says how kernels are specialised and whether CUDA graphs are used,
and frees what it holds with :meth:`stop`.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from cases.decoders import Decoder
from cases.names import COMPILED, CONTEXTS, EAGER, ENGINES, ONE, TWO

PHASES = ("prefill", "decode")


class Contender:
    name: str
    phases: tuple[str, ...] = PHASES

    def start(self, strategy: str, graphs: bool) -> None:
        """Begins anew, with nothing compiled or captured."""

    def stop(self) -> None:
        """Frees engines and graphs."""

    def select(self, phase: str) -> contextlib.AbstractContextManager[Any]:
        """A block for the calls of a phase."""
        return contextlib.nullcontext()

    def call(self, phase: str, inputs: Sequence[Tensor]) -> Any:
        raise NotImplementedError


class Eager(Contender):
    name = EAGER

    def __init__(self, decoder: Decoder) -> None:
        self.module = decoder.module
        self._graphs: dict[str, Callable[[], Any]] | None = None

    def start(self, strategy: str, graphs: bool) -> None:
        self._graphs = {} if graphs and torch.cuda.is_available() else None

    def stop(self) -> None:
        self._graphs = None

    def call(self, phase: str, inputs: Sequence[Tensor]) -> Any:
        """With CUDA graphs, the first call of a phase is captured and further ones replay it, whatever their inputs."""
        if self._graphs is None:
            return self.module(*inputs)
        if phase not in self._graphs:
            made = self.module(*inputs)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                made = self.module(*inputs)
            self._graphs[phase] = lambda: (graph.replay(), made)[1]
        return self._graphs[phase]()


class Compiled(Contender):
    """``torch.compile``: a graph of its own for each phase, with CUDA graphs its mode "max-autotune"."""

    name = COMPILED

    def __init__(self, decoder: Decoder) -> None:
        self.module = decoder.module

    def start(self, strategy: str, graphs: bool) -> None:
        torch._dynamo.reset()
        mode = "max-autotune" if graphs else "max-autotune-no-cudagraphs"
        self._call = torch.compile(self.module, mode=mode, dynamic=False)
        self._fixed = graphs

    def stop(self) -> None:
        self._call = None
        torch._dynamo.reset()

    def call(self, phase: str, inputs: Sequence[Tensor]) -> Any:
        if self._fixed:  # or its CUDA graphs copy the cache at each call
            for value in inputs:
                torch._dynamo.mark_static_address(value)
        return self._call(*inputs)


class Engine:
    """A Torch-TensorRT program of one engine, and what building it took."""

    def __init__(self, exported: torch.export.ExportedProgram, profiles: list[Any]) -> None:
        import torch_tensorrt
        from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

        start = time.perf_counter()
        self.program = torch_tensorrt.dynamo.compile(exported, optimization_profiles=profiles)
        self.build_seconds = round(time.perf_counter() - start, 2)
        modules = [part for part in self.program.modules() if isinstance(part, TorchTensorRTModule)]
        if len(modules) != 1:
            raise RuntimeError(f"expected one engine, got {len(modules)}: the model has a graph break")
        self.module = modules[0]
        self.plan_bytes = len(self.module.serialized_engine)
        self.stop()

    def start(self, strategy: str, graphs: bool, cache: Any) -> None:
        import torch_tensorrt

        self.stop()
        torch_tensorrt.runtime.set_cudagraphs_mode(graphs)
        self.module.runtime_settings = torch_tensorrt.runtime.RuntimeSettings(
            dynamic_shapes_kernel_specialization_strategy=strategy,
            cuda_graph_strategy="whole_graph_capture" if graphs else "disabled",
            runtime_cache=cache,
        )
        self.module.setup_engine()

    def stop(self) -> None:
        self.module.engine = None
        gc.collect()


class Engines(Contender):
    """Engines of Torch-TensorRT: one for both phases, with one context or one per profile, or an engine for each.

    Attributes:
        contexts: what ``context_per_profile`` made for the engine of both phases, while it runs with contexts.
    """

    def __init__(self, name: str, engines: dict[str, Engine], selects: bool, makes_contexts: bool = False) -> None:
        self.name, self.engines, self._selects, self._makes_contexts = name, engines, selects, makes_contexts
        self.contexts: Any = None

    def start(self, strategy: str, graphs: bool, cache: Any = None) -> None:
        """``cache``: a RuntimeCache for what TensorRT-RTX compiles, or None."""
        for engine in set(self.engines.values()):
            engine.start(strategy, graphs, cache)
        if self._makes_contexts:
            from torch_tensorrt.runtime import context_per_profile

            self.contexts = context_per_profile(self.engines["decode"].program)

    def stop(self) -> None:
        if self.contexts:
            self.contexts.close()
            self.contexts = None
        for engine in set(self.engines.values()):
            engine.stop()

    def select(self, phase: str) -> contextlib.AbstractContextManager[Any]:
        if not self._selects:
            return contextlib.nullcontext()
        from torch_tensorrt.runtime import optimization_profile

        return optimization_profile(self.engines[phase].program, phase)

    def call(self, phase: str, inputs: Sequence[Tensor]) -> Any:
        return self.engines[phase].program(*inputs)

    def facts(self) -> dict[str, Any]:
        engines = list(dict.fromkeys(self.engines.values()))
        return {
            "contender": self.name,
            "build_seconds": [engine.build_seconds for engine in engines],
            "plan_bytes": [engine.plan_bytes for engine in engines],
        }


def eager(decoder: Decoder, exported: torch.export.ExportedProgram) -> Eager:
    return Eager(decoder)


def two_profiles(decoder: Decoder, exported: torch.export.ExportedProgram) -> Engines:
    engine = Engine(exported, decoder.profiles("prefill", "decode"))
    return Engines(TWO, dict.fromkeys(PHASES, engine), selects=True)


def contexts(decoder: Decoder, exported: torch.export.ExportedProgram) -> Engines:
    return with_contexts(two_profiles(decoder, exported))


def with_contexts(two: Engines) -> Engines:
    """The same engine with a context per profile; only one of the two may run at a time."""
    return Engines(CONTEXTS, two.engines, selects=True, makes_contexts=True)


def one_profile(decoder: Decoder, exported: torch.export.ExportedProgram) -> Engines:
    return Engines(ONE, dict.fromkeys(PHASES, Engine(exported, decoder.profiles("all"))), selects=False)


def two_engines(decoder: Decoder, exported: torch.export.ExportedProgram) -> Engines:
    engines = {phase: Engine(exported, decoder.profiles(phase)) for phase in PHASES}
    return Engines(ENGINES, engines, selects=False)
