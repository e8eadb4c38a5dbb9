"""Named profiles against a program's envelope: what every symbol and every input is in each profile."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch_tensorrt_profiles.dynamo._envelope import Affine, Axis, Bounds, Envelope, InputEnvelope
from torch_tensorrt_profiles.dynamo._optimization_profile import (
    Extents,
    InputRange,
    OptimizationProfile,
    ShapeRange,
    check_order,
    shown,
)
from torch_tensorrt_profiles.dynamo._spans import at_least_one

#: For messages.
_EXAMPLE = "OptimizationProfile('decode', {'input_ids': {1: 1}})"


@dataclass(frozen=True)
class InputLimits:
    """What a ``torch_tensorrt.Input`` adds: a narrower range than was exported, a default optimum, or both.

    ``min`` and ``max`` are both given or both None. Shapes are whole.
    """

    min: tuple[int, ...] | None
    opt: tuple[int, ...]
    max: tuple[int, ...] | None


@dataclass(frozen=True)
class Resolution:
    """Profiles, settled. Everything is indexed by profile; the index is TensorRT's.

    ``names`` is ``("",)`` where no profile was given. ``symbols`` has the range of every symbol that an input depends
    on, ``shapes`` the whole shapes of every input, by placeholder name.
    """

    names: tuple[str, ...]
    symbols: tuple[Mapping[str, Extents], ...]
    shapes: tuple[Mapping[str, ShapeRange], ...]
    envelope: Envelope = field(compare=False, repr=False)


class _Settled(NamedTuple):
    extents: Extents
    where: str  # "input 'input_ids', axis 1"


class _Default(NamedTuple):
    """The range of a symbol that a profile leaves alone."""

    bounds: Bounds
    opt: int | None
    source: str  # who says so, for error messages


def resolve(
    envelope: Envelope,
    profiles: Sequence[OptimizationProfile] | None,
    limits: Mapping[str, InputLimits] | None = None,
) -> Resolution:
    """Settles every symbol and every input in every profile.

    A symbol that a profile sets on one input is set on all that share it. A symbol that it leaves alone takes its
    whole range, as exported or as ``limits`` (by placeholder name) narrows it, with the optimum at the midpoint,
    rounded down, unless ``limits`` says otherwise. Without profiles (None) that is one unnamed profile.

    Raises:
        TypeError: ``profiles`` is not a sequence of OptimizationProfile.
        ValueError: a profile does not fit the program; the message names profile, input, axis and values.
    """
    defaults = _defaults(envelope, limits or {})
    if profiles is None:
        settled: list[tuple[str, dict[str, _Settled]]] = [("", {})]
    else:
        check_profiles(profiles)
        _check_dynamic(envelope, profiles)
        settled = [(profile.name, _settle(envelope, profile, defaults)) for profile in profiles]
    names = tuple(name for name, _ in settled)
    symbols = tuple(_complete(envelope, name, found, defaults) for name, found in settled)
    shapes = tuple(_shapes(envelope, name, found) for name, found in zip(names, symbols, strict=True))
    for profile, found in zip(profiles or (), shapes, strict=profiles is not None):
        _check_derived(envelope, profile, found)
    return Resolution(names, symbols, shapes, envelope)


def _as_call(given: object) -> str:
    """The call that makes a profile of what was given instead, or an example of one."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) and isinstance(given[1], Mapping):
        return f"OptimizationProfile({given[0]!r}, {given[1]!r})"
    if isinstance(given, Mapping):
        return f"OptimizationProfile(name, {given!r})"
    return f"it as a call, such as {_EXAMPLE}"


def check_profiles(profiles: Sequence[OptimizationProfile]) -> None:
    """Raises TypeError or ValueError unless ``profiles`` is a list of at least one profile, each of its own name."""
    if not isinstance(profiles, (list, tuple)):
        raise TypeError(
            f"optimization_profiles has to be a list of OptimizationProfile, found {type(profiles).__name__}: "
            f"{profiles!r}. Give a list, such as [{_EXAMPLE}]"
        )
    if not profiles:
        raise ValueError("optimization_profiles is empty: give at least one OptimizationProfile, or leave it out")
    seen: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        if not isinstance(profile, OptimizationProfile):
            raise TypeError(
                f"optimization_profiles[{index}] has to be an OptimizationProfile, found {type(profile).__name__}: "
                f"{profile!r}. Write {_as_call(profile)}"
            )
        if profile.name in seen:
            raise ValueError(
                f"optimization_profiles[{seen[profile.name]}] and [{index}] are both called {profile.name!r}. "
                "Give every profile a name of its own"
            )
        seen[profile.name] = index


