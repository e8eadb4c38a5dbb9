#!/usr/bin/env python3
"""Every benchmark that the documentation shows, in one run on a GPU host.

    python benchmarks/suite.py --output benchmarks/results --budget 1650

Cases run one after the other, each in a process of its own with a time limit, and each writes what it has as it goes.
Memory comes first, since a processor that is still busy does not change it; the others follow by importance. The
result, ``<gpu>-<date>.json``, is rewritten after each case; an earlier run of that day keeps its file. A case that
fails, that is cut off or for which no time is left says so there, with the reason, beside the rows that it has.
``benchmarks/draw.py`` makes tables and plots from such files.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from side_by_side import git_revision, write

HERE = Path(__file__).resolve().parent
STOPPED = "the suite was stopped"
LEAST_SECONDS = 15.0  # with less, a case is not worth starting
#: What a part says about the host and the versions; the same in all parts, so it is kept once.
HEAD = ("gpu", "compute_capability", "driver", "torch", "torch_tensorrt", "tensorrt", "cuda", "python", "cpu")


@dataclass(frozen=True)
class Case:
    """A command that takes ``--output FILE`` and rewrites that file as it goes.

    Attributes:
        seconds: its time limit.
        takes_seconds: whether it can be told the limit and when it began, and then skips what does not fit.
    """

    name: str
    command: tuple[str, ...]
    seconds: float
    takes_seconds: bool = True


def module(name: str, *options: str) -> tuple[str, ...]:
    return ("-m", f"cases.{name}", *options)


def script(name: str, *options: str) -> tuple[str, ...]:
    return (str(HERE / f"{name}.py"), *options)


#: Memory, which times nothing, comes before what does: a host's processor is often busy at first. The others are in
#: order of importance. Limits are for a slow host, so their sum is more than the budget.
CASES = (
    Case("memory", module("memory"), 260),
    Case("latency-reference", module("latency", "--model", "reference", "--starts", "2"), 520),
    Case("latency-small", module("latency", "--model", "small"), 400),
    Case("first-calls", module("first_calls"), 120),
    Case("generation", module("generation"), 150),
    Case("switching", script("profile_selection", "--rounds", "2", "--pairs", "5"), 110, False),
    Case("contexts", script("context_per_profile", "--turns", "6"), 180, False),
    Case("kernel", script("kernel_overhead", "--seconds", "6", "--processes", "1", "--pairs", "60"), 60, False),
    Case("profiling", module("profiling"), 60),
    Case("growth-threads", module("growth_threads"), 55),
    Case("growth-profiles", module("growth_profiles"), 55),
    Case("growth-engines", module("growth_engines"), 75),
)


def run_case(case: Case, folder: Path, left: float) -> dict[str, Any]:
    """Runs one case and returns its entry in the result. Whatever happens to the case, this returns."""
    limit = min(case.seconds, left)
    if limit < LEAST_SECONDS:
        return {"status": "skipped", "why": f"{max(left, 0):.0f} s of the budget were left"}
    output, log = folder / f"{case.name}.json", folder / f"{case.name}.log"
    command = [sys.executable, *case.command, "--output", str(output)]
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    start = time.monotonic()
    if case.takes_seconds:  # they count from here: importing alone may take 20 s
        command += ["--seconds", f"{limit * 0.95:.0f}", "--since", f"{start:.1f}"]
    with log.open("w") as said:
        child = subprocess.Popen(
            command, stdout=said, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )  # fmt: skip
        try:
            entry = ended(child.wait(timeout=limit), log)
        except subprocess.TimeoutExpired:
            entry = cut_off(f"its time limit of {limit:.0f} s", log)
        except KeyboardInterrupt:
            entry = cut_off(STOPPED, log)
        finally:
            stop(child)
    entry["seconds"] = round(time.monotonic() - start, 1)
    if output.is_file():
        entry["result"] = json.loads(output.read_text())
    return entry


def ended(code: int, log: Path) -> dict[str, Any]:
    if code == 0:
        return {"status": "complete"}
    return {"status": "failed", "why": f"it ended with {code}", "log": log.read_text()[-2000:]}


def cut_off(why: str, log: Path) -> dict[str, Any]:
    return {"status": "cut off", "why": why, "log": log.read_text()[-1000:]}


def stop(child: subprocess.Popen[bytes]) -> None:
    """Ends a case with the processes that it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    child.wait()


def add(report: dict[str, Any], name: str, entry: dict[str, Any]) -> None:
    """Puts a case's entry into the report. What it says of the host goes into the report's head, unless it differs."""
    result = entry.get("result", {})
    for key in HEAD:
        value = result.pop(key, None)
        if value is not None and report.setdefault(key, value) != value:
            result[key] = value
    report["cases"][name] = entry


def free_file(output: Path, report: dict[str, Any]) -> Path:
    """``nvidia-h200-2026-11-30.json``, or with ``-2`` and so on where an earlier run has that name."""
    gpu = re.sub(r"[^a-z0-9]+", "-", (report.get("gpu") or "no gpu").lower()).strip("-")
    stem = f"{gpu}-{report['date'][:10]}"
    names = (f"{stem}-{number}" if number > 1 else stem for number in itertools.count(1))
    return next(file for file in (output / f"{name}.json" for name in names) if not file.exists())


def run(cases: Sequence[Case], output: Path, budget: float) -> Path:
    """Runs the cases and returns the file with the result. An interrupt ends the case that runs, and skips the rest."""
    started = time.monotonic()
    report: dict[str, Any] = {
        "benchmark": "suite",
        "revision": git_revision(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "budget_seconds": budget,
        "cases": {},
    }
    file: Path | None = None
    stopped = False
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            if stopped:
                entry = {"status": "skipped", "why": STOPPED}
            else:
                entry = run_case(case, Path(folder), budget - (time.monotonic() - started))
            stopped = entry.get("why") == STOPPED
            add(report, case.name, entry)
            print(line_about(case.name, entry), flush=True)
            report["seconds"] = round(time.monotonic() - started, 1)
            if file is None and "gpu" in report:  # known from the first case that said anything
                file = free_file(output, report)
            if file:
                write(report, file)
    file = file or free_file(output, report)
    write(report, file)
    return file


def line_about(name: str, entry: dict[str, Any]) -> str:
    skipped = len(entry.get("result", {}).get("skipped", []))
    return (
        f"{name:<20}{entry['status']:<10}{entry.get('seconds', 0):>6.0f} s, {skipped} skipped inside"
        f"{', ' + entry['why'] if 'why' in entry else ''}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="gets <gpu>-<date>.json")
    parser.add_argument("--budget", type=float, default=1650, metavar="SECONDS", help="for all cases together")
    names = [case.name for case in CASES]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=f"among {', '.join(names)}")
    arguments = parser.parse_args()
    import torch  # takes seconds, so not for --help

    if not torch.cuda.is_available():
        parser.error("needs an NVIDIA GPU, and torch finds none here. Nothing was run or written")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # who ends the suite gets what there is
    chosen = [case for case in CASES if not arguments.only or case.name in arguments.only]
    print(run(chosen, arguments.output, arguments.budget))


if __name__ == "__main__":
    main()
