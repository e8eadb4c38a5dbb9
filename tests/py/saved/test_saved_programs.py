"""Looking into every form of saved program without loading it."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import pickle
import sys
import zipfile
from typing import Any

import pytest
import torch
from archives import (
    ENGINE_CLASS,
    PLAN,
    PROFILES,
    custom_object,
    packed_engine,
    text_opcodes,
    write_archive,
    write_exported,
    write_package,
    write_torchscript,
)
from torch_tensorrt_profiles._stand_ins import STAND_IN_NAME
from torch_tensorrt_profiles.dynamo import _metadata
from torch_tensorrt_profiles.saved import _program
from torch_tensorrt_profiles.saved._engine import FIELDS, Binding, EngineError
from torch_tensorrt_profiles.saved._inputs import Extent, ProgramInput
from torch_tensorrt_profiles.saved._pickles import Opaque, PickleError, plain, read_pickle, walk
from torch_tensorrt_profiles.saved._program import ProgramError, read_program


def assert_is_the_packed_engine(engine, name="_run_on_acc_0_engine"):
    assert engine.name == name
    assert engine.plan_bytes == len(PLAN)
    assert engine.plan_content() == PLAN
    assert engine.inputs == (Binding("ids", True, "int64", (1, 8)),)
    assert engine.outputs == (Binding("output0", False, "float16", (1, 8, 16)),)
    assert engine.device == {"id": "0", "capability": "9.0", "name": "NVIDIA H200"}
    assert engine.profiles == PROFILES
    assert engine.settings == {"immutable_weights": True}
    assert engine.remarks == ()


class TestForms:
    def test_aot_inductor(self, tmp_path):
        engines = [packed_engine(f"engine_{number}") for number in range(12)]
        program = read_program(write_package(tmp_path / "p.pt2", engines, team="vision"))
        assert program.form == "AOTInductor package"
        assert program.built_with == {"AOTI_DEVICE_KEY": "cuda", "team": "vision"}
        assert [engine.name for engine in program.engines] == [f"engine_{number}" for number in range(12)]
        assert_is_the_packed_engine(program.engines[0], "engine_0")

    def test_exported_program(self, tmp_path):
        program = read_program(write_exported(tmp_path / "p.ep", [packed_engine()]))
        assert program.form == "exported program"
        assert program.built_with == {"torch": "2.14.1"}
        assert program.inputs == [ProgramInput("ids", "int64", (1, Extent("s0", 1, None)))]
        assert_is_the_packed_engine(program.engines[0])

    def test_torchscript(self, tmp_path):
        program = read_program(write_torchscript(tmp_path / "p.ts", packed_engine()))
        assert program.form == "TorchScript program"
        assert_is_the_packed_engine(program.engines[0])

    def test_state_dict(self, tmp_path):
        state = ("_run_on_acc_0", [*packed_engine()], ["ids"], ["output0"])
        state[1][FIELDS.index("ENGINE")] = state[1][FIELDS.index("ENGINE")].encode()
        torch.save({"_run_on_acc_0._extra_state": state, "weight": torch.zeros(3)}, tmp_path / "p.pt")
        program = read_program(tmp_path / "p.pt")
        assert program.form == "file of torch.save"
        assert_is_the_packed_engine(program.engines[0])

    def test_a_module_with_a_live_engine_is_one_engine(self, tmp_path):
        """Python pickles an engine object by its state and class; its module may hold the engine's bytes besides."""
        path = tmp_path / "p.pt"
        pickled = b"\x80\x02ctorch_tensorrt.dynamo.runtime._TorchTensorRTModule\nTorchTensorRTModule\n)\x81}("
        pickled += text_opcodes("name") + text_opcodes("_run_on_acc_0")
        pickled += text_opcodes("serialized_engine") + b"c_codecs\nencode\n"
        pickled += text_opcodes("other bytes of it") + text_opcodes("latin1") + b"\x86R"
        pickled += (
            text_opcodes("engine") + b"ctorch\nScriptObject\n)\x81](" + b"".join(map(text_opcodes, packed_engine()))
        )
        pickled += b"e" + text_opcodes(ENGINE_CLASS) + b"\x86b" + b"ub."
        program = read_program(write_archive(path, {"data.pkl": pickled, "version": "3\n"}))
        assert program.form == "file of torch.save"
        (engine,) = program.engines
        assert_is_the_packed_engine(engine)

    def test_an_engine_without_names(self, tmp_path):
        (engine,) = read_program(write_package(tmp_path / "p.pt2", [packed_engine(profiles=None)])).engines
        assert engine.profiles is None
        assert engine.inputs == (Binding("ids", True, "int64", (1, 8)),)

    def test_a_program_without_engines(self, tmp_path):
        torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.zeros(1, 2)), str(tmp_path / "p.ts"))
        program = read_program(tmp_path / "p.ts")
        assert (program.form, program.engines, program.remarks) == ("TorchScript program", [], [])

    def test_an_exported_program_of_torch_alone(self, tmp_path):
        module = torch.nn.Linear(2, 2)
        dynamic = ({0: torch.export.Dim("batch", min=2, max=8)},)
        torch.export.save(
            torch.export.export(module, (torch.zeros(3, 2),), dynamic_shapes=dynamic), str(tmp_path / "p.pt2")
        )
        program = read_program(tmp_path / "p.pt2")
        (entry,) = program.inputs
        batch, width = entry.shape
        assert (entry.name, entry.dtype, batch.min, batch.max, width) == ("input", "float32", 2, 8, 2)
        assert program.engines == []


