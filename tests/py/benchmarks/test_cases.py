"""The suite's cases as far as a host without a GPU can run them: models, builds, and how rows are measured and kept."""

from __future__ import annotations

import contextlib
import json
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import torch
from cases import contenders, decoders, first_calls, generation, growth_profiles, latency, memory, onnx_engine
from cases.contenders import Contender, Eager
from cases.names import CONTEXTS, EAGER, ONE, TWO
from cases.part import Part
from torch_tensorrt.runtime import optimization_profiles

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="about hosts without a GPU")


@pytest.fixture(params=["tiny", "reference"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> decoders.Decoder:
    """The reference decoder is made as small as the tiny one."""
    monkeypatch.setitem(decoders.SIZES, "reference", {**decoders.SIZES["tiny"], "vocab": 0})
    return decoders.make_decoder(request.param, "cpu")


def a_part(folder: Path, seconds: float = float("inf"), since: float | None = None) -> Part:
    return Part("toy", Namespace(output=folder / "part.json", seconds=seconds, since=since, device="cpu"))


def test_a_decoder_is_exported_for_every_length(decoder: decoders.Decoder) -> None:
    program = decoder.export().module()
    for tokens in (1, 5, decoder.longest):
        inputs = decoder.inputs(tokens)
        for made, expected in zip(program(*inputs), decoder.module(*inputs), strict=True):
            torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-4)


def test_a_decode_call_continues_after_the_prefill(decoder: decoders.Decoder) -> None:
    assert decoder.inputs(1)[1].tolist() == [[decoder.prefill]] * 2
    assert decoder.inputs(3)[1].tolist() == [[0, 1, 2]] * 2


def test_the_bytes_are_those_of_the_tensors(decoder: decoders.Decoder) -> None:
    assert decoder.cache_bytes == sum(tensor.nbytes for tensor in decoder.cache())
    read = sum(weight.nbytes for name, weight in decoder.module.named_parameters() if "embedding" not in name)
    assert decoder.weight_bytes == read


@without_gpu
@pytest.mark.parametrize("decoder", ["tiny"], indirect=True)
def test_engines_are_built_with_their_profiles(decoder: decoders.Decoder) -> None:
    made = contenders.two_profiles(decoder, decoder.export())
    (profiles,) = optimization_profiles(made.engines["decode"].program).values()
    first = [profile["inputs"]["input_ids"] for profile in profiles]
    assert [profile["name"] for profile in profiles] == ["prefill", "decode"]
    assert [tuple(map(tuple, shapes.values())) for shapes in first] == [((2, 2), (2, 12), (2, 48)), ((2, 1),) * 3]
    assert made.facts()["plan_bytes"][0] > 1000


@without_gpu
def test_tensorrt_parses_and_builds_the_decoder_from_onnx(decoder: decoders.Decoder) -> None:
    engine = onnx_engine.OnnxEngine(decoder)
    assert engine.facts()["plan_bytes"][0] > 1000
    with pytest.raises(RuntimeError, match="could not load the engine from ONNX"):
        engine.start("none", False)


def test_without_onnx_only_that_contender_is_skipped(
    decoder: decoders.Decoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    for name in ("two_profiles", "one_profile", "two_engines"):
        monkeypatch.setattr(latency, name, lambda decoder, exported: Eager(decoder))
    part = a_part(tmp_path)
    assert len(latency.build(decoder, part)) == 4
    (skipped,) = part.report["skipped"]
    assert skipped["what"] == "decode-only engine from ONNX"
    assert "onnx" in skipped["why"]


class Toy(Contender):
    """Runs the model and notes its calls; where it is told to, it doubles a phase's output."""

    def __init__(self, name: str, calls: list[tuple[str, str]], wrong_at: str | None = None) -> None:
        self.name, self.calls, self.wrong_at = name, calls, wrong_at
        self.module = decoders.make_decoder("tiny", "cpu").module
        self.running = False

    def start(self, strategy: str, graphs: bool) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    @contextlib.contextmanager
    def select(self, phase: str) -> Iterator[None]:
        self.calls.append((self.name, f"select {phase}"))
        yield

    def call(self, phase: str, inputs: Any) -> Any:
        assert self.running
        made, *cache = self.module(*inputs)
        return (2 * made if phase == self.wrong_at else made, *cache)


class Planned(Toy):
    def facts(self) -> dict[str, Any]:
        return {"plan_bytes": [10]}


def test_contenders_take_turns_and_a_wrong_one_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "WARM_UP_SECONDS", {"none": 0.0})
    calls: list[tuple[str, str]] = []
    toys = [Toy(TWO, calls), Toy("broken", calls, wrong_at="decode"), Toy(ONE, calls)]
    part = a_part(tmp_path)
    latency.measure(decoders.make_decoder("tiny", "cpu"), toys, "none", False, part, starts=2, turns=False)
    report = json.loads((tmp_path / "part.json").read_text())
    assert [(row["phase"], row["contender"]) for row in report["rows"]] == [
        ("decode", TWO), ("decode", ONE), ("prefill", TWO), ("prefill", ONE),
    ]  # fmt: skip
    assert all(row["beside"] == [TWO, ONE] for row in report["rows"])
    assert len(report["rows"][0]["samples_ms"]) == latency.BLOCKS * latency.CALLS["decode"]
    assert all(len(row["first_call_samples_ms"]) == 2 for row in report["rows"])
    (skipped,) = report["skipped"]
    assert skipped["what"] == "tiny, none, no CUDA graphs: broken"
    assert "decode differs from eager PyTorch: relative error 1.0e+00" in skipped["why"]
    blocks = [name for name, what in calls if what == "select decode"][-2 * latency.BLOCKS :]
    assert blocks == [TWO, ONE] * latency.BLOCKS
    assert not any(toy.running for toy in toys)


def test_settings_that_do_not_fit_into_the_time_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "measure", lambda *arguments: pytest.fail("there was no time"))
    part = a_part(tmp_path, seconds=-1)
    latency.measure_settings(decoders.make_decoder("tiny", "cpu"), [], latency.SETTINGS, part)
    assert [skipped["what"] for skipped in part.report["skipped"]] == [
        f"tiny, {strategy}, CUDA graphs {graphs}" for strategy, graphs in latency.SETTINGS
    ]


