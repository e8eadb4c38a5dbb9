"""``torchtrtprof run``."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from torch_tensorrt_profiles._activate import ActivationError, activate
from torch_tensorrt_profiles.cli._output import progress
from torch_tensorrt_profiles.dynamo._metadata import ShapeRange
from torch_tensorrt_profiles.latency._load import LoadedProgram, LoadError, cuda_graphs, load, make_tensors
from torch_tensorrt_profiles.latency._measure import Scope, measure, trace
from torch_tensorrt_profiles.latency._shapes import InputShape, ShapeError, parse_shapes, shapes_for
from torch_tensorrt_profiles.latency._statistics import Latency
from torch_tensorrt_profiles.report._text_table import text_table
from torch_tensorrt_profiles.saved._program import ProgramError, SavedProgram, read_program

#: Of the JSON; a change that breaks readers adds one.
SCHEMA = 1
_INDEX = re.compile("[0-9]{1,9}")
_PERCENTILES = {"median_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99}


class NoGpuError(click.ClickException):
    """Running needs a GPU."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "'torchtrtprof run' needs an NVIDIA GPU, and torch finds none on this host. 'torchtrtprof inspect' and "
            "'torchtrtprof report' need none; 'torchtrtprof doctor' says what torch sees."
        )


@dataclass(frozen=True)
class _Profile:
    """A profile to run: its name or index, and the shapes to run it with."""

    which: str | int
    shapes: list[InputShape]

    @property
    def label(self) -> str:
        return self.which if isinstance(self.which, str) else f"profile {self.which}"


@dataclass(frozen=True)
class _Options:
    """How to run and measure; by the names of the command's options."""

    iterations: int
    warm_up: float
    trace: Path | None
    trace_format: str
    trace_iterations: int
    cuda_graphs: bool
    context_per_profile: bool