@pytest.fixture(scope="module")
def compiled():
    import torch_tensorrt
    from programs import export_two_inputs
    from torch_tensorrt.dynamo import OptimizationProfile

    profiles = [
        OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
        OptimizationProfile("decode", {"ids": {1: 1}}),
    ]
    return torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=profiles, min_block_size=1)


class TestRealBuilds:
    """Programs that Torch-TensorRT compiled here."""

    @pytest.mark.parametrize("form", ["torch_tensorrt.save", "torch.save", "state_dict"])
    def test_names_ranges_and_types(self, compiled, tmp_path, form):
        import torch_tensorrt

        path = tmp_path / "program"
        if form == "torch_tensorrt.save":
            torch_tensorrt.save(compiled, str(path), retrace=False)
        else:
            torch.save(compiled if form == "torch.save" else compiled.state_dict(), path)
        program = read_program(path)
        (engine,) = program.engines
        assert engine.name == "_run_on_acc_0_engine"
        assert engine.profiles is not None
        assert engine.profiles.names == ("prefill", "decode")
        assert engine.profiles.ranges[1] == dict.fromkeys(("ids", "positions"), ((2, 1),) * 3)
        ids, positions = engine.inputs
        assert (ids.name, ids.dtype, positions.name, positions.dtype) == ("ids", "int64", "positions", "int64")
        assert ids.symbols is not None
        assert ids.symbols == positions.symbols
        assert (ids.symbols[0], bool(ids.symbols[1])) == (2, True)
        assert engine.outputs == (Binding("output0", False, "float32", (2, ids.symbols[1], 16)),)
        assert engine.settings["immutable_weights"] is True
        assert engine.plan_bytes == len(engine.plan_content()) > 10_000
        assert (program.remarks, engine.remarks) == ([], ())
        if form == "torch_tensorrt.save" and not torch.cuda.is_available():
            assert program.form == "exported program with its engines as data"
            assert program.inputs[0] == ProgramInput("ids", "int64", (2, Extent(ids.symbols[1], 1, 128)))
            assert engine.device["name"] == STAND_IN_NAME

    def test_the_order_of_an_engines_fields_is_torch_tensorrts(self):
        import torch_tensorrt  # noqa: F401

        ops = torch.ops.tensorrt
        for index, name in enumerate(FIELDS):
            assert int(getattr(ops, f"{name}_IDX")()) == index, name
        assert int(ops.SERIALIZATION_LEN()) == len(FIELDS)
        assert ops.SERIALIZED_ENGINE_BINDING_DELIM() == ops.SERIALIZED_RT_DEVICE_DELIM() == "%"

    def test_the_numbers_of_data_types_are_torchs(self):
        from torch._export.serde.schema import ScalarType
        from torch._export.serde.serialize import _TORCH_TO_SERIALIZE_DTYPE

        for dtype, number in _TORCH_TO_SERIALIZE_DTYPE.items():
            if number.name not in ("FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ", "FLOAT8E8M0FNU"):
                assert f"torch.{_program._DTYPES[int(number)]}" == str(dtype)
        assert set(_program._DTYPES) <= {int(number) for number in ScalarType}


