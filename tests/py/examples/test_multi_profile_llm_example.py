"""The language model example: its cache is right, and without a GPU it builds and saves one two-profile engine."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLE = Path(__file__).parents[3] / "examples" / "dynamo" / "multi_profile_llm_example.py"
TOY = ["--layers=2", "--hidden=64", "--heads=4", "--vocab=97", "--max-seq=48", "--prefill-opt=12", "--new-tokens=5"]
WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def run_example(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, EXAMPLE, *arguments], capture_output=True, text=True, env=variables, timeout=600
    )


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return importlib.import_module(EXAMPLE.stem)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    """What the example does on a host without a GPU."""
    folder = tmp_path_factory.mktemp("llm")
    completed = run_example(*TOY, "--output", str(folder), "--json", str(folder / "llm.json"), **WITHOUT_GPU)
    assert completed.returncode == 0, completed.stderr[-4000:]
    return completed, folder


def model_and_config(example: ModuleType):
    config = example.parse([*TOY, "--batch=2", "--dtype=float32"])
    config.device = "cpu"
    return example.make_model(config), config


def without_cache(model: torch.nn.Module, ids: torch.Tensor) -> torch.Tensor:
    """Logits of whole sequences: the same weights, written without cache, positions or mask."""
    batch, seq = ids.shape
    half = model.cos.shape[1]
    x = model.embedding.weight[ids]
    rotation = torch.complex(model.cos[:seq], model.sin[:seq])

    def rotated(heads: torch.Tensor) -> torch.Tensor:
        turned = torch.complex(heads[..., :half], heads[..., half:]) * rotation
        return torch.cat((turned.real, turned.imag), dim=-1)

    for block in model.blocks:
        normed = torch.nn.functional.rms_norm(x, x.shape[-1:], block.attention_norm.weight, 1e-6)
        query, key, value = block.qkv(normed).view(batch, seq, 3, block.heads, -1).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(rotated(query), rotated(key), value, is_causal=True)
        x = x + block.out(attended.transpose(1, 2).reshape(batch, seq, -1))
        normed = torch.nn.functional.rms_norm(x, x.shape[-1:], block.mlp_norm.weight, 1e-6)
        x = x + block.down(torch.nn.functional.silu(block.gate(normed)) * block.up(normed))
    return model.head(torch.nn.functional.rms_norm(x, x.shape[-1:], model.norm.weight, 1e-6))


@pytest.mark.parametrize(
    "calls", [(12,), (1,) * 12, (11, 1), (5, 7), (1, 10, 1), (4, 1, 1, 6)], ids=lambda calls: "+".join(map(str, calls))
)
def test_cached_calls_equal_the_whole_sequence(example: ModuleType, calls: tuple[int, ...]) -> None:
    model, config = model_and_config(example)
    ids, position_ids = example.make_prompt(config, sum(calls))
    cache = model.empty_cache(config.batch)
    logits = []
    for ids_of_call, positions_of_call in zip(ids.split(calls, dim=1), position_ids.split(calls, dim=1), strict=True):
        out, *cache = model(ids_of_call, positions_of_call, *cache)
        logits.append(out)
    torch.testing.assert_close(torch.cat(logits, dim=1), without_cache(model, ids), rtol=1e-4, atol=1e-5)


def test_cached_generation_equals_generation_without_cache(example: ModuleType) -> None:
    model, config = model_and_config(example)
    ids, position_ids = example.make_prompt(config, 12)
    sequence, cache = ids, model.empty_cache(config.batch)
    for _ in range(20):
        logits, *cache = model(ids, position_ids, *cache)
        ids, position_ids = logits[:, -1:].argmax(-1), position_ids[:, -1:] + 1
        expected = without_cache(model, sequence)[:, -1:].argmax(-1)
        assert torch.equal(ids, expected)
        sequence = torch.cat((sequence, ids), dim=1)


def test_a_full_cache_is_used_to_its_last_slot(example: ModuleType) -> None:
    model, config = model_and_config(example)
    ids, position_ids = example.make_prompt(config, config.max_seq)
    logits, *_ = model(ids, position_ids, *model.empty_cache(config.batch))
    torch.testing.assert_close(logits, without_cache(model, ids), rtol=1e-4, atol=1e-5)


def test_prints_both_profiles(built: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    lines = built[0].stdout.splitlines()
    rows = {tuple(line.split()[:3]): "".join(line.split()[3:]) for line in lines if line[:4].strip().isdigit()}
    prefill, decode = "(1,2)(1,12)(1,48)", "(1,1)(1,1)(1,1)"
    assert rows == {
        ("0", "prefill", "input_ids"): prefill,
        ("0", "prefill", "position_ids"): prefill,
        ("1", "decode", "input_ids"): decode,
        ("1", "decode", "position_ids"): decode,
    }
    assert "  static: cache_0 .. cache_3, each (1, 4, 48, 16)" in lines
    assert all(len(line) <= 100 for line in lines if "saved " not in line and "--load" not in line)


def test_builds_one_engine(built: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    output, folder = built
    assert output.stdout.count("\nengine ") == 1
    result = json.loads((folder / "llm.json").read_text())
    assert len(result["engine_bytes"]) == 1
    assert result["environment"]["torch"] == torch.__version__
    assert result["config"]["max_seq"] == 48


def test_saves_a_program_with_its_profiles(built: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    from torch_tensorrt.runtime import optimization_profiles, profile_names

    extra_files = {"config.json": ""}
    program = torch.export.load(str(built[1] / "llm.pt2"), extra_files=extra_files)
    assert profile_names(program) == ["prefill", "decode"]
    (profiles,) = optimization_profiles(program).values()
    assert [tuple(p["inputs"]["input_ids"]["opt"]) for p in profiles] == [(1, 12), (1, 1)]
    assert json.loads(extra_files["config.json"])["layers"] == 2


def test_says_how_to_go_on_without_a_gpu(built: tuple[subprocess.CompletedProcess[str], Path]) -> None:
    output, folder = built
    saved = folder / "llm.pt2"
    assert f"multi_profile_llm_example.py --load {saved}" in output.stdout
    refused = run_example("--load", str(saved), **WITHOUT_GPU)
    assert refused.returncode == 1
    assert "needs a GPU" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--hidden=60"], "multiple of twice --heads"),
        (["--prefill-opt=44"], "at most --max-seq"),
        (["--strategies=none,fast"], "fast is not among none, lazy, eager"),
    ],
)
def test_refuses_sizes_that_do_not_fit(
    example: ModuleType, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit):
        example.parse([*TOY, *arguments])
    assert message in capsys.readouterr().err


GPU_SIZE = ["--layers=2", "--hidden=256", "--heads=4", "--vocab=512", "--max-seq=256", "--prefill-opt=64"]


@pytest.mark.gpu
def test_on_a_gpu_checks_and_measures(tmp_path: Path) -> None:
    report = tmp_path / "llm.json"
    sizes = [*GPU_SIZE, "--new-tokens=8", "--rounds=1"]
    completed = run_example(*sizes, "--output", str(tmp_path), "--json", str(report))
    assert completed.returncode == 0, completed.stdout + completed.stderr[-4000:]
    result = json.loads(report.read_text())
    assert result["environment"]["gpu"]
    assert result["environment"]["driver"]
    assert [len(check["relative_errors"]) for check in result["checks"]] == [8, 8]
    assert sum(check["clear_tokens"] for check in result["checks"]) > 0
    assert list(result["comparison"]) == ["none", "lazy"]
    for measured in result["comparison"].values():
        assert set(measured["samples_ms"]) == {
            "prefill, first call",
            "decode, first call",
            "prefill, warm",
            "decode, warm",
            "prompt and 8 tokens",
        }
        for by_engine in measured["samples_ms"].values():
            assert set(by_engine) == {"two profiles", "one profile"}
            assert all(samples and min(samples) > 0 for samples in by_engine.values())
        assert measured["median_ms"].keys() == measured["samples_ms"].keys()
    assert (tmp_path / "llm.pt2").exists()


@pytest.mark.gpu
@pytest.mark.parametrize("saved_on", ["a GPU host", "a host without a GPU"])
def test_a_saved_program_runs_on_a_gpu(tmp_path: Path, saved_on: str) -> None:
    environment = WITHOUT_GPU if saved_on == "a host without a GPU" else {}
    saving = run_example(*GPU_SIZE, "--new-tokens=8", "--strategies=", "--output", str(tmp_path), **environment)
    assert saving.returncode == 0, saving.stdout + saving.stderr[-4000:]
    loaded = run_example("--load", str(tmp_path / "llm.pt2"))
    assert loaded.returncode == 0, loaded.stdout + loaded.stderr[-4000:]
    assert "profiles: prefill, decode" in loaded.stdout
    assert loaded.stdout.count("worst relative error") == 2
