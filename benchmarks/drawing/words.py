"""Figures in words, and how one compares with another's."""

from __future__ import annotations

from typing import Any

#: Medians that differ by less count as the same.
SAME = 0.02
#: Head of a column: what making a second context took of the device at most, the context itself included.
WHILE_MADE = "at most over one context while it is made, MB"


def against(
    ours: float | None, peers: float | None, peer: str, more_is_better: bool = False, same: float = SAME
) -> str:
    """Says of our figure whether it is worse than a peer's, better or the same, with the factor between them."""
    if not ours or not peers:
        return "not measured"
    factor = peers / ours if more_is_better else ours / peers
    if factor > 1 + same:
        return f"**worse than {peer}**, {factor:.2f}x"
    if factor < 1 / (1 + same):
        return f"better, {1 / factor:.2f}x"
    return f"the same within {same:.0%}".replace("%", " %")


def compared(
    ours: dict[str, Any], peers: dict[str, Any], unit: str, peer: str, more_is_better: bool = False, prefix: str = ""
) -> str:
    """As ``against``, for the medians of two rows, and no verdict where their quartiles overlap."""
    spreads = [row.get(f"{prefix}quartiles_{unit}") for row in (ours, peers)]
    if all(spreads):
        (low, high), (peers_low, peers_high) = spreads
        if low <= peers_high and peers_low <= high:
            return "not told apart"
    median = f"{prefix}median_{unit}"
    return against(ours.get(median), peers[median], peer, more_is_better)


def number(value: float | None) -> str:
    """Three significant digits and more where there are more before the point."""
    if value is None:
        return "not measured"
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:.{places}f}"


def each_of(samples: list[float]) -> str:
    """``1976 / 1557 / 1371``: too few for a median to say much."""
    return " / ".join(number(sample) for sample in samples)


def with_quartiles(row: dict[str, Any], unit: str, prefix: str = "") -> str:
    """``0.523 (0.519 to 0.530)``"""
    median, quartiles = row.get(f"{prefix}median_{unit}"), row.get(f"{prefix}quartiles_{unit}")
    if not quartiles:
        return number(median)
    return f"{number(median)} ({number(quartiles[0])} to {number(quartiles[1])})"


def setting(row: dict[str, Any]) -> str:
    return f"{row['strategy']}, {'CUDA graphs' if row['cuda_graphs'] else 'no graphs'}"


def megabytes(value: float | None) -> str:
    return "not measured" if value is None else f"{value / 1e6:.1f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
