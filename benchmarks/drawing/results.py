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


@dataclass
class Results:
    """Cases by name, each with the file that it came from."""

    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)

    def result(self, case: str) -> dict[str, Any]:
        return self.cases.get(case, {}).get("result", {})

    def rows(self, kind: str, **wanted: Any) -> Iterator[dict[str, Any]]:
        """Rows of a kind from all cases, in the order in which they were measured."""
        for case in self.cases:
            for row in self.result(case).get("rows", []):
                if row["kind"] == kind and all(row.get(key) == value for key, value in wanted.items()):
                    yield row

    def sources_of(self, cases: Iterable[str]) -> list[Source]:
        """The files behind some cases, each once."""
        return list({self.sources[case].name: self.sources[case] for case in cases if case in self.sources}.values())

    def decoders(self) -> dict[str, dict[str, Any]]:
        """Facts of the decoders whose latency was measured, by model."""
        facts = (self.result(case).get("decoder") for case in self.cases if case.startswith("latency"))
        return {fact["model"]: fact for fact in facts if fact}


def load(files: Sequence[Path]) -> Results:
    """Reads result files. A case that is in several comes from the last of them that measured something for it.

    Raises:
        ValueError: a file is not a result of the suite.
    """
    results = Results()
    for file in files:
        report = json.loads(file.read_text())
        if report.get("benchmark") != "suite":
            raise ValueError(f"{file} is not a result of benchmarks/suite.py: its 'benchmark' is not 'suite'")
        head = {key: value for key, value in report.items() if key != "cases"}
        for name, entry in report["cases"].items():
            if name not in results.cases or measured_something(entry):
                results.cases[name] = entry
                results.sources[name] = Source(file.name, head)
    return results


def measured_something(entry: dict[str, Any]) -> bool:
    result = entry.get("result", {})
    return bool(result.get("rows") or result.get("results"))


def distinct(values: Iterable[Any]) -> list[Any]:
    """In order of first appearance."""
    return list(dict.fromkeys(values))
