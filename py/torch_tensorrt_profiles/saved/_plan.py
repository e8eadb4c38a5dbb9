"""What TensorRT itself tells of an engine. It has to deserialize it for that, which needs a GPU."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass

#: (min, opt, max), each a list of extents.
ShapeRange = tuple[list[int], list[int], list[int]]


#: Where TensorRT's name of a data type is not torch's.
_TORCH_NAMES = {"FLOAT": "float32", "HALF": "float16", "BF16": "bfloat16", "FP8": "float8_e4m3fn"}


class PlanError(RuntimeError):
    """TensorRT does not read the engine on this host."""


@dataclass(frozen=True)
class PlanFacts:
    """An engine as TensorRT sees it.

    Attributes:
        dtypes: by binding.
        ranges: per profile, of each input whose shape is known to the engine.
        memory_bytes: per profile, what an execution context takes for activations on the GPU.
        layers: how many layers TensorRT made of the network.
        refittable: whether its weights can be changed.
    """

    dtypes: dict[str, str]
    ranges: list[dict[str, ShapeRange]]
    memory_bytes: list[int]
    layers: int
    refittable: bool
    tensorrt: str


def facts_of(plan: bytes) -> PlanFacts:
    """Deserializes an engine and asks it.

    Raises:
        PlanError: there is no GPU, no TensorRT, or the engine is of another version or damaged.
    """
    import torch

    if not torch.cuda.is_available():
        raise PlanError("this host has no GPU")
    try:
        importlib.import_module("torch_tensorrt")  # which makes TensorRT-RTX importable as tensorrt
        trt = importlib.import_module("tensorrt")
    except ImportError as error:
        raise PlanError(f"TensorRT is not importable: {error}") from None
    with torch.cuda.device(torch.cuda.current_device()):
        engine = trt.Runtime(trt.Logger(trt.Logger.ERROR)).deserialize_cuda_engine(plan)
        if engine is None:
            reader = f"{trt.__name__} {trt.__version__} on {torch.cuda.get_device_name()}"
            raise PlanError(f"{reader} does not read it: it was built for another GPU or version, or is damaged")
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        inputs = [
            name
            for name in names
            if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT and not engine.is_shape_inference_io(name)
        ]
        profiles = range(engine.num_optimization_profiles)
        return PlanFacts(
            dtypes={name: _dtype(engine.get_tensor_dtype(name)) for name in names},
            ranges=[{name: _range(engine.get_tensor_profile_shape(name, i)) for name in inputs} for i in profiles],
            memory_bytes=[int(engine.get_device_memory_size_for_profile_v2(i)) for i in profiles],
            layers=int(engine.num_layers),
            refittable=bool(engine.refittable),
            tensorrt=f"{trt.__name__} {trt.__version__}",
        )


def _dtype(dtype: object) -> str:
    name = str(dtype).rpartition(".")[2]
    return _TORCH_NAMES.get(name, name.lower())


def _range(shapes: Iterable[Iterable[int]]) -> ShapeRange:
    low, opt, high = ([int(extent) for extent in shape] for shape in shapes)
    return low, opt, high
