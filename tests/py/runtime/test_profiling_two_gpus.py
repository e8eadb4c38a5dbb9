"""Process-wide profiling on several GPUs: the right device, right results, and a folder per rank."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import profiled_engines
import pytest
import torch
import torch_tensorrt
from profiled_engines import (
    ENGINE,
    assert_all_traces,
    assert_close,
    clear_traces,
    compile_mlp,
    engine_records,
    example,
    layers_of,
    read_traces,
)
from torch_tensorrt.runtime import get_profiling, profile_execution, set_profiling

pytestmark = [pytest.mark.gpu, pytest.mark.gpu2]


@pytest.fixture(autouse=True)
def settings_restored():
    before, device = get_profiling(), torch.cuda.current_device()
    try:
        yield
    finally:
        set_profiling(before.enabled, format=before.format, path_prefix=before.path_prefix)
        torch.cuda.set_device(device)


@pytest.fixture(scope="module")
def on_first():
    return compile_mlp(0, device="cuda:0")


@pytest.fixture(scope="module")
def on_second():
    return compile_mlp(1, device="cuda:1")


def check(compiled, device: str, seed: int = 7) -> None:
    x = example(seed, device)
    result = compiled.program(x)
    assert str(result.device) == device
    assert_close(result, compiled.eager(x))


def test_engine_on_the_second_device(on_second, tmp_path):
    with torch.cuda.device(1):
        check(on_second, "cuda:1")
        with profile_execution(tmp_path):
            check(on_second, "cuda:1")
            check(on_second, "cuda:1", seed=3)
        (record,) = engine_records(tmp_path)
        assert (record["name"], record["device"], record["folder"]) == (ENGINE, 1, ".")
        assert_all_traces(tmp_path)
        clear_traces(tmp_path)
        check(on_second, "cuda:1")
        assert list(tmp_path.rglob("*.trace")) == []


def test_with_the_first_device_current(on_second, tmp_path):
    """Enabling and disabling rebuild the context on the engine's device, and leave the current one alone."""
    torch.cuda.set_device(0)
    for number in range(2):
        with profile_execution(tmp_path / str(number)):
            check(on_second, "cuda:1")
            assert torch.cuda.current_device() == 0
        check(on_second, "cuda:1")
        assert torch.cuda.current_device() == 0
        assert_all_traces(tmp_path / str(number))


def test_two_engines_on_two_devices(on_first, on_second, tmp_path):
    with profile_execution(tmp_path):
        for seed in range(3):
            check(on_first, "cuda:0", seed)
            with torch.cuda.device(1):
                check(on_second, "cuda:1", seed)
    records = engine_records(tmp_path)
    assert [(record["name"], record["device"]) for record in sorted(records, key=lambda r: r["device"])] == [
        (ENGINE, 0),
        (ENGINE, 1),
    ]
    assert len({record["folder"] for record in records}) == 2
    read_traces(tmp_path)
    rows = json.loads(torch.ops.tensorrt.dump_engine_timing())
    for record in records:
        layers_of(tmp_path / record["folder"])
        assert {row["count"] for row in rows if row["object_id"] == record["object_id"]} == {3}
    check(on_first, "cuda:0")
    with torch.cuda.device(1):
        check(on_second, "cuda:1")


def test_two_ranks_share_a_prefix(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2"]
    command += ["--master-addr=127.0.0.1", f"--master-port={port}", profiled_engines.__file__, "rank", str(tmp_path)]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    ranks = {int(rank): int(pid) for rank, pid in re.findall(r"RANK (\d) PID (\d+) OK", done.stdout)}
    assert sorted(ranks) == [0, 1], done.stdout
    read_traces(tmp_path)
    for rank, pid in ranks.items():
        (record,) = engine_records(tmp_path, pid)
        assert (record["rank"], record["device"], record["folder"]) == (rank, rank, f"{ENGINE}.{pid}.r{rank}")
        assert_all_traces(tmp_path / record["folder"])
    folders = {path.name for path in Path(tmp_path).iterdir() if path.is_dir()}
    assert folders == {f"{ENGINE}.{pid}.r{rank}" for rank, pid in ranks.items()}
    assert torch_tensorrt.runtime.get_profiling().enabled is False