def _check_dynamic(envelope: Envelope, profiles: Sequence[OptimizationProfile]) -> None:
    if not envelope.symbols:
        raise ValueError(
            f"{_profiles(profiles)}: the program has no dynamic axis, so there is nothing for profiles to vary. "
            "Export it with dynamic_shapes (torch.export.Dim), or compile it without optimization_profiles"
        )


def _defaults(envelope: Envelope, limits: Mapping[str, InputLimits]) -> dict[str, _Default]:
    exported = {symbol: _Default(bounds, None, "as exported") for symbol, bounds in envelope.symbols.items()}
    ranges: dict[str, _Settled] = {}
    optima: dict[str, _Settled] = {}
    for spec in envelope.inputs:
        if spec.name in limits:
            _limit(envelope, spec, limits[spec.name], exported, ranges, optima)
    defaults = {}
    for symbol, default in exported.items():
        if symbol in ranges:
            extents, where = ranges[symbol]
            default = _Default(Bounds(extents.min, extents.max), None, f"as the {where} has it")
        if symbol in optima:
            default = default._replace(opt=optima[symbol].extents.opt)
        defaults[symbol] = default
    return defaults


def _limit(
    envelope: Envelope,
    spec: InputEnvelope,
    limit: InputLimits,
    exported: Mapping[str, _Default],
    ranges: dict[str, _Settled],
    optima: dict[str, _Settled],
) -> None:
    """Notes what one Input makes of its symbols."""
    _check_rank(spec, len(limit.opt), f"Input for {spec.path!r}: its shape {limit.opt}")
    for number, axis in enumerate(spec.axes):
        where = f"Input for {spec.path!r}, axis {number}"
        opt = Extents(*(limit.opt[number],) * 3)
        whole = (
            opt if limit.min is None or limit.max is None else Extents(limit.min[number], opt.opt, limit.max[number])
        )
        check_order(whole, where)
        _check_static(axis, whole, where)
        form = axis.affine
        if form is None:
            continue
        symbol = _solve(axis, form, whole, where)
        _check_inside(envelope, axis, form, symbol, exported[form.symbol], where)
        if limit.min is not None:
            _put(ranges, form.symbol, symbol, where, "")
        _put(optima, form.symbol, Extents(symbol.opt, symbol.opt, symbol.opt), where, "")


def given_ranges(
    envelope: Envelope, profile: OptimizationProfile
) -> Iterator[tuple[InputEnvelope, str, dict[int, Extents]]]:
    """What the profile says about each of its inputs: the input, the name it goes by, and ranges by axis.

    Raises:
        ValueError: an input is unknown or given twice, or its rank or an axis does not fit.
    """
    for spec, key, ranges in _inputs_of(envelope, profile):
        yield spec, key, _by_axis(spec, ranges, f"profile {profile.name!r}, input {key!r}")


def _settle(envelope: Envelope, profile: OptimizationProfile, defaults: Mapping[str, _Default]) -> dict[str, _Settled]:
    """The symbols that the profile sets, by any of its inputs."""
    settled: dict[str, _Settled] = {}
    following = []
    prefix = f"profile {profile.name!r}, "
    for spec, key, ranges in given_ranges(envelope, profile):
        for number, extents in ranges.items():
            axis = spec.axes[number]
            where = f"input {key!r}, axis {number}"
            _check_static(axis, extents, prefix + where)
            form = axis.affine
            if form is not None:
                symbol = _solve(axis, form, extents, prefix + where)
                _check_inside(envelope, axis, form, symbol, defaults[form.symbol], prefix + where)
                _put(settled, form.symbol, symbol, where, prefix)
            elif not axis.is_static:
                following.append(f"{spec.place(number)}, which others make {axis.expr}")
    if not settled:
        only = " and ".join(following) or f"static ones of {_quoted(list(profile.inputs))}"
        raise ValueError(
            f"profile {profile.name!r} sets no dynamic axis of the program, only {only}. "
            f"Give it one of these: {_axes_to_give(envelope)}"
        )
    return settled


