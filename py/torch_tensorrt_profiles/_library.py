"""Loading and switching the C++ library. It registers nothing by being loaded, so every failure is a Python error."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from torch_tensorrt_profiles._patching import Patches

LIBRARY = Path(__file__).parent / "lib" / "libtorchtrt_profiles.so"


class LibraryError(RuntimeError):
    """The C++ library is missing, does not load, or refused to activate."""


@functools.cache
def _loaded() -> ctypes.CDLL:
    if not LIBRARY.is_file():
        raise LibraryError(
            f"{LIBRARY.name} is not in {LIBRARY.parent}; install torch-tensorrt-profiles again, from a checkout with: "
            f"pip install --no-build-isolation ."
        )
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise LibraryError(
            f"{LIBRARY} does not load ({error}); it was built against another torch. Install "
            f"torch-tensorrt-profiles again."
        ) from error
    for name in ("torchtrt_profiles_activate", "torchtrt_profiles_deactivate"):
        getattr(library, name).restype = ctypes.c_char_p
    return library


@functools.cache
def scope_functions() -> tuple[Callable[[int], int], Callable[[int], bytes | None]]:
    """``push`` and ``pop`` of ``core/runtime/c_api.h``. They keep the GIL: letting go of it would take longer."""
    library = ctypes.PyDLL(str(LIBRARY))
    push, pop = library.torchtrt_profiles_push_scope, library.torchtrt_profiles_pop_scope
    push.argtypes, push.restype = [ctypes.c_int64], ctypes.c_int64
    pop.argtypes, pop.restype = [ctypes.c_int64], ctypes.c_char_p
    return push, pop


def activate() -> None:
    """Registers our operators and our kernel for ``tensorrt::execute_engine``. Idempotent.

    Raises:
        LibraryError: the library cannot be loaded, or refuses; nothing is registered then.
    """
    _check(_loaded().torchtrt_profiles_activate())


def deactivate() -> None:
    """Drops all kernels: our operators raise from then on, and engines go on working as stock's."""
    if _loaded.cache_info().currsize:
        _check(_loaded().torchtrt_profiles_deactivate())


def _check(message: bytes | None) -> None:
    if message is not None:
        raise LibraryError(message.decode(errors="replace"))


def graft(module: ModuleType, patches: Patches) -> None:
    del module  # grafted where Torch-TensorRT has just loaded its own library
    activate()
    patches.on_undo(deactivate)
