"""How far an extent goes where the symbols that it depends on each go over a range."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import sympy  # type: ignore[import-untyped]
from torch.utils._sympy.functions import Mod, ModularIndexing, PythonMod
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from torch_tensorrt_profiles.dynamo._optimization_profile import Extents

#: As many combinations of symbols are tried one by one where interval arithmetic would be too wide.
_FEW = 4096


def span(expr: int | sympy.Expr, symbols: Mapping[str, Extents]) -> Extents:
    """Minimum, optimum and maximum of an extent, the symbols being independent of each other.

    The optimum is the extent at the symbols' optima. Minimum and maximum are exact, except that they may be too far
    apart, never too close, where a symbol stands more than once and there are too many combinations to try.

    Raises:
        ValueError: an expression that has no bounds over these ranges, such as one that divides by 0 in them.
    """
    if isinstance(expr, int) or expr.is_number:
        return Extents(*(int(expr),) * 3)
    ranges = {symbol: symbols[symbol.name] for symbol in expr.free_symbols}
    opt = _at(expr, {symbol: extents.opt for symbol, extents in ranges.items()})
    # Expanded, 2 * (s + t) - t has every symbol once; as it is, s * (t + 1) has.
    forms = (expr, sympy.expand(expr))
    exact = next((form for form in forms if _is_exact(form)), None)
    if exact is not None:
        low, high = _bounds(exact, ranges)
    elif math.prod(extents.max - extents.min + 1 for extents in ranges.values()) <= _FEW:
        values = itertools.product(*(range(extents.min, extents.max + 1) for extents in ranges.values()))
        reached = [_at(expr, dict(zip(ranges, point, strict=True))) for point in values]
        low, high = min(reached), max(reached)
    else:
        lows, highs = zip(*(_bounds(form, ranges) for form in forms), strict=True)
        low, high = max(lows), min(highs)
    return Extents(low, opt, high)


def at_least_one(extents: Extents) -> Extents:
    """The part of a range that TensorRT can be given: it has no empty tensors."""
    return Extents(*(max(1, extent) for extent in extents))


def _at(expr: sympy.Expr, values: Mapping[sympy.Symbol, int]) -> int:
    return int(expr.xreplace({symbol: sympy.Integer(value) for symbol, value in values.items()}))


def _is_exact(expr: sympy.Expr) -> bool:
    """Whether interval arithmetic is exact: it takes two of one symbol for two symbols, and any remainder for any."""
    return not expr.has(Mod, PythonMod, ModularIndexing) and all(expr.count(s) == 1 for s in expr.free_symbols)


def _bounds(expr: sympy.Expr, ranges: Mapping[sympy.Symbol, Extents]) -> tuple[int, int]:
    found = bound_sympy(expr, {symbol: ValueRanges(extents.min, extents.max) for symbol, extents in ranges.items()})
    if not (found.lower.is_Rational and found.upper.is_Rational):
        shown = " and ".join(f"{symbol} in {extents.min} to {extents.max}" for symbol, extents in ranges.items())
        raise ValueError(f"{expr} has no bounds for {shown}")
    return int(sympy.ceiling(found.lower)), int(sympy.floor(found.upper))