def _inputs_of(envelope: Envelope, profile: OptimizationProfile) -> list[tuple[InputEnvelope, str, InputRange]]:
    found: dict[str, str] = {}
    inputs = []
    for key, ranges in profile.inputs.items():
        spec = envelope.find(key)
        if spec is None:
            raise ValueError(f"profile {profile.name!r}, input {key!r}: {_unknown(envelope, key)}")
        if spec.name in found:
            raise ValueError(
                f"profile {profile.name!r}: {found[spec.name]!r} and {key!r} are the same input. Give it once"
            )
        found[spec.name] = key
        inputs.append((spec, key, ranges))
    return inputs


def _unknown(envelope: Envelope, key: str) -> str:
    names = list(dict.fromkeys(name for spec in envelope.inputs for name in (spec.path, spec.name)))
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    known = _quoted([spec.path for spec in envelope.inputs])
    return f"the program has no tensor input of that name. {hint}Its inputs are {known}"


def _by_axis(spec: InputEnvelope, ranges: InputRange, where: str) -> dict[int, Extents]:
    """The ranges by axis, counted from the front."""
    rank = len(spec.axes)
    if isinstance(ranges, ShapeRange):
        _check_rank(spec, ranges.rank, f"{where}: {ranges!r}")
        return {number: ranges.axis(number) for number in range(rank)}
    found: dict[int, Extents] = {}
    for given, extents in ranges:
        if not -rank <= given < rank:
            raise ValueError(
                f"{where}, axis {given}: the input has {rank} axes, so an axis is {-rank} to {rank - 1}"
                if rank
                else f"{where}, axis {given}: the input has no axes, it is a scalar"
            )
        number = given % rank
        if number in found:
            raise ValueError(f"{where}: axes {number - rank} and {number} are the same axis. Give it once")
        found[number] = extents
    return found


def _check_rank(spec: InputEnvelope, rank: int, where: str) -> None:
    if rank != len(spec.axes):
        exported = ", ".join(str(axis.expr) for axis in spec.axes)
        raise ValueError(
            f"{where} has {rank} axes, but the input was exported with {len(spec.axes)}: ({exported}). Give as many"
        )


def _check_static(axis: Axis, extents: Extents, where: str) -> None:
    if axis.is_static and not extents.min == extents.opt == extents.max == axis.expr:
        raise ValueError(
            f"{where}: {shown(extents)} given, but the axis is exported as always {axis.expr}. "
            f"Leave it at {axis.expr}, or export it with a torch.export.Dim"
        )


def _check_inside(envelope: Envelope, axis: Axis, form: Affine, symbol: Extents, default: _Default, where: str) -> None:
    if _contains(default.bounds, symbol):
        return
    extents = Extents(*sorted(form.factor * value + form.offset for value in symbol))
    allowed = envelope.bounds_of(axis, {form.symbol: default.bounds})
    exported = default.source == "as exported"
    begins_at_two = exported and symbol.min == 1 and default.bounds.min == 2
    raise ValueError(
        f"{where}: {shown(extents)} given, but the axis is {allowed}, {default.source}. Stay inside, or "
        + (
            "export the program with torch.export.Dim('n', min=1): Dim.AUTO and Dim.DYNAMIC begin at 2"
            if begins_at_two
            else "export the program with a wider torch.export.Dim"
            if exported
            else "widen the Input"
        )
    )


def _solve(axis: Axis, form: Affine, extents: Extents, where: str) -> Extents:
    """The range of the axis's symbol where the axis has the given range."""
    values = [form.solve(extent) for extent in extents]
    for extent, value in zip(extents, values, strict=True):
        if value is None:
            raise ValueError(
                f"{where}: {extent} is not possible, the axis is exported as {axis.expr}. Give extents of that form "
                f"for whole {form.symbol}"
            )
    low, opt, high = (value for value in values if value is not None)
    return Extents(low, opt, high) if form.factor > 0 else Extents(high, opt, low)


