"""What a program's engines hold: ``profile_names`` and ``optimization_profiles``."""

from __future__ import annotations

from typing import Any

from torch_tensorrt_profiles.runtime._engines import engines_for


def profile_names(program: Any) -> list[str]:
    """The names of a program's optimization profiles, in the order of their index.

    Args:
        program: whatever :func:`torch_tensorrt.runtime.optimization_profile` takes.

    Returns:
        One name per profile; ``""`` for a profile without a name, so ``[""]`` for a program with one unnamed profile,
        and an empty list for a program without engines, or whose engines are hidden (a ``torch.compile`` callable).
        Where engines differ, the longest list.

    Raises:
        TypeError: this is no program, but the path of one, say.
    """
    longest: tuple[str, ...] = ()
    for engine in engines_for(program, "profile_names()"):
        if len(engine.names) > len(longest):
            longest = engine.names
    return list(longest)


def optimization_profiles(program: Any) -> dict[str, list[dict[str, Any]]]:
    """The optimization profiles of each engine of a program: names and ranges.

    Args:
        program: whatever :func:`torch_tensorrt.runtime.optimization_profile` takes.

    Returns:
        ``{engine name: [{"index": int, "name": str, "inputs": {binding: {"min", "opt", "max": tuple of extents}}}]}``;
        ``inputs`` is empty where the engine was compiled without our record. Engines of one name are told apart by
        ``#2``, ``#3`` and so on.

    Raises:
        TypeError: this is no program, but the path of one, say.
    """
    listing: dict[str, list[dict[str, Any]]] = {}
    for engine in engines_for(program, "optimization_profiles()"):
        alike = sum(name.partition("#")[0] == engine.name for name in listing)
        ranges = engine.profiles.ranges if engine.profiles is not None else ({},) * engine.count
        listing[f"{engine.name}#{alike + 1}" if alike else engine.name] = [
            {
                "index": index,
                "name": name,
                "inputs": {
                    binding: {"min": low, "opt": opt, "max": high} for binding, (low, opt, high) in shapes.items()
                },
            }
            for index, (name, shapes) in enumerate(zip(engine.names, ranges, strict=True))
        ]
    return listing
