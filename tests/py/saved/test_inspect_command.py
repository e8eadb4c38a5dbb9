"""``torchtrtprof inspect`` as a command."""

from __future__ import annotations

import json

import pytest
import torch
from archives import packed_engine, write_archive, write_exported, write_package
from click.testing import CliRunner
from torch_tensorrt_profiles._stand_ins import STAND_IN_NAME
from torch_tensorrt_profiles.cli import main
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles
from torch_tensorrt_profiles.saved._engine import FIELDS


def inspect(*arguments):
    return CliRunner().invoke(main, ["inspect", *map(str, arguments)])


@pytest.fixture
def package(tmp_path):
    return write_package(tmp_path / "llm.pt2", [packed_engine(), packed_engine("\x1b[31mred", profiles=None)])


def test_the_profile_table(package):
    done = inspect(package, "--no-gpu")
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "0 prefill - ids 1x16 1x64 1x128" in lines
    assert "1 decode - ids 1x1 1x1 1x1" in lines
    assert "ids input int64" in lines
    assert "output0 output float16" in lines
    assert "built for NVIDIA H200, compute capability 9.0, linux_x86_64" in lines
    assert "\x1b" not in done.stdout
    assert any("no names are saved with it" in line for line in lines)


def test_where_an_engine_was_built_that_is_for_no_gpu_of_a_name(tmp_path):
    packed = packed_engine()
    packed[FIELDS.index("DEVICE")] = f"0%8%9%0%{STAND_IN_NAME}"
    done = inspect(write_package(tmp_path / "p.pt2", [packed]), "--no-gpu")
    assert "  built on a host without a GPU, compute capability 8.9, linux_x86_64\n" in done.stdout
    assert STAND_IN_NAME not in done.stdout


def test_inputs_of_one_shape_are_summed_up(tmp_path):
    one, two = (((1, 8), (1, 8), (1, 8)), ((1, 16), (1, 64), (1, 128)))
    profiles = EngineProfiles(("a", "b"), ({"ids": two, "k": one, "v": one}, {"ids": one, "k": one, "v": one}))
    packed = packed_engine(profiles=profiles)
    packed[FIELDS.index("INPUT_BINDING_NAMES")] = "v%ids%k"
    done = inspect(write_package(tmp_path / "p.pt2", [packed]), "--no-gpu")
    assert "always 1x8: v, k" in done.stdout
    assert done.stdout.count("ids") == 3  # as a binding, and once per profile


def test_json(package):
    done = inspect(package, "--json", "--no-gpu")
    document = json.loads(done.stdout)
    assert (document["schema"], document["form"]) == (1, "AOTInductor package")
    first, second = document["engines"]
    assert first["profiles"][1] == {
        "index": 1,
        "name": "decode",
        "inputs": {"ids": {"min": [1, 1], "opt": [1, 1], "max": [1, 1]}},
        "memory_bytes": None,
    }
    assert first["bindings"][0] == {"name": "ids", "kind": "input", "dtype": "int64"}
    assert second["profiles"] == []
    assert first["on_this_gpu"] == "not asked (--no-gpu)"


@pytest.mark.skipif(torch.cuda.is_available(), reason="about hosts without a GPU")
def test_a_host_without_a_gpu_says_what_it_cannot_tell(package):
    assert "memory: not known, this host has no GPU" in inspect(package).stdout


def test_inputs_of_the_program(tmp_path):
    done = inspect(write_exported(tmp_path / "p.ep", []), "--no-gpu")
    assert "1x1.." in done.stdout
    assert "It holds no TensorRT engine." in done.stdout


def test_no_program(tmp_path):
    done = inspect(write_archive(tmp_path / "a.zip", {"a": "b"}))
    assert done.exit_code == 1
    assert "no saved program" in done.output
    assert "Traceback" not in done.output
