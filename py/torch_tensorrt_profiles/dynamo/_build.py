"""The build that this context is in: which named profiles, and what each symbol of the program is in each of them.

Torch-TensorRT's own propagation reads the profiles from its flat list of top-level inputs. That list is neither flat
for nested inputs nor in the program's order for keyword inputs. And it takes an extent where all symbols have their
minimum, and where all have their maximum, for the ends of its range, which they are only where the extent rises with
every symbol; elsewhere it gives up the profiles of the input. So the seams below answer from the resolution instead.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._envelope import Axis
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles
from torch_tensorrt_profiles.dynamo._optimization_profile import Extents, shown
from torch_tensorrt_profiles.dynamo._spans import at_least_one

if TYPE_CHECKING:
    from torch_tensorrt_profiles.dynamo._resolve import Resolution

_SHAPES = ("min_shape", "opt_shape", "max_shape")

_resolution: ContextVar[Resolution | None] = ContextVar("torch_tensorrt_profiles_resolution", default=None)
_engine_profiles: ContextVar[EngineProfiles | None] = ContextVar("torch_tensorrt_profiles_engine", default=None)


@contextlib.contextmanager
def building(resolution: Resolution) -> Iterator[None]:
    """Marks this context as compiling a program for the given profiles."""
    token = _resolution.set(resolution)
    try:
        yield
    finally:
        _resolution.reset(token)


def _is_not_the_specialization_warning(record: logging.LogRecord) -> bool:
    # 2.14 warns that an extent of 1 will be built as 2 where torch.export says Dim(min=1). It is built as 1.
    return _resolution.get() is None or "0/1 specialization" not in str(record.msg)


def profiles_being_built() -> Resolution | None:
    """What the program that this context compiles is compiled for, or None where it is not ours."""
    return _resolution.get()


def graft_compiler_log(module: ModuleType, patches: Patches) -> None:
    module.logger.addFilter(_is_not_the_specialization_warning)
    patches.on_undo(lambda: module.logger.removeFilter(_is_not_the_specialization_warning))


def engine_profiles() -> EngineProfiles | None:
    """The profiles of the engine that is being made in this context."""
    return _engine_profiles.get()


def graft_dynamo_utils(module: ModuleType, patches: Patches) -> None:
    stock = module.validate_optimization_profiles

    @functools.wraps(stock)
    def validate_optimization_profiles(input_specs: Sequence[Any]) -> int:
        from torch.utils import _pytree as pytree

        return int(stock(pytree.tree_leaves(input_specs)))

    patches(module, "validate_optimization_profiles", validate_optimization_profiles)


def graft_lowering(module: ModuleType, patches: Patches) -> None:
    stock = module.post_lowering

    @functools.wraps(stock)
    def post_lowering(*args: Any, **kwargs: Any) -> Any:
        lowered = stock(*args, **kwargs)
        resolution = _resolution.get()
        if resolution is not None:
            _check_not_frozen(resolution)
        return lowered

    patches(module, "post_lowering", post_lowering)


def _check_not_frozen(resolution: Resolution) -> None:
    """Refuses a program in which symbols have been replaced by what they were in the exporter's example."""
    frozen = []
    for spec in resolution.envelope.inputs:
        for number, axis in enumerate(spec.axes):
            extent = axis.frozen_at
            if extent is not None and any(set(axis.span(symbols)) != {extent} for symbols in resolution.symbols):
                frozen.append(f"{spec.place(number)} at {extent}")
    if frozen:
        raise ValueError(
            f"lowering the program has fixed {', '.join(frozen)}, so its engines would take no other extent. "
            "Arithmetic on complex tensors does that: compute with the real and imaginary parts, of "
            "torch.view_as_real or of cos and sin. Export the program again before it is compiled again: this one has "
            "lost its dynamic axes"
        )


