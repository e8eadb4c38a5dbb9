"""Loading a saved program of any form, and calling it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_tensorrt_profiles.latency._shapes import InputShape
from torch_tensorrt_profiles.saved._engine import Binding, SavedEngine
from torch_tensorrt_profiles.saved._inputs import Extent, ProgramInput
from torch_tensorrt_profiles.saved._program import (
    AOT_INDUCTOR,
    EXPORTED,
    EXPORTED_AS_DATA,
    PICKLED,
    TORCHSCRIPT,
    SavedProgram,
)


class LoadError(RuntimeError):
    """The program does not load, or cannot be called with made-up inputs."""


@dataclass
class LoadedProgram:
    """A program on the current device.

    Attributes:
        program: what profiles are selected on.
        inputs: in the order of the call, flattened.
        arrange: puts tensors in that order into (args, kwargs).
    """

    program: Any
    inputs: list[ProgramInput]
    arrange: Callable[[list[Any]], tuple[tuple[Any, ...], dict[str, Any]]] = field(
        default=lambda tensors: (tuple(tensors), {})
    )

    def call_with(self, tensors: list[Any]) -> Callable[[], Any]:
        args, kwargs = self.arrange(tensors)
        return lambda: self.program(*args, **kwargs)


def load(saved: SavedProgram) -> LoadedProgram:
    """Loads a program onto the current CUDA device.

    Raises:
        LoadError: see the class; the message has what the loader said.
    """
    import torch
    import torch_tensorrt

    path = str(saved.path)
    try:
        if saved.form == AOT_INDUCTOR:
            runner = torch._inductor.aoti_load_package(path)
            # A package without its C++ source: a single engine may take the program's inputs as they are.
            inputs = saved.inputs or _inputs_of_engine(saved.engines)
            return _with_spec(runner, inputs, runner.loader.get_call_spec()[0])
        if saved.form in (EXPORTED, EXPORTED_AS_DATA):
            exported = torch_tensorrt.load(path)
            return _with_spec(exported.module(), saved.inputs, exported.call_spec.in_spec)
        if saved.form == TORCHSCRIPT:
            script = torch.jit.load(path, map_location="cuda")  # type: ignore[no-untyped-call]
            return LoadedProgram(script, _script_inputs(script, saved.engines))
    except LoadError:
        raise
    except Exception as error:
        raise LoadError(f"{path} does not load: {error}") from error
    assert saved.form == PICKLED
    raise LoadError(
        f"{path} is a file of torch.save, which does not tell how to call what is in it. Save the program with "
        f"torch_tensorrt.save(program, 'program.pt2') and run that"
    )


def _with_spec(program: Any, inputs: list[ProgramInput], spec: Any) -> LoadedProgram:
    from torch.utils import _pytree as pytree

    tree = pytree.treespec_loads(spec) if isinstance(spec, str) else spec
    if tree.num_leaves != len(inputs):
        raise LoadError(
            f"the program takes {tree.num_leaves} values, and the file describes {len(inputs)} tensors; values that "
            f"are no tensors cannot be made up"
        )

    def arrange(tensors: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = pytree.tree_unflatten(tensors, tree)
        return tuple(args), dict(kwargs)

    return LoadedProgram(program, inputs, arrange)


def _script_inputs(script: Any, engines: Sequence[SavedEngine]) -> list[ProgramInput]:
    """TorchScript knows the names of its inputs; an engine that takes one as it is knows its type."""
    bindings = {binding.name: binding for engine in engines for binding in engine.inputs}
    return [
        _input_of(bindings[argument.name]) if argument.name in bindings else ProgramInput(argument.name, None, ())
        for argument in script.forward.schema.arguments[1:]
    ]


def _inputs_of_engine(engines: Sequence[SavedEngine]) -> list[ProgramInput]:
    return [_input_of(binding) for binding in engines[0].inputs] if len(engines) == 1 else []


def _input_of(binding: Binding) -> ProgramInput:
    shape = tuple(
        extent if isinstance(extent, int) else Extent(extent or None, None, None) for extent in binding.symbols or ()
    )
    return ProgramInput(binding.name, binding.dtype, shape)


def make_tensors(shapes: Sequence[InputShape], device: str, seed: int = 0) -> list[Any]:
    """Inputs from a seed: zeros for integers, which are mostly indices into something, and normal values for floats."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    tensors = []
    for entry in shapes:
        dtype = getattr(torch, entry.dtype)
        if dtype.is_floating_point or dtype.is_complex:
            wide = torch.complex64 if dtype.is_complex else torch.float32
            tensors.append(torch.randn(entry.shape, generator=generator, dtype=wide).to(device, dtype))
        else:
            tensors.append(torch.zeros(entry.shape, dtype=dtype, device=device))
    return tensors


@contextlib.contextmanager
def cuda_graphs(program: Any) -> Iterator[None]:
    """Has every engine of a program run as a CUDA graph, one per profile and shape."""
    import torch_tensorrt
    from torch_tensorrt import runtime

    settings: Any = contextlib.nullcontext()
    if torch_tensorrt.ENABLED_FEATURES.tensorrt_rtx:  # otherwise TensorRT-RTX captures nothing
        settings = runtime.runtime_config(program, cuda_graph_strategy="whole_graph_capture")
    before = runtime.get_cudagraphs_mode()
    with settings:
        runtime.set_cudagraphs_mode(True)
        try:
            yield
        finally:
            runtime.set_cudagraphs_mode(before)
