"""How far an extent goes, against every combination of the symbols."""

from __future__ import annotations

import itertools

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Mod
from torch_tensorrt_profiles.dynamo._optimization_profile import Extents
from torch_tensorrt_profiles.dynamo._spans import at_least_one, span

s, t = (sympy.Symbol(name, integer=True, positive=True) for name in "st")
SYMBOLS = {"s": Extents(2, 9, 20), "t": Extents(1, 4, 8)}


@pytest.mark.parametrize(
    "expr",
    [
        s,
        3 * s + 4,
        64 - s,
        64 + s - t,
        2 * (s + t) - t,
        s * (t + 1) - 5,
        s * t - t,
        s * t - 3 * s,
        (s - 3) * (t - 5),
        s**2 - 10 * s,
        FloorDiv(s - 1, 2) + 1,
        s - FloorDiv(s, 2),
        16 * FloorDiv(s + 15, 16),
        64 - FloorDiv(s * t, 3),
        Mod(s, 4) + 1,
        Max(s, 5 * t) - t,
    ],
)
def test_a_span_is_what_the_symbols_reach(expr: sympy.Expr) -> None:
    def at(values):
        return int(expr.xreplace(dict(zip((s, t), map(sympy.Integer, values), strict=True))))

    reached = [at(point) for point in itertools.product(range(2, 21), range(1, 9))]
    assert span(expr, SYMBOLS) == (min(reached), at((9, 4)), max(reached))


@pytest.mark.parametrize("expr", [7, sympy.Integer(7)])
def test_a_fixed_extent(expr) -> None:
    assert span(expr, {}) == (7, 7, 7)


def test_too_many_combinations_to_try_are_never_too_narrow() -> None:
    wide = {"s": Extents(1, 2, 10_000), "t": Extents(1, 2, 10_000)}
    low, opt, high = span(s * t - FloorDiv(s, 2) * t, wide)
    assert low <= 1 < opt < high
    assert high >= 10_000 * 5_000
    assert span(64 + s - t, wide) == (64 + 1 - 10_000, 64, 64 + 10_000 - 1)


def test_the_part_without_empty_tensors() -> None:
    assert at_least_one(Extents(-3, 0, 9)) == (1, 1, 9)


def test_no_bounds() -> None:
    with pytest.raises(ValueError, match=r"has no bounds for .*s in 2 to 20"):
        span(FloorDiv(100, s - t + 100 * Mod(s, 3)), {"s": Extents(2, 9, 20), "t": Extents(1, 4, 100_000)})
