"""The names that ``torch_tensorrt.dynamo`` gains."""

from __future__ import annotations

from types import ModuleType

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._optimization_profile import OptimizationProfile


def graft_dynamo(module: ModuleType, patches: Patches) -> None:
    patches(module, "OptimizationProfile", OptimizationProfile)
