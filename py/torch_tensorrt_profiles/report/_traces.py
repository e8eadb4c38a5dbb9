"""One file at a time: layer traces in both formats, phase traces, layer information, engine lists, timings.

What a file is not, or what is wrong with it, is a :class:`TraceError` that says so in words; nothing is guessed.
Torch-TensorRT's own files are read too, as far as they are valid JSON.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from torch_tensorrt_profiles.report._model import Event

LAYERS_SUFFIX = "_engine_execution_profile.trace"
INFORMATION_SUFFIX = "_layer_information.json"
#: The host's phases of a call, in their order, by the ending of their file's name.
PHASE_SUFFIXES = {
    "_device_config_profile.trace": "device selection",
    "_input_profile.trace": "input packing",
    "_enqueue_profile.trace": "enqueue",
    "_output_profile.trace": "output packing",
}

#: A trace holds a few hundred bytes per layer. What is larger is something else, and is not read into memory.
MAX_BYTES = 256 << 20
#: Of any time and count: what is larger is no measurement, and sums stay finite.
MOST = 10**18


class TraceError(ValueError):
    """A file is not what its name says; the message is the reason, without the file's name."""


@dataclass(frozen=True)
class ReportedLayer:
    """A layer as a trace has it: with the mark of its profile in its name."""

    name: str
    total_ms: float
    count: int | None


@dataclass(frozen=True)
class LayerTrace:
    """``<engine>_engine_execution_profile.trace``. ``pid`` is None where the format does not carry it."""

    format: str
    pid: int | None
    layers: tuple[ReportedLayer, ...]


@dataclass(frozen=True)
class EngineRecord:
    """An engine in ``engines.<pid>.json``."""

    name: str
    object_id: str
    device: int | None
    folder: str
    format: str
    rank: int | None
    profile_names: tuple[str, ...]


@dataclass(frozen=True)
class TimingRow:
    """A row of ``torch.ops.tensorrt.dump_engine_timing()``; ``profile`` is a name, or an index."""

    engine: str
    object_id: str
    profile: str | int
    layer: str
    count: int
    total_ms: float


def read_json(path: Path) -> Any:
    """The JSON in a file.

    Raises:
        TraceError: it cannot be read, is empty, is not UTF-8 or is not JSON.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise TraceError("is no regular file, as a trace is")  # a pipe would be waited for
        size = status.st_size
        if size > MAX_BYTES:
            raise TraceError(f"{size >> 20} MiB is too large for a trace (limit {MAX_BYTES >> 20} MiB)")
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror or error}") from None
    if not content.strip():
        raise TraceError("is an empty file")
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise TraceError(f"is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise TraceError("is nested too deeply for a trace") from None
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
            raise TraceError(f"ends in the middle (line {error.lineno}); it was cut off") from None
        raise TraceError(f"is not JSON (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except ValueError as error:  # an integer with thousands of digits, or a constant
        raise TraceError(f"is not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def read_layer_trace(path: Path) -> LayerTrace:
    """A profiler's report, in either format.

    Raises:
        TraceError: see :func:`read_json`, or it is JSON of another kind.
    """
    entries = _entries(path)
    if any("timeMs" in entry for _, entry in entries):
        if any(entry.get("ph") == "X" for _, entry in entries):
            raise TraceError("mixes the trex and the perfetto format")
        return LayerTrace("trex", None, tuple(_trex_layer(where, entry) for where, entry in entries))
    layers = tuple(
        ReportedLayer(_text(span, "name", where), _number(span, "dur", where) / 1000, None)
        for where, span in _spans(entries)
    )
    return LayerTrace("perfetto", _pid(entries), layers)


def _trex_layer(where: str, entry: dict[str, Any]) -> ReportedLayer:
    total, mean = _number(entry, "timeMs", where), _number(entry, "averageMs", where)
    # A layer that took no time has no mean to count by.
    count = total / mean if mean > 0 else MOST
    return ReportedLayer(_text(entry, "name", where), total, round(count) if count < MOST else None)


def read_phase_trace(path: Path) -> tuple[Event, ...]:
    """What one phase of the last profiled call did on the host.

    Raises:
        TraceError: see :func:`read_json`, or it is JSON of another kind.
    """
    return tuple(
        Event(_text(span, "name", where), _number(span, "ts", where), _number(span, "dur", where))
        for where, span in _spans(_entries(path))
    )


def _entries(path: Path) -> list[tuple[str, dict[str, Any]]]:
    return _numbered(_objects(read_json(path), "a trace is a list of objects"))


def _spans(entries: list[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The spans of a trace in the perfetto format, which also has names of processes and threads."""
    for where, entry in entries:
        if entry.get("ph") == "X":
            yield where, entry
        elif entry.get("ph") != "M":
            raise TraceError(f"is no trace: {where} has neither 'timeMs' nor 'ph' X or M ({_excerpt(entry)})")


