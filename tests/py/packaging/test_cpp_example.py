"""``find_package(torch_tensorrt_profiles)`` as a C++ programmer uses it: the example in cpp/, built and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
import torch_tensorrt_profiles

ROOT = Path(__file__).parents[3]
BUILD = ROOT / "build" / "example"


@pytest.fixture(scope="module")
def example() -> Path:
    """The program, built against the installed package, or as TORCHTRT_PROFILES_CPP_EXAMPLE names it."""
    if "TORCHTRT_PROFILES_CPP_EXAMPLE" in os.environ:
        return Path(os.environ["TORCHTRT_PROFILES_CPP_EXAMPLE"])
    if not (shutil.which("cmake") and shutil.which("g++")):
        pytest.skip("needs cmake and g++, or TORCHTRT_PROFILES_CPP_EXAMPLE=<build/example/run_package>")
    if not Path(torch_tensorrt_profiles.cmake_prefix_path).is_dir():
        pytest.skip("this installation has no CMake configuration: pip install --no-build-isolation -e .")
    configure = ["cmake", "-S", str(ROOT / "cpp" / "example"), "-B", str(BUILD)]
    configure += [f"-DCMAKE_PREFIX_PATH={torch_tensorrt_profiles.cmake_prefix_path}"]
    configure += [f"-DTORCH_DIR={Path(torch.__file__).parent}"]
    for command in (configure, ["cmake", "--build", str(BUILD), "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return BUILD / "run_package"


def run(example: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    # Torch and its CUDA libraries, which the program does not say where to find.
    environment = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(library_folders())}
    command = [str(example), *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def library_folders() -> list[str]:
    """Where this process has its libraries from, Torch-TensorRT being loaded, and where torch's and ours are."""
    import torch_tensorrt  # noqa: F401

    mapped = [line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line]
    wanted = re.compile(r"lib(torch|c10|shm|cu|nv|nccl|tensorrt)")
    system = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
    folders = {str(Path(path).parent) for path in mapped if wanted.match(Path(path).name)}
    folders = {folder for folder in folders if not folder.startswith(system)}
    first = [str(Path(module.__file__ or "").parent / "lib") for module in (torch, torch_tensorrt_profiles)]
    return [*first, *sorted(folders), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]


def libtorchtrt() -> Path:
    import torch_tensorrt

    folder = Path(torch_tensorrt.__file__).parent / "lib"
    runtime = folder / "libtorchtrt_runtime.so"
    return runtime if runtime.is_file() else folder / "libtorchtrt.so"


def test_builds_and_starts(example):
    done = run(example)
    assert (done.returncode, done.stderr.startswith("usage: run_package")) == (2, True), done


@pytest.mark.skipif(torch.cuda.is_available(), reason="about hosts without a GPU")
def test_without_a_gpu(example):
    done = run(example, "libtorchtrt.so", "p.pt2", "decode", "traces", "int64:1x1")
    assert (done.returncode, "no CUDA device" in done.stderr) == (1, True), done


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    import torch_tensorrt
    from programs import export_two_inputs, save_two_inputs_package
    from torch_tensorrt.dynamo import OptimizationProfile

    profiles = [
        OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
        OptimizationProfile("decode", {"ids": {1: 1}}),
    ]
    compiled = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=profiles, min_block_size=1)
    path = tmp_path_factory.mktemp("package") / "two.pt2"
    save_two_inputs_package(compiled, str(path))
    return path


@pytest.mark.gpu
class TestOnAGpu:
    @pytest.mark.parametrize(("profile", "seq"), [("decode", 1), ("prefill", 100)])
    def test_runs_a_package_under_a_profile(self, example, package, tmp_path, profile, seq):
        shape = f"int64:2x{seq}"
        done = run(example, libtorchtrt(), package, profile, tmp_path / "traces", shape, shape)
        assert done.returncode == 0, done.stderr
        assert "profile 0 prefill\n    ids: 2x16 to 2x128, best at 2x64" in done.stdout
        assert f"output 2x{seq}x16" in done.stdout
        timing, _ = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("timing ") + len("timing ") :])
        assert {row["profile"] for row in timing} == {profile}
        assert {row["count"] % 10 for row in timing} == {0}
        # And the traces are read.
        from torch_tensorrt_profiles.report._run import read_run

        (engine,) = read_run(tmp_path / "traces").engines
        assert engine.profile_names == ("prefill", "decode")
        assert engine.total_ms > 0

    def test_an_unknown_profile(self, example, package, tmp_path):
        done = run(example, libtorchtrt(), package, "decod", tmp_path / "traces", "int64:2x1", "int64:2x1")
        assert done.returncode == 1
        assert re.search("unknown optimization profile 'decod'; there are 'prefill', 'decode'", done.stderr), (
            done.stderr
        )

    def test_a_shape_that_the_profile_does_not_take(self, example, package, tmp_path):
        done = run(example, libtorchtrt(), package, "decode", tmp_path / "traces", "int64:2x64", "int64:2x64")
        assert done.returncode == 1, done
        assert not list(tmp_path.rglob("*.trace"))
