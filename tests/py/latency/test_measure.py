"""Timing and profiling calls: which calls are made, when, and what is said of them."""

from __future__ import annotations

import contextlib
import json
import os
import statistics

import pytest
from torch_tensorrt_profiles.latency import _measure
from torch_tensorrt_profiles.latency._measure import measure, trace
from torch_tensorrt_profiles.latency._statistics import Latency, percentile


class Log:
    """A program that takes the milliseconds it is told, on a clock of its own, and logs what happens."""

    def __init__(self, monkeypatch, costs_ms):
        self.events, self.now, self.costs = [], 0.0, iter(costs_ms)
        monkeypatch.setattr(_measure.time, "perf_counter", lambda: self.now)

    def call(self):
        self.events.append("call")
        self.cost = next(self.costs)

    def synchronize(self):
        self.events.append("synchronize")
        self.now += getattr(self, "cost", 0) / 1e3
        self.cost = 0

    @contextlib.contextmanager
    def scope(self, name="scope"):
        self.events.append(f"enter {name}")
        yield
        self.events.append(f"leave {name}")


def test_first_call_warm_up_and_samples(monkeypatch):
    log, steps = Log(monkeypatch, [500, 600, 600, 1, 2, 3]), []
    latency = measure(
        log.call,
        log.scope,
        iterations=3,
        warm_up_seconds=1.0,
        synchronize=log.synchronize,
        on_call=lambda: steps.append(1),
    )
    assert latency.first_ms == pytest.approx(500)
    assert latency.samples_ms == (pytest.approx(1), pytest.approx(2), pytest.approx(3))
    assert len(steps) == 3
    assert log.events == ["synchronize", "enter scope", *["call", "synchronize"] * 6, "leave scope"]


def test_without_warm_up(monkeypatch):
    log = Log(monkeypatch, [5, 1])
    latency = measure(log.call, log.scope, iterations=1, warm_up_seconds=0, synchronize=log.synchronize)
    assert latency == Latency(pytest.approx(5), (pytest.approx(1),))


@pytest.mark.parametrize(
    ("samples", "part", "value"),
    [([3.0], 0.99, 3.0), ([1.0, 2.0], 0.5, 1.5), ([4.0, 1.0, 3.0, 2.0], 1.0, 4.0), (list(range(101)), 0.9, 90.0)],
)
def test_percentile(samples, part, value):
    assert percentile(samples, part) == pytest.approx(value)


def test_the_median_is_the_median():
    samples = [5.0, 1.0, 9.0, 2.0, 7.0]
    assert percentile(samples, 0.5) == statistics.median(samples)


def row(profile, layer, count, total_ms):
    return {
        "engine": "e",
        "object_id": "0x1",
        "profile": profile,
        "layer": layer,
        "count": count,
        "total_ms": total_ms,
        "mean_ms": total_ms / count,
    }


def test_traces_are_made_apart_and_their_first_calls_are_not_counted(monkeypatch, tmp_path):
    log = Log(monkeypatch, [0] * 100)
    totals = {"prefill": (0, 0.0), "decode": (0, 0.0)}

    def call(profile, cold_ms, warm_ms):
        def run():
            log.call()
            count, total = totals[profile]
            totals[profile] = (count + 1, total + (warm_ms if count else cold_ms))

        return run

    def dump():
        return json.dumps([row(profile, "mlp", *figures) for profile, figures in totals.items() if figures[0]])

    profiled = []

    @contextlib.contextmanager
    def profiling(folder, format):
        log.events.append("profiling on")
        profiled.append((folder, format))
        yield
        log.events.append("profiling off")

    path = trace(
        [
            (lambda: log.scope("prefill"), call("prefill", 100.0, 8.0)),
            (lambda: log.scope("decode"), call("decode", 50.0, 1.0)),
        ],
        tmp_path,
        format="trex",
        iterations=4,
        profiling=profiling,
        dump_timing=dump,
    )
    assert profiled == [(tmp_path, "trex")]
    assert path == tmp_path / f"timing.{os.getpid()}.json"
    rows = {entry["profile"]: entry for entry in json.loads(path.read_text())}
    assert rows["prefill"] == row("prefill", "mlp", 4, 32.0)
    assert rows["decode"] == row("decode", "mlp", 4, 4.0)
    assert log.events == [
        "profiling on",
        *["enter prefill", *["call"] * 5, "leave prefill"],
        *["enter decode", *["call"] * 5, "leave decode"],
        "profiling off",
        *["enter prefill", "call", "leave prefill"],
    ]
