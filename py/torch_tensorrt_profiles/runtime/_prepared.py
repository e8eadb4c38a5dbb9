"""Scopes that the C++ library keeps ready, for as long as a program is made of the same engines.

Looking through a program and handing its engines to C++ costs tens of microseconds, and a decode loop enters a block at
every step. What runs at every step is written for speed: loops instead of closures, no generators.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import weakref
from typing import Any

import torch

from torch_tensorrt_profiles._library import scope_functions
from torch_tensorrt_profiles.dynamo._optimization_profile import is_integer
from torch_tensorrt_profiles.runtime._engines import may_be_compiled_again
from torch_tensorrt_profiles.runtime._selection import select


class PreparedScope:
    """What a block says, in the C++ library's keeping.

    Attributes:
        number: the C++ library's name for it.
        open: opens it on the calling thread, and returns the token that ``close`` takes; 0 if it could not.
        close: ends what was opened; returns what is wrong, if anything.
        has_engines: whether the program has engines to select on now.
        may_be_compiled_again: whether the program may have others before the block ends.
    """

    __slots__ = ("__weakref__", "close", "has_engines", "may_be_compiled_again", "number", "open")

    def __init__(self, program: Any, profile: Any, fallback: bool) -> None:
        engines, indices, others = select(program, profile)
        self.number = int(torch.ops.tensorrt._prepare_profile_scope.default(engines, indices, others, fallback))
        push, self.close = scope_functions()
        self.open = functools.partial(push, self.number)
        self.has_engines = bool(engines)
        self.may_be_compiled_again = may_be_compiled_again(program)
        weakref.finalize(self, _forget, self.number).atexit = False


def _forget(number: int) -> None:
    with contextlib.suppress(RuntimeError):  # the library was deactivated since
        torch.ops.tensorrt._forget_profile_scope.default(number)


class _Program:
    """The scopes of one program, and what it is made of. Keeps neither it nor its engines alive."""

    __slots__ = ("held", "parents", "reference", "scopes")

    def __init__(self, program: Any) -> None:
        # By identity: a WeakKeyDictionary would compare, and takes several times as long.
        number = id(program)
        self.reference = weakref.ref(program, lambda _: _programs.pop(number, None))
        self.parents: list[tuple[weakref.ref[Any], tuple[int, ...]]] = []  # modules, with the identities of their parts
        self.held: list[tuple[weakref.ref[Any], str, weakref.ref[Any]]] = []  # owner, attribute, value
        self.scopes: dict[tuple[str | int | None, bool], PreparedScope] = {}

    def hold(self, owner: Any, attribute: str) -> None:
        self.held.append((weakref.ref(owner), attribute, weakref.ref(vars(owner)[attribute])))

    def is_still(self, program: Any) -> bool:
        """Whether ``program`` is the one that this was made of, with the same modules and engines."""
        if self.reference() is not program:
            return False
        for owner_reference, attribute, value_reference in self.held:
            owner, value = owner_reference(), value_reference()
            if owner is None or value is None or owner.__dict__.get(attribute) is not value:
                return False
        for parent_reference, parts in self.parents:
            parent = parent_reference()
            if parent is None or tuple(map(id, parent._modules.values())) != parts:
                return False
        return True


_programs: dict[int, _Program] = {}


def prepared_scope(program: Any, profile: Any, fallback: bool) -> PreparedScope:
    """The scope of a selection; from the second time on it is looked up. Raises what :func:`select` raises."""
    if profile.__class__ not in _REMEMBERED and is_integer(profile):
        profile = operator.index(profile)  # of NumPy, say
    known = _programs.get(id(program))
    if known is not None and not known.is_still(program):
        known = None
    may_be_remembered = profile.__class__ in _REMEMBERED
    if known is not None and may_be_remembered:
        scope = known.scopes.get((profile, fallback))
        if scope is not None:
            return scope
    scope = PreparedScope(program, profile, fallback)
    if scope.has_engines and may_be_remembered:
        known = known or _remembered(program)
        if known is not None:
            known.scopes[profile, fallback] = scope
    return scope


#: What selections are looked up by: no bool, which equals an integer, and nothing that cannot be hashed.
_REMEMBERED = (str, int, type(None))


def _remembered(program: Any) -> _Program | None:
    """What the program is made of; None for a form that gives out its engines anew each time."""
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    root = program.gm if may_be_compiled_again(program) else program
    if not isinstance(root, torch.nn.Module):
        return None
    known = _Program(program)
    if root is not program:
        known.hold(program, "gm")
    for module in root.modules():
        if isinstance(module, torch.jit.ScriptModule):
            return None
        if module._modules:
            known.parents.append((weakref.ref(module), tuple(map(id, module._modules.values()))))
        if isinstance(module, TorchTensorRTModule):
            known.hold(module, "engine")
        else:
            for name, value in vars(module).items():
                if isinstance(value, torch.ScriptObject):
                    known.hold(module, name)
    _programs[id(program)] = known
    return known
