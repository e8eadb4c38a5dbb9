"""Saved programs with live engines, as torch's own pickler writes them but for its memo.

An engine object can be made on a GPU host only. These were compared with files that torch 2.14.1 wrote from a class of
the engine's name.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch_tensorrt_profiles.dynamo import _metadata
from torch_tensorrt_profiles.dynamo._metadata import EngineProfiles

ENGINE_CLASS = "__torch__.torch.classes.tensorrt.Engine"
PLAN = b"a TensorRT engine"
PROFILES = EngineProfiles(
    ("prefill", "decode"),
    ({"ids": ((1, 16), (1, 64), (1, 128))}, {"ids": ((1, 1), (1, 1), (1, 1))}),
)


def packed_engine(name: str = "_run_on_acc_0_engine", *, profiles: EngineProfiles | None = PROFILES) -> list[str]:
    import torch

    metadata = {
        "settings": {"immutable_weights": True},
        "inout_symexprs": {
            "inputs": [{"name": "ids", "dtype": torch.int64, "shape_exprs": [1, 8]}],
            "outputs": [{"dtype": torch.float16, "shape_exprs": [1, 8, 16]}],
        },
        "output_tensors_are_unowned": False,
    }
    encoded = base64.b64encode(pickle.dumps(metadata)).decode()
    if profiles is not None:
        encoded = _metadata.append(encoded, profiles)
    plan = base64.b64encode(PLAN).decode()
    return ["10", name, "0%9%0%0%NVIDIA H200", plan, "ids", "output0", "0", encoded, "linux_x86_64", "0", "0", "0", ""]


def text_opcodes(text: str) -> bytes:
    raw = text.encode()
    return b"X" + len(raw).to_bytes(4, "little") + raw


def engine_opcodes(packed: Sequence[str]) -> bytes:
    """An engine object in a pickle of torch::jit: class, NEWOBJ, state with its type tag, BUILD."""
    module, _, name = ENGINE_CLASS.rpartition(".")
    state = b"]" + b"(" + b"".join(map(text_opcodes, packed)) + b"e"
    tagged = b"ctorch.jit._pickle\nrestore_type_tag\n" + state + text_opcodes("List[str]") + b"\x86R"
    return f"c{module}\n{name}\n".encode() + b")\x81" + tagged + b"b"


def custom_object(packed: Sequence[str]) -> bytes:
    """As AOTInductor puts an engine into its archive: an archive with a pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + engine_opcodes(packed) + b".")
        archive.writestr("archive/version", "3\n")
    return buffer.getvalue()


def opaque_object(packed: Sequence[str]) -> bytes:
    """As torch.export puts an engine into its archive since 2.14: a pickle that calls Torch-TensorRT's factory."""
    factory = b"ctorch_tensorrt.dynamo.runtime._TRTEngine\n_reconstruct_trt_engine\n"
    return b"\x80\x02" + factory + b"](" + b"".join(map(text_opcodes, packed)) + b"e\x85R."


def write_archive(path: Path, members: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{path.stem}/{name}", content)
    return path


def write_package(path: Path, engines: Sequence[Sequence[str]], **metadata: str) -> Path:
    """An AOTInductor package."""
    folder = "data/aotinductor/model"
    names = [f"custom_obj_{number}" for number in range(len(engines))]
    return write_archive(
        path,
        {
            f"{folder}/c0.wrapper.so": b"\x7fELF",
            f"{folder}/c0.wrapper_metadata.json": json.dumps({"AOTI_DEVICE_KEY": "cuda", **metadata}),
            f"{folder}/c0.kernel_metadata.json": json.dumps({"AOTI_DEVICE_KEY": "cpu"}),
            f"{folder}/custom_objs_config.json": json.dumps({f"_torchbind_obj{i}": n for i, n in enumerate(names)}),
            **{f"data/constants/{n}": custom_object(packed) for n, packed in zip(names, engines, strict=True)},
            "archive_format": "pt2",
        },
    )


def write_exported(path: Path, engines: Sequence[Sequence[str]]) -> Path:
    """An exported program with live engines."""
    sizes: list[dict[str, Any]] = [{"as_int": 1}, {"as_expr": {"expr_str": "Symbol('s0', positive=True)"}}]
    model = {
        "graph_module": {
            "graph": {
                "nodes": [{"target": "torch.ops.tensorrt.execute_engine.default", "inputs": []}],
                "tensor_values": {"ids": {"dtype": 5, "sizes": sizes}},
            },
            "signature": {
                "input_specs": [
                    {"custom_obj": {"arg": {"name": "obj_engine"}}},
                    {"user_input": {"arg": {"as_tensor": {"name": "ids"}}}},
                ]
            },
        },
        "range_constraints": {"s0": {"min_val": 1, "max_val": None}},
        "torch_version": "2.14.1",
    }
    constants = {f"data/constants/opaque_obj_{i}": opaque_object(packed) for i, packed in enumerate(engines)}
    return write_archive(path, {"models/model.json": json.dumps(model), **constants, "archive_format": "pt2"})


def write_torchscript(path: Path, packed: Sequence[str]) -> Path:
    pickled = b"\x80\x02c__torch__\nM\n)\x81}(" + text_opcodes("training") + b"\x89"
    pickled += text_opcodes("engine") + engine_opcodes(packed) + b"ub."
    return write_archive(path, {"data.pkl": pickled, "code/__torch__.py": "class M(Module): ...", "version": "3\n"})