def test_further_settings_are_skipped_by_what_the_first_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "measure", lambda *arguments: pytest.fail("there was no time"))
    part = a_part(tmp_path, seconds=30)
    decoder = decoders.make_decoder("tiny", "cpu")
    assert latency.measure_settings(decoder, [], latency.FURTHER_SETTINGS, part, took=40.0) == 40.0
    assert len(part.report["skipped"]) == len(latency.FURTHER_SETTINGS)


def test_generating_times_every_token_and_selects_the_phase(tmp_path: Path) -> None:
    decoder = decoders.make_decoder("tiny", "cpu")
    selected: list[str] = []

    class Watched(Eager):
        def select(self, phase: str) -> contextlib.AbstractContextManager[Any]:
            selected.append(phase)
            return super().select(phase)

    assert len(generation.generate(Watched(decoder), decoder, prompt=7, new_tokens=4)) == 4
    assert selected == ["prefill", "decode", "decode", "decode"]
    measured = generation.one_pass([Eager(decoder)], decoder, [(7, 4), (3, 2)])[EAGER]
    assert (len(measured["first_token_ms"]), len(measured["token_ms"])) == (2, 4)


def test_contenders_generate_in_turns_request_by_request() -> None:
    decoder = decoders.make_decoder("tiny", "cpu")
    calls: list[tuple[str, str]] = []
    toys: list[Contender] = [Toy(TWO, calls), Toy(ONE, calls)]
    for toy in toys:
        toy.start("none", False)
    measured = generation.one_pass(toys, decoder, [(7, 1), (3, 1)])
    assert calls == [(TWO, "select prefill"), (ONE, "select prefill")] * 2
    assert [len(figures["first_token_ms"]) for figures in measured.values()] == [2, 2]


