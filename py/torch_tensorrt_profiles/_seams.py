"""Where Torch-TensorRT is extended: the module that defines each seam, and our functions that graft it.

A graft is called once as ``graft(module, patches)``, right after ``module`` has run, and changes it only through
``patches(owner, attribute, value)`` (see :mod:`torch_tensorrt_profiles._patching`).
"""

from __future__ import annotations

_DYNAMO = "torch_tensorrt_profiles.dynamo."
_RUNTIME = "torch_tensorrt_profiles.runtime."

SEAMS: dict[str, tuple[str, ...]] = {
    "torch_tensorrt._Input": (_DYNAMO + "_input_graft:graft",),
    "torch_tensorrt._compile": (
        _DYNAMO + "_front_end:graft",
        _DYNAMO + "_gpuless:graft_save_and_load",
    ),
    "torch_tensorrt.dynamo": (_DYNAMO + "_names:graft_dynamo",),
    "torch_tensorrt.dynamo._compiler": (
        _DYNAMO + "_gpuless:graft_device",
        _DYNAMO + "_build:graft_compiler_log",
        _DYNAMO + "_compile:graft",
    ),
    "torch_tensorrt.dynamo._settings": (_DYNAMO + "_refusals:graft_settings",),
    "torch_tensorrt.dynamo._tracer": (_DYNAMO + "_gpuless:graft_device",),
    "torch_tensorrt.dynamo.utils": (
        _DYNAMO + "_build:graft_dynamo_utils",
        _DYNAMO + "_refusals:graft_dynamo_utils",
    ),
    "torch_tensorrt.dynamo.lowering.passes._aten_lowering_pass": (_DYNAMO + "_build:graft_lowering",),
    "torch_tensorrt.dynamo.partitioning.common": (_DYNAMO + "_build:graft_partitioning_common",),
    "torch_tensorrt.dynamo.conversion._conversion": (
        _DYNAMO + "_build:graft_conversion",
        _DYNAMO + "_plan_cache:graft",
    ),
    "torch_tensorrt.dynamo.conversion._TRTInterpreter": (_DYNAMO + "_gpuless:graft_interpreter",),
    "torch_tensorrt.dynamo.runtime._TorchTensorRTModule": (
        _DYNAMO + "_gpuless:graft_module",
        _RUNTIME + "_module:graft",
    ),
    "torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule": (
        _DYNAMO + "_gpuless:graft_mutable_module",
        _RUNTIME + "_mutable_module:graft",
    ),
    "torch_tensorrt.dynamo.runtime._CudaGraphsTorchTensorRTModule": (_RUNTIME + "_cuda_graphs:graft_wrapper",),
    "torch_tensorrt.dynamo.runtime.meta_ops.register_meta_ops": (_DYNAMO + "_gpuless:graft_placeholder_op",),
    "torch_tensorrt.runtime": ("torch_tensorrt_profiles._library:graft", _RUNTIME + "_public:graft"),
    "torch_tensorrt.runtime._runtime_config": (_RUNTIME + "_runtime_settings:graft_config",),
    "torch_tensorrt.runtime._runtime_cache": (_RUNTIME + "_runtime_settings:graft_cache",),
    "torch_tensorrt.runtime._cudagraphs": (_RUNTIME + "_cuda_graphs:graft_context",),
    "torch_tensorrt.runtime._optimization_profile": (_RUNTIME + "_optimization_profile:graft",),
    "torch_tensorrt.ts._compiler": (_DYNAMO + "_refusals:graft_torchscript",),
}
