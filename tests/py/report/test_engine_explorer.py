"""The trex format is what NVIDIA's trt-engine-explorer reads: names and figures arrive in its table."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from torch_tensorrt_profiles.report._run import read_run
from trace_writer import DECODE, INFORMATION, LAYERS, PREFILL, with_mark, write_engine

# Of pandas, about how the package calls it.
pytestmark = pytest.mark.filterwarnings("ignore:.*(deprecated|inplace)")


def tensor(name):
    return {"Name": name, "Dimensions": [1, 64], "Format/Datatype": "Row major linear FP16 format"}


def detailed(layers):
    """Layer information of an engine that was built with detailed profiling verbosity, bindings marked like layers."""
    described, bindings = [], []
    for number, layer in enumerate(layers):
        mark = layer.name[layer.name.index(" [profile") :] if "[profile" in layer.name else ""
        source, target = f"t{number}{mark}", f"t{number + 1}{mark}"
        described.append(
            {
                "Name": layer.name,
                "LayerType": "gemm",
                "Inputs": [tensor(source)],
                "Outputs": [tensor(target)],
                "TacticName": "sm90_xmma_gemm",
                "StreamId": 0,
                "Metadata": "",
            }
        )
        bindings += [source, target]
    return json.dumps({"Layers": described, "Bindings": bindings})


def plan(explorer, folder, profile_id=None):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # "Ignoring profiling data"
        graph, trace = folder / f"decoder_engine{INFORMATION}", folder / f"decoder_engine{LAYERS}"
        return explorer.EnginePlan(str(graph), str(trace), profile_id=profile_id)


def assert_holds(engine_plan, layers):
    frame = engine_plan.df
    assert list(frame["latency.time"]) == [pytest.approx(layer.total_ms) for layer in layers]
    assert list(frame["latency.avg_time"]) == [pytest.approx(layer.total_ms / layer.count) for layer in layers]
    assert sum(frame["latency.pct_time"]) == pytest.approx(100)
    assert engine_plan.total_runtime == pytest.approx(sum(layer.total_ms / layer.count for layer in layers))


def test_one_profile(engine_explorer, tmp_path):
    write_engine(tmp_path, PREFILL)
    (tmp_path / f"decoder_engine{INFORMATION}").write_text(detailed(PREFILL))
    engine_plan = plan(engine_explorer, tmp_path)
    assert list(engine_plan.df["Name"]) == [layer.name for layer in PREFILL]
    assert_holds(engine_plan, PREFILL)


@pytest.mark.parametrize("index", [0, 1])
def test_a_run_of_one_profile_of_two(engine_explorer, tmp_path, index):
    """Layers of the second profile carry its mark in both files."""
    marked = with_mark(DECODE, 1)
    ran = marked if index else PREFILL
    write_engine(tmp_path, ran, profile_names=["prefill", "decode"])
    (tmp_path / f"decoder_engine{INFORMATION}").write_text(detailed([*PREFILL, *marked]))
    engine_plan = plan(engine_explorer, tmp_path, profile_id=index)
    assert list(engine_plan.df["Name"]) == [layer.name for layer in ran]
    assert_holds(engine_plan, ran)


def test_names_of_the_trace_are_those_of_the_layer_information(engine_explorer, tmp_path):
    write_engine(tmp_path, [*PREFILL, *with_mark(DECODE, 1)])
    records = engine_explorer.read_profiling_file(str(tmp_path / f"decoder_engine{LAYERS}"))
    known = json.loads((tmp_path / f"decoder_engine{INFORMATION}").read_text())["Layers"]
    assert [record["name"] for record in records] == known


def test_traces_of_a_gpu_host(engine_explorer):
    """Of the language model's example on an H200, under decode alone: names and figures as TensorRT-RTX gives them."""
    folder = Path(__file__).parent / "h200" / "traces_trex"
    (trace,), (information,) = (list(folder.glob(f"*{ending}")) for ending in (LAYERS, INFORMATION))
    records = engine_explorer.read_profiling_file(str(trace))
    known = set(json.loads(information.read_text())["Layers"])
    assert {record["name"] for record in records} <= known
    assert sum(record["percentage"] for record in records) == pytest.approx(100, abs=0.1)
    (engine,) = read_run(folder).engines
    (profile,) = engine.profiles
    ran = {record["name"] for record in records if record["timeMs"] > 0}
    assert (profile.label, {layer.name for layer in profile.layers}) == ("decode", ran)


def test_an_engine_without_detailed_verbosity_is_refused_by_it(engine_explorer, tmp_path):
    """So the documentation tells how to build one."""
    write_engine(tmp_path, PREFILL)
    with pytest.raises(ValueError, match="detailed ProfilingVerbosity"):
        plan(engine_explorer, tmp_path)
