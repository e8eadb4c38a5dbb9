"""TorchTensorRTModule keeps its engine's profile record through every way of saving it."""

from __future__ import annotations

import base64
import functools
from types import ModuleType
from typing import Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo import _metadata
from torch_tensorrt_profiles.dynamo._build import engine_profiles, profiles_being_built
from torch_tensorrt_profiles.runtime._bound_method import graft_bound_method
from torch_tensorrt_profiles.runtime._program_inputs import PROGRAM_INPUTS, record_of

#: Where a module keeps the record: plain data, so that stock Torch-TensorRT can unpickle the module.
RECORD = "_optimization_profiles_record"


def graft(module: ModuleType, patches: Patches) -> None:
    import torch

    from torch_tensorrt_profiles.runtime._engines import engines_of

    cls = module.TorchTensorRTModule
    metadata_index, engine_index = module.SERIALIZED_METADATA_IDX, module.ENGINE_IDX
    stock_init, stock_encode, stock_set_extra_state = cls.__init__, cls.encode_metadata, cls.set_extra_state

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        # Before stock's own: it may already pack the engine.
        being_built = engine_profiles()
        vars(self)[RECORD] = None if being_built is None else being_built.to_json()
        resolution = profiles_being_built()
        vars(self)[PROGRAM_INPUTS] = None if resolution is None else record_of(resolution)
        stock_init(self, *args, **kwargs)

    @functools.wraps(stock_encode)
    def encode_metadata(self: Any, metadata: Any) -> str:
        encoded: str = stock_encode(self, metadata)
        record = vars(self).get(RECORD)
        return encoded if record is None else _metadata.append(encoded, _metadata.EngineProfiles.from_json(record))

    @functools.wraps(stock_set_extra_state)
    def set_extra_state(self: Any, state: Any) -> None:
        # Read before anything is changed: a damaged record must leave the module as it was.
        record = None if state[1] is None else _metadata.read(state[1][metadata_index])
        stock_set_extra_state(self, state)
        if state[1] is not None:
            self.serialized_engine = base64.b64decode(state[1][engine_index])  # stock drops it and cannot save again
        vars(self)[RECORD] = None if record is None else record.to_json()
        engines_of(self)  # raises where the engine and its profile names do not belong together

    patches(cls, "__init__", init)
    patches(cls, "encode_metadata", encode_metadata)
    patches(cls, "set_extra_state", set_extra_state)
    graft_bound_method(cls, patches)
    graft_bound_method(torch.fx.GraphModule, patches)
