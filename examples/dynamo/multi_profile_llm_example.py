"""
One engine for both phases of a language model: named optimization profiles
============================================================================

A language model runs in two regimes. *Prefill* reads the whole prompt at once, *decode* reads one token per call. One
TensorRT engine with two optimization profiles is tuned for both. This example

1. defines a small decoder-only transformer whose KV cache has a fixed size and is passed in and out,
2. exports it once, with a dynamic number of tokens,
3. builds one TensorRT-RTX engine with the profiles "prefill" and "decode", prints them and saves the program,
4. on a GPU: generates tokens under both profiles, checks every step against eager PyTorch, and measures each phase
   against an engine of the same model with a single profile.

A host without a GPU does 1 to 3, and a GPU host runs the file that it saved::

    python multi_profile_llm_example.py --output out          # any host
    python multi_profile_llm_example.py --load out/llm.pt2    # a GPU host
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch_tensorrt
from torch import Tensor, nn
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.runtime import optimization_profile, optimization_profiles, profile_names, runtime_config

# %%
# The model. ``position_ids`` says all about the cache: the tokens of a call are positions start .. end - 1 of the
# sequence, their keys and values are written there, and a token sees the positions up to its own.


class RMSNorm(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        full = x.float()
        return (full * torch.rsqrt(full.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


class Block(nn.Module):
    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = RMSNorm(hidden), RMSNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.gate, self.up = (nn.Linear(hidden, 4 * hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * hidden, hidden, bias=False)

    def forward(
        self, x: Tensor, rotation: tuple[Tensor, Tensor], slots: Tensor, visible: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        projected = self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in projected)
        # The cache write. scatter takes any number of tokens and becomes part of the engine.
        keys = keys.scatter(2, slots, rotate(key, *rotation))
        values = values.scatter(2, slots, value)
        attended = nn.functional.scaled_dot_product_attention(rotate(query, *rotation), keys, values, attn_mask=visible)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        normed = self.mlp_norm(x)
        return x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed)), keys, values


class Transformer(nn.Module):
    """``(input_ids [B, seq], position_ids [B, seq], *cache) -> (logits [B, seq, vocab], *cache)``.

    The cache is a key and a value tensor ``[B, heads, max_seq, head_dim]`` per layer, and always has this size.
    """

    def __init__(self, layers: int, hidden: int, heads: int, vocab: int, max_seq: int) -> None:
        super().__init__()
        head_dim = hidden // heads
        self.cache_shape = (heads, max_seq, head_dim)
        self.embedding = nn.Embedding(vocab, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm, self.head = RMSNorm(hidden), nn.Linear(hidden, vocab, bias=False)
        angles = torch.arange(max_seq)[:, None] * 10000.0 ** -(torch.arange(0, head_dim, 2) / head_dim)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, input_ids: Tensor, position_ids: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        heads, max_seq, head_dim = self.cache_shape
        cos, sin = (nn.functional.embedding(position_ids, table)[:, None] for table in (self.cos, self.sin))
        slots = position_ids[:, None, :, None].expand(-1, heads, -1, head_dim)
        visible = torch.arange(max_seq, device=position_ids.device) <= position_ids[:, None, :, None]
        x, new_cache = self.embedding(input_ids), []
        for layer, block in enumerate(self.blocks):
            x, *written = block(x, (cos, sin), slots, visible, *cache[2 * layer : 2 * layer + 2])
            new_cache += written
        return self.head(self.norm(x)), *new_cache

    def empty_cache(self, batch: int) -> list[Tensor]:
        return [self.head.weight.new_zeros(batch, *self.cache_shape) for _ in range(2 * len(self.blocks))]


def make_model(config: argparse.Namespace) -> Transformer:
    """Draws the weights on the CPU from a fixed seed, so that every host has the same."""
    torch.manual_seed(0)
    model = Transformer(config.layers, config.hidden, config.heads, config.vocab, config.max_seq)
    return model.eval().requires_grad_(False).to(config.device, getattr(torch, config.dtype))


def make_prompt(config: argparse.Namespace, length: int) -> tuple[Tensor, Tensor]:
    """Token ids and their positions."""
    ids = torch.randint(config.vocab, (config.batch, length), generator=torch.Generator().manual_seed(1))
    return ids.to(config.device), torch.arange(length, device=config.device).repeat(config.batch, 1)


# %%
# Export once, then build. A profile names the token ids only. ``position_ids`` shares its dynamic axis with them, and
# the cache is static; both come from the exported program.


def export(model: Transformer, config: argparse.Namespace) -> torch.export.ExportedProgram:
    seq = torch.export.Dim("seq", min=1, max=config.max_seq)
    cache = model.empty_cache(config.batch)
    inputs = (*make_prompt(config, config.prefill_opt), *cache)
    return torch.export.export(model, inputs, dynamic_shapes=({1: seq}, {1: seq}, (None,) * len(cache)))


def two_profiles(config: argparse.Namespace) -> list[OptimizationProfile]:
    return [
        OptimizationProfile("prefill", {"input_ids": {1: (2, config.prefill_opt, config.max_seq)}}),
        OptimizationProfile("decode", {"input_ids": {1: 1}}),
    ]


def one_profile(config: argparse.Namespace) -> list[OptimizationProfile]:
    """The same shapes in a single profile that is tuned for prefill."""
    return [OptimizationProfile("all", {"input_ids": {1: (1, config.prefill_opt, config.max_seq)}})]


def build(exported: torch.export.ExportedProgram, profiles: list[OptimizationProfile]) -> Any:
    return torch_tensorrt.dynamo.compile(exported, optimization_profiles=profiles)


def engine_bytes(program: Any) -> list[int]:
    engines = (module for module in program.modules() if isinstance(module, torch_tensorrt.runtime.TorchTensorRTModule))
    return [len(engine.serialized_engine) for engine in engines]


def print_profiles(program: Any) -> None:
    """A row per profile and dynamic input; inputs of one shape are summed up."""
    for engine, profiles in optimization_profiles(program).items():
        print(f"\nengine {engine}\n  {'index':<6}{'profile':<10}{'input':<14}{'min':<12}{'opt':<12}max")
        shapes = {name: {p["inputs"][name][end] for p in profiles for end in ("min", "opt", "max")}
                  for name in profiles[0]["inputs"]}  # fmt: skip
        for profile in profiles:
            for name, limits in profile["inputs"].items():
                if len(shapes[name]) > 1:
                    low, opt, high = (str(tuple(limits[end])) for end in ("min", "opt", "max"))
                    print(f"  {profile['index']:<6}{profile['name']:<10}{name:<14}{low:<12}{opt:<12}{high}")
        static = [name for name in shapes if len(shapes[name]) == 1]
        print(f"  static: {static[0]} .. {static[-1]}, each {shapes[static[0]].pop()}")


# %%
# Checking. Both models see the same tokens, each keeps its own cache, and the logits of every step are compared.

#: Relative error (L2) of the logits that rounding explains; TensorRT computes float32 in TF32.
TOLERANCE = {"float32": 2e-2, "float16": 2e-2, "bfloat16": 1e-1}


def check_generation(program: Any, model: Transformer, config: argparse.Namespace, length: int) -> dict[str, Any]:
    """Generates greedily, the prompt under "prefill" and the rest under "decode".

    Raises:
        AssertionError: logits differ by more than rounding, or a token differs where eager PyTorch is clear.
    """
    tolerance, errors, clear, tokens = TOLERANCE[config.dtype], [], 0, []
    ids, position_ids = make_prompt(config, length)
    cache = expected_cache = model.empty_cache(config.batch)
    for phase, steps in (("prefill", 1), ("decode", config.new_tokens - 1)):
        with optimization_profile(program, phase):
            for _ in range(steps):
                logits, *cache = program(ids, position_ids, *cache)
                expected, *expected_cache = model(ids, position_ids, *expected_cache)
                errors.append(float((logits.float() - expected.float()).norm() / expected.float().norm()))
                if not errors[-1] < tolerance:
                    raise AssertionError(f"{phase}, step {len(errors)}: relative error {errors[-1]:.1e}")
                ids, last = logits[:, -1:].argmax(-1), expected[:, -1].float()
                best, second = last.topk(2).values.unbind(-1)
                is_clear = best - second > tolerance * last.abs().amax(-1)
                if not (ids[:, 0] == last.argmax(-1))[is_clear].all():
                    raise AssertionError(f"{phase}, step {len(errors)}: another token than eager PyTorch")
                clear += int(is_clear.sum())
                tokens.append(ids[:, 0].tolist())
                position_ids = position_ids[:, -1:] + 1
    print(
        f"  prompt of {length}, {len(errors)} steps, batch {config.batch}: worst relative error {max(errors):.1e} "
        f"(bound {tolerance:.0e}), {clear} clear tokens equal"
    )
    return {"prompt": length, "relative_errors": errors, "clear_tokens": clear, "tokens": tokens}


def check_all(program: Any, model: Transformer, config: argparse.Namespace) -> list[dict[str, Any]]:
    print("\ngeneration under both profiles against eager PyTorch")
    return [check_generation(program, model, config, length) for length in (config.prefill_opt, 7)]


# %%
# Measuring. Every round has fresh engines without a cache of compiled kernels, so a first call is cold. The process is
# not: CUDA and TensorRT-RTX have been loaded by the check above.

WARM_UP_SECONDS = 2.0  # "lazy" specialises kernels in the background and needs time for it
BLOCKS, CALLS = 4, 25  # warm calls are timed in blocks that alternate between the engines
SKIPPED = 3  # first calls of a block, which change the profile
TWO, ONE = "two profiles", "one profile"


class Candidate:
    """An engine to measure. Where it has both profiles, each phase selects its own."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.has_phases = "decode" in profile_names(program)

    def phase(self, name: str) -> contextlib.AbstractContextManager[Any]:
        return optimization_profile(self.program, name) if self.has_phases else contextlib.nullcontext()

    def first_call(self, phase: str, inputs: Sequence[Tensor]) -> float:
        """Milliseconds on the host's clock from selecting the profile until the result is there."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        with self.phase(phase):
            self.program(*inputs)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3

    def warm_up(self, phase: str, inputs: Sequence[Tensor]) -> None:
        end = time.perf_counter() + WARM_UP_SECONDS
        with self.phase(phase):
            while time.perf_counter() < end:
                self.program(*inputs)
                torch.cuda.synchronize()

    def warm_calls(self, phase: str, inputs: Sequence[Tensor]) -> list[float]:
        """Milliseconds between CUDA events around single calls on an idle GPU."""
        samples = []
        with self.phase(phase):
            for _ in range(SKIPPED + CALLS):
                start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                start.record()
                self.program(*inputs)
                end.record()
                torch.cuda.synchronize()
                samples.append(start.elapsed_time(end))
        return samples[SKIPPED:]

    def generation(self, inputs: Sequence[Tensor], new_tokens: int) -> float:
        """Milliseconds on the host's clock for a prompt and its tokens, changes of the profile included."""
        start = time.perf_counter()
        with self.phase("prefill"):
            logits, *cache = self.program(*inputs)
        position_ids = inputs[1][:, -1:]
        with self.phase("decode"):
            for _ in range(new_tokens - 1):
                position_ids = position_ids + 1
                logits, *cache = self.program(logits[:, -1:].argmax(-1), position_ids, *cache)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3


