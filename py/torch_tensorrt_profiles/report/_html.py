"""A run, or two, as one HTML page with charts. No script, no network, nothing beside the file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from torch_tensorrt_profiles.report import _charts
from torch_tensorrt_profiles.report._charts import Bar, text_of
from torch_tensorrt_profiles.report._model import EngineTimes, ProfileTimes, Run
from torch_tensorrt_profiles.report._page import page
from torch_tensorrt_profiles.report._side_by_side import Cell, Difference, Pair, groups_of, pairs_of, rows_of
from torch_tensorrt_profiles.report._text import (
    NOTHING,
    change,
    change_of_mean,
    figures,
    milliseconds,
    number_of_layers,
    percent,
    signed,
)

_PARTS = _charts.COLOURS - 1  # of a stacked bar, before "all others"


def run_as_html(run: Run, *, top: int) -> str:
    """A page with, per engine, charts of its ``top`` layers and a table of all."""
    title = f"Engine profile of {run.directory}"
    body = [f"<h1>{text_of(title)}</h1>", _about(run), _overview(run)]
    body += [part for engine in run.engines for part in _engine(engine, top)]
    return page(title, [*body, *_skipped([run])])


def comparison_as_html(first: Run, second: Run, *, top: int) -> str:
    """A page with, per engine and profile, a chart of the ``top`` changes and a table of all."""
    title = f"Engine profiles: {first.directory} (A) and {second.directory} (B)"
    body = [f"<h1>{text_of(title)}</h1>"]
    for pair in pairs_of(first, second):
        body += _pair(pair, top)
    return page(title, [*body, *_skipped([first, second])])


def _about(run: Run) -> str:
    processes = len({engine.process for engine in run.engines})
    return (
        f'<p class="about">{len(run.engines)} engine(s) in {processes} process(es). Layer times are the GPU\'s, as '
        f"TensorRT's profiler reports them; a profiled call is slower than one that is not.</p>"
    )


def _overview(run: Run) -> str:
    if len(run.engines) < 2:
        return ""
    groups = [
        (engine.label, [Bar(engine.total_ms, f"{milliseconds(engine.total_ms)} ms", f"{engine.label}, all layers")])
        for engine in sorted(run.engines, key=lambda engine: -engine.total_ms)
    ]
    return _charts.grouped_bars("Time by engine, all profiled calls", groups, ["total"])


def _engine(engine: EngineTimes, top: int) -> Iterator[str]:
    yield f"<h2>{text_of(engine.label)}</h2>"
    known = {
        "process": engine.pid,
        "rank": engine.rank,
        "device": None if engine.device is None else f"cuda:{engine.device}",
        "format": engine.format or None,
        "folder": None if engine.folder == "." else engine.folder,
    }
    about = ", ".join(f"{key} {value}" for key, value in known.items() if value is not None)
    yield f'<p class="about">{text_of(about)}</p>'
    for remark in engine.remarks:
        yield f'<p class="note">{text_of(remark)}</p>'
    profiles = [profile for profile in engine.profiles if profile.layers]
    if profiles:
        groups = groups_of(profiles)
        largest = _largest([[row.layer for row in rows_of(group)] for group in groups])
        parts = [(profile.label, _parts(profile, largest)) for profile in profiles]
        yield _charts.stacked_bars("Where the time goes", parts)
        for group in groups:
            yield _layer_bars(group, top)
            yield _layer_table(group)
    if any(engine.phases.values()):
        yield _phase_bars(engine)


def _largest(groups: Sequence[Sequence[str]]) -> list[str]:
    """The layers that get a colour of their own: of each group as many, the largest first."""
    in_turns = (name for names in itertools.zip_longest(*groups) for name in names if name is not None)
    return list(dict.fromkeys(in_turns))[:_PARTS]


def _parts(profile: ProfileTimes, largest: Sequence[str]) -> list[tuple[str, float, str]]:
    """The profile's time by layer: those with the largest share in any profile, and all others as one."""
    shares = {layer.name: profile.share(layer) for layer in profile.layers}
    parts = [(name, shares.pop(name, 0.0)) for name in largest]
    if any(shares.values()):
        parts.append(("all others", sum(shares.values())))
    return [(name, share, f"{profile.label}: {name}: {percent(share)}") for name, share in parts]


