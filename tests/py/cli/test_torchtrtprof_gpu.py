"""``torchtrtprof`` on real programs: inspect, run with traces, report, one after the other as a user calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_tensorrt
from click.testing import CliRunner
from programs import BREAK, export_broken, export_two_inputs, save_two_inputs_package
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt_profiles.cli import main
from trace_event_format import check_trace_events

pytestmark = pytest.mark.gpu

LAYERS, INFORMATION = "_engine_execution_profile.trace", "_layer_information.json"
FORMS = ["program.pt2", "program.ep", "program.ts"]
PROFILES = [
    OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
    OptimizationProfile("decode", {"ids": {1: 1}}),
]


def torchtrtprof(*arguments: object, code: int = 0) -> str:
    """In this process: importing Torch-TensorRT for each command anew would take most of the time."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, f"{done.output}\n{done.exception!r}"
    return done.stdout if code == 0 else done.stderr


def inspected(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(torchtrtprof("inspect", path, "--json"))
    return document


def ran(path: Path, *options: object) -> dict[str, Any]:
    quick = ["--iterations", 5, "--warm-up", 0.1, "--trace-iterations", 4]
    document: dict[str, Any] = json.loads(torchtrtprof("run", path, "--json", *quick, *options))
    return document


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """One program with two profiles in every form."""
    folder = tmp_path_factory.mktemp("programs")
    compiled = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1)
    torch_tensorrt.save(compiled, str(folder / "program.ep"), retrace=False)
    save_two_inputs_package(compiled, str(folder / "program.pt2"))
    ids = torch.zeros(2, 16, dtype=torch.int64, device="cuda")
    traced = torch.jit.trace(compiled, (ids, ids.clone()))
    torch.jit.save(traced, str(folder / "program.ts"))
    torch.save(compiled, folder / "program.pt")
    return folder


@pytest.mark.parametrize("form", [*FORMS, "program.pt"])
def test_inspect(folder, form):
    document = inspected(folder / form)
    (engine,) = document["engines"]
    assert document["remarks"] == engine["remarks"] == []
    assert [profile["name"] for profile in engine["profiles"]] == ["prefill", "decode"]
    assert engine["profiles"][1]["inputs"]["ids"] == {"min": [2, 1], "opt": [2, 1], "max": [2, 1]}
    assert all(profile["memory_bytes"] > 0 for profile in engine["profiles"])
    bindings = {binding["name"]: binding["dtype"] for binding in engine["bindings"]}
    assert bindings == {"ids": "int64", "positions": "int64", "output0": "float32"}
    assert engine["on_this_gpu"]["layers"] > 0
    assert engine["settings"]["immutable_weights"] is True
    if form in ("program.pt2", "program.ep"):
        assert [entry["name"] for entry in document["inputs"]] == ["ids", "positions"]


def test_the_ranges_of_an_engine_without_names_are_tensorrts(tmp_path):
    x = torch_tensorrt.Input(min_shape=(1, 16), opt_shape=(4, 16), max_shape=(8, 16), name="x")
    module = torch.nn.Linear(16, 16).eval().requires_grad_(False).cuda()
    batch = torch.export.Dim("batch", min=1, max=8)
    exported = torch.export.export(module, (torch.randn(4, 16, device="cuda"),), dynamic_shapes=({0: batch},))
    compiled = torch_tensorrt.dynamo.compile(exported, inputs=[x], min_block_size=1)
    torch_tensorrt.save(compiled, str(tmp_path / "p.ep"), retrace=False)
    (engine,) = inspected(tmp_path / "p.ep")["engines"]
    (profile,) = engine["profiles"]
    (limits,) = profile["inputs"].values()
    assert limits == {"min": [1, 16], "opt": [4, 16], "max": [8, 16]}
    # There is no record of an optimum, so the shape has to be said.
    assert "--shapes" in torchtrtprof("run", tmp_path / "p.ep", code=1)
    (name,) = [entry["name"] for entry in inspected(tmp_path / "p.ep")["inputs"]]
    document = ran(tmp_path / "p.ep", "--shapes", f"{name}=3x16", "--profile", "0")
    assert document["profiles"][0]["inputs"][name]["shape"] == [3, 16]


