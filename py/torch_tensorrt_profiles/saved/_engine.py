"""An engine as Torch-TensorRT saves it: a list of strings."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_tensorrt_profiles.dynamo import _metadata
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles
from torch_tensorrt_profiles.saved._pickles import Opaque, PickleError, plain, read_pickle

#: Torch-TensorRT 2.14's order (``SerializedInfoIndex`` in core/runtime/runtime.h), checked by a test.
FIELDS = (
    "ABI_TARGET",
    "NAME",
    "DEVICE",
    "ENGINE",
    "INPUT_BINDING_NAMES",
    "OUTPUT_BINDING_NAMES",
    "HW_COMPATIBLE",
    "SERIALIZED_METADATA",
    "TARGET_PLATFORM",
    "REQUIRES_OUTPUT_ALLOCATOR",
    "RESOURCE_ALLOCATION_STRATEGY",
    "REQUIRES_NATIVE_MULTIDEVICE",
    "ALIASED_IO",
)
_DELIMITER = "%"


class EngineError(ValueError):
    """What should be an engine is none."""


@dataclass(frozen=True)
class Binding:
    """An input or output of an engine.

    Attributes:
        dtype: torch's name of it, or None where the file does not tell.
        symbols: per axis an extent or the name of the symbol that it is, "" for what is computed from symbols; None
            where the file does not tell.
    """

    name: str
    is_input: bool
    dtype: str | None
    symbols: tuple[int | str, ...] | None = None


@dataclass(frozen=True)
class SavedEngine:
    """An engine in a file.

    Attributes:
        name: Torch-TensorRT's name of it, which its traces carry too.
        plan: TensorRT's serialized engine, as base64 or as bytes.
        device: ``id``, ``capability`` and ``name`` of the device that it was built for.
        profiles: names and ranges, or None for an engine that was compiled without them.
        settings: Torch-TensorRT's options of the build, as plain data; empty where they cannot be read.
        remarks: what could not be read.
    """

    name: str
    plan: str | bytes = field(repr=False)
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    device: dict[str, str]
    profiles: EngineProfiles | None
    settings: dict[str, Any]
    target_platform: str
    abi_version: str
    hardware_compatible: bool
    requires_output_allocator: bool
    dynamic_resources: bool
    remarks: tuple[str, ...] = ()

    @property
    def plan_bytes(self) -> int:
        """Size of TensorRT's engine in bytes."""
        if isinstance(self.plan, bytes):
            return len(self.plan)
        return len(self.plan) * 3 // 4 - self.plan[-2:].count("=")

    def plan_content(self) -> bytes:
        """TensorRT's engine itself.

        Raises:
            EngineError: it is damaged.
        """
        if isinstance(self.plan, bytes):
            return self.plan
        try:
            return base64.b64decode(self.plan, validate=True)
        except binascii.Error as error:
            raise EngineError(f"the engine {self.name!r} is damaged: {error}") from None


def from_packed(packed: Sequence[Any]) -> SavedEngine:
    """An engine from Torch-TensorRT's list.

    Raises:
        EngineError: the list is not one of Torch-TensorRT 2.14.
    """
    if len(packed) < len(FIELDS) or not all(isinstance(value, str | bytes) for value in packed):
        raise EngineError(
            f"an engine is a list of {len(FIELDS)} strings in Torch-TensorRT 2.14, this one has {len(packed)} entries; "
            f"it was saved by another version"
        )
    texts = {
        name: value if isinstance(value, str) else value.decode("latin-1")
        for name, value in zip(FIELDS, packed, strict=False)
    }
    remarks: list[str] = []
    metadata = _read_metadata(texts["SERIALIZED_METADATA"], remarks)
    expressions = metadata.get("inout_symexprs")
    return SavedEngine(
        name=texts["NAME"],
        plan=texts["ENGINE"],
        inputs=_bindings(_names(texts["INPUT_BINDING_NAMES"]), expressions, "inputs"),
        outputs=_bindings(_names(texts["OUTPUT_BINDING_NAMES"]), expressions, "outputs"),
        device=_device(texts["DEVICE"]),
        profiles=_read_profiles(texts["SERIALIZED_METADATA"], remarks),
        settings=_settings(metadata.get("settings")),
        target_platform=texts["TARGET_PLATFORM"],
        abi_version=texts["ABI_TARGET"],
        hardware_compatible=texts["HW_COMPATIBLE"] == "1",
        requires_output_allocator=texts["REQUIRES_OUTPUT_ALLOCATOR"] == "1",
        dynamic_resources=texts["RESOURCE_ALLOCATION_STRATEGY"] == "1",
        remarks=tuple(remarks),
    )


