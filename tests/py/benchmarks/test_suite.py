"""The suite's scheduler, with cases that end, fail, hang and are left no time."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import suite
import torch

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"

WRITES = """
import json, sys
output = sys.argv[sys.argv.index("--output") + 1]
report = {"gpu": "NVIDIA Toy", "torch": "2.14.1", "revision": "abc", "rows": [{"kind": "toy"}], "skipped": []}
json.dump(report, open(output, "w"))
"""


def run(folder: Path, budget: float = 600, **codes: tuple[str, float]) -> dict[str, Any]:
    cases = [suite.Case(name, ("-c", code), seconds) for name, (code, seconds) in codes.items()]
    return json.loads(suite.run(cases, folder, budget).read_text())


def test_a_case_that_fails_keeps_its_rows_and_the_next_one_runs(tmp_path: Path) -> None:
    report = run(tmp_path, fails=(WRITES + "sys.exit('no such thing')", 60), works=(WRITES, 60))
    failed, works = report["cases"]["fails"], report["cases"]["works"]
    assert failed["status"] == "failed"
    assert "no such thing" in failed["log"]
    assert failed["result"]["rows"] == [{"kind": "toy"}]
    assert works["status"] == "complete"


def test_a_case_that_hangs_is_cut_off_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "LEAST_SECONDS", 0.1)
    child = tmp_path / "child"
    hangs = WRITES + (
        "import subprocess, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(child)!r}, 'w').write(str(child.pid)); time.sleep(600)"
    )
    report = run(tmp_path, hangs=(hangs, 20))
    entry = report["cases"]["hangs"]
    assert (entry["status"], entry["why"]) == ("cut off", "its time limit of 20 s")
    assert entry["result"]["rows"] == [{"kind": "toy"}]
    assert is_gone(int(child.read_text()))


def test_a_suite_that_is_stopped_keeps_what_the_case_has(tmp_path: Path) -> None:
    stops = WRITES + "import os, signal, time\nos.kill(os.getppid(), signal.SIGINT); time.sleep(600)"
    report = run(tmp_path, stopped=(stops, 600), next=(WRITES, 60), last=(WRITES, 60))
    entry = report["cases"]["stopped"]
    assert (entry["status"], entry["why"]) == ("cut off", suite.STOPPED)
    assert entry["result"]["rows"] == [{"kind": "toy"}]
    assert [report["cases"][name]["why"] for name in ("next", "last")] == [suite.STOPPED] * 2


def is_gone(pid: int) -> bool:
    for _ in range(100):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.is_file() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


def test_what_the_budget_does_not_reach_is_skipped(tmp_path: Path) -> None:
    report = run(tmp_path, 1, late=(WRITES, 60))
    late = report["cases"]["late"]
    assert late["status"] == "skipped"
    assert re.fullmatch(r"[01] s of the budget were left", late["why"])


def test_the_head_is_kept_once_and_a_difference_stays_with_its_case(tmp_path: Path) -> None:
    other = WRITES.replace("2.14.1", "2.14.2")
    report = run(tmp_path, first=(WRITES, 60), second=(other, 60))
    assert (report["gpu"], report["torch"]) == ("NVIDIA Toy", "2.14.1")
    assert "torch" not in report["cases"]["first"]["result"]
    assert report["cases"]["second"]["result"]["torch"] == "2.14.2"
    assert [path.name for path in tmp_path.iterdir()] == [f"nvidia-toy-{report['date'][:10]}.json"]


def test_an_earlier_run_of_the_day_keeps_its_file(tmp_path: Path) -> None:
    first = suite.run([suite.Case("first", ("-c", WRITES), 60)], tmp_path, 600)
    second = suite.run([suite.Case("second", ("-c", WRITES), 60)], tmp_path, 600)
    assert second.name == f"{first.stem}-2.json"
    assert list(json.loads(first.read_text())["cases"]) == ["first"]


def test_a_case_is_told_less_time_than_it_is_given(tmp_path: Path) -> None:
    case = suite.Case("says", ("-c", "import sys; sys.exit(' '.join(sys.argv))"), 100)
    before = time.monotonic()
    log = suite.run_case(case, tmp_path, 60)["log"]
    assert "--seconds 57" in log
    since = float(re.search(r"--since ([\d.]+)", log)[1])
    assert since == pytest.approx(before, abs=5)  # when it began, not when its imports were done


def test_without_a_gpu_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["suite.py", "--output", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        suite.main()
    assert "needs an NVIDIA GPU" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_cases_exist() -> None:
    for case in suite.CASES:
        if case.command[0] == "-m":
            assert (BENCHMARKS / f"{case.command[1].replace('.', '/')}.py").is_file()
        else:
            assert Path(case.command[0]).is_file()


def test_help_needs_neither_torch_nor_a_gpu() -> None:
    command = f"{sys.executable} -S {BENCHMARKS / 'suite.py'} --help"
    assert os.system(f"{command} > /dev/null") == 0
