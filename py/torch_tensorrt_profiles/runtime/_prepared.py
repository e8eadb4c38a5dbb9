"""Scopes that the C++ library keeps ready, for as long as a program is made of the same engines.

Looking through a program and handing its engines to C++ costs tens of microseconds, and a decode loop enters a block at
every step.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from typing import Any

import torch

from torch_tensorrt_profiles.runtime._selection import select

#: Answers whether a program still is what it was.
_Check = Callable[[], bool]


class PreparedScope:
    """What a block says, in the C++ library's keeping.

    Attributes:
        number: the C++ library's name for it.
        has_engines: whether the program has engines to select on now.
        may_be_compiled_again: whether the program may have others before the block ends.
    """

    __slots__ = ("__weakref__", "has_engines", "may_be_compiled_again", "number")

    def __init__(self, program: Any, profile: Any, fallback: bool) -> None:
        from torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule import MutableTorchTensorRTModule

        engines, indices, others = select(program, profile)
        self.number = int(torch.ops.tensorrt._prepare_profile_scope.default(engines, indices, others, fallback))
        self.has_engines = bool(engines)
        self.may_be_compiled_again = isinstance(program, MutableTorchTensorRTModule)
        weakref.finalize(self, _forget, self.number).atexit = False


def _forget(number: int) -> None:
    with contextlib.suppress(RuntimeError):  # the library was deactivated since
        torch.ops.tensorrt._forget_profile_scope.default(number)


class _Program:
    """The scopes of one program. Keeps neither it nor its engines alive."""

    __slots__ = ("checks", "reference", "scopes")

    def __init__(self, program: Any, checks: list[_Check]) -> None:
        # By identity: a WeakKeyDictionary would compare, and takes several times as long.
        number = id(program)
        self.reference = weakref.ref(program, lambda _: _programs.pop(number, None))
        self.checks = checks
        self.scopes: dict[Any, PreparedScope] = {}


_programs: dict[int, _Program] = {}


def prepared_scope(program: Any, profile: Any, fallback: bool) -> PreparedScope:
    """The scope of a selection; from the second time on it is looked up. Raises what :func:`select` raises."""
    known = _programs.get(id(program))
    if known is not None:
        if known.reference() is program and all(check() for check in known.checks):
            scope = known.scopes.get((profile.__class__, profile, fallback)) if _is_hashable(profile) else None
            if scope is not None:
                return scope
        else:
            known = None
    scope = PreparedScope(program, profile, fallback)
    if scope.has_engines:
        known = known or _remember(program)
        if known is not None:
            known.scopes[profile.__class__, profile, fallback] = scope
    return scope


def _is_hashable(profile: Any) -> bool:
    return profile.__class__ in (str, int) or profile is None


def _remember(program: Any) -> _Program | None:
    checks = _checks(program)
    if checks is None:
        return None
    known = _programs[id(program)] = _Program(program, checks)
    return known


def _checks(program: Any) -> list[_Check] | None:
    """What has to hold for the program to be unchanged; None for a form that gives out its engines anew each time."""
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
    from torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule import MutableTorchTensorRTModule

    checks: list[_Check] = []
    if isinstance(program, MutableTorchTensorRTModule):
        checks.append(_holds(program, "gm"))
        program = program.gm
    if not isinstance(program, torch.nn.Module) or isinstance(program, torch.jit.ScriptModule):
        return None
    for module in program.modules():
        if isinstance(module, torch.jit.ScriptModule):
            return None
        if module._modules:
            checks.append(_has_children(module))
        if isinstance(module, TorchTensorRTModule):
            checks.append(_holds(module, "engine"))
        else:
            checks.extend(
                _holds(module, name) for name, value in vars(module).items() if isinstance(value, torch.ScriptObject)
            )
    return checks


def _holds(owner: Any, attribute: str) -> _Check:
    owner_reference = weakref.ref(owner)
    value_reference = weakref.ref(vars(owner)[attribute])

    def check() -> bool:
        held = owner_reference()
        value = value_reference()
        return held is not None and value is not None and vars(held).get(attribute) is value

    return check


def _has_children(module: Any) -> _Check:
    reference = weakref.ref(module)
    children = tuple(map(id, module._modules.values()))

    def check() -> bool:
        held = reference()
        return held is not None and tuple(map(id, held._modules.values())) == children

    return check
