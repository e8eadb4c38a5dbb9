"""The traces that the documentation shows: a language model's engine with two profiles.

python tests/py/report/example_traces.py DIRECTORY [--faster]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trace_writer import Layer, timing_row, write_engine

PID = 4711
#: Milliseconds of one call: prefill, decode.
_BLOCK = {
    "attention_norm": (0.021, 0.004),
    "qkv": (0.118, 0.031),
    "rotary_and_cache_write": (0.052, 0.012),
    "attention": (0.164, 0.058),
    "out_and_add": (0.047, 0.013),
    "mlp_norm": (0.021, 0.004),
    "gate_up_silu": (0.201, 0.061),
    "down_and_add": (0.098, 0.034),
}


def calls(profile: int, *, faster: bool) -> list[Layer]:
    """Layers of all profiled calls: 20 under "prefill", 20 under "decode"."""
    layers = [("embedding", (0.018, 0.003))]
    for number in range(4):
        layers += [(f"blocks.{number}.{name}", times) for name, times in _BLOCK.items()]
    layers += [("norm", (0.021, 0.004)), ("head", (0.231, 0.112))]
    scale = {"head": 0.6} if faster else {}
    return [Layer(name, times[profile] * scale.get(name, 1) * 20, 20) for name, times in layers]


def write_example(prefix: Path, *, faster: bool = False) -> None:
    names, profiles = ["prefill", "decode"], [calls(profile, faster=faster) for profile in (0, 1)]
    write_engine(prefix, profiles[0], name="llm_engine", pid=PID, format="perfetto", profile_names=names)
    rows = [
        timing_row(name, layer, engine="llm_engine")
        for name, layers in zip(names, profiles, strict=True)
        for layer in layers
    ]
    (prefix / f"timing.{PID}.json").write_text(json.dumps(rows))


if __name__ == "__main__":
    write_example(Path(sys.argv[1]), faster="--faster" in sys.argv)
