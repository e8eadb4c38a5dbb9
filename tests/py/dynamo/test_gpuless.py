"""On a host without a GPU a program is built, looked at and saved; running it there is an error that says where to."""

from __future__ import annotations

import pytest
import torch
import torch_tensorrt
from programs import BREAK, export_broken, export_two_inputs
from torch.export import Dim
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.runtime import optimization_profile, optimization_profiles, profile_names

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="is about hosts without a GPU")

PROFILES = [
    OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
    OptimizationProfile("decode", {"ids": {1: 1}}),
]


@pytest.fixture(scope="module")
def program():
    return torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1)


def test_inspect(program):
    assert profile_names(program) == ["prefill", "decode"]
    ((_, (prefill, decode)),) = optimization_profiles(program).items()
    assert (prefill["index"], prefill["name"]) == (0, "prefill")
    assert prefill["inputs"]["ids"] == {"min": (2, 16), "opt": (2, 64), "max": (2, 128)}
    assert decode["inputs"]["positions"] == {"min": (2, 1), "opt": (2, 1), "max": (2, 1)}


def test_running_says_where_to(program):
    x = torch.zeros(2, 16, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"no GPU.*torch_tensorrt\.load"):
        program(x, x)
    with pytest.raises(RuntimeError, match=r"torch_tensorrt\.load"), optimization_profile(program, "decode"):
        pass


@pytest.mark.parametrize("kind", ["one engine", "graph break"])
def test_save_and_load(tmp_path, kind):
    if kind == "one engine":
        compiled = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1)
        inputs = (torch.zeros(2, 16, dtype=torch.int64),) * 2
    else:
        profiles = [
            OptimizationProfile("prefill", {"x": {1: (4, 32, 64)}}),
            OptimizationProfile("decode", {"x": {1: 1}}),
        ]
        compiled = torch_tensorrt.dynamo.compile(export_broken(), optimization_profiles=profiles, **BREAK)
        inputs = (torch.zeros(2, 16, 16),)
    path = tmp_path / "program.ep"
    torch_tensorrt.save(compiled, str(path))
    loaded = torch_tensorrt.load(str(path))
    assert profile_names(loaded) == ["prefill", "decode"]
    assert [(int(r.lower), int(r.upper)) for r in loaded.range_constraints.values()] == (
        [(1, 128)] if kind == "one engine" else [(1, 64)]
    )
    assert len(optimization_profiles(loaded)) == (1 if kind == "one engine" else 2)
    module = loaded.module()
    assert optimization_profiles(module) == optimization_profiles(loaded) == optimization_profiles(compiled)
    with pytest.raises(RuntimeError, match=r"no GPU.*torch_tensorrt\.load"):
        module(*inputs)


def test_other_formats_need_a_gpu(program, tmp_path):
    with pytest.raises(RuntimeError, match="aot_inductor.*GPU host"):
        torch_tensorrt.save(program, str(tmp_path / "p.pt2"), output_format="aot_inductor")
    with pytest.raises(ValueError, match="'bogus' is unknown; expected one of exported_program"):
        torch_tensorrt.save(program, str(tmp_path / "p.pt2"), output_format="bogus")
    assert not list(tmp_path.iterdir())


def test_refittable_is_refused():
    with pytest.raises(RuntimeError, match="refittable.*GPU host"):
        torch_tensorrt.dynamo.compile(export_two_inputs(), min_block_size=1, immutable_weights=False)


def test_tensorrt_proper_is_refused(monkeypatch):
    from torch_tensorrt import _features

    monkeypatch.setattr(_features, "ENABLED_FEATURES", _features.ENABLED_FEATURES._replace(tensorrt_rtx=False))
    with pytest.raises(RuntimeError, match=r"TensorRT's builder needs one.*without torch-tensorrt .*\[rtx\]"):
        torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES)


class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 4))

    def forward(self, x):
        self.cache.add_(x.sum())
        return x + self.cache[:, :1]


class InPlace(torch.nn.Module):
    def forward(self, x):
        x.add_(1)
        return torch.relu(x)


