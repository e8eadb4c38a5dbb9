"""``torchtrtprof report``."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import click

from torch_tensorrt_profiles.cli._output import check_writable, force_option, progress, write_file
from torch_tensorrt_profiles.report._html import comparison_as_html, run_as_html
from torch_tensorrt_profiles.report._model import ProfileTimes, Run
from torch_tensorrt_profiles.report._records import runs_as_csv, runs_as_json
from torch_tensorrt_profiles.report._run import NoTracesError, read_run, trace_files
from torch_tensorrt_profiles.report._text import comparison_as_text, run_as_text
from torch_tensorrt_profiles.report._timeline import run_as_timeline

_FORMATS = ("table", "csv", "json", "html")
#: Layers in a table for a terminal, and in a chart of the page.
_TOP = {"table": 10, "html": 20}


@click.command("report")
@click.argument("directory", type=click.Path(path_type=Path))
@click.argument("other", type=click.Path(path_type=Path), required=False)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(_FORMATS),
    help="What to make. Default: by the ending of --output, else a table.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file; html needs one.")
@click.option("--top", type=click.IntRange(min=1), help="Layers per engine in tables (10) and charts (20).")
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="NAME",
    help="Only this optimization profile, by name or index; may be given again.",
)
@click.option("--perfetto", type=click.Path(path_type=Path), help="Also merge all traces into one timeline.")
@force_option
def command(
    directory: Path,
    other: Path | None,
    output_format: str | None,
    output: Path | None,
    top: int | None,
    profiles: tuple[str, ...],
    perfetto: Path | None,
    force: bool,
) -> None:
    """Show which layers the traces in DIRECTORY spend their time in.

    DIRECTORY is what was given to set_profile_path_prefix, profile_execution or 'torchtrtprof run --trace'; it may hold
    the traces of several engines, processes and ranks. With a second directory the two runs are compared.

    Files that are no traces, cut off or damaged are listed with the reason, and the rest is reported.
    """
    output_format = output_format or _format_of(output)
    if output_format == "html" and output is None:
        raise click.UsageError("--format html needs --output FILE")
    if perfetto is not None and other is not None:
        raise click.UsageError("--perfetto makes a timeline of one run; leave the second directory out")
    check_writable([path for path in (output, perfetto) if path is not None], force=force)
    runs = [_with_profiles(_read(path), profiles) for path in (directory, other) if path is not None]
    top = top or _TOP.get(output_format, 0)
    text = _rendered(runs, output_format, top, wide=output is not None)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        write_file(output, text if text.endswith("\n") else text + "\n", force=force)
    if perfetto is not None:
        write_file(perfetto, run_as_timeline(runs[0]), force=force)


def _format_of(output: Path | None) -> str:
    ending = output.suffix.lower().removeprefix(".") if output is not None else ""
    return {"csv": "csv", "json": "json", "html": "html", "htm": "html"}.get(ending, "table")


def _read(directory: Path) -> Run:
    try:
        with progress(len(trace_files(directory)), f"Reading {directory}") as step:
            return read_run(directory, lambda path: step())
    except NoTracesError as error:
        raise click.ClickException(str(error)) from None


def _with_profiles(run: Run, wanted: tuple[str, ...]) -> Run:
    if not wanted:
        return run
    ran = [profile for engine in run.engines for profile in engine.profiles]
    names = dict.fromkeys(profile.label for profile in ran)
    # As optimization_profile selects: by index where no profile has that name.
    indices = {str(profile.index) for profile in ran if profile.index is not None} - names.keys()
    for which in wanted:
        if which not in names and which not in indices:
            raise click.ClickException(
                f"no engine in {run.directory} ran under the profile {which!r}; those that did: {', '.join(names)}"
            )

    def is_wanted(profile: ProfileTimes) -> bool:
        return profile.label in wanted or (str(profile.index) in indices and str(profile.index) in wanted)

    engines = [
        dataclasses.replace(engine, profiles=tuple(filter(is_wanted, engine.profiles))) for engine in run.engines
    ]
    return dataclasses.replace(run, engines=tuple(engine for engine in engines if engine.profiles))


def _rendered(runs: list[Run], output_format: str, top: int, *, wide: bool) -> str:
    if output_format == "csv":
        return runs_as_csv(runs)
    if output_format == "json":
        return runs_as_json(runs)
    if output_format == "html":
        return run_as_html(runs[0], top=top) if len(runs) == 1 else comparison_as_html(runs[0], runs[1], top=top)
    width = 200 if wide else shutil.get_terminal_size((120, 40)).columns
    if len(runs) == 1:
        return run_as_text(runs[0], top=top, width=width)
    return comparison_as_text(runs[0], runs[1], top=top, width=width)
