"""CUDA graphs of a whole program with optimization profiles: captured once per profile and shape, then kept.

A replay does not go through the engines, so nothing selects a profile, looks for a lost context or applies a profiling
configuration then. All of that decides here whether a kept graph may be replayed.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

#: How many graphs one program keeps; beyond that the one whose last use is longest ago goes.
KEPT_GRAPHS = 32
#: Before anything is captured, as many as Torch-TensorRT makes.
WARM_UP_CALLS = 3


class Kind(NamedTuple):
    """What a graph takes.

    Attributes:
        inputs: shape and dtype of each tensor; of anything else, its type and value, which the graph has baked in.
        structure: how the inputs were given.
    """

    inputs: tuple[Hashable, ...]
    structure: pytree.TreeSpec


class Place(NamedTuple):
    """What a graph is kept for: the profile that each engine runs on, its inputs, and the stream it is replayed on."""

    profiles: tuple[int, ...]
    kind: Kind
    stream: int


class Conditions(NamedTuple):
    """What must be as it was when a graph was captured.

    Attributes:
        generation: the revision of the process-wide profiling configuration.
        contexts: per engine, the number of each execution context that it has, or -1 for none.
    """

    generation: int
    contexts: tuple[int, ...]


#: The shapes of the inputs of one call of an engine.
Shapes = list[list[int]]


@dataclass
class CapturedGraph:
    """A graph, the memory it reads its inputs from, what it writes, and the calls of engines in it, per module."""

    graph: Any
    inputs: list[Any]
    outputs: Any
    conditions: Conditions
    calls: Sequence[Sequence[Shapes]]


class KeptGraphs:
    """Graphs by place, the most recently used last; at most ``limit``."""

    def __init__(self, limit: int = KEPT_GRAPHS) -> None:
        self._limit = limit
        self._graphs: OrderedDict[Place, CapturedGraph] = OrderedDict()

    def __len__(self) -> int:
        return len(self._graphs)

    def find(self, place: Place) -> CapturedGraph | None:
        """The graph that is kept for ``place``, which counts as a use."""
        found = self._graphs.get(place)
        if found is not None:
            self._graphs.move_to_end(place)
        return found

    def calls_of(self, kind: Kind) -> Sequence[Sequence[Shapes]] | None:
        """The calls of engines that inputs of this kind lead to, on whatever profiles, if any graph of it is kept."""
        return next((graph.calls for place, graph in self._graphs.items() if place.kind == kind), None)

    def keep(self, place: Place, graph: CapturedGraph) -> None:
        """Keeps ``graph``, in place of the one that is kept for the same place or, beyond the limit, of the oldest."""
        self._drop([place] if place in self._graphs else [])
        self._graphs[place] = graph
        self._drop(list(self._graphs)[: max(0, len(self._graphs) - self._limit)])

    def drop_where(self, condition: Callable[[Place, CapturedGraph], bool]) -> None:
        """Frees the graphs for which ``condition`` holds."""
        self._drop([place for place, graph in self._graphs.items() if condition(place, graph)])

    def _drop(self, places: Sequence[Place]) -> None:
        for place in places:
            self._graphs.pop(place).graph.reset()


class WholeGraphs:
    """Runs a program through graphs of the whole of it. Threads take turns at giving their work to the GPU."""

    def __init__(self, program: torch.nn.Module) -> None:
        from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

        self.program = program
        self.captures = 0
        self.replays = 0
        self._modules = [module for module in program.modules() if isinstance(module, TorchTensorRTModule)]
        self._engines: list[Any] = []
        self._kept = KeptGraphs()
        self._pool: Any = None  # memory that all kept graphs compute in, as they are never replayed at the same time
        self._own_streams: dict[torch.device, torch.cuda.Stream] = {}
        self._last_stream: torch.cuda.Stream | None = None
        self._lock = threading.RLock()

    @property
    def kept(self) -> int:
        """Number of graphs that are kept."""
        return len(self._kept)

    def reset(self) -> None:
        """Frees every graph."""
        with self._lock:
            self._kept.drop_where(lambda place, graph: True)

    def warm_up(self, leaves: Sequence[Any], structure: pytree.TreeSpec) -> None:
        """Runs the program a few times without capturing, on the stream that it would be captured on."""
        args, kwargs = pytree.tree_unflatten(list(leaves), structure)
        with self._lock, torch.no_grad(), self._on_stream(device_of(leaves)):
            for _ in range(WARM_UP_CALLS):
                self.program(*args, **kwargs)

    def run(
        self, args: Sequence[Any], kwargs: dict[str, Any], before_capture: Callable[[torch.cuda.Stream], object]
    ) -> Any:
        """What ``program(*args, **kwargs)`` returns, in tensors of the caller's own.

        The first call of its kind runs the program as it is, which switches the engines' profiles and makes what must
        not be made during a capture, and then captures it; ``before_capture`` is called before either. While
        process-wide profiling is on nothing is captured or replayed, so that every call writes its traces.
        """
        leaves, structure = pytree.tree_flatten((tuple(args), kwargs))
        with self._lock, torch.no_grad():
            with self._on_stream(device_of(leaves)) as stream:
                if torch.ops.tensorrt.get_profile_execution():
                    self.reset()
                    outputs = self.program(*args, **kwargs)
                else:
                    kind = Kind(_kinds(leaves), structure)
                    kept = self._find(kind, stream)
                    if kept is not None and kept.conditions == self._conditions():
                        outputs = self._replay(kept, leaves)
                    else:
                        before_capture(stream)
                        outputs = self._run_and_capture(kind, leaves, stream)
            return pytree.tree_map_only(torch.Tensor, torch.clone, outputs)

    def _find(self, kind: Kind, stream: torch.cuda.Stream) -> CapturedGraph | None:
        # One that was captured on the profiles where this call starts from shows that these take its shapes, so no
        # choice by shape would leave them. Where there is none, such a choice may lead to another's.
        selected = self._selected()
        kept = self._kept.find(Place(selected, kind, stream.cuda_stream))
        calls = None if kept is not None else self._kept.calls_of(kind)
        profiles = None if calls is None else self._profiles_for(calls)
        if profiles is None or profiles == selected:
            return kept
        return self._kept.find(Place(profiles, kind, stream.cuda_stream))

    def _replay(self, kept: CapturedGraph, leaves: Sequence[Any]) -> Any:
        _fill(kept.inputs, leaves)
        kept.graph.replay()
        self.replays += 1
        return kept.outputs

    def _run_and_capture(self, kind: Kind, leaves: Sequence[Any], stream: torch.cuda.Stream) -> Any:
        conditions, selected = self._conditions(), self._selected()
        inputs = [_buffer(leaf) for leaf in leaves]
        _fill(inputs, leaves)
        args, kwargs = pytree.tree_unflatten(inputs, kind.structure)
        with self._fresh_engine_outputs():
            with self._recorded_calls() as calls:
                outputs = self.program(*args, **kwargs)
            profiles = self._profiles_for(calls)
            if profiles is None or selected != self._selected():
                return outputs  # Torch-TensorRT chose by shape, from whatever profile the call before had left
            self._kept.drop_where(
                lambda place, graph: (
                    graph.conditions.generation != conditions.generation
                    or (place.profiles == profiles and graph.conditions != self._conditions())
                )
            )
            if not self._kept:
                self._pool = torch.cuda.graph_pool_handle()  # a pool cannot be used again once its last graph is reset
            graph = torch.cuda.CUDAGraph()
            # Other threads go on: TensorRT-RTX specialises kernels in the background, and other engines run.
            with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"):
                captured = self.program(*args, **kwargs)
        self.captures += 1
        # The run may have made contexts. The revision is the one from before it, should it have changed meanwhile.
        now = Conditions(conditions.generation, self._conditions().contexts)
        place = Place(profiles, kind, stream.cuda_stream)
        self._kept.keep(place, CapturedGraph(graph, inputs, captured, now, calls))
        return outputs

    @contextlib.contextmanager
    def _recorded_calls(self) -> Iterator[list[list[Shapes]]]:
        """The shapes that each module's engine is called with while the block runs."""
        calls: list[list[Shapes]] = [[] for _ in self._modules]

        def record(number: int, module: Any, inputs: Sequence[Any]) -> None:
            calls[number].append([list(getattr(tensor, "shape", ())) for tensor in inputs])

        hooks = [
            module.register_forward_pre_hook(functools.partial(record, number))
            for number, module in enumerate(self._modules)
        ]
        try:
            yield calls
        finally:
            for hook in hooks:
                hook.remove()

    def _selected(self) -> tuple[int, ...]:
        """Per engine, the profile that a call on this thread starts from; its shapes may lead to another."""
        return tuple(int(torch.ops.tensorrt.get_active_profile(engine)) for engine in self._live_engines())

    def _profiles_for(self, calls: Sequence[Sequence[Shapes]]) -> tuple[int, ...] | None:
        """Per engine, the profile that these calls would run on here; None where one would raise, or they differ."""
        profiles: list[int] = []
        for engine, of_engine in zip(self._live_engines(), calls, strict=True):
            indices = {int(torch.ops.tensorrt._explain_profile(engine, shapes)[0]) for shapes in of_engine}
            if len(indices) > 1 or -1 in indices:
                return None
            profiles.extend(indices or {0})
        return tuple(profiles)

    def _live_engines(self) -> list[Any]:
        engines = [module.engine for module in self._modules]
        if any(new is not old for new, old in zip(engines, self._engines, strict=False)):
            self.reset()
        self._engines = engines  # held, so that no other engine gets the address of one that is gone
        return engines

    def _conditions(self) -> Conditions:
        return Conditions(
            int(torch.ops.tensorrt.get_profile_generation()),
            tuple(torch.ops.tensorrt._context_numbers(self._live_engines())),
        )

    @contextlib.contextmanager
    def _on_stream(self, device: torch.device) -> Iterator[torch.cuda.Stream]:
        """The caller's stream, or for the default one, which cannot be captured, one of our own that both wait for."""
        caller = torch.cuda.current_stream(device)
        stream = caller
        if caller == torch.cuda.default_stream(device):
            if device not in self._own_streams:
                self._own_streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            stream = self._own_streams[device]
            stream.wait_stream(caller)
        # Graphs share the engines' memory, and what the last caller gave to its stream may not have run yet.
        if self._last_stream is not None and self._last_stream != stream:
            stream.wait_stream(self._last_stream)
        self._last_stream = stream
        try:
            with torch.cuda.stream(stream):
                yield stream
        finally:
            if stream != caller:
                caller.wait_stream(stream)

    @contextlib.contextmanager
    def _fresh_engine_outputs(self) -> Iterator[None]:
        """Engines keep their pre-allocated outputs until the shape changes only, so no graph may write to them."""
        held = [engine for engine in self._live_engines() if engine.use_pre_allocated_outputs]
        for engine in held:
            engine.use_pre_allocated_outputs = False
        try:
            yield
        finally:
            for engine in held:
                engine.use_pre_allocated_outputs = True


def device_of(leaves: Sequence[Any]) -> torch.device:
    """The device of the first CUDA tensor, or else the current one."""
    devices = (leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.is_cuda)
    return next(devices, None) or torch.device("cuda", torch.cuda.current_device())


def _kinds(leaves: Sequence[Any]) -> tuple[Hashable, ...]:
    return tuple(
        (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else (type(leaf), leaf) for leaf in leaves
    )


def _buffer(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    with torch.inference_mode(False):  # a tensor made in inference mode could not be filled outside of it
        return torch.empty(leaf.shape, dtype=leaf.dtype, device=device_of([leaf]))


def _fill(buffers: Sequence[Any], leaves: Sequence[Any]) -> None:
    for buffer, leaf in zip(buffers, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            buffer.copy_(leaf.detach())
