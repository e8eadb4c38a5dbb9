"""``enable_cudagraphs`` for programs with optimization profiles.

Torch-TensorRT chooses how: a program with graph breaks becomes one graph (``CudaGraphsTorchTensorRTModule``), any other
gets a graph per engine, which the runtime makes anew whenever the engine's profile has been switched. Programs without
profiles go the way of stock, untouched.
"""

from __future__ import annotations

import functools
import logging
from types import ModuleType
from typing import Any

import torch

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.dynamo._refusals import KEYWORD
from torch_tensorrt_profiles.runtime._bound_method import graft_bound_method
from torch_tensorrt_profiles.runtime._engines import engines_for, engines_of, may_be_compiled_again
from torch_tensorrt_profiles.runtime._program_inputs import example_leaves, profile_to_warm_up, program_inputs
from torch_tensorrt_profiles.runtime._whole_graphs import WholeGraphs, device_of

logger = logging.getLogger(__name__)


def has_profiles(program: Any) -> bool:
    """Whether an engine of the program holds several profiles, or a named one."""
    return any(engine.count > 1 or any(engine.names) for engine in engines_of(program))


def graft_wrapper(module: ModuleType, patches: Patches) -> None:
    cls = module.CudaGraphsTorchTensorRTModule
    wrapper = _wrapper_with_profiles(module)
    stock_init = cls.__init__

    @functools.wraps(stock_init)
    def init(self: Any, compiled_module: Any) -> None:
        if type(self) is cls and has_profiles(compiled_module):
            self.__class__ = wrapper
            self.wrap(compiled_module)
        else:
            stock_init(self, compiled_module)

    patches(cls, "__init__", init)
    graft_bound_method(cls, patches)


def _wrapper_with_profiles(module: ModuleType) -> type:
    stock: Any = module.CudaGraphsTorchTensorRTModule

    class CudaGraphsWithProfiles(stock):  # type: ignore[misc]
        """Torch-TensorRT's wrapper for a program with profiles: a graph per profile, shape and stream, all kept.

        Results are tensors of the caller's own, in the structure that the program returns without graphs.
        """

        def wrap(self, program: Any) -> None:
            """Wraps ``program``, or wraps it instead of the one before, and warms it up."""
            for engine in engines_of(program):
                engine.require_live()
            if "_modules" not in vars(self):
                torch.nn.Module.__init__(self)
            self._reset_captured_graph()
            self.compiled_module = program
            self.is_weight_streaming_set = False
            self.use_output_allocator_outputs = False
            self._graphs = WholeGraphs(program)
            self.warm_up()

        def warm_up(self) -> None:
            """Runs the program, uncaptured, at the optimum of the profile that a call on this thread would run on."""
            engines = engines_of(self.compiled_module)
            record = program_inputs(self.compiled_module)
            self._leave_graphs_to_us()
            if record is None:  # no names, so no ranges either: as stock does it
                self.inputs = module.partitioning.construct_submodule_inputs(self.compiled_module)
                super().warm_up()
                return
            selected = [int(torch.ops.tensorrt.get_active_profile(engine.live)) for engine in engines]
            index = profile_to_warm_up(engines, selected)
            if index is None:
                logger.info("Not warmed up: the engines are on profiles %s, and no input fits all of these.", selected)
                return
            leaves = example_leaves(record, index, device_of([]))
            self._graphs.warm_up(leaves, self.compiled_module._in_spec)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            from torch_tensorrt.runtime import get_whole_cudagraphs_mode

            if self.is_weight_streaming_set or not get_whole_cudagraphs_mode():
                self.is_weight_streaming_set = False
                self._reset_captured_graph()
            if not get_whole_cudagraphs_mode():
                return self.compiled_module(*args, **kwargs)
            return self._graphs.run(args, kwargs, self._before_capture)

        @property
        def graph_counters(self) -> dict[str, int]:
            """``captures`` and ``replays`` since the program was wrapped, and ``kept``, the graphs there are."""
            graphs = self._graphs
            return {"captures": graphs.captures, "replays": graphs.replays, "kept": graphs.kept}

        def _reset_captured_graph(self) -> None:
            graphs = vars(self).get("_graphs")
            if graphs is not None:  # also called by __del__, whatever became of __init__
                graphs.reset()

        def _before_capture(self, stream: Any) -> None:
            self._leave_graphs_to_us()
            self._check_monolithic_capturability(stream)

        def _leave_graphs_to_us(self) -> None:
            """Switches TensorRT-RTX's own graphs off: inside a capture the runtime would drop the context in use."""
            from torch_tensorrt.dynamo.runtime import TorchTensorRTModule

            for name, part in self.compiled_module.named_modules():
                if isinstance(part, TorchTensorRTModule):
                    settings = part.runtime_settings
                    if settings.cuda_graph_strategy != "disabled":
                        part.runtime_settings = settings.merge(cuda_graph_strategy="disabled")
                        logger.info("Disabled TensorRT-RTX's own CUDA graphs of %s: the whole program is one.", name)

    return CudaGraphsWithProfiles


