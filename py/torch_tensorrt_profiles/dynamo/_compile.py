"""``torch_tensorrt.dynamo.compile`` and ``convert_exported_program_to_serialized_trt_engine`` with named profiles."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._build import building
from torch_tensorrt_profiles.dynamo._gpuless import build_environment, remember_ranges
from torch_tensorrt_profiles.dynamo._inputs import needs_resolution, prepare
from torch_tensorrt_profiles.dynamo._optimization_profile import OptimizationProfile
from torch_tensorrt_profiles.dynamo._refusals import refuse_near_misses

logger = logging.getLogger(__name__)


def graft(module: ModuleType, patches: Patches) -> None:
    for name in ("compile", "convert_exported_program_to_serialized_trt_engine"):
        patches(module, name, _with_profiles(getattr(module, name)))


def _with_profiles(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def grafted(
        exported_program: Any,
        inputs: Sequence[Any] | None = None,
        *,
        arg_inputs: Sequence[Any] | None = None,
        kwarg_inputs: dict[str, Any] | None = None,
        optimization_profiles: Sequence[OptimizationProfile] | None = None,
        **options: Any,
    ) -> Any:
        refuse_near_misses(options, inspect.signature(stock).parameters)
        if optimization_profiles is not None:
            refuse_refittable(optimization_profiles, options)
        elif not needs_resolution(inputs, arg_inputs, kwarg_inputs):
            with build_environment(exported_program, options):
                compiled = stock(exported_program, inputs, arg_inputs=arg_inputs, kwarg_inputs=kwarg_inputs, **options)
            remember_ranges(compiled, exported_program)
            return compiled
        # Bad profiles are refused before the program is looked at any further.
        prepared = prepare(exported_program, optimization_profiles, inputs, arg_inputs, kwarg_inputs)
        with build_environment(exported_program, options), building(prepared.resolution):
            compiled = stock(
                exported_program, arg_inputs=prepared.arg_inputs, kwarg_inputs=prepared.kwarg_inputs, **options
            )
        remember_ranges(compiled, exported_program)
        _warn_of_idle_profiles(compiled, prepared.resolution.names)
        return compiled

    grafted.__signature__ = with_profiles_parameter(stock)  # type: ignore[attr-defined]
    return grafted


def _warn_of_idle_profiles(compiled: Any, names: tuple[str, ...]) -> None:
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    modules = compiled.modules() if hasattr(compiled, "modules") else ()
    if any(names) and hasattr(compiled, "modules") and not any(isinstance(m, TorchTensorRTModule) for m in modules):
        logger.warning(
            "No TensorRT engine was built, so the optimization profiles %s have no effect. The program has fewer "
            "convertible operations than min_block_size (give min_block_size=1 to a small one), or this was a dry run.",
            list(names),
        )


def with_profiles_parameter(stock: Callable[..., Any]) -> inspect.Signature:
    """The stock signature with ``optimization_profiles`` as its last keyword-only parameter."""
    signature = inspect.signature(stock)
    parameters = list(signature.parameters.values())
    at = next((i for i, p in enumerate(parameters) if p.kind is p.VAR_KEYWORD), len(parameters))
    added = inspect.Parameter("optimization_profiles", inspect.Parameter.KEYWORD_ONLY, default=None)
    return signature.replace(parameters=[*parameters[:at], added, *parameters[at:]])


def refuse_refittable(profiles: Sequence[OptimizationProfile], options: dict[str, Any]) -> None:
    """TensorRT allows one profile in a refittable engine, so several need ``immutable_weights=True``.

    Raises:
        ValueError: the options ask for a refittable engine.
    """
    refittable = not options.get("immutable_weights", True) or options.get("refit") or options.get("make_refittable")
    if refittable:
        names = ", ".join(repr(getattr(profile, "name", profile)) for profile in profiles)
        raise ValueError(
            f"optimization_profiles ({names}) need immutable_weights=True, the default: TensorRT allows only one "
            f"optimization profile in a refittable engine. Leave immutable_weights out, or compile without "
            f"optimization_profiles to be able to refit."
        )
