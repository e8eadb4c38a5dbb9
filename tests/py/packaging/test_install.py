"""The wheel works where nothing of the checkout is on the path, and leaves nothing behind when it goes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[3]

SEEN = """
import torch_tensorrt, torch_tensorrt_profiles, torch
from torch_tensorrt.dynamo import OptimizationProfile
print(torch_tensorrt_profiles.__file__, torch_tensorrt_profiles.is_active(), torch.ops.tensorrt.get_profile_format())
"""

# Stock Torch-TensorRT asks for a GPU while it is imported.
STOCK = """
import torch
if not torch.cuda.is_available():
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.current_device = lambda *a: 0
import sys, torch_tensorrt
named = hasattr(torch_tensorrt.dynamo, "OptimizationProfile") or hasattr(torch.ops.tensorrt, "get_profile_format")
print(named, [name for name in sys.modules if "torch_tensorrt_profiles" in name])
"""


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


def test_wheel_holds_every_module(wheel):
    modules = {path.relative_to(ROOT / "py").as_posix() for path in (ROOT / "py").rglob("*.py")}
    assert modules <= set(zipfile.ZipFile(wheel).namelist())


def test_installed_used_and_uninstalled(wheel, environment):
    before, listed = digests(environment.site_packages / "torch_tensorrt"), names_in(environment.site_packages)
    assert environment.python(STOCK) == "False []"

    environment.pip("install", "-q", "--no-index", wheel)
    file, active, fmt = environment.python(SEEN).split()
    assert Path(file).is_relative_to(environment.folder)
    assert (active, fmt) == ("True", "perfetto")
    doctor = environment.run("torchtrtprof", "doctor")
    assert (doctor.returncode, doctor.stdout.splitlines()[-1]) == (0, "no problem"), doctor.stdout

    environment.pip("uninstall", "-q", "-y", "torch-tensorrt-profiles")
    assert names_in(environment.site_packages) == listed
    assert digests(environment.site_packages / "torch_tensorrt") == before
    assert environment.python(STOCK) == "False []"


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"__pycache__"}


def digests(package: Path) -> dict[str, str]:
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert files
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_editable_install_activates(tmp_path):
    done = subprocess.run([sys.executable, "-c", SEEN], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    file, active, fmt = done.stdout.splitlines()[-1].split()
    assert Path(file).is_relative_to(ROOT / "py")
    assert (active, fmt) == ("True", "perfetto")
