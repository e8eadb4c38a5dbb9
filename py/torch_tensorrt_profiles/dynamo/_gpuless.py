"""Building on a host without a GPU: TensorRT-RTX compiles there, the engine is saved as data, a GPU host makes it live.

Every graft here does nothing on a host that has a GPU, except that :func:`load` there turns saved data into engines.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles._stand_ins import cuda_questions_answered, host_has_gpu

#: The op that stands, with the packed engine as its arguments, where a live program has an engine.
ENGINE_AS_DATA = "no_op_placeholder_for_execute_engine"
_RANGES = "torch_tensorrt_profiles_range_constraints"
RUN_ELSEWHERE = (
    "This host has no GPU, so the TensorRT engine that was built here cannot run here. Save the program with "
    "torch_tensorrt.save(program, 'program.pt2'), and on a GPU host load it and make it callable with "
    "torch_tensorrt.load('program.pt2').module()."
)


@contextlib.contextmanager
def build_environment(exported_program: Any, options: dict[str, Any]) -> Iterator[None]:
    """What a build needs on a host without a GPU; on a host with one, nothing.

    Raises:
        RuntimeError: this combination cannot be built without a GPU; the message says why and what to do.
    """
    if host_has_gpu():
        yield
        return
    _refuse_what_needs_a_gpu(exported_program, options)
    with cuda_questions_answered():
        yield


def _refuse_what_needs_a_gpu(exported_program: Any, options: dict[str, Any]) -> None:
    from torch_tensorrt._features import ENABLED_FEATURES

    if not ENABLED_FEATURES.tensorrt_rtx:
        raise RuntimeError(
            "This host has no GPU and TensorRT's builder needs one. Compile on a GPU host, or use TensorRT-RTX, which "
            "builds without one, in an environment without torch-tensorrt (both are the package torch_tensorrt): "
            "pip install 'torch-tensorrt-profiles[rtx]'."
        )
    if not options.get("immutable_weights", True) or options.get("refit") or options.get("make_refittable"):
        raise RuntimeError(
            "This host has no GPU and TensorRT-RTX cannot build a refittable engine without one. Leave out "
            "immutable_weights=False, or compile on a GPU host."
        )
    written = _written_by(exported_program)
    if written:
        raise RuntimeError(
            f"This host has no GPU, and the program writes to {written}: a program that is saved with its engines as "
            f"data does not keep such writes. Have it take the cache as an input and return the new one, or compile on "
            f"a GPU host."
        )


def _written_by(exported_program: Any) -> list[str]:
    """The buffers and inputs that a program changes in place."""
    signature = exported_program.graph_signature
    schemas = [getattr(node.target, "_schema", None) for node in exported_program.graph.nodes]
    if any(schema is not None and schema.is_mutable for schema in schemas):
        # The signature names them only once the program is functional, which takes a while to make.
        signature = exported_program.run_decompositions({}).graph_signature
    return sorted([*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()])


def remember_ranges(compiled: Any, exported_program: Any) -> None:
    """Keeps the exported ranges: where ``Dim(min=1)`` gave 1, the exporter of engines as data would find 2."""
    if not host_has_gpu() and hasattr(compiled, "meta"):
        compiled.meta[_RANGES] = dict(exported_program.range_constraints)


class _SerializedEngine:
    """Stands for ``ICudaEngine`` between building and serialising."""

    def __init__(self, serialized: Any) -> None:
        self._serialized = serialized

    def get_aliased_input_tensor(self, name: str) -> None:
        """Only a live engine can say; None keeps the aliases that the interpreter recorded itself."""

    def serialize(self) -> Any:
        return self._serialized


class _BuildOnlyRuntime:
    """Stands for ``trt.Runtime``, which needs a GPU: hands the engine's bytes on."""

    def __init__(self, logger: Any) -> None:
        del logger

    def deserialize_cuda_engine(self, serialized: Any) -> _SerializedEngine:
        return _SerializedEngine(serialized)


class _BuildOnlyTensorRT:
    """The tensorrt module with :class:`_BuildOnlyRuntime` for its runtime."""

    Runtime = _BuildOnlyRuntime

    def __init__(self, tensorrt: Any) -> None:
        self._tensorrt = tensorrt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensorrt, name)