def graft_partitioning_common(module: ModuleType, patches: Patches) -> None:
    stock = module.construct_dynamic_input

    @functools.wraps(stock)
    def construct_dynamic_input(
        input_shape: Sequence[Any],
        input_dtype: Any,
        name: str = "",
        is_shape_tensor: bool = False,
        profile_source_bounds: Any = None,
        num_profiles: int = 0,
        user_symbol_bounds: Any = None,
    ) -> Any:
        resolution = _resolution.get()
        make = functools.partial(
            stock, input_shape, input_dtype, name, is_shape_tensor, user_symbol_bounds=user_symbol_bounds
        )
        if resolution is None:
            return make(profile_source_bounds=profile_source_bounds, num_profiles=num_profiles)
        axes = [Axis.of(extent) for extent in input_shape]
        # Extents that data decide, such as those of nonzero, go over all that stock gives them, in every profile.
        of_data = {n for n, axis in enumerate(axes) if not resolution.symbols[0].keys() >= set(axis.symbols)}
        whole = make().shape if of_data else {}
        fixed = {n: _in_order(*(int(whole[key][n]) for key in _SHAPES)) for n in of_data}
        profiles = []
        for index in range(len(resolution.names)):
            extents = [fixed[n] if n in fixed else axis.span(resolution.symbols[index]) for n, axis in enumerate(axes)]
            if not is_shape_tensor:
                _check_not_empty(resolution, index, name, axes, extents)
                extents = list(map(at_least_one, extents))
            profiles.append(dict(zip(_SHAPES, zip(*extents, strict=True), strict=True)))
        return _input(profiles, dtype=input_dtype, name=name, is_shape_tensor=is_shape_tensor)

    patches(module, "construct_dynamic_input", construct_dynamic_input)


def _in_order(low: int, opt: int, high: int) -> Extents:
    # Where stock makes an optimum up it may be above the maximum.
    return Extents(low, max(low, min(opt, high)), high)


def _check_not_empty(
    resolution: Resolution, index: int, name: str, axes: Sequence[Axis], extents: Sequence[Extents]
) -> None:
    known = resolution.symbols[index]
    for axis, (_, _, high) in zip(axes, extents, strict=True):
        if high < 1 and known.keys() >= set(axis.symbols):
            symbols = [
                f"{symbol} is {shown(known[symbol])} ({resolution.envelope.place_of(symbol)})"
                for symbol in axis.symbols
            ]
            profile = f"profile {resolution.names[index]!r}: " if resolution.names[index] else ""
            raise ValueError(
                f"{profile}inside the program, {name!r} has the shape "
                f"({', '.join(str(a.expr) for a in axes)}), and {axis.expr} is never above {high}, as "
                f"{' and '.join(symbols)}. TensorRT takes no empty tensors: give the profile ranges where it is at "
                "least 1, or name the operators that need it in torch_executed_ops"
            )


def _input(profiles: list[dict[str, tuple[int, ...]]], **options: Any) -> Any:
    """An Input with profiles, made from their union: made from them it would refuse values below 1 of shape tensors."""
    from torch_tensorrt import Input

    low = map(min, zip(*(profile["min_shape"] for profile in profiles), strict=True))
    high = map(max, zip(*(profile["max_shape"] for profile in profiles), strict=True))
    spec = Input(min_shape=tuple(low), opt_shape=profiles[0]["opt_shape"], max_shape=tuple(high), **options)
    spec.profiles = profiles
    return spec


def graft_conversion(module: ModuleType, patches: Patches) -> None:
    stock = module.convert_module

    @functools.wraps(stock)
    def convert_module(module: Any, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        resolution = _resolution.get()
        if resolution is None or not any(getattr(spec, "profiles", None) for spec in inputs):
            return stock(module, inputs, *args, **kwargs)
        token = _engine_profiles.set(_profiles_of_engine(resolution.names, inputs))
        try:
            return stock(module, inputs, *args, **kwargs)
        finally:
            _engine_profiles.reset(token)

    patches(module, "convert_module", convert_module)


def _profiles_of_engine(names: tuple[str, ...], inputs: Sequence[Any]) -> EngineProfiles:
    """Reads the ranges off the inputs that Torch-TensorRT derived for this engine."""
    ranges = []
    for index in range(len(names)):
        shapes = {}
        for spec in inputs:
            if spec.profiles:
                shape = spec.profiles[index]
                shapes[spec.name] = (tuple(shape["min_shape"]), tuple(shape["opt_shape"]), tuple(shape["max_shape"]))
            else:
                extents = tuple(int(extent) for extent in spec.shape)
                shapes[spec.name] = (extents, extents, extents)
        ranges.append(shapes)
    return EngineProfiles(names, tuple(ranges))
