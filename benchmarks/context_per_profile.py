#!/usr/bin/env python3
"""Prefill and decode in turns on a GPU: bare calls, one context that switches, and a context per profile.

    python benchmarks/context_per_profile.py --output benchmarks/results/context_per_profile.json

One process per size, with two engines of the same plan: one has a single context, the other a context per profile. The
scenarios are measured in turns, batch by batch. The bare sum is a batch of prefills and a batch of decodes, each on an
engine that is set to the profile, without a block; the figure of a scenario is the median of its ratios to the bare sum
of the same turn. "Side by side" is two threads, each with a stream of its own and one of the two calls. A batch is a
row of calls, timed until the GPU has finished. Device memory is what is free on the device, so nobody else may use it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

import profile_selection
from side_by_side import Process, check_kind, headline, serve_requests, take_over_output, write

PREFILL, DECODE = profile_selection.PREFILL, profile_selection.DECODE
#: Layers, width and prompt length, as there; the last has 1 GiB of weights.
SIZES = {**profile_selection.SIZES, "1 GiB": (8, 8192, 512)}
CALLS = {**profile_selection.CALLS, "1 GiB": 20}
BARE = "bare sum"
SCENARIOS = (
    "one context, in turns",
    "context per profile, in turns",
    "one context, side by side",
    "context per profile, side by side",
)


def serve(size: str, strategy: str, graphs: bool) -> None:
    answers = take_over_output()
    check_kind("ours")

    import torch
    from cases.timing import device_bytes_taken
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
    from torch_tensorrt.runtime import context_per_profile, optimization_profile

    layers, width, prompt = SIZES[size]
    many = torch.randn(prompt, width, dtype=torch.float16, device="cuda")
    one = torch.randn(1, width, dtype=torch.float16, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.set_stream(streams[0])

    def call(program: Any, index: int) -> None:
        with optimization_profile(program, index):
            program(many if index == PREFILL else one)

    def in_turns(program: Any, calls: int) -> None:
        for _ in range(calls):
            call(program, PREFILL)
            call(program, DECODE)

    def side_by_side(program: Any, calls: int) -> None:
        def work(index: int) -> None:
            with torch.inference_mode(), torch.cuda.stream(streams[index]):
                for _ in range(calls):
                    call(program, index)

        threads = [threading.Thread(target=work, args=(index,)) for index in (PREFILL, DECODE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def bare(module: Any, x: Any, calls: int) -> None:
        for _ in range(calls):
            module(x)

    def timed(run: Any, *arguments: Any) -> float:
        run(*arguments[:-1], profile_selection.WARM_UP_CALLS)
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        run(*arguments)
        torch.cuda.synchronize()
        return round((time.perf_counter_ns() - start) / arguments[-1] / 1000, 3)

    program, _ = profile_selection.compile_program(layers, width, prompt, strategy, graphs)
    (module,) = [part for part in program.modules() if isinstance(part, TorchTensorRTModule)]
    single = torch.nn.Sequential(module)
    with torch.inference_mode():
        in_turns(single, 3)
        module.engine = None
        start = device_bytes_taken()
        module.setup_engine()
        in_turns(single, 3)
        memory = {"one_context_bytes": device_bytes_taken() - start}
        # A second program over the same plan, with an engine of its own.
        again = TorchTensorRTModule()
        again.set_extra_state(module.get_extra_state())
        again.runtime_settings = module.runtime_settings
        several = torch.nn.Sequential(again)
        made = context_per_profile(several)
        in_turns(several, 3)
        memory["second_context_bytes"] = made.engines[0].device_bytes
        memory["peak_while_made_bytes"] = made.engines[0].peak_device_bytes
        memory["plan_bytes"] = made.engines[0].plan_bytes

        def turn(calls: int) -> dict[str, float]:
            sums = 0.0
            for index, x in ((PREFILL, many), (DECODE, one)):
                module.engine.set_active_profile(index)
                sums += timed(bare, single, x, calls)
            module.engine.set_active_profile(PREFILL)
            figures = [timed(run, program, calls) for run in (in_turns, side_by_side) for program in (single, several)]
            return {BARE: round(sums, 3), **dict(zip(SCENARIOS, figures, strict=True))}

        def answer(request: dict[str, Any]) -> Any:
            if request["do"] == "memory":
                return memory
            before = [dict(torch.ops.tensorrt.get_profile_counters(each.engine)) for each in (module, again)]
            turns = [turn(request["calls"]) for _ in range(request["turns"])]
            after = [dict(torch.ops.tensorrt.get_profile_counters(each.engine)) for each in (module, again)]
            if after[1]["switches"] != before[1]["switches"]:
                raise RuntimeError("the engine with a context per profile switched, so this measured something else")
            return {"turns": turns, "switches_of_one_context": after[0]["switches"] - before[0]["switches"]}

        serve_requests(answers, answer)


def measure(arguments: argparse.Namespace, size: str, graphs: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    options = ["--size", size, "--strategy", arguments.strategy, *(["--graphs"] if graphs else [])]
    process = Process(__file__, "ours", *options)
    try:
        said = process.answer()
        memory = process.ask(do="memory")
        measured = process.ask(do="measure", turns=arguments.turns, calls=CALLS[size])
    finally:
        process.close()
    samples = {name: [turn[name] for turn in measured["turns"]] for name in (BARE, *SCENARIOS)}
    return said, {
        "size": size,
        "cuda_graphs": graphs,
        "medians_us": {name: statistics.median(values) for name, values in samples.items()},
        "ratio_to_bare_sum": {
            name: statistics.median(value / bare for value, bare in zip(samples[name], samples[BARE], strict=True))
            for name in SCENARIOS
        },
        "switches_of_one_context": measured["switches_of_one_context"],
        "memory": memory,
        "samples_us": samples,
    }


def print_result(result: dict[str, Any]) -> None:
    medians, ratios, memory = result["medians_us"], result["ratio_to_bare_sum"], result["memory"]
    title = f"{result['size']}, {'with' if result['cuda_graphs'] else 'no'} graphs, us per prefill and decode, medians"
    print(f"{title}: {BARE} {medians[BARE]:.1f}", flush=True)
    for name in SCENARIOS:
        print(f"  {name:<36}{medians[name]:>10.1f}  x{ratios[name]:.3f}", flush=True)
    for name, value in memory.items():
        print(f"  {name:<36}{'unknown' if value is None else f'{value / 1e6:>10.1f}  MB'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="JSON file for the result, all samples included")
    parser.add_argument("--turns", type=int, default=30, help="how often each scenario is measured")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=tuple(SIZES))
    parser.add_argument("--strategy", default="lazy", choices=("lazy", "eager", "none"), help="kernel specialization")
    parser.add_argument("--serve", choices=("ours",), help=argparse.SUPPRESS)
    parser.add_argument("--size", choices=tuple(SIZES), help=argparse.SUPPRESS)
    parser.add_argument("--graphs", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.size, arguments.strategy, arguments.graphs)
        return
    started = time.monotonic()
    results: list[dict[str, Any]] = []
    for size in arguments.sizes:
        for graphs in (False, True):
            said, result = measure(arguments, size, graphs)
            results.append(result)
            print(f"{size}, graphs {graphs}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
            print_result(result)
            report = profile_selection.report_of("context_per_profile", said, arguments.strategy, SIZES, CALLS, results)
            write(report, arguments.output)  # each time, so that a run that is cut off loses only the rest
    print(headline(report))


if __name__ == "__main__":
    main()
