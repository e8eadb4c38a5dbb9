"""A small made-up result of the suite, with a figure of ours that is worse than a peer's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cases.names import CONTEXTS, ENGINES, ONE, TWO

HEAD = {
    "benchmark": "suite",
    "revision": "0123456789abcdef",
    "date": "2026-11-30T09:00:00Z",
    "gpu": "NVIDIA Toy",
    "driver": "580.1",
    "torch": "2.14.1",
    "torch_tensorrt": "2.14.0",
    "tensorrt": "1.6.1",
}
DECODER = {
    "model": "small", "layers": 4, "hidden": 1024, "batch": 1, "kv_length": 2048, "prefill_tokens": 1024,
    "dtype": "float16",
    "weight_bytes": 200_000_000, "cache_bytes": 100_000_000, "cache_passes": 3,
}  # fmt: skip


def latency_row(phase: str, contender: str, first: float, median: float) -> dict[str, Any]:
    return {
        "kind": "latency", "model": "small", "strategy": "none", "cuda_graphs": False, "phase": phase,
        "contender": contender, "beside": [TWO, ONE], "first_call_median_ms": first,
        "first_call_samples_ms": [first * 3, first, first], "median_ms": median,
        "quartiles_ms": [median - 0.01, median + 0.01], "samples_ms": [median],
    }  # fmt: skip


def cases() -> dict[str, Any]:
    latency = {
        "decoder": DECODER,
        "rows": [
            {"kind": "copy", "bytes": 4 << 30, "median_bytes_per_second": 4e12},
            latency_row("decode", TWO, 950.0, 0.5),
            latency_row("decode", ONE, 10.0, 0.8),
            latency_row("prefill", TWO, 100.0, 1.2),
            latency_row("prefill", ONE, 100.0, 1.0),
            {
                "kind": "in turns", "model": "small", "strategy": "none", "cuda_graphs": False, "contender": TWO,
                "median_ms": 1.5, "bare_median_ms": 1.0, "samples_ms": [1.5], "bare_samples_ms": [1.0],
            },
        ],
        "skipped": [{"what": "small: decode-only engine from ONNX", "why": "ImportError: No module named 'onnx'"}],
    }  # fmt: skip
    first_calls = {
        "rows": [
            {"kind": "first call", "model": "small", "strategy": "lazy", "phase": phase, "contender": TWO,
             "cache": cache, "cache_bytes": 2_000_000, "median_ms": first, "quartiles_ms": [first - 1, first + 1],
             "samples_ms": [first] * 3}
            for cache, prefill, decode in (("none", 100.0, 900.0), ("kept", 200.0, 9.0))
            for phase, first in (("prefill", prefill), ("decode", decode))
        ]
    }  # fmt: skip
    memory = {
        "rows": [
            {"kind": "memory", "model": "small", "contender": name, "median_bytes": size, "plan_bytes": [265_000_000],
             "peak_while_made_bytes": None}
            for name, size in ((TWO, 300e6), (CONTEXTS, 330e6), (ENGINES, 500e6))
        ]
    }  # fmt: skip
    threads = {
        "rows": [
            {"kind": "growth of threads", "threads": 2, "contender": name, "median_calls_per_second": calls,
             "quartiles_calls_per_second": None, "samples_calls_per_second": [calls]}
            for name, calls in (("one context", 2000.0), (CONTEXTS, 1000.0))
        ]
    }  # fmt: skip
    return {
        "latency-small": {"status": "complete", "seconds": 1.0, "result": latency},
        "first-calls": {"status": "complete", "seconds": 1.0, "result": first_calls},
        "memory": {"status": "complete", "seconds": 1.0, "result": memory},
        "growth-threads": {"status": "cut off", "why": "its time limit of 40 s", "result": threads},
        "generation": {"status": "skipped", "why": "3 s of the budget were left"},
    }


def write_results(file: Path, **changed: Any) -> Path:
    """The made-up result, with some of its cases changed."""
    file.write_text(json.dumps({**HEAD, "cases": {**cases(), **changed}}))
    return file
