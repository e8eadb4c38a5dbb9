"""Timing calls on the GPU (or, for a look without one, on the CPU)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

SKIPPED = 3  # first calls of a block, which change the profile


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(call: Callable[[], Any]) -> float:
    """Milliseconds on the host's clock until the GPU has finished."""
    synchronize()
    start = time.perf_counter()
    call()
    synchronize()
    return round((time.perf_counter() - start) * 1e3, 5)


def latencies(call: Callable[[], Any], calls: int) -> list[float]:
    """Milliseconds between CUDA events around single calls, each on an idle GPU."""
    if not torch.cuda.is_available():
        return [timed(call) for _ in range(calls)]
    samples = []
    for _ in range(SKIPPED + calls):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        samples.append(round(start.elapsed_time(end), 5))
    return samples[SKIPPED:]


def warm_up(calls: Sequence[Callable[[], Any]], seconds: float) -> None:
    """Runs them in turns, each at least ten times. TensorRT-RTX specialises kernels in the background meanwhile."""
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 10 or time.perf_counter() < end:
        for call in calls:
            call()
        synchronize()
        rounds += 1


def own_stream() -> None:
    """On the default stream Torch-TensorRT adds events to each call."""
    if torch.cuda.is_available():
        torch.cuda.set_stream(torch.cuda.Stream())


def device_bytes_taken() -> int:
    """What is in use on the device, by anyone, once caches are empty."""
    import gc

    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    return total - free
