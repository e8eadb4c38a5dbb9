"""``program.optimization_profile("decode")``: the context manager as a method.

It goes on the class: on an instance it would make torch.save recurse, and deepcopy would lose it.
"""

from __future__ import annotations

from typing import Any

from torch_tensorrt_profiles._patching import Patches

NAME = "optimization_profile"


def optimization_profile(self: Any, profile: Any, *, fallback: bool = False) -> Any:
    """Selects an optimization profile of this program's engines for a ``with`` block.

    See :func:`torch_tensorrt.runtime.optimization_profile`.
    """
    from torch_tensorrt_profiles.runtime._optimization_profile import optimization_profile as select

    return select(self, profile, fallback=fallback)


class _Method:
    """The method, unless the module has a child, a parameter or a buffer of that name: those are not on its class."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        for held in ("_modules", "_parameters", "_buffers"):
            if instance is not None and NAME in vars(instance).get(held, {}):
                return vars(instance)[held][NAME]
        return optimization_profile.__get__(instance, owner)


def graft_bound_method(cls: type, patches: Patches) -> None:
    patches(cls, NAME, _Method())
