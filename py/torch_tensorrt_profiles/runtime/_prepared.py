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
    """What a block says, in the C++ library's keeping."""

    def __init__(self, program: Any, profile: Any, fallback: bool) -> None:
        engines, indices, others = select(program, profile)
        self.number = torch.ops.tensorrt._prepare_profile_scope.default(engines, indices, others, fallback)
        self.can_be_kept = bool(engines)
        weakref.finalize(self, _forget, self.number).atexit = False


def _forget(number: int) -> None:
    with contextlib.suppress(RuntimeError):  # the library was deactivated since
        torch.ops.tensorrt._forget_profile_scope.default(number)


class _Program:
    """The scopes of one program. Keeps neither it nor its engines alive."""

    def __init__(self, checks: list[_Check]) -> None:
        self.checks = checks
        self.scopes: dict[Any, PreparedScope] = {}


_programs: weakref.WeakKeyDictionary[Any, _Program] = weakref.WeakKeyDictionary()


def prepared_scope(program: Any, profile: Any, fallback: bool) -> PreparedScope:
    """The scope of a selection; from the second time on it is looked up. Raises what :func:`select` raises."""
    key = (type(profile), profile, fallback)
    try:
        known = _programs.get(program)
        scope = None if known is None else known.scopes.get(key)
    except TypeError:  # a program or a profile that cannot be hashed
        return PreparedScope(program, profile, fallback)
    if known is not None and not all(check() for check in known.checks):
        known = scope = None
    if scope is not None:
        return scope
    scope = PreparedScope(program, profile, fallback)
    if known is None and scope.can_be_kept:
        checks = _checks(program)
        if checks is not None:
            known = _programs[program] = _Program(checks)
    if known is not None and scope.can_be_kept:
        known.scopes[key] = scope
    return scope


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
