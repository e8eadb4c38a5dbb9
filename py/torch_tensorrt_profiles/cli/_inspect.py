"""``torchtrtprof inspect``."""

from __future__ import annotations

import dataclasses
import json
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from torch_tensorrt_profiles._stand_ins import STAND_IN_NAME
from torch_tensorrt_profiles.cli._output import progress
from torch_tensorrt_profiles.report._text_table import printable, text_table
from torch_tensorrt_profiles.saved._engine import EngineError, SavedEngine
from torch_tensorrt_profiles.saved._inputs import ProgramInput
from torch_tensorrt_profiles.saved._plan import PlanError, PlanFacts, facts_of
from torch_tensorrt_profiles.saved._program import ProgramError, SavedProgram, read_program

#: Of the JSON; a change that breaks readers adds one.
SCHEMA = 1
_ENDS = ("min", "opt", "max")
#: Options of a build that decide what the engine is; --json has all.
_SHOWN_SETTINGS = (
    "immutable_weights",
    "strip_engine_weights",
    "workspace_size",
    "optimization_level",
    "min_block_size",
    "disable_tf32",
    "use_fp32_acc",
    "enable_autocast",
    "sparse_weights",
    "version_compatible",
)


@click.command("inspect", short_help="Show the engines, bindings and profiles in a saved program.")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option("--no-gpu", is_flag=True, help="Do not load engines on the GPU, which tells their memory.")
def command(program: Path, as_json: bool, no_gpu: bool) -> None:
    """Show the engines in a saved PROGRAM, their bindings and optimization profiles.

    PROGRAM is a file of torch_tensorrt.save or torch.export.save, an AOTInductor package, a TorchScript file, or a file
    of torch.save. It is read, not loaded: nothing in it is run, and no GPU is needed. On a host with a GPU, TensorRT
    adds the GPU memory that each profile takes, and the ranges of engines that were compiled without names.
    """
    try:
        saved = read_program(program)
    except ProgramError as error:
        raise click.ClickException(str(error)) from None
    facts: list[PlanFacts | str] = []
    if not no_gpu:
        with progress(len(saved.engines), "Asking TensorRT") as step:
            for engine in saved.engines:
                facts.append(_facts(engine))
                step()
    document = _document(saved, facts)
    if as_json:
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo("\n".join(_lines(document, shutil.get_terminal_size((120, 40)).columns)))


def _facts(engine: SavedEngine) -> PlanFacts | str:
    """What TensorRT says, or why it says nothing."""
    try:
        return facts_of(engine.plan_content())
    except (PlanError, EngineError) as error:
        return str(error)


def _document(saved: SavedProgram, facts: list[PlanFacts | str]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "file": str(saved.path),
        "form": saved.form,
        "bytes": saved.path.stat().st_size,
        "built_with": saved.built_with,
        "inputs": [_input(entry) for entry in saved.inputs],
        "engines": [
            _engine(engine, facts[number] if facts else "not asked (--no-gpu)")
            for number, engine in enumerate(saved.engines)
        ],
        "remarks": saved.remarks,
    }


def _input(entry: ProgramInput) -> dict[str, Any]:
    shape = [extent if isinstance(extent, int) else dataclasses.asdict(extent) for extent in entry.shape]
    return {"name": entry.name, "dtype": entry.dtype, "shape": shape}


def _engine(engine: SavedEngine, facts: PlanFacts | str) -> dict[str, Any]:
    known = facts if isinstance(facts, PlanFacts) else None
    return {
        "name": engine.name,
        "plan_bytes": engine.plan_bytes,
        "device": engine.device,
        "target_platform": engine.target_platform,
        "abi_version": engine.abi_version,
        "hardware_compatible": engine.hardware_compatible,
        "requires_output_allocator": engine.requires_output_allocator,
        "dynamically_allocated_resources": engine.dynamic_resources,
        "bindings": [
            {
                "name": binding.name,
                "kind": "input" if binding.is_input else "output",
                "dtype": binding.dtype or (known.dtypes.get(binding.name) if known else None),
            }
            for binding in (*engine.inputs, *engine.outputs)
        ],
        "profiles": list(_profiles(engine, known)),
        "settings": engine.settings,
        "on_this_gpu": facts
        if isinstance(facts, str)
        else {"tensorrt": facts.tensorrt, "layers": facts.layers, "refittable": facts.refittable},
        "remarks": list(engine.remarks),
    }


