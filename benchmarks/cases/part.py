"""What a case reports: rows that are written as they come, what was skipped and why, and how much time is left."""

from __future__ import annotations

import argparse
import platform
import statistics
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from side_by_side import about, versions, write


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--output", type=Path, help="JSON file for the result, all samples included")
    made.add_argument("--seconds", type=float, default=float("inf"), help="what does not fit into this time is skipped")
    made.add_argument(
        "--since", type=float, help="time.monotonic() from which they count; without it, from the report on"
    )
    made.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: a look without a GPU")
    return made


class Part:
    """The report of one case, rewritten after every row."""

    def __init__(self, benchmark: str, arguments: argparse.Namespace, **facts: Any) -> None:
        if reserved := {"rows", "skipped"} & facts.keys():
            raise ValueError(f"facts of a report have other names than what it keeps itself: {sorted(reserved)}")
        self._output: Path | None = arguments.output
        self._started: float = time.monotonic() if arguments.since is None else arguments.since
        self._seconds: float = arguments.seconds
        head = {"gpu": None, "python": platform.python_version()}
        self.report: dict[str, Any] = {
            "benchmark": benchmark,
            **about(versions() if arguments.device == "cuda" else head),
            **facts,
            "rows": [],
            "skipped": [],
        }

    def left(self) -> float:
        """Seconds."""
        return self._seconds - (time.monotonic() - self._started)

    def add(self, **row: Any) -> None:
        """Adds a row. A value under a name that ends in ``samples_*`` gets its median and quartiles beside it."""
        self.report["rows"].append(with_spreads(row))
        self._write()

    def replace(self, rows: list[dict[str, Any]]) -> None:
        """Puts rows in place of all that there are: for a case whose rows get more samples as it goes."""
        self.report["rows"] = [with_spreads(row) for row in rows]
        self._write()

    def note(self, **facts: Any) -> None:
        self.report.update(facts)
        self._write()

    def skip(self, what: str, why: str) -> None:
        self.report["skipped"].append({"what": what, "why": why})
        self._write()

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """What fails inside is skipped, with the error as the reason."""
        try:
            yield
        except Exception as error:  # whatever it is, the other rows are worth having
            traceback.print_exc()
            self.skip(what, f"{type(error).__name__}: {error}"[:600])

    def _write(self) -> None:
        self.report["seconds"] = round(time.monotonic() - self._started, 1)
        write(self.report, self._output)


def with_spreads(row: dict[str, Any]) -> dict[str, Any]:
    for name in [name for name in row if "samples_" in name]:
        row = {**{name.replace("samples_", key): value for key, value in spread(row[name]).items()}, **row}
    return row


def spread(samples: list[float]) -> dict[str, Any]:
    """Median and quartiles."""
    if len(samples) < 2:
        return {"median_": samples[0] if samples else None, "quartiles_": None}
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median_": round(median, 6), "quartiles_": [round(low, 6), round(high, 6)]}
