"""Writing files without losing any, and showing progress."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

force_option = click.option("--force", is_flag=True, help="Replace files that exist.")


def check_writable(paths: Sequence[Path], *, force: bool) -> None:
    """Refuses a file that exists, before any work is done for it.

    Raises:
        click.ClickException: a file exists and ``force`` is not given, is no regular file, has no directory to be in,
            or is named twice.
    """
    if len({path.resolve() for path in paths}) < len(paths):
        raise click.ClickException(f"{paths[0]} is named for two outputs; give each its own file")
    for path in paths:
        try:
            _check_writable(path, force=force)
        except OSError as error:
            raise click.ClickException(f"cannot write {path}: {error.strerror}") from None


def _check_writable(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise click.ClickException(f"{path} is a directory; expected the name of a file to write")
    if not path.parent.is_dir():
        raise click.ClickException(f"{path} cannot be written: there is no directory {path.parent}")
    if path.exists() and not path.is_file():  # replacing a device would take it away from everybody
        raise click.ClickException(f"{path} is no regular file; expected the name of a file to write")
    if path.exists() and not force:
        raise click.ClickException(f"{path} exists. Give another name, or --force to replace it")


def write_file(path: Path, text: str, *, force: bool) -> None:
    """Writes a file. One that is replaced is replaced in one step; a link stays, and what it names is replaced.

    Raises:
        click.ClickException: it cannot be written, or exists and ``force`` is not given.
    """
    check_writable([path], force=force)
    target = path.resolve() if force else path
    fresh = target.with_name(f".{os.getpid()}.new") if force else path
    try:
        with fresh.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        if force:
            fresh.replace(target)
    except FileExistsError:
        what = (
            "is left over from a run that was cut off; remove it" if force else "exists. Give another name, or --force"
        )
        raise click.ClickException(f"{fresh} {what}") from None
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"wrote {path}", err=True)


@contextlib.contextmanager
def progress(length: int, label: str) -> Iterator[Callable[[], None]]:
    """A progress bar on the terminal, and nothing where the output goes elsewhere; the callable takes a step."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield lambda: bar.update(1)
