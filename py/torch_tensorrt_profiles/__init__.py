"""Named optimization profiles and process-wide engine profiling for Torch-TensorRT.

Installed beside Torch-TensorRT, ``import torch_tensorrt`` alone brings everything. Importing this package is needed
only where torch does not load its backend extensions (``TORCH_DEVICE_BACKEND_AUTOLOAD=0``), and for :func:`activate`
and :func:`deactivate`. It is imported at the end of ``import torch``, so it imports nothing heavy itself.
"""

from __future__ import annotations

import os
from typing import Any

from torch_tensorrt_profiles import _activate
from torch_tensorrt_profiles._activate import ActivationError, activate, deactivate, is_active
from torch_tensorrt_profiles._version import __version__

__all__ = [
    "ActivationError",
    "OptimizationProfile",
    "__version__",
    "activate",
    "cmake_prefix_path",
    "deactivate",
    "is_active",
]

#: Where CMake finds ``find_package(torch_tensorrt_profiles)``: for ``-DCMAKE_PREFIX_PATH``.
cmake_prefix_path = os.path.join(os.path.dirname(__file__), "share", "cmake")


def __getattr__(name: str) -> Any:
    if name == "OptimizationProfile":
        from torch_tensorrt_profiles.dynamo import OptimizationProfile

        return OptimizationProfile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_activate.on_import()
