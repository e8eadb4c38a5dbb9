"""The ``torch_tensorrt.Input`` objects that a program is compiled with, from its profiles and from what the user gave.

The user's own objects are read, and never changed.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from torch_tensorrt_profiles.dynamo._call import match_call
from torch_tensorrt_profiles.dynamo._envelope import Envelope, InputEnvelope
from torch_tensorrt_profiles.dynamo._input_graft import is_incomplete, opt_shape, profile_names
from torch_tensorrt_profiles.dynamo._optimization_profile import OptimizationProfile, ShapeRange
from torch_tensorrt_profiles.dynamo._resolve import InputLimits, Resolution, resolve

# Torch-TensorRT takes a complex tensor as a real one with a last axis of two.
_REAL_DTYPE = {torch.complex64: torch.float32, torch.complex128: torch.float64}


@dataclass(frozen=True)
class PreparedInputs:
    """What to compile a program with.

    ``arg_inputs`` and ``kwarg_inputs`` are nested as the program is called. Dynamic inputs are
    ``Input(profiles=[...])``, static ones what the user gave or ``Input(shape=...)``, and constants themselves.
    """

    arg_inputs: tuple[Any, ...]
    kwarg_inputs: dict[str, Any]
    resolution: Resolution


def needs_resolution(inputs: Any, arg_inputs: Any, kwarg_inputs: Any) -> bool:
    """Whether these inputs need :func:`prepare`: there are none, one is incomplete, or one names its profiles."""
    from torch_tensorrt import Input

    if inputs is None and arg_inputs is None and kwarg_inputs is None:
        return True
    given = pytree.tree_leaves((inputs, arg_inputs, kwarg_inputs))
    return any(isinstance(spec, Input) and (is_incomplete(spec) or profile_names(spec)) for spec in given)


def prepare(
    exported_program: ExportedProgram,
    profiles: Sequence[OptimizationProfile] | None,
    inputs: Any = None,
    arg_inputs: Any = None,
    kwarg_inputs: Mapping[str, Any] | None = None,
) -> PreparedInputs:
    """Settles the profiles and builds the inputs.

    Args:
        exported_program: says what inputs there are and how far each axis may go.
        profiles: the named profiles; None takes them from the Inputs, or makes one unnamed profile.
        inputs, arg_inputs, kwarg_inputs: as for ``torch_tensorrt.dynamo.compile``, all optional. An Input narrows the
            ranges and gives defaults for what profiles leave alone; an example tensor, or an Input of one fixed shape,
            is only checked.

    Raises:
        TypeError, ValueError: the profiles or the inputs do not fit the program, or contradict each other.
    """
    from torch_tensorrt import Input

    if not isinstance(exported_program, ExportedProgram):
        raise TypeError(
            f"a torch.export.ExportedProgram is compiled here, found {type(exported_program).__name__}. Export the "
            "module first, torch.export.export(module, args, dynamic_shapes=...) with a torch.export.Dim for every "
            "axis that varies, or use torch_tensorrt.compile(module, ir='dynamo', arg_inputs=..., "
            "optimization_profiles=...), which exports it over the profiles"
        )
    envelope = Envelope.of(exported_program)
    _check_structure(envelope)
    if inputs is not None and arg_inputs is not None:
        raise ValueError("inputs and arg_inputs are the same argument: give one of them")
    given = match_call(envelope, arg_inputs if inputs is None else inputs, kwarg_inputs or {})
    by_input = {spec.name: (spec, given[spec.leaf]) for spec in envelope.inputs if spec.leaf in given}
    limits = {}
    own_profiles = {}
    for name, (spec, value) in by_input.items():
        if isinstance(value, Input):
            _check_input(spec, value)
            if vars(value).get("profiles"):
                own_profiles[spec.path] = value
            elif (limit := _limits(spec, value)) is not None:
                limits[name] = limit
        else:
            _check_example(spec, value)
    resolution = _resolve(envelope, profiles, own_profiles, limits)
    leaves = [envelope.constants.get(leaf) for leaf in range(envelope.in_spec.num_leaves)]
    for spec in envelope.inputs:
        leaves[spec.leaf] = _build(spec, given.get(spec.leaf), [shapes[spec.name] for shapes in resolution.shapes])
    args, kwargs = pytree.tree_unflatten(leaves, envelope.in_spec)
    return PreparedInputs(args, kwargs, resolution)


def _check_structure(envelope: Envelope) -> None:
    """Refuses what Torch-TensorRT takes no inputs of: other containers than these, and other constants."""
    args, kwargs = envelope.in_spec.children()
    for name, spec in zip(envelope.parameters, (*args.children(), *kwargs.children()), strict=True):
        for kind in _containers(spec):
            if kind is not namedtuple and not issubclass(kind, (list, tuple, dict)):
                raise TypeError(
                    f"input {name!r} holds a {kind.__name__}, and Torch-TensorRT takes only tensors, numbers, and "
                    f"lists, tuples and dicts of them. Export a module that takes what is in the {kind.__name__} as "
                    f"tensors, or in a dict, and makes the {kind.__name__} of them in its forward"
                )
    for value in envelope.constants.values():
        if not isinstance(value, (int, float, bool, type(None))):
            raise TypeError(
                f"the program was exported with the input {value!r}, and Torch-TensorRT takes no "
                f"{type(value).__name__}. Give it to the module's constructor, or as a default in its forward, and "
                "export the module without it"
            )


def _containers(spec: pytree.TreeSpec) -> Iterator[Any]:
    if not spec.is_leaf():
        yield spec.type
        for child in spec.children():
            yield from _containers(child)


def _resolve(
    envelope: Envelope,
    profiles: Sequence[OptimizationProfile] | None,
    own_profiles: Mapping[str, Any],
    limits: Mapping[str, InputLimits],
) -> Resolution:
    if not own_profiles:
        return resolve(envelope, profiles, limits)
    if profiles is not None:
        raise profiles_twice(next(iter(own_profiles)))
    names = _common_names(own_profiles)
    # Profiles without names go by their index in error messages only.
    labels = names or tuple(map(str, range(len(next(iter(own_profiles.values())).profiles))))
    named = [
        OptimizationProfile(
            label, {path: _profile_of(envelope, path, spec, index) for path, spec in own_profiles.items()}
        )
        for index, label in enumerate(labels)
    ]
    resolution = resolve(envelope, named, limits)
    return resolution if names else replace(resolution, names=("",) * len(labels))


def profiles_twice(path: str) -> ValueError:
    """The error for an Input that has profiles beside ``optimization_profiles``."""
    return ValueError(
        f"Input for {path!r} has profiles, and optimization_profiles is given too. Say it in one place: leave profiles "
        "out of the Input, or leave optimization_profiles out"
    )


def _common_names(specs: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The profile names that all Inputs with profiles agree on; None where none of them names its profiles."""
    (first, spec), *others = specs.items()
    names = profile_names(spec)
    for path, other in others:
        if profile_names(other) != names or len(other.profiles) != len(spec.profiles):
            raise ValueError(
                f"Input for {first!r} has the profiles {_shown_names(spec)}, but Input for {path!r} has "
                f"{_shown_names(other)}. Give all Inputs the same profiles in the same order"
            )
    return names


