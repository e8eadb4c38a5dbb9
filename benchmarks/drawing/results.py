"""Results of the suite, read from the files that it wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Source:
    """A result file: its name and what it says of the host."""

    name: str
    head: dict[str, Any]


@dataclass(frozen=True)
class Superseded:
    """A case of a file whose figures are not drawn, since another file has it too."""

    case: str
    file: str
    ended: str  # how the case ended there


@dataclass
class Results:
    """Cases by name, each with the file that it came from."""

    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    superseded: list[Superseded] = field(default_factory=list)

    def result(self, case: str) -> dict[str, Any]:
        return self.cases.get(case, {}).get("result", {})

    def rows(self, kind: str, **wanted: Any) -> Iterator[dict[str, Any]]:
        """Rows of a kind from all cases, in the order in which they were measured."""
        for case in self.cases:
            for row in self.result(case).get("rows", []):
                if row["kind"] == kind and all(row.get(key) == value for key, value in wanted.items()):
                    yield row

    def by_contender(self, kind: str, **wanted: Any) -> dict[str, dict[str, Any]]:
        """As ``rows``, the first of each contender."""
        found: dict[str, dict[str, Any]] = {}
        for row in self.rows(kind, **wanted):
            found.setdefault(row["contender"], row)
        return found

    def sources_of(self, cases: Iterable[str]) -> list[Source]:
        """The files behind some cases, each once."""
        return list({self.sources[case].name: self.sources[case] for case in cases if case in self.sources}.values())

    def decoders(self) -> dict[str, dict[str, Any]]:
        """Facts of the decoders whose latency was measured, by model."""
        facts = (self.result(case).get("decoder") for case in self.cases if case.startswith("latency"))
        return {fact["model"]: fact for fact in facts if fact}


#: Scripts that are cases of the suite and are also run alone, and the case.
RUN_ALONE = {"profile_selection": "switching", "context_per_profile": "contexts", "kernel_overhead": "kernel"}


def is_drawn(report: dict[str, Any]) -> bool:
    """Whether a file's content is a result of the suite, or of one of its cases."""
    return report.get("benchmark") in ("suite", *RUN_ALONE)


def load(files: Sequence[Path]) -> Results:
    """Reads result files.

    A case that is in several comes from the last of them that measured all of it, else from the last that measured
    something.

    Raises:
        ValueError: a file is not a result of the suite, nor of a script that is one of its cases.
    """
    reports = [(file, json.loads(file.read_text())) for file in files]
    for file, report in reports:
        if not is_drawn(report):
            known = ", ".join(("suite", *RUN_ALONE))
            raise ValueError(f"{file} has no result to draw: its 'benchmark' is not among {known}")
    results = Results()
    for file, report in reports:
        head = {key: value for key, value in report.items() if key not in ("cases", "results")}
        for name, entry in cases_of(report).items():
            known = results.cases.get(name)
            if known is None or worth(entry) >= worth(known):
                if known and measured_something(known):
                    results.superseded.append(Superseded(name, results.sources[name].name, ended(known)))
                results.cases[name] = entry
                results.sources[name] = Source(file.name, head)
            elif measured_something(entry):
                results.superseded.append(Superseded(name, file.name, ended(entry)))
    return results


def cases_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if report["benchmark"] == "suite":
        cases: dict[str, dict[str, Any]] = report["cases"]
        return cases
    return {RUN_ALONE[report["benchmark"]]: {"status": "complete", "result": report}}


def worth(entry: dict[str, Any]) -> int:
    """More for a case that measured something, and yet more for one that was not cut off before its end."""
    return measured_something(entry) * (2 if entry["status"] == "complete" else 1)


def measured_something(entry: dict[str, Any]) -> bool:
    result = entry.get("result", {})
    return bool(result.get("rows") or result.get("results"))


def ended(entry: dict[str, Any]) -> str:
    """``complete``, or ``cut off: its time limit of 130 s``"""
    return ": ".join(entry[key] for key in ("status", "why") if key in entry)


def distinct(values: Iterable[Any]) -> list[Any]:
    """In order of first appearance."""
    return list(dict.fromkeys(values))
