#!/usr/bin/env python3
"""Makes the documentation's tables and plots from results that benchmarks/suite.py wrote.

    python benchmarks/draw.py benchmarks/results/nvidia-h200-2026-11-30.json --output docsrc/measured

Without files: from every result of the suite in benchmarks/results, in the order of their dates. Of several files, each
case comes from the last that measured something for it. The same results give the same pages and plots.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from drawing import plots
from drawing.results import Results, Source, load
from drawing.tables import PAGES, left_out
from drawing.words import table

MADE = "<!-- Made by benchmarks/draw.py from the results named below. -->"


def page(title: str, says: str, body: str, sources: Sequence[Source]) -> str:
    return f"{MADE}\n\n# {title}\n\n{says}\n\n{body}\n\n{where_from(sources)}\n"


def where_from(sources: Sequence[Source]) -> str:
    lines = []
    for source in sources:
        head = source.head
        lines.append(
            [f"[{source.name}](../../benchmarks/results/{source.name})", str(head.get("gpu")), str(head.get("driver")),
             f"torch {head.get('torch')}, Torch-TensorRT {head.get('torch_tensorrt')}, TensorRT {head.get('tensorrt')}",
             (head.get("revision") or "unknown")[:10]]
        )  # fmt: skip
    return table(["samples", "GPU", "driver", "versions", "revision"], lines)


def draw(results: Results, output: Path, with_plots: bool = True) -> list[Path]:
    """Writes all pages and plots and returns their files. A page for which nothing was measured is not written."""
    output.mkdir(parents=True, exist_ok=True)
    pages = {}
    for name, (title, says, cases, body_of) in PAGES.items():
        body = body_of(results)
        if body:
            pages[name] = page(title, says, body, sources_of(results, cases))
    says = "What the suite skipped or could not finish, with the reason it recorded."
    pages["left_out"] = page("What was left out", says, left_out(results), sources_of(results, tuple(results.cases)))
    for name, text in pages.items():
        (output / f"{name}.md").write_text(text)
    drawn = plots.draw(results, output) if with_plots else []
    return [output / f"{name}.md" for name in pages] + [output / name for name in drawn]


def sources_of(results: Results, cases: Sequence[str]) -> list[Source]:
    """The files behind some cases, each once."""
    found = {results.sources[case].name: results.sources[case] for case in cases if case in results.sources}
    return list(found.values())


def committed_results() -> list[Path]:
    """The suite's results in benchmarks/results, the oldest first."""
    dates = {}
    for file in (Path(__file__).parent / "results").glob("*.json"):
        report = json.loads(file.read_text())
        if report.get("benchmark") == "suite":
            dates[file] = report["date"]
    return sorted(dates, key=lambda file: (dates[file], file.name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", type=Path, metavar="RESULTS.json")
    parser.add_argument("--output", type=Path, default=Path("docsrc/measured"), metavar="DIR")
    arguments = parser.parse_args()
    files = arguments.results or committed_results()
    if not files:
        parser.error("there is no result of the suite in benchmarks/results; name one, or run benchmarks/suite.py")
    for file in draw(load(files), arguments.output):
        print(file)


if __name__ == "__main__":
    main()
