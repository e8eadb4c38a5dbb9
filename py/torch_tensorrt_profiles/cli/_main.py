"""The command and its sub-commands."""

from __future__ import annotations

import errno
import importlib
import io
import sys
from typing import Any, ClassVar

import click

from torch_tensorrt_profiles._version import __version__


class _LazyGroup(click.Group):
    """Imports a sub-command when it is asked for: ``report`` must not wait for torch."""

    modules: ClassVar[dict[str, str]] = {
        "inspect": "_inspect",
        "run": "_run",
        "report": "_report",
        "doctor": "_doctor",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self.modules.get(cmd_name)
        if module is None:
            return None
        command: click.Command = importlib.import_module(f"{__package__}.{module}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            # Of a broken pipe click ends quietly. What has no number is of no system call: a library did not load, say.
            if error.errno is None or error.errno == errno.EPIPE:
                raise
            what = "the output" if error.filename is None else str(error.filename)
            raise click.ClickException(f"{what}: {error.strerror}") from None


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="torchtrtprof")
def main() -> None:
    """Look at, run and measure programs with TensorRT engines, and read the traces they write."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # file names and layer names may be what no encoding can say
        sys.stdout.reconfigure(errors="backslashreplace")
