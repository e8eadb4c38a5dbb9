"""What a user says about one profile: a name, and shape ranges for some of a program's inputs.

Nothing here looks at a program, so everything here can be decided while the value is made.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import torch

_FIELDS = ("min", "opt", "max")
_WHOLE_SHAPE_KEYS = {key: field for field in _FIELDS for key in (field, f"{field}_shape")}
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SPEC_FORMS = (
    "{'min_shape': ..., 'opt_shape': ..., 'max_shape': ...}, {axis: extent or (min, opt, max)}, "
    "or a shape such as (1, 16)"
)


class Extents(NamedTuple):
    """The range of one axis, in elements."""

    min: int
    opt: int
    max: int


def shown(extents: Extents) -> str:
    """The range as a profile would give it."""
    return str(extents.opt) if extents.min == extents.max else str(tuple(extents))


@dataclass(frozen=True)
class ShapeRange:
    """Whole shapes of one input, each a tuple with an extent per axis."""

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.opt)

    def axis(self, axis: int) -> Extents:
        return Extents(self.min[axis], self.opt[axis], self.max[axis])

    def as_shapes(self) -> dict[str, tuple[int, ...]]:
        """The form that ``torch_tensorrt.Input(profiles=[...])`` takes."""
        return {"min_shape": self.min, "opt_shape": self.opt, "max_shape": self.max}

    def __repr__(self) -> str:
        return repr(self.opt if self.min == self.opt == self.max else self.as_shapes())


@dataclass(frozen=True)
class AxisRanges:
    """Ranges of some axes of one input, as ``(axis, range)`` sorted by axis. A negative axis counts from the end."""

    ranges: tuple[tuple[int, Extents], ...]

    def __iter__(self) -> Iterator[tuple[int, Extents]]:
        return iter(self.ranges)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{axis}: {shown(extents)}" for axis, extents in self.ranges) + "}"


InputRange: TypeAlias = ShapeRange | AxisRanges


class OptimizationProfile:
    """One named shape regime of a program. Deeply immutable, hashable and picklable.

    Args:
        name: 1 to 64 of letters, digits, ``_``, ``-`` and ``.``; case-sensitive. ``"auto"``, ``"."`` and ``".."`` are
            taken.
        inputs: maps an input's name to its range. The name is the placeholder's, a keyword argument's, or, for a nested
            input, its pytree path (``"batch['ids'][0]"``). The range is one of

            * ``{"min_shape": shape, "opt_shape": shape, "max_shape": shape}``; ``min``, ``opt`` and ``max`` do as well,
            * ``{axis: extent}`` or ``{axis: (min, opt, max)}`` for dynamic axes only, the rest coming from the program;
              negative axes count from the end,
            * a shape, which is then minimum, optimum and maximum.

    Extents are integers of at least 1. Inputs and axes left out take what the program and the other inputs say.

    Raises:
        TypeError: something is not of the type it has to be.
        ValueError: a name, an extent or a range that no program could take.
    """

    __slots__ = ("_inputs", "_name")

    _name: str
    _inputs: tuple[tuple[str, InputRange], ...]

    def __init__(self, name: str, inputs: Mapping[str, Any]) -> None:
        check_profile_name(name)
        if not isinstance(inputs, Mapping):
            raise TypeError(
                f"profile {name!r}: inputs has to be a mapping of input names to shape ranges, "
                f"found {type(inputs).__name__}"
            )
        if not inputs:
            raise ValueError(
                f"profile {name!r} names no input. Give at least one, for example "
                f"OptimizationProfile({name!r}, {{'input_ids': {{1: (1, 8, 16)}}}})"
            )
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_inputs", tuple(_named_ranges(name, inputs)))

    @property
    def name(self) -> str:
        return self._name

    @property
    def inputs(self) -> Mapping[str, InputRange]:
        """Read-only; the order is the one the profile was made with."""
        return MappingProxyType(dict(self._inputs))

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"OptimizationProfile is immutable, cannot set {attribute!r}; make a new one")

    def __delattr__(self, attribute: str) -> None:
        raise AttributeError(f"OptimizationProfile is immutable, cannot delete {attribute!r}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OptimizationProfile):
            return NotImplemented
        return self._name == other._name and dict(self._inputs) == dict(other._inputs)

    def __hash__(self) -> int:
        return hash((self._name, frozenset(self._inputs)))

    def __repr__(self) -> str:
        return f"OptimizationProfile({self._name!r}, {dict(self._inputs)!r})"

    def __copy__(self) -> OptimizationProfile:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> OptimizationProfile:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return OptimizationProfile, (self._name, dict(self._inputs))


def check_profile_name(name: object) -> None:
    """Raises TypeError or ValueError unless ``name`` can name a profile (it goes into file names)."""
    if not isinstance(name, str):
        raise TypeError(f"a profile's name has to be a string, found {name!r} of type {type(name).__name__}")
    if name == "auto":
        raise ValueError("a profile cannot be called 'auto': that asks for the choice by shape. Choose another name")
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"{name!r} cannot name a profile, because the name goes into file names: use 1 to 64 of letters, digits, "
            "'_', '-' and '.'"
        )


def parse_input_range(spec: object, where: str) -> InputRange:
    """The range that ``spec`` describes, in any of the forms that :class:`OptimizationProfile` takes.

    ``where`` opens every error message, for example ``"profile 'decode', input 'input_ids'"``.
    """
    if isinstance(spec, ShapeRange):
        spec = spec.as_shapes()
    elif isinstance(spec, AxisRanges):
        spec = dict(spec.ranges)
    if isinstance(spec, Mapping):
        return _mapping(spec, where)
    if isinstance(spec, (tuple, list)):
        if spec and all(isinstance(extent, (tuple, list)) for extent in spec):
            raise TypeError(
                f"{where}: found {spec!r}, a sequence of shapes. Name them: "
                f"{{'min_shape': ..., 'opt_shape': ..., 'max_shape': ...}}"
            )
        shape = parse_shape(spec, where, "shape")
        return ShapeRange(shape, shape, shape)
    raise TypeError(f"{where}: expected {_SPEC_FORMS}, found {spec!r} of type {type(spec).__name__}")


def parse_shape(shape: object, where: str, field: str) -> tuple[int, ...]:
    """A whole shape as plain integers, each at least 1."""
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"{where}: {field} has to be a tuple or list of extents, found {shape!r}")
    return tuple(parse_extent(extent, f"{where}, axis {axis}: {field}") for axis, extent in enumerate(shape))


def parse_extent(extent: object, what: str) -> int:
    """An extent as a plain integer of at least 1; integers of numpy and torch count, booleans do not."""
    if not is_integer(extent):
        raise TypeError(f"{what} has to be an integer, found {extent!r} of type {type(extent).__name__}")
    value = operator.index(extent)  # type: ignore[arg-type]
    if value < 1:
        raise ValueError(f"{what} is {value}, but every extent has to be at least 1")
    return value


def check_order(extents: Extents, where: str) -> None:
    """Raises ValueError unless min <= opt <= max. ``where`` names profile, input and axis."""
    for low, high in (("min", "opt"), ("opt", "max")):
        if getattr(extents, low) > getattr(extents, high):
            raise ValueError(
                f"{where}: {low} {getattr(extents, low)} is larger than {high} {getattr(extents, high)} "
                f"(min, opt, max are {tuple(extents)}). Give min <= opt <= max"
            )


def _named_ranges(profile: str, inputs: Mapping[str, Any]) -> Iterator[tuple[str, InputRange]]:
    for name, spec in inputs.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"profile {profile!r}: an input's name has to be a non-empty string, found {name!r}")
        yield name, parse_input_range(spec, f"profile {profile!r}, input {name!r}")


def _mapping(spec: Mapping[Any, Any], where: str) -> InputRange:
    if not spec:
        raise ValueError(f"{where}: nothing is given. Expected {_SPEC_FORMS}")
    words = [key for key in spec if isinstance(key, str)]
    if not words:
        return _axis_ranges(spec, where)
    if len(words) < len(spec):
        raise ValueError(
            f"{where}: whole shapes ({', '.join(map(repr, words))}) and single axes cannot be mixed. Give one or the "
            "other"
        )
    return _whole_shapes(spec, where)


def _axis_ranges(spec: Mapping[Any, Any], where: str) -> AxisRanges:
    ranges = {}
    for key, value in spec.items():
        if not is_integer(key):
            raise TypeError(f"{where}: an axis is an integer, found {key!r} of type {type(key).__name__}")
        axis = operator.index(key)
        ranges[axis] = _axis_range(value, f"{where}, axis {axis}")
    return AxisRanges(tuple(sorted(ranges.items())))


def _axis_range(value: object, where: str) -> Extents:
    if isinstance(value, (tuple, list)):
        if len(value) != 3:
            raise ValueError(f"{where}: expected an extent or (min, opt, max), found {value!r}")
        extents = Extents(*(parse_extent(v, f"{where}: {field}") for field, v in zip(_FIELDS, value, strict=True)))
        check_order(extents, where)
        return extents
    if not is_integer(value):
        raise TypeError(
            f"{where}: expected an integer extent or (min, opt, max), found {value!r} of type {type(value).__name__}"
        )
    extent = parse_extent(value, f"{where}: extent")
    return Extents(extent, extent, extent)


def _whole_shapes(spec: Mapping[str, Any], where: str) -> ShapeRange:
    given: dict[str, Any] = {}
    for key, value in spec.items():
        if key not in _WHOLE_SHAPE_KEYS:
            raise ValueError(f"{where}: unknown key {key!r}. Expected {_SPEC_FORMS}")
        field = _WHOLE_SHAPE_KEYS[key]
        if field in given:
            raise ValueError(f"{where}: both {field!r} and '{field}_shape' are given. Give one of them")
        given[field] = value
    missing = [field for field in _FIELDS if field not in given]
    if missing:
        raise ValueError(
            f"{where}: {' and '.join(f'{field}_shape' for field in missing)} missing, only "
            f"{' and '.join(f'{field}_shape' for field in _FIELDS if field in given)} given. "
            "Give all three, or a plain shape where the three are equal"
        )
    _check_field_names(given, where)
    shapes = ShapeRange(*(parse_shape(given[field], where, f"{field}_shape") for field in _FIELDS))
    if not len(shapes.min) == len(shapes.opt) == len(shapes.max):
        raise ValueError(
            f"{where}: min_shape {shapes.min}, opt_shape {shapes.opt} and max_shape {shapes.max} have different ranks"
        )
    for axis in range(shapes.rank):
        check_order(shapes.axis(axis), f"{where}, axis {axis}")
    return shapes


def _check_field_names(shapes: Mapping[str, Any], where: str) -> None:
    """Named tuples have to name their axes alike: (batch, seq) beside (seq, batch) would swap them silently."""
    names = {field: tuple(shape._fields) for field, shape in shapes.items() if hasattr(shape, "_fields")}
    if len(set(names.values())) > 1:
        shown = ", ".join(f"{field}_shape {fields}" for field, fields in names.items())
        raise ValueError(
            f"{where}: the axis names of the named tuples differ: {shown}. Use one named tuple for all three"
        )


def is_integer(value: object) -> bool:
    """Whether ``value`` is one integer. A SymInt is none: reading it would fix a traced size unseen."""
    if isinstance(value, (bool, torch.SymInt, torch.SymBool)):
        return False
    if isinstance(value, torch.Tensor):
        return (
            value.ndim == 0 and value.dtype != torch.bool and not value.is_floating_point() and not value.is_complex()
        )
    if getattr(value, "ndim", 0) != 0 or getattr(getattr(value, "dtype", None), "kind", None) == "b":
        return False  # a boolean of NumPy up to 2.2 would be an index
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True
