"""A run, or two, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch_tensorrt_profiles.report._layer_names import short_layer_name
from torch_tensorrt_profiles.report._model import EngineTimes, LayerTime, ProfileTimes, Run
from torch_tensorrt_profiles.report._side_by_side import (
    Cell,
    Difference,
    Pair,
    Row,
    difference,
    groups_of,
    pairs_of,
    rows_of,
)
from torch_tensorrt_profiles.report._text_table import printable, text_table

_FIGURES = ("share", "mean ms", "total ms", "count")
_SKIPPED_SHOWN = 10
NOTHING = "-"


def run_as_text(run: Run, *, top: int, width: int) -> str:
    """Tables of a run's engines.

    Args:
        top: how many layers of each engine to show.
        width: columns of the terminal.
    """
    parts = [_overview(run, width)]
    parts += [_engine(engine, top=top, width=width) for engine in run.engines]
    return "\n\n".join([*parts, *_skipped(run)])


def comparison_as_text(first: Run, second: Run, *, top: int, width: int) -> str:
    """The layers of two runs that changed most, per engine and profile."""
    parts = [f"A: {printable(str(first.directory))}\nB: {printable(str(second.directory))}"]
    parts += [_pair(pair, top=top, width=width) for pair in pairs_of(first, second)]
    return "\n\n".join([*parts, *_skipped(first), *_skipped(second)])


def _overview(run: Run, width: int) -> str:
    total = sum(engine.total_ms for engine in run.engines)
    rows, idle = [], 0
    for engine in run.engines:
        layers = {layer.name for profile in engine.profiles for layer in profile.layers}
        busy = {layer.name for profile in engine.profiles for layer in profile.layers if layer.total_ms > 0}
        idle += len(layers - busy)
        rows.append(
            [
                engine.label,
                _known(engine.pid),
                _known(engine.rank),
                _known(engine.device),
                engine.format,
                ", ".join(profile.label for profile in engine.profiles) or NOTHING,
                str(len(busy)),
                milliseconds(engine.total_ms),
                percent(engine.total_ms / total if total > 0 else 0),
            ]
        )
    header = ["engine", "process", "rank", "device", "format", "profiles", "layers", "total ms", "share"]
    table = text_table(header, rows, left=(0, 4, 5), width=width, shrink=(0, 5))
    return f"{table}\n(layers are those that took time; {idle} more took none)" if idle else table


def _known(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def _engine(engine: EngineTimes, *, top: int, width: int) -> str:
    lines = [f"{printable(engine.label)}: layers by their largest share"]
    for profiles in groups_of(engine.profiles):
        rows = rows_of(profiles)
        for columns in _fitting(profiles, width):
            lines.append(_layer_table(profiles, columns, rows[:top], width))
        if len(rows) > top:
            lines.append(f"({number_of_layers(rows[top:], 'more ')}; --top shows more)")
    lines += [f"Note: {remark}" for remark in engine.remarks]
    return "\n".join(lines)


def _fitting(profiles: Sequence[ProfileTimes], width: int) -> Iterator[list[int]]:
    """Positions of profiles that fit beside each other; the first, which the others are compared with, goes first."""
    room = max(1, (width - 24) // 44)
    for start in range(0, len(profiles), room):
        yield list(range(start, min(start + room, len(profiles))))


def _layer_table(profiles: Sequence[ProfileTimes], columns: Sequence[int], rows: Sequence[Row], width: int) -> str:
    header, groups = ["layer"], [("", 1)]
    for i in columns:
        header += _FIGURES
        groups.append((f"| {profiles[i].label}", len(_FIGURES) + (i > 0)))
        if i > 0:
            header.append(f"vs {profiles[0].label}")
    cells = []
    for row in rows:
        line = [row.layer]
        for i in columns:
            line += figures(row.cells[i])
            if i > 0:
                line.append(change_of_mean(row.cells[0], row.cells[i]))
        cells.append(line)
    return text_table(header, cells, groups=groups, width=width, shorten=short_layer_name)


def _pair(pair: Pair, *, top: int, width: int) -> str:
    title = f"{printable(pair.engine)}, {printable(pair.profile)}"
    if pair.first is None or pair.second is None:
        return f"{title}: only in {'A' if pair.second is None else 'B'}"
    rows = pair.rows()
    of_means = all(changed.of_means for _, changed in rows if changed is not None)
    cells = []
    for row, changed in rows[:top]:
        first, second = (_time(cell, of_means=of_means) for cell in row.cells)
        ratio = f"{changed.ratio:.2f}" if changed is not None and changed.ratio is not None else NOTHING
        cells.append([row.layer, first, second, change(changed), ratio])
    kind = "mean" if of_means else "total"
    summed = [sum(_value(cell.layer, of_means=of_means) for row, _ in rows if (cell := row.cells[i])) for i in (0, 1)]
    ratio = f"{summed[1] / summed[0]:.2f}" if summed[0] > 0 else NOTHING
    cells.append(["all layers", *map(milliseconds, summed), signed(summed[1] - summed[0]), ratio])
    lines = [
        f"{title}: layers that changed most",
        text_table(
            ["layer", f"A {kind} ms", f"B {kind} ms", "B - A", "B / A"], cells, width=width, shorten=short_layer_name
        ),
    ]
    if len(rows) > top:
        lines.append(f"({number_of_layers([row for row, _ in rows[top:]], 'more ')}; --top shows more)")
    return "\n".join(lines)


def number_of_layers(rows: Sequence[Row], kind: str = "") -> str:
    """How many layers there are, and how many of them TensorRT reports without time."""
    idle = sum(not any(cell is not None and cell.layer.total_ms > 0 for cell in row.cells) for row in rows)
    took_none = f", {'all' if idle == len(rows) else idle} of which took no time" if idle else ""
    return f"{len(rows)} {kind}layer{'s' * (len(rows) != 1)}{took_none}"


def _value(layer: LayerTime, *, of_means: bool) -> float:
    mean = layer.mean_ms
    return mean if of_means and mean is not None else layer.total_ms


def _time(cell: Cell | None, *, of_means: bool) -> str:
    return NOTHING if cell is None else milliseconds(_value(cell.layer, of_means=of_means))


def _skipped(run: Run) -> list[str]:
    if not run.skipped:
        return []
    lines = [f"Skipped in {printable(str(run.directory))}:"]
    lines += [f"  {printable(entry.path)}: {printable(entry.reason)}" for entry in run.skipped[:_SKIPPED_SHOWN]]
    if len(run.skipped) > _SKIPPED_SHOWN:
        lines.append(f"  and {len(run.skipped) - _SKIPPED_SHOWN} more; --format json lists all")
    return ["\n".join(lines)]


def figures(cell: Cell | None) -> list[str]:
    """Share, mean, total and count of a layer."""
    if cell is None:
        return [NOTHING] * len(_FIGURES)
    mean, count = cell.layer.mean_ms, cell.layer.count
    return [
        percent(cell.share),
        NOTHING if mean is None else milliseconds(mean),
        milliseconds(cell.layer.total_ms),
        NOTHING if count is None else str(count),
    ]


def change(changed: Difference | None) -> str:
    return NOTHING if changed is None else signed(changed.ms)


def change_of_mean(first: Cell | None, second: Cell | None) -> str:
    """Between profiles of one run. Totals do not compare: the profiles ran in different numbers of calls."""
    changed = difference(first, second)
    return change(changed if changed is not None and changed.of_means else None)


def milliseconds(value: float) -> str:
    return f"{value:.4f}" if value < 100 else f"{value:.1f}"


def signed(value: float) -> str:
    return f"{value:+.4f}" if abs(value) < 100 else f"{value:+.1f}"


def percent(share: float) -> str:
    return f"{share:.1%}"
