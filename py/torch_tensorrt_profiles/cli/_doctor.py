"""``torchtrtprof doctor``."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Sequence

import click

from torch_tensorrt_profiles.cli._output import progress
from torch_tensorrt_profiles.diagnosis._checks import Check, Status, static_checks
from torch_tensorrt_profiles.diagnosis._process import process_checks
from torch_tensorrt_profiles.report._text_table import printable

_MARKS = {Status.OK: "ok", Status.NOTE: "note", Status.PROBLEM: "PROBLEM"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--no-run", is_flag=True, help="On a host with a GPU, do not build and profile a small engine.")
def command(as_json: bool, no_run: bool) -> None:
    """Check the installation, and say what to do about each problem.

    Versions found and needed, whether Torch-TensorRT was extended and why not, whether the C++ library loads, GPU and
    driver. On a host with a GPU a small engine is built and profiled, which shows whether the library knows
    Torch-TensorRT's engine class. Everything that could crash runs in a process of its own.

    Exits with 1 where there is a problem. A host without a GPU is none: programs are built and inspected there.
    """
    with progress(2, "Checking") as step:
        checks = static_checks()
        step()
        checks += process_checks(run_an_engine=not no_run)
        step()
    if as_json:
        click.echo(json.dumps([check.as_record() for check in checks], indent=1))
    else:
        click.echo(_as_text(checks, shutil.get_terminal_size((120, 40)).columns))
    problems = sum(check.status is Status.PROBLEM for check in checks)
    if problems:
        raise click.exceptions.Exit(1)


def _as_text(checks: Sequence[Check], width: int) -> str:
    lines = []
    name_width = max(len(check.name) for check in checks)
    indent = " " * (9 + name_width)
    for check in checks:
        first = f"{_MARKS[check.status]:<7}  {check.name:<{name_width}}  "
        lines.append(_wrapped(first, printable(check.found), indent + "  ", width))
        if check.fix:
            lines.append(_wrapped(f"{indent}  Fix: ", printable(check.fix), indent + "       ", width))
    problems = sum(check.status is Status.PROBLEM for check in checks)
    lines += ["", f"{problems} problem(s)" if problems else "no problem"]
    return "\n".join(lines)


def _wrapped(first: str, text: str, rest: str, width: int) -> str:
    return textwrap.fill(
        text,
        max(width, len(rest) + 30),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
