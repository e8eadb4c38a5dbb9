"""``torchtrtprof doctor``: each problem is found, and comes with its fix."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from torch_tensorrt_profiles._stand_ins import CAPABILITY_VARIABLE
from torch_tensorrt_profiles.diagnosis import _checks, _process
from torch_tensorrt_profiles.diagnosis._checks import Status, static_checks

NO_GPU = not torch.cuda.is_available()


@pytest.fixture
def installed(monkeypatch):
    """Pretends that these versions are installed, and nothing else."""
    versions = {
        "torch-tensorrt-profiles": _checks.__version__,
        "torch": "2.14.1+cu130",
        "torch-tensorrt-rtx": "2.14.0",
        "tensorrt-rtx": "1.6.1.120",
    }

    def version(distribution):
        if distribution not in versions:
            raise metadata.PackageNotFoundError(distribution)
        return versions[distribution]

    monkeypatch.setattr(metadata, "version", version)
    return versions


def found(name, environment=None):
    return next(check for check in static_checks(environment or {}) if check.name == name)


class TestStaticChecks:
    def test_a_sound_installation(self, installed):
        checks = static_checks({})
        assert [check.status for check in checks if check.name != "entry point"] == [Status.OK] * 5
        assert found("Torch-TensorRT").found == "torch-tensorrt-rtx 2.14.0, tensorrt-rtx 1.6.1.120"

    @pytest.mark.parametrize(
        ("distribution", "version", "name", "says", "fix"),
        [
            ("torch", None, "torch", "not installed", "pip install 'torch==2.14.*'"),
            ("torch", "2.13.0", "torch", "2.13.0; needed is 2.14", "pip install 'torch==2.14.*'"),
            ("torch-tensorrt-rtx", None, "Torch-TensorRT", "not installed", "torch-tensorrt-rtx"),
            ("torch-tensorrt-rtx", "2.15.1", "Torch-TensorRT", "2.15.1; needed is 2.14", "torch-tensorrt-rtx"),
            ("torch-tensorrt", "2.14.0", "Torch-TensorRT", "overwrite each other", "pip uninstall"),
            ("torch-tensorrt-profiles", None, "torch-tensorrt-profiles", "not installed", "pip install"),
            ("torch-tensorrt-profiles", "9.9", "torch-tensorrt-profiles", "9.9 is installed", "PYTHONPATH"),
        ],
    )
    def test_versions(self, installed, distribution, version, name, says, fix):
        installed[distribution] = version
        if version is None:
            del installed[distribution]
        check = found(name)
        assert check.status is Status.PROBLEM
        assert says in check.found
        assert fix in check.fix

    def test_tensorrt_proper(self, installed):
        """What is told to do keeps to it: the other one would overwrite its files."""
        del installed["torch-tensorrt-rtx"], installed["tensorrt-rtx"]
        installed.update({"torch-tensorrt": "2.14.0", "tensorrt-cu13": "11.1.0.106"})
        assert found("Torch-TensorRT").found == "torch-tensorrt 2.14.0, tensorrt-cu13 11.1.0.106"
        installed["torch-tensorrt"] = "2.13.0"
        assert found("Torch-TensorRT").fix == "pip install 'torch-tensorrt==2.14.*'"

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("TORCHTRT_PROFILES", "0"),
            ("TORCH_DEVICE_BACKEND_AUTOLOAD", "0"),
            ("TORCH_DEVICE_BACKEND_AUTOLOAD", "true"),  # to torch all but 1 is no
            ("TORCH_DEVICE_BACKEND_AUTOLOAD", ""),
        ],
    )
    def test_the_environment(self, variable, value):
        check = found("environment", {variable: value})
        assert check.status is Status.PROBLEM
        assert f"{variable}={value} " in check.found
        assert variable in check.fix

    def test_python(self, monkeypatch):
        monkeypatch.setattr(sys, "version_info", (3, 9, 1))
        assert found("Python").status is Status.PROBLEM
        monkeypatch.setattr(sys, "version_info", (3, 14, 0))
        assert "3.10 to 3.13" in found("Python").fix

    def test_no_entry_point(self, monkeypatch):
        monkeypatch.setattr(metadata, "entry_points", lambda group: ())
        check = found("entry point")
        assert check.status is Status.PROBLEM
        assert "activates nothing" in check.found


def probed(monkeypatch, findings, trouble=""):
    monkeypatch.setattr(_process, "_probed", lambda run_an_engine: (findings, trouble))
    return {check.name: check for check in _process.process_checks(run_an_engine=True)}


SOUND = {"imported": "2.14.0", "active": True, "refusal": None, "library_file": "lib.so", "cuda": "13.0"}
ON_A_GPU = {**SOUND, "devices": [["NVIDIA H200", "9.0"]]}


class TestProcessChecks:
    def test_a_sound_process(self, monkeypatch):
        checks = probed(monkeypatch, {**ON_A_GPU, "engine": {"ok": True, "found": "built"}})
        assert {check.status for check in checks.values()} == {Status.OK}
        assert "cuda:0 NVIDIA H200 (9.0)" in checks["GPU"].found

    def test_refused(self, monkeypatch):
        checks = probed(monkeypatch, {**ON_A_GPU, "active": False, "refusal": "extends torch 2.14.x", "library": None})
        assert checks["activation"].status is Status.PROBLEM
        assert checks["activation"].found == "extends torch 2.14.x"

    def test_the_library_does_not_load(self, monkeypatch):
        checks = probed(monkeypatch, {**ON_A_GPU, "active": False, "library": "undefined symbol: x"})
        assert checks["C++ library"].status is Status.PROBLEM
        assert "undefined symbol" in checks["C++ library"].found
        assert checks["C++ library"].fix

    def test_the_import_crashes(self, monkeypatch):
        (check,) = probed(monkeypatch, {}, "the process was ended by SIGABRT: terminate called").values()
        assert (check.name, check.status) == ("import", Status.PROBLEM)
        assert "SIGABRT" in check.found

    def test_the_import_fails_where_activation_was_refused(self, monkeypatch):
        findings = {"refusal": "could not extend torch_tensorrt.runtime: LibraryError('lib.so does not load')"}
        checks = probed(monkeypatch, findings, "the process exited with 1: Found no NVIDIA driver on your system.")
        assert "see the other checks" in checks["import"].fix
        assert "lib.so does not load" in checks["activation"].found
        assert "Install torch-tensorrt-profiles again" in checks["activation"].fix

    @pytest.mark.skipif(not NO_GPU, reason="about hosts without a GPU")
    def test_a_compute_capability_that_is_none(self, monkeypatch):
        monkeypatch.setenv(CAPABILITY_VARIABLE, "hopper")
        check = next(check for check in _process.process_checks(run_an_engine=False) if check.name == "import")
        assert f"{CAPABILITY_VARIABLE}='hopper' is not a compute capability" in check.found
        assert check.fix.startswith(f"Unset {CAPABILITY_VARIABLE}")

    def test_the_engine_crashes(self, monkeypatch):
        check = probed(monkeypatch, ON_A_GPU, "the process was ended by SIGSEGV")["small engine"]
        assert (check.status, check.found) == (Status.PROBLEM, "the process was ended by SIGSEGV")
        assert "--no-run" in check.fix

    def test_the_guard_refuses_the_engine(self, monkeypatch):
        findings = {**ON_A_GPU, "engine": {"ok": False, "found": "RuntimeError: not the expected class"}}
        check = probed(monkeypatch, findings)["small engine"]
        assert (check.status, check.found) == (Status.PROBLEM, "RuntimeError: not the expected class")

    def test_a_host_without_a_gpu_is_no_problem(self, monkeypatch):
        monkeypatch.setattr(_process, "_driver", lambda: None)
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        checks = probed(monkeypatch, {**SOUND, "devices": [], "no_engine": "not run: no GPU"})
        assert (checks["GPU"].status, checks["small engine"].status) == (Status.NOTE, Status.NOTE)

    @pytest.mark.parametrize(("rtx", "says"), [(True, "programs are built"), (False, "built elsewhere")])
    def test_what_a_host_without_a_gpu_is_good_for(self, monkeypatch, rtx, says):
        monkeypatch.setattr(_process, "_driver", lambda: None)
        assert says in probed(monkeypatch, {**SOUND, "builds_anywhere": rtx, "devices": []})["GPU"].found

    def test_a_driver_without_a_device(self, monkeypatch):
        monkeypatch.setattr(_process, "_driver", lambda: "470.1")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        assert probed(monkeypatch, {**SOUND, "devices": []})["GPU"].status is Status.PROBLEM
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert probed(monkeypatch, {**SOUND, "devices": []})["GPU"].status is Status.NOTE

    def test_a_probe_that_hangs(self, monkeypatch, tmp_path):
        script = tmp_path / "probe.py"
        script.write_text("import time; print('still here', flush=True); time.sleep(60)")
        monkeypatch.setattr(_process, "_PROBE", script)
        monkeypatch.setattr(_process, "_TIMEOUT_SECONDS", 1)
        (check,) = _process.process_checks(run_an_engine=False)
        assert "took more than 1 s: still here" in check.found

    def test_a_probe_that_aborts(self, monkeypatch, tmp_path):
        script = tmp_path / "probe.py"
        script.write_text("import os, sys; print('last words', flush=True); os.abort()")
        monkeypatch.setattr(_process, "_PROBE", script)
        (check,) = _process.process_checks(run_an_engine=False)
        assert check.found == "the process was ended by SIGABRT: last words"


def doctor(*arguments, **environment):
    command = [sys.executable, "-m", "torch_tensorrt_profiles.cli", "doctor", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600)


class TestHere:
    """The installation that runs these tests."""

    def test_is_sound(self):
        done = doctor("--json", "--no-run")
        checks = {check["name"]: check for check in json.loads(done.stdout)}
        assert checks["activation"]["status"] == "ok", checks
        assert checks["C++ library"]["found"].endswith("libtorchtrt_profiles.so")
        assert done.returncode == any(check["status"] == "problem" for check in checks.values()), done.stdout
        if NO_GPU:
            assert checks["small engine"]["found"] == "not run: no GPU"

    @pytest.mark.gpu
    def test_builds_and_profiles_a_small_engine(self):
        done = doctor("--json")
        checks = {check["name"]: check for check in json.loads(done.stdout)}
        assert checks["small engine"]["status"] == "ok", checks
        assert checks["GPU"]["status"] == "ok", checks

    def test_switched_off(self):
        done = doctor(TORCHTRT_PROFILES="0")
        assert done.returncode == 1
        assert "Fix: unset TORCHTRT_PROFILES" in done.stdout
        if NO_GPU:
            assert "NVIDIA driver" in done.stdout  # stock's import needs one

    @pytest.mark.gpu
    def test_not_called_by_torch(self):
        done = doctor("--json", "--no-run", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
        checks = {check["name"]: check for check in json.loads(done.stdout)}
        assert checks["activation"]["status"] == "problem", checks


def test_tensorrts_libraries_are_missing(tmp_path):
    """What Torch-TensorRT says then has two lines, and the first is the one that names the library."""
    for name in ("tensorrt", "tensorrt_rtx"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('libnvinfer.so.11: no such file')\n")
    done = doctor("--json", "--no-run", PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 1
    assert re.search(r"lib(nvinfer|tensorrt_rtx)\.so", checks["import"]["found"])
    assert "LD_LIBRARY_PATH" in checks["import"]["fix"]


def test_a_torch_tensorrt_that_does_not_tell_of_tensorrt_rtx(tmp_path):
    (tmp_path / "torch_tensorrt.py").write_text("__version__ = '2.7.0'\n")
    done = doctor("--json", "--no-run", PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert checks["import"]["found"] == "torch_tensorrt 2.7.0 is imported as in a program"
    assert checks["activation"]["status"] == "problem"


def test_an_installation_without_its_library(tmp_path):
    copy = tmp_path / "torch_tensorrt_profiles"
    shutil.copytree(Path(_process.__file__).parents[1], copy, ignore=shutil.ignore_patterns("lib", "__pycache__"))
    done = doctor("--json", "--no-run", PYTHONPATH=str(tmp_path))
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 1
    assert "libtorchtrt_profiles.so is not in" in checks["activation"]["found"]
    assert "Install torch-tensorrt-profiles again" in checks["activation"]["fix"]
