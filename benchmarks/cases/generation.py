"""Generating with mixed prompt and output lengths: tokens per second, time to first token, time per token.

    PYTHONPATH=benchmarks python -m cases.generation --output generation.json

The small decoder, greedy. A pass is all requests one after the other, and contenders take turns request by request.
Each prefill and each decode call has a block of its own, and every token is waited for, as a server that streams does.
Each prompt's length is a shape that TensorRT-RTX may specialise kernels for in the background, so passes go on for a
while before the first that counts.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from cases import timing
from cases.contenders import Contender, contexts, eager, one_profile, two_engines, two_profiles
from cases.decoders import SIZES, Decoder, make_decoder
from cases.part import Part, parser

STRATEGY = "lazy"
#: Prompt and output lengths, in this order.
REQUESTS = ((32, 48), (900, 16), (200, 64), (500, 24), (64, 96), (1024, 32), (128, 16), (350, 40))
WARM_UP_SECONDS = 10.0  # of all contenders together, after two passes of each


def generate(contender: Contender, decoder: Decoder, prompt: int, new_tokens: int) -> list[float]:
    """Milliseconds for each token; the first one's is the prefill's."""
    ids, position_ids, *cache = decoder.inputs(prompt)
    timing.synchronize()
    took = []
    for step in range(new_tokens):
        start = time.perf_counter()
        phase = "prefill" if step == 0 else "decode"
        with contender.select(phase):
            logits, *cache = contender.call(phase, (ids, position_ids, *cache))
        ids = logits[:, -1:].argmax(-1)
        position_ids = position_ids[:, -1:] + 1
        ids[0, 0].item()  # waits
        took.append(round((time.perf_counter() - start) * 1e3, 5))
    return took


def one_pass(contenders: list[Contender], decoder: Decoder, requests: Any) -> dict[str, dict[str, Any]]:
    """By contender's name."""
    made: dict[str, list[list[float]]] = {contender.name: [] for contender in contenders}
    for prompt, new in requests:
        for contender in contenders:
            made[contender.name].append(generate(contender, decoder, prompt, new))
    return {name: figures(answers) for name, answers in made.items()}


def figures(answers: list[list[float]]) -> dict[str, Any]:
    """Of one pass: answers, each with its tokens' milliseconds."""
    seconds = sum(sum(tokens) for tokens in answers) / 1e3
    return {
        "tokens_per_second": round(sum(len(tokens) for tokens in answers) / seconds, 3),
        "first_token_ms": [tokens[0] for tokens in answers],
        "token_ms": [token for tokens in answers for token in tokens[1:]],
    }


def measure(contenders: list[Contender], decoder: Decoder, requests: Any, passes: int, part: Part) -> None:
    """As many passes as there is time for; the rows grow with each, so one that is cut off or fails takes none away."""
    measured: dict[str, list[dict[str, Any]]] = {contender.name: [] for contender in contenders}
    took = 0.0
    for number in range(passes):
        if part.left() < took:
            part.skip(f"pass {number + 1} of {passes}", f"less than {took:.0f} s were left")
            break
        start = time.monotonic()
        for name, one in one_pass(contenders, decoder, requests).items():
            measured[name].append(one)
        part.replace([row(decoder, name, all_measured) for name, all_measured in measured.items()])
        took = time.monotonic() - start


def row(decoder: Decoder, name: str, passes: list[dict[str, Any]]) -> dict[str, Any]:
    tokens = [token for one in passes for token in one["token_ms"]]
    return {
        "kind": "generation",
        "model": decoder.name,
        "contender": name,
        "samples_tokens_per_second": [one["tokens_per_second"] for one in passes],
        "first_token_samples_ms": [first for one in passes for first in one["first_token_ms"]],
        "token_samples_ms": tokens,
        "token_p50_ms": percentile(tokens, 0.5),
        "token_p99_ms": percentile(tokens, 0.99),
    }


def percentile(samples: list[float], share: float) -> float:
    return round(float(torch.tensor(samples, dtype=torch.float64).quantile(share)), 5)


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--model", default="small", choices=[name for name, sizes in SIZES.items() if sizes["vocab"]])
    made.add_argument("--passes", type=int, default=6, help="of each contender")
    arguments = made.parse_args()
    timing.own_stream()
    decoder = make_decoder(arguments.model, arguments.device)
    longest = decoder.longest
    requests = [(min(prompt, longest // 2), min(new, longest // 2)) for prompt, new in REQUESTS]
    part = Part(
        "generation", arguments, decoder=decoder.facts(), strategy=STRATEGY, requests=requests,
        warm_up_seconds=WARM_UP_SECONDS,
    )  # fmt: skip
    with torch.inference_mode():
        exported = decoder.export()
        running: list[Contender] = []
        for make in (two_profiles, contexts, one_profile, two_engines, eager):
            with part.attempt(make.__name__.replace("_", " ")):
                contender = make(decoder, exported)
                contender.start(STRATEGY, False)
                for _ in range(2):
                    one_pass([contender], decoder, requests)
                running.append(contender)
        end = time.perf_counter() + WARM_UP_SECONDS
        while running and time.perf_counter() < end:
            one_pass(running, decoder, requests)
        measure(running, decoder, requests, arguments.passes, part)


if __name__ == "__main__":
    main()
