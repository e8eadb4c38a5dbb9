"""``torchtrtprof report`` as a command: what goes where, and what is refused."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from torch_tensorrt_profiles.cli import main
from trace_writer import DECODE, LAYERS, PREFILL, Layer, with_mark, write_engine, write_two_profiles


def torchtrtprof(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def as_command(arguments):
    return [sys.executable, "-m", "torch_tensorrt_profiles.cli", "report", *map(str, arguments)]


def as_process(arguments, **options):
    return subprocess.run(as_command(arguments), capture_output=True, **options)


@pytest.fixture
def traces(tmp_path):
    write_two_profiles(tmp_path / "traces")
    return tmp_path / "traces"


def test_a_table_by_default(traces):
    done = torchtrtprof("report", traces)
    assert done.exit_code == 0, done.output
    assert "layers by their largest share" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("ending", "start"), [("csv", "run,engine"), ("json", "{"), ("html", "<!doctype html>"), ("txt", "engine")]
)
def test_the_ending_of_the_output_decides(traces, tmp_path, ending, start):
    output = tmp_path / f"report.{ending}"
    done = torchtrtprof("report", traces, "-o", output)
    assert done.exit_code == 0, done.output
    assert output.read_text().startswith(start)
    assert done.stderr == f"wrote {output}\n"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("format", ["csv", "json"])
def test_formats_for_other_programs_go_to_standard_output(traces, format):
    done = torchtrtprof("report", traces, "--format", format)
    assert done.exit_code == 0, done.output
    if format == "json":
        assert json.loads(done.stdout)["schema"] == 1
    else:
        assert len(done.stdout.splitlines()) == 9


def test_html_needs_a_file(traces):
    done = torchtrtprof("report", traces, "--format", "html")
    assert done.exit_code == 2
    assert "--output" in done.output


@pytest.mark.parametrize("option", ["-o", "--perfetto"])
def test_nothing_is_overwritten_without_force(traces, tmp_path, option):
    existing = tmp_path / "mine.json"
    existing.write_text("precious")
    done = torchtrtprof("report", traces, option, existing)
    assert done.exit_code == 1
    assert "--force" in done.output
    assert existing.read_text() == "precious"
    done = torchtrtprof("report", traces, option, existing, "--force")
    assert done.exit_code == 0, done.output
    assert json.loads(existing.read_text())


def test_nothing_is_written_where_one_of_two_files_exists(traces, tmp_path):
    (tmp_path / "timeline.json").write_text("precious")
    done = torchtrtprof("report", traces, "-o", tmp_path / "new.html", "--perfetto", tmp_path / "timeline.json")
    assert done.exit_code == 1
    assert not (tmp_path / "new.html").exists()


def test_one_file_for_two_outputs(traces, tmp_path):
    done = torchtrtprof("report", traces, "-o", tmp_path / "a.json", "--perfetto", tmp_path / "a.json", "--force")
    assert done.exit_code == 1
    assert "two outputs" in done.output


def test_an_output_that_is_no_file(traces, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", tmp_path / "pipe"):
        done = torchtrtprof("report", traces, "--format", "csv", "-o", path, "--force")
        assert (done.exit_code, "is no regular file" in done.output) == (1, True)
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_and_its_target_is_replaced(traces, tmp_path):
    (tmp_path / "real.csv").write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to("real.csv")
    assert torchtrtprof("report", traces, "-o", link).exit_code == 1
    assert torchtrtprof("report", traces, "-o", link, "--force").exit_code == 0
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("run,engine")


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_an_output_that_cannot_be_made(traces, tmp_path, force):
    done = torchtrtprof("report", traces, "-o", tmp_path / ("x" * 300), *force)
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "File name too long" in done.output


@pytest.mark.parametrize("format", ["table", "csv", "json", "html", "perfetto"])
def test_names_that_no_encoding_can_say(tmp_path, format):
    write_engine(tmp_path / "traces", PREFILL)
    (tmp_path / "traces" / f"half{LAYERS}").write_text('[{"name": "half \\ud800 a pair", "timeMs": 1, "averageMs": 1}]')
    (tmp_path / "traces" / os.fsdecode(b"\xff.txt")).write_text("")
    output = tmp_path / "out"
    to_file = {"html": ["--format", "html", "-o", output], "perfetto": ["--perfetto", output]}
    done = torchtrtprof("report", tmp_path / "traces", *to_file.get(format, ["--format", format]))
    assert done.exit_code == 0, done.output
    text = output.read_text() if format in to_file else done.stdout
    assert "half \\ud800 a pair" in text
    if format in ("json", "perfetto"):
        json.loads(text)


@pytest.mark.parametrize(
    "environment", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_a_locale_without_characters(tmp_path, environment):
    write_engine(tmp_path, [Layer("d\u00e9code", 1.0)])
    done = as_process([tmp_path], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert b"code" in done.stdout


def test_a_full_disk_under_the_output(traces):
    with open("/dev/full", "w") as full:
        done = subprocess.run(as_command([traces]), stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "Error: the output: No space left on device\n")


@pytest.mark.parametrize("command", ["report", "inspect"])
def test_a_path_that_may_not_be_looked_at(tmp_path, monkeypatch, command):
    def refusing(path, **options):  # the tests may run as root, who may look at everything
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refusing)
    monkeypatch.setattr(Path, "is_dir", refusing)
    done = torchtrtprof(command, tmp_path / "locked")
    assert (done.exit_code, done.stderr) == (1, f"Error: {tmp_path / 'locked'}: Permission denied\n")


def test_a_reader_that_stops_reading(traces):
    write_engine(traces, [Layer(f"layer {number}", 1.0) for number in range(5000)], name="long", object_id="0x2")
    command = " ".join(map(shlex.quote, as_command([traces, "--top", "5000"])))
    done = subprocess.run(["bash", "-c", f"{command} | head -n 1"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("engine")


def test_an_output_in_no_directory_and_a_directory(traces, tmp_path):
    done = torchtrtprof("report", traces, "-o", tmp_path / "no" / "a.html")
    assert (done.exit_code, "no directory" in done.output) == (1, True)
    done = torchtrtprof("report", traces, "-o", tmp_path, "--format", "html", "--force")
    assert (done.exit_code, "is a directory" in done.output) == (1, True)


def test_timeline_of_two_runs_is_refused(traces, tmp_path):
    done = torchtrtprof("report", traces, traces, "--perfetto", tmp_path / "a.json")
    assert done.exit_code == 2
    assert "one run" in done.output


def test_two_runs(traces, tmp_path):
    write_engine(tmp_path / "other", PREFILL)
    done = torchtrtprof("report", traces, tmp_path / "other")
    assert done.exit_code == 0, done.output
    assert "only in A" in done.stdout
    assert "only in B" in done.stdout
    page = tmp_path / "page.html"
    assert torchtrtprof("report", traces, traces, "-o", page).exit_code == 0
    assert "Largest changes" in page.read_text()


def test_one_profile(traces):
    done = torchtrtprof("report", traces, "--profile", "decode")
    assert "prefill" not in done.stdout
    first = next(line for line in done.stdout.splitlines() if line.startswith("head"))
    assert first.split()[:2] == ["head", "48.6%"]
    assert torchtrtprof("report", traces, "--profile", "1").stdout == done.stdout
    for unknown in ("decod", "2", "-1", "None"):
        done = torchtrtprof("report", traces, "--profile", unknown)
        assert done.exit_code == 1
        assert "prefill, decode" in done.output


def test_a_profile_that_is_called_like_an_index(tmp_path):
    write_engine(tmp_path, [*PREFILL, *with_mark(DECODE, 1)], profile_names=["1", "other"])
    done = torchtrtprof("report", tmp_path, "--profile", "1", "--format", "csv")
    assert {row["profile_index"] for row in csv.DictReader(done.stdout.splitlines())} == {"0"}
    done = torchtrtprof("report", tmp_path, "--profile", "0", "--format", "csv")
    assert {row["profile"] for row in csv.DictReader(done.stdout.splitlines())} == {"1"}


def test_an_index_where_there_are_no_names(tmp_path):
    write_engine(tmp_path, PREFILL)
    assert "profile 0" in torchtrtprof("report", tmp_path, "--profile", "0").stdout


@pytest.mark.parametrize(
    "arguments", [["nowhere"], ["report"], ["report", "a", "b", "c"], ["report", "a", "--top", "0"]]
)
def test_a_wrong_call(arguments):
    assert torchtrtprof(*arguments).exit_code == 2


def test_no_traces(tmp_path):
    done = torchtrtprof("report", tmp_path)
    assert done.exit_code == 1
    assert "is empty" in done.output
    assert "Traceback" not in done.output


def test_needs_no_torch(traces):
    """Traces are looked at on any host, at once."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from torch_tensorrt_profiles.cli import main\n"
        f"main(['report', {str(traces)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "layers by their largest share" in done.stdout


def test_the_list_of_commands_is_whole_on_a_small_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in torchtrtprof("--help").stdout.partition("Commands:")[2]


@pytest.mark.parametrize("command", [[], ["report"]])
def test_help(command):
    done = torchtrtprof(*command, "--help")
    assert done.exit_code == 0
    assert "Usage:" in done.stdout