def _profiles(engine: SavedEngine, facts: PlanFacts | None) -> Iterator[dict[str, Any]]:
    """By index; from our record where there is one, else from the engine itself, else nothing."""
    names = engine.profiles.names if engine.profiles is not None else ("",) * (len(facts.ranges) if facts else 0)
    for index, name in enumerate(names):
        if engine.profiles is not None:
            shapes: dict[str, Any] = dict(engine.profiles.ranges[index])
        else:
            shapes = dict(facts.ranges[index]) if facts is not None else {}
        memory = facts.memory_bytes[index] if facts is not None and index < len(facts.memory_bytes) else None
        yield {
            "index": index,
            "name": name,
            "inputs": {
                binding: {"min": list(low), "opt": list(opt), "max": list(high)}
                for binding, (low, opt, high) in shapes.items()
            },
            "memory_bytes": memory,
        }


def _lines(document: dict[str, Any], width: int) -> Iterator[str]:
    yield f"{printable(document['file'])}: {document['form']}, {_size(document['bytes'])}"
    for key, value in document["built_with"].items():
        yield f"  {printable(key)}: {printable(value)}"
    if document["inputs"]:
        yield ""
        rows = [[entry["name"], entry["dtype"] or "-", _shape(entry["shape"])] for entry in document["inputs"]]
        yield text_table(["input", "dtype", "shape"], rows, left=(0, 1, 2), width=width)
    for remark in document["remarks"]:
        yield f"Note: {printable(remark)}"
    if not document["engines"]:
        yield "It holds no TensorRT engine."
    for engine in document["engines"]:
        yield ""
        yield from _engine_lines(engine, width)


def _engine_lines(engine: dict[str, Any], width: int) -> Iterator[str]:
    yield f"engine {printable(engine['name'])}, {_size(engine['plan_bytes'])}"
    device = engine["device"]
    if device:
        where = "on a host without a GPU" if device["name"] == STAND_IN_NAME else f"for {device['name']}"
        built = f"built {where}, compute capability {device['capability']}, {engine['target_platform']}"
        yield f"  {printable(built)}"
    gpu = engine["on_this_gpu"]
    if isinstance(gpu, str):
        yield f"  memory: not known, {printable(gpu)}"
    else:
        refittable = "refittable" if gpu["refittable"] else "not refittable"
        yield f"  on this GPU: {gpu['tensorrt']}, {gpu['layers']} layers, {refittable}"
    rows = [[binding["name"], binding["kind"], binding["dtype"] or "-"] for binding in engine["bindings"]]
    yield text_table(["binding", "kind", "dtype"], rows, left=(0, 1, 2), width=width)
    yield ""
    yield from _profile_lines(engine, width)
    settings = {key: engine["settings"][key] for key in _SHOWN_SETTINGS if key in engine["settings"]}
    if settings:
        options = ", ".join(f"{key}={printable(str(value))}" for key, value in settings.items())
        yield _filled(f"built with {options}", width)
    for remark in engine["remarks"]:
        yield f"  Note: {printable(remark)}"


def _profile_lines(engine: dict[str, Any], width: int) -> Iterator[str]:
    """The inputs whose shapes vary, per profile; the others once."""
    profiles = engine["profiles"]
    if not profiles:
        yield "  profiles: no names are saved with it; on a GPU host their ranges are read from the engine"
        return
    limits: dict[str, set[str]] = {}
    for profile in profiles:
        for binding, shapes in profile["inputs"].items():
            limits.setdefault(binding, set()).update(_shape(shapes[end]) for end in _ENDS)
    order = [binding["name"] for binding in engine["bindings"] if binding["name"] in limits]
    varying = [name for name in order if len(limits[name]) > 1]
    rows = []
    for profile in profiles:
        memory = "-" if profile["memory_bytes"] is None else _size(profile["memory_bytes"])
        first = [str(profile["index"]), profile["name"] or "-", memory]
        for name in varying or [""]:
            shapes = profile["inputs"].get(name)
            rows.append([*first, name or "-", *(_shape(shapes[end]) if shapes else "-" for end in _ENDS)])
            first = ["", "", ""]
    header = ["index", "profile", "memory", "input", *_ENDS]
    yield text_table(header, rows, left=(1, 3, 4, 5, 6), width=width, shrink=(3,))
    fixed: dict[str, list[str]] = {}
    for name in order:
        if name not in varying:
            fixed.setdefault(next(iter(limits[name])), []).append(printable(name))
    for shape, names in fixed.items():
        yield _filled(f"always {shape}: {', '.join(names)}", width)


def _filled(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    ")


def _shape(shape: list[Any]) -> str:
    def shown(extent: Any) -> str:
        if not isinstance(extent, dict):
            return str(extent)
        high = "" if extent["max"] is None else extent["max"]
        return f"{'' if extent['min'] is None else extent['min']}..{high}"

    return "x".join(map(shown, shape)) or "scalar"


def _size(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
