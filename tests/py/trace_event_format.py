"""The trace event format, as the Perfetto UI and chrome://tracing read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def check_trace_events(events: Sequence[dict[str, Any]]) -> None:
    """The types that the format prescribes; what is written for Perfetto must hold for its strictest reader."""
    assert events
    for event in events:
        assert isinstance(event["name"], str)
        assert event["ph"] in ("X", "M")
        for key in ("pid", "tid"):
            assert isinstance(event[key], int)
            assert not isinstance(event[key], bool)
        assert isinstance(event["args"], dict)
        assert isinstance(event["ts"], int | float)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert isinstance(event["dur"], int | float)
            assert event["dur"] >= 0
        else:
            assert event["name"] in ("process_name", "thread_name", "process_sort_index", "thread_sort_index")
            (value,) = event["args"].values()
            assert isinstance(value, str if event["name"].endswith("_name") else int)
