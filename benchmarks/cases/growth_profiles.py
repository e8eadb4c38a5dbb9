"""1 to 16 profiles in one engine: build time, size of the plan, decode latency.

    PYTHONPATH=benchmarks python -m cases.growth_profiles --output growth_profiles.json

A stack of linear layers. The first profile is decode (one row), the others share out the larger row counts. The decode
latencies of all numbers of profiles are measured in turns.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from cases import timing
from cases.part import Part, parser
from cases.stacks import Range, compile_stack, export_stack, module_of

LAYERS, WIDTH, ROWS = 4, 2048, 1024
STRATEGY = "none"
COUNTS = (1, 2, 4, 8, 16)


def ranges(count: int) -> list[Range]:
    """``count`` profiles that together take 1 to :data:`ROWS` rows; a single one is tuned for the most rows."""
    if count == 1:
        return [(1, ROWS, ROWS)]
    steps = [1 + round(number * (ROWS - 1) / (count - 1)) for number in range(count)]
    return [(1, 1, 1), *((low + 1, high, high) for low, high in pairwise(steps))]


def main() -> None:
    arguments = parser(__doc__ or "").parse_args()
    timing.own_stream()
    part = Part("growth_profiles", arguments, strategy=STRATEGY, layers=LAYERS, width=WIDTH, rows_at_most=ROWS)
    with torch.inference_mode():
        exported = export_stack(LAYERS, WIDTH, ROWS, arguments.device)
        programs: dict[int, Any] = {}
        built: dict[int, dict[str, Any]] = {}
        for count in COUNTS:
            with part.attempt(f"{count} profiles"):
                start = time.perf_counter()
                programs[count] = compile_stack(exported, ranges(count), STRATEGY)
                built[count] = {
                    "build_seconds": round(time.perf_counter() - start, 2),
                    "plan_bytes": len(module_of(programs[count]).serialized_engine),
                }
                part.note(built=built)
        dtype = torch.float16 if arguments.device == "cuda" else torch.float32
        one = torch.randn(1, WIDTH, device=arguments.device, dtype=dtype)
        samples: dict[int, list[float]] = {count: [] for count in programs}
        timing.warm_up([partial(program, one) for program in programs.values()], 1.0)  # profile 0 is selected
        for _ in range(4):
            for count, program in programs.items():
                samples[count] += timing.latencies(partial(program, one), 25)
        for count, facts in built.items():
            part.add(kind="growth of profiles", profiles=count, **facts, samples_ms=samples[count])


if __name__ == "__main__":
    main()
