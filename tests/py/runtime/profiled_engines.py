"""Small engines, AOTInductor packages that hold one, and a reader of the traces they write.

Nothing here needs torch_tensorrt_profiles: packages are built by stock Torch-TensorRT, in processes of their own::

    python profiled_engines.py package FILE SEED [ENGINE_NAME]
    python profiled_engines.py rank PREFIX        # one rank under torch.distributed.run
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch

#: What Torch-TensorRT calls the engine of a program that is one engine.
ENGINE = "_run_on_acc_0_engine"
LAYERS = "_engine_execution_profile.trace"
PHASES = ("_input_profile.trace", "_output_profile.trace", "_enqueue_profile.trace")
DEVICE_SELECTION = "_device_config_profile.trace"
INFORMATION = "_layer_information.json"


class Mlp(torch.nn.Module):
    """``[8, 64] -> [8, 64]``; its weights depend on the seed."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Linear(64, 64)
        self.second = torch.nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.second(torch.relu(self.first(x))))


def mlp(seed: int, device: str = "cuda:0") -> Mlp:
    return Mlp(seed).eval().requires_grad_(False).to(device)


def example(seed: int = 7, device: str = "cuda:0") -> torch.Tensor:
    return torch.randn(8, 64, generator=torch.Generator().manual_seed(seed)).to(device)


def assert_close(actual: Any, expected: torch.Tensor) -> None:
    if isinstance(actual, list | tuple):
        (actual,) = actual
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)


class Compiled(NamedTuple):
    """A program of one engine, the module that holds the engine, and what it was compiled from."""

    program: torch.nn.Module
    module: Any
    eager: Mlp


def compile_mlp(seed: int, engine_name: str = "", device: str = "cuda:0") -> Compiled:
    import torch_tensorrt
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    eager, x = mlp(seed, device), example(device=device)
    with torch.cuda.device(device):
        program = torch_tensorrt.dynamo.compile(
            torch.export.export(eager, (x,)), inputs=[x], min_block_size=1, device=torch.device(device)
        )
        (module,) = [part for part in program.modules() if isinstance(part, TorchTensorRTModule)]
        if engine_name:
            module.name = engine_name.removesuffix("_engine")  # which Torch-TensorRT appends
            module.engine = None
            module.setup_engine()
    return Compiled(program, module, eager)


def build_package(path: Path, seed: int, engine_name: str) -> None:
    import torch_tensorrt

    program = compile_mlp(seed, engine_name).program
    torch_tensorrt.save(program, str(path), output_format="aot_inductor", arg_inputs=[example()], retrace=True)
    assert path.is_file()


def build_packages(folder: Path, packages: dict[str, tuple[int, str]]) -> None:
    """``packages``: seed and engine name (or "") by file name. Built by stock Torch-TensorRT, all at once."""
    builds = {
        name: subprocess.Popen(
            [sys.executable, __file__, "package", str(folder / f"{name}.pt2"), str(seed), engine_name],
            env={**os.environ, "TORCHTRT_PROFILES": "0", "TORCHINDUCTOR_COMPILE_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, (seed, engine_name) in packages.items()
    }
    failures = []
    for name, build in builds.items():
        try:
            output, _ = build.communicate(timeout=400)
        except subprocess.TimeoutExpired:
            build.kill()
            output, _ = build.communicate()
        if build.returncode != 0:
            failures.append(f"{name}: exit code {build.returncode}\n{output[-6000:]}")
    assert not failures, "\n".join(failures)


# Traces


def trace_files(folder: Path) -> dict[str, bytes]:
    """Everything under ``folder`` but hidden files (the lock), by relative path."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def read_traces(folder: Path) -> dict[str, Any]:
    """The same, parsed: each file must be valid JSON, and be called as what it is."""
    contents = {}
    for name, content in trace_files(folder).items():
        assert name.endswith((".trace", ".json")), f"{name} was left in {folder}"
        try:
            contents[name] = json.loads(content)
        except ValueError as error:
            raise AssertionError(f"{name} is not valid JSON ({error}): {content[:2000]!r}") from None
    return contents


def clear_traces(folder: Path) -> None:
    """Removes what engines have written, so that what comes next is new."""
    for path in folder.rglob("*.trace"):
        path.unlink()


def events(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in trace if entry.get("ph") == "X"]


def layer_times_ms(trace: list[dict[str, Any]]) -> dict[str, float]:
    """Time by layer, in order, of a layer trace in either format."""
    if any("timeMs" in entry for entry in trace):
        return {entry["name"]: entry["timeMs"] for entry in trace}
    return {event["name"]: event["dur"] / 1000 for event in events(trace)}


def layers_of(folder: Path, engine: str = ENGINE, *, timed: bool = True) -> dict[str, float]:
    """The layer trace of an engine: there are layers, and they took time (none is reported inside a CUDA graph)."""
    times = layer_times_ms(json.loads((folder / f"{engine}{LAYERS}").read_bytes()))
    assert times, f"no layers in {folder}"
    assert min(times.values()) >= 0
    assert not timed or sum(times.values()) > 0
    return times


def stock_layer_names(folder: Path, engine: str = ENGINE) -> list[str]:
    """The same names from a file that Torch-TensorRT itself wrote, which need not be JSON."""
    return re.findall(r'^ *"name": "(.*)",$', (folder / f"{engine}{LAYERS}").read_text(), re.MULTILINE)


def names_in(information: dict[str, Any]) -> list[str]:
    """The layers in an engine's layer information: names alone, or objects, as the engine was built to tell."""
    return [layer if isinstance(layer, str) else layer["Name"] for layer in information["Layers"]]


def engine_records(prefix: Path, pid: int | None = None) -> list[dict[str, Any]]:
    record = json.loads((prefix / f"engines.{os.getpid() if pid is None else pid}.json").read_bytes())
    assert record["pid"] == (os.getpid() if pid is None else pid)
    return record["engines"]


def assert_all_traces(folder: Path, engine: str = ENGINE) -> dict[str, float]:
    """An engine's traces are all there, valid, and hold something. Its layers' times."""
    contents = read_traces(folder)
    for suffix in (LAYERS, INFORMATION, *PHASES):
        assert f"{engine}{suffix}" in contents, f"no {engine}{suffix} among {sorted(contents)}"
    # Output packing allocates the output, so there is at least that.
    assert events(contents[f"{engine}_output_profile.trace"])
    return layers_of(folder, engine)


def run_rank(prefix: Path) -> None:
    """What each rank does: its own device, the prefix that all share."""
    import torch_tensorrt

    rank, device = int(os.environ["RANK"]), f"cuda:{os.environ['LOCAL_RANK']}"
    torch.cuda.set_device(device)
    compiled = compile_mlp(seed=rank, device=device)
    x = example(rank, device)
    torch_tensorrt.runtime.set_profiling(True, path_prefix=prefix)
    for _ in range(3):
        result = compiled.program(x)
        assert str(result.device) == device, result.device
        assert_close(result, compiled.eager(x))
    torch_tensorrt.runtime.set_profiling(False)
    compiled.program(x)
    # One write each, so that two ranks' lines do not mix.
    os.write(1, f"RANK {rank} PID {os.getpid()} OK\n".encode())


if __name__ == "__main__":
    if sys.argv[1] == "package":
        build_package(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else "")
        assert "torch_tensorrt_profiles.runtime" not in sys.modules, "this package was not built by stock"
    else:
        run_rank(Path(sys.argv[2]))
