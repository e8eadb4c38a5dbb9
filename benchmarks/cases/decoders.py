"""The decoders that are measured: ``reference``, ``small``, and ``tiny`` for a look without a GPU.

Each is exported once, with a dynamic number of tokens per call, and has a KV cache of a fixed size.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

EXAMPLE = Path(__file__).parents[2] / "examples" / "dynamo" / "multi_profile_llm_example.py"


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("multi_profile_llm_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load_example()


class ReferenceDecoder(nn.Module):
    """``(hidden [B, seq, width], position_ids [B, seq], *cache) -> (hidden, *new keys and values)``.

    The cache is a key and a value tensor ``[B, heads, kv_length, head_dim]`` per layer. It is only read: the caller
    writes the new keys and values ``[B, heads, seq, head_dim]`` into it, in place, so a call sees what was written
    before it. (The example's decoder, ``small`` here, takes a cache and returns a new one.)
    """

    def __init__(self, layers: int, hidden: int, heads: int, kv_length: int) -> None:
        super().__init__()
        self.heads, self.kv_length = heads, kv_length
        self.blocks = nn.ModuleList(example.Block(hidden, heads) for _ in range(layers))
        self.norm = example.RMSNorm(hidden)

    def forward(self, hidden: Tensor, position_ids: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        visible = torch.arange(self.kv_length, device=position_ids.device) <= position_ids[:, None, :, None]
        made: list[Tensor] = []
        for layer, block in enumerate(self.blocks):
            projected = block.qkv(block.attention_norm(hidden)).chunk(3, dim=-1)
            query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
            keys, values = cache[2 * layer : 2 * layer + 2]
            attended = nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=visible)
            hidden = hidden + block.out(attended.transpose(1, 2).flatten(2))
            normed = block.mlp_norm(hidden)
            hidden = hidden + block.down(nn.functional.silu(block.gate(normed)) * block.up(normed))
            made += [key, value]
        return self.norm(hidden), *made


@dataclass
class Decoder:
    """A decoder with what is needed to export and to call it.

    Attributes:
        prefill: tokens of a prefill call, the optimum of its profile.
        longest: tokens that a call may have.
        first_input: name of the input that a profile has to settle; the others follow.
        weight_bytes: weights that every call reads in full (an embedding is not one).
        cache_bytes: size of the KV cache.
        cache_passes: how often a call's memory traffic is as large as the cache.
    """

    name: str
    module: nn.Module
    sizes: dict[str, int]
    prefill: int
    longest: int
    first_input: str
    weight_bytes: int
    cache_bytes: int
    cache_passes: int
    device: str
    dtype: torch.dtype

    def inputs(self, tokens: int) -> tuple[Tensor, ...]:
        """For a call that is given ``tokens`` tokens; a call with one continues after a prefill of ``prefill``."""
        start = self.prefill if tokens == 1 else 0
        batch = self.sizes["batch"]
        position_ids = torch.arange(start, start + tokens, device=self.device).repeat(batch, 1)
        drawn = torch.Generator(self.device).manual_seed(tokens)
        if self.first_input == "hidden":
            shape = (batch, tokens, self.sizes["hidden"])
            first = torch.randn(shape, generator=drawn, device=self.device, dtype=self.dtype)
        else:
            first = torch.randint(self.sizes["vocab"], (batch, tokens), generator=drawn, device=self.device)
        return first, position_ids, *self.cache()

    def cache(self) -> list[Tensor]:
        heads, hidden = self.sizes["heads"], self.sizes["hidden"]
        shape = (self.sizes["batch"], heads, self.sizes["kv_length"], hidden // heads)
        drawn = torch.Generator(self.device).manual_seed(0)
        return [
            torch.randn(shape, generator=drawn, device=self.device, dtype=self.dtype)
            for _ in range(2 * self.sizes["layers"])
        ]

    def export(self) -> torch.export.ExportedProgram:
        tokens = torch.export.Dim("tokens", min=1, max=self.longest)
        inputs = self.inputs(min(self.prefill, 64))
        shapes = ({1: tokens}, {1: tokens}, (None,) * (len(inputs) - 2))
        return torch.export.export(self.module, inputs, dynamic_shapes=shapes)

    def profiles(self, *names: str) -> list[Any]:
        """``"prefill"``, ``"decode"``, or ``"all"``: every length in one profile that is tuned for prefill."""
        ranges = {"prefill": (2, self.prefill, self.longest), "decode": 1, "all": (1, self.prefill, self.longest)}
        return [example.OptimizationProfile(name, {self.first_input: {1: ranges[name]}}) for name in names]

    def facts(self) -> dict[str, Any]:
        """For the report."""
        return {
            "model": self.name,
            **self.sizes,
            "dtype": str(self.dtype).removeprefix("torch."),
            "prefill_tokens": self.prefill,
            "weight_bytes": self.weight_bytes,
            "cache_bytes": self.cache_bytes,
            "cache_passes": self.cache_passes,
        }


#: ``vocab`` 0: hidden states in, hidden states out. ``prefill``: tokens of a prefill call.
SIZES = {
    "reference": {"layers": 2, "hidden": 4096, "heads": 32, "vocab": 0, "kv_length": 4096, "batch": 6, "prefill": 3424},
    "small": {"layers": 4, "hidden": 1024, "heads": 16, "vocab": 8192, "kv_length": 2048, "batch": 1, "prefill": 1024},
    "tiny": {"layers": 1, "hidden": 64, "heads": 4, "vocab": 97, "kv_length": 48, "batch": 2, "prefill": 12},
}


def make_decoder(name: str, device: str, layers: int | None = None) -> Decoder:
    """A decoder of :data:`SIZES` with weights from a fixed seed, in float16 (float32 on a CPU)."""
    sizes = dict(SIZES[name])
    sizes["layers"] = layers or sizes["layers"]
    prefill = sizes.pop("prefill")
    dtype = torch.float16 if device == "cuda" else torch.float32
    with torch.device(device):
        torch.manual_seed(0)
        if sizes["vocab"]:
            module = example.Transformer(
                sizes["layers"], sizes["hidden"], sizes["heads"], sizes["vocab"], sizes["kv_length"]
            )
        else:
            module = ReferenceDecoder(sizes["layers"], sizes["hidden"], sizes["heads"], sizes["kv_length"])
    module = module.eval().requires_grad_(False).to(device, dtype)
    read = [weight for path, weight in module.named_parameters() if not path.startswith("embedding")]
    decoder = Decoder(
        name=name,
        module=module,
        sizes=sizes,
        prefill=prefill,
        longest=sizes["kv_length"],
        first_input="input_ids" if sizes["vocab"] else "hidden",
        weight_bytes=sum(weight.nbytes for weight in read),
        cache_bytes=2 * sizes["layers"] * sizes["batch"] * sizes["kv_length"] * sizes["hidden"] * dtype.itemsize,
        # The example's decoder makes a new cache: reads the old one, writes the new one, and attends over it.
        cache_passes=3 if sizes["vocab"] else 1,
        device=device,
        dtype=dtype,
    )
    return decoder
