#!/usr/bin/env python3
"""Makes the documentation's tables and plots from what benchmarks/suite.py wrote, or one of its cases run alone.

    python benchmarks/draw.py benchmarks/results/nvidia-h200-2026-11-30.json --output docsrc/measured

Without files: from every such result in benchmarks/results, in the order of their dates. Of several files, each
case comes from the last that measured all of it, else from the last that measured some. The same results give the same
pages and plots.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from drawing import pages, plots
from drawing.results import Results, is_drawn, load


def draw(results: Results, output: Path, with_plots: bool = True) -> list[Path]:
    """Writes all pages and plots that there is something for, and returns their files."""
    output.mkdir(parents=True, exist_ok=True)
    texts = pages.written(results)
    for name, text in texts.items():
        (output / f"{name}.md").write_text(text)
    drawn = plots.draw(results, output) if with_plots else []
    return [output / f"{name}.md" for name in texts] + [output / name for name in drawn]


def committed_results() -> list[Path]:
    """Results in benchmarks/results, of the suite and of its cases alone, the oldest first."""
    dates = {}
    for file in (Path(__file__).parent / "results").glob("*.json"):
        report = json.loads(file.read_text())
        if is_drawn(report):
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