def test_passes_of_generation_are_kept_when_a_later_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def one_pass(contenders: list[Contender], decoder: decoders.Decoder, requests: Any) -> dict[str, Any]:
        begun.append(len(begun))
        if len(begun) == 3:
            raise RuntimeError("out of memory")
        return {contender.name: generation.figures([[30.0, 10.0 * len(begun)]]) for contender in contenders}

    monkeypatch.setattr(generation, "one_pass", one_pass)
    contender, decoder = Toy(TWO, []), decoders.make_decoder("tiny", "cpu")
    with pytest.raises(RuntimeError):
        generation.measure([contender], decoder, [(1, 2)], 6, a_part(tmp_path))
    (kept,) = json.loads((tmp_path / "part.json").read_text())["rows"]
    assert (kept["token_samples_ms"], kept["token_median_ms"], kept["contender"]) == ([10.0, 20.0], 15.0, TWO)


def test_passes_of_generation_that_do_not_fit_are_skipped(tmp_path: Path) -> None:
    part = a_part(tmp_path, seconds=-1)
    generation.measure([], decoders.make_decoder("tiny", "cpu"), [], 6, part)
    assert [skipped["what"] for skipped in part.report["skipped"]] == ["pass 1 of 6"]


def test_tokens_per_second_are_all_tokens_over_all_time() -> None:
    made = generation.figures([[30.0, 10.0], [50.0, 10.0]])
    assert made == {"tokens_per_second": 40.0, "first_token_ms": [30.0, 50.0], "token_ms": [10.0, 10.0]}


def test_memory_is_measured_for_as_many_rounds_as_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def take(decoder: decoders.Decoder, contender: Contender) -> dict[str, Any]:
        taken.append(contender.name)
        if len(taken) == 4:
            monkeypatch.setattr(part, "left", lambda: -1.0)
        return {"device_bytes": len(taken)}

    part = a_part(tmp_path)
    monkeypatch.setattr(memory, "taken", take)
    memory.measure(decoders.make_decoder("tiny", "cpu"), [Planned(TWO, []), Planned(ONE, [])], part)
    assert taken == [TWO, ONE] * 2  # the first round is not counted
    report = json.loads((tmp_path / "part.json").read_text())
    assert [(row["contender"], row["samples_bytes"]) for row in report["rows"]] == [(TWO, [3]), (ONE, [4])]
    assert [(look["round"], look["device_bytes"]) for look in report["looks"]] == [(0, 1), (0, 2), (1, 3), (1, 4)]
    (skipped,) = report["skipped"]
    assert skipped["what"] == "round 2 of 2"


def test_memory_that_is_cut_off_or_fails_at_one_arrangement_keeps_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = []

    def take(decoder: decoders.Decoder, contender: Contender) -> dict[str, Any]:
        taken.append(contender.name)
        if contender.name == ONE:
            raise RuntimeError("out of memory")
        if len(taken) == 5:
            raise SystemExit("cut off")
        return {"device_bytes": len(taken)}

    monkeypatch.setattr(memory, "taken", take)
    with pytest.raises(SystemExit):
        memory.measure(decoders.make_decoder("tiny", "cpu"), [Planned(TWO, []), Planned(ONE, [])], a_part(tmp_path))
    report = json.loads((tmp_path / "part.json").read_text())
    assert [(row["contender"], row["samples_bytes"]) for row in report["rows"]] == [(TWO, [3])]
    assert [skipped["what"] for skipped in report["skipped"]] == [f"round {number} of 2: {ONE}" for number in (0, 1)]


