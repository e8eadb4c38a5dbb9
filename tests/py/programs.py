"""Small programs that the tests compile."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import Dim, ExportedProgram


class TwoInputs(torch.nn.Module):
    """Token-like program: ``ids`` and ``positions`` of shape [2, seq] share their second axis."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(32, width)
        self.position = torch.nn.Embedding(512, width)
        self.linear = torch.nn.Linear(width, width)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(self.embedding(ids) + self.position(positions)))


class Broken(torch.nn.Module):
    """Two engines with a graph break between them (``sin`` is run by PyTorch); the second sees an axis of 16 * seq."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.second = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.sin(torch.relu(self.first(x)).reshape(2, -1, 1)).expand(-1, -1, 4)
        return torch.tanh(self.second(hidden))


#: Options under which :class:`Broken` breaks.
BREAK: dict[str, Any] = {"min_block_size": 1, "torch_executed_ops": {"torch.ops.aten.sin.default"}}


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def export_two_inputs(low: int = 1, high: int = 128, width: int = 16) -> ExportedProgram:
    torch.manual_seed(0)
    seq = Dim("seq", min=low, max=high)
    example = torch.zeros(2, max(low, 8), dtype=torch.int64, device=device())
    model = TwoInputs(width).eval().to(device())
    return torch.export.export(model, (example, example.clone()), dynamic_shapes=({1: seq}, {1: seq}))


def export_broken() -> ExportedProgram:
    torch.manual_seed(0)
    model = Broken().eval().to(device())
    return torch.export.export(
        model, (torch.randn(2, 8, 16, device=device()),), dynamic_shapes=({1: Dim("seq", min=1, max=64)},)
    )


def save_two_inputs_package(compiled: torch.nn.Module, path: str) -> None:
    """:class:`TwoInputs`, compiled, as an AOTInductor package. Needs a GPU."""
    import torch_tensorrt

    spec = [
        torch_tensorrt.Input(
            min_shape=(2, 1),
            opt_shape=(2, 16),
            max_shape=(2, 128),
            dtype=torch.int64,
            name=name,
            shared_dims={1: "seq"},
        )
        for name in ("ids", "positions")
    ]
    torch_tensorrt.save(compiled, path, output_format="aot_inductor", arg_inputs=spec)
