"""The inputs of a saved program: names, data types, and which extents vary with which."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_tensorrt_profiles.saved._engine import Binding, SavedEngine


@dataclass(frozen=True)
class Extent:
    """An extent that varies. Extents of one symbol are always equal; None: not known which others it goes with."""

    symbol: str | None
    min: int | None
    max: int | None


@dataclass(frozen=True)
class ProgramInput:
    """An input of a program.

    Attributes:
        name: the program's, or its position where the file does not tell.
        dtype: torch's name of it, or None where the file does not tell.
        shape: per axis an extent, or the :class:`Extent` that varies.
    """

    name: str
    dtype: str | None
    shape: tuple[int | Extent, ...]


_CHECK = re.compile(r"static void check_input_(\d+)\((.*?)\n}", re.DOTALL)
_DTYPE = re.compile(r"_expected_dtype = aoti_torch_dtype_(\w+)\(\)")
_FIXED = re.compile(r"if \((\d+) != \w+_size\[(\d+)\]\)")
_AT_LEAST = re.compile(r"if \(\w+_size\[(\d+)\] < (\d+)\)")
_AT_MOST = re.compile(r"if \(\w+_size\[(\d+)\] > (\d+)\)")
_IN_SPEC = re.compile(r'in_spec_ = R"\((.*?)\)"', re.DOTALL)


def inputs_of_wrapper(source: str) -> list[ProgramInput]:
    """The inputs of an AOTInductor package, read off the checks in the C++ that was generated for it.

    Keyword inputs have their names, positional ones go by their position. Empty where nothing is found.
    """
    inputs = []
    for match in _CHECK.finditer(source):
        body = match[2]
        axes: dict[int, int | Extent] = {}
        for axis, low in _AT_LEAST.findall(body):
            # torch writes 2 for a range that begins at 1, too.
            axes[int(axis)] = Extent(None, int(low) if int(low) != 2 else None, None)
        for axis, high in _AT_MOST.findall(body):
            known = axes.get(int(axis))
            axes[int(axis)] = Extent(None, known.min if isinstance(known, Extent) else None, int(high))
        for extent, axis in _FIXED.findall(body):
            axes[int(axis)] = int(extent)
        dtype = _DTYPE.search(body)
        shape = tuple(axes.get(axis, Extent(None, None, None)) for axis in range(max(axes, default=-1) + 1))
        inputs.append(ProgramInput(match[1], dtype[1] if dtype else None, shape))
    return _with_keywords(inputs, source)


def _with_keywords(inputs: list[ProgramInput], source: str) -> list[ProgramInput]:
    names = _keywords(source)
    if not names or len(names) > len(inputs):
        return inputs
    first = len(inputs) - len(names)
    named = [dataclasses.replace(entry, name=name) for entry, name in zip(inputs[first:], names, strict=True)]
    return [*inputs[:first], *named]


def _keywords(source: str) -> list[str]:
    """The keywords of the call, from its pytree; none where one of them takes more than a tensor."""
    match = _IN_SPEC.search(source)
    try:
        _, kwargs = json.loads(match[1])[1]["children_spec"] if match else (None, None)
        names = json.loads(kwargs["context"]) if kwargs else []
        leaves = [child["type"] is None for child in kwargs["children_spec"]] if kwargs else []
    except (ValueError, KeyError, TypeError, IndexError):
        return []
    return [str(name) for name in names] if all(leaves) and len(leaves) == len(names) else []


def with_engine_names(inputs: list[ProgramInput], engines: Sequence[SavedEngine]) -> list[ProgramInput]:
    """The inputs with the names that the engine has for them, and which extents go together.

    Only where the program is one engine whose inputs are, one by one, of the program's data types and ranks: then they
    are the program's own.
    """
    if len(engines) != 1 or len(engines[0].inputs) != len(inputs):
        return inputs
    bindings = engines[0].inputs
    if not all(_fits(entry, binding) for entry, binding in zip(inputs, bindings, strict=True)):
        return inputs
    return [
        ProgramInput(
            binding.name if entry.name.isdigit() else entry.name,
            entry.dtype,
            tuple(_extent(*pair) for pair in zip(entry.shape, binding.symbols or entry.shape, strict=True)),
        )
        for entry, binding in zip(inputs, bindings, strict=True)
    ]


def _fits(entry: ProgramInput, binding: Binding) -> bool:
    same_rank = binding.symbols is None or len(binding.symbols) == len(entry.shape)
    return binding.dtype is not None and entry.dtype == binding.dtype and same_rank


def _extent(known: int | Extent, symbol: Any) -> int | Extent:
    if isinstance(known, Extent) and isinstance(symbol, str):
        return dataclasses.replace(known, symbol=symbol)
    return known
