"""``runtime_config`` and ``runtime_cache`` for every form that a program is deployed in.

Torch-TensorRT keeps an engine's RuntimeSettings on the TorchTensorRTModule that holds it, and its context managers look
for such modules. The engines of loaded programs, TorchScript programs and AOTInductor packages have none: theirs are
set on the engine itself. What it was set to before is asked of the C++ library, which takes part in each such call.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from types import ModuleType
from typing import Any

import torch

from torch_tensorrt_profiles._patching import Patches
from torch_tensorrt_profiles.runtime._engines import (
    ProgramEngine,
    engines_for,
    engines_of,
    live_engines_of,
    may_be_compiled_again,
)

logger = logging.getLogger(__name__)


def graft_config(module: ModuleType, patches: Patches) -> None:
    cls = module._RuntimeConfigContextManager
    stock_init, stock_enter, stock_exit = cls.__init__, cls.__enter__, cls.__exit__

    @functools.wraps(stock_init)
    def init(self: Any, target_or_targets: Any, **overrides: Any) -> None:
        stock_init(self, _listed(target_or_targets), **overrides)
        self._yield_tuple = self._yield_tuple and _is_several(target_or_targets)

    @functools.wraps(stock_enter)
    def enter(self: Any) -> Any:
        programs, is_several = self._targets, self._yield_tuple
        vars(self).setdefault("_restore", contextlib.ExitStack())
        # Stock's own blocks look it up when they end, which may be after deactivate().
        self.__exit__ = functools.partial(leave, self)
        try:
            self._targets = tuple(program for program in programs if isinstance(program, torch.nn.Module))
            self._yield_tuple = True
            try:
                stock_enter(self)
            finally:
                self._targets, self._yield_tuple = programs, is_several
            for program in programs:
                engines = engines_for(program, "runtime_config()")
                for engine in engines:
                    _set_engine(module, self, engine)
                if not engines:
                    logger.warning(
                        "runtime_config() found no TensorRT engine in %s, so nothing is set. Give the program that was "
                        "compiled or loaded.",
                        type(program).__name__,
                    )
        except BaseException:
            leave(self, None, None, None)
            raise
        return programs if is_several else programs[0]

    @functools.wraps(stock_exit)
    def leave(self: Any, *args: Any) -> None:
        vars(self).pop("__exit__", None)  # a cycle, which would keep the program until it is collected
        try:
            vars(self).pop("_restore", contextlib.ExitStack()).close()  # none where stock entered it
        finally:
            stock_exit(self, *args)
            self._saved.clear()  # stock sets nothing on what is still in there when the block is entered again

    patches(cls, "__init__", init)
    patches(cls, "__enter__", enter)
    patches(cls, "__exit__", leave)


def graft_cache(module: ModuleType, patches: Patches) -> None:
    cls = module._RuntimeCacheContextManager
    stock_init, stock_enter = cls.__init__, cls.__enter__

    @functools.wraps(stock_init)
    def init(self: Any, target_or_targets: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(self, _listed(target_or_targets), *args, **kwargs)

    @functools.wraps(stock_enter)
    def enter(self: Any) -> Any:
        if all(_is_of_modules(program) for program in self._targets):
            return stock_enter(self)
        for program in self._targets:
            live_engines_of(program, "runtime_cache()")
        from torch_tensorrt.runtime import runtime_config

        self.handle = module.RuntimeCache(path=self.path, autosave_on_del=False)
        self._load_into(self.handle)
        self._inner_cm = runtime_config(self._targets, runtime_cache=self.handle)
        self._inner_cm.__enter__()
        return self.handle

    patches(cls, "__init__", init)
    patches(cls, "__enter__", enter)


def _is_several(target_or_targets: Any) -> bool:
    return not isinstance(target_or_targets, (torch.nn.Module, str)) and hasattr(type(target_or_targets), "__iter__")


def _listed(target_or_targets: Any) -> Any:
    """As stock takes it: a module, or a sequence."""
    if isinstance(target_or_targets, torch.nn.Module) or _is_several(target_or_targets):
        return target_or_targets
    return (target_or_targets,)


def _is_of_modules(program: Any) -> bool:
    """Whether stock sees all engines of the program, which may be none."""
    if not isinstance(program, torch.nn.Module) or may_be_compiled_again(program):
        return False
    return all(engine.module is not None for engine in engines_of(program))


def _set_engine(module: ModuleType, manager: Any, engine: ProgramEngine) -> None:
    """Sets what stock did not reach, and notes how to set it back."""
    if engine.live is None or engine.module in manager._saved:
        return
    if engine.module is not None:  # of a program whose modules stock does not walk
        manager._saved[engine.module] = engine.module.runtime_settings
        engine.module.runtime_settings = engine.module.runtime_settings.merge(**manager._overrides)
        return
    before = _settings_of(module, engine.live)
    settings = before.merge(**manager._overrides)
    if isinstance(settings.runtime_cache, str):
        settings = settings.merge(runtime_cache=_cache_at(manager, settings.runtime_cache))
    manager._restore.callback(_apply, module, engine.live, before)
    _apply(module, engine.live, settings)


def _cache_at(manager: Any, path: str) -> Any:
    """A cache in a file, one for all engines of a block. It is saved when the block ends."""
    from torch_tensorrt.runtime import RuntimeCache

    if not path:
        return None
    cache = vars(manager).get("_cache")
    if cache is None:
        cache = manager._cache = RuntimeCache(path=path)
        try:
            cache.load()
        except Exception as error:  # as stock: what cannot be read is compiled again
            logger.warning("The runtime cache at %s could not be read, and begins empty: %s", path, error)
        manager._restore.callback(_save_cache, manager)
    return cache


def _save_cache(manager: Any) -> None:
    cache = vars(manager).pop("_cache")
    try:
        cache.save()
    except Exception as error:  # as stock: a full disk is no reason to lose what the block computed
        logger.warning("The runtime cache could not be saved to %s: %s", cache.path, error)


def _settings_of(module: ModuleType, engine: Any) -> Any:
    settings = module.RuntimeSettings(runtime_cache=None)  # what an engine begins with
    last = torch.ops.tensorrt._get_runtime_settings(engine)
    if not last:
        return settings
    kernels, graphs, cache = last
    return settings.merge(
        dynamic_shapes_kernel_specialization_strategy=_name_of(kernels, module._DYNAMIC_SHAPES_KERNEL_STRATEGY_MAP),
        cuda_graph_strategy=_name_of(graphs, module._CUDA_GRAPH_STRATEGY_MAP),
        runtime_cache=cache,
    )


def _apply(module: ModuleType, engine: Any, settings: Any) -> None:
    from torch_tensorrt.runtime._runtime_cache import _to_torchbind_handle

    engine.update_runtime_settings(
        module._DYNAMIC_SHAPES_KERNEL_STRATEGY_MAP[settings.dynamic_shapes_kernel_specialization_strategy],
        module._CUDA_GRAPH_STRATEGY_MAP[settings.cuda_graph_strategy],
        _to_torchbind_handle(settings.runtime_cache),
    )


def _name_of(number: int, numbers: dict[str, int]) -> str:
    return next(name for name, value in numbers.items() if value == number)
