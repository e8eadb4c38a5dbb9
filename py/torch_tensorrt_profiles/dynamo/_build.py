"""The build that this context is in: which named profiles, and what each symbol of the program is in each of them.

Torch-TensorRT's own propagation reads the profiles from its flat list of top-level inputs. That list is neither flat
for nested inputs nor in the program's order for keyword inputs, so the seams below answer from the resolution instead.
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
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles

if TYPE_CHECKING:
    from torch_tensorrt_profiles.dynamo._resolve import Resolution

_resolution: ContextVar[Resolution | None] = ContextVar("torch_tensorrt_profiles_resolution", default=None)
_engine_profiles: ContextVar[EngineProfiles | None] = ContextVar("torch_tensorrt_profiles_engine", default=None)


@contextlib.contextmanager
def building(resolution: Resolution) -> Iterator[None]:
    """Marks this context as compiling a program for the given profiles."""
    token = _resolution.set(resolution)
    log = logging.getLogger("torch_tensorrt.dynamo._compiler")
    log.addFilter(_is_not_the_specialization_warning)
    try:
        yield
    finally:
        log.removeFilter(_is_not_the_specialization_warning)
        _resolution.reset(token)


def _is_not_the_specialization_warning(record: logging.LogRecord) -> bool:
    # 2.14 warns that an extent of 1 will be built as 2 where torch.export says Dim(min=1). It is built as 1.
    return _resolution.get() is None or "0/1 specialization" not in str(record.msg)


def profiles_being_built() -> Resolution | None:
    """What the program that this context compiles is compiled for, or None where it is not ours."""
    return _resolution.get()


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


def graft_partitioning_common(module: ModuleType, patches: Patches) -> None:
    stock = module.build_profile_source_bounds

    @functools.wraps(stock)
    def build_profile_source_bounds(
        module: Any, top_level_inputs: Sequence[Any], num_profiles: int
    ) -> list[dict[str, dict[str, int]]]:
        resolution = _resolution.get()
        if resolution is None:
            bounds: list[dict[str, dict[str, int]]] = stock(module, top_level_inputs, num_profiles)
            return bounds
        return [
            {symbol: {"min": low, "opt": opt, "max": high} for symbol, (low, opt, high) in symbols.items()}
            for symbols in resolution.symbols
        ]

    patches(module, "build_profile_source_bounds", build_profile_source_bounds)


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
            elif isinstance(spec.shape, dict):
                # Torch-TensorRT could not carry the profiles over to this input: it takes the union in each of them.
                union = [tuple(map(int, spec.shape[key])) for key in ("min_shape", "opt_shape", "max_shape")]
                shapes[spec.name] = (union[0], union[1], union[2])
            else:
                extents = tuple(int(extent) for extent in spec.shape)
                shapes[spec.name] = (extents, extents, extents)
        ranges.append(shapes)
    return EngineProfiles(names, tuple(ranges))
