"""Device memory of two profiles in one engine, of two engines, and of a context per profile.

    PYTHONPATH=benchmarks python -m cases.memory --output memory.json

Each arrangement is set up from its plans and runs a prefill and a decode; what the device has less than before is its
memory: weights, contexts, activations and compiled kernels. Arrangements take turns, and a round that is not counted
comes first. Free memory is the device's, so nobody else may use it.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from cases import timing
from cases.contenders import PHASES, Engines, one_profile, two_engines, two_profiles, with_contexts
from cases.decoders import SIZES, Decoder, make_decoder
from cases.part import Part, parser

STRATEGY = "lazy"
ROUNDS = 2


def taken(decoder: Decoder, contender: Engines) -> dict[str, Any]:
    """Bytes that an arrangement takes, and what its second context said about itself."""
    before = timing.device_bytes_taken()
    facts: dict[str, Any] = {}
    try:
        contender.start(STRATEGY, False)
        if contender.contexts:
            facts["peak_while_made_bytes"] = contender.contexts.engines[0].peak_device_bytes
        for phase in PHASES:
            inputs = decoder.inputs(decoder.prefill if phase == "prefill" else 1)
            with contender.select(phase):
                for _ in range(3):
                    contender.call(phase, inputs)
            del inputs
        facts["device_bytes"] = timing.device_bytes_taken() - before
    finally:
        contender.stop()
    return facts


def measure(decoder: Decoder, arrangements: list[Engines], part: Part) -> dict[str, list[dict[str, Any]]]:
    """By arrangement, as many rounds as there is time for."""
    measured: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in arrangements}
    took = 0.0
    for number in range(1 + ROUNDS):
        if part.left() < took:
            part.skip(f"round {number} of {ROUNDS}", f"less than {took:.0f} s were left")
            break
        start = time.monotonic()
        for contender in arrangements:
            with part.attempt(contender.name):
                facts = taken(decoder, contender)
                if number:
                    measured[contender.name].append(facts)
        took = time.monotonic() - start
    return measured


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--model", default="reference", choices=tuple(SIZES))
    made.add_argument("--layers", type=int, help="instead of the model's own number")
    arguments = made.parse_args()
    timing.own_stream()
    decoder = make_decoder(arguments.model, arguments.device, arguments.layers)
    part = Part("memory", arguments, decoder=decoder.facts(), strategy=STRATEGY)
    with torch.inference_mode():
        exported = decoder.export()
        two = two_profiles(decoder, exported)
        arrangements = [two, with_contexts(two), two_engines(decoder, exported), one_profile(decoder, exported)]
        measured = measure(decoder, arrangements, part)
    for contender in arrangements:
        samples = measured[contender.name]
        if samples:
            part.add(
                kind="memory",
                model=decoder.name,
                contender=contender.name,
                samples_bytes=[facts["device_bytes"] for facts in samples],
                peak_while_made_bytes=samples[-1].get("peak_while_made_bytes"),
                plan_bytes=contender.facts()["plan_bytes"],
            )


if __name__ == "__main__":
    main()
