"""``context_per_profile(program)``: an execution context for each profile, over one set of weights.

The contexts are made and kept by the C++ library (core/runtime/profile_contexts.h), which owns them with the engine.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

import torch

from torch_tensorrt_profiles.runtime._engines import ProgramEngine, live_engines_of, may_be_compiled_again

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineContexts:
    """The contexts of one engine of a program.

    Attributes:
        engine: the engine's name.
        profiles: how many profiles have a context of their own: all, or 1 for an engine with a single profile, which
            is left alone.
        plan_bytes: size of the serialized engine in bytes, most of it weights; None for an engine that is left alone.
        device_bytes: what the further contexts took of the device's memory, in bytes: activations. None where it is
            not known. Measured as what is free on the device, so whoever else used it meanwhile is in it.
        peak_device_bytes: the same while they were made, with the second copy of the weights that is there until a new
            context shares the first one's.
    """

    engine: str
    profiles: int
    plan_bytes: int | None
    device_bytes: int | None
    peak_device_bytes: int | None


# Not traced: it acts now, and not whenever a graph runs.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def context_per_profile(program: Any) -> ContextPerProfile:
    """Gives each optimization profile of a program's engines an execution context of its own.

    By default an engine has one context, which switches between profiles, and calls take turns. With a context per
    profile nothing is switched, and calls on different profiles run side by side, from several threads and on several
    streams: a prefill does not hold up a decode. The weights are on the device once; each context has its own
    activation memory.

    The contexts are made at once. As a ``with`` statement, they go when the block ends::

        with context_per_profile(program):
            ...

    As a plain call, they stay for as long as the engines live::

        context_per_profile(program)

    Blocks and calls nest: the contexts stay until the last block that asked for them has ended. They hold for every
    thread. Calls are selected as without them, by :func:`torch_tensorrt.runtime.optimization_profile` or a pin; a call
    that nobody selects for runs on the engine's first context, on whatever profile that is set to.

    Making a context deserialises the engine once more, which takes a moment and, until the second set of weights is
    freed again, that much device memory. Calls on an engine wait while its contexts are made.

    Args:
        program: whatever :func:`torch_tensorrt.runtime.optimization_profile` takes, except for ``torch.compile``
            callables, whose engines are hidden. Engines with a single profile are left alone. When a
            MutableTorchTensorRTModule compiles again, its new engines get contexts too; where that fails, a warning
            says so and the program runs with one context.

    Returns:
        What was made; as a context manager, it gives the program. It holds the program for as long as it is kept.

    Raises:
        ValueError: no engine can be seen in the program.
        RuntimeError: the engines are only data on this host; there is too little device memory; a CUDA stream is
            capturing; or an engine cannot have several contexts, because it contains collectives (NCCL) or may stream
            weights from the host. The program is as it was then.
    """
    return ContextPerProfile(program)


#: Of programs that may be compiled again: the uses of contexts on their engines. A use begins, ends or moves to new
#: engines under the lock, so that none is left behind on old engines. Engines' own locks are taken inside of it.
_uses: WeakKeyDictionary[Any, list[list[Any]]] = WeakKeyDictionary()
_uses_lock = threading.Lock()


def _locked(program: Any) -> contextlib.AbstractContextManager[Any]:
    return _uses_lock if may_be_compiled_again(program) else contextlib.nullcontext()


class ContextPerProfile:
    """What :func:`context_per_profile` returns.

    Attributes:
        program: the program.
        engines: the contexts of each of the engines that it had when they were made.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self._use: list[Any] = []  # the engines, once per use of their contexts
        with _locked(program):
            self.engines = _make(live_engines_of(program, "context_per_profile()"), self._use)
            if may_be_compiled_again(program):
                _uses.setdefault(program, []).append(self._use)

    def close(self) -> None:
        """Ends this use of the contexts; those that nobody else uses go. Calls that are under way finish on theirs."""
        with _locked(self.program):
            if may_be_compiled_again(self.program):
                uses = _uses.get(self.program, [])
                uses[:] = [use for use in uses if use is not self._use]
            _drop(self._use)

    def __enter__(self) -> Any:
        if not self._use:
            raise RuntimeError("these contexts are gone; call context_per_profile() again for each block")
        return self.program

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def renew_contexts(program: Any) -> None:
    """For a program that was compiled again: whatever uses contexts on its engines has them on the new ones."""
    with _locked(program):
        uses = _uses.get(program, [])
        for use in uses:  # first, since a use keeps its engines, and so their weights on the device
            _drop(use)
        try:
            for use in uses:
                _make(live_engines_of(program, "context_per_profile()"), use)
        except (RuntimeError, ValueError) as error:
            for use in uses:
                _drop(use)
            logger.warning("Compiled again, and now with one context for all profiles: %s", error)


def _make(engines: list[ProgramEngine], use: list[Any]) -> tuple[EngineContexts, ...]:
    """Makes their contexts and notes them in ``use``; after a failure there are none."""
    made = []
    try:
        for engine in engines:
            report = torch.ops.tensorrt._make_profile_contexts(engine.live)
            use.append(engine.live)
            made.append(
                EngineContexts(
                    engine.name,
                    1 + report["contexts"],
                    report.get("plan_bytes"),
                    report.get("device_bytes"),
                    report.get("peak_device_bytes"),
                )
            )
    except BaseException:
        _drop(use)
        raise
    return tuple(made)


def _drop(use: list[Any]) -> None:
    while use:
        engine = use.pop()
        with contextlib.suppress(NotImplementedError):  # deactivated meanwhile: they stay for as long as the engine
            torch.ops.tensorrt._drop_profile_contexts(engine)