def measure(
    fresh: Callable[[str], Any], model: Transformer, config: argparse.Namespace, strategy: str
) -> dict[str, dict[str, list[float]]]:
    """Milliseconds per measurement and engine, under one kernel-specialization strategy."""
    prompt = (*make_prompt(config, config.prefill_opt), *model.empty_cache(config.batch))
    logits, *cache = model(*prompt)
    phases = {"prefill": prompt, "decode": (logits[:, -1:].argmax(-1), prompt[1][:, -1:] + 1, *cache)}
    samples: dict[str, dict[str, list[float]]] = {}

    def add(measurement: str, engine: str, values: list[float]) -> None:
        samples.setdefault(measurement, {name: [] for name in (TWO, ONE)})[engine] += values

    for number in range(config.rounds):
        engines = [TWO, ONE] if number % 2 == 0 else [ONE, TWO]
        with contextlib.ExitStack() as settings:
            candidates = {}
            for engine in engines:
                candidates[engine] = candidate = Candidate(fresh(engine))
                options = {"dynamic_shapes_kernel_specialization_strategy": strategy, "runtime_cache": None}
                settings.enter_context(runtime_config(candidate.program, **options))
                for phase, inputs in phases.items():
                    add(f"{phase}, first call", engine, [candidate.first_call(phase, inputs)])
            for phase, inputs in phases.items():
                for engine in engines:
                    candidates[engine].warm_up(phase, inputs)
                for engine in engines * BLOCKS:
                    add(f"{phase}, warm", engine, candidates[engine].warm_calls(phase, inputs))
            for engine in engines * BLOCKS:
                took = [candidates[engine].generation(prompt, config.new_tokens) for _ in range(2)]
                add(f"prompt and {config.new_tokens} tokens", engine, took[1:])
        del candidates, candidate
        gc.collect()
    return samples


