"""How figures grow with the number of profiles, engines and threads."""

from __future__ import annotations

from cases.names import CONTEXTS

from drawing.results import Results
from drawing.words import compared, megabytes, number, table, with_quartiles


def growth(results: Results) -> str:
    parts = []
    lines = []
    rows = list(results.rows("growth of profiles"))
    for row in rows:
        words = "" if row is rows[0] else compared(row, rows[0], "ms", f"{rows[0]['profiles']} profile")
        lines.append([str(row["profiles"]), number(row["build_seconds"]), megabytes(row["plan_bytes"]),
                      with_quartiles(row, "ms"), words])  # fmt: skip
    if lines:
        head = ["profiles", "build, s", "plan, MB", "decode, ms", "decode"]
        parts.append(f"## Profiles of one engine\n\n{table(head, lines)}")
    lines = []
    for row in results.rows("growth of engines"):
        lines.append([str(row["engines"]), megabytes(row["device_bytes_over_the_first"]),
                      with_quartiles(row, "ms", "calls_"), with_quartiles(row, "ms", "on_"),
                      with_quartiles(row, "ms", "off_")])  # fmt: skip
    if lines:
        head = ["engines", "memory over the first's, MB", "a call of each, ms"]
        head += [f"switching profiling {state} and a call of each, ms" for state in ("on", "off")]
        parts.append(f"## Engines of one process\n\n{table(head, lines)}")
    lines = []
    rows = list(results.rows("growth of threads"))
    for row in rows:
        words = ""
        if row["contender"] == CONTEXTS:
            peer = next(each for each in rows if each["threads"] == row["threads"] and each["contender"] != CONTEXTS)
            words = compared(row, peer, "calls_per_second", peer["contender"], more_is_better=True)
        lines.append([str(row["threads"]), row["contender"], with_quartiles(row, "calls_per_second"), words])
    if lines:
        head = ["threads", "engine", "calls per second", ""]
        parts.append(f"## Threads on one engine\n\n{table(head, lines)}")
    return "\n\n".join(parts)
