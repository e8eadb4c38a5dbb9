"""Where ``optimization_profiles=`` cannot work, it is refused; stock drops the unknown keyword without a word."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._optimization_profile import OptimizationProfile

KEYWORD = "optimization_profiles"
_WHERE = (
    "Pass it to torch_tensorrt.dynamo.compile(exported_program, optimization_profiles=[...]) or to "
    "torch_tensorrt.compile(module, ir='dynamo', arg_inputs=[...], optimization_profiles=[...])."
)


def refuse_for_torch_compile() -> None:
    """
    Raises:
        ValueError: always.
    """
    raise ValueError(
        f"{KEYWORD} is not an option of torch.compile(backend='tensorrt'): its guards pick a graph by shape before any "
        f"engine runs. {_WHERE}"
    )


def refuse_for_torchscript() -> None:
    """
    Raises:
        ValueError: always.
    """
    raise ValueError(f"{KEYWORD} is not an option of the TorchScript front end (ir='ts'). {_WHERE}")


def refuse_near_misses(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Stock drops unknown keywords; one that is nearly ours, or holds what is ours, must not vanish so.

    Raises:
        TypeError: an unknown keyword is close to ``optimization_profiles``, or is given profiles.
    """
    unknown = [name for name in options if name not in known]
    near = [name for name in unknown if _holds_profiles(options[name])]
    near += difflib.get_close_matches(KEYWORD, unknown, n=1, cutoff=0.75)
    if near:
        raise TypeError(f"unknown keyword {near[0]!r}; did you mean {KEYWORD!r}?")


def _holds_profiles(value: Any) -> bool:
    values = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(each, OptimizationProfile) for each in values)


def graft_dynamo_utils(module: ModuleType, patches: Patches) -> None:
    stock = module.parse_dynamo_kwargs

    @functools.wraps(stock)
    def parse_dynamo_kwargs(kwargs: Any) -> Any:
        # Called by the backend of torch.compile only; torch.compile hands the options over under "options".
        if KEYWORD in (kwargs or {}) or KEYWORD in ((kwargs or {}).get("options") or {}):
            refuse_for_torch_compile()
        return stock(kwargs)

    patches(module, "parse_dynamo_kwargs", parse_dynamo_kwargs)


def graft_settings(module: ModuleType, patches: Patches) -> None:
    cls = module.CompilationSettings
    stock = cls.__init__

    @functools.wraps(stock)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if KEYWORD in kwargs:
            raise TypeError(
                f"{KEYWORD} is not a field of CompilationSettings: settings are pickled into every engine, and stock "
                f"Torch-TensorRT could not load such an engine. {_WHERE}"
            )
        stock(self, *args, **kwargs)

    patches(cls, "__init__", init)


def graft_torchscript(module: ModuleType, patches: Patches) -> None:
    for name in ("compile", "convert_method_to_trt_engine"):
        patches(module, name, _without_profiles(getattr(module, name)))


def _without_profiles(stock: Any) -> Any:
    @functools.wraps(stock)
    def grafted(*args: Any, **kwargs: Any) -> Any:
        if KEYWORD in kwargs:
            refuse_for_torchscript()
        return stock(*args, **kwargs)

    return grafted