def read_layer_names(path: Path) -> tuple[str, ...]:
    """The names in TensorRT's description of an engine.

    Raises:
        TraceError: see :func:`read_json`, or it is JSON of another kind.
    """
    information = read_json(path)
    layers = information.get("Layers") if isinstance(information, dict) else None
    if not isinstance(layers, list):
        raise TraceError("is no layer information: it has no list 'Layers'")
    names = []
    for layer in layers:
        name = layer.get("Name") if isinstance(layer, dict) else layer
        if not isinstance(name, str):
            raise TraceError("is no layer information: a layer has no name")
        names.append(name)
    return tuple(names)


def read_engine_list(path: Path) -> tuple[int, tuple[EngineRecord, ...]]:
    """``engines.<pid>.json``: the process, and the engines that wrote traces in it.

    Raises:
        TraceError: see :func:`read_json`, or it is JSON of another kind.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise TraceError("is no list of engines: expected an object with 'pid' and 'engines'")
    pid = content.get("pid")
    if not _is_integer(pid):
        raise TraceError(f"is no list of engines: 'pid' is {pid!r}, expected an integer")
    engines = _objects(content.get("engines"), "'engines' is a list of objects")
    return pid, tuple(_engine_record(where, engine) for where, engine in _numbered(engines))


def _engine_record(where: str, engine: dict[str, Any]) -> EngineRecord:
    names = engine.get("profile_names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TraceError(f"{where}: 'profile_names' is {names!r}, expected a list of strings")
    device = _optional_integer(engine, "device", where)
    return EngineRecord(
        name=_text(engine, "name", where),
        object_id=_text(engine, "object_id", where),
        device=None if device is None or device < 0 else device,
        folder=_text(engine, "folder", where),
        format=_text(engine, "format", where),
        rank=_optional_integer(engine, "rank", where),
        profile_names=tuple(names),
    )


def read_timings(path: Path) -> tuple[TimingRow, ...]:
    """``timing.<pid>.json``: what ``torch.ops.tensorrt.dump_engine_timing()`` returned.

    Raises:
        TraceError: see :func:`read_json`, or it is JSON of another kind.
    """
    rows = []
    for where, row in _numbered(_objects(read_json(path), "timings are a list of objects")):
        profile = row.get("profile")
        if not isinstance(profile, str) and not _is_count(profile):
            raise TraceError(f"{where}: 'profile' is {_excerpt(profile)}, expected a name or an index")
        count = row.get("count")
        if not _is_count(count):
            raise TraceError(f"{where}: 'count' is {_excerpt(count)}, expected an integer from 0 to {MOST}")
        rows.append(
            TimingRow(
                engine=_text(row, "engine", where),
                object_id=_text(row, "object_id", where),
                profile=profile,
                layer=_text(row, "layer", where),
                count=count,
                total_ms=_number(row, "total_ms", where),
            )
        )
    return tuple(rows)


def _objects(value: Any, expected: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise TraceError(f"is JSON of another kind: {expected}")
    return value


def _numbered(entries: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"entry {number}", entry) for number, entry in enumerate(entries, 1)]


def _text(entry: dict[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str):
        raise TraceError(f"{where}: {key!r} is {_excerpt(value)}, expected a string")
    return value


def _number(entry: dict[str, Any], key: str, where: str) -> float:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise TraceError(f"{where}: {key!r} is {_excerpt(value)}, expected a number from 0 to {MOST}")
    return float(value)


def _optional_integer(entry: dict[str, Any], key: str, where: str) -> int | None:
    value = entry.get(key)
    if value is not None and not _is_integer(value):
        raise TraceError(f"{where}: {key!r} is {_excerpt(value)}, expected an integer or null")
    return value


def _is_count(value: Any) -> TypeGuard[int]:
    return _is_integer(value) and 0 <= value <= MOST


def _is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _pid(entries: list[tuple[str, dict[str, Any]]]) -> int | None:
    # Stock's own files have the engine's name there.
    return next((entry["pid"] for _, entry in entries if _is_integer(entry.get("pid"))), None)


def _excerpt(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:57] + "..."
