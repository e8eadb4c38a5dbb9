"""Process-wide profiling of live engines: hidden in packages, compiled here, in threads, in graphs, and from C++."""

from __future__ import annotations

import gc
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import profiled_engines
import pytest
import torch
import torch_tensorrt
from profiled_engines import (
    DEVICE_SELECTION,
    ENGINE,
    INFORMATION,
    LAYERS,
    PHASES,
    assert_all_traces,
    assert_close,
    clear_traces,
    compile_mlp,
    engine_records,
    example,
    layers_of,
    mlp,
    names_in,
    read_traces,
    stock_layer_names,
    trace_files,
)
from programs import TwoInputs, export_two_inputs
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
from torch_tensorrt.runtime import enable_cudagraphs, get_profiling, profile_execution, set_profiling

pytestmark = pytest.mark.gpu

ops = torch.ops.tensorrt

PROFILES = [
    OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
    OptimizationProfile("decode", {"ids": {1: 1}}),
]


@pytest.fixture(autouse=True)
def settings_restored():
    before = get_profiling()
    graphs, safe_mode = ops.get_cudagraphs_mode(), ops.get_multi_device_safe_mode()
    try:
        yield
    finally:
        set_profiling(before.enabled, format=before.format, path_prefix=before.path_prefix)
        torch_tensorrt.runtime.set_cudagraphs_mode(graphs == 1)
        ops.set_multi_device_safe_mode(safe_mode)


def fresh(module: Any) -> Any:
    """The same engine again, with settings and a context of its own."""
    again = TorchTensorRTModule()
    again.set_extra_state(module.get_extra_state())
    return again


class Live(NamedTuple):
    """An engine with one input, and what its results have to equal."""

    module: Any
    eager: Any

    def check(self, seed: int = 7) -> None:
        x = example(seed)
        assert_close(self.module(x), self.eager(x))


@pytest.fixture(scope="module")
def compiled():
    return [compile_mlp(0), compile_mlp(1)]


@pytest.fixture
def engine(compiled) -> Live:
    return Live(fresh(compiled[0].module), compiled[0].eager)


@pytest.fixture
def other_engine(compiled) -> Live:
    return Live(fresh(compiled[1].module), compiled[1].eager)