class TestBadFiles:
    def test_nothing_there_and_a_directory(self, tmp_path):
        with pytest.raises(ProgramError, match="does not exist"):
            read_program(tmp_path / "no.pt2")
        with pytest.raises(ProgramError, match="is a directory"):
            read_program(tmp_path)

    @pytest.mark.parametrize(("content", "reason"), [(b"", "is empty"), (b"import torch", "begins with b'impo'")])
    def test_no_package(self, tmp_path, content, reason):
        (tmp_path / "p.pt2").write_bytes(content)
        with pytest.raises(ProgramError, match=reason):
            read_program(tmp_path / "p.pt2")

    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "p.pt2")
        with pytest.raises(ProgramError, match="no regular file"):
            read_program(tmp_path / "p.pt2")

    @pytest.mark.parametrize("kept", [10, 500, -1])
    def test_a_truncated_package(self, tmp_path, kept):
        path = write_package(tmp_path / "p.pt2", [packed_engine()])
        content = path.read_bytes()
        path.write_bytes(content[:kept])
        with pytest.raises(ProgramError, match="cut off|is damaged"):
            read_program(path)

    def test_a_byte_that_changed(self, tmp_path):
        path = write_exported(tmp_path / "p.ep", [packed_engine()])
        content = bytearray(path.read_bytes())
        content[200] ^= 0xFF
        path.write_bytes(content)
        with pytest.raises(ProgramError, match="is damaged"):
            read_program(path)

    def test_any_byte_that_changed_in_the_table_of_contents(self, tmp_path):
        """Whatever it does to the archive: the file is read, or the error says what is wrong with it."""
        path = write_package(tmp_path / "p.pt2", [packed_engine()])
        content = path.read_bytes()
        for at in range(content.index(b"PK\x01\x02"), len(content)):
            for value in (0x00, 0x81, 0xFF):
                path.write_bytes(content[:at] + bytes([value]) + content[at + 1 :])
                with contextlib.suppress(ProgramError):
                    read_program(path)

    def test_a_foreign_archive(self, tmp_path):
        with pytest.raises(ProgramError, match="but no saved program"):
            read_program(write_archive(tmp_path / "p.zip", {"hello.txt": "hello"}))

    def test_an_export_of_an_older_torch(self, tmp_path):
        with pytest.raises(ProgramError, match="older torch"):
            read_program(write_archive(tmp_path / "p.pt2", {"serialized_exported_program.json": "{}"}))

    @pytest.mark.parametrize(
        ("members", "reason"),
        [
            ({"models/model.json": "{"}, "is not JSON"),
            ({"models/model.json": "[]"}, "no exported program"),
            ({"models/model.json": json.dumps({"graph_module": {}})}, "no exported program"),
            ({"models/\x1b[31m.json": "{"}, r"models/\\x1b\[31m.json is not JSON"),
            ({"data.pkl": b"", "code/a.py": ""}, "no readable pickle"),
            ({"data.pkl": b"\x80\x02}q", "code/a.py": ""}, "no readable pickle"),
        ],
    )
    def test_damaged_parts(self, tmp_path, members, reason):
        with pytest.raises(ProgramError, match=reason):
            read_program(write_archive(tmp_path / "p.pt2", members))

    def test_one_engine_of_several_is_damaged(self, tmp_path):
        path = write_package(tmp_path / "p.pt2", [packed_engine("good")])
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("p/data/constants/custom_obj_1", b"no archive")
            archive.writestr("p/data/constants/custom_obj_2", custom_object(["9", "too", "short"]))
        program = read_program(path)
        assert [engine.name for engine in program.engines] == ["good"]
        assert "custom_obj_1 cannot be read" in program.remarks[0]
        assert "this one has 3 entries" in program.remarks[1]

    def test_damaged_metadata(self, tmp_path):
        packed = packed_engine()
        packed[FIELDS.index("SERIALIZED_METADATA")] = "!!"
        (engine,) = read_program(write_package(tmp_path / "p.pt2", [packed])).engines
        assert (engine.profiles, engine.settings) == (None, {})
        assert engine.inputs == (Binding("ids", True, None),)
        assert engine.remarks

    @pytest.mark.parametrize("key", ["sizes", "range"])
    @pytest.mark.parametrize("value", ["many", math.nan, [1]])
    def test_an_extent_that_is_no_integer(self, tmp_path, key, value):
        path = write_exported(tmp_path / "p.ep", [])
        with zipfile.ZipFile(path) as archive:
            model = json.loads(archive.read("p/models/model.json"))
        if key == "sizes":
            model["graph_module"]["graph"]["tensor_values"]["ids"]["sizes"][0] = {"as_int": value}
        else:
            model["range_constraints"]["s0"]["min_val"] = value
        with pytest.raises(ProgramError, match="no exported program"):
            read_program(write_archive(path, {"models/model.json": json.dumps(model)}))

    @pytest.mark.parametrize(
        ("place", "value"),
        [
            ((), []),
            (("schema",), math.nan),
            (("profiles",), {}),
            (("profiles", 0), 3),
            (("profiles", 0, "name"), 3),
            (("profiles", 0, "name"), ["prefill"]),
            (("profiles", 0, "inputs"), []),
            (("profiles", 0, "inputs", "ids"), [1]),
            (("profiles", 0, "inputs", "ids", "min"), "1"),
            (("profiles", 0, "inputs", "ids", "min"), [1]),
            (("profiles", 0, "inputs", "ids", "max"), [1, math.nan]),
            (("profiles", 0, "inputs", "ids", "max"), [1, True]),
            (("profiles", 0, "inputs", "ids", "opt"), [1, "64"]),
        ],
    )
    def test_a_damaged_profile_record(self, tmp_path, place, value):
        record: Any = PROFILES.to_json()
        inner = record
        for key in place[:-1]:
            inner = inner[key]
        if place:
            inner[place[-1]] = value
        else:
            record = value
        packed = packed_engine(profiles=None)
        at = FIELDS.index("SERIALIZED_METADATA")
        metadata = base64.b64decode(packed[at]) + _metadata.MARK + json.dumps(record).encode()
        packed[at] = base64.b64encode(metadata).decode()
        (engine,) = read_program(write_package(tmp_path / "p.pt2", [packed])).engines
        assert engine.profiles is None
        assert "profile record" in engine.remarks[0]

    def test_settings_that_are_no_numbers(self):
        assert plain({"a": math.nan, "b": [math.inf], "c": 1.5}) == {"a": "nan", "b": ["inf"], "c": 1.5}

    def test_a_damaged_plan(self, tmp_path):
        packed = packed_engine()
        packed[FIELDS.index("ENGINE")] = "?"
        (engine,) = read_program(write_package(tmp_path / "p.pt2", [packed])).engines
        with pytest.raises(EngineError, match="is damaged"):
            engine.plan_content()