def graft_interpreter(module: ModuleType, patches: Patches) -> None:
    if not host_has_gpu():
        patches(module, "trt", _BuildOnlyTensorRT(module.trt))


def graft_device(module: ModuleType, patches: Patches) -> None:
    """What is exported, and the parts that stay in PyTorch, go to the engine's device; load() does that later."""
    if host_has_gpu():
        return
    import torch

    stock = module.to_torch_device

    @functools.wraps(stock)
    def to_torch_device(device: Any) -> torch.device:
        return torch.device("cpu")

    patches(module, "to_torch_device", to_torch_device)


def graft_module(module: ModuleType, patches: Patches) -> None:
    if host_has_gpu():
        return
    cls = module.TorchTensorRTModule

    @functools.wraps(cls.setup_engine)
    def setup_engine(self: Any) -> None:
        self.engine = None

    @functools.wraps(cls.set_output_tensors_as_unowned)
    def set_output_tensors_as_unowned(self: Any, enabled: bool) -> None:
        del enabled  # a property of live engines; a saved program does not carry it

    @functools.wraps(cls.get_engine)
    def get_engine(self: Any) -> Any:
        raise RuntimeError(RUN_ELSEWHERE)

    @functools.wraps(cls.forward)
    def forward(self: Any, *inputs: Any) -> Any:
        raise RuntimeError(RUN_ELSEWHERE)

    stock_pack = cls._pack_engine_info

    @functools.wraps(stock_pack)
    def _pack_engine_info(self: Any) -> Any:
        with cuda_questions_answered():
            return stock_pack(self)

    @functools.wraps(cls.set_extra_state)
    def set_extra_state(self: Any, state: Any) -> None:
        raise RuntimeError(f"Loading a state_dict into a TensorRT module makes a live engine. {RUN_ELSEWHERE}")

    patches(cls, "_pack_engine_info", _pack_engine_info)
    patches(cls, "set_extra_state", set_extra_state)
    patches(cls, "setup_engine", setup_engine)
    patches(cls, "set_output_tensors_as_unowned", set_output_tensors_as_unowned)
    patches(cls, "get_engine", get_engine)
    patches(cls, "forward", forward)


def graft_mutable_module(module: ModuleType, patches: Patches) -> None:
    if host_has_gpu():
        return
    cls = module.MutableTorchTensorRTModule

    @functools.wraps(cls.__init__)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            "This host has no GPU, and a MutableTorchTensorRTModule compiles when it is run. Export the model and use "
            "torch_tensorrt.dynamo.compile, or make the module on a GPU host."
        )

    patches(cls, "__init__", init)


def graft_placeholder_op(module: ModuleType, patches: Patches) -> None:
    """A program with its engines as data says where it runs (stock's message speaks of Windows only)."""
    del module
    if host_has_gpu():
        return
    import torch

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(RUN_ELSEWHERE)

    patches(getattr(torch.ops.tensorrt, ENGINE_AS_DATA).default, "_op", refuse)


def graft_save_and_load(module: ModuleType, patches: Patches) -> None:
    stock_save, stock_load = module.save, module.load

    @functools.wraps(stock_save)
    def save(module: Any, file_path: str = "", *args: Any, **kwargs: Any) -> None:
        if host_has_gpu() or not _engines_built_here(module):
            stock_save(module, file_path, *args, **kwargs)
            return
        given = inspect.signature(stock_save).bind(module, file_path, *args, **kwargs).arguments
        _save_engines_as_data(module, file_path, given)

    @functools.wraps(stock_load)
    def load(file_path: str = "", *args: Any, **kwargs: Any) -> Any:
        from torch_tensorrt_profiles.runtime._engines import engines_of

        loaded = _make_engines_live(stock_load(file_path, *args, **kwargs))
        engines_of(loaded)  # raises where an engine and its profile names do not belong together
        return loaded

    patches(module, "save", save)
    patches(module, "load", load)


def _engines_built_here(program: Any) -> bool:
    from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

    modules = getattr(program, "modules", None)
    return callable(modules) and any(isinstance(child, TorchTensorRTModule) for child in modules())