@pytest.mark.parametrize("form", FORMS)
def test_run_and_report(folder, tmp_path, form):
    traces = tmp_path / "traces"
    document = ran(folder / form, "--trace", traces, "--trace-format", "trex")
    shapes = {profile["profile"]: profile["inputs"]["ids"]["shape"] for profile in document["profiles"]}
    assert shapes == {"prefill": [2, 64], "decode": [2, 1]}
    for profile in document["profiles"]:
        assert len(profile["samples_ms"]) == 5
        assert 0 < profile["median_ms"] <= profile["p90_ms"] <= profile["p99_ms"]
        assert profile["first_ms"] > 0

    report = json.loads(torchtrtprof("report", traces, "--format", "json"))
    (run,) = report["runs"]
    assert run["skipped"] == []
    (engine,) = run["engines"]
    assert engine["profile_names"] == ["prefill", "decode"]
    assert [profile["name"] for profile in engine["profiles"]] == ["prefill", "decode"]
    for profile in engine["profiles"]:
        assert profile["total_ms"] > 0
        # "trex" tells how often a layer was reported, which may be more than once in a call.
        assert all(layer["count"] % 4 == 0 for layer in profile["layers"]), profile
    table = torchtrtprof("report", traces, "--profile", "decode")
    assert "prefill" not in table
    torchtrtprof("report", traces, "-o", tmp_path / "report.html", "--perfetto", tmp_path / "timeline.json")
    assert (tmp_path / "report.html").read_text().count("<svg") >= 3
    assert "is not empty" in torchtrtprof("run", folder / form, "--trace", traces, code=1)


def test_traces_and_timeline_are_in_the_trace_event_format(folder, tmp_path):
    traces = tmp_path / "traces"
    ran(folder / "program.pt2", "--trace", traces)
    files = list(traces.glob("*.trace"))
    assert len(files) >= 4
    for path in files:
        check_trace_events(json.loads(path.read_text()))
    torchtrtprof("report", traces, "--perfetto", tmp_path / "timeline.json")
    check_trace_events(json.loads((tmp_path / "timeline.json").read_text())["traceEvents"])


def test_traces_without_the_timings(folder, tmp_path):
    """What the layer names alone tell: each profile's layers, or that they do not tell."""
    ran(folder / "program.ep", "--trace", tmp_path)
    for path in tmp_path.glob("timing.*.json"):
        path.unlink()
    (engine,) = json.loads(torchtrtprof("report", tmp_path, "--format", "json"))["runs"][0]["engines"]
    labels = [profile["name"] for profile in engine["profiles"]]
    print("layer names under several profiles:", [layer["name"] for p in engine["profiles"] for layer in p["layers"]])
    assert labels in (["prefill", "decode"], ["all profiles"])
    assert engine["remarks"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("option", ["--cuda-graphs", "--context-per-profile"])
def test_ways_to_run(folder, form, option):
    if option == "--context-per-profile" and not hasattr(torch_tensorrt.runtime, "context_per_profile"):
        assert "context_per_profile" in torchtrtprof("run", folder / form, option, code=1)
        return
    document = ran(folder / form, option)
    assert document[option.removeprefix("--").replace("-", "_")] is True
    assert [profile["profile"] for profile in document["profiles"]] == ["prefill", "decode"]


def test_two_commands_as_a_user_calls_them(folder, tmp_path):
    """From a package to the layer that costs the most under decode."""
    for command in (
        ["run", folder / "program.pt2", "--profile", "decode", "--shapes", "ids=2x1", "--trace", tmp_path / "traces"],
        ["report", tmp_path / "traces"],
    ):
        arguments = [sys.executable, "-m", "torch_tensorrt_profiles.cli", *map(str, command)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        print(done.stdout)
    assert "| decode" in done.stdout
    assert "%" in done.stdout


def test_shapes_of_a_profile(folder):
    document = ran(folder / "program.pt2", "--profile", "prefill", "--shapes", "ids=2x100")
    (profile,) = document["profiles"]
    assert profile["inputs"]["ids"]["shape"] == profile["inputs"]["positions"]["shape"] == [2, 100]


def test_the_engine_explorer_reads_the_traces(folder, tmp_path, engine_explorer):
    ran(folder / "program.ep", "--trace", tmp_path, "--trace-format", "trex", "--profile", "prefill")
    (trace,), (information,) = (list(tmp_path.glob(f"*{suffix}")) for suffix in (LAYERS, INFORMATION))
    records = engine_explorer.read_profiling_file(str(trace))
    assert records
    known = json.loads(information.read_text())["Layers"]
    names = {layer if isinstance(layer, str) else layer["Name"] for layer in known}
    assert {record["name"] for record in records} <= names
    assert sum(record["percentage"] for record in records) == pytest.approx(100, abs=0.1)


def test_a_program_of_several_engines(tmp_path):
    profiles = [OptimizationProfile("prefill", {"x": {1: (4, 32, 64)}}), OptimizationProfile("decode", {"x": {1: 1}})]
    compiled = torch_tensorrt.dynamo.compile(export_broken(), optimization_profiles=profiles, **BREAK)
    torch_tensorrt.save(compiled, str(tmp_path / "broken.ep"), retrace=False)
    traces = tmp_path / "traces"
    ran(tmp_path / "broken.ep", "--trace", traces)
    engines = json.loads(torchtrtprof("report", traces, "--format", "json"))["runs"][0]["engines"]
    assert len(engines) == 2
    for engine in engines:
        assert [profile["name"] for profile in engine["profiles"]] == ["prefill", "decode"]


def test_a_file_of_torch_save_does_not_run(folder):
    assert "torch_tensorrt.save" in torchtrtprof("run", folder / "program.pt", "--shapes", "ids=2x1", code=1)
