"""Exporting a module over everything that its profiles allow, so that one program holds them all."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy  # type: ignore[import-untyped]
import torch
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import ValueRanges

from torch_tensorrt_profiles.dynamo._envelope import Axis, Bounds, Envelope, InputEnvelope, same_path
from torch_tensorrt_profiles.dynamo._input_graft import is_incomplete, opt_shape
from torch_tensorrt_profiles.dynamo._inputs import profiles_twice
from torch_tensorrt_profiles.dynamo._optimization_profile import OptimizationProfile, ShapeRange
from torch_tensorrt_profiles.dynamo._resolve import check_profiles, given_ranges

_EXPORT_YOURSELF = "or export the module with torch.export.export and one shared torch.export.Dim"


class _Name(NamedTuple):
    path: str
    placeholder: str
    is_kwarg: bool


class _Place(NamedTuple):
    """One axis of one leaf of the call."""

    leaf: int
    axis: int


def export_over_profiles(
    module: torch.nn.Module,
    arg_inputs: Any,
    kwarg_inputs: Mapping[str, Any] | None,
    profiles: Sequence[OptimizationProfile],
    *,
    strict: bool = False,
) -> ExportedProgram:
    """Exports ``module`` so that every axis that the profiles vary is dynamic over the union of their ranges.

    Args:
        module: what to export.
        arg_inputs, kwarg_inputs: what to call it with: example tensors, or ``torch_tensorrt.Input`` objects, nested as
            the module takes them; a single one needs no list. On axes that vary, an extent of 1, or one outside the
            union, is replaced by repeating or cutting the tensor.
        profiles: the named profiles. Axes that they leave out are static, unless an Input gives them a range.
        strict: as for ``torch.export.export``.

    Raises:
        TypeError, ValueError: the profiles do not fit the inputs, or the module fixes an axis that they vary.
    """
    check_profiles(profiles)
    _refuse_modelopt(module)
    args = tuple(arg_inputs) if isinstance(arg_inputs, Sequence) else (arg_inputs,)
    call, in_spec = pytree.tree_flatten((args, dict(kwarg_inputs or {})))
    names = _names(module, in_spec)
    examples = _examples(module, call, names, profiles)
    envelope = _envelope(examples, names, in_spec)
    ranges = _union(envelope, call, examples, profiles)
    resized = _resize(envelope, examples, ranges)
    examples = _apart(module, examples)
    shapes = ShapesCollection()  # type: ignore[no-untyped-call]
    for leaf, dims in _dims(envelope, call, ranges).items():
        shapes[examples[leaf]] = dims
    args, kwargs = pytree.tree_unflatten(examples, in_spec)
    dynamic_shapes = shapes.dynamic_shapes(module, args, kwargs)  # type: ignore[no-untyped-call]
    try:
        program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict)
    except Exception as error:
        if not resized:
            raise
        raise ValueError(
            f"the module cannot be exported with {', '.join(resized)}. These axes vary over the profiles, and an "
            "extent of 1, or one outside the profiles, cannot stand for them. Name every input that shares such an "
            f"axis in the profiles, give example inputs of at least 2 there that fit together, {_EXPORT_YOURSELF}. "
            f"The exporter said: {error}"
        ) from error
    _check_dynamic(Envelope.of(program), envelope, ranges)
    _keep_ones(program, ranges)
    _check_shared(Envelope.of(program), envelope, ranges, profiles)
    return program


def _refuse_modelopt(module: torch.nn.Module) -> None:
    from torch_tensorrt.dynamo.utils import is_quantized_by_modelopt

    if is_quantized_by_modelopt(module):
        raise ValueError(
            "the module is quantized by ModelOpt, whose own export mode is needed: export it with "
            "torch.export.export inside modelopt's export_torch_mode(), and compile the program"
        )


def _names(module: torch.nn.Module, in_spec: pytree.TreeSpec) -> list[_Name]:
    """What each leaf of the call is known by."""
    args, kwargs = in_spec.children()
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*range(args.num_children), **dict.fromkeys(kwargs.context))
    except TypeError as error:
        raise TypeError(
            f"the module's forward takes {signature}: {error}. Give what to call it with as arg_inputs and "
            "kwarg_inputs: an example tensor for each, or torch_tensorrt.Input(opt_shape=..., dtype=...)"
        ) from error
    parameters: list[str] = []
    for name, value in bound.arguments.items():
        # *args are numbered by the exporter as well.
        parameters += [f"{name}_{index}" for index in range(len(value))] if isinstance(value, tuple) else [name]
    call = pytree.tree_unflatten(list(range(in_spec.num_leaves)), in_spec)
    paths: list[tuple[Any, ...]] = [path for path, _ in pytree.tree_leaves_with_path(call)]
    names = []
    for group, first, *rest in paths:
        parameter = first.key if group.idx == 1 else parameters[first.idx]
        path = parameter + pytree.keystr(tuple(rest))
        # The exporter names a placeholder so, unless that name is taken.
        names.append(_Name(path, re.sub(r"[^a-zA-Z0-9]+", "_", path).rstrip("_").lower(), group.idx == 1))
    return names


def _envelope(examples: Sequence[Any], names: Sequence[_Name], in_spec: pytree.TreeSpec) -> Envelope:
    """The call as profiles see it before it is exported: every axis of every tensor may vary."""
    inputs = []
    for leaf, (value, (path, placeholder, is_kwarg)) in enumerate(zip(examples, names, strict=True)):
        if isinstance(value, torch.Tensor):
            axes = tuple(Axis(sympy.Symbol(f"{path}.{axis}")) for axis in range(value.ndim))
            inputs.append(InputEnvelope(placeholder, path, leaf, is_kwarg, value.dtype, axes))
    return Envelope(tuple(inputs), {}, {}, (), in_spec)


def _examples(
    module: torch.nn.Module, call: Sequence[Any], names: Sequence[_Name], profiles: Sequence[OptimizationProfile]
) -> list[Any]:
    """The call with a tensor for every Input."""
    from torch_tensorrt import Input

    state = itertools.chain(module.parameters(), module.buffers())
    device = next((tensor.device for tensor in state), torch.device("cpu"))
    examples = []
    for value, name in zip(call, names, strict=True):
        if not isinstance(value, Input):
            examples.append(value)
        elif is_incomplete(value):
            shape = opt_shape(value) or _shape_in(profiles, name)
            examples.append(torch.zeros(shape, dtype=value.dtype.to(torch.dtype, use_default=True), device=device))
        elif vars(value).get("profiles"):
            raise profiles_twice(name.path)
        else:
            examples.append(value.torch_tensor.to(device))
    return examples


def _shape_in(profiles: Sequence[OptimizationProfile], name: _Name) -> tuple[int, ...]:
    for profile in profiles:
        for key, shapes in profile.inputs.items():
            if isinstance(shapes, ShapeRange) and (same_path(key, name.path) or key == name.placeholder):
                return shapes.opt
    raise ValueError(
        f"Input for {name.path!r} has no shape, and no profile gives the whole shape of that input. Give an example "
        "tensor, Input(opt_shape=...), or min_shape, opt_shape and max_shape in a profile"
    )


def _union(
    envelope: Envelope, call: Sequence[Any], examples: Sequence[Any], profiles: Sequence[OptimizationProfile]
) -> dict[_Place, Bounds]:
    """The range of every axis that varies."""
    found: dict[_Place, list[Bounds]] = {}
    named: dict[_Place, str] = {}
    for profile in profiles:
        for spec, key, ranges in given_ranges(envelope, profile):
            for axis, extents in ranges.items():
                place = _Place(spec.leaf, axis)
                found.setdefault(place, []).append(Bounds(extents.min, extents.max))
                named.setdefault(place, f"profile {profile.name!r}, input {key!r}, axis {axis}")
    for spec in envelope.inputs:
        # A complex input has one axis less than its Input.
        for axis, own in zip(range(len(spec.axes)), _ranges_of(call[spec.leaf]), strict=False):
            place = _Place(spec.leaf, axis)
            found.setdefault(place, []).append(own)
            named.setdefault(place, f"Input for {spec.path!r}, axis {axis}")
    union = {}
    for place, bounds in found.items():
        low, high = min(b.min for b in bounds), max(b.max or b.min for b in bounds)
        extent = examples[place.leaf].shape[place.axis]
        if low < high:
            union[place] = Bounds(low, high)
        elif extent != low:
            raise ValueError(
                f"{named[place]}: always {low}, but the example input has {extent} there. Give a range, or an example "
                f"input of {low}"
            )
    return union


def _ranges_of(value: Any) -> list[Bounds]:
    """The ranges that a user's Input gives its axes; none for anything else."""
    from torch_tensorrt import Input

    if not isinstance(value, Input) or is_incomplete(value) or not isinstance(value.shape, dict):
        return []
    return [
        Bounds(int(low), int(high))
        for low, high in zip(value.shape["min_shape"], value.shape["max_shape"], strict=True)
    ]


