"""The engine cache holds plans of ours: who hits, who misses, and that a bad entry is no more than a rebuild."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch_tensorrt
from programs import export_two_inputs
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.dynamo._engine_cache import BaseEngineCache

PREFILL = OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}})
DECODE = OptimizationProfile("decode", {"ids": {1: 1}})


class Dictionary(BaseEngineCache):
    """The least that a cache has to be."""

    def __init__(self):
        self.blobs: dict[str, bytes] = {}
        self.hits = 0

    def save(self, hash, blob, *args, **kwargs):
        self.blobs[hash] = blob

    def load(self, hash, *args, **kwargs):
        self.hits += hash in self.blobs
        return self.blobs.get(hash)


@pytest.fixture
def builds(monkeypatch):
    """How many engines TensorRT built."""
    from torch_tensorrt.dynamo.conversion._TRTInterpreter import TRTInterpreter

    count = []
    run = TRTInterpreter.run
    monkeypatch.setattr(TRTInterpreter, "run", lambda self, *a, **k: count.append(1) or run(self, *a, **k))
    return count


def compile_into(cache, exported=None, profiles=(PREFILL, DECODE), **options):
    return torch_tensorrt.dynamo.compile(
        exported if exported is not None else export_two_inputs(),
        optimization_profiles=list(profiles),
        min_block_size=1,
        custom_engine_cache=cache,
        **{"cache_built_engines": True, "reuse_cached_engines": True, **options},
    )


def engine_bytes(program):
    (module,) = [m for m in program.modules() if isinstance(m, torch_tensorrt.dynamo.runtime.TorchTensorRTModule)]
    return bytes(module.serialized_engine)


def test_the_same_program_hits(builds):
    cache = Dictionary()
    first, second = compile_into(cache), compile_into(cache)
    assert len(builds) == 1
    assert engine_bytes(first) == engine_bytes(second)
    assert torch_tensorrt.runtime.optimization_profiles(second) == torch_tensorrt.runtime.optimization_profiles(first)


def test_changed_weights_order_ranges_names_and_settings_miss(builds):
    cache = Dictionary()
    compile_into(cache)
    changed = export_two_inputs()
    with torch.no_grad():
        changed.state_dict["linear.weight"].add_(1)
    compile_into(cache, changed)
    compile_into(cache, profiles=(DECODE, PREFILL))
    compile_into(cache, profiles=(OptimizationProfile("prefill", {"ids": {1: (16, 65, 128)}}), DECODE))
    compile_into(cache, profiles=(OptimizationProfile("prompt", {"ids": {1: (16, 64, 128)}}), DECODE))
    compile_into(cache, optimization_level=1)
    assert len(builds) == len(cache.blobs) == 6
    assert cache.hits == 0


def test_reuse_and_build_are_separate(builds):
    cache = Dictionary()
    compile_into(cache, cache_built_engines=False)
    assert not cache.blobs
    compile_into(cache, reuse_cached_engines=False)
    compile_into(cache, reuse_cached_engines=False)
    assert cache.hits == 0
    assert len(builds) == 3


@pytest.mark.parametrize("damage", ["truncated", "foreign", "header", "empty"])
def test_a_bad_entry_is_rebuilt(builds, caplog, damage):
    cache = Dictionary()
    compile_into(cache)
    (key,) = cache.blobs
    good = cache.blobs[key]
    cache.blobs[key] = {"truncated": good[:-7], "foreign": b"\x80\x04}.", "header": good[:40], "empty": b""}[damage]
    with caplog.at_level("WARNING", logger="torch_tensorrt_profiles"):
        compile_into(cache)
    assert len(builds) == 2
    assert cache.blobs[key][:32] == good[:32]
    said = [r.getMessage() for r in caplog.records if "built again" in r.getMessage()]
    assert len(said) == (0 if damage == "empty" else 1)


def test_two_processes_hit(tmp_path):
    code = """
import sys, torch, torch_tensorrt
from programs import export_two_inputs
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.dynamo.conversion._TRTInterpreter import TRTInterpreter
run = TRTInterpreter.run
def spy(self, *a, **k):
    print("BUILT"); return run(self, *a, **k)
TRTInterpreter.run = spy
torch_tensorrt.dynamo.compile(export_two_inputs(), min_block_size=1, engine_cache_dir=sys.argv[1],
    torch_executed_ops={"torch.ops.aten.sin.default", "torch.ops.aten.cos.default", "torch.ops.aten.tan.default"},
    optimization_profiles=[OptimizationProfile("a", {"ids": {1: 1}}), OptimizationProfile("b", {"ids": {1: 2}})],
    cache_built_engines=True, reuse_cached_engines=True)
"""
    tests = str(Path(__file__).parents[1])
    built = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": tests, "PYTHONHASHSEED": seed}
        environment["PYTHONPATH"] = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        built.append(done.stdout.count("BUILT"))
    assert built == [1, 0]


def test_without_profiles_stock_decides(builds, caplog):
    """An immutable engine without profiles is still not cached, and stock says so."""
    cache = Dictionary()
    spec = [torch_tensorrt.Input(min_shape=(2, 2), opt_shape=(2, 8), max_shape=(2, 128), dtype=torch.int64)] * 2
    with caplog.at_level("WARNING"):
        torch_tensorrt.dynamo.compile(
            export_two_inputs(), inputs=spec, min_block_size=1, custom_engine_cache=cache, cache_built_engines=True
        )
    assert not cache.blobs
    assert any("weights are immutable" in r.getMessage() for r in caplog.records)
