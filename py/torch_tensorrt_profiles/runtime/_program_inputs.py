"""What a program as a whole is called with in each of its profiles: the record, and example inputs made from it.

An engine's own record has its bindings only. After a graph break those are intermediate results, and an input that
only PyTorch sees is no binding at all, so the shapes of the program's inputs are recorded where it is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torch_tensorrt_profiles.dynamo._metadata import ShapeRange

if TYPE_CHECKING:
    from torch_tensorrt_profiles.dynamo._resolve import Resolution
    from torch_tensorrt_profiles.runtime._engines import ProgramEngine

#: Where each TorchTensorRTModule of a program keeps the record. Not on the GraphModule: torch.save loses its ``meta``,
#: deepcopy its attributes.
PROGRAM_INPUTS = "_optimization_profiles_program_inputs"

#: One entry per leaf of the program's input structure, plain data: ``{"dtype": name, "opt": [shape per profile]}`` for
#: a tensor, the same with ``"is_integer": True`` for a dynamic integer, ``{"value": value}`` for anything else.
Record = list[dict[str, Any]]


def record_of(resolution: Resolution) -> Record:
    """The record of the program that is compiled for these profiles."""
    envelope = resolution.envelope
    leaves: dict[int, dict[str, Any]] = {leaf: {"value": value} for leaf, value in envelope.constants.items()}
    for spec in envelope.inputs:
        leaves[spec.leaf] = {
            "dtype": str(spec.dtype).removeprefix("torch."),
            "opt": [list(shapes[spec.name].opt) for shapes in resolution.shapes],
        }
        if spec.is_shape_tensor:
            leaves[spec.leaf]["is_integer"] = True
    return [leaves[leaf] for leaf in sorted(leaves)]


def program_inputs(program: Any) -> Record | None:
    """The record of a compiled program, or None where it was compiled without our profiles."""
    records = (vars(module).get(PROGRAM_INPUTS) for module in program.modules())
    return next((record for record in records if record is not None), None)


def example_leaves(record: Record, index: int, device: Any) -> list[Any]:
    """Inputs of the optimum shapes of profile ``index``, as flat as in ``record``.

    Tensors are on ``device`` and all zeros, which index any table; dynamic integers have the optimum's value.
    """
    import torch

    leaves: list[Any] = []
    for leaf in record:
        if "opt" not in leaf:
            leaves.append(leaf["value"])
        elif leaf.get("is_integer"):
            leaves.append(leaf["opt"][index][0])
        else:
            leaves.append(torch.zeros(leaf["opt"][index], dtype=getattr(torch, leaf["dtype"]), device=device))
    return leaves


def profile_to_warm_up(engines: Sequence[ProgramEngine], selected: Sequence[int]) -> int | None:
    """The profile whose optimum shapes every engine takes while it is on the profile that is ``selected`` for it.

    Where all engines are on one profile that is the answer. Where they were pinned to several it is the first of these
    whose optimum is inside the range that each engine is on; None where there is no such profile.
    """
    named = [
        (engine.profiles.ranges, index) for engine, index in zip(engines, selected, strict=True) if engine.profiles
    ]
    return next(
        (
            candidate
            for candidate in dict.fromkeys(index for _, index in named)
            if all(_takes(ranges[index], ranges[candidate]) for ranges, index in named)
        ),
        None,
    )


def _takes(active: dict[str, ShapeRange], other: dict[str, ShapeRange]) -> bool:
    return all(
        _contains(low, opt, high)
        for (low, _, high), (_, opt, _) in ((active[binding], other[binding]) for binding in active)
    )


def _contains(low: Iterable[int], extents: Iterable[int], high: Iterable[int]) -> bool:
    return all(lowest <= extent <= highest for lowest, extent, highest in zip(low, extents, high, strict=True))
