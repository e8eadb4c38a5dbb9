"""The documentation's tables. Each function makes one page's body from results; it is empty if nothing was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drawing.results import ONE, TWO, Results, distinct
from drawing.words import against, megabytes, number, setting, table, with_quartiles

CONTEXTS = "a context per profile"
ENGINES = "two engines"


def describe(results: Results, model: str) -> str:
    facts = results.decoders().get(model)
    if facts is None:
        return model
    return (
        f"{model} decoder ({facts['layers']} layers of {facts['hidden']}, batch {facts['batch']}, KV length "
        f"{facts['kv_length']}, {facts['dtype']})"
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
                words = (
                    ["", ""]
                    if row is ours
                    else [against(ours.get(key), row[key], "this") for key in ("first_call_ms", "median_ms")]
                )
                lines.append(
                    [setting(row), row["contender"], number(row["first_call_ms"]), words[0],
                     with_quartiles(row, "ms"), words[1]]
                )  # fmt: skip
            head = ["setting", "contender", "first call, ms", f"{TWO}, first call", "warm, ms", f"{TWO}, warm"]
            sections.append(f"## {phase.capitalize()}, {describe(results, model)}\n\n{table(head, lines)}")
    return "\n\n".join(sections)


def generation(results: Results) -> str:
    rows = list(results.rows("generation"))
    ours = next((row for row in rows if row["contender"] == TWO), {})
    lines = []
    for row in rows:
        line = [row["contender"]]
        for shown, key, more_is_better in (
            (with_quartiles(row, "tokens_per_second"), "median_tokens_per_second", True),
            (with_quartiles(row, "ms", "first_token_"), "first_token_median_ms", False),
            (number(row["token_p50_ms"]), "token_p50_ms", False),
            (number(row["token_p99_ms"]), "token_p99_ms", False),
        ):
            line.append(
                shown if row is ours else f"{shown}; {against(ours.get(key), row[key], 'this', more_is_better)}"
            )
        lines.append(line)
    if not lines:
        return ""
    head = ["contender", "tokens per second", "first token, ms", "a token, p50, ms", "a token, p99, ms"]
    return f"Behind each figure: how {TWO} compare with it.\n\n{table(head, lines)}"


def memory(results: Results) -> str:
    sections = []
    for model in distinct(row["model"] for row in results.rows("memory")):
        rows = list(results.rows("memory", model=model))
        lines = []
        for row in rows:
            ours = [
                "" if row["contender"] == name else against(median_of(rows, name, "median_bytes"), row["median_bytes"], "this")
                for name in (TWO, CONTEXTS)
            ]  # fmt: skip
            lines.append(
                [row["contender"], megabytes(row["median_bytes"]), megabytes(row["peak_while_made_bytes"])
                 if row["contender"] == CONTEXTS else "", " + ".join(megabytes(size) for size in row["plan_bytes"]), *ours]
            )  # fmt: skip
        head = ["arrangement", "device memory, MB", "more while it is made, MB", "plan, MB", TWO, CONTEXTS]
        sections.append(f"## {model.capitalize()} decoder\n\n{table(head, lines)}")
    return "\n\n".join(sections)


def median_of(rows: list[dict[str, Any]], contender: str, key: str) -> float | None:
    return next((row[key] for row in rows if row["contender"] == contender), None)


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


def switching(results: Results) -> str:
    parts = [break_even(results), blocks(results), turns(results)]
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
        if one is None or two is None or is_repeated(lines, row):
            continue
        gain = (one["median_ms"] - two["median_ms"]) * 1e3
        cost = (row["median_ms"] - row["bare_median_ms"]) * 1e3
        lines.append([row["model"], setting(row), number(gain), number(cost), pays_after(gain, cost)])
    if not lines:
        return ""
    head = ["model", "setting", "gain per decode call, us", "switch to decode and back, us", "pays after"]
    return (
        "## When a decode profile pays\n\nA profile of its own pays once the gain per decode call, times the calls between "
        "two switches, is more than\nboth switches cost. The gain is over one profile that is tuned for prefill.\n\n"
        + table(head, lines)
    )


def is_repeated(lines: list[list[str]], row: dict[str, Any]) -> bool:
    return any(line[:2] == [row["model"], setting(row)] for line in lines)


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
             against(ours["over_bare_us"], stock["over_bare_us"], "stock")]
        )  # fmt: skip
    if not lines:
        return ""
    head = ["engine", "graphs", "scenario", "stock: bare, us", "over it", "ours: bare, us", "over it", "ours"]
    return f"## A block per step, and in turns\n\n{table(head, lines)}"


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


def overhead(results: Results) -> str:
    parts = []
    lines = []
    for row in results.result("kernel").get("results", []):
        paired = row["in_one_process"]
        low, high = paired["quartiles_ns"]
        lines.append(
            [row["state"], number(paired["stock_ns"]), f"{paired['difference_ns']:+.0f} ({low:+.0f} to {high:+.0f})",
             "**worse than stock**" if paired["difference_ns"] > 0 else "no cost was seen"]
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


def growth(results: Results) -> str:
    parts = []
    lines = []
    rows = list(results.rows("growth of profiles"))
    for row in rows:
        words = (
            "" if row is rows[0] else against(row["median_ms"], rows[0]["median_ms"], f"{rows[0]['profiles']} profile")
        )
        lines.append([str(row["profiles"]), number(row["build_seconds"]), megabytes(row["plan_bytes"]),
                      with_quartiles(row, "ms"), words])  # fmt: skip
    if lines:
        head = ["profiles", "build, s", "plan, MB", "decode, ms", "decode"]
        parts.append(f"## Profiles of one engine\n\n{table(head, lines)}")
    lines = []
    for row in results.rows("growth of engines"):
        lines.append([str(row["engines"]), megabytes(row["device_bytes_over_the_first"]),
                      with_quartiles(row, "ms", "calls_"), with_quartiles(row, "ms", "on_"),
                      with_quartiles(row, "ms", "off_")])  # fmt: skip
    if lines:
        head = ["engines", "memory over the first's, MB", "one call of each, ms", "the same after switching profiling on",
                "after switching it off"]  # fmt: skip
        parts.append(f"## Engines of one process\n\n{table(head, lines)}")
    lines = []
    rows = list(results.rows("growth of threads"))
    for row in rows:
        words = ""
        if row["contender"] == CONTEXTS:
            peer = next(each for each in rows if each["threads"] == row["threads"] and each["contender"] != CONTEXTS)
            key = "median_calls_per_second"
            words = against(row[key], peer[key], peer["contender"], more_is_better=True)
        lines.append([str(row["threads"]), row["contender"], with_quartiles(row, "calls_per_second"), words])
    if lines:
        head = ["threads", "engine", "calls per second", ""]
        parts.append(f"## Threads on one engine\n\n{table(head, lines)}")
    return "\n\n".join(parts)


def left_out(results: Results) -> str:
    """What is missing, with the reason that the suite recorded."""
    lines = []
    for name, entry in results.cases.items():
        if entry["status"] != "complete":
            lines.append(
                [name, "the rest of it" if entry.get("result") else "all of it", f"{entry['status']}: {entry['why']}"]
            )
        for skipped in entry.get("result", {}).get("skipped", []):
            lines.append([name, skipped["what"], skipped["why"]])
    lines = [[" ".join(cell.replace("|", "/").split())[:300] for cell in line] for line in lines]
    return table(["case", "what", "why"], lines) if lines else "Nothing was left out."


#: Page: title, what it says, the cases behind it, and its body.
PAGES: dict[str, tuple[str, str, tuple[str, ...], Callable[[Results], str]]] = {
    "latency": (
        "Decode and prefill latency",
        "One process per model, contenders in turns. A warm figure is the median time between CUDA events around one call on an "
        "idle\nGPU, quartiles in brackets. A first call has no runtime cache and is timed on the host's clock, selecting the "
        "profile included;\nfor eager PyTorch with CUDA graphs it includes the capture, for `torch.compile` compiling and tuning.",
        ("latency-small", "latency-reference"),
        latency,
    ),
    "generation": (
        "Generating text",
        "The small decoder, mixed prompt and output lengths, greedy, every token waited for; kernel specialization lazy.",
        ("generation",),
        generation,
    ),
    "memory": (
        "Device memory",
        "What each arrangement takes of the device after prefill and decode calls: weights, contexts, activations, kernels.",
        ("memory",),
        memory,
    ),
    "floor": (
        "Against the floor",
        "A decode call has to read its weights. The floor is the time in which the same GPU moves that many bytes in a large copy\n"
        "on the device, bytes read and written counted. The second floor adds the KV cache: read once by the reference decoder; "
        "the\nsmall one reads it twice and writes it, since it returns a new cache.",
        ("latency-small", "latency-reference"),
        floor,
    ),
    "switching": (
        "Switching",
        "What selecting a profile costs per step, and when a profile pays for its switches.",
        ("latency-small", "latency-reference", "switching", "contexts"),
        switching,
    ),
    "overhead": (
        "What a call costs the host",
        "Our kernel's cost in each state, and process-wide profiling per format.",
        ("kernel", "profiling"),
        overhead,
    ),
    "growth": (
        "Growth",
        "1 to 16 profiles, 1 to 16 engines, 1 to 8 threads; kernel specialization none.",
        ("growth-profiles", "growth-engines", "growth-threads"),
        growth,
    ),
}
