"""What a call costs while process-wide profiling is on, for each format, against the same engine with it off.

    PYTHONPATH=benchmarks python -m cases.profiling --output profiling.json

The states take turns (off, perfetto, off, trex). A change drops the execution context, so kernels are compiled anew
after it: the calls after a change are not counted. A sample is a row of calls, each waited for, since the profiler
waits too.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from cases import timing
from cases.part import Part, parser
from cases.stacks import compile_stack, export_stack

#: Layers and width.
SIZES = {"tiny": (1, 64), "large": (8, 4096)}
STRATEGY = "none"
STATES = ("off", "perfetto", "off", "trex")
CALLS = 20


def set_state(state: str, folder: str) -> None:
    ops = torch.ops.tensorrt
    if state == "off":
        ops.set_profile_execution(False)
        return
    ops.set_profile_path_prefix(folder)
    ops.set_profile_format(state)
    ops.set_profile_execution(True)


def measure(size: str, device: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds per call and state."""
    layers, width = SIZES[size]
    program = compile_stack(export_stack(layers, width, 16, device), [(1, 8, 16)], STRATEGY)
    x = torch.randn(8, width, device=device, dtype=torch.float16 if device == "cuda" else torch.float32)

    def call() -> None:
        program(x)
        timing.synchronize()

    def calls() -> None:
        for _ in range(CALLS):
            call()

    samples: dict[str, list[float]] = {state: [] for state in STATES}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for state in STATES:
                set_state(state, folder)
                timing.warm_up([call], 0.3)
                samples[state] += [round(timing.timed(calls) / CALLS, 5) for _ in range(5)]
        set_state("off", folder)
    return samples


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--rounds", type=int, default=2)
    arguments = made.parse_args()
    timing.own_stream()
    sizes = {name: dict(zip(("layers", "width"), size, strict=True)) for name, size in SIZES.items()}
    part = Part("profiling", arguments, strategy=STRATEGY, sizes=sizes, calls_per_sample=CALLS)
    with torch.inference_mode():
        for size in SIZES:
            with part.attempt(size):
                measured: dict[str, Any] = measure(size, arguments.device, arguments.rounds)
                for state, samples in measured.items():
                    part.add(kind="profiling", size=size, state=state, samples_ms=samples)


if __name__ == "__main__":
    main()
