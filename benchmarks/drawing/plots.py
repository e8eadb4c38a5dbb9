"""The documentation's plots, as SVG that is the same whenever it is drawn from the same results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cases.names import ONE, TWO

from drawing.results import Results, distinct
from drawing.summary import STRATEGY

#: Text stays text (the page's font), and identifiers do not vary.
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "torch-tensorrt-profiles",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}
OURS, PEER, OTHER = "#2a7f3f", "#7a8794", "#c2cad1"


def decode_latency(results: Results, axes_of: Callable[[int, int], Any]) -> bool:
    """The headline: each contender without and within CUDA graphs, under one strategy, which PyTorch does not have."""
    models = distinct(row["model"] for row in results.rows("latency"))
    if not models:
        return False
    for axes, model in zip(axes_of(1, len(models)), models, strict=True):
        rows = list(results.rows("latency", model=model, phase="decode"))
        strategy = STRATEGY if any(row["strategy"] == STRATEGY for row in rows) else rows[0]["strategy"]
        wanted = {"model": model, "phase": "decode", "strategy": strategy}
        measured = {graphs: results.by_contender("latency", **wanted, cuda_graphs=graphs) for graphs in (False, True)}
        contenders = distinct(row["contender"] for row in rows if row["strategy"] == strategy)
        for place, contender in enumerate(contenders):
            colour = OURS if contender == TWO else PEER if contender == ONE else OTHER
            for graphs, found in measured.items():
                if contender in found:
                    value = found[contender]["median_ms"]
                    height = place + (0.2 if graphs else -0.2)
                    axes.barh(height, value, 0.36, color=colour, alpha=1.0 if graphs else 0.55)
                    axes.text(value, height, f" {value:.2f}{' in CUDA graphs' if graphs else ''}", va="center")
        axes.set_yticks(range(len(contenders)), contenders)
        axes.invert_yaxis()
        axes.margins(x=0.25)
        axes.set_xlabel("ms per decode call (median)")
        axes.set_title(f'{model} decoder, "{strategy}" kernels')
    return True


def growth(results: Results, axes_of: Callable[[int, int], Any]) -> bool:
    """Decode latency and plan over profiles, memory over engines, calls per second over threads."""
    profiles, engines = list(results.rows("growth of profiles")), list(results.rows("growth of engines"))
    threads = list(results.rows("growth of threads"))
    if not (profiles or engines or threads):
        return False
    first, second, third = axes_of(1, 3)
    first.plot([row["profiles"] for row in profiles], [row["median_ms"] for row in profiles], "o-", color=OURS)
    first.set(xlabel="profiles of one engine", ylabel="ms per decode call")
    from_zero(first)
    second.plot(
        [row["engines"] for row in engines],
        [row["device_bytes_over_the_first"] / 1e6 for row in engines],
        "o-",
        color=OURS,
    )
    second.set(xlabel="engines", ylabel="MB of device memory over the first's")
    for contender, colour in zip(distinct(row["contender"] for row in threads), (PEER, OURS), strict=False):
        rows = [row for row in threads if row["contender"] == contender]
        third.plot(
            [row["threads"] for row in rows], [row["median_calls_per_second"] for row in rows], "o-", color=colour,
            label=contender,
        )  # fmt: skip
    third.set(xlabel="threads", ylabel="calls per second")
    from_zero(third)
    if threads:
        third.legend(frameon=False)
    for axes, rows, key in ((first, profiles, "profiles"), (second, engines, "engines"), (third, threads, "threads")):
        axes.set_xticks(distinct(row[key] for row in rows))
    return True


def from_zero(axes: Any) -> None:
    """The axis of values begins at zero, and has room above the largest."""
    axes.set_ylim(0, 1.05 * axes.get_ylim()[1])


#: File name: size in inches, and what draws on its axes (and says whether there was anything to draw).
PLOTS: dict[str, tuple[tuple[float, float], Callable[[Results, Callable[[int, int], Any]], bool]]] = {
    "decode_latency.svg": ((11, 3.8), decode_latency),
    "growth.svg": ((11, 3.2), growth),
}


def draw(results: Results, folder: Path) -> list[str]:
    """Writes the plots that there is something for, and returns their names."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    drawn = []
    for name, (size, plot) in PLOTS.items():
        with pyplot.rc_context(STYLE):
            figure = pyplot.figure(figsize=size, layout="constrained")
            if plot(results, lambda rows, columns: figure.subplots(rows, columns, squeeze=False)[0]):  # noqa: B023
                figure.savefig(folder / name, metadata={"Date": None, "Creator": None})
                drawn.append(name)
            pyplot.close(figure)
    return drawn