def from_module_state(state: Mapping[str, Any], record: str) -> SavedEngine | None:
    """An engine from the pickled attributes of a TorchTensorRTModule; None where it holds none.

    Args:
        record: the attribute that our profile record is in.
    """
    plan = state.get("serialized_engine")
    if not isinstance(plan, bytes):
        return None
    remarks: list[str] = []
    profiles = None
    if isinstance(state.get(record), dict):
        try:
            profiles = EngineProfiles.from_json(state[record])
        except ValueError as error:
            remarks.append(str(error))
    expressions = state.get("symbolic_shape_expressions")
    name = str(state.get("name") or "")
    return SavedEngine(
        name=f"{name}_engine" if name else "tensorrt_engine",
        plan=plan,
        inputs=_bindings(state.get("input_binding_names") or [], expressions, "inputs"),
        outputs=_bindings(state.get("output_binding_names") or [], expressions, "outputs"),
        device={},
        profiles=profiles,
        settings=_settings(state.get("settings")),
        target_platform="",
        abi_version="",
        hardware_compatible=bool(state.get("hardware_compatible")),
        requires_output_allocator=bool(state.get("requires_output_allocator")),
        dynamic_resources=bool(state.get("dynamically_allocate_resources")),
        remarks=tuple(remarks),
    )


def _read_metadata(encoded: str, remarks: list[str]) -> dict[str, Any]:
    try:
        metadata = read_pickle(base64.b64decode(encoded)) if encoded else {}
    except (PickleError, binascii.Error, ValueError) as error:
        remarks.append(f"what it was built with cannot be read: its metadata {error}")
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _read_profiles(encoded: str, remarks: list[str]) -> EngineProfiles | None:
    try:
        return _metadata.read(encoded)
    except (binascii.Error, ValueError) as error:
        remarks.append(str(error))
        return None


def _names(joined: str) -> list[str]:
    return joined.split(_DELIMITER) if joined else []


def _bindings(names: Iterable[str], expressions: Any, kind: str) -> tuple[Binding, ...]:
    """``expressions`` is Torch-TensorRT's record of symbolic shapes: in the engine's order, with dtypes."""
    known = expressions.get(kind) if isinstance(expressions, dict) else None
    known = known if isinstance(known, list) else []
    names = list(names)
    if len(known) != len(names) or not all(isinstance(entry, dict) for entry in known):
        known = [{}] * len(names)
    return tuple(
        Binding(name, kind == "inputs", _dtype(entry.get("dtype")), _symbols(entry.get("shape_exprs")))
        for name, entry in zip(names, known, strict=True)
    )


def _symbols(expressions: Any) -> tuple[int | str, ...] | None:
    """``expressions`` are integers and sympy expressions, the latter as placeholders."""
    if not isinstance(expressions, list):
        return None
    symbols: list[int | str] = []
    for expression in expressions:
        if isinstance(expression, int):
            symbols.append(expression)
        else:
            symbols.append(_symbol_name(expression))
    return tuple(symbols)


def _symbol_name(expression: Any) -> str:
    if not isinstance(expression, Opaque):
        return ""
    made_by, args = type(expression), expression.args
    if made_by.origin == "functools.partial" and args and isinstance(args[0], Opaque):
        # torch.save's pickles call __new__ through a partial, whose state is (function, (class, *arguments), ...).
        state = args[0].state
        if isinstance(state, tuple) and len(state) > 1 and isinstance(state[1], tuple) and state[1]:
            made_by, *args = state[1]  # type: ignore[assignment]
    if getattr(made_by, "origin", "") != "sympy.core.symbol.Symbol":
        return ""
    return next((arg for arg in args if isinstance(arg, str)), "")


def _dtype(value: Any) -> str | None:
    if isinstance(value, type) and issubclass(value, Opaque):
        return value.origin.removeprefix("torch.")
    return None


def _device(record: str) -> dict[str, str]:
    parts = record.split(_DELIMITER)
    if len(parts) < 5:
        return {}
    return {"id": parts[0], "capability": f"{parts[1]}.{parts[2]}", "name": _DELIMITER.join(parts[4:])}


def _settings(value: Any) -> dict[str, Any]:
    settings = plain(value)
    return settings if isinstance(settings, dict) else {}