def _shown_names(spec: Any) -> str:
    names = profile_names(spec)
    return str(list(names)) if names else f"{len(spec.profiles)} without names"


def _profile_of(envelope: Envelope, path: str, spec: Any, index: int) -> dict[str, tuple[int, ...]]:
    exported = envelope.find(path)
    assert exported is not None
    return {key: _as_exported(exported, shape) for key, shape in spec.profiles[index].items()}


def _limits(spec: InputEnvelope, value: Any) -> InputLimits | None:
    """What a user's Input without profiles adds to the exported ranges; nothing where its shape is fixed."""
    if is_incomplete(value):
        optimum = opt_shape(value)
        return None if optimum is None else InputLimits(None, _as_exported(spec, optimum), None)
    if not isinstance(value.shape, dict):
        return None
    low, opt, high = (_as_exported(spec, value.shape[key]) for key in ("min_shape", "opt_shape", "max_shape"))
    return InputLimits(low, opt, high)


def _as_exported(spec: InputEnvelope, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape in the program's terms: a complex input also goes by its real shape, with a last axis of two."""
    is_real_form = spec.dtype in _REAL_DTYPE and len(shape) == len(spec.axes) + 1 and shape[-1] == 2
    return tuple(map(int, shape[:-1] if is_real_form else shape))


def _check_input(spec: InputEnvelope, value: Any) -> None:
    where = f"Input for {spec.path!r}"
    if value._explicit_set_dtype:
        dtype = value.dtype.to(torch.dtype)
        if dtype not in (spec.dtype, _REAL_DTYPE.get(spec.dtype)):
            raise ValueError(f"{where}: its dtype is {dtype}, but the input was exported as {spec.dtype}")
    outside = [axis for axis in value.shared_dims if axis >= len(spec.axes)]
    if outside:
        raise ValueError(f"{where}: shared_dims names axis {outside[0]}, but the input has {len(spec.axes)} axes")
    if not is_incomplete(value) and isinstance(value.shape, tuple):
        _check_fixed(spec, _as_exported(spec, value.shape), where)


def _check_example(spec: InputEnvelope, value: Any) -> None:
    where = f"the example for {spec.path!r}"
    if spec.is_shape_tensor and isinstance(value, int):
        return
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"{where} has to be a tensor or a torch_tensorrt.Input, found {value!r} of type {type(value).__name__}"
        )
    if value.dtype != spec.dtype:
        raise ValueError(f"{where}: its dtype is {value.dtype}, but the input was exported as {spec.dtype}")
    _check_fixed(spec, tuple(value.shape), where)


