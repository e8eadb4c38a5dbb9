"""The engines of a program, in whatever form it is deployed, and the profiles that each of them holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch_tensorrt_profiles.dynamo import _metadata
from torch_tensorrt_profiles.dynamo._gpuless import ENGINE_AS_DATA, RUN_ELSEWHERE
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles
from torch_tensorrt_profiles.runtime._module import RECORD

_ENGINE_CLASS = "__torch__.torch.classes.tensorrt.Engine"


@dataclass(frozen=True)
class ProgramEngine:
    """One engine of a program.

    Attributes:
        name: the engine's own, which its traces carry too.
        live: Torch-TensorRT's engine object, or None where it is only data (built on a host without a GPU).
        profiles: our record, or None for an engine that was compiled without names.
        module: the TorchTensorRTModule that holds it, or None.
    """

    name: str
    live: Any
    profiles: EngineProfiles | None
    module: Any = None

    @property
    def count(self) -> int:
        """Number of optimization profiles; 1 also where every shape is static."""
        if self.live is not None:
            return max(1, int(self.live.num_optimization_profiles))
        return len(self.profiles.names) if self.profiles is not None else 1

    @property
    def names(self) -> tuple[str, ...]:
        """One name per profile, ``""`` where it has none."""
        return self.profiles.names if self.profiles is not None else ("",) * self.count

    def require_live(self) -> Any:
        """Torch-TensorRT's engine object. Raises RuntimeError where the engine is only data."""
        if self.live is None:
            raise RuntimeError(f"Engine {self.name!r} is only data here. {RUN_ELSEWHERE}")
        return self.live


def engines_of(program: Any) -> list[ProgramEngine]:
    """Every engine of a program, each once, in the program's order.

    Args:
        program: a compiled GraphModule, TorchTensorRTModule, MutableTorchTensorRTModule, a loaded ExportedProgram or
            its ``.module()``, a TorchScript module, or the runner of an AOTInductor package.

    Raises:
        ValueError: an engine's record names another number of profiles than the engine has.
    """
    found: list[ProgramEngine] = []
    for engine in _walk(program):
        if engine.live is None or all(engine.live is not other.live for other in found):
            _check_count(engine)
            found.append(engine)
    return found


def engines_for(program: Any, caller: str) -> list[ProgramEngine]:
    """As :func:`engines_of`, for a ``caller`` that a user calls.

    Raises:
        TypeError: also where there are none because this is no program at all, but the path of one, say.
    """
    engines = engines_of(program)
    if not engines and not (callable(program) or hasattr(program, "get_custom_objs")):
        raise TypeError(
            f"{caller} takes a compiled program, got {program!r:.100} of type {type(program).__name__}; load a "
            f"saved one first"
        )
    return engines


def live_engines_of(program: Any, caller: str) -> list[ProgramEngine]:
    """As :func:`engines_for`, for a ``caller`` that needs engines to work on.

    Raises:
        ValueError: also where no engine can be seen in the program.
        RuntimeError: an engine is only data on this host.
    """
    engines = engines_for(program, caller)
    if not engines:
        raise ValueError(
            f"{caller} found no TensorRT engine in {type(program).__name__}; give the compiled program itself (the "
            f"engines of a torch.compile callable are hidden)"
        )
    for engine in engines:
        engine.require_live()
    return engines


def may_be_compiled_again(program: Any) -> bool:
    """Whether the program may have other engines later."""
    from torch_tensorrt.dynamo.runtime._MutableTorchTensorRTModule import MutableTorchTensorRTModule

    return isinstance(program, MutableTorchTensorRTModule)


def _walk(program: Any) -> Iterator[ProgramEngine]:
    import torch
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    if may_be_compiled_again(program):
        program = program.gm
    if isinstance(program, torch.export.ExportedProgram):
        yield from _of_exported_program(program)
    custom_objects = getattr(getattr(program, "loader", program), "get_custom_objs", None)
    if callable(custom_objects):
        for value in custom_objects().values():
            if _is_engine(value):
                yield of_live(value)
    if not isinstance(program, torch.nn.Module):
        return
    for module in program.modules():
        if isinstance(module, TorchTensorRTModule):
            if module.engine is None and module.serialized_engine and not vars(module).get(RECORD):
                module.setup_engine()  # lazy_engine_init leaves it to the first use, as does stock here
            yield _of_module(module)
            continue
        if isinstance(module, torch.fx.GraphModule):
            yield from _as_data(module.graph)
        held = _held_by_script(module) if isinstance(module, torch.jit.ScriptModule) else vars(module)
        for value in held.values():
            if _is_engine(value):
                yield of_live(value)


def _held_by_script(module: Any) -> dict[str, Any]:
    """The custom objects that a TorchScript module's own code reads off it; it has no list of its attributes."""
    if not module._c._has_method("forward"):  # a container: a ModuleList, or the "a" of "a.weight"
        return {}
    names = [node.s("name") for node in module.graph.findAllNodes("prim::GetAttr") if node.hasAttribute("name")]
    return {name: getattr(module, name) for name in names if hasattr(module, name)}


def _of_module(module: Any) -> ProgramEngine:
    record = vars(module).get(RECORD)
    name = f"{module.name}_engine" if module.name else "tensorrt_engine"  # as Torch-TensorRT names its engine
    profiles = None if record is None else EngineProfiles.from_json(record)
    return ProgramEngine(name, module.engine, profiles, module)


def of_live(engine: Any) -> ProgramEngine:
    """What one of Torch-TensorRT's engine objects says of itself."""
    import torch

    name = engine.serialize_metadata_only()[int(torch.ops.tensorrt.NAME_IDX())]
    return ProgramEngine(name, engine, _metadata.read(engine.get_serialized_metadata()))


def _of_exported_program(program: Any) -> Iterator[ProgramEngine]:
    for value in program.constants.values():
        if _is_engine(value):
            yield of_live(value)
    yield from _as_data(program.graph_module.graph)


def _as_data(graph: Any) -> Iterator[ProgramEngine]:
    import torch

    for node in graph.nodes:
        if ENGINE_AS_DATA in node.name:
            packed = node.args[1:]
            metadata = packed[int(torch.ops.tensorrt.SERIALIZED_METADATA_IDX())]
            yield ProgramEngine(packed[int(torch.ops.tensorrt.NAME_IDX())], None, _metadata.read(metadata))


def _is_engine(value: Any) -> bool:
    import torch

    return isinstance(value, torch.ScriptObject) and value._type().qualified_name() == _ENGINE_CLASS


def _check_count(engine: ProgramEngine) -> None:
    if engine.live is not None and engine.profiles is not None and len(engine.profiles.names) != engine.count:
        raise ValueError(
            f"engine {engine.name!r} holds {engine.count} optimization profile(s), but its record names "
            f"{len(engine.profiles.names)}: {list(engine.profiles.names)}. The two do not belong together; compile the "
            f"program again."
        )
