"""Every change to another package's module or class, recorded so that it can be undone.

The only module that writes into torch or Torch-TensorRT: a graft receives a :class:`Patches` and calls it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

_MISSING: Any = object()


class _Patch(NamedTuple):
    owner: Any
    attribute: str
    original: Any
    value: Any


def _modules_of(package: str) -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and (name == package or name.startswith(package + ".")):
            yield module


class Patches:
    """The replacements made so far, in order."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._made: list[_Patch] = []
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._made)

    def __call__(self, owner: Any, attribute: str, value: Any) -> None:
        """Binds ``value`` to ``owner.attribute`` and remembers what was there (possibly nothing)."""
        with self._lock:
            # vars(), not getattr: a staticmethod or property has to come back as the object it was.
            original = vars(owner).get(attribute, _MISSING)
            setattr(owner, attribute, value)
            self._made.append(_Patch(owner, attribute, original, value))

    def on_undo(self, callback: Callable[[], object]) -> None:
        """Has ``callback`` called by :meth:`undo`, for what is no attribute, such as an operator's kernel."""
        with self._lock:
            self._callbacks.append(callback)

    def rebind_references(self) -> None:
        """Points names that were bound to an original earlier (``from m import f``) at its replacement."""
        with self._lock:
            replacements = {
                id(patch.original): patch.value
                for patch in self._made
                if isinstance(patch.owner, ModuleType) and callable(patch.original)
            }
            for module in _modules_of(self._package):
                for name, value in list(vars(module).items()):
                    latest = value
                    while id(latest) in replacements:  # an attribute may have been replaced more than once
                        latest = replacements[id(latest)]
                    if latest is not value:
                        self(module, name, latest)

    def undo(self) -> None:
        """Puts back everything that is still ours, newest first, and every reference that was taken meanwhile."""
        with self._lock:
            originals = {id(patch.value): patch.original for patch in self._made if isinstance(patch.owner, ModuleType)}
            for patch in reversed(self._made):
                # Somebody may have put a wrapper of their own over ours, or loaded the module again.
                if vars(patch.owner).get(patch.attribute, _MISSING) is patch.value:
                    _restore(patch.owner, patch.attribute, patch.original)
            for module in _modules_of(self._package):
                for name, value in list(vars(module).items()):
                    if id(value) in originals:
                        _restore(module, name, originals[id(value)])
            self._made.clear()
            while self._callbacks:
                self._callbacks.pop()()


def _restore(owner: Any, attribute: str, original: Any) -> None:
    if original is not _MISSING:
        setattr(owner, attribute, original)
    elif attribute in vars(owner):
        delattr(owner, attribute)
