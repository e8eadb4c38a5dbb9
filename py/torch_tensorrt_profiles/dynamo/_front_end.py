"""``torch_tensorrt.compile`` and ``torch_tensorrt.convert_method_to_trt_engine`` with named profiles."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles._stand_ins import cuda_questions_answered
from torch_tensorrt_profiles.dynamo import _refusals
from torch_tensorrt_profiles.dynamo._compile import with_profiles_parameter
from torch_tensorrt_profiles.dynamo._inputs import needs_resolution
from torch_tensorrt_profiles.dynamo._optimization_profile import OptimizationProfile


def graft(module: ModuleType, patches: Patches) -> None:
    patches(module, "compile", _compile(module))
    patches(module, "convert_method_to_trt_engine", _convert_method_to_trt_engine(module))


def _compile(front_end: ModuleType) -> Callable[..., Any]:
    stock = front_end.compile

    @functools.wraps(stock)
    def compile(
        module: Any,
        ir: str = "default",
        inputs: Sequence[Any] | None = None,
        arg_inputs: Sequence[Any] | None = None,
        kwarg_inputs: dict[str, Any] | None = None,
        *args: Any,
        optimization_profiles: Sequence[OptimizationProfile] | None = None,
        **options: Any,
    ) -> Any:
        kind = front_end._parse_module_type(module)
        exported = kind == front_end._ModuleType.ep
        _refusals.refuse_near_misses(options, inspect.signature(front_end.dynamo_compile).parameters)
        ours = optimization_profiles is not None or (
            exported and needs_resolution(inputs, arg_inputs, kwarg_inputs or None)
        )
        if not ours:
            with cuda_questions_answered():  # stock asks for a device before it exports
                return stock(module, ir, inputs, arg_inputs, kwarg_inputs, *args, **options)
        target = front_end._get_target_fe(kind, ir)
        _refuse_other_front_ends(front_end, target)
        given: dict[str, Any] = {"inputs": inputs, "arg_inputs": arg_inputs, "kwarg_inputs": kwarg_inputs}
        options.pop("enabled_precisions", None)  # read by the other front ends only, as in stock
        if not exported:
            assert optimization_profiles is not None
            module = _export(module, optimization_profiles, inputs, arg_inputs, kwarg_inputs)
        return front_end.dynamo_compile(module, **given, optimization_profiles=optimization_profiles, **options)

    compile.__signature__ = with_profiles_parameter(stock)  # type: ignore[attr-defined]
    return compile


def _convert_method_to_trt_engine(front_end: ModuleType) -> Callable[..., Any]:
    stock = front_end.convert_method_to_trt_engine

    @functools.wraps(stock)
    def convert_method_to_trt_engine(
        module: Any,
        method_name: str = "forward",
        inputs: Sequence[Any] | None = None,
        arg_inputs: Sequence[Any] | None = None,
        kwarg_inputs: dict[str, Any] | None = None,
        ir: str = "default",
        *args: Any,
        optimization_profiles: Sequence[OptimizationProfile] | None = None,
        **options: Any,
    ) -> Any:
        if optimization_profiles is None:
            return stock(module, method_name, inputs, arg_inputs, kwarg_inputs, ir, *args, **options)
        kind = front_end._parse_module_type(module)
        _refuse_other_front_ends(front_end, front_end._get_target_fe(kind, ir))
        if method_name != "forward":
            raise ValueError(f"method_name={method_name!r}: with optimization_profiles only 'forward' can be converted")
        given: dict[str, Any] = {"inputs": inputs, "arg_inputs": arg_inputs, "kwarg_inputs": kwarg_inputs}
        options.pop("enabled_precisions", None)
        if kind != front_end._ModuleType.ep:
            module = _export(module, optimization_profiles, inputs, arg_inputs, kwarg_inputs)
        return front_end.dynamo_convert_exported_program_to_serialized_trt_engine(
            module, **given, optimization_profiles=optimization_profiles, **options
        )

    convert_method_to_trt_engine.__signature__ = with_profiles_parameter(stock)  # type: ignore[attr-defined]
    return convert_method_to_trt_engine


def _refuse_other_front_ends(front_end: ModuleType, target: Any) -> None:
    if target == front_end._IRType.torch_compile:
        _refusals.refuse_for_torch_compile()
    if target != front_end._IRType.dynamo:
        _refusals.refuse_for_torchscript()


def _export(
    module: Any,
    profiles: Sequence[OptimizationProfile],
    inputs: Sequence[Any] | None,
    arg_inputs: Sequence[Any] | None,
    kwarg_inputs: dict[str, Any] | None,
) -> Any:
    if inputs is not None and arg_inputs is not None:
        raise ValueError("inputs and arg_inputs are two names of one argument; pass only one of them")
    from torch_tensorrt_profiles.dynamo._export import export_over_profiles

    examples = inputs if inputs is not None else arg_inputs
    return export_over_profiles(module, () if examples is None else examples, kwarg_inputs or {}, profiles)
