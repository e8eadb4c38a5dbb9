"""What a switch costs, and when a decode profile pays for it."""

from __future__ import annotations

from cases.names import ONE, TWO

from drawing.decoder_tables import same_run
from drawing.results import Results
from drawing.words import WHILE_MADE, against, megabytes, number, setting, table

RULE = """\
A profile of its own pays once the gain per decode call, times the decode calls between two prefills, is more than the
switch to decode and back costs. The gain is over one profile that is tuned for prefill. What switches cost was measured
with calls of two tokens and of one token in turns, against the same calls without a switch. The [first
call](first_calls.md), which compiles kernels, is not counted."""


def switching(results: Results) -> str:
    parts = [break_even(results), blocks(results), turns(results), memory(results)]
    return "\n\n".join(part for part in parts if part)


def break_even(results: Results) -> str:
    """After how many decode calls a decode profile has paid for the switch to it and back."""
    lines = []
    for row in results.rows("in turns", contender=TWO):
        same = [
            each
            for each in results.rows("latency", model=row["model"], phase="decode", strategy=row["strategy"])
            if each["cuda_graphs"] == row["cuda_graphs"]
        ]
        one = next((each for each in same if each["contender"] == ONE), None)
        two = next((each for each in same if one and each["contender"] == TWO and same_run(each, one)), None)
        if one is None or two is None:
            continue
        gain = (one["median_ms"] - two["median_ms"]) * 1e3
        cost = (row["median_ms"] - row["bare_median_ms"]) * 1e3
        lines.append([row["model"], setting(row), number(gain), number(cost), pays_after(gain, cost)])
    if not lines:
        return ""
    head = ["model", "setting", "gain per decode call, us", "switch to decode and back, us", "pays after"]
    return f"## When a decode profile pays\n\n{RULE}\n\n{table(head, lines)}"


def pays_after(gain: float, cost: float) -> str:
    """The break-even rule in words; both in the same unit, per decode call and per pair of switches."""
    if gain <= 0:
        return "never: decode is **worse than with one profile** or the same"
    if cost <= 0:
        return "1 decode call (no cost of a switch was seen)"
    calls = -int(-cost // gain)
    return f"{calls} decode call{'s' if calls > 1 else ''}"


def blocks(results: Results) -> str:
    lines = []
    for row in results.result("switching").get("results", []):
        stock, ours = row["stock"], row["ours"]
        lines.append(
            [row["size"], "yes" if row["cuda_graphs"] else "no", row["scenario"], number(stock["bare_us"]),
             number(stock["over_bare_us"]), number(ours["bare_us"]), number(ours["over_bare_us"]),
             cost_against(ours["over_bare_us"], stock["over_bare_us"])
             + bare_calls_differ(ours["bare_us"], stock["bare_us"])]
        )  # fmt: skip
    if not lines:
        return ""
    head = ["engine", "graphs", "scenario", "stock: bare, us", "over it", "ours: bare, us", "over it", "ours"]
    return f"## A block per step, and in turns\n\n{table(head, lines)}"


def cost_against(ours: float, stock: float) -> str:
    """As ``against``, for differences in microseconds, where less than one is noise."""
    if ours < 1:
        return "no cost was seen"
    return against(ours, stock, "stock") if stock >= 1 else "**worse than stock**, where no cost was seen"


def bare_calls_differ(ours: float, stock: float) -> str:
    """What to know of a row whose two processes did not run alike."""
    difference = abs(stock / ours - 1) if ours > 0 else 0.0
    return f"; the bare calls differ by {difference:.0%}".replace("%", " %") if difference > 0.05 else ""


def memory(results: Results) -> str:
    """The memory of each size once: CUDA graphs change little of it."""
    lines = []
    for row in results.result("contexts").get("results", []):
        took = row["memory"]
        if not row["cuda_graphs"] and took["second_context_bytes"] is not None:
            one = took["one_context_bytes"]
            lines.append(
                [row["size"], megabytes(took["plan_bytes"]), megabytes(one), megabytes(took["second_context_bytes"]),
                 f"{took['second_context_bytes'] / one:.1%}".replace("%", " %"),
                 megabytes(took["peak_while_made_bytes"])]
            )  # fmt: skip
    if not lines:
        return ""
    head = ["engine", "plan, MB", "one context, MB", "the second, MB", "over one", WHILE_MADE]
    return f"## Device memory of a context per profile\n\n{table(head, lines)}"


def turns(results: Results) -> str:
    lines = []
    for row in results.result("contexts").get("results", []):
        for scenario, ratio in row["ratio_to_bare_sum"].items():
            beside = scenario.replace("context per profile", "one context")
            words = ""
            if beside != scenario:
                words = against(row["medians_us"][scenario], row["medians_us"][beside], "one context")
            lines.append(
                [row["size"], "yes" if row["cuda_graphs"] else "no", scenario, number(row["medians_us"][scenario]),
                 f"{ratio:.3f}", words]
            )  # fmt: skip
    if not lines:
        return ""
    head = ["engine", "graphs", "a prefill and a decode", "us", "over the bare sum", ""]
    return f"## A context per profile\n\n{table(head, lines)}"
