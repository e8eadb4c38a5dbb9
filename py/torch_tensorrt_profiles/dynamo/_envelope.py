"""What an exported program says about its user inputs: their names, and the range of every axis.

Ranges come from ``ExportedProgram.range_constraints``, which keeps ``Dim(min=1)``; the shape environment does not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from torch_tensorrt_profiles.dynamo._optimization_profile import Extents
from torch_tensorrt_profiles.dynamo._spans import span


@dataclass(frozen=True)
class Bounds:
    """An inclusive range in elements; ``max`` is None where there is no upper bound."""

    min: int
    max: int | None

    def __str__(self) -> str:
        return f"at least {self.min}" if self.max is None else f"{self.min} to {self.max}"


@dataclass(frozen=True)
class Affine:
    """An extent that is ``factor * symbol + offset``, exactly."""

    symbol: str
    factor: int
    offset: int

    def solve(self, extent: int) -> int | None:
        """The symbol's value where the axis has this extent; None where no integer gives it."""
        value, rest = divmod(extent - self.offset, self.factor)
        return None if rest else value


@dataclass(frozen=True)
class Axis:
    """One axis of an input: a fixed extent, or an expression of the program's symbols.

    ``size`` is what the expression was read from; the expression itself stays what it was at that time.
    """

    expr: int | sympy.Expr
    size: torch.SymInt | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, extent: int | torch.SymInt) -> Axis:
        if isinstance(extent, torch.SymInt):
            expr = extent.node.expr
            return cls(int(expr)) if expr.is_number else cls(expr, extent)
        return cls(int(extent))

    @property
    def is_static(self) -> bool:
        return isinstance(self.expr, int)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the symbols that the extent depends on, sorted."""
        return () if isinstance(self.expr, int) else tuple(sorted(s.name for s in self.expr.free_symbols))

    @property
    def affine(self) -> Affine | None:
        return None if isinstance(self.expr, int) else affine(self.expr)

    @property
    def frozen_at(self) -> int | None:
        """The one extent that this axis has been reduced to since it was read; None for one that still varies."""
        return int(self.size.node.expr) if self.size is not None and self.size.node.expr.is_number else None

    def span(self, symbols: Mapping[str, Extents]) -> Extents:
        """How far the extent goes where every symbol has the given range, as in :func:`_spans.span`."""
        return span(self.expr, symbols)


@dataclass(frozen=True)
class InputEnvelope:
    """One tensor input, or one dynamic integer input, which TensorRT sees as a shape tensor of one element.

    ``name`` is the placeholder's, ``path`` where the input stands in the call (``batch['ids'][0]``; the same as the
    parameter's name unless nested), ``leaf`` its position among the leaves of the program's input structure.
    """

    name: str
    path: str
    leaf: int
    is_kwarg: bool
    dtype: torch.dtype
    axes: tuple[Axis, ...]
    is_shape_tensor: bool = False

    def place(self, number: int) -> str:
        """An axis, for people."""
        return f"axis {number} of {self.path!r}"


@dataclass(frozen=True)
class Envelope:
    """All that profiles are resolved against.

    ``symbols`` has the exported range of every symbol that an input depends on. ``constants`` has, by leaf, the inputs
    that are neither tensors nor dynamic integers. ``parameters`` names what the program is called with, positional
    arguments first.
    """

    inputs: tuple[InputEnvelope, ...]
    symbols: Mapping[str, Bounds]
    constants: Mapping[int, Any]
    parameters: tuple[str, ...]
    in_spec: pytree.TreeSpec

    @classmethod
    def of(cls, program: ExportedProgram) -> Envelope:
        placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
        user_inputs = [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
        in_spec = program.call_spec.in_spec
        if in_spec is None:
            raise ValueError("the program does not say how it is called (call_spec.in_spec is None): export it again")
        parameters = _parameters(program, in_spec)
        inputs = []
        constants: dict[int, Any] = {}
        for leaf, (argument, path) in enumerate(zip(user_inputs, _paths(parameters, in_spec), strict=True)):
            value = placeholders[argument.name].meta.get("val")
            where = (argument.name, path or argument.name, leaf, leaf >= in_spec.child(0).num_leaves)
            if isinstance(value, torch.Tensor):
                inputs.append(InputEnvelope(*where, value.dtype, tuple(Axis.of(extent) for extent in value.shape)))
            elif isinstance(value, torch.SymInt):
                inputs.append(InputEnvelope(*where, torch.int64, (Axis.of(value),), is_shape_tensor=True))
            else:
                constants[leaf] = value
        used = {symbol for spec in inputs for axis in spec.axes for symbol in axis.symbols}
        symbols = _symbol_bounds(program.range_constraints, used)
        return cls(tuple(inputs), symbols, constants, parameters, in_spec)

    def find(self, key: str) -> InputEnvelope | None:
        """The input of that path or placeholder name."""
        by_name = None
        for spec in self.inputs:
            if same_path(key, spec.path):
                return spec
            if spec.name == key:
                by_name = spec
        return by_name

    def axes_of(self, symbol: str) -> Iterator[tuple[InputEnvelope, int]]:
        """The axes that depend on the symbol, those that are the symbol itself first."""
        found = [
            (spec, number) for spec in self.inputs for number, axis in enumerate(spec.axes) if symbol in axis.symbols
        ]
        yield from sorted(found, key=lambda place: str(place[0].axes[place[1]].expr) != symbol)

    def place_of(self, symbol: str) -> str:
        """The axis that the symbol is, or else one that depends on it, for people."""
        spec, number = next(self.axes_of(symbol))
        return spec.place(number)

    def bounds_of(self, axis: Axis, symbols: Mapping[str, Bounds] | None = None) -> Bounds:
        """The range of an axis that is affine in one symbol, or static."""
        if isinstance(axis.expr, int):
            return Bounds(axis.expr, axis.expr)
        form = axis.affine
        if form is None:
            raise ValueError(f"the range of {axis.expr} does not follow from one symbol")
        symbol = (symbols or self.symbols)[form.symbol]
        ends = sorted(form.factor * end + form.offset for end in (symbol.min, symbol.max) if end is not None)
        return Bounds(ends[0], None if symbol.max is None else ends[-1])


def same_path(one: str, other: str) -> bool:
    """Whether two paths are the same expression, whatever quotes and spaces they are written with."""
    return one == other or _parsed(one) == _parsed(other)


def _parsed(path: str) -> str:
    try:
        return ast.dump(ast.parse(path, mode="eval"))
    except (SyntaxError, ValueError):
        # A key of the caller's that is shown as something else than an expression.
        return path


def affine(expr: sympy.Expr) -> Affine | None:
    """``expr`` as an affine function of one symbol with integer coefficients, if it is one."""
    if len(expr.free_symbols) != 1:
        return None
    (symbol,) = expr.free_symbols
    if not expr.is_polynomial(symbol):
        return None
    coefficients = sympy.Poly(expr, symbol).all_coeffs()
    if len(coefficients) != 2 or not all(c.is_Integer for c in coefficients):
        return None
    return Affine(symbol.name, int(coefficients[0]), int(coefficients[1]))


def _symbol_bounds(constraints: Mapping[Any, Any], used: set[str]) -> dict[str, Bounds]:
    bounds = {}
    for expr, interval in constraints.items():
        if expr.is_Symbol and expr.name in used:
            bounds[expr.name] = Bounds(max(1, _finite(interval.lower) or 1), _finite(interval.upper))
    # The root of a derived Dim starts at 2 even where its Dim starts at 1; the derived expression still has the 1.
    for expr, interval in constraints.items():
        form = None if expr.is_Symbol else affine(expr)
        if form and form.factor > 0 and form.symbol in bounds and bounds[form.symbol].min == 2:
            lower = _finite(interval.lower)
            if lower is not None and form.factor + form.offset >= max(1, lower):
                bounds[form.symbol] = Bounds(1, bounds[form.symbol].max)
    return {symbol: bounds.get(symbol, Bounds(1, None)) for symbol in sorted(used)}


def _finite(bound: Any) -> int | None:
    """The bound as an integer; None for each of the infinities, and for torch's stand-in for one."""
    if not bound.is_Integer:
        return None
    value = int(bound)
    return value if abs(value) < sys.maxsize - 1 else None


def _parameters(program: ExportedProgram, in_spec: pytree.TreeSpec) -> tuple[str, ...]:
    args, kwargs = in_spec.children()
    signature = program.module_call_graph[0].signature
    names = (signature and signature.forward_arg_names) or [f"args[{index}]" for index in range(args.num_children)]
    return (*names[: args.num_children], *kwargs.context)


def _paths(parameters: Sequence[str], in_spec: pytree.TreeSpec) -> list[str | None]:
    """Where each leaf stands in the call, as one would write it: ``x``, ``batch['ids'][0]``, ``state.mask``."""
    try:
        call = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
        leaves, _ = pytree.tree_flatten_with_path(call)
    except Exception:
        # A class of the caller's that does not take placeholders, or has no key paths: its inputs go by placeholder.
        return [None] * in_spec.num_leaves
    return [_path(key_path, parameters) for key_path, _ in leaves]


def _path(key_path: tuple[Any, ...], parameters: Sequence[str]) -> str:
    group, first, *rest = key_path
    name = first.key if group.idx == 1 else parameters[first.idx]
    return f"{name}{pytree.keystr(tuple(rest))}"
