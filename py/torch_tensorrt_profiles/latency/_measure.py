"""Timing calls, and profiling them: never the same ones."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch_tensorrt_profiles.latency._statistics import Latency

#: A selection of a profile around calls.
Scope = Callable[[], contextlib.AbstractContextManager[Any]]


def measure(
    call: Callable[[], Any],
    scope: Scope,
    *,
    iterations: int,
    warm_up_seconds: float,
    synchronize: Callable[[], Any],
    on_call: Callable[[], Any] = lambda: None,
) -> Latency:
    """Times single calls on an idle GPU.

    Args:
        call: runs the program once, and may return before the GPU is done.
        scope: selects the profile.
        warm_up_seconds: TensorRT-RTX specialises kernels in the background, which takes a while.
        synchronize: waits for the GPU.
        on_call: called after each timed call, to show progress.
    """

    def timed() -> float:
        start = time.perf_counter()
        call()
        synchronize()
        return (time.perf_counter() - start) * 1e3

    synchronize()
    with scope():
        first = timed()
        end = time.perf_counter() + warm_up_seconds
        while time.perf_counter() < end:
            timed()
        samples = []
        for _ in range(iterations):
            samples.append(timed())
            on_call()
    return Latency(first, tuple(samples))


def trace(
    calls: Sequence[tuple[Scope, Callable[[], Any]]],
    folder: Path,
    *,
    format: str,
    iterations: int,
    profiling: Callable[..., contextlib.AbstractContextManager[Any]],
    dump_timing: Callable[[], str],
    on_call: Callable[[], Any] = lambda: None,
) -> Path:
    """Profiles every engine in the process while each of ``calls`` is run ``iterations`` times.

    Args:
        calls: per profile, its selection and the call.
        folder: gets the traces, and timing.<pid>.json with the time per profile and layer.
        profiling: ``profile_execution``.
        dump_timing: ``torch.ops.tensorrt.dump_engine_timing``.

    Returns:
        The file with the timings. They leave out the first call under each profile, which is not warm; the traces do
        not.
    """
    rows: list[dict[str, Any]] = []
    with profiling(folder, format):
        for scope, call in calls:
            with scope():
                call()
                before = _by_layer(dump_timing())
                for _ in range(iterations):
                    call()
                    on_call()
                after = _by_layer(dump_timing())
            rows += [row for key, now in after.items() if (row := _added(before.get(key), now)) is not None]
    for scope, call in calls[:1]:
        with scope():
            call()  # an engine stops profiling at its next call
    path = folder / f"timing.{os.getpid()}.json"
    path.write_text(json.dumps(rows, indent=1) + "\n")
    return path


def _by_layer(timing: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(row["object_id"], str(row["profile"]), row["layer"]): row for row in json.loads(timing)}


def _added(before: dict[str, Any] | None, now: dict[str, Any]) -> dict[str, Any] | None:
    """What came to a layer's row; None where nothing did."""
    count = now["count"] - (before["count"] if before else 0)
    total = now["total_ms"] - (before["total_ms"] if before else 0)
    if count <= 0:
        return None
    return {**now, "count": count, "total_ms": max(total, 0.0), "mean_ms": max(total, 0.0) / count}
