"""Runtime settings of loaded programs on a GPU: they reach the engines, outputs are right, they go with the block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch_tensorrt
from programs import TwoInputs, export_two_inputs, save_two_inputs_package
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.runtime import enable_cudagraphs, optimization_profile, runtime_cache, runtime_config
from torch_tensorrt_profiles.runtime._engines import engines_of

pytestmark = [pytest.mark.gpu, pytest.mark.parametrize("form", ["program.ep", "program.ts", "program.pt2"])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    profiles = [
        OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
        OptimizationProfile("decode", {"ids": {1: 1}}),
    ]
    compiled = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=profiles, min_block_size=1)
    ids = torch.zeros(2, 16, dtype=torch.int64, device="cuda")
    with optimization_profile(compiled, "prefill"):
        torch.jit.save(torch.jit.trace(compiled, (ids, ids.clone())), str(folder / "program.ts"))
    save_two_inputs_package(compiled, str(folder / "program.pt2"))
    torch_tensorrt.save(compiled, str(folder / "program.ep"), retrace=False)
    return folder


def load(file: Path) -> Any:
    if file.suffix == ".pt2":
        return torch._inductor.aoti_load_package(str(file))
    if file.suffix == ".ts":
        return torch.jit.load(str(file))
    return torch_tensorrt.load(str(file)).module()


def check(program: Any, seq: int) -> None:
    """Runs it under the profile for this length, against eager PyTorch."""
    torch.manual_seed(0)
    reference = TwoInputs().eval().cuda()
    ids = torch.randint(0, 32, (2, seq), device="cuda")
    positions = torch.arange(seq, device="cuda").expand(2, seq).contiguous()
    with optimization_profile(program, "decode" if seq == 1 else "prefill"):
        torch.testing.assert_close(program(ids, positions), reference(ids, positions), rtol=2e-2, atol=2e-2)


def settings(program: Any) -> list[Any]:
    (engine,) = engines_of(program)
    return list(torch.ops.tensorrt._get_runtime_settings(engine.live))


def test_a_runtime_cache_is_written_and_read(folder, form, tmp_path):
    file = tmp_path / "kernels.bin"
    program = load(folder / form)
    with runtime_cache(program, file):
        check(program, 1)
        check(program, 20)
    assert file.stat().st_size > 0
    assert settings(program)[2] is None
    check(program, 1)
    again = load(folder / form)
    with runtime_cache(again, file) as cache:
        check(again, 1)
        assert cache.has_cache()
    check(again, 20)


def test_cuda_graphs(folder, form):
    program = load(folder / form)
    with enable_cudagraphs(program, cuda_graph_strategy="whole_graph_capture"):
        assert settings(program)[1] == 1
        for seq in (1, 1, 20, 20, 1):
            check(program, seq)
    assert settings(program)[1] == 0
    check(program, 1)


def test_kernel_specialization(folder, form):
    program = load(folder / form)
    with runtime_config(program, dynamic_shapes_kernel_specialization_strategy="none"):
        check(program, 20)
        inside = settings(program)
    assert inside[0] != settings(program)[0]
    check(program, 20)
