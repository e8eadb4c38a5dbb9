"""Every form in which a compiled program is deployed is selected by name."""

from __future__ import annotations

import pytest
import torch
import torch_tensorrt
from programs import TwoInputs, export_two_inputs, save_two_inputs_package
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.runtime import explain, optimization_profile, profile_names

pytestmark = pytest.mark.gpu

PROFILES = [
    OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
    OptimizationProfile("decode", {"ids": {1: 1}}),
]


@pytest.fixture(scope="module")
def compiled():
    return torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1)


def assert_both_profiles_run(program, call) -> None:
    torch.manual_seed(0)
    reference = TwoInputs().eval().cuda()
    assert profile_names(program) == ["prefill", "decode"]
    for name, seq in (("decode", 1), ("prefill", 40), ("decode", 1)):
        ids = torch.randint(0, 32, (2, seq), device="cuda")
        positions = torch.arange(seq, device="cuda").expand(2, seq).contiguous()
        with optimization_profile(program, name):
            torch.testing.assert_close(call(ids, positions), reference(ids, positions), rtol=2e-2, atol=2e-2)


def test_torchscript(compiled, tmp_path):
    ids = torch.zeros(2, 16, dtype=torch.int64, device="cuda")
    with optimization_profile(compiled, "prefill"):
        traced = torch.jit.trace(compiled, (ids, ids.clone()))
    torch.jit.save(traced, str(tmp_path / "program.ts"))
    loaded = torch.jit.load(str(tmp_path / "program.ts"))
    assert_both_profiles_run(loaded, loaded)
    with optimization_profile(loaded, "decode"), pytest.raises(RuntimeError, match="'prefill' would fit"):
        loaded(ids, ids)


def test_aot_inductor(compiled, tmp_path, capfd):
    path = str(tmp_path / "program.pt2")
    save_two_inputs_package(compiled, path)
    runners = [torch._inductor.aoti_load_package(path) for _ in range(2)]
    for runner in runners:
        assert_both_profiles_run(runner, runner)
    # Two runners of one package are two programs: one block inside another, each with its own profile.
    ids = torch.zeros(2, 1, dtype=torch.int64, device="cuda")
    many = torch.zeros(2, 50, dtype=torch.int64, device="cuda")
    with optimization_profile(runners[0], "decode"), optimization_profile(runners[1], "prefill"):
        assert runners[0](ids, ids).shape == (2, 1, 16)
        assert runners[1](many, many).shape == (2, 50, 16)
    # AOTInductor replaces the message, so it is on stderr.
    with optimization_profile(runners[0], "decode"), pytest.raises(RuntimeError):
        runners[0](many, many)
    assert "'prefill' would fit" in capfd.readouterr().err
    (explanation,) = explain(runners[0], ids, ids)
    assert (explanation.index, explanation.shapes) == (0, None)


def test_exported_program_errors_and_explain(compiled, tmp_path):
    torch_tensorrt.save(compiled, str(tmp_path / "program.ep"), retrace=False)
    program = torch_tensorrt.load(str(tmp_path / "program.ep")).module()
    many = torch.zeros(2, 50, dtype=torch.int64, device="cuda")
    with optimization_profile(program, "decode"):
        with pytest.raises(ValueError, match="'prefill' would fit"):
            program(many, many)
        (explanation,) = explain(program, many, many)
    assert explanation.index is None
    assert explanation.shapes == ((2, 50), (2, 50))