def compare_engines(
    exported: torch.export.ExportedProgram, model: Transformer, config: argparse.Namespace, results: dict[str, Any]
) -> None:
    profiles = {TWO: two_profiles(config), ONE: one_profile(config)}
    sizes: dict[str, float] = {}

    def fresh(engine: str) -> Any:
        program = build(exported, profiles[engine])
        sizes[engine] = sum(engine_bytes(program)) / 1e6
        return program

    for strategy in config.strategies:
        samples = measure(fresh, model, config, strategy)
        medians = {what: {name: statistics.median(s) for name, s in by.items()} for what, by in samples.items()}
        results[strategy] = {"median_ms": medians, "samples_ms": samples, "engine_mb": sizes}
        print(f'\nkernel specialization "{strategy}", median ms')
        print(f"  {'':<26}{TWO:>14}{ONE:>14}{'one / two':>12}")
        for what, by_engine in (*medians.items(), ("engine size, MB", sizes)):
            two, one = by_engine[TWO], by_engine[ONE]
            verdict = "gain" if one > 1.03 * two else "LOSS" if two > 1.03 * one else "parity"
            print(f"  {what:<26}{two:>14.3f}{one:>14.3f}{one / two:>11.2f}x  {verdict}")


# %%
# The command line.

DEFAULTS = {  # without a GPU, with one
    "layers": (2, 4),
    "hidden": (128, 1024),
    "heads": (4, 16),
    "vocab": (512, 8192),
    "max_seq": (128, 2048),
    "prefill_opt": (32, 1024),
    "new_tokens": (8, 32),
}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    has_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, sizes in DEFAULTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=sizes[has_gpu], help="here %(default)s")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", choices=list(TOLERANCE), default="float16")
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR", help="gets the program, llm.pt2")
    parser.add_argument("--load", type=Path, metavar="FILE", help="check a saved program instead of building one")
    parser.add_argument("--strategies", default="none,lazy", help="kernel specialization: none, lazy, eager")
    parser.add_argument("--rounds", type=int, default=3, help="fresh engines per strategy")
    parser.add_argument("--json", type=Path, metavar="FILE", help="gets everything that was measured")
    config = parser.parse_args(arguments)
    config.device = "cuda" if has_gpu else "cpu"
    config.strategies = [strategy for strategy in config.strategies.split(",") if strategy]
    if unknown := set(config.strategies) - {"none", "lazy", "eager"}:
        parser.error(f"--strategies: {', '.join(sorted(unknown))} is not among none, lazy, eager")
    if config.hidden % (2 * config.heads):
        parser.error(f"--hidden {config.hidden} has to be a multiple of twice --heads {config.heads}")
    if not 7 <= config.prefill_opt <= config.max_seq - config.new_tokens:
        parser.error("--prefill-opt has to be 7 or more, and with --new-tokens at most --max-seq")
    return config


