"""What is said of a list of latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Latency:
    """Latencies in milliseconds, on the host's clock until the result is there.

    Attributes:
        first_ms: of the first call under the profile, before anything is warm.
        samples_ms: of the warm calls, in order.
    """

    first_ms: float
    samples_ms: tuple[float, ...]

    def percentile(self, part: float) -> float:
        """The latency that ``part`` (0 to 1) of the warm calls stay below."""
        return percentile(self.samples_ms, part)


def percentile(samples: Sequence[float], part: float) -> float:
    """By linear interpolation between the two samples next to it; ``samples`` is in any order and not empty."""
    ordered = sorted(samples)
    at = part * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)
