"""Small models for the snippets of the documentation. Weights are random, and engines take a second to build."""

from __future__ import annotations

from typing import Any

import torch
import torch_tensorrt
from programs import device
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch_tensorrt.dynamo import OptimizationProfile

VOCABULARY = 64


class LanguageModel(nn.Module):
    """``(input_ids [B, seq], position_ids [B, seq]) -> logits [B, seq, vocabulary]``."""

    def __init__(self, width: int = 16, positions: int = 2048) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(positions, width)
        self.inner, self.head = nn.Linear(width, width), nn.Linear(width, VOCABULARY)

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        hidden = self.tokens(input_ids) + self.positions(position_ids)
        return self.head(torch.relu(self.inner(hidden)))


def on_device(model: nn.Module) -> nn.Module:
    return model.eval().requires_grad_(False).to(device())


def export_language_model(longest: int = 2048) -> ExportedProgram:
    torch.manual_seed(0)
    seq = Dim("seq", min=1, max=longest)
    ids = torch.zeros(1, 8, dtype=torch.int64, device=device())
    return torch.export.export(
        on_device(LanguageModel(positions=longest)), (ids, ids.clone()), dynamic_shapes=({1: seq}, {1: seq})
    )


def tokens(count: int) -> tuple[Tensor, Tensor]:
    """Token ids and their positions, ``[1, count]`` each."""
    ids = torch.randint(VOCABULARY, (1, count), device=device())
    return ids, torch.arange(count, device=device())[None]


def compile_language_model(longest: int = 2048, **options: Any) -> Any:
    """With the profiles "prefill" and "decode"."""
    return torch_tensorrt.dynamo.compile(
        export_language_model(longest),
        optimization_profiles=[
            OptimizationProfile("prefill", {"input_ids": {1: (2, longest // 2, longest)}}),
            OptimizationProfile("decode", {"input_ids": {1: 1}}),
        ],
        **options,
    )


def package_inputs(longest: int = 2048) -> list[Any]:
    """What an AOTInductor package of the language model takes."""
    return [
        torch_tensorrt.Input(
            min_shape=(1, 1),
            opt_shape=(1, 16),
            max_shape=(1, longest),
            dtype=torch.int64,
            name=name,
            shared_dims={1: "seq"},
        )
        for name in ("input_ids", "position_ids")
    ]
