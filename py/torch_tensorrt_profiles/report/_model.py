"""What a run's traces say, whatever files it came from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class LayerTime:
    """A layer's time under one optimization profile.

    Attributes:
        name: TensorRT's name of the layer, without the mark of its profile.
        total_ms: what it took in all calls that were profiled, in milliseconds on the GPU.
        count: how often it ran, or None where the traces do not tell.
    """

    name: str
    total_ms: float
    count: int | None

    @property
    def mean_ms(self) -> float | None:
        """Milliseconds each time it ran, or None where the traces do not tell how often that was."""
        return self.total_ms / self.count if self.count else None


@dataclass(frozen=True)
class ProfileTimes:
    """The layers that ran under one optimization profile, in the engine's order.

    Attributes:
        index: TensorRT's number of the profile, or None where the traces do not tell profiles apart.
        label: the profile's name, or ``profile 1``, or ``all profiles``.
    """

    index: int | None
    label: str
    layers: tuple[LayerTime, ...]

    @cached_property
    def total_ms(self) -> float:
        return sum(layer.total_ms for layer in self.layers)

    def share(self, layer: LayerTime) -> float:
        """The layer's part of the profile's time, 0 to 1."""
        total = self.total_ms
        return layer.total_ms / total if total > 0 else 0.0


@dataclass(frozen=True)
class Event:
    """A span of time; microseconds from the beginning of its own trace."""

    name: str
    start_us: float
    duration_us: float


@dataclass(frozen=True)
class EngineTimes:
    """One engine of one process.

    Attributes:
        name: Torch-TensorRT's name of the engine; several engines of a run may have the same.
        folder: where its files are, relative to the directory that was read.
        prefix: what its process was told to write to, relative to the directory that was read.
        format: ``perfetto`` or ``trex``.
        pid, rank, device: None where the run does not tell.
        profile_names: as recorded with the traces; empty for an engine without names.
        phases: the host side of the last profiled call, by the phase's name.
        remarks: what a reader of the figures has to know.
    """

    name: str
    folder: str
    prefix: str
    format: str
    pid: int | None
    rank: int | None
    device: int | None
    profile_names: tuple[str, ...]
    profiles: tuple[ProfileTimes, ...]
    phases: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    label: str = ""

    @property
    def process(self) -> tuple[str, int | None, int | None]:
        """What engines of one process have in common: hosts and containers have processes of the same number."""
        return self.prefix, self.pid, self.rank

    @property
    def total_ms(self) -> float:
        return sum(profile.total_ms for profile in self.profiles)


@dataclass(frozen=True)
class Skipped:
    """A file that was not used, relative to the directory that was read, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Run:
    """All that was read from one directory."""

    directory: Path
    engines: tuple[EngineTimes, ...]
    skipped: tuple[Skipped, ...]


def with_labels(engines: list[EngineTimes]) -> tuple[EngineTimes, ...]:
    """The engines with labels that tell them apart: the name, and as much as that takes.

    That is their rank, their process, where it wrote to, and a number.
    """

    def told_apart_by(*parts: str) -> list[str]:
        labels = []
        for engine in engines:
            known = {"rank": engine.rank, "pid": engine.pid, "in": None if engine.prefix == "." else engine.prefix}
            extra = [f"{part} {known[part]}" for part in parts if known[part] is not None]
            labels.append(" ".join([engine.name, *(["(" + ", ".join(extra) + ")"] if extra else [])]))
        return labels

    labels = next(
        (
            labels
            for labels in (
                told_apart_by(),
                told_apart_by("rank"),
                told_apart_by("rank", "pid"),
                told_apart_by("rank", "pid", "in"),
            )
            if len(set(labels)) == len(labels)
        ),
        None,
    )
    if labels is None:
        seen: dict[str, int] = {}
        labels = told_apart_by("rank", "pid", "in")
        for position, label in enumerate(labels):
            seen[label] = seen.get(label, 0) + 1
            if seen[label] > 1:
                labels[position] = f"{label} #{seen[label]}"
    return tuple(dataclasses.replace(engine, label=label) for engine, label in zip(engines, labels, strict=True))
