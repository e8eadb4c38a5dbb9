"""Process-wide engine profiling from Python. The state itself, and who applies it, is in ``core/runtime``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple


class ProfilingConfig(NamedTuple):
    """One revision of the process-wide profiling configuration.

    Attributes:
        enabled: whether engines write per-layer traces.
        format: ``"perfetto"`` or ``"trex"``.
        path_prefix: the folder that traces are written to.
        generation: how often the configuration has been set; an engine applies a new one on its next call.
    """

    enabled: bool
    format: str
    path_prefix: str
    generation: int


def get_profiling() -> ProfilingConfig:
    """The configuration of *every engine in the process*, all of one revision."""
    import torch

    return ProfilingConfig(*torch.ops.tensorrt.get_profiling_config())


def set_profiling(
    enabled: bool, *, format: str | None = None, path_prefix: str | os.PathLike[str] | None = None
) -> ProfilingConfig:
    """Sets profiling for *every engine in the process*, those inside AOTInductor packages included.

    Each engine applies it on its next call. A profiled call is slow: TensorRT's profiler waits for the GPU, so latency
    is measured without it.

    Args:
        enabled: whether engines write per-layer traces.
        format: ``"perfetto"`` or ``"trex"``; None keeps the present one.
        path_prefix: the folder to write to, made if need be; None keeps the present one.

    Returns:
        The configuration as set.

    Raises:
        TypeError: ``enabled`` is no bool.
        ValueError: unknown format, or a folder that cannot be written to; nothing is changed then.
    """
    import torch

    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_profiling(): enabled has to be True or False, found {enabled!r}. A folder is given as path_prefix="
        )
    now = get_profiling()
    torch.ops.tensorrt.set_profiling_config(
        enabled,
        now.format if format is None else format,
        now.path_prefix if path_prefix is None else os.fspath(path_prefix),
    )
    return get_profiling()


@contextlib.contextmanager
def profile_execution(path: str | os.PathLike[str], format: str = "perfetto") -> Iterator[ProfilingConfig]:
    """Profiles *every engine in the process* while the block runs, then restores the whole configuration.

    Engines of other threads are profiled too, and one that is not called again after the block keeps its profiler until
    it is.

    Args:
        path: the folder to write traces to, made if need be.
        format: ``"perfetto"`` or ``"trex"``.

    Raises:
        ValueError: unknown format, or a folder that cannot be written to; nothing is changed then.
    """
    before = get_profiling()
    try:
        yield set_profiling(True, format=format, path_prefix=path)
    finally:
        with contextlib.suppress(NotImplementedError):  # deactivated inside the block, so nothing is profiled
            set_profiling(before.enabled, format=before.format, path_prefix=before.path_prefix)
