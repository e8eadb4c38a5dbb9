"""``with optimization_profile(program, "decode")``: selection for the calling thread.

The block only says what it wants, to the C++ library (core/runtime/profile_scope.h); an engine switches at its next
call on this thread, if it has to.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable
from types import FunctionType, ModuleType, TracebackType
from typing import Any, TypeVar, cast

import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch.compiler import is_exporting

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.runtime._prepared import prepared_scope
from torch_tensorrt_profiles.runtime._selection import select

_Method = TypeVar("_Method", bound=Callable[..., Any])


def optimization_profile(
    program: Any, profile: str | int | None, *, fallback: bool = False
) -> OptimizationProfileScope:
    """Selects an optimization profile of a program's engines for the calls that this thread makes in a ``with`` block.

    Entering switches nothing and waits for nothing: each engine switches at its next call on this thread, if it is on
    another profile. Other threads, and engines of other programs, are not affected. Threads that are started inside of
    the block do not inherit it.

    Args:
        program: a compiled GraphModule, TorchTensorRTModule, MutableTorchTensorRTModule, a loaded ExportedProgram or
            its ``.module()``, a TorchScript module, the runner of an AOTInductor package, or a ``torch.compile``
            callable. The engines of the last are hidden: there the block covers every engine that this thread calls,
            and only an index or ``"auto"`` can select. A deep copy of a program shares its engines, so also the block.
        profile: a profile's name, its index, or None for the default, index 0; or ``"auto"`` to have each call choose
            by its shapes: the pinned profile, else the one that the engine is set to, if it fits, else the first
            declared that fits. (An engine compiled without names chooses as Torch-TensorRT does: the profile of its
            last call if it fits.)
        fallback: run a call whose shapes the profile does not take on the first one that does, with one warning per
            block, instead of raising. Engines compiled without names do not tell their ranges, so they raise.

    Returns:
        A context manager; what was selected before holds again when it ends, also by an exception.

    Raises:
        ValueError: on entering: no engine of the program has a profile of that name or index. On a call in the block: a
            shape that the profile does not take.
        TypeError: on entering: no program; a name, but the engines have no names; or neither name, index, "auto" nor
            None.
        RuntimeError: on entering: while exporting, or the engines are not live on this host. On leaving: a block that
            was opened later on this thread is still open.
    """
    return OptimizationProfileScope(program, profile, fallback)


def _untraced(method: _Method) -> _Method:
    """What torch.compiler.disable does, without its wrapper, which would take a good part of the time of a block.

    Dynamo breaks its graph at a call of the method, and neither compiles the method's own frame nor what it calls.
    """
    vars(method).update(_torchdynamo_disable=True, _torchdynamo_disable_msg="a profile is selected outside of graphs")
    set_code_exec_strategy(
        cast(FunctionType, method).__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
    )
    return method


class OptimizationProfileScope:
    """The context manager that :func:`optimization_profile` returns."""

    __slots__ = ("_close", "_is_listed", "_token", "fallback", "module", "profile")

    def __init__(self, program: Any, profile: str | int | None, fallback: bool = False) -> None:
        self.module = program
        self.profile = profile
        self.fallback = fallback
        self._token = 0
        self._is_listed = False

    # Not traced: the selection would be baked into a graph, or left out of it, and the nesting would go wrong.
    @_untraced
    def __enter__(self) -> Any:
        if is_exporting():
            raise RuntimeError(
                "optimization_profile() was entered while a program is being exported; a selection cannot be part of a "
                "program. Enter it around the calls of the compiled program instead."
            )
        if self._token:
            raise RuntimeError("this optimization_profile() block is already entered; make a new one for each block")
        prepared = prepared_scope(self.module, self.profile, self.fallback)
        token = prepared.open()
        if not token:  # for want of memory; it says no more
            raise RuntimeError(
                "optimization_profile(): the block could not be opened, so nothing is selected: the host is out of "
                "memory, or torch_tensorrt_profiles was deactivated meanwhile. Enter a new block."
            )
        self._token, self._close = token, prepared.close
        if prepared.may_be_compiled_again:
            _open_on_this_thread.scopes.append(self)
            self._is_listed = True
        return self.module

    @_untraced
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        token, self._token = self._token, 0
        if not token:
            raise RuntimeError("optimization_profile(): a block was left that is not open; use a with statement")
        if self._is_listed:
            self._is_listed = False
            with contextlib.suppress(ValueError):  # entered on another thread
                _open_on_this_thread.scopes.remove(self)
        message = self._close(token)
        if message is not None:
            raise RuntimeError(message.decode(errors="replace"))

    def cover(self, program: Any) -> None:
        """Takes in the engines that the program has now."""
        selection = select(program, self.profile)
        torch.ops.tensorrt._extend_profile_scope.default(self._token, selection.engines, selection.indices)


class _OpenScopes(threading.local):
    def __init__(self) -> None:
        self.scopes: list[OptimizationProfileScope] = []


_open_on_this_thread = _OpenScopes()


def cover_new_engines(program: Any) -> None:
    """For a program that was compiled inside of its blocks: they hold for its new engines too."""
    for scope in _open_on_this_thread.scopes:
        if scope.module is program:
            scope.cover(program)


def graft(module: ModuleType, patches: Patches) -> None:
    stock = module.optimization_profile

    @functools.wraps(stock)
    def grafted(module: Any, profile: Any, *, fallback: bool = False) -> OptimizationProfileScope:
        return OptimizationProfileScope(module, profile, fallback)

    vars(grafted).update(__signature__=inspect.signature(grafted, follow_wrapped=False))
    grafted.__doc__ = optimization_profile.__doc__
    patches(module, "optimization_profile", grafted)
