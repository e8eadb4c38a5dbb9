"""``explain(program, *args)``: which profile each engine would run on, and why, without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_tensorrt_profiles.runtime._engines import ProgramEngine, live_engines_of, of_live


@dataclass(frozen=True)
class ProfileExplanation:
    """What a call would do on one engine.

    Attributes:
        engine: the engine's name.
        index: the profile that would run, or None for a call that would raise.
        profile: its name, ``""`` where it has none or none would run.
        shapes: the shape of each input of the engine, or None where they are not known without running the program.
        reason: why this profile, or the error that the call would raise.
    """

    engine: str
    index: int | None
    profile: str
    shapes: tuple[tuple[int, ...], ...] | None
    reason: str


def explain(program: Any, *args: Any, **kwargs: Any) -> list[ProfileExplanation]:
    """Says which optimization profile a call on this thread would run on each engine of a program, and why.

    Nothing runs on the GPU and nothing is switched: the shapes go through the program as PyTorch's fake tensors do.

    Args:
        program: whatever :func:`torch_tensorrt.runtime.optimization_profile` takes.
        *args: the call's inputs; tensors of any device, of which only shape and dtype count. Without any, the shapes
            are taken as unknown, and only the selection is explained.
        **kwargs: the call's keyword inputs.

    Returns:
        One explanation per call of an engine, in the program's order; for a program that cannot be walked through with
        fake tensors (an AOTInductor package, for one) one per engine, with ``shapes=None``.

    Raises:
        ValueError: the program has no engines that can be seen.
        RuntimeError: the engines are only data on this host.
    """
    engines = live_engines_of(program, "explain()")
    calls = _calls(program, args, kwargs) if args or kwargs else None
    if calls is None:
        return [_explained(engine, None) for engine in engines]
    return [_explained(of_live(live), shapes) for live, shapes in calls]


_Shapes = tuple[tuple[int, ...], ...]


def _explained(engine: ProgramEngine, shapes: _Shapes | None) -> ProfileExplanation:
    import torch

    given = None if shapes is None else [list(shape) for shape in shapes]
    index, reason = torch.ops.tensorrt._explain_profile.default(engine.live, given)
    would_run = None if index < 0 else int(index)
    name = "" if would_run is None else engine.names[would_run]
    return ProfileExplanation(engine.name, would_run, name, shapes, reason)


def _calls(program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[Any, _Shapes]] | None:
    """The engines that a call would run, with the shapes they would get; None where the program cannot be followed."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map_only
    from torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule import MutableTorchTensorRTModule

    calls: list[tuple[Any, _Shapes]] = []

    class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.tensorrt.execute_engine.default:
                calls.append((args[1], tuple(tuple(map(_extent, tensor.shape)) for tensor in args[0])))
            return func(*args, **(kwargs or {}))

    if isinstance(program, torch.export.ExportedProgram):
        program = program.module()
    if isinstance(program, MutableTorchTensorRTModule):
        program = program.gm
    if not isinstance(program, torch.nn.Module):
        return None
    # Every extent is a symbol whose hint is the call's: Torch-TensorRT finds the shapes of an engine's outputs by the
    # symbols of its inputs.
    shape_env = ShapeEnv(specialize_zero_one=False, duck_shape=False)

    def fake(tensor: Any) -> Any:
        context: Any = StatelessSymbolicContext([DimDynamic.DYNAMIC] * tensor.dim())
        return fake_mode.from_tensor(tensor, symbolic_context=context)

    with FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True) as fake_mode:
        fake_args, fake_kwargs = tree_map_only(torch.Tensor, fake, (args, kwargs))
        with Recorder(), torch.no_grad():  # type: ignore[no-untyped-call]
            program(*fake_args, **fake_kwargs)
    return calls


def _extent(extent: Any) -> int:
    import torch

    hint: Any = extent.node.hint if isinstance(extent, torch.SymInt) else extent
    return int(hint)