def _put(settled: dict[str, _Settled], symbol: str, extents: Extents, where: str, prefix: str) -> None:
    before = settled.setdefault(symbol, _Settled(extents, where))
    if before.extents != extents:
        raise ValueError(
            f"{prefix}{before.where} and {where} are one symbol of the program ({symbol}), but make it "
            f"{shown(before.extents)} and {shown(extents)}. Give one of them, or the same range"
        )


def _complete(
    envelope: Envelope, profile: str, settled: Mapping[str, _Settled], defaults: Mapping[str, _Default]
) -> dict[str, Extents]:
    symbols = {}
    for symbol, (bounds, opt, _) in defaults.items():
        if symbol in settled:
            symbols[symbol] = settled[symbol].extents
            continue
        if bounds.max is None:
            raise ValueError(_unbounded(envelope, profile, symbol))
        symbols[symbol] = Extents(bounds.min, (bounds.min + bounds.max) // 2 if opt is None else opt, bounds.max)
    return symbols


def _unbounded(envelope: Envelope, profile: str, symbol: str) -> str:
    spec, number = next(envelope.axes_of(symbol))
    what = f"input {spec.path!r}, axis {number} ({spec.axes[number].expr}) has no upper bound"
    if profile:
        return (
            f"profile {profile!r}, {what} in the program, and the profile gives it none. Give it a range in the "
            f"profile, {{{spec.path!r}: {{{number}: (min, opt, max)}}}}, or pass an Input with min_shape, opt_shape "
            "and max_shape"
        )
    return (
        f"{what} in the program. Pass an Input with min_shape, opt_shape and max_shape, or optimization_profiles, "
        "or export it with torch.export.Dim(..., max=...)"
    )


def _shapes(envelope: Envelope, profile: str, symbols: Mapping[str, Extents]) -> dict[str, ShapeRange]:
    shapes = {}
    for spec in envelope.inputs:
        axes = []
        for number, axis in enumerate(spec.axes):
            extents = axis.span(symbols)
            # Of several symbols, not all combinations need to fit together.
            if extents.max < 1 or (extents.min < 1 and len(axis.symbols) == 1):
                where = f"profile {profile!r}, input" if profile else "input"
                raise ValueError(
                    f"{where} {spec.path!r}, axis {number}: its extent {axis.expr} would be "
                    f"{f'at most {extents.max}' if extents.max < 1 else extents.min}. Give "
                    f"{' and '.join(map(envelope.place_of, axis.symbols))} a range where it is at least 1"
                )
            axes.append(at_least_one(extents))
        shapes[spec.name] = ShapeRange(
            tuple(a.min for a in axes), tuple(a.opt for a in axes), tuple(a.max for a in axes)
        )
    return shapes


def _check_derived(envelope: Envelope, profile: OptimizationProfile, shapes: Mapping[str, ShapeRange]) -> None:
    """An axis that no single symbol decides can be given only as what the other axes make it."""
    for spec, key, ranges in given_ranges(envelope, profile):
        where = f"profile {profile.name!r}, input {key!r}"
        for number, extents in ranges.items():
            axis = spec.axes[number]
            if axis.is_static or axis.affine is not None or shapes[spec.name].axis(number) == extents:
                continue
            others = [
                s.place(n)
                for s in envelope.inputs
                for n, other in enumerate(s.axes)
                if other.affine is not None and other.affine.symbol in axis.symbols
            ]
            raise ValueError(
                f"{where}, axis {number}: {shown(extents)} given, but the axis is exported as {axis.expr}, which "
                f"makes it {shown(shapes[spec.name].axis(number))} here. Leave it out, and give "
                f"{' and '.join(others) or 'the other axes'}"
            )


def _contains(bounds: Bounds, extents: Extents) -> bool:
    return bounds.min <= extents.min and (bounds.max is None or extents.max <= bounds.max)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _profiles(profiles: Sequence[OptimizationProfile]) -> str:
    return f"profile{'s' if len(profiles) > 1 else ''} {_quoted([profile.name for profile in profiles])}"


def _axes_to_give(envelope: Envelope) -> str:
    return ", ".join(
        spec.place(number)
        for spec in envelope.inputs
        for number, axis in enumerate(spec.axes)
        if axis.affine is not None
    )
