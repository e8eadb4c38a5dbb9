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
import contextlib
import gc
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import Any

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


def enter(state: str, kind: str, call: Any, ops: Any, engine: Any, folder: str) -> bool:
    """Brings a process into a state. False where it has no such state."""
    if state == "on profile 1 of two":
        engine.set_active_profile(1)
    if kind == "stock":
        return True
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
        if not hasattr(ops, "set_active_profile"):
            return False
        ops.set_active_profile(engine, 1)
    return True


def serve(kind: str, strategy: str) -> None:
    """A measured process: answers requests, one JSON line each, on what was its standard output."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed must not get between the answers

    import torch
    import torch_tensorrt

    ops = torch.ops.tensorrt
    ours = hasattr(ops, "set_profile_execution")
    if ours != (kind == "ours"):
        raise RuntimeError(f"a process that is to be {kind} has torch-tensorrt-profiles {'on' if ours else 'off'}")
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
        gc.collect()
        gc.freeze()
        gc.disable()
        about = {
            "gpu": torch.cuda.get_device_name(),
            "compute_capability": ".".join(map(str, torch.cuda.get_device_capability())),
            "torch": torch.__version__,
            "torch_tensorrt": torch_tensorrt.__version__,
            "tensorrt": getattr(sys.modules.get("tensorrt"), "__version__", None),
            "cuda": torch.version.cuda,
            "python": platform.python_version(),
        }
        print(json.dumps(about), file=answers)
        for line in sys.stdin:
            request = json.loads(line)
            state, calls = request["state"], request["calls"]
            engine = engines[STATES[state]]
            if request["do"] == "enter":
                answer: Any = enter(state, kind, lambda e=engine: execute(inputs, e), ops, engine, folder)
                measure(engine, 5, calls)  # not counted
            elif request["do"] == "pairs":
                answer = measure_pairs(engine, request["pairs"], calls)
            else:
                answer = measure(engine, request["batches"], calls)
            print(json.dumps(answer), file=answers)


# The process that measures the others


class Process:
    def __init__(self, kind: str, strategy: str) -> None:
        environment = {**os.environ, "TORCHTRT_PROFILES": "0" if kind == "stock" else "1"}
        self.kind = kind
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115, it is the child's
        self._child = subprocess.Popen(
            [sys.executable, __file__, "--serve", kind, "--strategy", strategy],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            bufsize=1,
        )

    def answer(self) -> Any:
        line = self._child.stdout.readline()
        if not line:
            self._child.wait()
            self._log.seek(0)
            raise SystemExit(f"a {self.kind} process ended with {self._child.returncode}:\n{self._log.read()[-6000:]}")
        return json.loads(line)

    def ask(self, **request: Any) -> Any:
        with contextlib.suppress(BrokenPipeError):  # answer() says why
            print(json.dumps(request), file=self._child.stdin, flush=True)
        return self.answer()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.close()
        try:
            self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def output_of(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def git_revision() -> str | None:
    folder = str(Path(__file__).resolve().parent)
    revision = output_of("git", "-C", folder, "rev-parse", "HEAD")
    if revision and output_of("git", "-C", folder, "status", "--porcelain", "--untracked-files=no"):
        revision += " (changed)"
    return os.environ.get("GIT_REVISION") or revision


def driver_version() -> str | None:
    said = output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    if said:
        return said.splitlines()[0]
    file = Path("/proc/driver/nvidia/version")
    return file.read_text().splitlines()[0] if file.is_file() else None


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
    samples = {
        kind: [value for turn in rounds for process in turn[kind] for value in process] for kind in ("stock", "ours")
    }
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
    processes = [Process(kind, arguments.strategy) for _ in range(arguments.processes) for kind in ("stock", "ours")]
    try:
        about = [process.answer() for process in processes]
        print(f"{len(processes)} processes ready after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        results, left_out, drains = [], [], []
        for state in STATES:
            there = [process.ask(do="enter", state=state, calls=arguments.calls) for process in processes]
            if not all(there):
                left_out.append(state)
                continue
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
            results.append({**summary(state, rounds), "in_one_process": summary_of_pairs(pairs)})
    finally:
        for process in processes:
            process.close()
    return {
        "benchmark": "kernel_overhead",
        **about[0],
        "driver": driver_version(),
        "cpu": next(
            (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").open() if line.startswith("model name")),
            None,
        ),
        "revision": git_revision(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "dynamic_shapes_kernel_specialization_strategy": arguments.strategy,
        "processes_of_each_kind": arguments.processes,
        "calls_per_batch": arguments.calls,
        "batches_per_turn": arguments.batches,
        # How long the GPU was behind at the end of a batch: small, or the queue and not the host was measured.
        "median_drain_ns": statistics.median(drains),
        "seconds": round(time.monotonic() - started, 1),
        "left_out": left_out,
        "results": results,
    }


def table(report: dict[str, Any]) -> str:
    lines = [
        f"{report['gpu']}, driver {report['driver']}, revision {report['revision']}",
        f"torch {report['torch']}, Torch-TensorRT {report['torch_tensorrt']}, TensorRT {report['tensorrt']}, kernel "
        f"specialization {report['dynamic_shapes_kernel_specialization_strategy']!r}",
        f"{'ns per call, medians':<32}{'stock':>10}{'ours':>10}{'difference':>12}   in one process (quartiles)",
    ]
    for result in report["results"]:
        paired = result["in_one_process"]
        low, high = paired["quartiles_ns"]
        lines.append(
            f"{result['state']:<32}{result['stock_ns']:>10.0f}{result['ours_ns']:>10.0f}{result['difference_ns']:>+12.0f}"
            f"   {paired['difference_ns']:+.0f} ({low:+.0f} .. {high:+.0f})"
        )
    for state in report["left_out"]:
        why = "this version has no operator set_active_profile" if state == PINNED else "it cannot be reached"
        lines.append(f"{state:<32}left out: {why}")
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
    parser.add_argument("--serve", choices=("stock", "ours"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve, arguments.strategy)
        return
    report = run(arguments)
    if arguments.output:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        # A batch row on a line, not a sample.
        text = re.sub(
            r"\[\s+([-\d.,\s]+?)\s+\]", lambda row: f"[{' '.join(row[1].split())}]", json.dumps(report, indent=1)
        )
        arguments.output.write_text(text + "\n")
    print(table(report))


if __name__ == "__main__":
    main()