class Evil:
    def __reduce__(self):
        return (exec, ("import sys; sys.modules['ran'] = sys",))


class TestPickles:
    def test_nothing_is_run(self, tmp_path):
        torch.save({"a": Evil()}, tmp_path / "p.pt")
        assert read_program(tmp_path / "p.pt").engines == []
        metadata = packed_engine()
        metadata[FIELDS.index("SERIALIZED_METADATA")] = base64.b64encode(pickle.dumps(Evil())).decode()
        (engine,) = read_program(write_package(tmp_path / "p.pt2", [metadata])).engines
        assert engine.settings == {}
        assert "ran" not in sys.modules

    def test_objects_become_names(self):
        held = read_pickle(pickle.dumps({"dtype": torch.float16, "device": torch.device("cuda", 1), "set": {3, 1}}))
        assert plain(held) == {"dtype": "torch.float16", "device": "device(cuda, 1)", "set": [1, 3]}

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_every_protocol(self, protocol):
        import sympy

        value = {"symbol": sympy.Symbol("s0", positive=True), "bytes": b"\x00\xff", "order": [1, (2, {"three"})]}
        held = read_pickle(pickle.dumps(value, protocol=protocol))
        assert isinstance(held["symbol"], Opaque)
        assert held["bytes"] == b"\x00\xff"
        assert held["order"][0] == 1

    def test_a_damaged_number_asks_for_no_memory(self):
        """Of the Unpickler, 24 GB."""
        content = b"\x80\x02]r" + (1_500_000_000).to_bytes(4, "little") + b"."
        with pytest.raises(PickleError, match="object 1500000000 in 9 bytes"):
            read_pickle(content)

    def test_what_refers_to_itself_is_walked_once(self):
        loop: list[object] = []
        loop.append(loop)
        assert sum(1 for _ in walk(read_pickle(pickle.dumps(loop)))) == 1

    @pytest.mark.parametrize("content", [b"", b"abc", pickle.dumps([1, 2])[:-1], b"\x80\x02R."])
    def test_no_pickle(self, content):
        with pytest.raises(PickleError):
            read_pickle(content)
