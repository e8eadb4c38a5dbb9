"""How fast the device copies its own memory: the floor under every decode, which has to read its weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from cases import timing


def measure_copy(device: str, samples: int = 20) -> dict[str, Any]:
    """Bytes per second of a large copy on the device; what is read and what is written both count."""
    size = 4 << 30 if device == "cuda" else 64 << 20
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    copy = partial(torch.empty_like(source).copy_, source)
    timing.warm_up([copy], 0.2)
    milliseconds = timing.latencies(copy, samples)
    return {"bytes": size, "samples_bytes_per_second": [round(2 * size / took * 1e3) for took in milliseconds]}
