"""Charts as SVG elements. They take their colours from the page (classes ``c0`` to ``c8``) and need nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from torch_tensorrt_profiles.report._layer_names import short_layer_name
from torch_tensorrt_profiles.report._text_table import printable

#: How many colours the page has; series beyond share the last.
COLOURS = 9
_WIDTH = 960
_LABEL = 330
_CHAR = 7.25  # of the page's 12-pixel monospace font
_BAR, _GAP = 12, 8


@dataclass(frozen=True)
class Bar:
    """One bar: its length, what is written at its end, and its explanation when pointed at."""

    value: float
    text: str
    tip: str


def text_of(value: str) -> str:
    """A name from a file, safe in the page and its charts."""
    return escape(printable(value), quote=True)


def grouped_bars(title: str, groups: Sequence[tuple[str, Sequence[Bar | None]]], series: Sequence[str]) -> str:
    """A group of horizontal bars per label, one bar per series."""
    longest = max((bar.value for _, bars in groups for bar in bars if bar is not None), default=0) or 1.0
    room = _WIDTH - _LABEL - 110
    parts, y = _legend(series) if len(series) > 1 else ([], 0)
    for label, bars in groups:
        middle = y + len(bars) * _BAR / 2 + 4
        parts.append(_label(label, middle))
        for number, bar in enumerate(bars):
            if bar is not None:
                length = max(1.0, bar.value / longest * room)
                at = y + number * _BAR
                parts.append(
                    f'<g><title>{text_of(bar.tip)}</title><rect class="c{number % COLOURS}" x="{_LABEL}" y="{at + 1}" '
                    f'width="{length:.1f}" height="{_BAR - 2}"/>'
                    f'<text class="value" x="{_LABEL + length + 5:.1f}" y="{at + 10}">{text_of(bar.text)}</text></g>'
                )
        y += len(bars) * _BAR + _GAP
    return _svg(title, y, parts)


def stacked_bars(title: str, bars: Sequence[tuple[str, Sequence[tuple[str, float, str]]]]) -> str:
    """A bar per label whose parts (name, share from 0 to 1, explanation) add up to its length."""
    names = list(dict.fromkeys(name for _, parts in bars for name, _, _ in parts))
    colour = {name: min(number, COLOURS - 1) for number, name in enumerate(names)}
    room = _WIDTH - _LABEL
    parts, y = _legend(names, per_line=2)
    for label, sections in bars:
        parts.append(_label(label, y + 16))
        x = float(_LABEL)
        for name, share, tip in sections:
            length = share * room
            parts.append(
                f'<g><title>{text_of(tip)}</title><rect class="c{colour[name]}" x="{x:.1f}" y="{y}" '
                f'width="{length:.2f}" height="24"/></g>'
            )
            if length > 45:
                parts.append(f'<text class="inside" x="{x + 5:.1f}" y="{y + 16}">{share:.0%}</text>')
            x += length
        y += 24 + _GAP
    return _svg(title, y, parts)


def diverging_bars(title: str, rows: Sequence[tuple[str, Bar]]) -> str:
    """A bar per label from a line in the middle: to the right what grew, to the left what shrank."""
    longest = max((abs(bar.value) for _, bar in rows), default=0) or 1.0
    half = (_WIDTH - _LABEL) / 2 - 85
    zero = _LABEL + (_WIDTH - _LABEL) / 2
    parts, y = [], 0
    for label, bar in rows:
        length = max(1.0, abs(bar.value) / longest * half)
        grew = bar.value >= 0
        colour = "more" if grew else "less"
        x = zero if grew else zero - length
        end = f'x="{zero + length + 5:.1f}"' if grew else f'x="{zero - length - 5:.1f}" text-anchor="end"'
        parts.append(_label(label, y + 12))
        parts.append(
            f'<g><title>{text_of(bar.tip)}</title><rect class="{colour}" x="{x:.1f}" y="{y + 2}" '
            f'width="{length:.1f}" height="{_BAR}"/>'
            f'<text class="value" {end} y="{y + 12}">{text_of(bar.text)}</text></g>'
        )
        y += _BAR + _GAP
    parts.append(f'<line class="axis" x1="{zero:.1f}" y1="0" x2="{zero:.1f}" y2="{y}"/>')
    return _svg(title, y, parts)


def _legend(names: Sequence[str], per_line: int = 4) -> tuple[list[str], int]:
    parts = []
    step = _WIDTH // per_line
    for number, name in enumerate(names):
        x, y = number % per_line * step, number // per_line * 18
        shown = short_layer_name(printable(name), int((step - 24) / _CHAR))
        parts.append(
            f'<g><title>{text_of(name)}</title><rect class="c{min(number, COLOURS - 1)}" x="{x}" y="{y}" width="12" '
            f'height="12"/><text x="{x + 18}" y="{y + 10}">{escape(shown)}</text></g>'
        )
    return parts, (len(names) + per_line - 1) // per_line * 18 + 10


def _label(name: str, y: float) -> str:
    shown = short_layer_name(printable(name), int((_LABEL - 10) / _CHAR))
    return (
        f'<text class="label" x="{_LABEL - 8}" y="{y:.1f}" text-anchor="end"><title>{text_of(name)}</title>'
        f"{escape(shown)}</text>"
    )


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<figure><figcaption>{text_of(title)}</figcaption>\n<svg role="img" aria-label="{text_of(title)}" '
        f'viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}">\n{body}\n</svg></figure>'
    )
