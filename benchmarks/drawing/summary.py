"""What stands out, in sentences whose figures come from the results. The README quotes the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cases.names import COMPILED, CONTEXTS, EAGER, ENGINES, ONE, ONNX, TWO

from drawing.results import Results, distinct
from drawing.words import compared, megabytes, number, table

#: Of the decoders, where it was measured.
STRATEGY = "lazy"
#: What was aimed at: microseconds of a block, of our kernel, and what two calls in turns take over the bare ones' sum.
BLOCK_AIM_US, KERNEL_AIM_US, IN_TURNS_AIM = 5, 1, 1.03


def summary(results: Results) -> str:
    said = [headline(results), first_calls(results), plans(results), memory(results), generation(results)]
    said += [blocks(results), in_turns(results), threads(results), kernel(results), profiling(results)]
    sentences = "\n".join(f"- {sentence}" for sentence in said if sentence)
    return "\n\n".join(part for part in (latency(results), sentences) if part)


def headline(results: Results) -> str:
    """Empty until everything that it names was measured."""
    facts = results.decoders().get("reference")
    rows = [decoder_rows(results, "reference", "decode", graphs) for graphs in (True, False)]
    ours = {TWO, ONE, ENGINES}
    if facts is None or not (ours | {ONNX, EAGER, COMPILED} <= rows[0].keys() and ours <= rows[1].keys()):
        return ""
    within, without = ({name: number(row["median_ms"]) for name, row in found.items()} for found in rows)
    return (
        f"A decode call of a decoder with {facts['layers']} layers of {facts['hidden']} (batch {facts['batch']}, KV "
        f"length {facts['kv_length']}, {facts['dtype']}) takes {within[TWO]} ms with a decode profile of its own, "
        f"{within[ONE]} ms in an engine tuned for prefill alone, and {within[ENGINES]} ms in an engine of "
        f"its own, which has the weights once more; that is within CUDA graphs, without them {without[TWO]}, "
        f"{without[ONE]} and {without[ENGINES]} ms. {alike(*rows)}Not everything is better: an engine that "
        f"TensorRT-RTX builds from ONNX takes {within[ONNX]} ms, eager PyTorch {within[EAGER]} ms and torch.compile "
        f"{within[COMPILED]} ms."
    )


def alike(within: dict[str, dict[str, Any]], without: dict[str, dict[str, Any]]) -> str:
    """Where a profile of its own and an engine of its own are not told apart, a sentence that says so."""
    where = [
        name
        for name, found in (("within", within), ("without", without))
        if not compared(found[TWO], found[ENGINES], "ms", "it").startswith(("better", "**worse"))
    ]
    if not where:
        return ""
    return f"The first and the third, {' and '.join(where)} CUDA graphs, are not told apart. "


def decoder_rows(results: Results, model: str, phase: str, graphs: bool) -> dict[str, dict[str, Any]]:
    return results.by_contender("latency", model=model, phase=phase, strategy=STRATEGY, cuda_graphs=graphs)


def latency(results: Results) -> str:
    """Of each contender, within CUDA graphs and without them."""
    models = distinct(row["model"] for row in results.rows("latency"))
    columns = {
        f"{model}, {phase}": [decoder_rows(results, model, phase, graphs) for graphs in (True, False)]
        for model in models
        for phase in ("decode", "prefill")
    }
    contenders = distinct(contender for pair in columns.values() for found in pair for contender in found)
    lines = [
        [
            name,
            *(
                " / ".join(number(found[name]["median_ms"]) if name in found else "-" for found in pair)
                for pair in columns.values()
            ),
        ]
        for name in contenders
    ]
    if not lines:
        return ""
    head = table(["ms per call, within CUDA graphs / without", *columns], lines)
    return (
        f"{head}\n\nWhat PyTorch and an engine from ONNX gain or lose is not a matter of profiles: compare them with "
        f"{ENGINES}. torch.compile was measured after the others, [beside {TWO} again](latency.md)."
    )


def first_calls(results: Results) -> str:
    parts = []
    for model in distinct(row["model"] for row in results.rows("first call")):
        for phase in ("decode", "prefill"):
            fresh, kept = (
                [
                    sample
                    for row in results.rows("first call", model=model, phase=phase, cache=cache)
                    for sample in row["samples_ms"]
                ]
                for cache in ("none", "kept")
            )
            if fresh and kept:
                parts.append(f"{model} decoder, {phase} {span(fresh)}, with a runtime cache {span(kept)}")
    return listed("First calls, ms (the decode profile has fixed shapes)", parts)


def plans(results: Results) -> str:
    parts = []
    for model in results.decoders():
        built = {each["contender"]: each["plan_bytes"] for each in results.result(f"latency-{model}").get("built", [])}
        parts += [f"{model} decoder, {name} {megabytes(sum(built[name]))}" for name in (TWO, ENGINES) if name in built]
    return listed("Plans, MB (a fixed-shape profile may bring a second layout of weights)", parts)


def memory(results: Results) -> str:
    parts = [f"{decoder_of(row)} {megabytes(row['median_bytes'])}" for row in results.rows("memory")]
    return listed("Device memory, MB", parts)


def generation(results: Results) -> str:
    parts = [
        f"{decoder_of(row)} {number(row['median_tokens_per_second'])} ({number(row['first_token_median_ms'])})"
        for row in results.rows("generation")
    ]
    return listed("Tokens per second with mixed prompts (ms to the first token)", parts)


def decoder_of(row: dict[str, Any]) -> str:
    return f"{row['model']} decoder, {row['contender']}"


def blocks(results: Results) -> str:
    rows = [row for row in results.result("switching").get("results", []) if row["scenario"] == "block per decode step"]
    parts = [
        f"{sized(row)} {number(row['ours']['over_bare_us'])} (stock {number(row['stock']['over_bare_us'])})"
        for row in rows
    ]
    return listed(f"A block per decode step adds, us (the aim was {BLOCK_AIM_US})", parts)


def in_turns(results: Results) -> str:
    parts = []
    for row in results.result("contexts").get("results", []):
        ratio = row["ratio_to_bare_sum"]
        one, several = ratio["one context, in turns"], ratio["context per profile, in turns"]
        parts.append(f"{sized(row)} {several:.2f} ({one:.2f})")
    what = "Prefill and decode in turns with a context per profile (with one context), over the sum of the bare calls"
    return listed(f"{what}; the aim was {IN_TURNS_AIM}", parts)


def sized(row: dict[str, Any]) -> str:
    return f"{row['size']} engine{' within CUDA graphs' if row['cuda_graphs'] else ''}"


def threads(results: Results) -> str:
    calls = {
        (row["threads"], row["contender"] == CONTEXTS): number(row["median_calls_per_second"])
        for row in results.rows("growth of threads")
    }
    counts = distinct(count for count, _ in calls)
    parts = [
        f"{count} thread{'s' if count > 1 else ''} {calls.get((count, True), '-')} ({calls.get((count, False), '-')})"
        for count in counts
    ]
    what = (
        "Calls per second of threads on different profiles of one engine, with a context per profile (with one context)"
    )
    return listed(what, parts)


def kernel(results: Results) -> str:
    parts = [
        f"{row['state']} {row['in_one_process']['difference_ns'] / 1e3:+.2f}"
        for row in results.result("kernel").get("results", [])
    ]
    return listed(f"Our kernel adds to a call, us (the aim was {KERNEL_AIM_US})", parts)


def profiling(results: Results) -> str:
    rows = list(results.rows("profiling"))
    off = {row["size"]: row["median_ms"] for row in rows if row["state"] == "off"}
    parts = [
        f"{row['median_ms'] / off[row['size']]:.0f} ({row['size']} engine, {row['state']})"
        for row in rows
        if row["state"] != "off"
    ]
    return listed("A profiled call takes as many times as long", parts)


def listed(what: str, parts: Sequence[str]) -> str:
    return f"{what}: {'; '.join(parts)}." if parts else ""


def span(values: Sequence[float]) -> str:
    return f"{number(min(values))} to {number(max(values))}"
