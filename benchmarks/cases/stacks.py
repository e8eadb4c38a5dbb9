"""Small programs for the cases that are about calls, not about kernels: stacks of linear layers, half precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

#: Smallest, optimum and largest number of rows of a profile.
Range = tuple[int, int, int]


def export_stack(layers: int, width: int, rows: int, device: str) -> torch.export.ExportedProgram:
    """``(x [n, width]) -> [n, width]`` for 1 to ``rows`` rows."""
    torch.manual_seed(0)
    dtype = torch.float16 if device == "cuda" else torch.float32
    parts = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(layers)]
    model = torch.nn.Sequential(*parts).eval().to(device, dtype).requires_grad_(False)
    example = torch.zeros(min(8, rows), width, dtype=dtype, device=device)
    return torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=rows)},))


def compile_stack(
    exported: torch.export.ExportedProgram, ranges: Sequence[Range], strategy: str, graphs: bool = False
) -> Any:
    """With a profile for each range, named ``p0``, ``p1`` and so on."""
    import torch_tensorrt
    from torch_tensorrt.dynamo import OptimizationProfile

    (name,) = exported.graph_signature.user_inputs
    profiles = [OptimizationProfile(f"p{number}", {name: {0: rows}}) for number, rows in enumerate(ranges)]
    program = torch_tensorrt.dynamo.compile(exported, optimization_profiles=profiles, min_block_size=1)
    torch_tensorrt.runtime.set_cudagraphs_mode(graphs)
    module_of(program).runtime_settings = torch_tensorrt.runtime.RuntimeSettings(
        dynamic_shapes_kernel_specialization_strategy=strategy,
        cuda_graph_strategy="whole_graph_capture" if graphs else "disabled",
        runtime_cache=None,
    )
    return program


def module_of(program: Any) -> Any:
    """The TorchTensorRTModule of a program with one engine."""
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    (module,) = [part for part in program.modules() if isinstance(part, TorchTensorRTModule)]
    return module