def _save_engines_as_data(program: Any, file_path: str, given: dict[str, Any]) -> None:
    import torch
    from torch_tensorrt.dynamo._exporter import export

    output_format = given.get("output_format", "exported_program")
    formats = ("exported_program", "torchscript", "aot_inductor", "executorch")
    if output_format not in formats:
        raise ValueError(f"output_format {output_format!r} is unknown; expected one of {', '.join(formats)}")
    if output_format != "exported_program":
        raise RuntimeError(
            f"output_format={output_format!r} needs a GPU. On this host a program can be saved with "
            f"output_format='exported_program' only; load it on a GPU host and save it there as {output_format!r}."
        )
    if not file_path:
        raise ValueError("file_path is empty; expected the path of the file to write, such as 'program.pt2'")
    _refuse_sizes_as_outputs(program)
    with cuda_questions_answered():
        exported = export(program, cross_compile_module=True, use_legacy_exporter=True)
    ranges = program.meta.get(_RANGES, {})
    exported.range_constraints.update((s, r) for s, r in ranges.items() if s in exported.range_constraints)
    options = {name: given[name] for name in ("extra_files", "pickle_protocol") if given.get(name) is not None}
    torch.export.save(exported, file_path, **options)


def _refuse_sizes_as_outputs(program: Any) -> None:
    """An engine as data has tensors for outputs; torch would say so by printing the node, engine and all."""
    import torch

    for node in program.graph.nodes:
        made = node.meta.get("val") if node.op in ("call_module", "placeholder", "call_function") else None
        for index, value in enumerate(made if isinstance(made, (list, tuple)) else ()):
            if not isinstance(value, torch.Tensor):
                raise ValueError(
                    f"output {index} of engine {node.name!r} is a size, not a tensor, and cannot be saved on a host "
                    f"without a GPU. Return tensors only (the caller can read a size off them), or save on a GPU host."
                )


def _holds_engines_as_data(program: Any) -> bool:
    graph = getattr(getattr(program, "graph_module", None), "graph", None)
    return graph is not None and any(ENGINE_AS_DATA in node.name for node in graph.nodes)


def _make_engines_live(program: Any) -> Any:
    """Engines of a program that was built without a GPU, made for this host's current device."""
    if not host_has_gpu() or not _holds_engines_as_data(program):
        return program
    from torch_tensorrt._Device import Device

    current = Device._current_device()
    return with_live_engines(program, current._to_serialized_rt_device(), f"cuda:{current.gpu_id}")


def with_live_engines(program: Any, device_record: str, location: str) -> Any:
    """A program with its engines as data, with live ones instead.

    Args:
        program: the ExportedProgram; it is used up.
        device_record: Torch-TensorRT's description of the device, which takes the place of the stand-in's.
        location: torch's name of that device; weights that stayed in PyTorch go there.
    """
    import torch
    from torch.export import ExportedProgram
    from torch.export.passes import move_to_device_pass
    from torch_tensorrt.dynamo._exporter import lift, replace_execute_engine_no_op_node

    device_argument = int(torch.ops.tensorrt.DEVICE_IDX()) + 1  # the list of input tensors comes first
    for node in program.graph_module.graph.nodes:
        if ENGINE_AS_DATA in node.name:
            node.args = (*node.args[:device_argument], device_record, *node.args[device_argument + 1 :])
    # Moved first: the pass validates, and an engine that is not lifted yet is not valid.
    live = replace_execute_engine_no_op_node(move_to_device_pass(program, location))
    graph_module, signature, _, engines = lift(live.graph_module, live.graph_signature)
    # lift() puts the engines' specs first, but their placeholders right before the user's inputs.
    specs = {spec.arg.name: spec for spec in signature.input_specs}
    placeholders = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    signature.input_specs[:] = [specs[name] for name in placeholders]
    return ExportedProgram(
        root=graph_module,
        graph=graph_module.graph,
        graph_signature=signature,
        state_dict=live.state_dict,
        range_constraints=live.range_constraints,
        module_call_graph=live.module_call_graph,
        example_inputs=live.example_inputs,
        constants={**live.constants, **engines},
    )
