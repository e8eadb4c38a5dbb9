"""The names that ``torch_tensorrt.runtime`` gains."""

from __future__ import annotations

from types import ModuleType

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.runtime._context_per_profile import context_per_profile
from torch_tensorrt_profiles.runtime._explain import explain
from torch_tensorrt_profiles.runtime._inspect import optimization_profiles, profile_names
from torch_tensorrt_profiles.runtime._profiling import get_profiling, profile_execution, set_profiling


def graft(module: ModuleType, patches: Patches) -> None:
    for added in (
        profile_names,
        optimization_profiles,
        explain,
        context_per_profile,
        profile_execution,
        set_profiling,
        get_profiling,
    ):
        patches(module, added.__name__, added)
