"""Activation: how ``import torch_tensorrt`` alone comes to bring named profiles and process-wide profiling.

torch calls :func:`torch_backend_entry_point` at the end of ``import torch`` (entry point group ``torch.backends``). It
puts a finder on ``sys.meta_path`` and returns. The finder wraps the loading of *submodules* of torch_tensorrt, and each
seam is grafted in the module that defines it, right after that module has run, so that every re-export picks it up.
torch_tensorrt itself imports torch before anything else, so it is half imported when the finder arrives.

Standard library only, and nothing here may raise into ``import torch``: an exception there breaks it for every program.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import logging
import os
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles._version import SUPPORTED_SERIES, __version__, in_supported_series

PACKAGE = "torch_tensorrt"
#: Set to 0 to leave Torch-TensorRT exactly as it is.
SWITCH = "TORCHTRT_PROFILES"


class ActivationError(RuntimeError):
    """Torch-TensorRT could not be extended; the message says what was found, what is needed and what to do."""


class _Activation:
    """What has been done in this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.patches = Patches(PACKAGE)
        self.finder: _Finder | None = None
        self.grafted: set[str] = set()
        self.refusal: str | None = None


_activation = _Activation()


def switched_off(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment variable ``TORCHTRT_PROFILES`` is 0."""
    return environment.get(SWITCH, "1").strip().lower() in ("0", "false", "off")


def torch_backend_entry_point() -> None:
    """Called by torch at the end of ``import torch``. Never raises."""
    on_import()


def on_import() -> None:
    """Activates if that is possible, silently waits if Torch-TensorRT is not imported yet. Never raises."""
    try:
        if not switched_off():
            _install()
    except Exception as error:
        _refuse(f"torch-tensorrt-profiles {__version__} could not be activated: {error!r}")


def activate() -> None:
    """Activates now, importing Torch-TensorRT if need be. Idempotent.

    Raises:
        ActivationError: switched off by environment, Torch-TensorRT absent or of another version, or a graft failed.
    """
    if switched_off():
        raise ActivationError(
            f"torch-tensorrt-profiles is switched off by {SWITCH}={os.environ[SWITCH]} in the environment; unset it."
        )
    with _activation.lock:
        _activation.refusal = None
        _install()
    try:
        importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        raise ActivationError(
            f"Torch-TensorRT is not installed: torch-tensorrt-profiles {__version__} extends torch-tensorrt or "
            f"torch-tensorrt-rtx {SUPPORTED_SERIES}.x. Install it with: pip install 'torch-tensorrt-profiles[rtx]'"
        ) from None
    if _activation.refusal is not None:
        raise ActivationError(_activation.refusal)


def deactivate() -> None:
    """Leaves Torch-TensorRT as it was before activation: grafts, finder, operators and kernels are all taken back."""
    with _activation.lock:
        if _activation.finder in sys.meta_path:
            sys.meta_path.remove(_activation.finder)
        _activation.finder = None
        _activation.patches.undo()
        _activation.grafted.clear()


def is_active() -> bool:
    """Whether Torch-TensorRT is imported and carries our grafts."""
    return bool(_activation.grafted) and PACKAGE in sys.modules


def refusal() -> str | None:
    """Why activation was refused in this process, or None."""
    return _activation.refusal


def _install() -> None:
    with _activation.lock:
        if _activation.finder is None and _activation.refusal is None:
            _activation.finder = _Finder()
            sys.meta_path.insert(0, _activation.finder)
        package = sys.modules.get(PACKAGE)
        if package is None or _activation.refusal is not None or _is_initializing(package):
            return
        found = getattr(package, "__version__", None)
        if found is not None and _version_is_right(found):
            _graft_loaded_modules()


def _is_initializing(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


def _version_is_right(torch_tensorrt_version: str) -> bool:
    torch_version = str(sys.modules["torch"].__version__) if "torch" in sys.modules else SUPPORTED_SERIES
    if in_supported_series(torch_tensorrt_version) and in_supported_series(torch_version):
        return True
    _refuse(
        f"torch-tensorrt-profiles {__version__} extends torch {SUPPORTED_SERIES}.x with Torch-TensorRT "
        f"{SUPPORTED_SERIES}.x; found torch {torch_version} with Torch-TensorRT {torch_tensorrt_version}, which is "
        f"left as it is. Install a matching pair, or another version of torch-tensorrt-profiles."
    )
    return False


def _refuse(reason: str) -> None:
    """Takes everything back and says once why."""
    deactivate()
    _activation.refusal = reason
    if getattr(warnings.showwarning, "__module__", "") == "logging":
        # Torch-TensorRT has warnings captured by logging while it is imported, where nobody would see this one.
        _log(reason)
        return
    try:
        warnings.warn(reason, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:  # python -W error: Torch-TensorRT has to go on working as stock all the same
        _log(reason)


def _log(reason: str) -> None:
    logging.getLogger("torch_tensorrt_profiles").warning(reason)


def _graft(module: ModuleType) -> bool:
    """Grafts a module, if it is a seam. False, and everything taken back, if that failed."""
    from torch_tensorrt_profiles._seams import SEAMS

    name = module.__name__
    with _activation.lock:
        if name not in SEAMS or name in _activation.grafted:
            return True
        _activation.grafted.add(name)
        try:
            for path in SEAMS[name]:
                graft_module, _, function = path.partition(":")
                getattr(importlib.import_module(graft_module), function)(module, _activation.patches)
        except Exception as error:
            _refuse(f"torch-tensorrt-profiles {__version__} could not extend {name}: {error!r}")
            return False
    return True


def _graft_loaded_modules() -> None:
    """Activation after Torch-TensorRT: the same grafts, and every reference taken before is pointed at them."""
    from torch_tensorrt_profiles._seams import SEAMS

    for name in SEAMS:
        module = sys.modules.get(name)
        if module is not None and not _graft(module):
            return
    _activation.patches.rebind_references()


class _Finder(importlib.abc.MetaPathFinder):
    """Finds submodules of torch_tensorrt by asking everybody else, and has :class:`_Loader` load them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(PACKAGE + "."):
            return None
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    """Runs a module with its own loader, on a host without a GPU with stand-ins lent, and grafts it afterwards."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        # runpy, inspect and importlib.resources ask a spec's loader for code, source and data.
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The original loader goes back first: readers of source and resources look for it on the module.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        if _activation.finder is None:
            self._inner.exec_module(module)
            return

        from torch_tensorrt_profiles._stand_ins import cuda_questions_answered

        with cuda_questions_answered():
            self._inner.exec_module(module)
        if module.__name__ == PACKAGE + "._version" and not _version_is_right(module.__version__):
            return
        if _activation.finder is not None:  # a module that was being imported while activation was refused
            _activation.grafted.discard(module.__name__)  # it may be loaded again, by importlib.reload
            _graft(module)
