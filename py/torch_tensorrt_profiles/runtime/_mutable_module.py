"""MutableTorchTensorRTModule with named profiles: immutable engines, compiled again when a weight changes.

Stock insists on refittable engines, of which TensorRT allows one profile. With ``optimization_profiles=`` the module
keeps its promise (a changed weight takes effect at the next call) by recompiling.
"""

from __future__ import annotations

import functools
import logging
from types import ModuleType
from typing import Any
from weakref import WeakSet

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._refusals import KEYWORD
from torch_tensorrt_profiles.runtime._bound_method import graft_bound_method
from torch_tensorrt_profiles.runtime._context_per_profile import renew_contexts
from torch_tensorrt_profiles.runtime._cuda_graphs import rewrapped
from torch_tensorrt_profiles.runtime._optimization_profile import cover_new_engines

logger = logging.getLogger(__name__)
_told: WeakSet[Any] = WeakSet()


def graft(module: ModuleType, patches: Patches) -> None:
    cls = module.MutableTorchTensorRTModule
    stock_compile, stock_refit, stock_validate = cls.compile, cls.refit_gm, cls._validate_inputs

    @functools.wraps(stock_compile)
    def compile(self: Any) -> None:
        profiles = self.additional_settings.get(KEYWORD)
        before = vars(self).get("gm")
        if profiles is None:
            stock_compile(self)
        else:
            _compile_with_profiles(module, self, profiles)
        cover_new_engines(self)
        if profiles is not None:
            self.gm = rewrapped(before, self.gm)
        del before  # and the weights of its engines
        renew_contexts(self)

    @functools.wraps(stock_refit)
    def refit_gm(self: Any) -> None:
        if self.additional_settings.get(KEYWORD) is None:
            stock_refit(self)
            return
        if self not in _told:
            _told.add(self)
            logger.warning(
                "A weight changed: engines with several optimization profiles cannot be refitted, so the module is "
                "compiled again, now and at every later change. (Said once.)"
            )
        self.compile()

    @functools.wraps(stock_validate)
    def _validate_inputs(self: Any, *args: Any, **kwargs: Any) -> None:
        # Shapes are the profiles' business: a call with another shape is no reason to compile again.
        compiled = self.gm is not None and self.additional_settings.get(KEYWORD) is not None
        if not compiled:
            stock_validate(self, *args, **kwargs)

    patches(cls, "compile", compile)
    patches(cls, "refit_gm", refit_gm)
    patches(cls, "_validate_inputs", _validate_inputs)
    graft_bound_method(cls, patches)


def _compile_with_profiles(module: ModuleType, mutable: Any, profiles: Any) -> None:
    from torch_tensorrt_profiles.dynamo._export import export_over_profiles

    mutable.original_model.to(module.to_torch_device(mutable.trt_device))
    mutable.exp_program = export_over_profiles(
        mutable.original_model, mutable.arg_inputs, mutable.kwarg_inputs, profiles
    )
    mutable.gm = module.dynamo_compile(mutable.exp_program, **mutable.additional_settings)
    if mutable.additional_settings.get("offload_module_to_cpu", False):
        module.deallocate_module(mutable.original_model)
    if mutable.enable_weight_streaming:
        mutable.set_weight_streaming_ctx(mutable.weight_streaming_budget)
