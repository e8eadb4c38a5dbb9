"""A context per profile on live engines: device memory, streams side by side, profiling, settings, failures."""

from __future__ import annotations

import gc
import json
import os
import threading
from typing import Any

import pytest
import torch
import torch_tensorrt
from profiled_engines import ENGINE, LAYERS, engine_records, layers_of
from programs import TwoInputs, export_two_inputs
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
from torch_tensorrt.runtime import (
    RuntimeSettings,
    context_per_profile,
    explain,
    get_profiling,
    optimization_profile,
    profile_execution,
    set_profiling,
)

pytestmark = pytest.mark.gpu

ops = torch.ops.tensorrt

LAYER_COUNT, WIDTH, PROMPT = 9, 8192, 512
WEIGHT_BYTES = LAYER_COUNT * WIDTH * WIDTH * 2
#: What a test may leave behind on the device: CUDA loads kernels when they are first used.
SLACK = 32 << 20


class Large(torch.nn.Module):
    """``[n, 8192] -> [n, 8192]`` in half precision, with more than 1 GiB of weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        with torch.device("cuda"):
            self.layers = torch.nn.ModuleList(
                torch.nn.Linear(WIDTH, WIDTH, bias=False, dtype=torch.float16) for _ in range(LAYER_COUNT)
            )
        for layer in self.layers:  # so that the outputs are about as large as the inputs
            torch.nn.init.normal_(layer.weight, std=(2 / WIDTH) ** 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Served:
    """The large program, its engine fresh, and what its results have to be."""

    def __init__(self, program: Any, eager: Large) -> None:
        self.program = program
        (self.module,) = [part for part in program.modules() if isinstance(part, TorchTensorRTModule)]
        generator = torch.Generator("cuda").manual_seed(1)
        self.inputs = {
            name: torch.randn(extent, WIDTH, device="cuda", generator=generator).half()
            for name, extent in (("prefill", PROMPT), ("decode", 1))
        }
        with torch.no_grad():
            self.expected = {name: eager(x) for name, x in self.inputs.items()}

    def start(self) -> None:
        self.module.setup_engine()

    def stop(self) -> None:
        self.module.engine = None
        gc.collect()

    def call(self, name: str) -> torch.Tensor:
        with optimization_profile(self.program, name):
            return self.program(self.inputs[name])

    def check(self, name: str, result: torch.Tensor | None = None) -> None:
        result = self.call(name) if result is None else result
        assert error_of(result, self.expected[name]) < 1e-2

    def alternate(self, steps: int = 3) -> None:
        for _ in range(steps):
            self.check("prefill")
            self.check("decode")

    @property
    def switches(self) -> int:
        return int(ops.get_profile_counters(self.module.engine)["switches"])


def error_of(result: torch.Tensor, expected: torch.Tensor) -> float:
    return float((result.float() - expected.float()).norm() / expected.float().norm())


def free_bytes() -> int:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return int(torch.cuda.mem_get_info()[0])


@pytest.fixture(scope="module")
def large() -> Served:
    assert WEIGHT_BYTES >= 1 << 30
    eager = Large().eval().requires_grad_(False)
    example = torch.zeros(8, WIDTH, dtype=torch.float16, device="cuda")
    n = torch.export.Dim("n", min=1, max=PROMPT)
    profiles = [
        OptimizationProfile("prefill", {"x": {0: (2, PROMPT, PROMPT)}}),
        OptimizationProfile("decode", {"x": {0: 1}}),
    ]
    program = torch_tensorrt.dynamo.compile(
        torch.export.export(eager, (example,), dynamic_shapes=({0: n},)),
        optimization_profiles=profiles,
        min_block_size=1,
    )
    served = Served(program, eager)
    served.stop()
    return served


@pytest.fixture
def served(large):
    before = get_profiling()
    large.module._runtime_settings = RuntimeSettings()
    large.start()
    yield large
    set_profiling(before.enabled, format=before.format, path_prefix=before.path_prefix)
    large.stop()


def test_device_memory(large, record_property, capsys):
    def cycle() -> tuple[int, int, Any]:
        """Bytes taken by the engine with one context, and with one per profile; and what was made."""
        start = free_bytes()
        large.start()
        large.alternate(2)
        large.check("prefill")  # back to the engine's own profile
        one = start - free_bytes()
        switches = large.switches
        made = context_per_profile(large.program).engines[0]
        large.alternate(2)
        assert large.switches == switches
        both = start - free_bytes()
        large.stop()
        assert abs(start - free_bytes()) <= SLACK
        return one, both, made

    cycle()  # loads what stays loaded
    one, both, made = cycle()
    report = {
        "weight_bytes": WEIGHT_BYTES,
        "plan_bytes": made.plan_bytes,
        "one_context_bytes": one,
        "context_per_profile_bytes": both,
        "second_context_bytes": made.device_bytes,
        "peak_while_made_bytes": made.peak_device_bytes,
    }
    for name, value in report.items():
        record_property(name, value)
    with capsys.disabled():
        print(f"\ncontext_per_profile: {json.dumps(report)}")
    assert one >= WEIGHT_BYTES
    assert made.profiles == 2
    assert made.plan_bytes >= WEIGHT_BYTES
    assert 0 <= made.device_bytes <= made.peak_device_bytes
    assert both <= 1.05 * one + max(0, made.device_bytes)
    assert made.device_bytes < 0.05 * WEIGHT_BYTES  # activations of [512, 8192], and no weights


def test_a_block_gives_everything_back(served):
    served.alternate()
    served.check("prefill")  # back to the engine's own profile
    before, switched = free_bytes(), served.switches
    with context_per_profile(served.program) as entered:
        assert entered is served.program
        served.alternate()
    assert served.switches == switched
    assert abs(before - free_bytes()) <= SLACK
    served.alternate(1)
    assert served.switches > switched


class Prefill(threading.Thread):
    """A prefill on a stream that is kept busy first, for far longer than a decode takes."""

    def __init__(self, served: Served, stream: torch.cuda.Stream) -> None:
        super().__init__()
        self.served, self.stream = served, stream
        self.done = torch.cuda.Event()
        self.returned = threading.Event()
        self.result: torch.Tensor | None = None

    def run(self) -> None:
        with torch.no_grad(), torch.cuda.stream(self.stream):
            torch.cuda._sleep(4_000_000_000)  # cycles: two seconds
            self.result = self.served.call("prefill")
            self.done.record(self.stream)
        self.returned.set()

    @property
    def is_done(self) -> bool:
        return self.returned.is_set() and self.done.query()


@pytest.mark.parametrize("contexts", [True, False], ids=["context per profile", "one context"])
def test_a_decode_overtakes_a_prefill_on_another_stream(served, contexts):
    if contexts:
        context_per_profile(served.program)
    streams = {name: torch.cuda.Stream() for name in ("prefill", "decode")}
    for _ in range(3):
        for name, stream in streams.items():
            with torch.no_grad(), torch.cuda.stream(stream):
                served.call(name)
    torch.cuda.synchronize()
    prefill = Prefill(served, streams["prefill"])
    prefill.start()
    prefill.returned.wait(timeout=0.5 if contexts else None)  # where the two run side by side it need not return
    with torch.no_grad(), torch.cuda.stream(streams["decode"]):
        decoded = served.call("decode")
        streams["decode"].synchronize()
    overtook = not prefill.is_done
    prefill.join()
    torch.cuda.synchronize()
    served.check("decode", decoded)
    served.check("prefill", prefill.result)
    assert overtook == contexts


def test_two_threads_on_their_own_streams(served):
    calls = 300
    context_per_profile(served.program)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            stream = torch.cuda.Stream()
            expected = served.expected[name].float()
            wrong = torch.zeros((), dtype=torch.int64, device="cuda")
            torch.cuda.synchronize()
            with torch.no_grad(), torch.cuda.stream(stream):
                for _ in range(calls):
                    difference = (served.call(name).float() - expected).norm() / expected.norm()
                    wrong += (~(difference < 1e-2)).long()
            stream.synchronize()
            assert int(wrong) == 0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("prefill", "decode")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    counters = ops.get_profile_counters(served.module.engine)
    assert (counters["switches"], counters["runs_0"], counters["runs_1"]) == (0, calls, calls)


def test_profiling_covers_both_and_names_the_profile(served, tmp_path):
    context_per_profile(served.program)
    with profile_execution(tmp_path):
        served.alternate()
        rows = json.loads(ops.dump_engine_timing())
        records = {record["profile"]: record for record in engine_records(tmp_path)}
    of_decode = f"{ENGINE}.{os.getpid()}.decode"
    assert {name: record["folder"] for name, record in records.items()} == {"prefill": ".", "decode": of_decode}
    assert layers_of(tmp_path)
    assert layers_of(tmp_path / of_decode)
    addresses = {record["object_id"] for record in records.values()}
    mine = [row for row in rows if row["object_id"] in addresses]
    assert {row["profile"] for row in mine} == {"prefill", "decode"}
    assert max(row["count"] for row in mine) == 3
    for trace in (tmp_path / f"{ENGINE}{LAYERS}", tmp_path / of_decode / f"{ENGINE}{LAYERS}"):
        trace.unlink()
    served.alternate()  # off again
    assert not list(tmp_path.rglob(f"*{LAYERS}"))
    assert served.switches == 0


def test_settings_reach_every_context(served):
    engine = served.module.engine
    served.module.runtime_settings = RuntimeSettings(dynamic_shapes_kernel_specialization_strategy="none")
    context_per_profile(served.program)
    served.alternate()
    before = ops._context_numbers([engine])
    assert len(before) == 2
    served.alternate()
    assert ops._context_numbers([engine]) == before
    for change in (
        lambda: setattr(
            served.module,
            "runtime_settings",
            RuntimeSettings(dynamic_shapes_kernel_specialization_strategy="eager"),
        ),
        lambda: served.module.use_dynamically_allocated_resources(True),
    ):
        change()
        assert ops._context_numbers([engine]) == [-1, -1]
        served.alternate()
        assert not set(before) & set(ops._context_numbers([engine]))
    served.module.use_dynamically_allocated_resources(False)
    served.alternate()
    assert served.switches == 0


def test_output_modes_reach_every_context(served):
    context_per_profile(served.program)
    served.module.set_pre_allocated_outputs(True)
    try:
        for name in ("decode", "prefill"):
            outputs = [served.call(name) for _ in range(4)]
            # From the second call on Torch-TensorRT gives out the same tensor; held, no other could lie there.
            assert outputs[2].data_ptr() == outputs[3].data_ptr()
        served.module.set_output_tensors_as_unowned(True)  # each goes to the caller
        outputs = [served.call("decode") for _ in range(4)]
        assert outputs[2].data_ptr() != outputs[3].data_ptr()
        served.module.set_output_tensors_as_unowned(False)
    finally:
        served.module.set_pre_allocated_outputs(False)
    served.module.set_use_output_allocator(True)
    try:
        served.alternate()
    finally:
        served.module.set_use_output_allocator(False)
    assert served.switches == 0


def test_too_little_memory_leaves_the_program_as_it_was(served):
    served.alternate()
    before = free_bytes()
    room = WEIGHT_BYTES // 4
    hog = torch.empty(before - room, dtype=torch.uint8, device="cuda")
    try:
        with pytest.raises(RuntimeError, match=f"'{ENGINE}' gets no context per profile, and stays as it is"):
            context_per_profile(served.program)
        served.alternate()
    finally:
        del hog
    assert abs(before - free_bytes()) <= SLACK
    switches = served.switches
    assert switches > 0
    context_per_profile(served.program)
    served.alternate()
    assert served.switches <= switches + 1  # back to the engine's own profile, once


def test_explain_and_pins(served):
    engine = served.module.engine
    context_per_profile(served.program)
    with optimization_profile(served.program, "decode"):
        (explanation,) = explain(served.program, served.inputs["decode"])
    assert explanation.profile == "decode"
    ops.set_active_profile(engine, 1)
    assert ops.get_active_profile(engine) == 1
    served.check("decode", served.program(served.inputs["decode"]))
    with pytest.raises(ValueError, match="'decode' takes"):
        served.program(served.inputs["prefill"])
    ops.clear_active_profile(engine)
    served.check("prefill", served.program(served.inputs["prefill"]))
    with optimization_profile(served.program, "auto"):
        for name in ("decode", "prefill", "decode"):
            served.check(name, served.program(served.inputs[name]))
    assert served.switches == 0


def test_a_loaded_program(tmp_path):
    profiles = [
        OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
        OptimizationProfile("decode", {"ids": {1: 1}}),
    ]
    exported = export_two_inputs()
    compiled = torch_tensorrt.dynamo.compile(exported, optimization_profiles=profiles, min_block_size=1)
    ids = torch.randint(0, 32, (2, 64), device="cuda")
    inputs = (ids, torch.arange(64, device="cuda").expand(2, 64).contiguous())
    torch_tensorrt.save(compiled, str(tmp_path / "program.ep"), retrace=False)
    program = torch_tensorrt.load(str(tmp_path / "program.ep")).module()
    torch.manual_seed(0)
    eager = TwoInputs().eval().cuda()
    with context_per_profile(program), torch.no_grad():
        for name, seq in (("prefill", 64), ("decode", 1), ("prefill", 64)):
            call = [x[:, :seq].contiguous() for x in inputs]
            with optimization_profile(program, name):
                torch.testing.assert_close(program(*call), eager(*call), rtol=2e-2, atol=2e-2)
