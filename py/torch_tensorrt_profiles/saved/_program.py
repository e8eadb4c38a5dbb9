"""A saved program: which form of file it is, and the engines in it."""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch_tensorrt_profiles.dynamo._gpuless import ENGINE_AS_DATA
from torch_tensorrt_profiles.report._text_table import printable
from torch_tensorrt_profiles.runtime._module import RECORD
from torch_tensorrt_profiles.saved._engine import EngineError, SavedEngine, from_module_state, from_packed
from torch_tensorrt_profiles.saved._inputs import Extent, ProgramInput, inputs_of_wrapper, with_engine_names
from torch_tensorrt_profiles.saved._pickles import Opaque, PickleError, read_pickle, walk

_SYMBOL = re.compile(r"Symbol\('([^']+)'[^()]*\)")
_ENGINE_CLASS = "__torch__.torch.classes.tensorrt.Engine"
_ENGINE_FACTORY = "torch_tensorrt.dynamo.runtime._TRTEngine._reconstruct_trt_engine"  # as Torch-TensorRT pickles it

#: What the graph of an exported program calls its data types (``ScalarType`` in torch's schema), checked by a test.
_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
    30: "float8_e5m2", 34: "uint32", 35: "uint64",
}  # fmt: skip

EXPORTED = "exported program"
EXPORTED_AS_DATA = "exported program with its engines as data"
AOT_INDUCTOR = "AOTInductor package"
TORCHSCRIPT = "TorchScript program"
PICKLED = "file of torch.save"


class ProgramError(ValueError):
    """A file is no program that can be looked into; the message says what it is and what was expected."""


@dataclass
class SavedProgram:
    """What a file says of itself.

    Attributes:
        form: one of the names above.
        built_with: versions and the like, as the file has them.
        inputs: in the order of the call, flattened; empty where the form does not tell them.
        remarks: what could not be read.
    """

    path: Path
    form: str
    engines: list[SavedEngine] = field(default_factory=list)
    built_with: dict[str, str] = field(default_factory=dict)
    inputs: list[ProgramInput] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def read_program(path: Path) -> SavedProgram:
    """Looks into a saved program.

    Args:
        path: what ``torch_tensorrt.save``, ``torch.export.save``, ``torch.jit.save``, ``torch.save`` or
            ``aoti_compile_and_package`` wrote.

    Raises:
        ProgramError: there is no such file, or it is cut off, damaged or something else.
    """
    if not path.exists():
        raise ProgramError(f"{path} does not exist")
    if path.is_dir():
        raise ProgramError(f"{path} is a directory; expected the file of a saved program, such as program.pt2")
    if not path.is_file():  # a pipe would be waited for
        raise ProgramError(f"{path} is no regular file; expected the file of a saved program, such as program.pt2")
    try:
        with path.open("rb") as file:
            start = file.read(4)
        if not zipfile.is_zipfile(path):
            raise ProgramError(f"{path} {_what_instead(start)}")
        with zipfile.ZipFile(path) as archive:
            return _Archive(path, archive).read()
    except OSError as error:
        raise ProgramError(f"{path} cannot be read: {error.strerror or error}") from None
    except ProgramError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise ProgramError(f"{path} is damaged: {printable(str(error))}. Copy or save it again") from None


def _what_instead(start: bytes) -> str:
    if not start:
        return "is empty; expected a saved program"
    if start.startswith(b"PK"):
        return "is cut off: its table of contents is missing. Copy or save it again"
    return f"is no saved program: those are zip archives, and it begins with {start!r}"


