"""What the package adds to ``import torch`` and ``import torch_tensorrt``: medians over fresh processes, alternating.

Processor time, which other work on the machine changes little; wall time is recorded too.

"without" has torch skip its backend extensions altogether, so the look-up that torch does for every package is counted
as ours: an upper bound. On a host without a GPU, stock Torch-TensorRT is given the answers that it asks CUDA for.

    python benchmarks/import_time.py --output benchmarks/results/import-time.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path

from side_by_side import git_revision

ANSWERS = """
import torch
if not torch.cuda.is_available():
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.current_device = lambda *a: 0
"""
START = "import time; wall, cpu = time.perf_counter(), time.process_time()\n"
STOP = "\nprint(time.perf_counter() - wall, time.process_time() - cpu)"
CODE = {
    "torch": START + "import torch" + STOP,
    "torch_tensorrt": START + ANSWERS + "import torch_tensorrt" + STOP,
}


def seconds(code: str, extended: bool) -> tuple[float, float]:
    """Wall and processor time."""
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if extended else "0"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    wall, cpu = done.stdout.split()[-2:]
    return float(wall), float(cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    result: dict[str, object] = {
        "revision": git_revision(),
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "unit": "s; samples are (wall, processor)",
    }
    for name, code in CODE.items():
        samples: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
        for _ in range(options.processes):
            for kind in samples:
                samples[kind].append(seconds(code, kind == "with"))
        medians = {kind: statistics.median(cpu for _, cpu in values) for kind, values in samples.items()}
        gained = medians["with"] - medians["without"]
        relative = gained / medians["without"]
        result[name] = {"median": medians, "gained": gained, "relative": relative, "samples": samples}
        line = f"import {name}: {medians['without']:.3f} s without, {medians['with']:.3f} s with"
        print(f"{line}, {gained * 1e3:+.1f} ms ({relative:+.1%})")
    if options.output:
        options.output.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
