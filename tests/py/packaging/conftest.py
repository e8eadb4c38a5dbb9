"""The wheel, and environments to install it into."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Environment:
    """A virtual environment that has this one's packages, all but ours."""

    folder: Path

    @property
    def site_packages(self) -> Path:
        (found,) = self.folder.glob("lib/python3.*/site-packages")
        return found

    def pip(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.folder / "bin" / "python"), *map(str, arguments)]
        done = subprocess.run(command, env=without_pythonpath(), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        variables = {**without_pythonpath(), "PYTHONDONTWRITEBYTECODE": "1"}  # its packages are shared with others
        command = [str(self.folder / "bin" / program), *arguments]
        return subprocess.run(command, env=variables, cwd=self.folder, capture_output=True, text=True, timeout=300)

    def python(self, code: str) -> str:
        """The last line that ``code`` prints."""
        done = self.run("python", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]


def without_pythonpath() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture
def environment(tmp_path) -> Environment:
    made = Environment(tmp_path / "venv")
    venv.create(made.folder, symlinks=True)
    for folder in sys.path:
        if Path(folder).name in {"site-packages", "dist-packages"}:
            link_packages(Path(folder), made.site_packages)
    return made


def link_packages(source: Path, target: Path) -> None:
    for package in source.iterdir():
        ours = "torch_tensorrt_profiles" in package.name
        if not ours and package.suffix != ".pth" and not (target / package.name).exists():
            (target / package.name).symlink_to(package)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel that TORCHTRT_PROFILES_WHEEL names (.ci/run names the one built from the sdist), else a new one."""
    if "TORCHTRT_PROFILES_WHEEL" in os.environ:
        return Path(os.environ["TORCHTRT_PROFILES_WHEEL"]).resolve()
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path
