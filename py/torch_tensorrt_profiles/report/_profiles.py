"""Which optimization profile a layer's time belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from torch_tensorrt_profiles.report._model import LayerTime, ProfileTimes
from torch_tensorrt_profiles.report._traces import ReportedLayer, TimingRow

#: TensorRT marks the layers of every profile but the first, in traces and in the layer information.
_MARK = re.compile(r"\s*\[profile ([0-9]{1,9})\]\s*$")

NOT_TOLD_APART = "all profiles"


def split_mark(layer: str) -> tuple[str, int | None]:
    """A layer's name without the mark of its profile, and the profile's index where it has one."""
    match = _MARK.search(layer)
    return (layer, None) if match is None else (layer[: match.start()], int(match[1]))


def label_of(index: int, names: Sequence[str]) -> str:
    name = names[index] if index < len(names) else ""
    return name or f"profile {index}"


def from_trace(
    layers: Iterable[ReportedLayer], profile_names: Sequence[str], known_layers: Iterable[str]
) -> tuple[ProfileTimes, ...]:
    """A trace's layers by profile.

    Args:
        layers: as reported, with their marks.
        profile_names: of the engine; empty for an engine without names.
        known_layers: every layer of the engine, from its layer information; empty where that is not known.

    Returns:
        One entry per profile that ran. A single one with index None where there are several profiles and nothing marks
        their layers.
    """
    layers = list(layers)
    marked = any(split_mark(name)[1] is not None for name in (*(layer.name for layer in layers), *known_layers))
    if not marked and len(profile_names) > 1:
        return _grouped((None, NOT_TOLD_APART, _time(layer.name, layer)) for layer in layers)
    times: list[tuple[int | None, str, LayerTime]] = []
    for layer in layers:
        name, marked_index = split_mark(layer.name)
        index = marked_index or 0
        times.append((index, label_of(index, profile_names), _time(name, layer)))
    return _grouped(sorted(times, key=_by_index))


def from_timings(rows: Iterable[TimingRow], profile_names: Sequence[str]) -> tuple[ProfileTimes, ...]:
    """One engine's rows of ``dump_engine_timing()`` by profile."""
    times: list[tuple[int | None, str, LayerTime]] = []
    for row in rows:
        index: int | None
        if isinstance(row.profile, int):
            index = row.profile
            label = label_of(row.profile, profile_names)
        else:
            index = profile_names.index(row.profile) if row.profile in profile_names else None
            label = row.profile
        times.append((index, label, LayerTime(split_mark(row.layer)[0], row.total_ms, row.count)))
    return _grouped(sorted(times, key=_by_index))


def _by_index(entry: tuple[int | None, str, LayerTime]) -> tuple[bool, int]:
    return entry[0] is None, entry[0] or 0


def _time(name: str, layer: ReportedLayer) -> LayerTime:
    return LayerTime(name, layer.total_ms, layer.count)


def _grouped(times: Iterable[tuple[int | None, str, LayerTime]]) -> tuple[ProfileTimes, ...]:
    """By profile, in the order of first appearance; layers that share a name become one."""
    profiles: dict[tuple[int | None, str], dict[str, LayerTime]] = {}
    for index, label, layer in times:
        layers = profiles.setdefault((index, label), {})
        before = layers.get(layer.name)
        layers[layer.name] = layer if before is None else _sum(before, layer)
    return tuple(ProfileTimes(index, label, tuple(layers.values())) for (index, label), layers in profiles.items())


def _sum(one: LayerTime, other: LayerTime) -> LayerTime:
    count = None if one.count is None or other.count is None else one.count + other.count
    return LayerTime(one.name, one.total_ms + other.total_ms, count)
