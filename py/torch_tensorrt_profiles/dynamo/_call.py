"""Which of a program's inputs each thing that the user gave is for."""

from __future__ import annotations

import difflib
import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch.utils import _pytree as pytree

from torch_tensorrt_profiles.dynamo._envelope import Envelope


class _Parameter(NamedTuple):
    spec: pytree.TreeSpec
    first_leaf: int


def match_call(envelope: Envelope, args: Any, kwargs: Mapping[str, Any]) -> dict[int, Any]:
    """What was given for which leaf of the program's input structure; leaves that got nothing are absent.

    ``args`` stand in the order of the program's parameters, except that a ``torch_tensorrt.Input`` whose name is a
    parameter's goes to that one. Both may leave parameters out, and None stands for one left out.

    Raises:
        ValueError: too many, unknown or twice given parameters, or a nested input of another structure.
    """
    parameters = _parameters(envelope)
    names = list(parameters)
    if args is None:
        args = ()
    elif not isinstance(args, Sequence) or isinstance(args, str):
        args = (args,)
    if len(args) > len(names):
        raise ValueError(f"{len(args)} inputs are given, but the program has {len(names)}: {', '.join(names)}")
    found: dict[str, Any] = {}
    for index, value in enumerate(args):
        own_name = getattr(value, "name", None)
        name = own_name if isinstance(own_name, str) and own_name in parameters else names[index]
        _put(found, name, value)
    for name, value in kwargs.items():
        if name not in parameters:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"the program has no input {name!r}.{hint} Its inputs are {', '.join(names)}")
        _put(found, name, value)
    leaves: dict[int, Any] = {}
    for name, value in found.items():
        parameter = parameters[name]
        leaves |= {parameter.first_leaf + leaf: given for leaf, given in _leaves(parameter.spec, value, name)}
    return leaves


def _put(found: dict[str, Any], name: str, value: Any) -> None:
    if name in found:
        raise ValueError(f"input {name!r} is given twice: give it once")
    found[name] = value


def _parameters(envelope: Envelope) -> dict[str, _Parameter]:
    """The parameters of the program by name, in the order of its inputs."""
    parameters = {}
    leaf = 0
    args, kwargs = envelope.in_spec.children()
    for name, spec in zip(envelope.parameters, (*args.children(), *kwargs.children()), strict=True):
        parameters[name] = _Parameter(spec, leaf)
        leaf += spec.num_leaves
    return parameters


def _leaves(spec: pytree.TreeSpec, value: Any, where: str) -> Iterator[tuple[int, Any]]:
    """Pairs of leaf position, counted from the first of ``spec``, and what is given for it."""
    if value is None:
        return
    if spec.is_leaf():
        yield 0, value
        return
    leaf = 0
    for key, child, part in _parts(spec, value, where):
        yield from ((leaf + below, given) for below, given in _leaves(child, part, f"{where}[{key!r}]"))
        leaf += child.num_leaves


def _parts(spec: pytree.TreeSpec, value: Any, where: str) -> Iterator[tuple[Any, pytree.TreeSpec, Any]]:
    """Key, structure and value of each part. A dict may leave keys out; lists and tuples stand for each other."""
    children = spec.children()
    if spec.type in (dict, OrderedDict) and isinstance(value, Mapping):
        unknown = [key for key in value if key not in spec.context]
        if unknown:
            raise ValueError(f"input {where!r} was exported with the keys {spec.context}, but is given {unknown[0]!r}")
        return zip(spec.context, children, map(value.get, spec.context), strict=True)
    if spec.type in (list, tuple, namedtuple) and isinstance(value, (list, tuple)) and len(value) == len(children):
        return zip(range(len(children)), children, value, strict=True)
    try:
        leaves = spec.flatten_up_to(value)
    except ValueError as error:
        raise ValueError(f"input {where!r} was exported with another structure: {error}") from error
    return zip(range(len(leaves)), itertools.repeat(pytree.LeafSpec()), leaves)
