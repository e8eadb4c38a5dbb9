"""Torch-TensorRT's engine caches hold our engines too, as whole plans in entries of their own kind.

2.14 caches refittable engines only, without their weights; engines with several profiles are immutable. So the
key covers the weights, and an entry is the plan itself. Any ``BaseEngineCache`` will do: its ``save`` and ``load`` are
given keys and blobs of ours, and stock's own keys and entries are not touched.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import logging
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._build import profiles_being_built

logger = logging.getLogger(__name__)

_MAGIC = b"torch_tensorrt_profiles plan 1\n"
#: Settings that say where or when something happens, but not what engine comes out.
_NOT_IN_KEY = {"cache_built_engines", "reuse_cached_engines", "lazy_engine_init", "timing_cache_path", "device"}


def graft(module: ModuleType, patches: Patches) -> None:
    stock = module.interpret_module_to_result

    @functools.wraps(stock)
    def interpret_module_to_result(
        module: Any, inputs: Sequence[Any], settings: Any, engine_cache: Any = None, **options: Any
    ) -> Any:
        profiles = profiles_being_built()
        wanted = settings.cache_built_engines or settings.reuse_cached_engines
        if profiles is None or engine_cache is None or not wanted or not settings.immutable_weights:
            return stock(module, inputs, settings, engine_cache, **options)
        key = plan_key(module, inputs, settings, profiles.names, options)
        if settings.reuse_cached_engines:
            cached = _reuse(engine_cache, key, module, result_type)
            if cached is not None:
                return cached
        uncached = dataclasses.replace(settings, cache_built_engines=False, reuse_cached_engines=False)
        result = stock(module, inputs, uncached, None, **options)
        if settings.cache_built_engines:
            engine_cache.save(key, pack(result))
        return result

    result_type = module.SerializedInterpreterResult
    patches(module, "interpret_module_to_result", interpret_module_to_result)


def plan_key(module: Any, inputs: Sequence[Any], settings: Any, names: Sequence[str], options: dict[str, Any]) -> str:
    """What determines a plan: graph, weights, profiles with order, ranges and names, settings, versions and GPU."""
    import tensorrt
    import torch
    import torch_tensorrt

    gpu = torch.cuda.get_device_properties(settings.device.gpu_id)
    facts = {
        "names": list(names),
        "inputs": [(spec.name, str(spec), str(spec.profiles)) for spec in inputs],
        "graph": [_describe(node) for node in module.graph.nodes],
        "settings": {
            field.name: _describe_setting(getattr(settings, field.name))
            for field in dataclasses.fields(settings)
            if field.name not in _NOT_IN_KEY
        },
        "options": {name: str(value) for name, value in options.items()},
        "versions": [torch.__version__, torch_tensorrt.__version__, tensorrt.__version__],
        "gpu": [gpu.name, gpu.major, gpu.minor],
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for node in module.graph.nodes:
        if node.op == "get_attr":
            _add_weight(digest, node.target, functools.reduce(getattr, node.target.split("."), module))
    return "plan-" + digest.hexdigest()


def _describe(node: Any) -> list[str]:
    val = node.meta.get("val")
    kind = [f"{v.dtype} {tuple(v.shape)}" if hasattr(v, "dtype") else str(v) for v in _as_sequence(val)]
    return [node.op, node.name, str(node.target), str(node.args), str(node.kwargs), str(kind)]


def _as_sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else (value,)


def _describe_setting(value: Any) -> str:
    # A set is printed in the order of its hashes, which differ between processes.
    return str(sorted(map(str, value))) if isinstance(value, (set, frozenset)) else str(value)


def _add_weight(digest: Any, name: str, weight: Any) -> None:
    import torch

    if not isinstance(weight, torch.Tensor):
        digest.update(f"{name} {weight}".encode())
        return
    digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
    digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def pack(result: Any) -> bytes:
    """An entry: mark, length of the description, description as JSON, plan."""
    plan = bytes(result.serialized_engine)
    description = {
        "input_names": list(result.input_names),
        "output_names": list(result.output_names),
        "requires_output_allocator": bool(result.requires_output_allocator),
        "requires_native_multidevice": bool(result.requires_native_multidevice),
        "aliased_io": {name: list(alias) for name, alias in result.aliased_io.items()},
        "sha256": hashlib.sha256(plan).hexdigest(),
    }
    text = json.dumps(description).encode()
    return _MAGIC + len(text).to_bytes(8, "little") + text + plan


def unpack(blob: bytes) -> tuple[dict[str, Any], bytes]:
    """The inverse of :func:`pack`; nothing is unpickled.

    Raises:
        ValueError: the blob is truncated, damaged or not ours.
    """
    start = len(_MAGIC) + 8
    if not blob.startswith(_MAGIC) or len(blob) < start:
        raise ValueError("it is not a plan of torch-tensorrt-profiles")
    end = start + int.from_bytes(blob[len(_MAGIC) : start], "little")
    try:
        description = json.loads(blob[start:end])
        plan = blob[end:]
        intact = hashlib.sha256(plan).hexdigest() == description["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"it is damaged ({error!r})") from error
    if not intact:
        raise ValueError("its plan is truncated or damaged")
    return description, plan


def _reuse(engine_cache: Any, key: str, module: Any, result_type: Any) -> Any | None:
    from torch_tensorrt.dynamo.conversion._symbolic_shape_capture import extract_symbolic_shape_expressions

    blob = engine_cache.load(key)
    if not blob:
        return None
    try:
        description, plan = unpack(blob)
    except ValueError as error:
        logger.warning("The engine cache's entry %s is not used: %s. The engine is built again.", key, error)
        return None
    return result_type(
        serialized_engine=plan,
        input_names=description["input_names"],
        output_names=description["output_names"],
        requires_output_allocator=description["requires_output_allocator"],
        requires_native_multidevice=description["requires_native_multidevice"],
        symbolic_shape_expressions=extract_symbolic_shape_expressions(module),
        aliased_io={name: tuple(alias) for name, alias in description["aliased_io"].items()},
    )
