"""Builds libtorchtrt_profiles.so with CMake against the torch that is installed, and puts it into the package, with the
C++ header and the CMake configuration that go with it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent.resolve()
PACKAGE = "torch_tensorrt_profiles"
INSTALLED = ("lib", "include", "share")  # folders of the package that CMake fills
BUILD = ROOT / "build" / "native"  # kept, so that the next build is an incremental one


def torch_folder() -> Path:
    """The installed torch, found without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "torch is not importable where torch-tensorrt-profiles is being built. Install torch 2.14 first and build "
            "against it: pip install --no-build-isolation ."
        )
    return Path(spec.origin).parent


class BuildWithCMake(build_ext):
    """One shared library that Python does not import, so none of setuptools' own compiling."""

    def run(self) -> None:
        self.build_extension(self.extensions[0])

    def build_extension(self, ext: Extension) -> None:
        configure = ["cmake", "-S", str(ROOT), "-B", str(BUILD), "-DCMAKE_BUILD_TYPE=Release"]
        configure += [f"-DTORCH_DIR={torch_folder()}", f"-DPython3_EXECUTABLE={sys.executable}"]
        subprocess.run(configure, check=True)
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1))
        subprocess.run(
            ["cmake", "--build", str(BUILD), "--target", "torchtrt_profiles", "--parallel", jobs], check=True
        )
        for folder in INSTALLED:  # CMake leaves what an earlier version installed
            shutil.rmtree(self._prefix() / PACKAGE / folder, ignore_errors=True)
        subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(self._prefix())], check=True)

    def _prefix(self) -> Path:
        in_place = self.inplace or getattr(self, "editable_mode", False)
        return ROOT / "py" if in_place else Path(self.build_lib)

    def get_outputs(self) -> list[str]:
        package = self._prefix() / PACKAGE
        installed = [path for folder in INSTALLED for path in (package / folder).rglob("*") if path.is_file()]
        return sorted(map(str, installed))

    def get_output_mapping(self) -> dict[str, str]:
        return {}


class AnyPythonWheel(bdist_wheel):
    """The library does not depend on the Python version."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


commands: dict[str, Any] = {"build_ext": BuildWithCMake, "bdist_wheel": AnyPythonWheel}
setup(ext_modules=[Extension("torch_tensorrt_profiles.lib.libtorchtrt_profiles", [])], cmdclass=commands)
