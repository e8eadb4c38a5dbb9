"""1 to 8 threads: calls per second on one engine, and on one engine with a context per profile.

    PYTHONPATH=benchmarks python -m cases.growth_threads --output growth_threads.json

Every thread has a CUDA stream of its own and a block per call. Even threads select the first profile (one row), odd
ones the second (all rows), so one context switches whenever threads of both kinds take turns. With a context per
profile nothing does. The arrangements are two engines of one plan, measured in turns.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import torch

from cases import timing
from cases.growth_engines import another
from cases.names import CONTEXTS
from cases.part import Part, parser
from cases.stacks import compile_stack, export_stack, module_of

LAYERS, WIDTH, ROWS = 4, 1024, 64
STRATEGY = "none"
COUNTS = (1, 2, 4, 8)
SECONDS, ROUNDS = 0.4, 4
ONE = "one context"


def calls_per_second(program: Any, inputs: list[torch.Tensor], threads: int) -> float:
    from torch_tensorrt.runtime import optimization_profile

    done = [0] * threads
    failed: list[Exception] = []
    begin, end = threading.Barrier(threads + 1, timeout=30), threading.Event()

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        x = inputs[number % 2]
        begin.wait()
        try:
            with torch.inference_mode(), torch.cuda.stream(stream):
                while not end.is_set():
                    with optimization_profile(program, number % 2):
                        program(x)
                    done[number] += 1
                    if done[number] % 16 == 0:
                        stream.synchronize()  # or calls are queued faster than they are done
                stream.synchronize()
        except Exception as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    begin.wait()
    start = time.perf_counter()
    time.sleep(SECONDS)
    end.set()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    return round(sum(done) / (time.perf_counter() - start), 2)


def main() -> None:
    arguments = parser(__doc__ or "").parse_args()
    timing.own_stream()
    part = Part(
        "growth_threads",
        arguments,
        strategy=STRATEGY,
        layers=LAYERS,
        width=WIDTH,
        rows_of_profiles=[1, ROWS],
        seconds_per_sample=SECONDS,
    )
    with torch.inference_mode():
        from torch_tensorrt.runtime import context_per_profile

        program = compile_stack(
            export_stack(LAYERS, WIDTH, ROWS, arguments.device), [(1, 1, 1), (2, ROWS, ROWS)], STRATEGY
        )
        several = torch.nn.Sequential(another(module_of(program)))
        context_per_profile(several)
        inputs = [torch.randn(rows, WIDTH, device=arguments.device, dtype=torch.float16) for rows in (1, ROWS)]
        arrangements = {ONE: program, CONTEXTS: several}
        for arrangement in arrangements.values():
            calls_per_second(arrangement, inputs, 2)
        for count in COUNTS:
            samples: dict[str, list[float]] = {name: [] for name in arrangements}
            for _ in range(ROUNDS):
                for name, arrangement in arrangements.items():
                    samples[name].append(calls_per_second(arrangement, inputs, count))
            for name, measured in samples.items():
                part.add(kind="growth of threads", threads=count, contender=name, samples_calls_per_second=measured)


if __name__ == "__main__":
    main()
