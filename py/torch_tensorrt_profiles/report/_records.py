"""A run as plain records, for JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from torch_tensorrt_profiles.report._model import EngineTimes, Run
from torch_tensorrt_profiles.report._side_by_side import pairs_of

#: Of the JSON; a change that breaks readers adds one.
SCHEMA = 1
_COLUMNS = (
    "run",
    "engine",
    "pid",
    "rank",
    "device",
    "profile_index",
    "profile",
    "layer",
    "count",
    "total_ms",
    "mean_ms",
    "share",
)


def runs_as_json(runs: list[Run]) -> str:
    """One or two runs with everything that was read, and for two what changed."""
    document: dict[str, Any] = {"schema": SCHEMA, "runs": [_run(run) for run in runs]}
    if len(runs) == 2:
        document["comparison"] = _comparison(*runs)
    return json.dumps(document, indent=1) + "\n"


def runs_as_csv(runs: list[Run]) -> str:
    """A line per run, engine, profile and layer; times in milliseconds, shares from 0 to 1, unknown left empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for run in runs:
        for engine in run.engines:
            about = {"run": str(run.directory), "engine": engine.name}
            about.update({key: getattr(engine, key) for key in ("pid", "rank", "device")})
            for profile in _profiles(engine):
                for layer in profile["layers"]:
                    writer.writerow(
                        {
                            **about,
                            "profile_index": profile["index"],
                            "profile": profile["name"],
                            "layer": layer["name"],
                            **{key: layer[key] for key in ("count", "total_ms", "mean_ms", "share")},
                        }
                    )
    return out.getvalue()


def _run(run: Run) -> dict[str, Any]:
    return {
        "directory": str(run.directory),
        "engines": [_engine(engine) for engine in run.engines],
        "skipped": [{"path": entry.path, "reason": entry.reason} for entry in run.skipped],
    }


def _engine(engine: EngineTimes) -> dict[str, Any]:
    return {
        "name": engine.name,
        "label": engine.label,
        "pid": engine.pid,
        "rank": engine.rank,
        "device": engine.device,
        "folder": engine.folder,
        "format": engine.format,
        "profile_names": list(engine.profile_names),
        "remarks": list(engine.remarks),
        "profiles": _profiles(engine),
        "last_call_us": {
            phase: [{"name": e.name, "start": e.start_us, "duration": e.duration_us} for e in events]
            for phase, events in engine.phases.items()
        },
    }


def _profiles(engine: EngineTimes) -> list[dict[str, Any]]:
    return [
        {
            "index": profile.index,
            "name": profile.label,
            "total_ms": profile.total_ms,
            "layers": [
                {
                    "name": layer.name,
                    "count": layer.count,
                    "total_ms": layer.total_ms,
                    "mean_ms": layer.mean_ms,
                    "share": profile.share(layer),
                }
                for layer in profile.layers
            ],
        }
        for profile in engine.profiles
    ]


def _comparison(first: Run, second: Run) -> list[dict[str, Any]]:
    return [
        {
            "engine": pair.engine,
            "profile": pair.profile,
            "in": [name for name, profile in (("first", pair.first), ("second", pair.second)) if profile is not None],
            "layers": [
                {
                    "name": row.layer,
                    "difference_ms": None if changed is None else changed.ms,
                    "ratio": None if changed is None else changed.ratio,
                    "of": None if changed is None else "mean" if changed.of_means else "total",
                }
                for row, changed in pair.rows()
            ],
        }
        for pair in pairs_of(first, second)
    ]