@click.command("run", short_help="Measure a saved program's latency under each optimization profile.")
@click.argument("package", type=click.Path(path_type=Path))
@click.option(
    "--shapes", multiple=True, metavar="NAME=1x128", help="Shape of an input; give it again, or separate by commas."
)
@click.option(
    "--profile",
    "wanted",
    multiple=True,
    metavar="NAME",
    help="Optimization profile, by name or index; may be given again. Default: each.",
)
@click.option(
    "--iterations", type=click.IntRange(min=1), default=100, show_default=True, help="Timed calls per profile."
)
@click.option(
    "--warm-up",
    type=click.FloatRange(0, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for TensorRT-RTX to specialise kernels, per profile.",
)
@click.option("--trace", type=click.Path(path_type=Path), help="Profile in a second pass, into this directory.")
@click.option(
    "--trace-format",
    type=click.Choice(["perfetto", "trex"]),
    default="perfetto",
    show_default=True,
    help="Format of the traces.",
)
@click.option(
    "--trace-iterations", type=click.IntRange(min=1), default=20, show_default=True, help="Profiled calls per profile."
)
@click.option("--cuda-graphs", is_flag=True, help="Run engines as CUDA graphs in the timed pass.")
@click.option("--context-per-profile", is_flag=True, help="Give each profile an execution context of its own.")
@click.option("--json", "as_json", is_flag=True, help="Everything that was measured, as JSON.")
@click.option("--force", is_flag=True, help="Use a directory for traces that is not empty.")
def command(
    package: Path,
    shapes: tuple[str, ...],
    wanted: tuple[str, ...],
    as_json: bool,
    force: bool,
    **options: Any,
) -> None:
    """Run PACKAGE with made-up inputs and measure its latency under each optimization profile.

    PACKAGE is an AOTInductor package, a file of torch_tensorrt.save, or a TorchScript file. Inputs that --shapes leaves
    out have the profile's optimal shape. Integers are zeros, floats are normally distributed.

    Latency is taken on the host's clock, call by call, until the GPU is done; the first call under a profile apart.
    Calls are never timed while they are profiled: --trace runs them again.

    PACKAGE is loaded, and so its code is run: use files that you trust. Exits with 2 where there is no GPU.
    """
    how = _Options(**options)
    _require_gpu()  # first: correcting the options would not help
    try:
        saved = read_program(package)
        given = parse_shapes(shapes)
        profiles = _profiles(saved, wanted)
        if saved.inputs:  # the other forms tell them when they are loaded
            _with_shapes(saved.inputs, profiles, given, saved)
        if how.trace is not None:
            _check_folder(how.trace, force=force)
        activate()
        program = load(saved)
        selected = _with_shapes(program.inputs, profiles, given, saved)
        document = _measured(program, selected, how)
    except (ProgramError, ShapeError, LoadError, ActivationError) as error:
        raise click.ClickException(str(error)) from None
    document["file"] = str(package)
    if as_json:
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo(_as_text(document, shutil.get_terminal_size((120, 40)).columns))


def _require_gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        raise NoGpuError


def _check_folder(folder: Path, *, force: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise click.ClickException(f"--trace {folder} is a file; expected a directory")
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise click.ClickException(f"--trace {folder} is not empty. Give another directory, or --force to add to it")


def _profiles(saved: SavedProgram, wanted: Sequence[str]) -> list[str | int]:
    """The profiles to run, by name where they have names.

    Raises:
        click.ClickException: the program has no engine, or no such profile.
    """
    if not saved.engines:
        raise click.ClickException(
            f"{saved.path} holds no TensorRT engine: {'; '.join(saved.remarks) or saved.form}. "
            f"Compile the program with torch_tensorrt.dynamo.compile, and save what that returns"
        )
    records = [engine.profiles for engine in saved.engines if engine.profiles is not None]
    names = list(dict.fromkeys(name for record in records for name in record.names if name))
    count = max((len(record.names) for record in records), default=None)
    chosen: list[str | int] = []
    for name in wanted:
        if name in names:
            chosen.append(name)
        elif _INDEX.fullmatch(name) and (count is None or int(name) < count):
            chosen.append(int(name))
        else:
            known = ", ".join(names) if names else "without names: select by index, from 0"
            raise click.ClickException(f"the program has no optimization profile {name!r}; its profiles are {known}")
    return chosen or list(names) or list(range(count or 1))


def _ranges(saved: SavedProgram, which: str | int) -> dict[str, ShapeRange]:
    """The profile's (min, opt, max) of each engine input. Those of the program's own inputs go by the same name."""
    ranges: dict[str, ShapeRange] = {}
    for engine in saved.engines:
        record = engine.profiles
        if record is None:
            continue
        index = record.names.index(which) if which in record.names else which
        if isinstance(index, int) and index < len(record.ranges):
            for name, limits in record.ranges[index].items():
                ranges.setdefault(name, limits)
    return ranges


def _with_shapes(
    inputs: Sequence[Any], profiles: Sequence[str | int], given: dict[str, tuple[int, ...]], saved: SavedProgram
) -> list[_Profile]:
    return [
        _Profile(which, shapes_for(inputs, given, _ranges(saved, which), f"profile {which!r}")) for which in profiles
    ]


def _measured(program: LoadedProgram, profiles: Sequence[_Profile], how: _Options) -> dict[str, Any]:
    import torch
    import torch_tensorrt
    from torch_tensorrt.runtime import optimization_profile, profile_execution

    def scope_of(profile: _Profile) -> Scope:
        return lambda: optimization_profile(program.program, profile.which)

    calls = [(scope_of(profile), program.call_with(make_tensors(profile.shapes, "cuda"))) for profile in profiles]
    latencies = []
    with _running(program, how), torch.no_grad():
        with (
            progress(len(profiles) * how.iterations, "Timing") as step,
            cuda_graphs(program.program) if how.cuda_graphs else contextlib.nullcontext(),
        ):
            for scope, call in calls:
                latencies.append(
                    measure(
                        call,
                        scope,
                        iterations=how.iterations,
                        warm_up_seconds=how.warm_up,
                        synchronize=torch.cuda.synchronize,
                        on_call=step,
                    )
                )
        if how.trace is not None:
            with progress(len(profiles) * how.trace_iterations, "Profiling") as step:
                trace(
                    calls,
                    how.trace,
                    format=how.trace_format,
                    iterations=how.trace_iterations,
                    profiling=profile_execution,
                    dump_timing=torch.ops.tensorrt.dump_engine_timing,
                    on_call=step,
                )
    return {
        "schema": SCHEMA,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "torch_tensorrt": torch_tensorrt.__version__,
        "iterations": how.iterations,
        "warm_up_seconds": how.warm_up,
        "cuda_graphs": how.cuda_graphs,
        "context_per_profile": how.context_per_profile,
        "profiles": [_record(profile, latency) for profile, latency in zip(profiles, latencies, strict=True)],
        "traces": None if how.trace is None else str(how.trace),
    }


@contextlib.contextmanager
def _running(program: LoadedProgram, how: _Options) -> Iterator[None]:
    """Errors of the program become messages."""
    from torch_tensorrt.runtime import context_per_profile

    try:
        with context_per_profile(program.program) if how.context_per_profile else contextlib.nullcontext():
            yield
    except (RuntimeError, ValueError, TypeError) as error:
        raise click.ClickException(f"the program failed: {error}") from error


def _record(profile: _Profile, latency: Latency) -> dict[str, Any]:
    return {
        "profile": profile.label,
        "inputs": {entry.name: {"shape": list(entry.shape), "dtype": entry.dtype} for entry in profile.shapes},
        "first_ms": latency.first_ms,
        **{key: latency.percentile(part) for key, part in _PERCENTILES.items()},
        "samples_ms": list(latency.samples_ms),
    }


def _as_text(document: dict[str, Any], width: int) -> str:
    options = {"cuda_graphs": "CUDA graphs", "context_per_profile": "a context per profile"}
    how = "".join(f", {text}" for key, text in options.items() if document[key])
    lines = [f"{document['file']} on {document['gpu']}{how}", ""]
    rows = []
    for record in document["profiles"]:
        shapes = ", ".join(
            f"{name} {'x'.join(map(str, entry['shape'])) or 'scalar'}" for name, entry in record["inputs"].items()
        )
        figures = [f"{record[key]:.3f}" for key in (*_PERCENTILES, "first_ms")]
        rows.append([record["profile"], shapes, *figures])
    header = ["profile", "inputs", "median ms", "p90 ms", "p99 ms", "first call ms"]
    lines.append(text_table(header, rows, left=(0, 1), width=width, shrink=(1,)))
    if document["traces"] is not None:
        lines += [
            "",
            f"Traces are in {document['traces']}; look at them with: torchtrtprof report {document['traces']}",
        ]
    return "\n".join(lines)