def _resize(envelope: Envelope, examples: list[Any], ranges: Mapping[_Place, Bounds]) -> list[str]:
    """Makes extents usable on axes that vary, in ``examples``; returns what was changed, in words.

    Axes with the same range and the same extent are taken for the same thing and stay alike; different ones become
    different, so that the exporter does not take them for one.
    """
    paths = {spec.leaf: spec.path for spec in envelope.inputs}
    used = {extent for value in examples if isinstance(value, torch.Tensor) for extent in value.shape}
    chosen: dict[tuple[Bounds, int], int] = {}
    changed = []
    for place, bounds in ranges.items():
        extent = examples[place.leaf].shape[place.axis]
        lowest = max(2, bounds.min)
        assert bounds.max is not None
        if lowest <= extent <= bounds.max:
            continue
        group = (bounds, extent)
        if group not in chosen:
            free = (e for e in range(lowest, min(bounds.max, lowest + len(used)) + 1) if e not in used)
            chosen[group] = next(free, lowest)
            used.add(chosen[group])
        examples[place.leaf] = _with_extent(examples[place.leaf], place.axis, chosen[group])
        changed.append(f"axis {place.axis} of {paths[place.leaf]!r} resized from {extent} to {chosen[group]}")
    return changed


def _with_extent(tensor: torch.Tensor, axis: int, extent: int) -> torch.Tensor:
    """The tensor repeated or cut along an axis: its values stay what they were."""
    index = torch.arange(extent, device=tensor.device) % tensor.shape[axis]
    return tensor.index_select(axis, index)


