"""1 to 16 engines in one process: device memory, and what switching profiling on and off costs all of them.

    PYTHONPATH=benchmarks python -m cases.growth_engines --output growth_engines.json

Engines of one plan, each with two profiles. Toggling is timed from the setter to the end of one call of every engine,
and set against the same calls without a change; the calls of a changed engine make its execution context anew.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from cases import timing
from cases.part import Part, parser
from cases.profiling import set_state
from cases.stacks import compile_stack, export_stack, module_of

LAYERS, WIDTH, ROWS = 4, 1024, 64
STRATEGY = "none"
COUNTS = (1, 2, 4, 8, 16)
ROUNDS = 2


def another(module: Any) -> Any:
    """A module with an engine of its own, made from the same plan."""
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    made = TorchTensorRTModule()
    made.set_extra_state(module.get_extra_state())
    made.runtime_settings = module.runtime_settings
    return made


def main() -> None:
    arguments = parser(__doc__ or "").parse_args()
    timing.own_stream()
    part = Part("growth_engines", arguments, strategy=STRATEGY, layers=LAYERS, width=WIDTH)
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        dtype = torch.float16 if arguments.device == "cuda" else torch.float32
        exported = export_stack(LAYERS, WIDTH, ROWS, arguments.device)
        first = module_of(compile_stack(exported, [(1, 1, 1), (2, ROWS, ROWS)], STRATEGY))
        x = torch.randn(1, WIDTH, device=arguments.device, dtype=dtype)
        first(x)
        modules = [first]

        def call_all() -> None:
            for module in modules:
                module(x)

        def toggled(state: str) -> float:
            def change() -> None:
                set_state(state, folder)
                call_all()

            return timing.timed(change)

        before = timing.device_bytes_taken()
        for count in COUNTS:
            while len(modules) < count:
                modules.append(another(first))
            call_all()
            taken = timing.device_bytes_taken() - before
            samples: dict[str, list[float]] = {"calls_samples_ms": [], "on_samples_ms": [], "off_samples_ms": []}
            for _ in range(ROUNDS):
                call_all()
                samples["calls_samples_ms"].append(timing.timed(call_all))
                samples["on_samples_ms"].append(toggled("perfetto"))
                samples["off_samples_ms"].append(toggled("off"))
            part.add(kind="growth of engines", engines=count, device_bytes_over_the_first=taken, **samples)


if __name__ == "__main__":
    main()
