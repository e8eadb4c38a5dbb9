"""The wheel, installed where nothing of the checkout is on the path, activates like the editable install."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

SEEN = """
import torch_tensorrt, torch_tensorrt_profiles, torch
from torch_tensorrt.dynamo import OptimizationProfile
file, active = torch_tensorrt_profiles.__file__, torch_tensorrt_profiles.is_active()
print("SEEN", file, active, torch.ops.tensorrt.get_profile_format())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


def run(code: str, tmp_path: Path, *before: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, before))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(line for line in done.stdout.splitlines() if line.startswith("SEEN")).split()


def test_wheel_holds_the_library_what_c_plus_plus_needs_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "torch_tensorrt_profiles/lib/libtorchtrt_profiles.so" in names
    assert "torch_tensorrt_profiles/py.typed" in names
    assert "torch_tensorrt_profiles/include/torch_tensorrt/profiles.h" in names
    assert "torch_tensorrt_profiles/share/cmake/torch_tensorrt_profiles/torch_tensorrt_profilesConfig.cmake" in names
    assert "torchtrtprof" in zipfile.ZipFile(wheel).read(f"{wheel_info(wheel)}/entry_points.txt").decode()
    assert not [name for name in names if name.split("/")[0] not in {"torch_tensorrt_profiles", wheel_info(wheel)}]
    assert wheel.name.split("-")[2:4] == ["py3", "none"]


def wheel_info(wheel: Path) -> str:
    return "-".join(wheel.name.split("-")[:2]) + ".dist-info"


def test_wheel_activates(wheel, tmp_path):
    target = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run(command, check=True, capture_output=True)
    _, file, active, fmt = run(SEEN, tmp_path, target)
    assert file.startswith(str(target))
    assert (active, fmt) == ("True", "perfetto")


def test_editable_install_activates(tmp_path):
    _, file, active, fmt = run(SEEN, tmp_path)
    assert Path(file).is_relative_to(ROOT / "py")
    assert (active, fmt) == ("True", "perfetto")
