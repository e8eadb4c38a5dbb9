"""``torchtrtprof``: the command of this package. Each command is a module here, imported when it is called."""

from __future__ import annotations

from torch_tensorrt_profiles.cli._main import main

__all__ = ["main"]