class _Archive:
    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._zip = archive
        # torch puts everything into one folder, called after the file as it was when it was saved.
        self._members = {name.partition("/")[2]: name for name in archive.namelist()}

    def read(self) -> SavedProgram:
        names = self._members
        if any(name.startswith("data/aotinductor/") for name in names):
            return self._aot_inductor()
        if any(name.startswith("models/") and name.endswith(".json") for name in names):
            return self._exported()
        if "data.pkl" in names:
            return self._pickled(TORCHSCRIPT if any(name.startswith("code/") for name in names) else PICKLED)
        if "serialized_exported_program.json" in names:
            raise ProgramError(
                f"{self._path} was exported by an older torch; load it and save it again with torch 2.14"
            )
        raise ProgramError(
            f"{self._path} is a zip archive, but no saved program: it has none of models/*.json, data/aotinductor/ and "
            f"data.pkl"
        )

    def _bytes(self, name: str) -> bytes:
        return self._zip.read(self._members[name])

    def _json(self, name: str) -> Any:
        try:
            return json.loads(self._bytes(name))
        except (ValueError, RecursionError) as error:
            raise ProgramError(f"{self._path} is damaged: {printable(name)} is not JSON ({error})") from None

    def _pickle(self, name: str) -> Any:
        try:
            return read_pickle(self._bytes(name))
        except PickleError as error:
            raise ProgramError(f"{self._path} is damaged: {printable(f'{name} {error}')}") from None

    def _exported(self) -> SavedProgram:
        program = SavedProgram(self._path, EXPORTED)
        for name in sorted(self._members):
            if name.startswith("models/") and name.endswith(".json"):
                model = self._json(name)
                try:
                    self._take_model(program, model)
                except (KeyError, TypeError, AttributeError, ValueError) as error:
                    what = f"{printable(name)} is no exported program ({error!r})"
                    raise ProgramError(f"{self._path} is damaged: {what}") from None
        self._take_constants(program)
        return program

    def _take_model(self, program: SavedProgram, model: dict[str, Any]) -> None:
        graph = model["graph_module"]["graph"]
        if "torch_version" in model:
            program.built_with["torch"] = str(model["torch_version"])
        ranges = model.get("range_constraints", {})
        for spec in model["graph_module"]["signature"]["input_specs"]:
            tensor = spec.get("user_input", {}).get("arg", {}).get("as_tensor")
            if tensor is not None:
                program.inputs.append(_program_input(tensor["name"], graph["tensor_values"][tensor["name"]], ranges))
        for node in graph["nodes"]:
            if ENGINE_AS_DATA in node["target"]:
                program.form = EXPORTED_AS_DATA
                # The list of input tensors, then the engine's strings in their order.
                packed = [argument["arg"].get("as_string", "") for argument in node["inputs"][1:]]
                self._take(program, packed)

    def _take_constants(self, program: SavedProgram) -> None:
        for name in sorted(self._members, key=_number_behind):
            if name.startswith("data/constants/custom_obj_"):
                self._take_object(program, name, self._pickle_inside)
            elif name.startswith("data/constants/opaque_obj_"):  # torch.export's form, a pickle of Python
                self._take_object(program, name, read_pickle)

    @staticmethod
    def _pickle_inside(content: bytes) -> Any:
        """A custom object is a zip archive of its own inside the archive, with one pickle in it."""
        with zipfile.ZipFile(io.BytesIO(content)) as inner:
            return read_pickle(next(inner.read(name) for name in inner.namelist() if name.endswith("/data.pkl")))

    def _take_object(self, program: SavedProgram, name: str, read: Callable[[bytes], Any]) -> None:
        try:
            held = read(self._bytes(name))
        except (zipfile.BadZipFile, StopIteration, PickleError) as error:
            program.remarks.append(f"{name} cannot be read: {error}")
            return
        for packed in _packed_engines(held):
            self._take(program, packed)

    def _take(self, program: SavedProgram, packed: list[Any]) -> None:
        try:
            program.engines.append(from_packed(packed))
        except EngineError as error:
            program.remarks.append(str(error))

    def _aot_inductor(self) -> SavedProgram:
        program = SavedProgram(self._path, AOT_INDUCTOR)
        for name in sorted(self._members):
            if name.startswith("data/aotinductor/") and name.endswith("wrapper_metadata.json"):
                metadata = self._json(name)
                if isinstance(metadata, dict):
                    program.built_with.update({key: str(value) for key, value in metadata.items() if value != ""})
            if name.startswith("data/aotinductor/") and name.endswith("wrapper.cpp"):
                program.inputs = inputs_of_wrapper(self._bytes(name).decode(errors="replace"))
        self._take_constants(program)
        program.inputs = with_engine_names(program.inputs, program.engines)
        return program

    def _pickled(self, form: str) -> SavedProgram:
        program = SavedProgram(self._path, form)
        held = self._pickle("data.pkl")
        for packed in _packed_engines(held):
            self._take(program, packed)
        for value in walk(held):
            if isinstance(value, Opaque) and type(value).origin.endswith("._TorchTensorRTModule.TorchTensorRTModule"):
                state = value.state if isinstance(value.state, dict) else {}
                # A module with a live engine was taken already, by the engine.
                engine = from_module_state(state, RECORD) if state.get("engine") is None else None
                if engine is not None:
                    program.engines.append(engine)
        return program


def _packed_engines(held: Any) -> Iterator[list[Any]]:
    """Engine objects, as torch::jit and as Python pickle them, and the extra state of modules (in a state_dict)."""
    for value in walk(held):
        if isinstance(value, Opaque):
            state = value.state
            if (
                type(value).origin == "torch.ScriptObject"
                and isinstance(state, tuple)
                and state[1:] == (_ENGINE_CLASS,)
            ):
                state = state[0]
            elif type(value).origin == _ENGINE_FACTORY:
                state = value.args[0] if value.args else None
            elif type(value).origin != _ENGINE_CLASS:
                continue
            if isinstance(state, list):
                yield state
        elif isinstance(value, tuple) and len(value) == 4 and isinstance(value[0], str) and isinstance(value[1], list):
            yield value[1]


def _number_behind(name: str) -> tuple[int, str]:
    digits = name.rpartition("_")[2]
    return (int(digits) if digits.isdigit() else -1, name)


def _program_input(name: str, tensor: dict[str, Any], ranges: dict[str, Any]) -> ProgramInput:
    shape: list[int | Extent] = []
    for extent in tensor["sizes"]:
        if "as_int" in extent:
            shape.append(int(extent["as_int"]))
            continue
        # Symbol('s18', positive=True, integer=True); what is computed from symbols has no range of its own.
        match = _SYMBOL.fullmatch(extent["as_expr"]["expr_str"])
        symbol = match[1] if match else None
        known = ranges.get(symbol, {}) if symbol else {}
        shape.append(Extent(symbol, _limit(known.get("min_val")), _limit(known.get("max_val"))))
    return ProgramInput(name, _DTYPES.get(tensor["dtype"]), tuple(shape))


def _limit(value: Any) -> int | None:
    return None if value is None else int(value)
