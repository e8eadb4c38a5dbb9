"""Reading pickles as plain data. Loading one runs whatever it names; here every name becomes a placeholder."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Iterator
from typing import Any, ClassVar

#: Data types of the standard library without behaviour of their own, which stay what they are.
_PLAIN = {("collections", "OrderedDict"), ("builtins", "set"), ("builtins", "frozenset"), ("builtins", "complex")}


class PickleError(ValueError):
    """The bytes are no pickle, or a damaged one."""


class Opaque:
    """Stands for an object, or (the class itself) for what a pickle names.

    Attributes:
        origin: the name in the pickle, such as ``torch.float16``.
        args: what it would have been called with.
        state: what it would have been given as its state, or None.
        items: what would have been put into it as a list or a mapping.
    """

    origin: ClassVar[str] = ""
    args: tuple[Any, ...]
    state: Any
    items: list[Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Opaque:
        opaque = super().__new__(cls)
        opaque.args, opaque.state, opaque.items = (*args, *kwargs.values()), None, []
        return opaque

    def __call__(self, *args: Any, **kwargs: Any) -> Opaque:
        return Opaque.__new__(type(self), self, *args, **kwargs)  # what a factory, such as a partial, would have made

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def append(self, value: Any) -> None:
        self.items.append(value)

    def extend(self, values: Any) -> None:
        self.items.extend(values)

    def __hash__(self) -> int:
        return id(self)


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self._known: dict[tuple[str, str], Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        if (module, name) == ("torch.jit._pickle", "restore_type_tag"):
            return _untagged
        if (module, name) == ("_codecs", "encode"):
            return _bytes_of
        if (module, name) not in self._known:
            self._known[(module, name)] = type(name, (Opaque,), {"origin": f"{module}.{name}"})
        return self._known[(module, name)]

    def persistent_load(self, pid: Any) -> Any:
        return None  # a tensor's storage


def _untagged(value: Any, tag: str) -> Any:
    """TorchScript writes lists and mappings with their type beside them."""
    del tag
    return value


def _bytes_of(text: str, encoding: str) -> bytes:
    """Pickles for Python 2, such as torch's, write bytes as a string that is to be encoded."""
    del encoding
    return text.encode("latin-1")


def read_pickle(content: bytes) -> Any:
    """What a pickle holds, with :class:`Opaque` for every object. Bytes behind its end are not looked at.

    Raises:
        PickleError: it is no pickle, or cut off, or damaged.
    """
    try:
        _check_numbers(content)
        return _Reader(content).load()
    except RecursionError:
        raise PickleError("is nested too deeply for a pickle") from None
    except Exception as error:  # a damaged pickle raises just about anything
        raise PickleError(f"is no readable pickle ({type(error).__name__}: {error})") from None


def _check_numbers(content: bytes) -> None:
    """Objects are numbered, and the Unpickler's list is as long as the largest number: a bit may ask for gigabytes."""
    for opcode, number, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and isinstance(number, int) and number > len(content):
            raise pickle.UnpicklingError(f"object {number} in {len(content)} bytes")


def walk(value: Any) -> Iterator[Any]:
    """The value and all that it holds, each object once, outermost first."""
    pending, seen = [value], set()
    while pending:
        current = pending.pop()
        if isinstance(current, str | bytes | int | float | bool | None) or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        inner: list[Any] = []
        if isinstance(current, dict):
            inner = list(current.values())
        elif isinstance(current, list | tuple | set | frozenset):
            inner = list(current)
        elif isinstance(current, Opaque):
            inner = [*current.args, current.state, *current.items]
        pending.extend(reversed(inner))


def plain(value: Any) -> Any:
    """The value as JSON can say it: placeholders become their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, type) and issubclass(value, Opaque):
        return value.origin
    if isinstance(value, dict):
        return {str(plain(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(inner) for inner in value), key=repr)
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, Opaque):
        name = type(value).__name__
        if isinstance(value.state, dict):
            return {key: plain(inner) for key, inner in value.state.items()}
        return f"{name}({', '.join(str(plain(arg)) for arg in value.args)})" if value.args else name
    return repr(value)
