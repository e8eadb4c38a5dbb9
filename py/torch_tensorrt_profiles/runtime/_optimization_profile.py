"""``with optimization_profile(program, "decode")``: selection by name, by index or by shape."""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any

import torch

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._gpuless import RUN_ELSEWHERE
from torch_tensorrt_profiles.runtime._engines import ProgramEngine, engines_of

logger = logging.getLogger(__name__)

AUTO = "auto"

#: What an engine is set to: (choose by shape, index of the active profile).
_State = tuple[bool, int]


def optimization_profile(program: Any, profile: str | int | None) -> OptimizationProfileScope:
    """Selects an optimization profile of a program's engines for a ``with`` block.

    Args:
        program: a compiled GraphModule, TorchTensorRTModule, MutableTorchTensorRTModule, or a loaded ExportedProgram or
            its ``.module()``.
        profile: a profile's name, its index, ``"auto"`` to have each call choose by its shapes (the active profile if
            it fits, else the first that fits), or None for the default, index 0.

    Returns:
        A context manager; what was selected before is restored when it ends, also by an exception.

    Raises:
        ValueError: on entering: no engine of the program has a profile of that name or index.
        TypeError: on entering: a name, but the engines have no names; or neither name, index, "auto" nor None.
        RuntimeError: on entering: while exporting, or the engines are not live on this host.
    """
    return OptimizationProfileScope(program, profile)


class OptimizationProfileScope:
    """The context manager that :func:`optimization_profile` returns."""

    def __init__(self, program: Any, profile: str | int | None) -> None:
        self.module = program
        self.profile = profile
        self._saved: list[tuple[Any, _State]] | None = None

    # Not traced: the switch would be baked into a graph, or left out of it, and the nesting would go wrong.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __enter__(self) -> Any:
        if torch.compiler.is_exporting():
            raise RuntimeError(
                "optimization_profile() was entered while a program is being exported; a selection cannot be part of a "
                "program. Enter it around the calls of the compiled program instead."
            )
        if self._saved is not None:
            raise RuntimeError("this optimization_profile() block is already entered; make a new one for each block")
        self._saved = []
        _open_scopes.append(self)
        try:
            self.apply()
        except BaseException:
            self._exit()
            raise
        return self.module

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exit()

    def apply(self) -> None:
        """Switches the engines that the program has now, all of them or none."""
        assert self._saved is not None
        engines = engines_of(self.module)
        if not engines:
            logger.warning("optimization_profile() found no TensorRT engine in %s.", type(self.module).__name__)
        for engine, wanted in select(engines, self.profile):
            live = _require_live(engine)
            self._saved.append((live, (live._auto_select_profiles, live._active_profile_index)))
            _set_state(live, wanted)

    def _exit(self) -> None:
        saved, self._saved = self._saved, None
        if self in _open_scopes:
            _open_scopes.remove(self)
        for live, state in reversed(saved or []):
            _set_state(live, state)


_open_scopes: list[OptimizationProfileScope] = []


def reapply_open_scopes(program: Any) -> None:
    """Switches the new engines of a program that was compiled inside its ``with`` blocks, outermost first."""
    for scope in _open_scopes:
        if scope.module is program:
            scope.apply()


def _set_state(live: Any, state: _State) -> None:
    auto, index = state
    live.set_active_profile(index)
    live._auto_select_profiles = auto


def _require_live(engine: ProgramEngine) -> Any:
    if engine.live is None:
        raise RuntimeError(f"Engine {engine.name!r} is only data here. {RUN_ELSEWHERE}")
    return engine.live


def select(engines: Sequence[ProgramEngine], profile: Any) -> list[tuple[ProgramEngine, _State]]:
    """What each engine has to be set to; engines that the selection does not concern are left out.

    Raises:
        ValueError: no engine has a profile of that name or index.
        TypeError: a name for engines without names, or neither name, index, "auto" nor None.
    """
    if profile is None:
        return [(engine, (False, 0)) for engine in engines]
    if isinstance(profile, str):
        if profile == AUTO:
            return [(engine, (True, _active_index(engine))) for engine in engines]
        return _select_by_name(engines, profile)
    if isinstance(profile, bool) or not hasattr(profile, "__index__"):
        raise TypeError(
            f"an optimization profile is selected by its name, its index, 'auto' or None; got {profile!r} of type "
            f"{type(profile).__name__}"
        )
    return _select_by_index(engines, profile.__index__())


def _active_index(engine: ProgramEngine) -> int:
    return int(_require_live(engine)._active_profile_index)


def _select_by_name(engines: Sequence[ProgramEngine], name: str) -> list[tuple[ProgramEngine, _State]]:
    known = list(dict.fromkeys(known for engine in engines for known in engine.names if known))
    if not engines:
        return []
    if not known:
        count = max(engine.count for engine in engines)
        raise TypeError(
            f"profile {name!r} was selected by name, but this program's engines have no profile names; select by "
            f"index, 0 to {count - 1}, or compile with optimization_profiles=[OptimizationProfile({name!r}, ...), ...]"
        )
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown optimization profile {name!r}; this program's profiles are {known}.{hint}")
    return [(engine, (False, engine.names.index(name))) for engine in engines if name in engine.names]


def _select_by_index(engines: Sequence[ProgramEngine], index: int) -> list[tuple[ProgramEngine, _State]]:
    count = max((engine.count for engine in engines), default=1)
    if engines and not 0 <= index < count:
        raise ValueError(
            f"optimization profile index {index} is out of range: this program's engines have {count} profile(s), "
            f"index 0 to {count - 1}{_with_names(engines)}"
        )
    # Engines with one profile (static shapes beside dynamic ones) have nothing to select.
    return [(engine, (False, index)) for engine in engines if index < engine.count]


def _with_names(engines: Sequence[ProgramEngine]) -> str:
    named = next((engine.names for engine in engines if any(engine.names)), None)
    return "" if named is None else f" ({', '.join(f'{i}: {name}' for i, name in enumerate(named))})"


def graft(module: ModuleType, patches: Patches) -> None:
    stock = module.optimization_profile

    @functools.wraps(stock)
    def grafted(module: Any, profile: Any) -> OptimizationProfileScope:
        return optimization_profile(module, profile)

    grafted.__doc__ = optimization_profile.__doc__
    patches(module, "optimization_profile", grafted)