class TwoProfiles:
    """An engine with the disjoint profiles "prefill" and "decode"."""

    def __init__(self, module: Any) -> None:
        self.module = module
        torch.manual_seed(0)
        self.eager = TwoInputs().eval().requires_grad_(False).cuda()

    def inputs(self, seq: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids = torch.randint(0, 32, (2, seq), device="cuda")
        return ids, torch.arange(seq, device="cuda").expand(2, seq).contiguous()

    def run(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        by_name = {"ids": ids, "positions": positions}
        return self.module(*(by_name[name] for name in self.module.input_binding_names))

    def check(self, seq: int) -> None:
        inputs = self.inputs(seq)
        assert_close(self.run(*inputs), self.eager(*inputs))

    def assert_on_decode(self) -> None:
        """Profile 1 says the index, and profile 1 it is: the other's shapes raise."""
        assert self.module.engine._active_profile_index == 1
        self.check(1)
        with pytest.raises(ValueError, match="optimization profile 1 'decode' takes"):
            self.run(*self.inputs(64))
        self.check(1)
        assert self.module.engine._active_profile_index == 1


@pytest.fixture(scope="module")
def compiled_with_profiles():
    program = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1)
    (module,) = [part for part in program.modules() if isinstance(part, TorchTensorRTModule)]
    return module


@pytest.fixture
def two_profiles(compiled_with_profiles) -> TwoProfiles:
    return TwoProfiles(fresh(compiled_with_profiles))


def timing_of(prefix: Path, engine: str = ENGINE) -> list[dict[str, Any]]:
    """dump_engine_timing()'s rows of the one engine that was profiled under ``prefix``."""
    (record,) = [record for record in engine_records(prefix) if record["name"] == engine]
    return [row for row in json.loads(ops.dump_engine_timing()) if row["object_id"] == record["object_id"]]


# Packages. No handle to an engine is taken in any of these.

OTHER_ENGINE = "another_engine"


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """Built by stock Torch-TensorRT; "first" and "second" hold engines of one name."""
    folder = tmp_path_factory.mktemp("packages")
    profiled_engines.build_packages(folder, {"first": (0, ""), "second": (1, ""), "third": (2, OTHER_ENGINE)})
    return folder


def load(packages: Path, name: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch._inductor.aoti_load_package(str(packages / f"{name}.pt2"))


class TestPackages:
    @pytest.mark.parametrize("format", ["perfetto", "trex"])
    def test_a_hidden_engine_writes_traces(self, packages, tmp_path, format):
        runner, eager, x, prefix = load(packages, "first"), mlp(0), example(), tmp_path / "traces"
        assert_close(runner(x), eager(x))

        ops.set_profile_path_prefix(str(prefix))
        ops.set_profile_format(format)
        assert_close(runner(x), eager(x))
        assert trace_files(prefix) == {}  # not before it is enabled
        ops.set_profile_execution(True)
        for seed in range(3):
            assert_close(runner(example(seed)), eager(example(seed)))

        times = assert_all_traces(prefix)
        contents = read_traces(prefix)
        assert set(contents) - {f"{ENGINE}{DEVICE_SELECTION}"} == {
            f"engines.{os.getpid()}.json",
            *(f"{ENGINE}{suffix}" for suffix in (LAYERS, INFORMATION, *PHASES)),
        }
        assert ("timeMs" in contents[f"{ENGINE}{LAYERS}"][0]) == (format == "trex")
        (record,) = engine_records(prefix)
        assert (record["name"], record["device"], record["folder"]) == (ENGINE, 0, ".")
        assert (record["format"], record["rank"], record["profile_names"]) == (format, None, [])

        written = trace_files(prefix)
        ops.set_profile_execution(False)
        for seed in range(3):
            assert_close(runner(example(seed)), eager(example(seed)))
        assert trace_files(prefix) == written

        # And once more, elsewhere.
        ops.set_profile_path_prefix(str(tmp_path / "again"))
        ops.set_profile_execution(True)
        assert_close(runner(x), eager(x))
        assert list(assert_all_traces(tmp_path / "again")) == list(times)
        assert trace_files(prefix) == written

    def test_three_packages_two_of_one_name(self, packages, tmp_path):
        programs = [(load(packages, name), mlp(seed)) for seed, name in enumerate(("first", "second", "third"))]
        with profile_execution(tmp_path):
            for seed, (runner, eager) in itertools.product(range(2), programs):
                assert_close(runner(example(seed)), eager(example(seed)))
        records = engine_records(tmp_path)
        folders = {(record["name"], record["folder"]) for record in records}
        assert folders == {(ENGINE, "."), (ENGINE, f"{ENGINE}.{os.getpid()}"), (OTHER_ENGINE, ".")}
        assert len({record["object_id"] for record in records}) == len(records) == 3
        read_traces(tmp_path)
        for record in records:
            folder = tmp_path / record["folder"]
            for suffix in (LAYERS, INFORMATION, *PHASES):
                assert (folder / f"{record['name']}{suffix}").is_file()
            layers_of(folder, record["name"])
        written = trace_files(tmp_path)
        for runner, eager in programs:
            assert_close(runner(example()), eager(example()))
        assert trace_files(tmp_path) == written

    def test_both_formats_tell_the_same_layers(self, packages, tmp_path):
        runner, x = load(packages, "first"), example()
        with profile_execution(tmp_path / "perfetto"):
            runner(x)
            # Of the same profiler, so that what it has added up so far is in both.
            set_profiling(True, format="trex", path_prefix=tmp_path / "trex")
            runner(x)
        perfetto, trex = layers_of(tmp_path / "perfetto"), layers_of(tmp_path / "trex")
        assert list(perfetto) == list(trex)
        # The files round to six digits.
        assert all(trex[name] >= time_ms * (1 - 1e-4) for name, time_ms in perfetto.items())
        entries = json.loads((tmp_path / "trex" / f"{ENGINE}{LAYERS}").read_bytes())
        assert sum(entry["percentage"] for entry in entries) == pytest.approx(100, abs=0.1)
        for entry in entries:
            count = entry["timeMs"] / entry["averageMs"] if entry["averageMs"] > 0 else 2
            assert count == pytest.approx(round(count), abs=1e-3)
            assert round(count) % 2 == 0  # two calls

    def test_from_cpp_without_python(self, packages, tmp_path):
        program = os.environ.get("TORCHTRT_PROFILES_CPP_TEST")
        if not program:
            pytest.skip(
                "TORCHTRT_PROFILES_CPP_TEST does not name the program that tests/cpp/CMakeLists.txt builds "
                "(build/cpp/profile_package)"
            )
        from torch_tensorrt_profiles._library import LIBRARY

        x = example()
        (tmp_path / "input.f32").write_bytes(x.cpu().numpy().tobytes())
        (tmp_path / "expected.f32").write_bytes(mlp(0)(x).cpu().numpy().tobytes())
        libraries = Path(torch_tensorrt.__file__).parent / "lib"
        runtime = libraries / "libtorchtrt_runtime.so"
        arguments = {
            "torchtrt": runtime if runtime.is_file() else libraries / "libtorchtrt.so",
            "profiles": LIBRARY,
            "package": packages / "first.pt2",
            "prefix": tmp_path / "traces",
            "input": tmp_path / "input.f32",
            "shape": ",".join(map(str, x.shape)),
            "expected": tmp_path / "expected.f32",
            "format": "perfetto",
        }
        words = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
        done = subprocess.run(
            [program, *words],
            env={**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(library_folders())},
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"exit code {done.returncode}\n{said[-6000:]}"
        report, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index('{"ok"') :])
        assert report["ok"], said
        assert report["engines"] == 1
        times = assert_all_traces(tmp_path / "traces")
        assert {row["layer"] for row in report["timing"]} == set(times)
        assert {row["count"] for row in report["timing"]} == {2}
        (record,) = engine_records(tmp_path / "traces", report["pid"])
        assert (record["name"], record["folder"]) == (ENGINE, ".")


def library_folders() -> list[str]:
    """Where this process has the libraries of torch, CUDA and TensorRT from, for a program that brings no paths."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    mapped = {Path(line.split(maxsplit=5)[5]) for line in lines if ".so" in line}
    wanted = re.compile(r"lib(torch|c10|shm|cu|nv|nccl|tensorrt)")
    system = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
    folders = {str(path.parent) for path in mapped if wanted.match(path.name) and not str(path).startswith(system)}
    torch_libraries = str(Path(torch.__file__).parent / "lib")
    present = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [torch_libraries, *sorted(folders - {torch_libraries}), *filter(None, present)]


# Compiled programs


class TestTraces:
    def test_a_compiled_program(self, compiled, tmp_path):
        program, _, eager = compiled[0]
        assert_close(program(example()), eager(example()))
        with profile_execution(tmp_path):
            assert_close(program(example()), eager(example()))
            assert_all_traces(tmp_path)
        clear_traces(tmp_path)
        assert_close(program(example()), eager(example()))
        assert list(tmp_path.rglob("*.trace")) == []

    def test_layer_names_are_those_of_the_engines_own_profiler(self, engine, compiled, tmp_path):
        alone = Live(fresh(compiled[0].module), compiled[0].eager)
        (tmp_path / "alone").mkdir()
        alone.module.enable_profiling(str(tmp_path / "alone"))
        alone.check()
        names = stock_layer_names(tmp_path / "alone")
        alone.module.disable_profiling()
        assert names
        with profile_execution(tmp_path / "switch"):
            engine.check()
        assert list(layers_of(tmp_path / "switch")) == names

    def test_layer_names_are_in_the_layer_information(self, engine, tmp_path):
        with profile_execution(tmp_path):
            engine.check()
        information = json.loads(engine.module.get_layer_info())
        assert read_traces(tmp_path)[f"{ENGINE}{INFORMATION}"] == information
        assert set(layers_of(tmp_path)) <= set(names_in(information)), information

    @pytest.mark.parametrize("format", ["perfetto", "trex"])
    def test_engine_timing(self, engine, tmp_path, format):
        engine.check()  # not counted
        set_profiling(True, format=format, path_prefix=tmp_path)
        for seed in range(5):
            engine.check(seed)
        times, rows = layers_of(tmp_path), timing_of(tmp_path)
        assert [row["layer"] for row in rows] == list(times)
        for row in rows:
            assert (row["engine"], row["profile"]) == (ENGINE, 0)
            # "trex" tells how often a layer was reported, which may be more than once in a call.
            assert row["count"] == 5 or (format == "trex" and row["count"] % 5 == 0)
            assert row["total_ms"] == pytest.approx(times[row["layer"]], rel=1e-4)
            assert row["mean_ms"] == pytest.approx(row["total_ms"] / row["count"], rel=1e-4)
        assert sum(row["total_ms"] for row in rows) == pytest.approx(sum(times.values()), rel=1e-3)
        set_profiling(False)
        engine.check()
        assert timing_of(tmp_path) == rows  # kept, and not added to

    def test_engine_timing_by_profile(self, two_profiles, tmp_path):
        set_profiling(True, path_prefix=tmp_path)
        for index, seq, calls in ((0, 64, 3), (1, 1, 2)):
            two_profiles.module.set_optimization_profile(index)
            for _ in range(calls):
                two_profiles.check(seq)
        most = {}
        for row in timing_of(tmp_path):
            most[row["profile"]] = max(most.get(row["profile"], 0), row["count"])
        assert most == {"prefill": 3, "decode": 2}
        (record,) = engine_records(tmp_path)
        assert record["profile_names"] == ["prefill", "decode"]

    def test_timing_of_an_engine_ends_with_it(self, engine, compiled, tmp_path):
        engine.check()
        gone = Live(fresh(compiled[0].module), compiled[0].eager)
        set_profiling(True, path_prefix=tmp_path)
        gone.check()
        assert timing_of(tmp_path)
        del gone
        gc.collect()
        assert timing_of(tmp_path) == []
        # Its folder is free again.
        engine.check()
        assert {record["folder"] for record in engine_records(tmp_path)} == {"."}

    def test_device_selection_is_traced_in_multi_device_safe_mode(self, engine, tmp_path):
        with torch_tensorrt.runtime.set_multi_device_safe_mode(True), profile_execution(tmp_path):
            engine.check()
        assert f"{ENGINE}{DEVICE_SELECTION}" in read_traces(tmp_path)
        assert_all_traces(tmp_path)

    def test_a_change_of_format_and_path_while_profiled(self, engine, tmp_path):
        set_profiling(True, path_prefix=tmp_path / "one")
        engine.check()
        ops.set_profile_path_prefix(str(tmp_path / "two"))
        engine.check()
        ops.set_profile_format("trex")
        engine.check()
        perfetto, trex = layers_of(tmp_path / "one"), layers_of(tmp_path / "two")
        assert list(perfetto) == list(trex)
        assert "timeMs" in json.loads((tmp_path / "two" / f"{ENGINE}{LAYERS}").read_bytes())[0]
        # A path or a format alone starts no new profiler: the times went on adding up.
        assert sum(trex.values()) > sum(perfetto.values())
        assert {row["count"] for row in timing_of(tmp_path / "two")} == {3}

    def test_cpu_inputs(self, engine, tmp_path):
        """The operator itself, whose CPU key is ours too; TorchTensorRTModule would move them first."""
        x = example()
        with profile_execution(tmp_path):
            outputs = ops.execute_engine([x.cpu()], engine.module.engine)
        assert outputs[0].is_cuda
        assert_close(outputs, engine.eager(x))
        assert_all_traces(tmp_path)


# What a change of the context takes with it in 2.14


def _set_budget(module: Any) -> None:
    module.set_device_memory_budget(module.get_device_memory_budget())  # drops the context even where nothing streams


def _change_runtime_settings(module: Any) -> None:
    module.runtime_settings = module.runtime_settings.merge(dynamic_shapes_kernel_specialization_strategy="none")


CHANGES: dict[str, Callable[[Any], None]] = {
    "memory budget": _set_budget,
    "allocation strategy": lambda module: module.use_dynamically_allocated_resources(True),
    "runtime settings": _change_runtime_settings,
}


class TestActiveProfile:
    @pytest.fixture(autouse=True)
    def on_decode(self, two_profiles):
        two_profiles.module.set_optimization_profile(1)
        two_profiles.check(1)

    def test_survives_enabling_and_disabling(self, two_profiles, tmp_path):
        for format in ("perfetto", "trex", "perfetto"):
            set_profiling(True, format=format, path_prefix=tmp_path)
            two_profiles.assert_on_decode()
            set_profiling(False)
            two_profiles.assert_on_decode()
        assert_all_traces(tmp_path)

    @pytest.mark.parametrize("change", CHANGES)
    def test_survives_a_change_of(self, two_profiles, change):
        CHANGES[change](two_profiles.module)
        two_profiles.assert_on_decode()

    @pytest.mark.parametrize("change", CHANGES)
    def test_and_the_profiler_survive_a_change_of(self, two_profiles, change, tmp_path):
        set_profiling(True, path_prefix=tmp_path)
        two_profiles.check(1)
        names = list(layers_of(tmp_path))
        CHANGES[change](two_profiles.module)
        clear_traces(tmp_path)
        two_profiles.check(1)
        assert list(assert_all_traces(tmp_path)) == names
        two_profiles.assert_on_decode()
        set_profiling(False)
        clear_traces(tmp_path)
        two_profiles.assert_on_decode()
        assert list(tmp_path.rglob("*.trace")) == []

    def test_survives_all_of_them_in_a_row(self, two_profiles, tmp_path):
        for number, change in enumerate([*CHANGES.values(), _set_budget]):
            set_profiling(number % 2 == 0, path_prefix=tmp_path / str(number))
            change(two_profiles.module)
            two_profiles.assert_on_decode()
        two_profiles.module.set_optimization_profile(0)
        two_profiles.check(64)

    def test_survives_a_weight_streaming_budget(self, tmp_path):
        try:
            program = torch_tensorrt.dynamo.compile(
                export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1, enable_weight_streaming=True
            )
        except Exception as error:
            pytest.skip(f"no weight-streaming engine with two profiles here: {error!r}")
        (module,) = [part for part in program.modules() if isinstance(part, TorchTensorRTModule)]
        streamable = module.get_streamable_device_memory_budget()
        if streamable <= 0:
            pytest.skip("this engine has no weights to stream")
        streaming = TwoProfiles(module)
        module.set_optimization_profile(1)
        streaming.check(1)
        for enabled, budget in ((False, streamable // 2), (True, 0), (True, streamable), (False, streamable // 2)):
            set_profiling(enabled, path_prefix=tmp_path)
            module.set_device_memory_budget(budget)
            streaming.assert_on_decode()
        assert_all_traces(tmp_path)


class TestOneEnginesOwnProfiling:
    def test_is_not_turned_off_by_the_switch(self, engine, tmp_path):
        own = tmp_path / "own"
        own.mkdir()
        engine.module.enable_profiling(str(own))
        engine.check()
        assert stock_layer_names(own)
        # Path and format never touch an engine that the switch does not profile, nor does turning off what was not on.
        for change in (
            lambda: ops.set_profile_path_prefix(str(tmp_path / "switch")),
            lambda: ops.set_profile_format("trex"),
            lambda: ops.set_profile_execution(False),
        ):
            change()
            clear_traces(own)
            engine.check()
            assert stock_layer_names(own)
            assert "timeMs" not in (own / f"{ENGINE}{LAYERS}").read_text()
        assert trace_files(tmp_path / "switch") == {}

        # Turning it on borrows the engine, and turning it off gives it back.
        total = sum(self.own_times(own).values())
        for format in ("trex", "perfetto"):
            set_profiling(True, format=format, path_prefix=tmp_path / "switch")
            clear_traces(own)
            engine.check()
            assert list(own.rglob("*.trace")) == []
            borrowed = layers_of(tmp_path / "switch")
            assert sum(borrowed.values()) > total  # the same profiler, adding up
            total = sum(borrowed.values())
            # Only what the switch has seen. "perfetto" does not tell how often a layer ran in an earlier call.
            assert format == "trex" or {row["count"] for row in timing_of(tmp_path / "switch")} == {1}
            set_profiling(False)
            clear_traces(tmp_path / "switch")
            engine.check()
            assert list((tmp_path / "switch").rglob("*.trace")) == []
            assert sum(self.own_times(own).values()) > total
            total = sum(self.own_times(own).values())
            assert "timeMs" not in (own / f"{ENGINE}{LAYERS}").read_text()
        assert engine.module.engine.profile_path_prefix == str(own)

        engine.module.disable_profiling()
        clear_traces(own)
        engine.check()
        assert list(own.rglob("*.trace")) == []

    @staticmethod
    def own_times(folder: Path) -> dict[str, float]:
        """Milliseconds by layer in a "perfetto" file that Torch-TensorRT itself wrote."""
        text = (folder / f"{ENGINE}{LAYERS}").read_text()
        return {
            name: float(duration) / 1000
            for name, duration in re.findall(r'"name": "(.*)",\n.*\n.*\n *"dur": ([^,]*),', text)
        }

    def test_disabling_is_learned_while_the_switch_is_on(self, engine, tmp_path):
        own, switch = tmp_path / "own", tmp_path / "switch"
        own.mkdir()
        engine.module.enable_profiling(str(own))
        set_profiling(True, path_prefix=switch)
        engine.check()
        assert_all_traces(switch)
        engine.module.disable_profiling()
        assert engine.module.engine.profile_path_prefix == str(own)
        clear_traces(switch)
        engine.check()
        assert list(tmp_path.rglob("*.trace")) == []
        set_profiling(False)
        engine.check()
        assert list(tmp_path.rglob("*.trace")) == []

    def test_settings_that_come_back_are_no_disabling(self, engine, tmp_path):
        set_profiling(True, path_prefix=tmp_path)
        engine.check()
        engine.module.use_dynamically_allocated_resources(True)
        engine.module.use_dynamically_allocated_resources(False)
        clear_traces(tmp_path)
        engine.check()
        assert_all_traces(tmp_path)

    def test_enabling_while_the_switch_is_on_lasts_beyond_it(self, engine, tmp_path):
        own, switch = tmp_path / "own", tmp_path / "switch"
        own.mkdir()
        set_profiling(True, path_prefix=switch)
        engine.check()
        engine.module.enable_profiling(str(own), profile_format="trex")
        clear_traces(switch)
        engine.check()
        assert_all_traces(switch)
        assert "timeMs" not in (switch / f"{ENGINE}{LAYERS}").read_text()
        assert list(own.rglob("*.trace")) == []
        set_profiling(False)
        clear_traces(switch)
        engine.check()
        assert "timeMs" in (own / f"{ENGINE}{LAYERS}").read_text()
        assert list(switch.rglob("*.trace")) == []
        engine.module.disable_profiling()

    @pytest.mark.parametrize("change", CHANGES)
    def test_survives_a_change_of(self, two_profiles, change, tmp_path):
        own, switch = tmp_path / "own", tmp_path / "switch"
        own.mkdir()
        two_profiles.module.set_optimization_profile(1)
        two_profiles.module.enable_profiling(str(own), profile_format="trex")
        two_profiles.check(1)
        names = stock_layer_names(own)
        assert names
        for path, enabled in ((own, False), (switch, True), (own, False)):
            set_profiling(enabled, format="perfetto", path_prefix=switch)
            CHANGES[change](two_profiles.module)
            clear_traces(tmp_path)
            two_profiles.check(1)
            text = (path / f"{ENGINE}{LAYERS}").read_text()
            assert ("timeMs" in text) == (path == own)
            if path == own:
                assert stock_layer_names(own) == names
            else:
                assert list(assert_all_traces(switch)) == names
        two_profiles.module.disable_profiling()
        two_profiles.assert_on_decode()

    def test_is_left_alone_under_torch_profiler(self, engine, tmp_path):
        own, switch = tmp_path / "own", tmp_path / "switch"
        own.mkdir()
        engine.module.enable_profiling(str(own))
        engine.check()
        set_profiling(True, path_prefix=switch)
        engine.check()
        contexts = engine.module.engine.num_execution_contexts_created()
        # Torch-TensorRT's own trace cannot be taken inside a profiler of torch, and its owner wants it.
        with (
            pytest.raises(RuntimeError, match="rofiler"),
            torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]),
        ):
            engine.check()
        engine.check()
        assert {row["count"] for row in timing_of(switch)} == {2}
        set_profiling(False)
        clear_traces(own)
        engine.check()
        assert stock_layer_names(own)
        assert engine.module.engine.num_execution_contexts_created() == contexts
        engine.module.disable_profiling()

    def test_methods_wait_for_the_call_in_flight(self, engine):
        """One thread calls, another profiles and stops: neither takes the context from under the other."""
        engine.check()
        done = threading.Event()
        failures: list[BaseException] = []

        def own() -> None:
            try:
                while not done.is_set():
                    engine.module.enable_profiling()
                    engine.module.disable_profiling()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=own)
        thread.start()
        try:
            for seed in range(30):
                engine.check(seed)
        finally:
            done.set()
            thread.join()
        assert failures == []
        engine.check()

    def test_methods_work_between_revisions(self, engine, tmp_path):
        own, switch = tmp_path / "own", tmp_path / "switch"
        own.mkdir()
        set_profiling(True, path_prefix=switch)
        engine.check()
        assert_all_traces(switch)

        engine.module.disable_profiling()  # holds until the configuration changes
        clear_traces(switch)
        engine.check()
        engine.check()
        assert list(switch.rglob("*.trace")) == []

        engine.module.enable_profiling(str(own))
        engine.check()
        assert stock_layer_names(own)
        assert list(switch.rglob("*.trace")) == []

        set_profiling(False)
        clear_traces(own)
        engine.check()
        assert stock_layer_names(own)
        engine.module.disable_profiling()

        set_profiling(True, path_prefix=switch)
        engine.check()
        assert_all_traces(switch)

    def test_path_is_put_back(self, engine, tmp_path):
        engine.module.engine.profile_path_prefix = str(tmp_path / "own")
        with profile_execution(tmp_path / "switch"):
            engine.check()
            assert engine.module.engine.profile_path_prefix == str(tmp_path / "switch")
        engine.check()
        assert engine.module.engine.profile_path_prefix == str(tmp_path / "own")


class TestUnderTorchProfiler:
    def test_profiling_is_not_started(self, engine, tmp_path):
        engine.check()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            set_profiling(True, path_prefix=tmp_path)
            engine.check()
            assert trace_files(tmp_path) == {}
        engine.check()
        assert_all_traces(tmp_path)

    def test_profiling_is_suspended_and_resumes(self, engine, tmp_path):
        set_profiling(True, path_prefix=tmp_path)
        engine.check()
        engine.check()
        assert {row["count"] for row in timing_of(tmp_path)} == {2}
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            clear_traces(tmp_path)
            engine.check()
            engine.check()
            assert list(tmp_path.rglob("*.trace")) == []
        engine.check()
        assert_all_traces(tmp_path)
        assert {row["count"] for row in timing_of(tmp_path)} == {3}

    def test_turned_off_meanwhile(self, two_profiles, tmp_path):
        two_profiles.module.set_optimization_profile(1)
        set_profiling(True, path_prefix=tmp_path)
        two_profiles.check(1)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            two_profiles.assert_on_decode()
            set_profiling(False)
            two_profiles.check(1)
        clear_traces(tmp_path)
        two_profiles.assert_on_decode()
        assert list(tmp_path.rglob("*.trace")) == []


class TestThreads:
    @staticmethod
    def run(engines: list[Live], until: Callable[[int], bool]) -> list[int]:
        """Each engine on a thread and a stream of its own; how often each was called."""
        inputs = [example(seed) for seed in range(3)]
        expected = [[engine.eager(x) for x in inputs] for engine in engines]
        torch.cuda.synchronize()
        failures: list[BaseException] = []
        calls = [0] * len(engines)
        barrier = threading.Barrier(len(engines))

        def work(number: int) -> None:
            try:
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    barrier.wait(timeout=60)
                    while until(calls[number]) and not failures:
                        which = calls[number] % len(inputs)
                        result = engines[number].module(inputs[which])
                        stream.synchronize()
                        assert_close(result, expected[number][which])
                        calls[number] += 1
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(engines))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return calls

    def test_two_engines(self, engine, other_engine, tmp_path):
        set_profiling(True, path_prefix=tmp_path)
        assert self.run([engine, other_engine], until=lambda calls: calls < 30) == [30, 30]
        records = engine_records(tmp_path)
        assert len({record["folder"] for record in records}) == len(records) == 2
        read_traces(tmp_path)
        rows = json.loads(ops.dump_engine_timing())
        for record in records:
            layers_of(tmp_path / record["folder"])
            assert {row["count"] for row in rows if row["object_id"] == record["object_id"]} == {30}

    def test_toggling_while_they_run(self, engine, other_engine, tmp_path):
        engine.check()
        other_engine.check()
        done = threading.Event()
        toggles = 0

        def toggle() -> None:
            nonlocal toggles
            states = itertools.product((True, False), ("perfetto", "trex"), ("one", "two"))
            for enabled, format, folder in itertools.cycle(states):
                if done.is_set():
                    return
                set_profiling(enabled, format=format, path_prefix=tmp_path / folder)
                toggles += 1
                time.sleep(0.003)

        toggling = threading.Thread(target=toggle)
        toggling.start()
        deadline = time.monotonic() + 4
        try:
            calls = self.run([engine, other_engine], until=lambda calls: calls < 5 or time.monotonic() < deadline)
        finally:
            done.set()
            toggling.join()
        assert min(calls) >= 5
        assert toggles >= 10
        for folder in ("one", "two"):
            read_traces(tmp_path / folder)

        set_profiling(True, format="perfetto", path_prefix=tmp_path / "last")
        engine.check()
        other_engine.check()
        assert len(engine_records(tmp_path / "last")) == 2
        assert_all_traces(tmp_path / "last")
        set_profiling(False)
        engine.check()
        other_engine.check()


# CUDA graphs. Last, because a capture that goes wrong can spoil what comes after it.


class Launches(NamedTuple):
    kernels: int
    kernels_in_graphs: int
    graph_launches: int

    @property
    def replayed(self) -> int:
        return max(self.kernels_in_graphs, self.graph_launches)


def launches(call: Callable[[], object], calls: int, folder: Path) -> Launches:
    """What ``calls`` calls launched, as torch.profiler saw it."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    path = folder / "launches.json"
    profiler.export_chrome_trace(str(path))
    recorded = json.loads(path.read_text())["traceEvents"]
    path.unlink()
    kernels = [event for event in recorded if event.get("cat") == "kernel"]
    if not kernels:
        pytest.fail("torch.profiler recorded no kernels in this process, so replays cannot be seen")
    return Launches(
        len(kernels),
        sum(1 for event in kernels if int(event.get("args", {}).get("graph node id", 0)) != 0),
        sum(1 for event in recorded if "GraphLaunch" in event.get("name", "")),
    )


def runs_in_its_own_process(request: pytest.FixtureRequest) -> bool:
    """Once TensorRT has profiled in a process, torch.profiler sees no kernels there: who counts them starts anew."""
    if os.environ.get("TORCHTRT_PROFILES_TEST_PROCESS") == request.node.name:
        return False
    test = f"{__file__}::{request.node.cls.__name__}::{request.node.name}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        env={
            **os.environ,
            "TORCHTRT_PROFILES_TEST_PROCESS": request.node.name,
            "PYTHONUNBUFFERED": "1",
            # torch.profiler's teardown of CUPTI does not get on with CUDA graphs; that of TensorRT it does not know.
            "TEARDOWN_CUPTI": "0",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "1 passed" in done.stdout, f"it ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return True


class TestCudaGraphs:
    def test_a_graph_is_not_replayed_with_a_dead_context(self, request, engine, tmp_path):
        if runs_in_its_own_process(request):
            return
        x, traces = example(), tmp_path / "traces"

        def call() -> None:
            engine.module(x)  # the result goes at once, so that the next one gets its memory

        def count() -> Launches:
            return launches(call, 10, tmp_path)

        for _ in range(3):
            call()
        without = count()
        assert without.replayed == 0

        with enable_cudagraphs(engine.module, cuda_graph_strategy="whole_graph_capture"):
            for _ in range(5):
                call()
            assert count().replayed >= 10, f"nothing was captured and replayed; without graphs: {without}"
            for number in range(3):
                set_profiling(True, format=("perfetto", "trex")[number % 2], path_prefix=traces)
                for seed in range(4):
                    engine.check(seed)
                layers_of(traces, timed=False)
                set_profiling(False)
                clear_traces(traces)
                for seed in range(4):
                    engine.check(seed)
                assert list(traces.rglob("*.trace")) == []
            for _ in range(5):
                call()
            assert count().replayed >= 10, "nothing was captured again after profiling"
            engine.check()
        engine.check()
        assert count().replayed == 0

    def test_the_active_profile_in_graph_mode(self, two_profiles, tmp_path):
        two_profiles.module.set_optimization_profile(1)
        with enable_cudagraphs(two_profiles.module, cuda_graph_strategy="whole_graph_capture"):
            for _ in range(3):
                two_profiles.check(1)
            for enabled in (True, False, True, False):
                set_profiling(enabled, path_prefix=tmp_path)
                two_profiles.assert_on_decode()
        two_profiles.assert_on_decode()

    @staticmethod
    def warm_up(stream: torch.cuda.Stream, call: Callable[[], object]) -> None:
        """A user's capture needs kernels, memory and context to be there."""
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()

    def test_nothing_changes_while_a_stream_is_capturing(self, engine, tmp_path):
        module = engine.module
        module.runtime_settings = module.runtime_settings.merge(dynamic_shapes_kernel_specialization_strategy="eager")
        x, stream, graph = example(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
        self.warm_up(stream, lambda: module(x))
        contexts = module.engine.num_execution_contexts_created()
        start = get_profiling().generation

        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            set_profiling(True, path_prefix=tmp_path)
            result = module(x)
            set_profiling(False)
            set_profiling(True, format="trex")
        assert get_profiling().generation == start + 3
        assert module.engine.num_execution_contexts_created() == contexts
        assert trace_files(tmp_path) == {}
        for seed in range(3):
            x.copy_(example(seed))
            graph.replay()
            torch.cuda.synchronize()
            assert_close(result, engine.eager(x))
        assert trace_files(tmp_path) == {}

        # The next call outside applies it, to the context that the graph was captured with: the graph goes first.
        del graph, result
        engine.check()
        assert_all_traces(tmp_path)
        assert any("timeMs" in entry for entry in read_traces(tmp_path)[f"{ENGINE}{LAYERS}"])

    def test_a_switch_that_capturing_forbids_is_an_error(self, two_profiles):
        module = two_profiles.module
        module.set_optimization_profile(1)
        inputs, stream, graph = two_profiles.inputs(1), torch.cuda.Stream(), torch.cuda.CUDAGraph()
        self.warm_up(stream, lambda: two_profiles.run(*inputs))
        module.use_dynamically_allocated_resources(True)  # drops the context
        with (
            pytest.raises(RuntimeError, match="lost its execution context.*Run it once before capturing"),
            torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
        ):
            two_profiles.run(*inputs)
        torch.cuda.synchronize()
        two_profiles.assert_on_decode()
