"""A table in plain text, for terminals and for files."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence

#: Of a column that gives way.
_NARROWEST = 8
#: For what is left out.
ELLIPSIS = "..."
#: With what turns the direction of writing.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with control characters escaped: names come from files, and a terminal obeys what it is sent."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def width_of(text: str) -> int:
    """Columns of a terminal that the text takes."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def shortened(text: str, width: int, front: float = 0.5) -> str:
    """The text, with its middle left out where it is longer; ``front`` (0 to 1) of what is shown is its beginning."""
    if width_of(text) <= width:
        return text
    room = width - len(ELLIPSIS)
    begin = math.ceil(room * front)
    back = room - begin
    head, tail = "", ""
    for char in text:
        if width_of(head + char) > begin:
            break
        head += char
    for char in reversed(text):
        if width_of(char + tail) > back:
            break
        tail = char + tail
    return f"{head}{ELLIPSIS}{tail}"


def text_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    groups: Sequence[tuple[str, int]] = (),
    left: Sequence[int] = (0,),
    width: int | None = None,
    shrink: Sequence[int] = (0,),
    shorten: Callable[[str, int], str] = shortened,
) -> str:
    """A table whose columns are as wide as they need to be.

    Args:
        header: a title per column.
        rows: the cells; their control characters are escaped.
        groups: titles over several columns, as (title, number of columns), from the left.
        left: the columns that are flush left; the others are flush right.
        width: the table's, in columns of the terminal; None: no limit.
        shrink: the columns that give way to ``width``, the widest first.
        shorten: makes a cell fit into so many columns.
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(width_of(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    _widen_for_groups(widths, groups)
    if width is not None:
        for _ in range(sum(widths) + 2 * (len(widths) - 1) - width):
            widest = max(shrink, key=lambda i: widths[i])
            widths[widest] = max(_NARROWEST, widths[widest] - 1)
    lines = []
    if groups:
        lines.append(_group_line(widths, groups))
    for row in [list(header), *cells]:
        padded = []
        for i, cell in enumerate(row):
            fitted = shorten(cell, widths[i])
            space = " " * (widths[i] - width_of(fitted))
            padded.append(fitted + space if i in left else space + fitted)
        lines.append("  ".join(padded).rstrip())
    lines.insert(2 if groups else 1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def _widen_for_groups(widths: list[int], groups: Sequence[tuple[str, int]]) -> None:
    at = 0
    for title, count in groups:
        lacking = width_of(printable(title)) - (sum(widths[at : at + count]) + 2 * (count - 1))
        if lacking > 0:
            widths[at + count - 1] += lacking
        at += count


def _group_line(widths: Sequence[int], groups: Sequence[tuple[str, int]]) -> str:
    parts, at = [], 0
    for title, count in groups:
        span = sum(widths[at : at + count]) + 2 * (count - 1)
        shown = printable(title)
        parts.append(shown + " " * (span - width_of(shown)))
        at += count
    return "  ".join(parts).rstrip()