def _apart(module: torch.nn.Module, examples: Sequence[Any]) -> list[Any]:
    """The examples with an object and a storage of its own for every tensor.

    The exporter takes one tensor for one input, so of two inputs that get it the program would read one twice, and it
    takes two views of one storage for aliases where the module writes to either.
    """
    storages = {
        StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        for tensor in itertools.chain(module.parameters(), module.buffers())
        if tensor.layout is torch.strided
    }
    own = []
    for value in examples:
        if isinstance(value, torch.Tensor):
            value = value.detach()
            if value.layout is torch.strided:
                storage = StorageWeakRef(value.untyped_storage())  # type: ignore[no-untyped-call]
                value = value.clone() if storage in storages else value
                storages.add(storage)
        own.append(value)
    return own


def _dims(envelope: Envelope, call: Sequence[Any], ranges: Mapping[_Place, Bounds]) -> dict[int, dict[int, Any]]:
    """``torch.export`` dimensions by leaf and axis: one per name where an Input names its axes, else left to unify."""
    names = {
        _Place(spec.leaf, axis): name
        for spec in envelope.inputs
        for axis, name in getattr(call[spec.leaf], "shared_dims", {}).items()
    }
    shared: dict[str, tuple[Any, Bounds, str]] = {}
    dims: dict[int, dict[int, Any]] = {}
    paths = {spec.leaf: spec.path for spec in envelope.inputs}
    for place, bounds in ranges.items():
        dim = Dim.AUTO(min=bounds.min, max=bounds.max)
        if place in names:
            where = f"axis {place.axis} of {paths[place.leaf]!r}"
            new = (Dim(names[place], min=bounds.min, max=bounds.max), bounds, where)
            dim, others, first = shared.setdefault(names[place], new)
            if others != bounds:
                raise ValueError(
                    f"{first} and {where} are both called {names[place]!r}, but have the ranges {others} and {bounds}. "
                    "Give them the same range in every profile"
                )
        dims.setdefault(place.leaf, {})[place.axis] = dim
    return dims


