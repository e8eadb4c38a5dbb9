"""What a call costs the host: our kernel in each state, and profiling."""

from __future__ import annotations

from drawing.results import Results
from drawing.words import against, number, table, with_quartiles


def overhead(results: Results) -> str:
    parts = []
    lines = []
    for row in results.result("kernel").get("results", []):
        paired = row["in_one_process"]
        low, high = paired["quartiles_ns"]
        lines.append(
            [row["state"], number(paired["stock_ns"]), f"{paired['difference_ns']:+.0f} ({low:+.0f} to {high:+.0f})",
             "not told apart" if low <= 0 <= high else "**worse than stock**" if low > 0 else "no cost was seen"]
        )  # fmt: skip
    if lines:
        head = ["state", "stock, ns per call", "ours over it (quartiles)", "ours"]
        parts.append(f"## What our kernel costs the host\n\n{table(head, lines)}")
    rows = list(results.rows("profiling"))
    lines = []
    for row in rows:
        off = next(each for each in rows if each["size"] == row["size"] and each["state"] == "off")
        words = "" if row is off else against(row["median_ms"], off["median_ms"], "off")
        lines.append([row["size"], row["state"], with_quartiles(row, "ms"), words])
    if lines:
        parts.append(f"## Profiling on against off\n\n{table(['engine', 'profiling', 'ms per call', ''], lines)}")
    return "\n\n".join(parts)
