"""A decode-only engine that TensorRT-RTX's own parser builds from ONNX, run without Torch-TensorRT."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cases.contenders import Contender
from cases.decoders import Decoder
from cases.names import ONNX


def export_onnx(decoder: Decoder, path: Path) -> None:
    """The decoder for calls of one token, every shape fixed.

    Raises:
        ImportError: ``onnx`` or ``onnxscript`` is not installed.
    """
    import onnx  # noqa: F401, a clear error where it is missing
    import onnxscript  # noqa: F401

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            decoder.module, decoder.inputs(1), str(path), dynamo=True, external_data=True, verbose=False, optimize=True
        )


def parse_and_build(path: Path) -> bytes:
    """The plan.

    Raises:
        RuntimeError: the parser or the builder refuses, with what the parser says.
    """
    import tensorrt as trt

    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(path)):
        raise RuntimeError("; ".join(str(parser.get_error(number)) for number in range(parser.num_errors)))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    if plan is None:
        raise RuntimeError("TensorRT built no engine from the ONNX model")
    return bytes(plan)


class OnnxEngine(Contender):
    """Runs in an execution context of its own, on the current stream, into outputs that are allocated once."""

    name = ONNX
    phases = ("decode",)

    def __init__(self, decoder: Decoder) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "decode.onnx"
            start = time.perf_counter()
            export_onnx(decoder, path)
            exported = time.perf_counter()
            self._plan = parse_and_build(path)
        self.export_seconds = round(exported - start, 2)
        self.build_seconds = round(time.perf_counter() - exported, 2)
        self.context: Any = None

    def start(self, strategy: str, graphs: bool) -> None:
        import tensorrt as trt

        self.stop()
        self._runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        self._engine = self._runtime.deserialize_cuda_engine(self._plan)
        if self._engine is None:
            raise RuntimeError("TensorRT could not load the engine from ONNX; it needs a GPU")
        config = self._engine.create_runtime_config()
        config.dynamic_shapes_kernel_specialization_strategy = getattr(
            trt.DynamicShapesKernelSpecializationStrategy, strategy.upper()
        )
        config.cuda_graph_strategy = (
            trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE if graphs else trt.CudaGraphStrategy.DISABLED
        )
        self.context = self._engine.create_execution_context(config)
        names = [self._engine.get_tensor_name(number) for number in range(self._engine.num_io_tensors)]
        is_input = [self._engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT for name in names]
        self._inputs = [name for name, given in zip(names, is_input, strict=True) if given]
        self.outputs: list[Tensor] = []
        dtypes = {trt.float16: torch.float16, trt.float32: torch.float32, trt.int64: torch.int64}
        for name, given in zip(names, is_input, strict=True):
            if not given:
                shape, dtype = self._engine.get_tensor_shape(name), dtypes[self._engine.get_tensor_dtype(name)]
                self.outputs.append(torch.empty(tuple(shape), dtype=dtype, device="cuda"))
                self.context.set_tensor_address(name, self.outputs[-1].data_ptr())

    def stop(self) -> None:
        self.context = self._engine = self._runtime = None
        self.outputs = []

    def call(self, phase: str, inputs: Sequence[Tensor]) -> Any:
        for name, value in zip(self._inputs, inputs, strict=True):
            self.context.set_tensor_address(name, value.data_ptr())
        if not self.context.execute_async_v3(torch.cuda.current_stream().cuda_stream):
            raise RuntimeError("TensorRT refused to run the engine from ONNX")
        return self.outputs

    def facts(self) -> dict[str, Any]:
        return {
            "contender": self.name,
            "export_seconds": self.export_seconds,
            "build_seconds": [self.build_seconds],
            "plan_bytes": [len(self._plan)],
        }