def _check_dynamic(exported: Envelope, asked: Envelope, ranges: Mapping[_Place, Bounds]) -> None:
    by_leaf = {spec.leaf: spec for spec in exported.inputs}
    paths = {spec.leaf: spec.path for spec in asked.inputs}
    frozen = [place for place in ranges if by_leaf[place.leaf].axes[place.axis].is_static]
    if frozen:
        shown = ", ".join(
            f"axis {place.axis} of {paths[place.leaf]!r} at {by_leaf[place.leaf].axes[place.axis].expr}"
            for place in frozen
        )
        raise ValueError(
            f"the module fixes {shown}, where the profiles vary it. An input that no profile names is static and fixes "
            f"what it shares: name every input that has such an axis in the profiles, {_EXPORT_YOURSELF}"
        )


def _check_shared(
    exported: Envelope, asked: Envelope, ranges: Mapping[_Place, Bounds], profiles: Sequence[OptimizationProfile]
) -> None:
    """Refuses axes that the module makes one, but of which one was asked to go further than another."""
    axes = {spec.leaf: spec.axes for spec in exported.inputs}
    paths = {spec.leaf: spec.path for spec in asked.inputs}
    groups: dict[str, dict[_Place, frozenset[int | None]]] = {}
    for place, bounds in ranges.items():
        form = axes[place.leaf][place.axis].affine
        if form and bounds.max is not None:
            groups.setdefault(form.symbol, {})[place] = frozenset(map(form.solve, (bounds.min, bounds.max)))
    for symbol, group in groups.items():
        got = exported.symbols[symbol]
        ends = {end for asked_for in group.values() for end in asked_for if end is not None}
        # If all were asked for the same, the module takes less than that: then the profiles are refused for it.
        if len(set(group.values())) > 1 and (min(ends) < got.min or (got.max is not None and max(ends) > got.max)):
            shown = [f"axis {place.axis} of {paths[place.leaf]!r} ({ranges[place]})" for place in group]
            raise ValueError(
                f"the module makes {' and '.join(shown)} one extent, so they need the same range in every profile"
                + "".join(_left_out(asked, profile, list(group)) for profile in profiles)
            )


def _left_out(asked: Envelope, profile: OptimizationProfile, group: Sequence[_Place]) -> str:
    given = {_Place(spec.leaf, axis) for spec, _, ranges in given_ranges(asked, profile) for axis in ranges}
    paths = {spec.leaf: spec.path for spec in asked.inputs}
    missing = [f"axis {place.axis} of {paths[place.leaf]!r}" for place in group if place not in given]
    return f". Name {' and '.join(missing)} in profile {profile.name!r} too" if 0 < len(missing) < len(group) else ""


def _keep_ones(program: ExportedProgram, ranges: Mapping[_Place, Bounds]) -> None:
    """Records a minimum of 1 as ``Dim(min=1)`` does: ``Dim.AUTO(min=1)`` is recorded as 2."""
    ones = set(_symbols_from_one(Envelope.of(program), ranges))
    for expr, interval in list(program.range_constraints.items()):
        if len(expr.free_symbols) == 1 and {symbol.name for symbol in expr.free_symbols} <= ones:
            lower = expr.xreplace({symbol: sympy.Integer(1) for symbol in expr.free_symbols})
            program.range_constraints[expr] = ValueRanges(lower, interval.upper)


def _symbols_from_one(exported: Envelope, ranges: Mapping[_Place, Bounds]) -> Iterator[str]:
    """The symbols recorded from 2 for which every axis asks for a minimum of 1."""
    by_leaf = {spec.leaf: spec for spec in exported.inputs}
    asked: dict[str, set[int | None]] = {}
    for place, bounds in ranges.items():
        form = by_leaf[place.leaf].axes[place.axis].affine
        if form:
            asked.setdefault(form.symbol, set()).add(form.solve(bounds.min))
    return (symbol for symbol, minima in asked.items() if minima == {1} and exported.symbols[symbol].min == 2)
