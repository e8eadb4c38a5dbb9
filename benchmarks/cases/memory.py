"""Device memory of two profiles in one engine, of a context per profile, of two engines, and of one profile.

    PYTHONPATH=benchmarks python -m cases.memory --output memory.json

Each arrangement is set up from its plans and runs a few prefills and decodes; what the device has less than before is
its memory: weights, contexts, activations and the kernels compiled so far. PyTorch's cache is emptied before either
look, and inputs and outputs are gone by then. Arrangements take turns, and a round that is not counted comes first.
Free memory is the device's, so nobody else may use it; what was in use before each start is in the report, and shows it
if somebody did, or if an arrangement left something behind.
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
CALLS = 3  # of each phase


def build(decoder: Decoder, part: Part) -> list[Engines]:
    """The arrangements that can be built here; the rest is skipped with the reason."""
    arrangements: list[Engines] = []
    exported = decoder.export()
    part.note(built=[])
    for make in (two_profiles, two_engines, one_profile):
        with part.attempt(make.__name__.replace("_", " ")):
            made = make(decoder, exported)
            arrangements += [made, with_contexts(made)] if make is two_profiles else [made]
            part.note(built=[*part.report["built"], made.facts()])
    return arrangements


def taken(decoder: Decoder, contender: Engines) -> dict[str, Any]:
    """Bytes that an arrangement takes, and what its second context said about itself."""
    before = timing.device_bytes_taken()
    facts: dict[str, Any] = {"before_bytes": before}
    try:
        contender.start(STRATEGY, False)
        if contender.contexts:
            facts["peak_while_made_bytes"] = contender.contexts.engines[0].peak_device_bytes
        for phase in PHASES:
            inputs = decoder.inputs(decoder.prefill if phase == "prefill" else 1)
            with contender.select(phase):
                for _ in range(CALLS):
                    contender.call(phase, inputs)
            del inputs
        facts["device_bytes"] = timing.device_bytes_taken() - before
    finally:
        contender.stop()
    return facts


def rows(decoder: Decoder, arrangements: list[Engines], looks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One for each arrangement that has a sample, from all looks so far."""
    made = []
    for contender in arrangements:
        samples = [look for look in looks if look["contender"] == contender.name and look["round"]]
        if samples:
            made.append(
                {
                    "kind": "memory",
                    "model": decoder.name,
                    "contender": contender.name,
                    "samples_bytes": [look["device_bytes"] for look in samples],
                    "peak_while_made_bytes": samples[-1].get("peak_while_made_bytes"),
                    "plan_bytes": contender.facts()["plan_bytes"],
                }
            )
    return made


def measure(decoder: Decoder, arrangements: list[Engines], part: Part) -> None:
    """As many rounds as there is time for. Every look is in the report, those of the round that is not counted too."""
    looks: list[dict[str, Any]] = []
    part.note(looks=looks)
    took = 0.0
    for number in range(1 + ROUNDS):
        if part.left() < took:
            part.skip(f"round {number} of {ROUNDS}", f"less than {took:.0f} s were left")
            break
        start = time.monotonic()
        for contender in arrangements:
            with part.attempt(f"round {number} of {ROUNDS}: {contender.name}"):
                began = time.monotonic()
                facts = taken(decoder, contender)
                seconds = round(time.monotonic() - began, 1)
                looks.append({"contender": contender.name, "round": number, "seconds": seconds, **facts})
                part.replace(rows(decoder, arrangements, looks))
        took = time.monotonic() - start


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--model", default="reference", choices=tuple(SIZES))
    made.add_argument("--layers", type=int, help="instead of the model's own number")
    arguments = made.parse_args()
    timing.own_stream()
    decoder = make_decoder(arguments.model, arguments.device, arguments.layers)
    part = Part("memory", arguments, decoder=decoder.facts(), strategy=STRATEGY, calls_of_each_phase=CALLS)
    with torch.inference_mode():
        measure(decoder, build(decoder, part), part)


if __name__ == "__main__":
    main()
