#!/usr/bin/env python3
"""What our kernel costs the host per engine call, on a GPU: nanoseconds over stock Torch-TensorRT.

    python benchmarks/kernel_overhead.py --output benchmarks/results/kernel_overhead.json

"Stock" is a process of its own with TORCHTRT_PROFILES=0. Several processes of either kind run side by side and are
measured in turns (stock, ours, stock, ours), one at a time; between its turns a process waits. A turn is a row of
batches; a batch is a number of calls of torch.ops.tensorrt.execute_engine, timed as a whole with no synchronisation in
it, and few enough that the launch queue never fills. The engine is tiny, so that the host is what takes the time.

Between processes the cost of a launch differs by more than our kernel costs. So each state is also measured in one
process of ours, on one engine, batch by batch with our kernels taken out and put back (deactivate, activate):
differences of neighbouring batches.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import Any

from side_by_side import KINDS, Process, about, check_kind, headline, serve_requests, take_over_output, write

ONE, TWO = "one profile", "two profiles"
#: State and engine, in this order: each leaves both engines so that the next can be reached.
STATES = {
    "never configured": ONE,
    "never configured, two profiles": TWO,
    "path set only": ONE,
    "profiled once and off again": ONE,
    "on profile 1 of two": TWO,  # set through the engine, in stock as well
    "pinned to profile 1 of two": TWO,
}
PINNED = "pinned to profile 1 of two"


# A measured process


def compile_engines(strategy: str) -> dict[str, Any]:
    """Engines of one small layer, for an input of [8, 16]."""
    import torch
    import torch_tensorrt
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).eval().requires_grad_(False).cuda()
    example = torch.zeros(8, 16, device="cuda")
    # Both profiles hold the shape that is run, and are tuned for it: whichever is selected, the work is the same.
    ranges = [{"min_shape": (1, 16), "opt_shape": (8, 16), "max_shape": (extent, 16)} for extent in (16, 32)]
    programs = {
        ONE: (torch.export.export(model, (example,)), [example]),
        TWO: (
            torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=32)},)),
            [torch_tensorrt.Input(profiles=ranges, dtype=torch.float32)],
        ),
    }
    engines = {}
    for name, (program, inputs) in programs.items():
        compiled = torch_tensorrt.dynamo.compile(program, inputs=inputs, min_block_size=1)
        (module,) = [part for part in compiled.modules() if isinstance(part, TorchTensorRTModule)]
        module.runtime_settings = torch_tensorrt.runtime.RuntimeSettings(
            dynamic_shapes_kernel_specialization_strategy=strategy, runtime_cache=None
        )
        engines[name] = module.engine
    assert [int(engine.num_optimization_profiles) for engine in engines.values()] == [1, 2]
    return engines


def enter(state: str, kind: str, call: Any, ops: Any, engine: Any, folder: str) -> None:
    """Brings a process into a state."""
    if state == "on profile 1 of two":
        engine.set_active_profile(1)
    if kind == "stock":
        return
    if state == "path set only":
        ops.set_profile_path_prefix(folder)
    elif state == "profiled once and off again":
        ops.set_profile_execution(True)
        call()
        if not list(Path(folder).glob("*_engine_execution_profile.trace")):
            raise RuntimeError("the engine was not profiled, so this would measure something else")
        ops.set_profile_execution(False)
        call()
    elif state == PINNED:
        ops.set_active_profile(engine, 1)


def serve(kind: str, strategy: str) -> None:
    """A measured process: answers requests, one JSON line each, on what was its standard output."""
    answers = take_over_output()
    check_kind(kind)

    import torch

    ops = torch.ops.tensorrt
    engines = compile_engines(strategy)
    # A stream of our own: on the default one, Torch-TensorRT adds events to each call.
    torch.cuda.set_stream(torch.cuda.Stream())
    execute, inputs, synchronize = ops.execute_engine, [torch.randn(8, 16, device="cuda")], torch.cuda.synchronize
    clock = time.perf_counter_ns

    def measure(engine: Any, batches: int, calls: int) -> dict[str, list[float]]:
        samples, drains = [], []
        repeat = range(calls)
        for _ in range(batches):
            synchronize()
            start = clock()
            for _ in repeat:
                execute(inputs, engine)
            end = clock()
            synchronize()
            drains.append(clock() - end)
            samples.append(round((end - start) / calls, 1))
        return {"ns_per_call": samples, "drain_ns": drains}

    def measure_pairs(engine: Any, pairs: int, calls: int) -> list[list[float]]:
        from torch_tensorrt_profiles import _library

        measured = []
        for number in range(pairs):
            pair = {}
            for out in (number % 2 == 0, number % 2 == 1):
                (_library.deactivate if out else _library.activate)()
                measure(engine, 1, 5)  # the first calls after the change are not counted
                pair["stock" if out else "ours"] = measure(engine, 1, calls)["ns_per_call"][0]
            measured.append([pair["stock"], pair["ours"]])
        _library.activate()
        return measured

    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        for engine in engines.values():
            measure(engine, 20, 50)

        def answer(request: dict[str, Any]) -> Any:
            state, calls = request["state"], request["calls"]
            engine = engines[STATES[state]]
            if request["do"] == "enter":
                enter(state, kind, lambda: execute(inputs, engine), ops, engine, folder)
                return measure(engine, 5, calls)  # not counted
            if request["do"] == "pairs":
                return measure_pairs(engine, request["pairs"], calls)
            return measure(engine, request["batches"], calls)

        serve_requests(answers, answer)


# The process that measures the others


def summary_of_pairs(pairs: list[list[float]]) -> dict[str, Any]:
    differences = [ours - stock for stock, ours in pairs]
    low, median, high = statistics.quantiles(differences, n=4)
    return {
        "stock_ns": statistics.median(stock for stock, _ in pairs),
        "difference_ns": median,
        "quartiles_ns": [low, high],
        "samples_ns_per_call": pairs,  # stock, ours
    }


def summary(state: str, rounds: list[dict[str, list[list[float]]]]) -> dict[str, Any]:
    """Medians over all batches of all processes, and the difference of each round's medians."""
    samples = {kind: [value for turn in rounds for process in turn[kind] for value in process] for kind in KINDS}
    medians = [{kind: statistics.median(chain.from_iterable(turn[kind])) for kind in samples} for turn in rounds]
    differences = [median["ours"] - median["stock"] for median in medians]
    stock, ours = statistics.median(samples["stock"]), statistics.median(samples["ours"])
    return {
        "state": state,
        "stock_ns": stock,
        "ours_ns": ours,
        "difference_ns": ours - stock,
        "difference_of_rounds_ns": {
            "median": statistics.median(differences),
            "lowest": min(differences),
            "highest": max(differences),
        },
        "samples_ns_per_call": rounds,  # by round, kind and process
    }


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    started = time.monotonic()
    processes = [
        Process(__file__, kind, "--strategy", arguments.strategy) for _ in range(arguments.processes) for kind in KINDS
    ]
    try:
        said = [process.answer() for process in processes]
        print(f"{len(processes)} processes ready after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        drains: list[int] = []
        report: dict[str, Any] = {
            "benchmark": "kernel_overhead",
            **about(said[0]),
            "dynamic_shapes_kernel_specialization_strategy": arguments.strategy,
            "processes_of_each_kind": arguments.processes,
            "calls_per_batch": arguments.calls,
            "batches_per_turn": arguments.batches,
            "results": [],
        }
        for state in STATES:
            for process in processes:
                process.ask(do="enter", state=state, calls=arguments.calls)
            rounds: list[dict[str, list[list[float]]]] = []
            deadline = time.monotonic() + arguments.seconds / len(STATES)
            while len(rounds) < 3 or time.monotonic() < deadline:
                turn: dict[str, list[list[float]]] = {"stock": [], "ours": []}
                for process in processes:  # stock, ours, stock, ours
                    measured = process.ask(do="measure", state=state, batches=arguments.batches, calls=arguments.calls)
                    turn[process.kind].append(measured["ns_per_call"])
                    drains += measured["drain_ns"]
                rounds.append(turn)
            ours = next(process for process in processes if process.kind == "ours")
            pairs = ours.ask(do="pairs", state=state, pairs=arguments.pairs, calls=arguments.calls)
            report["results"].append({**summary(state, rounds), "in_one_process": summary_of_pairs(pairs)})
            # How long the GPU was behind at the end of a batch: small, or the queue and not the host was measured.
            report["median_drain_ns"] = statistics.median(drains)
            report["seconds"] = round(time.monotonic() - started, 1)
            write(report, arguments.output)  # each time, so that a run that is cut off loses only the rest
    finally:
        for process in processes:
            process.close()
    return report


def table(report: dict[str, Any]) -> str:
    lines = [
        headline(report),
        f"{'ns per call, medians':<32}{'stock':>10}{'ours':>10}{'difference':>12}   in one process (quartiles)",
    ]
    for result in report["results"]:
        paired = result["in_one_process"]
        low, high = paired["quartiles_ns"]
        lines.append(
            f"{result['state']:<32}{result['stock_ns']:>10.0f}{result['ours_ns']:>10.0f}{result['difference_ns']:>+12.0f}"
            f"   {paired['difference_ns']:+.0f} ({low:+.0f} .. {high:+.0f})"
        )
    lines.append(f"the GPU was {report['median_drain_ns'] / 1000:.0f} us behind at the end of a batch (median)")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="JSON file for the result, all samples included")
    parser.add_argument("--seconds", type=float, default=28, help="time for measuring, start-up not included")
    parser.add_argument("--processes", type=int, default=2, help="processes of each kind")
    parser.add_argument("--calls", type=int, default=100, help="calls per batch")
    parser.add_argument("--batches", type=int, default=25, help="batches per turn")
    parser.add_argument("--pairs", type=int, default=200, help="pairs of batches in one process, per state")
    parser.add_argument("--strategy", default="lazy", choices=("lazy", "eager", "none"), help="kernel specialization")
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.strategy)
        return
    print(table(run(arguments)))


if __name__ == "__main__":
    main()
