"""The sdist holds the repository: what builds, tests and documents the package. (.ci/run builds the wheel from it.)"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

#: What a checkout has and an unpacked sdist does not: the tools of those who change it.
LEFT_OUT = (".ci/", ".clang-", ".git", ".pre-commit")

BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    done = subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.tar.gz")
    return path


def files_of(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {member.name.split("/", 1)[1] for member in archive.getmembers() if member.isfile()}


def test_holds_every_file_of_the_repository(sdist):
    command = ["git", "ls-files", "--cached"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    expected = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    expected = {name for name in expected if not name.startswith(LEFT_OUT)}
    found = files_of(sdist)
    assert sorted(expected - found) == [], "MANIFEST.in leaves these out"
    made = {name for name in found - expected if not name.startswith("py/torch_tensorrt_profiles.egg-info/")}
    assert made == {"PKG-INFO", "setup.cfg"}
