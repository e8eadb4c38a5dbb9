"""Tables about the decoders. Each function makes a page's body from results; it is empty if nothing was measured."""

from __future__ import annotations

from typing import Any

from cases.names import CONTEXTS, TWO

from drawing.results import Results, distinct
from drawing.words import WHILE_MADE, against, compared, each_of, megabytes, number, setting, table, with_quartiles

#: First calls that differ by less count as the same: there are one to three of each.
FIRST_CALLS_SAME = 0.25


def describe(results: Results, model: str) -> str:
    facts = results.decoders().get(model)
    if facts is None:
        return model
    return (
        f"{model} decoder ({facts['layers']} layers of {facts['hidden']}, batch {facts['batch']}, KV length "
        f"{facts['kv_length']}, prefill of {facts['prefill_tokens']} tokens, {facts['dtype']})"
    )


def same_run(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two rows were measured in turns."""
    return all(row.get(key) == other.get(key) for key in ("model", "phase", "strategy", "cuda_graphs", "beside"))


def latency(results: Results) -> str:
    sections = []
    for model in distinct(row["model"] for row in results.rows("latency")):
        for phase in ("decode", "prefill"):
            rows = list(results.rows("latency", model=model, phase=phase))
            lines = []
            for row in rows:
                ours = next((each for each in rows if each["contender"] == TWO and same_run(each, row)), {})
                words = ["", ""]
                if row is not ours:
                    words = [first_call_against(ours, row), compared(ours, row, "ms", "this")]
                lines.append(
                    [setting(row), row["contender"], each_of(row["first_call_samples_ms"]), words[0],
                     with_quartiles(row, "ms"), words[1]]
                )  # fmt: skip
            head = ["setting", "contender", "first calls, ms", f"{TWO}, first call", "warm, ms", f"{TWO}, warm"]
            sections.append(f"## {phase.capitalize()}, {describe(results, model)}\n\n{table(head, lines)}")
        sections += plans(results, model)
    return "\n\n".join(sections)


def first_call_against(ours: dict[str, Any], row: dict[str, Any]) -> str:
    last, peers = (each.get("first_call_samples_ms", [None])[-1] for each in (ours, row))
    return against(last, peers, "this", same=FIRST_CALLS_SAME)


def plans(results: Results, model: str) -> list[str]:
    lines = [
        [
            facts["contender"],
            " + ".join(megabytes(size) for size in facts["plan_bytes"]),
            " + ".join(number(seconds) for seconds in facts["build_seconds"]),
        ]
        for facts in results.result(f"latency-{model}").get("built", [])
    ]
    head = ["contender", "plan, MB", "build, s"]
    return [f"## Plans, {describe(results, model)}\n\n{table(head, lines)}"] if lines else []


def first_calls(results: Results) -> str:
    lines = []
    for row in results.rows("first call", cache="none"):
        keys = ("model", "strategy", "phase")
        kept = next(results.rows("first call", cache="kept", **{key: row[key] for key in keys}), None)
        if kept:
            lines.append(
                [*(row[key] for key in keys), each_of(row["samples_ms"]), each_of(kept["samples_ms"]),
                 compared(kept, row, "ms", "without"), megabytes(kept["cache_bytes"])]
            )  # fmt: skip
    head = ["model", "strategy", "phase", "without a cache, ms", "with one, ms", "with one", "cache, MB"]
    return table(head, lines) if lines else ""


def generation(results: Results) -> str:
    rows = list(results.rows("generation"))
    ours = next((row for row in rows if row["contender"] == TWO), {})
    lines = []
    for row in rows:
        figures = [
            with_quartiles(row, "tokens_per_second"),
            with_quartiles(row, "ms", "first_token_"),
            *(number(row[key]) for key in ("token_p50_ms", "token_p99_ms")),
        ]
        if row is not ours:
            verdicts = [
                compared(ours, row, "tokens_per_second", "this", more_is_better=True),
                compared(ours, row, "ms", "this", prefix="first_token_"),
                *(against(ours.get(key), row[key], "this") for key in ("token_p50_ms", "token_p99_ms")),
            ]
            figures = [f"{figure}; {verdict}" for figure, verdict in zip(figures, verdicts, strict=True)]
        lines.append([row["contender"], *figures])
    if not lines:
        return ""
    head = ["contender", "tokens per second", "first token, ms", "a token, p50, ms", "a token, p99, ms"]
    return f"{requests(results)}{table(head, lines)}"


def requests(results: Results) -> str:
    lengths = results.result("generation").get("requests")
    if not lengths:
        return ""
    (shortest, longest), (fewest, most) = ((min(of), max(of)) for of in zip(*lengths, strict=True))
    return (
        f"A pass has {len(lengths)} requests, with prompts of {shortest} to {longest} tokens and {fewest} to {most} "
        "new ones.\n\n"
    )


def memory(results: Results) -> str:
    sections = []
    for model in distinct(row["model"] for row in results.rows("memory")):
        rows = list(results.rows("memory", model=model))
        ours = {row["contender"]: row["median_bytes"] for row in rows if row["contender"] in (TWO, CONTEXTS)}
        lines = []
        for row in rows:
            name, taken = row["contender"], row["median_bytes"]
            peak = megabytes(row["peak_while_made_bytes"]) if name == CONTEXTS else ""
            plans = " + ".join(megabytes(size) for size in row["plan_bytes"])
            words = ["" if name == our else against(ours.get(our), taken, "this") for our in (TWO, CONTEXTS)]
            lines.append([name, megabytes(taken), peak, plans, *words])
        head = ["arrangement", "device memory, MB", WHILE_MADE, "plan, MB", TWO, CONTEXTS]
        sections.append(f"## {model.capitalize()} decoder\n\n{table(head, lines)}")
    return "\n\n".join(sections)


def floor(results: Results) -> str:
    """Decode against the time in which the device copies as many bytes as it has to read."""
    lines = []
    for row in results.rows("latency", phase="decode"):
        facts = results.decoders().get(row["model"])
        speed = copy_speed(results, row["model"])
        if facts is None or speed is None:
            continue
        weights = facts["weight_bytes"] / speed * 1e3
        everything = weights + facts["cache_passes"] * facts["cache_bytes"] / speed * 1e3
        lines.append(
            [row["model"], setting(row), row["contender"], number(row["median_ms"]),
             f"{row['median_ms'] / weights:.2f}x of {number(weights)} ms",
             f"{row['median_ms'] / everything:.2f}x of {number(everything)} ms"]
        )  # fmt: skip
    if not lines:
        return ""
    head = ["model", "setting", "contender", "decode, ms", "floor: weights", "floor: weights and KV cache"]
    return table(head, lines)


def copy_speed(results: Results, model: str) -> float | None:
    """Bytes per second, read and written, in the process that measured the model."""
    result = results.result(f"latency-{model}")
    return next((row["median_bytes_per_second"] for row in result.get("rows", []) if row["kind"] == "copy"), None)
