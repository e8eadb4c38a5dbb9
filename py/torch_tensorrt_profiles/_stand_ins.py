"""Answers to the questions that Torch-TensorRT asks CUDA while it is imported or builds, for hosts without a GPU.

They are lent only while such code runs, under a lock, and taken back after it. The device they describe ends up in the
engine's record; :mod:`torch_tensorrt_profiles.dynamo._gpuless` rewrites it on the host that loads the program.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

#: Compute capability that converters see on a host without a GPU, such as ``8.9``. TensorRT-RTX engines are portable,
#: so it only steers choices such as whether FP8 is offered.
CAPABILITY_VARIABLE = "TORCHTRT_PROFILES_COMPUTE_CAPABILITY"
DEFAULT_CAPABILITY = (9, 0)
#: The name of the device that stands in for a GPU, in the record of an engine that was built without one.
STAND_IN_NAME = "stand-in"
_STAND_IN_MEMORY = 80 << 30

_lock = threading.RLock()
_depth = 0
_lent: list[tuple[Any, str, Any, Any]] = []


@functools.cache
def host_has_gpu() -> bool:
    """Whether CUDA finds a device on this host (asked once per process)."""
    import torch

    return torch.cuda.is_available()


def stand_in_capability() -> tuple[int, int]:
    """The compute capability that stands in for a GPU's, from ``TORCHTRT_PROFILES_COMPUTE_CAPABILITY`` or (9, 0).

    Raises:
        ValueError: the variable is not of the form ``major.minor``.
    """
    text = os.environ.get(CAPABILITY_VARIABLE)
    if text is None:
        return DEFAULT_CAPABILITY
    match = re.fullmatch(r"\s*(\d+)\.(\d+)\s*", text)
    if match is None:
        raise ValueError(
            f"{CAPABILITY_VARIABLE}={text!r} is not a compute capability; expected one such as 8.9 or 9.0."
        )
    return int(match[1]), int(match[2])


@contextlib.contextmanager
def cuda_questions_answered() -> Iterator[None]:
    """On a host without a GPU, lends answers for as long as the block runs; elsewhere does nothing."""
    global _depth
    if host_has_gpu():
        yield
        return
    with _lock:
        if _depth == 0:
            _lend(stand_in_capability())
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if _depth == 0:
                _take_back()


def _lend(capability: tuple[int, int]) -> None:
    import torch

    major, minor = capability
    properties = SimpleNamespace(
        name=STAND_IN_NAME, major=major, minor=minor, total_memory=_STAND_IN_MEMORY, multi_processor_count=1
    )
    answers: dict[str, Callable[..., Any]] = {
        "get_device_capability": lambda device=None: capability,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: properties,
        "get_device_name": lambda device=None: properties.name,
        "mem_get_info": lambda device=None: (_STAND_IN_MEMORY, _STAND_IN_MEMORY),
    }
    for name, answer in answers.items():
        _lent.append((torch.cuda, name, getattr(torch.cuda, name), answer))
        setattr(torch.cuda, name, answer)


def _take_back() -> None:
    while _lent:
        owner, name, original, answer = _lent.pop()
        # Only what is still ours: another package may have replaced it meanwhile.
        if getattr(owner, name) is answer:
            setattr(owner, name, original)
