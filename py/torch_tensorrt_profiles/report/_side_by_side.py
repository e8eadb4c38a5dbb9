"""Layers of several profiles, or of two runs, in one row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch_tensorrt_profiles.report._model import EngineTimes, LayerTime, ProfileTimes, Run


@dataclass(frozen=True)
class Cell:
    """A layer under one profile: its figures, and its part of that profile's time (0 to 1)."""

    layer: LayerTime
    share: float


@dataclass(frozen=True)
class Row:
    """A layer, with a cell per column; None where it does not run there."""

    layer: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Difference:
    """What the second has more than the first, in milliseconds: of the means, or of the totals without counts.

    ``ratio`` is second over first, None where the first is 0.
    """

    ms: float
    ratio: float | None
    of_means: bool


def rows_of(columns: Sequence[ProfileTimes]) -> list[Row]:
    """Every layer of any of the columns; the ones with the largest share in one of them come first."""
    names = dict.fromkeys(layer.name for profile in columns for layer in profile.layers)
    by_column = [{layer.name: Cell(layer, profile.share(layer)) for layer in profile.layers} for profile in columns]
    rows = [Row(name, tuple(cells.get(name) for cells in by_column)) for name in names]
    rows.sort(key=lambda row: -max(cell.share for cell in row.cells if cell is not None))
    return rows


def groups_of(profiles: Sequence[ProfileTimes]) -> list[list[ProfileTimes]]:
    """The profiles that are worth showing beside each other: those that have a layer in common with the group's first.

    TensorRT proper runs the same layers under several profiles. TensorRT-RTX compiles layers for each profile, with
    names of their own.
    """
    groups: list[list[ProfileTimes]] = []
    for profile in profiles:
        names = {layer.name for layer in profile.layers}
        group = next((group for group in groups if not names.isdisjoint(layer.name for layer in group[0].layers)), None)
        if group is None:
            groups.append([profile])
        else:
            group.append(profile)
    return groups


def difference(first: Cell | None, second: Cell | None) -> Difference | None:
    """None where the layer runs in one of the two only."""
    if first is None or second is None:
        return None
    before, after = first.layer.mean_ms, second.layer.mean_ms
    of_means = before is not None and after is not None
    if before is None or after is None:
        before, after = first.layer.total_ms, second.layer.total_ms
    return Difference(after - before, after / before if before > 0 else None, of_means)


@dataclass(frozen=True)
class Pair:
    """One profile of one engine in two runs; None where a run has it not."""

    engine: str
    profile: str
    first: ProfileTimes | None
    second: ProfileTimes | None

    def rows(self) -> list[tuple[Row, Difference | None]]:
        """Each layer with its difference, largest change first; layers of one run only come by their time."""
        if self.first is None or self.second is None:
            return []
        rows = [(row, difference(*row.cells)) for row in rows_of((self.first, self.second))]
        rows.sort(key=lambda entry: -_change(*entry))
        return rows


def _change(row: Row, changed: Difference | None) -> float:
    if changed is not None:
        return abs(changed.ms)
    layer = next(cell.layer for cell in row.cells if cell is not None)
    return layer.mean_ms if layer.mean_ms is not None else layer.total_ms


def pairs_of(first: Run, second: Run) -> list[Pair]:
    """The profiles of two runs, matched by the engine's name, its rank, its place among engines of both, and label."""
    engines = [_matchable(run) for run in (first, second)]
    pairs = []
    for key in dict.fromkeys((*engines[0], *engines[1])):
        found = [by_key.get(key) for by_key in engines]
        label = next(engine.label for engine in found if engine is not None)
        profiles = [{p.label: p for p in engine.profiles} if engine is not None else {} for engine in found]
        for profile in dict.fromkeys((*profiles[0], *profiles[1])):
            pairs.append(Pair(label, profile, profiles[0].get(profile), profiles[1].get(profile)))
    return pairs


def _matchable(run: Run) -> dict[tuple[str, int | None, int], EngineTimes]:
    by_key: dict[tuple[str, int | None, int], EngineTimes] = {}
    for engine in run.engines:
        number = sum(key[:2] == (engine.name, engine.rank) for key in by_key)
        by_key[(engine.name, engine.rank, number)] = engine
    return by_key
