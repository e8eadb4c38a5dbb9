"""Which index each engine of a program takes for a name, an index or "auto"."""

from __future__ import annotations

import difflib
import logging
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch_tensorrt_profiles.dynamo._optimization_profile import is_integer
from torch_tensorrt_profiles.runtime._engines import ProgramEngine, engines_for

logger = logging.getLogger(__name__)
AUTO = "auto"
BY_SHAPE = -1  # what "auto" is to the C++ library (core/runtime/profile_scope.h)


class Selection(NamedTuple):
    """What a block says, as the C++ library takes it.

    Attributes:
        engines: Torch-TensorRT's engine objects.
        indices: the profile of each.
        others: the profile of every engine that is not listed, or None to leave those alone.
    """

    engines: list[Any]
    indices: list[int]
    others: int | None


def select(program: Any, profile: Any) -> Selection:
    """What selecting a profile on a program means for its engines.

    Raises:
        ValueError: no engine has a profile of that name or index.
        TypeError: no program, a name for engines without names, or neither name, index, "auto" nor None.
        RuntimeError: the engines are only data on this host.
    """
    wanted = _checked(profile)
    engines = engines_for(program, "optimization_profile()")
    if not engines and _is_compiled_callable(program):
        return Selection([], [], _index_for_hidden_engines(wanted))
    if not engines:
        logger.warning(
            "optimization_profile() found no TensorRT engine in %s, so nothing is selected. Give the program that was "
            "compiled or loaded.",
            type(program).__name__,
        )
    chosen = select_among(engines, wanted)
    return Selection([engine.require_live() for engine, _ in chosen], [index for _, index in chosen], None)


def select_among(engines: Sequence[ProgramEngine], profile: str | int) -> list[tuple[ProgramEngine, int]]:
    """The index of each engine; those that the selection does not concern are left out."""
    if profile == AUTO:
        return [(engine, BY_SHAPE) for engine in engines]
    if isinstance(profile, str):
        return _by_name(engines, profile)
    return _by_index(engines, profile)


def _checked(profile: Any) -> str | int:
    if profile is None:  # Torch-TensorRT's word for the default
        return 0
    if isinstance(profile, str):
        return profile
    if not is_integer(profile):
        raise TypeError(
            f"an optimization profile is selected by its name, its index, 'auto' or None; got {profile!r} of type "
            f"{type(profile).__name__}"
        )
    return operator.index(profile)


def _is_compiled_callable(program: Any) -> bool:
    """Whether this came from torch.compile, which makes engines at the first call and shows them to nobody."""
    return hasattr(program, "_torchdynamo_orig_callable") or hasattr(program, "_orig_mod")


def _index_for_hidden_engines(profile: str | int) -> int:
    if profile == AUTO:
        return BY_SHAPE
    if isinstance(profile, str):
        raise TypeError(
            f"profile {profile!r} was selected by name, but the engines of a torch.compile callable are hidden, so "
            f"their names are not known; select by index or 'auto'"
        )
    if profile < 0:
        raise ValueError(f"optimization profile index {profile} is negative; a profile's index starts at 0")
    return profile


def _by_name(engines: Sequence[ProgramEngine], name: str) -> list[tuple[ProgramEngine, int]]:
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
    return [(engine, engine.names.index(name)) for engine in engines if name in engine.names]


def _by_index(engines: Sequence[ProgramEngine], index: int) -> list[tuple[ProgramEngine, int]]:
    count = max((engine.count for engine in engines), default=1)
    if engines and not 0 <= index < count:
        raise ValueError(
            f"optimization profile index {index} is out of range: this program's engines have {count} profile(s), "
            f"index 0 to {count - 1}{_with_names(engines)}"
        )
    # Engines with one profile (static shapes beside dynamic ones) have nothing to select.
    concerned = [engine for engine in engines if engine.count > 1 or index == 0]
    for engine in concerned:
        if index >= engine.count:
            raise ValueError(
                f"optimization profile index {index} is out of range for engine {engine.name!r}, which has "
                f"{engine.count} profiles, index 0 to {engine.count - 1}, while another engine of the program has "
                f"{count}; select on each engine's own module"
            )
    return [(engine, index) for engine in concerned]


def _with_names(engines: Sequence[ProgramEngine]) -> str:
    named = next((engine.names for engine in engines if any(engine.names)), None)
    return "" if named is None else f" ({', '.join(f'{i}: {name}' for i, name in enumerate(named))})"
