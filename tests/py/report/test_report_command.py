"""``torchtrtprof report`` as a command: what goes where, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner
from torch_tensorrt_profiles.cli import main
from trace_writer import PREFILL, write_engine, write_two_profiles


def torchtrtprof(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


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
    done = torchtrtprof("report", traces, "--profile", "decod")
    assert done.exit_code == 1
    assert "prefill, decode" in done.output


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


@pytest.mark.parametrize("command", [[], ["report"]])
def test_help(command):
    done = torchtrtprof(*command, "--help")
    assert done.exit_code == 0
    assert "Usage:" in done.stdout