def _layer_bars(profiles: Sequence[ProfileTimes], top: int) -> str:
    of_means = all(layer.mean_ms is not None for profile in profiles for layer in profile.layers)
    what = "mean milliseconds each time it runs" if of_means else "milliseconds in all profiled calls"

    def bar(profile: ProfileTimes, cell: Cell | None) -> Bar | None:
        if cell is None:
            return None
        mean = cell.layer.mean_ms
        value = mean if of_means and mean is not None else cell.layer.total_ms
        tip = (
            f"{profile.label}: {cell.layer.name}: {milliseconds(value)} ms, {percent(cell.share)} of the profile's time"
        )
        return Bar(value, f"{milliseconds(value)} ms", tip)

    groups = [
        (row.layer, [bar(profile, cell) for profile, cell in zip(profiles, row.cells, strict=True)])
        for row in rows_of(profiles)[:top]
    ]
    title = f"{', '.join(profile.label for profile in profiles)}: layers with the largest share, {what}"
    return _charts.grouped_bars(title, groups, [profile.label for profile in profiles])


def _layer_table(profiles: Sequence[ProfileTimes]) -> str:
    groups, header = ["<th></th>"], ["layer"]
    for number, profile in enumerate(profiles):
        columns = ["share", "mean ms", "total ms", "count"] + [f"vs {profiles[0].label}"] * (number > 0)
        groups.append(f'<th colspan="{len(columns)}">{text_of(profile.label)}</th>')
        header += columns
    layers, rows = rows_of(profiles), []
    for row in layers:
        cells = [row.layer]
        for number, cell in enumerate(row.cells):
            cells += figures(cell) + [change_of_mean(row.cells[0], cell)] * (number > 0)
        rows.append(cells)
    head = f'<tr class="groups">{"".join(groups)}</tr>'
    return f"<details><summary>All {number_of_layers(layers)}</summary>{_table(header, rows, head)}</details>"


def _phase_bars(engine: EngineTimes) -> str:
    groups = []
    for phase, events in engine.phases.items():
        if events:
            took = (max(e.start_us + e.duration_us for e in events) - min(e.start_us for e in events)) / 1000
            groups.append((phase, [Bar(took, f"{milliseconds(took)} ms", f"{phase}: {len(events)} operators")]))
    return _charts.grouped_bars("The host's side of the last profiled call", groups, ["host"])


def _pair(pair: Pair, top: int) -> Iterator[str]:
    yield f"<h2>{text_of(f'{pair.engine}, {pair.profile}')}</h2>"
    if pair.first is None or pair.second is None:
        yield f'<p class="note">Only in {"A" if pair.second is None else "B"}.</p>'
        return
    rows = pair.rows()
    changed = [(row.layer, delta) for row, delta in rows if delta is not None]
    if changed:
        bars = [
            (name, Bar(delta.ms, f"{signed(delta.ms)} ms", f"{name}: B - A = {signed(delta.ms)} ms"))
            for name, delta in changed[:top]
        ]
        kind = "mean" if all(delta.of_means for _, delta in changed) else "total"
        yield _charts.diverging_bars(f"Largest changes, B - A, {kind} milliseconds", bars)
    cells = [
        [row.layer, *figures(row.cells[0]), *figures(row.cells[1]), change(delta), _ratio(delta)] for row, delta in rows
    ]
    four = ["share", "mean ms", "total ms", "count"]
    head = '<tr class="groups"><th></th><th colspan="4">A</th><th colspan="4">B</th><th></th><th></th></tr>'
    table = _table(["layer", *four, *four, "B - A", "B / A"], cells, head)
    yield f"<details><summary>All {number_of_layers([row for row, _ in rows])}</summary>{table}</details>"


def _ratio(delta: Difference | None) -> str:
    return NOTHING if delta is None or delta.ratio is None else f"{delta.ratio:.2f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], groups: str = "", kind: str = "figures") -> str:
    head = "".join(f"<th>{text_of(title)}</th>" for title in header)
    body = "\n".join("<tr>" + "".join(f"<td>{text_of(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = f'<table class="{kind}"><thead>{groups}<tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>'


def _skipped(runs: Sequence[Run]) -> Iterator[str]:
    entries = [(str(run.directory), entry.path, entry.reason) for run in runs for entry in run.skipped]
    if entries:
        header = ["file", "why it was not used", "directory"]
        table = _table(header, [[path, reason, directory] for directory, path, reason in entries], kind="words")
        yield f"<h2>Skipped</h2>{table}"