def test_memory_is_measured_of_what_can_be_built(
    decoder: decoders.Decoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(decoder: decoders.Decoder, exported: Any) -> Contender:
        raise RuntimeError("no engine")

    fails.__name__ = "two_engines"
    monkeypatch.setattr(memory, "two_engines", fails)
    for name, title in (("two_profiles", TWO), ("one_profile", ONE)):
        made = contenders.Engines(title, {}, selects=False)
        monkeypatch.setattr(memory, name, lambda decoder, exported, made=made: made)
    part = a_part(tmp_path)
    assert [arrangement.name for arrangement in memory.build(decoder, part)] == [TWO, CONTEXTS, ONE]
    assert [built["contender"] for built in part.report["built"]] == [TWO, ONE]
    assert [skipped["what"] for skipped in part.report["skipped"]] == ["two engines"]


def test_first_calls_have_what_an_earlier_engine_kept_or_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch_tensorrt.runtime

    class Cache:
        content = b""

        def save_to_stream(self, stream: IO[bytes]) -> None:
            stream.write(self.content)

        def load_from_stream(self, stream: IO[bytes]) -> None:
            self.content = stream.read()

    class Cached(Toy):
        def start(self, strategy: str, graphs: bool, cache: Any = None) -> None:
            super().start(strategy, graphs)
            seen.append(cache and cache.content)
            if cache:
                cache.content = b"kernels"

    seen: list[bytes | None] = []
    monkeypatch.setattr(torch_tensorrt.runtime, "RuntimeCache", Cache)
    part = a_part(tmp_path)
    first_calls.measure(decoders.make_decoder("tiny", "cpu"), Cached(TWO, []), "lazy", part)
    assert seen == [b"", *[None, b"kernels"] * first_calls.STARTS]
    rows = [(row["cache"], row["phase"], len(row["samples_ms"]), row["cache_bytes"]) for row in part.report["rows"]]
    assert rows == [
        (cache, phase, first_calls.STARTS, len(b"kernels")) for cache in ("none", "kept") for phase in contenders.PHASES
    ]


@without_gpu
@pytest.mark.parametrize("decoder", ["tiny"], indirect=True)
def test_contexts_are_those_of_the_same_engine(decoder: decoders.Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_tensorrt.runtime

    made: list[Any] = []

    class Made:
        def __init__(self, program: Any) -> None:
            made.append(program)

        def close(self) -> None:
            made.append("closed")

    monkeypatch.setattr(torch_tensorrt.runtime, "context_per_profile", Made)
    two = contenders.two_profiles(decoder, decoder.export())
    monkeypatch.setattr(type(two.engines["decode"]), "start", lambda *arguments: None)
    several = contenders.with_contexts(two)
    several.start("none", False)
    several.stop()
    assert made == [two.engines["decode"].program, "closed"]
    two.start("none", False)
    assert two.contexts is None


def test_a_fact_under_a_name_of_the_report_itself_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\['rows'\]"):
        Part("toy", Namespace(output=None, seconds=1.0, since=None, device="cpu"), rows=[1, 64])


def test_what_a_case_took_before_its_report_began_is_not_left(tmp_path: Path) -> None:
    assert 0 < a_part(tmp_path, seconds=1000).left() <= 1000
    assert a_part(tmp_path, seconds=1000, since=time.monotonic() - 900).left() <= 100


def test_a_part_keeps_every_row_with_its_median_and_quartiles(tmp_path: Path) -> None:
    part = a_part(tmp_path)
    part.add(kind="toy", contender=EAGER, samples_ms=[1.0, 2.0, 3.0, 4.0, 100.0], first_samples_ms=[7.0])
    (row,) = json.loads((tmp_path / "part.json").read_text())["rows"]
    assert (row["median_ms"], row["quartiles_ms"]) == (3.0, [2.0, 4.0])
    assert (row["first_median_ms"], row["first_quartiles_ms"]) == (7.0, None)


@pytest.mark.parametrize("count", growth_profiles.COUNTS)
def test_the_profiles_that_grow_in_number_take_every_length_once(count: int) -> None:
    ranges = growth_profiles.ranges(count)
    taken = [rows for low, _, high in ranges for rows in range(low, high + 1)]
    assert len(ranges) == count
    assert taken == list(range(1, growth_profiles.ROWS + 1))
