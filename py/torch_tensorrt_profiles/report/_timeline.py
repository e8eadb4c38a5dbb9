"""Every engine of a run in one file for the Perfetto UI and chrome://tracing.

The trace event format, with a named process per process of the run and a named track per engine and profile. Traces
have no clock in common. Each begins at 0, so order and lengths within a track mean something, and which spans of two
tracks are above each other does not.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from torch_tensorrt_profiles.report._model import EngineTimes, ProfileTimes, Run


def run_as_timeline(run: Run) -> str:
    """JSON in the trace event format: complete events (``ph`` X) and names (``ph`` M), times in microseconds."""
    events: list[dict[str, Any]] = []
    for number, (pid, engines) in enumerate(_by_process(run).items()):
        events += _process(pid, number, engines[0])
        tid = 0
        for engine in engines:
            for title, spans in _tracks(engine):
                tid += 1
                events.append(_named("thread_name", pid, tid, {"name": title}))
                events.append(_named("thread_sort_index", pid, tid, {"sort_index": tid}))
                events += [{**span, "ph": "X", "pid": pid, "tid": tid} for span in spans]
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {"source": "torchtrtprof", "directory": str(run.directory)},
    }
    return json.dumps(document, indent=1) + "\n"


def _by_process(run: Run) -> dict[int, list[EngineTimes]]:
    """Engines by the number of their process; processes that share one, on hosts of their own, get others."""
    processes: dict[tuple[str, int | None, int | None], list[EngineTimes]] = {}
    for engine in run.engines:
        processes.setdefault(engine.process, []).append(engine)
    taken = {engine.pid for engine in run.engines}
    free = (number for number in itertools.count() if number not in taken)
    numbered: dict[int, list[EngineTimes]] = {}
    for (_, pid, _), engines in processes.items():
        numbered[next(free) if pid is None or pid in numbered else pid] = engines
    return numbered


def _process(pid: int, number: int, engine: EngineTimes) -> Iterator[dict[str, Any]]:
    name = "Torch-TensorRT"
    if engine.rank is not None:
        name += f", rank {engine.rank}"
    if engine.pid is not None:
        name += f", process {engine.pid}"
    if engine.prefix != ".":
        name += f", in {engine.prefix}"
    yield _named("process_name", pid, 0, {"name": name})
    yield _named("process_sort_index", pid, 0, {"sort_index": number})


def _named(kind: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": args}


def _tracks(engine: EngineTimes) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    device = "" if engine.device is None else f" on cuda:{engine.device}"
    for profile in engine.profiles:
        if profile.layers:
            per_call = all(layer.mean_ms is not None for layer in profile.layers)
            what = "layers, mean" if per_call else "layers, summed over calls"
            title = f"{engine.label}{device}: {profile.label}: {what}"
            yield title, list(_layers(profile, per_call=per_call))
    for phase, events in engine.phases.items():
        if events:
            yield (
                f"{engine.label}: host, last call: {phase}",
                [
                    {"name": e.name, "cat": "host", "ts": e.start_us, "dur": e.duration_us, "args": {}}
                    for e in sorted(events, key=lambda event: (event.start_us, -event.duration_us))
                ],
            )


def _layers(profile: ProfileTimes, *, per_call: bool) -> Iterator[dict[str, Any]]:
    """End to end, in the engine's order: the profiler reports durations only."""
    at_us = 0.0
    for layer in profile.layers:
        mean = layer.mean_ms
        duration_us = (mean if per_call and mean is not None else layer.total_ms) * 1000
        about = {"total_ms": layer.total_ms, "count": layer.count, "share": round(profile.share(layer), 6)}
        yield {"name": layer.name, "cat": "layer", "ts": at_us, "dur": duration_us, "args": about}
        at_us += duration_us
