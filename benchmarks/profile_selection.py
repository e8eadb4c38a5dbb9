#!/usr/bin/env python3
"""What selecting a profile costs, on a GPU: a block per decode step and its parts, and prefill and decode in turns.

    python benchmarks/profile_selection.py --output benchmarks/results/profile_selection.json

"Stock" is a process of its own with TORCHTRT_PROFILES=0; the processes are measured in turns (stock, ours, stock,
ours). Profiles are selected by index, which both know. In each process a scenario's batches and those of the bare calls
alternate, and the figure is the median of the differences of neighbours. A batch is a row of calls, timed until the GPU
has finished.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from side_by_side import KINDS, Process, about, check_kind, headline, serve_requests, take_over_output, write

PREFILL, DECODE = 0, 1
#: Layers, width and prompt length of a stack of linear layers in half precision.
SIZES = {"tiny": (1, 64, 16), "large": (8, 4096, 512)}
#: Of a batch.
CALLS = {"tiny": 100, "large": 20}
#: Before each batch: TensorRT-RTX specialises kernels behind the first calls after a switch.
WARM_UP_CALLS = 20
#: The first two are parts of the third: what a call inside of a block costs more, and the block itself.
SCENARIOS = (
    "one block around decode steps",
    "blocks without a call",
    "block per decode step",
    "prefill and decode in turns",
)


def compile_program(layers: int, width: int, prompt: int, strategy: str, graphs: bool) -> Any:
    import torch
    import torch_tensorrt
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    torch.manual_seed(0)
    stack = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(layers)]
    model = torch.nn.Sequential(*stack).eval().half().cuda().requires_grad_(False)
    example = torch.zeros(8, width, dtype=torch.float16, device="cuda")
    exported = torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=prompt)},))
    ranges = [
        {"min_shape": (2, width), "opt_shape": (prompt, width), "max_shape": (prompt, width)},
        {"min_shape": (1, width), "opt_shape": (1, width), "max_shape": (1, width)},
    ]
    inputs = [torch_tensorrt.Input(profiles=ranges, dtype=torch.float16)]
    program = torch_tensorrt.dynamo.compile(exported, inputs=inputs, min_block_size=1)
    (module,) = [part for part in program.modules() if isinstance(part, TorchTensorRTModule)]
    settings = {"cuda_graph_strategy": "whole_graph_capture"} if graphs else {}
    module.runtime_settings = torch_tensorrt.runtime.RuntimeSettings(
        dynamic_shapes_kernel_specialization_strategy=strategy, runtime_cache=None, **settings
    )
    torch_tensorrt.runtime.set_cudagraphs_mode(graphs)
    return program, module.engine


def serve(kind: str, size: str, strategy: str, graphs: bool) -> None:
    answers = take_over_output()
    check_kind(kind)

    import torch
    from torch_tensorrt.runtime import optimization_profile

    layers, width, prompt = SIZES[size]
    program, engine = compile_program(layers, width, prompt, strategy, graphs)
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    many = torch.randn(prompt, width, dtype=torch.float16, device="cuda")
    one = torch.randn(1, width, dtype=torch.float16, device="cuda")

    def bare_decode(calls: int) -> None:
        for _ in range(calls):
            program(one)

    def bare_prefill(calls: int) -> None:
        for _ in range(calls):
            program(many)

    def one_block(calls: int) -> None:
        with optimization_profile(program, DECODE):
            for _ in range(calls):
                program(one)

    def empty_blocks(calls: int) -> None:
        for _ in range(calls):
            with optimization_profile(program, DECODE):
                pass

    def block_per_step(calls: int) -> None:
        for _ in range(calls):
            with optimization_profile(program, DECODE):
                program(one)

    def in_turns(calls: int) -> None:
        for _ in range(calls):
            with optimization_profile(program, PREFILL):
                program(many)
            with optimization_profile(program, DECODE):
                program(one)

    def timed(run: Any, calls: int) -> float:
        run(WARM_UP_CALLS)
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        run(calls)
        torch.cuda.synchronize()
        return round((time.perf_counter_ns() - start) / calls / 1000, 3)

    # The bare calls that a scenario is compared with, and the scenario.
    runs = dict(
        zip(
            SCENARIOS,
            (
                ({DECODE: bare_decode}, one_block),
                ({}, empty_blocks),
                ({DECODE: bare_decode}, block_per_step),
                ({DECODE: bare_decode, PREFILL: bare_prefill}, in_turns),
            ),
            strict=True,
        )
    )

    def answer(request: dict[str, Any]) -> Any:
        samples = []
        bare_runs, run = runs[request["scenario"]]
        for _ in range(request["pairs"]):
            bare = 0.0
            for index, bare_run in bare_runs.items():
                engine.set_active_profile(index)
                bare += timed(bare_run, request["calls"])
            engine.set_active_profile(PREFILL)
            samples.append([round(bare, 3), timed(run, request["calls"])])
        return samples

    with torch.inference_mode():
        serve_requests(answers, answer)


def measure(arguments: argparse.Namespace, size: str, graphs: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    options = ["--size", size, "--strategy", arguments.strategy, *(["--graphs"] if graphs else [])]
    processes = [Process(__file__, kind, *options) for kind in KINDS]
    results = []
    try:
        said = [process.answer() for process in processes]
        for scenario in SCENARIOS:
            samples: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
            for _ in range(arguments.rounds):
                for process in processes:
                    samples[process.kind] += process.ask(scenario=scenario, pairs=arguments.pairs, calls=CALLS[size])
            result: dict[str, Any] = {"size": size, "cuda_graphs": graphs, "scenario": scenario}
            for kind, pairs in samples.items():
                result[kind] = {
                    "bare_us": statistics.median(bare for bare, _ in pairs),
                    "over_bare_us": statistics.median(measured - bare for bare, measured in pairs),
                    "samples_us": pairs,  # bare, measured
                }
            results.append(result)
    finally:
        for process in processes:
            process.close()
    return said[0], results


def report_of(
    benchmark: str,
    said: dict[str, Any],
    strategy: str,
    sizes: dict[str, tuple[int, int, int]],
    calls: dict[str, int],
    results: list[dict[str, Any]],
) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        **about(said),
        "dynamic_shapes_kernel_specialization_strategy": strategy,
        "sizes": {name: dict(zip(("layers", "width", "prompt"), of, strict=True)) for name, of in sizes.items()},
        "calls_per_batch": calls,
        "warm_up_calls": WARM_UP_CALLS,
        "results": results,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="JSON file for the result, all samples included")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each process")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of batches per turn")
    parser.add_argument("--strategy", default="lazy", choices=("lazy", "eager", "none"), help="kernel specialization")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--size", choices=tuple(SIZES), help=argparse.SUPPRESS)
    parser.add_argument("--graphs", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.size, arguments.strategy, arguments.graphs)
        return
    started = time.monotonic()
    results: list[dict[str, Any]] = []
    for size in SIZES:
        for graphs in (False, True):
            said, measured = measure(arguments, size, graphs)
            results += measured
            print(f"{size}, graphs {graphs}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
            report = report_of("profile_selection", said, arguments.strategy, SIZES, CALLS, results)
            write(report, arguments.output)  # each time, so that a run that is cut off loses only the rest
    print(headline(report))
    print(f"{'us per step, medians':<50}{'stock: bare':>14}{'over it':>10}{'ours: bare':>14}{'over it':>10}")
    for result in results:
        title = f"{result['size']}, {'with' if result['cuda_graphs'] else 'no'} graphs, {result['scenario']}"
        stock, ours = result["stock"], result["ours"]
        print(
            f"{title:<50}{stock['bare_us']:>14.1f}{stock['over_bare_us']:>+10.1f}{ours['bare_us']:>14.1f}"
            f"{ours['over_bare_us']:>+10.1f}"
        )


if __name__ == "__main__":
    main()