def environment() -> dict[str, Any]:
    import tensorrt

    def output_of(*command: str) -> str | None:
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            here = Path(__file__).resolve().parent
            return subprocess.run(command, cwd=here, check=True, capture_output=True, text=True).stdout.strip()
        return None

    return {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "driver": output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0")
        or output_of("cat", "/proc/driver/nvidia/version"),
        "torch": torch.__version__,
        "torch_tensorrt": torch_tensorrt.__version__,
        "tensorrt": f"{tensorrt.__name__} {tensorrt.__version__}",
        "git_revision": os.environ.get("GIT_REVISION") or output_of("git", "rev-parse", "HEAD"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    config = parse(arguments)
    results: dict[str, Any] = {"environment": environment(), "config": vars(config)}
    try:
        return run_saved(config, results) if config.load else build_and_run(config, results)
    finally:  # also what was measured before a failure
        if config.json:
            config.json.parent.mkdir(parents=True, exist_ok=True)
            config.json.write_text(json.dumps(results, indent=1, default=str))


def build_and_run(config: argparse.Namespace, results: dict[str, Any]) -> int:
    model = make_model(config)
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    print(f"model      {config.layers} layers, hidden {config.hidden}, {config.dtype}, {millions:.1f} M parameters")
    start = time.perf_counter()
    exported = export(model, config)
    print(f"export     {time.perf_counter() - start:.1f} s, 1 to {config.max_seq} tokens per call")
    start = time.perf_counter()
    program = build(exported, two_profiles(config))
    results["build_s"], results["engine_bytes"] = time.perf_counter() - start, engine_bytes(program)
    sizes = ", ".join(f"{size / 1e6:.1f} MB" for size in results["engine_bytes"])
    print(f"build      {results['build_s']:.1f} s, engines: {len(results['engine_bytes'])}, size: {sizes}")
    print_profiles(program)
    if config.device == "cuda":
        results["checks"] = check_all(program, model, config)
        compare_engines(exported, model, config, results.setdefault("comparison", {}))

    config.output.mkdir(parents=True, exist_ok=True)
    path = config.output / "llm.pt2"
    needed = {name: getattr(config, name) for name in (*DEFAULTS, "batch", "dtype")}
    # retrace=False saves the program as it is, without running it.
    torch_tensorrt.save(program, str(path), extra_files={"config.json": json.dumps(needed)}, retrace=False)
    print(f"\nsaved      {path}, {path.stat().st_size / 1e6:.1f} MB")

    if config.device == "cpu":
        print("\nThis host has no GPU: the engine is built and saved, and runs elsewhere. On a GPU host run")
        print(f"  python {Path(__file__).name} --load {path}")
    return 0


def run_saved(config: argparse.Namespace, results: dict[str, Any]) -> int:
    if config.device == "cpu":
        print(f"{config.load} holds a TensorRT engine, which needs a GPU; this host has none.", file=sys.stderr)
        return 1
    extra_files = {"config.json": ""}
    program = torch_tensorrt.load(str(config.load), extra_files=extra_files)
    vars(config).update(json.loads(extra_files["config.json"]))
    print(f"loaded     {config.load}, profiles: {', '.join(profile_names(program))}")
    print_profiles(program)
    results["checks"] = check_all(program.module(), make_model(config), config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
