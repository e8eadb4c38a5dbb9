"""Run as a program of its own: ``python _probe.py FINDINGS [FOLDER]``.

Appends what it finds to the file FINDINGS, one JSON object a line, as it goes: it may not live to the end. With FOLDER,
and a GPU, it builds a small engine and profiles it there.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any


def main(findings: str, folder: str) -> None:
    def tell(**found: Any) -> None:
        with open(findings, "a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")

    import torch

    try:
        import torch_tensorrt
    except BaseException as error:  # without a GPU it is not imported where this package does not see to that
        tell(import_error=" ".join(f"{type(error).__name__}: {error}".split()))
        if (activation := sys.modules.get("torch_tensorrt_profiles._activate")) is not None:
            tell(refusal=activation.refusal())
        raise
    features = getattr(torch_tensorrt, "ENABLED_FEATURES", None)  # older versions do not tell of TensorRT-RTX
    tell(imported=torch_tensorrt.__version__, builds_anywhere=getattr(features, "tensorrt_rtx", False))
    ours = sys.modules.get("torch_tensorrt_profiles")  # before it is imported here, which would activate it
    active = ours is not None and ours.is_active()
    from torch_tensorrt_profiles import _activate, _library

    tell(active=active, refusal=_activate.refusal())
    if active:
        tell(library_file=torch.ops.tensorrt._profiles_library())
    else:
        tell(library=_problem_of(_library))
    tell(cuda=torch.version.cuda, devices=_devices())
    if not active:
        tell(no_engine="not run: Torch-TensorRT is not extended")
    elif not torch.cuda.is_available():
        tell(no_engine="not run: no GPU")
    elif not folder:
        tell(no_engine="not run: --no-run")
    else:
        tell(engine=_engine(folder))


def _problem_of(library: Any) -> str | None:
    """Why the library does not load; it may be sound though activation was refused before it came to that."""
    try:
        library._loaded()
    except library.LibraryError as error:
        return str(error)
    return None


def _devices() -> list[tuple[str, str]]:
    import torch

    if not torch.cuda.is_available():
        return []
    return [
        (torch.cuda.get_device_name(i), ".".join(map(str, torch.cuda.get_device_capability(i))))
        for i in range(torch.cuda.device_count())
    ]


def _engine(folder: str) -> dict[str, Any]:
    """Whether an engine is built, runs, is selected by name and writes traces: our guard has let it through then."""
    try:
        return {"ok": True, "found": _built_and_profiled(folder)}
    except Exception as error:
        traceback.print_exc()
        return {"ok": False, "found": f"{type(error).__name__}: {error}"}


def _built_and_profiled(folder: str) -> str:
    import torch
    import torch_tensorrt
    from torch_tensorrt.dynamo import OptimizationProfile
    from torch_tensorrt.runtime import optimization_profile, profile_execution

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()).eval().requires_grad_(False).cuda()
    x = torch.randn(4, 16, device="cuda")
    exported = torch.export.export(model, (x,), dynamic_shapes={"input": {0: torch.export.Dim("batch", min=1, max=8)}})
    profiles = [OptimizationProfile("many", {"input": {0: (2, 4, 8)}}), OptimizationProfile("one", {"input": {0: 1}})]
    program = torch_tensorrt.dynamo.compile(exported, optimization_profiles=profiles, min_block_size=1)
    for name, batch in (("one", x[:1]), ("many", x)):
        with profile_execution(folder), optimization_profile(program, name):
            torch.testing.assert_close(program(batch), model(batch), rtol=2e-2, atol=2e-2)
    traces = list(Path(folder).rglob("*_engine_execution_profile.trace"))
    if not traces:
        raise RuntimeError("the engine ran, but wrote no trace")
    return "built, run under two profiles by name, and profiled: the library knows Torch-TensorRT's engine class"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
