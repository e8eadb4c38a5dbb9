"""Traces written exactly as ``core/runtime/trace_files.cpp`` and ``trace_layout.cpp`` write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

LAYERS = "_engine_execution_profile.trace"
INFORMATION = "_layer_information.json"


class Layer(NamedTuple):
    name: str
    total_ms: float
    count: int = 1


def _name_event(kind: str, pid: int, track: int, name: str) -> str:
    return (
        f'  {{"name": "{kind}", "ph": "M", "ts": 0, "pid": {pid}, "tid": {track}, '
        f'"args": {{"name": {json.dumps(name, ensure_ascii=False)}}}}}'
    )


def perfetto(layers: Sequence[Layer], engine: str, pid: int, track: int = 1, what: str = "Engine Execution") -> str:
    lines = [
        _name_event("process_name", pid, track, f"Torch-TensorRT {pid}"),
        _name_event("thread_name", pid, track, f"{engine} {what}"),
    ]
    at = 0.0
    for layer in layers:
        lines.append(
            f'  {{"name": {json.dumps(layer.name, ensure_ascii=False)}, "ph": "X", "ts": {at * 1000:g}, '
            f'"dur": {layer.total_ms * 1000:g}, "pid": {pid}, "tid": {track}, "args": {{}}}}'
        )
        at += layer.total_ms
    return "[\n" + ",\n".join(lines) + "\n]\n"


def trex(layers: Sequence[Layer]) -> str:
    total = sum(layer.total_ms for layer in layers)
    lines = []
    for layer in layers:
        percentage = layer.total_ms * 100 / total if total > 0 else 0
        lines.append(
            f'  {{"name": {json.dumps(layer.name, ensure_ascii=False)}, "timeMs": {layer.total_ms:.9g}, '
            f'"averageMs": {layer.total_ms / layer.count:.9g}, "percentage": {percentage:.9g}}}'
        )
    return "[" + ",".join("\n" + line for line in lines) + "\n]\n"


def stock_perfetto(layers: Sequence[Layer], engine: str) -> str:
    """As Torch-TensorRT itself writes it: the process is the engine's name."""
    entries = [
        {"name": n, "ph": "X", "ts": 0, "dur": ms * 1000, "tid": 1, "pid": f"{engine} Engine Execution", "args": {}}
        for n, ms, _ in layers
    ]
    return json.dumps(entries, indent=2)


def engine_record(
    name: str,
    folder: str = ".",
    *,
    object_id: str = "0x7f0000001000",
    device: int = 0,
    format: str = "trex",
    rank: int | None = None,
    profile_names: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "name": name,
        "object_id": object_id,
        "device": device,
        "folder": folder,
        "format": format,
        "rank": rank,
        "profile_names": list(profile_names),
    }


def write_engine(
    prefix: Path,
    layers: Sequence[Layer],
    *,
    name: str = "decoder_engine",
    pid: int = 4711,
    folder: str = ".",
    format: str = "trex",
    known_layers: Sequence[str] | None = None,
    **record: Any,
) -> None:
    """All files of an engine, and its entry in ``engines.<pid>.json``."""
    place = prefix / folder
    place.mkdir(parents=True, exist_ok=True)
    trace = trex(layers) if format == "trex" else perfetto(layers, name, pid)
    (place / f"{name}{LAYERS}").write_text(trace)
    known = [layer.name for layer in layers] if known_layers is None else list(known_layers)
    (place / f"{name}{INFORMATION}").write_text(json.dumps({"Layers": known, "Bindings": ["ids", "output0"]}))
    for phase, what in (("input", "input packing"), ("output", "output packing"), ("enqueue", "enqueue")):
        events = [Layer("aten::empty", 0.004), Layer("cudaStreamSynchronize", 0.02)] if phase != "enqueue" else []
        (place / f"{name}_{phase}_profile.trace").write_text(perfetto(events, name, pid, what=what))
    add_engine_record(prefix, pid, engine_record(name, folder, format=format, **record))


def add_engine_record(prefix: Path, pid: int, record: dict[str, Any]) -> None:
    path = prefix / f"engines.{pid}.json"
    content = json.loads(path.read_text()) if path.exists() else {"pid": pid, "engines": []}
    content["engines"].append(record)
    path.write_text(json.dumps(content))


def timing_row(profile: str | int, layer: Layer, *, engine: str = "decoder_engine", object_id: str = "0x7f0000001000"):
    return {
        "engine": engine,
        "object_id": object_id,
        "profile": profile,
        "layer": layer.name,
        "count": layer.count,
        "total_ms": layer.total_ms,
        "mean_ms": layer.total_ms / layer.count,
    }


PREFILL = [Layer("embedding", 1.0, 10), Layer("attention", 8.0, 10), Layer("mlp", 12.0, 10), Layer("head", 4.0, 10)]
DECODE = [Layer("embedding", 0.5, 100), Layer("attention", 6.0, 100), Layer("mlp", 3.0, 100), Layer("head", 9.0, 100)]


def with_mark(layers: Sequence[Layer], index: int) -> list[Layer]:
    """As TensorRT marks the layers of a profile that is not the first."""
    return [Layer(f"{layer.name} [profile {index}]", *layer[1:]) for layer in layers]


def write_two_profiles(prefix: Path, **options: Any) -> None:
    """An engine whose layer names tell its profiles "prefill" and "decode" apart."""
    layers = [*PREFILL, *with_mark(DECODE, 1)]
    write_engine(prefix, layers, profile_names=["prefill", "decode"], **options)
