"""The scripts that are cases of the suite and are also run alone: what they have written when they are cut off."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import context_per_profile
import kernel_overhead
import profile_selection
import pytest

SAID = {"gpu": "NVIDIA Toy", "torch": "2.14.1", "torch_tensorrt": "2.14.0", "tensorrt": "1.6.1"}


def test_switching_that_is_cut_off_keeps_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "switching.json"
    measured: list[tuple[str, bool]] = []

    def measure(arguments: Any, size: str, graphs: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if len(measured) == 2:
            raise SystemExit("cut off")
        measured.append((size, graphs))
        return SAID, [{"size": size, "cuda_graphs": graphs}]

    monkeypatch.setattr(profile_selection, "measure", measure)
    monkeypatch.setattr(sys, "argv", ["profile_selection.py", "--output", str(output)])
    with pytest.raises(SystemExit, match="cut off"):
        profile_selection.main()
    report = json.loads(output.read_text())
    assert [(result["size"], result["cuda_graphs"]) for result in report["results"]] == [
        ("tiny", False),
        ("tiny", True),
    ]
    assert report["calls_per_batch"] == {"tiny": 100, "large": 20}


def test_contexts_that_are_cut_off_keep_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "contexts.json"

    def measure(arguments: Any, size: str, graphs: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        if (size, graphs) == ("1 GiB", True):
            raise SystemExit("cut off")
        return SAID, {"size": size, "cuda_graphs": graphs}

    monkeypatch.setattr(context_per_profile, "measure", measure)
    monkeypatch.setattr(context_per_profile, "print_result", lambda result: None)
    monkeypatch.setattr(sys, "argv", ["context_per_profile.py", "--output", str(output)])
    with pytest.raises(SystemExit, match="cut off"):
        context_per_profile.main()
    report = json.loads(output.read_text())
    assert report["benchmark"] == "context_per_profile"
    assert [result["size"] for result in report["results"]] == ["tiny", "tiny", "large", "large", "1 GiB"]
    assert report["sizes"]["1 GiB"] == {"layers": 8, "width": 8192, "prompt": 512}
    assert report["calls_per_batch"].keys() == report["sizes"].keys()


class Toy:
    """Answers as a measured process of either kind, and is gone when a given state is entered."""

    gone_at = ""

    def __init__(self, script: str, kind: str, *options: str) -> None:
        self.kind = kind

    def answer(self) -> Any:
        return SAID

    def ask(self, do: str, state: str, **request: Any) -> Any:
        if do == "enter":
            if state == self.gone_at:
                raise SystemExit("a process ended")
            return None
        return [[100.0, 101.0]] * 2 if do == "pairs" else {"ns_per_call": [100.0, 101.0], "drain_ns": [5]}

    def close(self) -> None:
        pass


def our_kernel(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_overhead, "Process", Toy)
    monkeypatch.setattr(sys, "argv", ["kernel_overhead.py", "--seconds", "0", "--output", str(output)])
    kernel_overhead.main()


def test_our_kernel_that_is_cut_off_keeps_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third, *_ = kernel_overhead.STATES
    monkeypatch.setattr(Toy, "gone_at", third)
    with pytest.raises(SystemExit, match="a process ended"):
        our_kernel(tmp_path / "kernel.json", monkeypatch)
    report = json.loads((tmp_path / "kernel.json").read_text())
    assert [result["state"] for result in report["results"]] == [first, second]
    assert report["median_drain_ns"] == 5