def _check_fixed(spec: InputEnvelope, shape: tuple[int, ...], where: str) -> None:
    """An example has to have the rank and the static extents of the program; elsewhere any extent will do."""
    exported = "(" + ", ".join(str(axis.expr) for axis in spec.axes) + ")"
    if len(shape) != len(spec.axes):
        raise ValueError(f"{where}: its shape {shape} has {len(shape)} axes, but the input was exported as {exported}")
    for number, (extent, axis) in enumerate(zip(shape, spec.axes, strict=True)):
        if axis.is_static and extent != axis.expr:
            raise ValueError(
                f"{where}, axis {number}: its extent is {extent}, but the input was exported as {exported}, with "
                f"{axis.expr} there"
            )


def _build(spec: InputEnvelope, value: Any, ranges: Sequence[ShapeRange]) -> Any:
    """The Input to compile with; the user's own object where it is complete and the input static."""
    from torch_tensorrt import Input

    own = value if isinstance(value, Input) else None
    is_static = all(axis.is_static for axis in spec.axes)
    if is_static and value is not None and (own is None or not is_incomplete(own)):
        return value
    options: dict[str, Any] = {"dtype": _REAL_DTYPE.get(spec.dtype, spec.dtype), "name": spec.name}
    if own is not None:
        options |= {"format": own.format, "tensor_domain": own.tensor_domain, "name": own.name or spec.name}
    if spec.is_shape_tensor:
        options["is_shape_tensor"] = True
    pair = (2,) if spec.dtype in _REAL_DTYPE else ()
    if is_static:
        return Input(shape=ranges[0].opt + pair, **options)
    shapes = [{key: shape + pair for key, shape in range_.as_shapes().items()} for range_ in ranges]
    return Input(profiles=shapes, shared_dims={} if own is None else _dynamic_names(own, ranges), **options)


def _dynamic_names(own: Any, ranges: Sequence[ShapeRange]) -> dict[int, str]:
    """The axis names of a user's Input, without those of axes that never vary: stock refuses to name these."""
    return {
        axis: name
        for axis, name in own.shared_dims.items()
        if min(shapes.min[axis] for shapes in ranges) < max(shapes.max[axis] for shapes in ranges)
    }