@pytest.mark.parametrize(("model", "written"), [(Cache(), "cache"), (InPlace(), "x")])
def test_writes_in_place_are_refused_with_the_reason(model, written):
    exported = torch.export.export(model, (torch.ones(2, 8),), dynamic_shapes=({1: Dim("seq", min=1, max=16)},))
    with pytest.raises(RuntimeError, match=rf"writes to \['{written}'\].*return the new one"):
        torch_tensorrt.dynamo.compile(
            exported, optimization_profiles=[OptimizationProfile("a", {"x": {1: (1, 8, 16)}})]
        )


def test_a_module_with_named_profiles_on_its_inputs():
    """The front end exports it itself, which asks for a device."""
    spec = torch_tensorrt.Input(profiles={"a": {"min": (4, 4), "opt": (8, 4), "max": (16, 4)}, "b": (1, 4)})
    program = torch_tensorrt.compile(torch.nn.Linear(4, 4).eval(), ir="dynamo", inputs=[spec], min_block_size=1)
    assert profile_names(program) == ["a", "b"]


def test_a_mutable_module_needs_a_gpu():
    with pytest.raises(RuntimeError, match=r"no GPU.*torch_tensorrt\.dynamo\.compile"):
        torch_tensorrt.MutableTorchTensorRTModule(torch.nn.Linear(4, 4), optimization_profiles=PROFILES)


def test_state_dict(program):
    state = program.state_dict()
    (key,) = [key for key in state if key.endswith("_extra_state")]
    assert len(state[key][1]) == int(torch.ops.tensorrt.SERIALIZATION_LEN())
    with pytest.raises(RuntimeError, match=r"state_dict.*GPU host"):
        program.load_state_dict(state)


def test_a_size_as_output_is_refused_in_few_words(tmp_path):
    class Sized(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) * 2, x.shape[1]

    exported = torch.export.export(Sized(), (torch.ones(2, 8),), dynamic_shapes=({1: Dim("seq", min=1, max=16)},))
    compiled = torch_tensorrt.dynamo.compile(exported, min_block_size=1)
    with pytest.raises(ValueError, match="is a size") as error:
        torch_tensorrt.save(compiled, str(tmp_path / "p.ep"))
    assert len(str(error.value)) < 400


def test_stand_ins_are_taken_back(program):
    assert torch.cuda.get_device_capability.__module__ == "torch.cuda"
    with pytest.raises((RuntimeError, AssertionError)):
        torch.cuda.get_device_properties(0)


def test_capability_is_an_option(monkeypatch):
    from torch_tensorrt_profiles._stand_ins import cuda_questions_answered

    monkeypatch.setenv("TORCHTRT_PROFILES_COMPUTE_CAPABILITY", "8.9")
    with cuda_questions_answered():
        assert torch.cuda.get_device_capability() == (8, 9)
        with cuda_questions_answered():
            assert torch.cuda.get_device_properties(0).minor == 9
        assert torch.cuda.current_device() == 0


@pytest.mark.parametrize("kind", ["one engine", "graph break"])
def test_live_engines_make_a_valid_program(tmp_path, monkeypatch, kind):
    """What load() does on a GPU host, with another TorchBind object where the engine would be."""
    from torch_tensorrt_profiles.dynamo._gpuless import with_live_engines

    packed = []

    def engine(info):
        packed.append(info)
        return torch.classes.tensorrt.RuntimeCacheHandle("")

    if kind == "one engine":
        compiled = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1)
    else:
        profiles = [OptimizationProfile("one", {"x": {1: 1}}), OptimizationProfile("more", {"x": {1: (4, 32, 64)}})]
        compiled = torch_tensorrt.dynamo.compile(export_broken(), optimization_profiles=profiles, **BREAK)
    torch_tensorrt.save(compiled, str(tmp_path / "program.ep"))
    loaded = torch.export.load(str(tmp_path / "program.ep"))
    monkeypatch.setattr(torch.classes.tensorrt, "Engine", engine, raising=False)
    live = with_live_engines(loaded, "0%9%0%0%somewhere", "cpu")
    live.validate()
    engines = 1 if kind == "one engine" else 2
    assert sum(isinstance(value, torch.ScriptObject) for value in live.constants.values()) == engines
    assert [info[int(torch.ops.tensorrt.DEVICE_IDX())] for info in packed] == ["0%9%0%0%somewhere"] * engines
    assert live.module() is not None
