"""Device memory of two profiles in one engine, of two engines, and of a context per profile.

    PYTHONPATH=benchmarks python -m cases.memory --output memory.json

Each arrangement is set up from its plans and runs a prefill and a decode; what the device has less than before is its
memory: weights, contexts, activations and compiled kernels. Arrangements take turns, and a round that is not counted
comes first. Free memory is the device's, so nobody else may use it.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from cases import timing
from cases.contenders import PHASES, Engines, one_profile, two_engines, two_profiles
from cases.decoders import SIZES, Decoder, make_decoder
from cases.names import CONTEXTS, ENGINES, ONE, TWO
from cases.part import Part, parser

STRATEGY = "lazy"
ROUNDS = 2


def taken(decoder: Decoder, contender: Engines, contexts: bool) -> dict[str, Any]:
    """Bytes that an arrangement takes, and what its second context said about itself."""
    before = timing.device_bytes_taken()
    facts: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        contender.start(STRATEGY, False)
        stack.callback(contender.stop)
        if contexts:
            from torch_tensorrt.runtime import context_per_profile

            made = context_per_profile(contender.engines["decode"].program)
            stack.enter_context(made)
            facts["peak_while_made_bytes"] = made.engines[0].peak_device_bytes
        for phase in PHASES:
            inputs = decoder.inputs(decoder.prefill if phase == "prefill" else 1)
            with contender.select(phase):
                for _ in range(3):
                    contender.call(phase, inputs)
            del inputs
        facts["device_bytes"] = timing.device_bytes_taken() - before
    return facts


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
        arrangements = {
            TWO: (two, False),
            CONTEXTS: (two, True),
            ENGINES: (two_engines(decoder, exported), False),
            ONE: (one_profile(decoder, exported), False),
        }
        measured: dict[str, list[dict[str, Any]]] = {name: [] for name in arrangements}
        for counts in (False, *[True] * ROUNDS):
            for name, (contender, contexts) in arrangements.items():
                with part.attempt(name):
                    facts = taken(decoder, contender, contexts)
                    if counts:
                        measured[name].append(facts)
    for name, samples in measured.items():
        if samples:
            part.add(
                kind="memory",
                model=decoder.name,
                contender=name,
                samples_bytes=[facts["device_bytes"] for facts in samples],
                peak_while_made_bytes=samples[-1].get("peak_while_made_bytes"),
                plan_bytes=arrangements[name][0].facts()["plan_bytes"],
            )


if __name__ == "__main__":
    main()