def graft_context(module: ModuleType, patches: Patches) -> None:
    cls, wrapper_cls = module._CudagraphsContextManager, module.CudaGraphsTorchTensorRTModule
    stock_enter, stock_exit = cls.__enter__, cls.__exit__

    @functools.wraps(stock_enter)
    def enter(self: Any) -> Any:
        if not _is_of_python_modules(self.compiled_module):
            return _enter_without_modules(module, self)
        if not has_profiles(self.compiled_module):
            return stock_enter(self)
        try:
            entered = stock_enter(self)
        except BaseException:
            stock_exit(self, None, None, None)  # the mode and the engines' settings are set by now
            raise
        wrapped = entered if self.old_module is None else entered.gm  # of a MutableTorchTensorRTModule
        if isinstance(wrapped, wrapper_cls):
            self.cudagraphs_module = wrapped  # whose graphs stock means to free on exit
        return entered

    @functools.wraps(stock_exit)
    def leave(self: Any, *args: Any) -> None:
        program = self.compiled_module
        if self.old_module is not None and program.additional_settings.get(KEYWORD) is not None:
            # It may have been compiled again inside the block, and the weights of before must not come back.
            self.old_module = unwrapped(program.gm)
        stock_exit(self, *args)

    patches(cls, "__enter__", enter)
    patches(cls, "__exit__", leave)


def _is_of_python_modules(program: Any) -> bool:
    """Whether stock can look into the program and wrap it."""
    if isinstance(program, torch.jit.ScriptModule):
        return False
    return isinstance(program, torch.nn.Module) or may_be_compiled_again(program)


def _enter_without_modules(module: ModuleType, manager: Any) -> Any:
    """For the runner of an AOTInductor package or TorchScript: a graph per engine. Stock's exit undoes it."""
    engines_for(manager.compiled_module, "enable_cudagraphs()")
    if manager._cuda_graph_strategy is not None:
        from torch_tensorrt.runtime import runtime_config

        manager._inner_cm = runtime_config(manager.compiled_module, cuda_graph_strategy=manager._cuda_graph_strategy)
        manager._inner_cm.__enter__()
    module.set_cudagraphs_mode(True)
    return manager.compiled_module


def unwrapped(program: Any) -> Any:
    """The program inside a wrapper for whole-graph CUDA graphs, or ``program`` itself."""
    from torch_tensorrt.dynamo.runtime._CudaGraphsTorchTensorRTModule import CudaGraphsTorchTensorRTModule

    return program.compiled_module if isinstance(program, CudaGraphsTorchTensorRTModule) else program


def rewrapped(before: Any, program: Any) -> Any:
    """``program``, wrapped as ``before`` is: inside an ``enable_cudagraphs`` block a program may be compiled again."""
    from torch_tensorrt.dynamo.runtime._CudaGraphsTorchTensorRTModule import CudaGraphsTorchTensorRTModule

    if not isinstance(before, CudaGraphsTorchTensorRTModule):
        return program
    before.wrap(program)
    return before
