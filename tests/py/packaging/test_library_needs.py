"""The library loads wherever torch's own wheels do: manylinux_2_28, whatever newer Linux it was built on."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch_tensorrt_profiles

LIBRARY = Path(torch_tensorrt_profiles.__file__).parent / "lib" / "libtorchtrt_profiles.so"

#: The newest versions that manylinux_2_28 has (PEP 600; gcc 8 and glibc 2.28).
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}

#: Of torch, and of every Linux.
TORCH = {"libc10.so", "libtorch_cpu.so"}
SYSTEM = re.compile(r"lib(stdc\+\+|gcc_s|m|c|dl|pthread)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")

pytestmark = pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf, of binutils")


def readelf(*options: str) -> str:
    return subprocess.run(
        ["readelf", "--wide", *options, str(LIBRARY)], check=True, capture_output=True, text=True
    ).stdout


def test_needs_two_libraries_of_torch_and_no_other():
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("--dynamic")))
    assert needed >= TORCH
    assert [name for name in needed - TORCH if not SYSTEM.fullmatch(name)] == []


def test_looks_for_them_nowhere_itself():
    assert re.findall(r"\((?:RPATH|RUNPATH)\).*", readelf("--dynamic")) == []


def test_needs_no_symbol_newer_than_manylinux_2_28():
    asked = re.findall(r" UND (\S+?)@+([A-Z]+)_([\d.]+)", readelf("--dyn-syms"))
    assert {family for _, family, _ in asked} >= {"GLIBC", "GLIBCXX"}, "readelf printed something else than expected"
    too_new = [
        f"{symbol}@{family}_{version}"
        for symbol, family, version in asked
        if family not in NEWEST or tuple(map(int, version.split("."))) > NEWEST[family]
    ]
    assert too_new == [], "core/runtime/glibc_compat.cpp is where such a symbol is replaced"
