"""What the command says of errors that no subcommand expects."""

from __future__ import annotations

import errno
import os

import pytest
from click.testing import CliRunner
from torch_tensorrt_profiles.cli import main


def outcome_of(monkeypatch, error: OSError):
    def fail(**options):
        raise error

    command = main.get_command(None, "doctor")
    monkeypatch.setattr(command, "callback", fail)
    return CliRunner().invoke(main, ["doctor"])


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "Error: the output: No space left on device\n"),
        (OSError(errno.EACCES, os.strerror(errno.EACCES), "secret.pt2"), "Error: secret.pt2: Permission denied\n"),
    ],
)
def test_of_the_system(monkeypatch, error, says):
    done = outcome_of(monkeypatch, error)
    assert (done.exit_code, done.stderr) == (1, says)


def test_of_a_library_are_not_hidden(monkeypatch):
    """As ctypes raises them: without a number."""
    done = outcome_of(monkeypatch, OSError("libcudart.so.13: cannot open shared object file"))
    assert "libcudart.so.13" in str(done.exception)
