"""Decode and prefill latency of one decoder, every contender in one process and in turns (A B A B).

    PYTHONPATH=benchmarks python -m cases.latency --model reference --output latency.json

For each kernel-specialization strategy, with and without CUDA graphs, engines are deserialised anew from the plan that
was built here. The first prefill and then the first decode of each are timed on the host's clock (cold: no runtime
cache; the process itself has run an engine before). Then all contenders are warmed up together, and measured in blocks
that take turns. A warm sample is the time between CUDA events around one call on an idle GPU. The last rows of a
setting are calls of two tokens and of one token in turns, so a switch each, against the same calls without a switch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from cases import timing
from cases.bandwidth import measure_copy
from cases.contenders import PHASES, Compiled, Contender, Eager, Engines, one_profile, two_engines, two_profiles
from cases.decoders import SIZES, Decoder, make_decoder
from cases.names import COMPILED, ONNX, TWO
from cases.onnx_engine import OnnxEngine
from cases.part import Part, parser

#: Strategy and CUDA graphs, in the order of measuring; the second row comes after torch.compile.
SETTINGS = (("lazy", False), ("none", False), ("lazy", True), ("eager", False))
FURTHER_SETTINGS = (("none", True), ("eager", True))
#: Of all contenders of a phase together. Under "lazy", kernels are specialised in the background meanwhile.
WARM_UP_SECONDS = {"lazy": 6.0, "none": 1.0, "eager": 1.0}
COMPILE_SECONDS = 100  # what it took at most on an H200 host, most of it tuning
TOLERANCE = 5e-2  # relative error (L2) in float16
BLOCKS = 4
CALLS = {"prefill": 5, "decode": 25}


def build(decoder: Decoder, part: Part) -> list[Contender]:
    """What can be built here; the rest is skipped with the reason."""
    built: list[Contender] = []
    exported = decoder.export()
    for make in (two_profiles, one_profile, two_engines):
        with part.attempt(make.__name__.replace("_", " ")):
            built.append(make(decoder, exported))
    built.append(Eager(decoder))
    with part.attempt(ONNX):
        built.append(OnnxEngine(decoder))
    part.note(built=[contender.facts() for contender in built if hasattr(contender, "facts")])
    return built


def one_call(contender: Contender, phase: str, inputs: Any) -> None:
    with contender.select(phase):
        contender.call(phase, inputs)


def first_call(contender: Contender, phase: str, inputs: Any) -> float:
    """Milliseconds, selecting the profile included."""
    return timing.timed(partial(one_call, contender, phase, inputs))


def check(contender: Contender, phase: str, inputs: Any, expected: torch.Tensor) -> None:
    """Raises where a contender computes something else than eager PyTorch, by more than rounding."""
    with contender.select(phase):
        made = contender.call(phase, inputs)[0]
    error = float((made.float() - expected.float()).norm() / expected.float().norm())
    if not error < TOLERANCE:
        raise RuntimeError(f"{phase} differs from eager PyTorch: relative error {error:.1e}, at most {TOLERANCE:.0e}")


def block(contender: Contender, phase: str, inputs: Any) -> list[float]:
    with contender.select(phase):
        return timing.latencies(partial(contender.call, phase, inputs), CALLS[phase])


def measure(
    decoder: Decoder,
    contenders: list[Contender],
    strategy: str,
    graphs: bool,
    part: Part,
    starts: int = 1,
    turns: bool = True,
) -> None:
    """All rows of one setting. A contender that fails is skipped.

    Args:
        starts: how often each contender begins anew, with a first call of each phase.
        turns: whether :func:`in_turns` is measured too.
    """
    setting = {"model": decoder.name, "strategy": strategy, "cuda_graphs": graphs}
    title = f"{decoder.name}, {strategy}, {'CUDA graphs' if graphs else 'no CUDA graphs'}"
    inputs = {phase: decoder.inputs(decoder.prefill if phase == "prefill" else 1) for phase in PHASES}
    expected = {phase: decoder.module(*values)[0] for phase, values in inputs.items()}
    cold: dict[str, dict[str, list[float]]] = {each.name: {phase: [] for phase in PHASES} for each in contenders}
    running = list(contenders)
    try:
        for _ in range(starts):
            for contender in list(running):
                running.remove(contender)
                with part.attempt(f"{title}: {contender.name}"):
                    contender.start(strategy, graphs)
                    for phase in contender.phases:
                        cold[contender.name][phase].append(first_call(contender, phase, inputs[phase]))
                    for phase in contender.phases:
                        check(contender, phase, inputs[phase], expected[phase])
                    running.append(contender)
        del expected
        for phase in reversed(PHASES):
            here = [contender for contender in running if phase in contender.phases]
            calls = [partial(one_call, contender, phase, inputs[phase]) for contender in here]
            start = time.perf_counter()
            timing.warm_up(calls, WARM_UP_SECONDS[strategy])
            warmed = round(time.perf_counter() - start, 2)
            samples: dict[str, list[float]] = {contender.name: [] for contender in here}
            for _ in range(BLOCKS):
                for contender in here:
                    samples[contender.name] += block(contender, phase, inputs[phase])
            for contender in here:
                part.add(
                    kind="latency",
                    **setting,
                    phase=phase,
                    contender=contender.name,
                    beside=[other.name for other in here],
                    first_call_samples_ms=cold[contender.name][phase],
                    warm_up_seconds=warmed,
                    samples_ms=samples[contender.name],
                )
        two = next((contender for contender in running if contender.name == TWO), None)
        if turns and two:
            with part.attempt(f"{title}: in turns"):
                in_turns(decoder, two, setting, part)
    finally:
        for contender in contenders:
            contender.stop()


def in_turns(decoder: Decoder, contender: Contender, setting: dict[str, Any], part: Part) -> None:
    """A call of two tokens and one of one token in turns: milliseconds for both, over rows of calls."""
    inputs = {"prefill": decoder.inputs(2), "decode": decoder.inputs(1)}

    def bare(phase: str) -> None:
        with contender.select(phase):
            for _ in range(20):
                contender.call(phase, inputs[phase])

    def both() -> None:
        for _ in range(20):
            for phase in PHASES:
                with contender.select(phase):
                    contender.call(phase, inputs[phase])

    timing.warm_up([partial(bare, phase) for phase in PHASES], WARM_UP_SECONDS[setting["strategy"]])
    bare_samples, samples = [], []
    for _ in range(10):
        total = 0.0
        for phase in PHASES:
            bare(phase)  # what the switch started is not counted
            total += timing.timed(partial(bare, phase)) / 20
        both()
        bare_samples.append(round(total, 5))
        samples.append(round(timing.timed(both) / 20, 5))
    part.add(kind="in turns", **setting, contender=contender.name, bare_samples_ms=bare_samples, samples_ms=samples)


def measure_settings(
    decoder: Decoder,
    contenders: list[Contender],
    settings: Sequence[tuple[str, bool]],
    part: Part,
    starts: int = 1,
    took: float = 0.0,
) -> float:
    """Measures the settings that there is time for.

    Args:
        starts: for the first setting.
        took: seconds that a setting is known to take.

    Returns:
        Seconds that the last took, which began once; the first may take longer.
    """
    for number, (strategy, graphs) in enumerate(settings):
        if part.left() < took:
            part.skip(f"{decoder.name}, {strategy}, CUDA graphs {graphs}", f"less than {took:.0f} s were left")
            continue
        start = time.monotonic()
        measure(decoder, contenders, strategy, graphs, part, 1 if number else starts)
        took = time.monotonic() - start
    return took


def measure_compiled(decoder: Decoder, contenders: list[Contender], part: Part) -> None:
    """torch.compile takes long to start, so it is measured beside the one that it is compared with only."""
    for graphs in (False, True):
        if part.left() < COMPILE_SECONDS:
            why = f"less than {COMPILE_SECONDS} s were left for its autotuning"
            part.skip(f"{decoder.name}, CUDA graphs {graphs}: {COMPILED}", why)
            continue
        beside = [contender for contender in contenders if contender.name == TWO]
        measure(decoder, [Compiled(decoder), *beside], "lazy", graphs, part, turns=False)


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--model", default="small", choices=tuple(SIZES))
    made.add_argument("--layers", type=int, help="instead of the model's own number")
    made.add_argument("--starts", type=int, default=3, help="cold starts of each contender in the first setting")
    arguments = made.parse_args()
    timing.own_stream()
    decoder = make_decoder(arguments.model, arguments.device, arguments.layers)
    part = Part(
        "latency",
        arguments,
        decoder=decoder.facts(),
        warm_up_seconds=WARM_UP_SECONDS,
        blocks=BLOCKS,
        tolerance=TOLERANCE,
    )
    with torch.inference_mode():
        with part.attempt("copy bandwidth"):
            part.add(kind="copy", **measure_copy(arguments.device))
        contenders = build(decoder, part)
        engines = [contender for contender in contenders if isinstance(contender, Engines)]
        with part.attempt("the first call of the process"):  # loads what is loaded once
            engines[-1].start("none", False)
            first_call(engines[-1], "decode", decoder.inputs(1))
            engines[-1].stop()
        took = measure_settings(decoder, contenders, SETTINGS, part, arguments.starts)
        measure_compiled(decoder, contenders, part)
        measure_settings(decoder, contenders, FURTHER_SETTINGS, part, took=took)
    print(f"{decoder.name}: {len(part.report['rows'])} rows, {len(part.report['skipped'])} skipped")


if __name__ == "__main__":
    main()
