"""Small exported programs that the tests of this directory share, and leave as they are."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.export import Dim, ExportedProgram, export


class Decoder(torch.nn.Module):
    """Token inputs of one sequence length, and a cache of fixed size."""

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        return (input_ids + position_ids).to(torch.float32).unsqueeze(-1) * cache.sum(1, keepdim=True)


class Nested(torch.nn.Module):
    def forward(self, batch: Any, scale: int, *, mask: torch.Tensor, tag: Any = None) -> torch.Tensor:
        return (batch["ids"][0] + batch["ids"][1]) * scale * mask


class Concat(torch.nn.Module):
    """Three extents of which the last is the sum of the others."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return torch.cat([a, b]) + c


class Repeat(torch.nn.Module):
    """The second extent is twice the first."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.repeat(2) + b


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@cache
def decoder(low: int = 1, high: int | None = 2048) -> ExportedProgram:
    seq = Dim("seq", min=low, max=high)
    ids = torch.zeros(1, 16, dtype=torch.int64)
    shapes = {"input_ids": {1: seq}, "position_ids": {1: seq}, "cache": None}
    return export(Decoder(), (ids, ids, torch.zeros(1, 8, 4)), dynamic_shapes=shapes)


@cache
def nested() -> ExportedProgram:
    batch, seq = Dim("batch", max=8), Dim("seq", max=128)
    x = torch.zeros(2, 16)
    axes = {0: batch, 1: seq}
    return export(
        Nested(),
        ({"ids": [x, x]}, 3),
        kwargs={"mask": x, "tag": None},
        dynamic_shapes={"batch": {"ids": [axes, axes]}, "scale": None, "mask": axes, "tag": None},
    )


def double(*dims: Any, extent: int = 8) -> ExportedProgram:
    """One input ``x``, of ``extent`` on every axis that has a dimension and of four on the others (None)."""
    shape = [4 if dim is None else extent for dim in dims]
    dynamic = {axis: dim for axis, dim in enumerate(dims) if dim is not None}
    return export(Double(), (torch.zeros(shape),), dynamic_shapes={"x": dynamic} if dynamic else None)


@cache
def concat() -> ExportedProgram:
    auto = {0: Dim.AUTO(max=64)}
    examples = (torch.zeros(3), torch.zeros(4), torch.zeros(7))
    return export(Concat(), examples, dynamic_shapes={"a": auto, "b": auto, "c": {0: Dim.AUTO}})


class Flatten(torch.nn.Module):
    """The extent of the second input is the product of those of the first."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.reshape(-1) + b


@cache
def flatten() -> ExportedProgram:
    auto = Dim.AUTO(max=64)
    return export(Flatten(), (torch.zeros(3, 4), torch.zeros(12)), dynamic_shapes={"a": (auto, auto), "b": (Dim.AUTO,)})


@cache
def repeat(low: int = 1, high: int = 32) -> ExportedProgram:
    size = Dim("size", min=low, max=high)
    return export(Repeat(), (torch.zeros(3), torch.zeros(6)), dynamic_shapes={"a": {0: size}, "b": {0: 2 * size}})
