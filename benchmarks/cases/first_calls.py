"""First calls of a named profile, without a runtime cache and with one that an earlier engine filled.

    PYTHONPATH=benchmarks python -m cases.first_calls --output first_calls.json

TensorRT-RTX compiles kernels at first calls, and keeps what it compiled in a runtime cache if an engine has one.
Torch-TensorRT gives a program that was compiled in this process one; a loaded program has none. Each sample is the
first call of its phase on an engine that was made anew from the plan; the cache is given as bytes, as from a file.
"""

from __future__ import annotations

import io
from typing import Any

import torch

from cases import timing
from cases.contenders import PHASES, Engines, two_profiles
from cases.decoders import SIZES, Decoder, make_decoder
from cases.latency import check, first_call
from cases.names import TWO
from cases.part import Part, parser

STRATEGIES = ("lazy", "none", "eager")
STARTS = 3


def first_calls(decoder: Decoder, contender: Engines, strategy: str, cache: Any) -> dict[str, float]:
    """Milliseconds of each phase's first call, on a new engine with this cache."""
    contender.start(strategy, False, cache)
    return {
        phase: first_call(contender, phase, decoder.inputs(decoder.prefill if phase == "prefill" else 1))
        for phase in PHASES
    }


def measure(decoder: Decoder, contender: Engines, strategy: str, part: Part) -> None:
    from torch_tensorrt.runtime import RuntimeCache

    taken: dict[str, list[dict[str, float]]] = {"none": [], "kept": []}
    filling = RuntimeCache()
    first_calls(decoder, contender, strategy, filling)
    kept = io.BytesIO()
    filling.save_to_stream(kept)
    for _ in range(STARTS):
        taken["none"].append(first_calls(decoder, contender, strategy, None))
        cache = RuntimeCache()
        cache.load_from_stream(io.BytesIO(kept.getvalue()))
        taken["kept"].append(first_calls(decoder, contender, strategy, cache))
    inputs = decoder.inputs(1)
    check(contender, "decode", inputs, decoder.module(*inputs)[0])
    for name, samples in taken.items():
        for phase in PHASES:
            part.add(
                kind="first call",
                model=decoder.name,
                strategy=strategy,
                phase=phase,
                contender=TWO,
                cache=name,
                cache_bytes=len(kept.getvalue()),
                samples_ms=[sample[phase] for sample in samples],
            )


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--model", default="small", choices=tuple(SIZES))
    arguments = made.parse_args()
    timing.own_stream()
    decoder = make_decoder(arguments.model, arguments.device)
    part = Part("first_calls", arguments, decoder=decoder.facts(), starts=STARTS)
    with torch.inference_mode():
        contender = two_profiles(decoder, decoder.export())
        for strategy in STRATEGIES:
            with part.attempt(strategy):
                measure(decoder, contender, strategy, part)
        contender.stop()


if __name__ == "__main__":
    main()
