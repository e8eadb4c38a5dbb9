"""Which shapes to run a program with: what the user says, checked against the program and its profiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch_tensorrt_profiles.dynamo._metadata import ShapeRange
from torch_tensorrt_profiles.saved._inputs import Extent, ProgramInput

_SHAPE = re.compile(r"[0-9]{1,18}(?:x[0-9]{1,18})*")


class ShapeError(ValueError):
    """A shape does not parse, names no input, or does not fit; the message says what is allowed."""


@dataclass(frozen=True)
class InputShape:
    """An input to make: its name, torch's name of its data type, and its extents."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input.

    Args:
        texts: each ``input_ids=1x128``, or several of them with commas between; ``scalar`` is a tensor without axes.

    Raises:
        ShapeError: one is not of that form, or an input is named twice.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for text in ",".join(texts).split(","):
        if not text.strip():
            continue
        name, equals, shape = text.strip().partition("=")
        if not equals or not name or not (shape == "scalar" or _SHAPE.fullmatch(shape)):
            raise ShapeError(f"{text.strip()!r} is no shape; expected NAME=EXTENTxEXTENT, such as input_ids=1x128")
        if name in shapes:
            raise ShapeError(f"input {name!r} is given two shapes; give it one")
        shapes[name] = () if shape == "scalar" else tuple(map(int, shape.split("x")))
    return shapes


def shapes_for(
    inputs: Sequence[ProgramInput],
    given: Mapping[str, tuple[int, ...]],
    ranges: Mapping[str, ShapeRange],
    profile: str,
) -> list[InputShape]:
    """A shape for every input of a program, in its order.

    What is not given follows from what is (extents of one symbol are equal), and else is the profile's optimum.

    Args:
        given: shapes by an input's name or position.
        ranges: the profile's (min, opt, max) by input; empty where the engine has no record of it.
        profile: what the profile is called in messages.

    Raises:
        ShapeError: see the class.
    """
    by_name = _by_name(inputs, given)
    symbols = _symbols(inputs, by_name)
    shapes = []
    for entry in inputs:
        if entry.dtype is None:
            raise ShapeError(f"input {entry.name!r}: the file does not tell its data type, so it cannot be made up")
        shape = by_name.get(entry.name)
        if shape is None:
            shape = _followed(entry, symbols, ranges.get(entry.name), profile)
        else:
            _check_fits_program(entry, shape)
        _check_fits_profile(entry.name, shape, ranges.get(entry.name), profile)
        shapes.append(InputShape(entry.name, entry.dtype, shape))
    return shapes


def _by_name(inputs: Sequence[ProgramInput], given: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    names = {entry.name: entry.name for entry in inputs}
    names.update((str(position), entry.name) for position, entry in enumerate(inputs) if str(position) not in names)
    for name in given:
        if name not in names:
            known = ", ".join(f"{entry.name} ({_shown(entry.shape)})" for entry in inputs)
            raise ShapeError(f"the saved program has no input {name!r}; its inputs are {known or 'none'}")
    return {names[name]: shape for name, shape in given.items()}


def _symbols(inputs: Sequence[ProgramInput], by_name: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The extents that symbols have in the shapes that are given."""
    symbols: dict[str, int] = {}
    told_by: dict[str, str] = {}
    for entry in inputs:
        shape = by_name.get(entry.name)
        if shape is None or len(shape) != len(entry.shape):
            continue
        for axis, (extent, known) in enumerate(zip(shape, entry.shape, strict=True)):
            if not isinstance(known, Extent) or not known.symbol:
                continue
            place = f"{entry.name} axis {axis}"
            if symbols.setdefault(known.symbol, extent) != extent:
                raise ShapeError(
                    f"{place} is {extent}, but {told_by[known.symbol]} is {symbols[known.symbol]}: the program has the "
                    f"same extent in both places"
                )
            told_by.setdefault(known.symbol, place)
    return symbols


def _followed(
    entry: ProgramInput, symbols: Mapping[str, int], limits: ShapeRange | None, profile: str
) -> tuple[int, ...]:
    shape = []
    for axis, known in enumerate(entry.shape):
        if isinstance(known, int):
            shape.append(known)
        elif known.symbol is not None and known.symbol in symbols:
            shape.append(symbols[known.symbol])
        elif limits is not None and axis < len(limits[1]):
            shape.append(limits[1][axis])
        else:
            raise ShapeError(
                f"input {entry.name!r} has the shape {_shown(entry.shape)}, and {profile} does not tell what it is "
                f"tuned for; give it with --shapes {entry.name}=..."
            )
    return tuple(shape)


def _check_fits_program(entry: ProgramInput, shape: tuple[int, ...]) -> None:
    fits = len(shape) == len(entry.shape) and all(map(_fits, shape, entry.shape))
    if not fits:
        raise ShapeError(f"input {entry.name!r} takes {_shown(entry.shape)}, not {_shown(shape)}")


def _fits(extent: int, known: int | Extent) -> bool:
    if isinstance(known, int):
        return extent == known
    return (known.min is None or known.min <= extent) and (known.max is None or extent <= known.max)


def _check_fits_profile(name: str, shape: tuple[int, ...], limits: ShapeRange | None, profile: str) -> None:
    if limits is None:
        return
    low, _, high = limits
    inside = len(low) == len(shape) and all(a <= b <= c for a, b, c in zip(low, shape, high, strict=True))
    if not inside:
        raise ShapeError(
            f"input {name!r}: {_shown(shape)} is outside {profile}, which takes {_shown(low)} to {_shown(high)}"
        )


def _shown(shape: Sequence[int | Extent]) -> str:
    def one(extent: int | Extent) -> str:
        if isinstance(extent, int):
            return str(extent)
        return f"{'' if extent.min is None else extent.min}..{'' if extent.max is None else extent.max}"

    return "x".join(map(one, shape)) or "scalar"
