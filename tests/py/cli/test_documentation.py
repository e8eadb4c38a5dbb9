"""What docsrc/reference/command_line.md shows is what the commands print."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from torch_tensorrt_profiles.cli import main
from torch_tensorrt_profiles.diagnosis._checks import static_checks

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docsrc" / "reference" / "command_line.md").read_text()
SHOWN = dict(re.findall(r"```\n\$ torchtrtprof ([^\n]*)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = ("inspect", "run", "report", "doctor")


def words(text: str) -> list[str]:
    """Without how it is wrapped, in which click's versions differ."""
    return text.split()


@pytest.fixture
def on_the_traces(monkeypatch):
    """What ``torchtrtprof run`` wrote on an H200, for the language model of the example."""
    monkeypatch.chdir(ROOT / "tests" / "py" / "report" / "h200")
    monkeypatch.setenv("COLUMNS", "110")


def output_of(command: str) -> str:
    done = CliRunner().invoke(main, command.split(), prog_name="torchtrtprof", terminal_width=100)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("command", ["--help", *(f"{name} --help" for name in COMMANDS)])
def test_help(command):
    assert words(SHOWN[command]) == words(output_of(command))


@pytest.mark.parametrize("command", [command for command in SHOWN if command.startswith("report traces ")])
def test_report(on_the_traces, command):
    assert SHOWN[command].rstrip() == output_of(command).rstrip()


def test_doctor():
    """But for versions: which versions there are differs between hosts, and what they are of does not."""
    (found,) = [check.found for check in static_checks({}) if check.name == "Torch-TensorRT"]
    (shown,) = [line for line in SHOWN["doctor"].splitlines() if " Torch-TensorRT  " in line]
    assert re.findall(r"[a-z-]+ (?=[0-9])", shown) == re.findall(r"[a-z-]+ (?=[0-9])", found)


def test_every_command_is_shown():
    assert {command.partition(" ")[0] for command in SHOWN} == {"--help", *COMMANDS}
    assert set(main.list_commands(None)) == set(COMMANDS)


def test_every_option_has_a_help():
    for name in COMMANDS:
        command = main.get_command(None, name)
        for option in command.params:
            assert option.param_type_name == "argument" or option.help, f"{name} {option.name}"


def test_the_command_is_installed():
    (script,) = [
        line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("torchtrtprof =")
    ]
    module, _, function = script.split('"')[1].partition(":")
    assert getattr(__import__(module, fromlist=[function]), function) is main
    assert "torch_tensorrt_profiles.cli" in sys.modules
