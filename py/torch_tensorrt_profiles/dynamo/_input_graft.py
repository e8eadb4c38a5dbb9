"""``torch_tensorrt.Input`` with named profiles, and without a shape.

Three things that stock refuses are accepted: ``profiles`` as a mapping of names, ``Input(name=..., dtype=...)`` without
any shape, and ``Input(opt_shape=...)`` alone. The last two are incomplete: compiling fills the shape in, on a new
Input, and anything else that asks such an Input for its shape gets an error that says so. All that is kept on an
instance is plain data, so it pickles into a process without this package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._optimization_profile import (
    ShapeRange,
    check_profile_name,
    parse_input_range,
    parse_shape,
)

# Stock ignores keywords that it does not know, so a misspelt shape has to be taken for one that is missing.
_BESIDE_SHAPES = {"dtype", "format", "is_shape_tensor", "name", "shared_dims", "tensor_domain", "torch_tensor"}
_SETTLED_ATTRIBUTES = ("shape", "shape_mode", "torch_tensor")


def graft(module: ModuleType, patches: Patches) -> None:
    cls = module.Input
    stock_init = cls.__init__
    stock_str = cls.__str__

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(kwargs.get("profiles"), Mapping):
            names, kwargs = _with_profile_list(kwargs)
            stock_init(self, *args, **kwargs)
            self.profile_names = names
        elif type(self) is cls and not args and kwargs and _leaves_shape_out(kwargs):
            _init_without_shape(self, stock_init, kwargs)
        else:
            stock_init(self, *args, **kwargs)

    @functools.wraps(stock_str)
    def to_str(self: Any) -> str:
        return _describe(self) if is_incomplete(self) else stock_str(self)

    patches(cls, "__init__", init)
    patches(cls, "__str__", to_str)
    for attribute in _SETTLED_ATTRIBUTES:
        patches(cls, attribute, _Unsettled(attribute, vars(cls)[attribute]))


def is_incomplete(spec: Any) -> bool:
    """Whether an Input was made without a shape, or with the optimum only."""
    return "opt_shape" in vars(spec) and "shape_mode" not in vars(spec)


def opt_shape(spec: Any) -> tuple[int, ...] | None:
    """The optimum of an incomplete Input, if it has one."""
    shape: tuple[int, ...] | None = vars(spec).get("opt_shape")
    return shape


def profile_names(spec: Any) -> tuple[str, ...] | None:
    """The names of an Input that was made with ``profiles`` as a mapping."""
    names: tuple[str, ...] | None = vars(spec).get("profile_names")
    return names


class _Unsettled:
    """What an attribute is as long as an instance has none of its own: stock's default, or an error if incomplete."""

    def __init__(self, name: str, default: Any) -> None:
        self._name = name
        self._default = default

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is not None and is_incomplete(instance):
            raise ValueError(
                f"{instance} has no {self._name} yet. Only torch_tensorrt.dynamo.compile and "
                "convert_exported_program_to_serialized_trt_engine, and torch_tensorrt.compile(ir='dynamo') beside "
                "optimization_profiles, fill it in. Give min_shape, opt_shape and max_shape to use it elsewhere"
            )
        return self._default


def _leaves_shape_out(kwargs: Mapping[str, Any]) -> bool:
    return all(
        key in _BESIDE_SHAPES or key == "opt_shape" or (key == "profiles" and value is None)
        for key, value in kwargs.items()
    )


def _init_without_shape(self: Any, stock_init: Callable[..., None], kwargs: dict[str, Any]) -> None:
    kept = {k: v for k, v in kwargs.items() if k not in ("opt_shape", "shared_dims", "is_shape_tensor", "profiles")}
    where = f"Input {kwargs.get('name', '')!r}"
    opt = parse_shape(kwargs["opt_shape"], where, "opt_shape") if "opt_shape" in kwargs else None
    shared_dims = _shared_dims(kwargs, where)
    stock_init(self, **{"shape": (), "torch_tensor": None, **kept})
    for attribute in _SETTLED_ATTRIBUTES:
        if attribute not in kept:
            del vars(self)[attribute]
    self.opt_shape = opt
    if shared_dims:
        self.shared_dims = shared_dims
    if kwargs.get("is_shape_tensor"):
        self.is_shape_tensor = True


def _shared_dims(kwargs: Mapping[str, Any], where: str) -> dict[int, str]:
    """Axis names that the Input gives; which of those axes are dynamic is not known yet."""
    given = kwargs.get("shared_dims")
    fields = getattr(kwargs.get("opt_shape"), "_fields", ())
    if given and fields:
        raise ValueError(
            f"{where}: opt_shape is a named tuple and shared_dims is given too. Name the axes in one place"
        )
    if fields:
        return dict(enumerate(fields))
    if not given:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{where}: shared_dims has to be a mapping of axes to names, found {given!r}")
    for axis, name in given.items():
        if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0 or not isinstance(name, str) or not name:
            raise ValueError(f"{where}: shared_dims maps axes (0, 1, ...) to names, found {axis!r}: {name!r}")
    return dict(given)


def _with_profile_list(kwargs: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names, and the keywords that stock takes: a list of profiles, and named axes as ``shared_dims``."""
    where = f"Input {kwargs.get('name', '')!r}"
    profiles: Mapping[Any, Any] = kwargs["profiles"]
    if not profiles:
        raise ValueError(f"{where}: profiles is empty. Give at least one, as {{name: {{'min_shape': ..., ...}}}}")
    ranges = []
    for name, spec in profiles.items():
        check_profile_name(name)
        shapes = parse_input_range(spec, f"{where}, profile {name!r}")
        if not isinstance(shapes, ShapeRange):
            raise ValueError(
                f"{where}, profile {name!r}: an Input needs whole shapes. Give min_shape, opt_shape and max_shape, or "
                "say it by axis in an OptimizationProfile"
            )
        ranges.append(shapes)
    fields = _field_names(profiles, where)
    converted = {**kwargs, "profiles": [shape.as_shapes() for shape in ranges]}
    if fields and kwargs.get("shared_dims"):
        raise ValueError(
            f"{where}: its shapes are named tuples and shared_dims is given too. Name the axes in one place"
        )
    if fields and all(shape.rank == len(fields) for shape in ranges):
        converted["shared_dims"] = {
            axis: field
            for axis, field in enumerate(fields)
            if min(shape.min[axis] for shape in ranges) < max(shape.max[axis] for shape in ranges)
        }
    return tuple(profiles), converted


def _field_names(profiles: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The axis names that named tuples among the shapes give; they have to agree over all profiles."""
    found: dict[tuple[str, ...], str] = {}
    for name, spec in profiles.items():
        for shape in spec.values() if isinstance(spec, Mapping) else (spec,):
            if hasattr(shape, "_fields"):
                found.setdefault(tuple(shape._fields), name)
    if len(found) > 1:
        shown = " and ".join(f"{fields} in profile {name!r}" for fields, name in found.items())
        raise ValueError(f"{where}: its axis names differ: {shown}. Use one named tuple for all")
    return next(iter(found), ())


def _describe(spec: Any) -> str:
    optimum = opt_shape(spec)
    return "Input(name={!r}, opt_shape={}, no shape yet, dtype={}, format={}, domain=[{}, {}))".format(
        spec.name, optimum, spec.dtype, spec.format, *spec.tensor_domain
    )
