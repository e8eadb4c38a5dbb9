"""Selection by name, index and shape on live engines; the profiles are disjoint, so a wrong one raises."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_tensorrt
from programs import BREAK, Broken, TwoInputs, export_broken, export_two_inputs
from torch_tensorrt.dynamo import OptimizationProfile
from torch_tensorrt.dynamo.runtime import TorchTensorRTModule
from torch_tensorrt.runtime import context_per_profile, optimization_profile, profile_names

pytestmark = pytest.mark.gpu

PROFILES = [
    OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}}),
    OptimizationProfile("decode", {"ids": {1: 1}}),
]


def tokens(seq: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(0, 32, (2, seq), device="cuda")
    return ids, torch.arange(seq, device="cuda").expand(2, seq).contiguous()


def eager() -> TwoInputs:
    torch.manual_seed(0)
    return TwoInputs().eval().cuda()


def assert_runs(program, reference, *inputs) -> None:
    torch.testing.assert_close(program(*inputs), reference(*inputs), rtol=2e-2, atol=2e-2)


def active(program) -> list[int]:
    return [m.engine._active_profile_index for m in program.modules() if isinstance(m, TorchTensorRTModule)]


@pytest.fixture(scope="module")
def program():
    return torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1)


@pytest.fixture(scope="module")
def broken():
    profiles = [OptimizationProfile("long", {"x": {1: (4, 32, 64)}}), OptimizationProfile("one", {"x": {1: 1}})]
    return torch_tensorrt.dynamo.compile(export_broken(), optimization_profiles=profiles, **BREAK)


@pytest.mark.parametrize(
    ("which", "seq"), [("prefill", 64), ("decode", 1), (0, 16), (1, 1), (None, 128), ("auto", 1), ("auto", 99)]
)
def test_select_and_run(program, which, seq):
    with optimization_profile(program, which):
        assert_runs(program, eager(), *tokens(seq))


def test_a_wrong_profile_raises(program):
    with optimization_profile(program, "decode"), pytest.raises(ValueError, match="'prefill' would fit"):
        program(*tokens(64))
    with optimization_profile(program, "prefill"), pytest.raises(ValueError, match="'decode' would fit"):
        program(*tokens(1))
    with optimization_profile(program, "decode"):
        assert_runs(program, eager(), *tokens(1))


def test_nesting_and_exceptions_restore(program):
    assert_runs(program, eager(), *tokens(32))
    with optimization_profile(program, "decode"):
        assert_runs(program, eager(), *tokens(1))
        with optimization_profile(program, "prefill"):
            assert_runs(program, eager(), *tokens(20))
        assert_runs(program, eager(), *tokens(1))
        with pytest.raises(ZeroDivisionError), optimization_profile(program, "prefill"):
            1 / 0
        assert_runs(program, eager(), *tokens(1))
    assert_runs(program, eager(), *tokens(32))


def test_a_failing_enter_leaves_nothing_switched(broken):
    before = active(broken)
    with pytest.raises(ValueError, match=r"'three'.*\['long', 'one'\]"), optimization_profile(broken, "three"):
        pass
    with pytest.raises(ValueError, match="index 2 is out of range.*2 profile"), optimization_profile(broken, 2):
        pass
    assert active(broken) == before


def test_graph_broken_program(broken):
    torch.manual_seed(0)
    reference = Broken().eval().cuda()
    for which, seq in (("one", 1), ("long", 33), ("one", 1)):
        with optimization_profile(broken, which):
            assert_runs(broken, reference, torch.randn(2, seq, 16, device="cuda"))


def test_bound_methods(program):
    (module,) = [m for m in program.modules() if isinstance(m, TorchTensorRTModule)]
    with program.optimization_profile("decode"):
        assert_runs(program, eager(), *tokens(1))
    with module.optimization_profile("decode"):
        assert_runs(program, eager(), *tokens(1))
    assert profile_names(module) == ["prefill", "decode"]


def test_deepcopy_and_state_dict_keep_the_names(program, tmp_path):
    assert profile_names(copy.deepcopy(program)) == ["prefill", "decode"]
    torch.save(program, tmp_path / "program.pt")
    loaded = torch.load(tmp_path / "program.pt", weights_only=False)
    assert profile_names(loaded) == ["prefill", "decode"]
    with optimization_profile(loaded, "decode"):
        assert_runs(loaded, eager(), *tokens(1))
    (module,) = [m for m in program.modules() if isinstance(m, TorchTensorRTModule)]
    empty = TorchTensorRTModule()
    empty.set_extra_state(module.get_extra_state())
    assert profile_names(empty) == ["prefill", "decode"]
    again = TorchTensorRTModule()
    again.set_extra_state(empty.get_extra_state())
    assert profile_names(again) == ["prefill", "decode"]


def test_name_on_an_engine_without_names_is_a_type_error():
    plain = torch_tensorrt.dynamo.compile(export_two_inputs(low=2), min_block_size=1)
    assert profile_names(plain) == [""]
    with pytest.raises(TypeError, match="by index"), optimization_profile(plain, "decode"):
        pass
    with optimization_profile(plain, 0):
        assert_runs(plain, eager(), *tokens(8))


def test_stock_profiles_are_selected_by_index():
    ranges = [
        {"min_shape": (2, 16), "opt_shape": (2, 64), "max_shape": (2, 128)},
        {"min_shape": (2, 1), "opt_shape": (2, 1), "max_shape": (2, 1)},
    ]
    spec = [torch_tensorrt.Input(profiles=ranges, dtype=torch.int64) for _ in range(2)]
    stock = torch_tensorrt.dynamo.compile(export_two_inputs(), inputs=spec, min_block_size=1)
    assert profile_names(stock) == ["", ""]
    with optimization_profile(stock, 1):
        assert_runs(stock, eager(), *tokens(1))


def test_a_count_that_differs_is_an_error(program):
    from torch_tensorrt_profiles.dynamo import _metadata
    from torch_tensorrt_profiles.runtime._module import RECORD

    (module,) = [m for m in copy.deepcopy(program).modules() if isinstance(m, TorchTensorRTModule)]
    record = _metadata.EngineProfiles.from_json(getattr(module, RECORD))
    setattr(module, RECORD, _metadata.EngineProfiles(record.names[:1], record.ranges[:1]).to_json())
    differs = "holds 2 optimization profile.*names 1"
    with pytest.raises(ValueError, match=differs):
        profile_names(module)
    with pytest.raises(ValueError, match=differs):
        TorchTensorRTModule().set_extra_state(module.get_extra_state())


def test_a_saved_program_whose_count_differs_is_an_error_at_load(tmp_path):
    from torch_tensorrt_profiles.dynamo import _metadata
    from torch_tensorrt_profiles.runtime._module import RECORD

    program = torch_tensorrt.dynamo.compile(export_two_inputs(), optimization_profiles=PROFILES, min_block_size=1)
    (module,) = [m for m in program.modules() if isinstance(m, TorchTensorRTModule)]
    record = _metadata.EngineProfiles.from_json(getattr(module, RECORD))
    setattr(module, RECORD, _metadata.EngineProfiles(record.names[:1], record.ranges[:1]).to_json())
    module.engine = None
    module.setup_engine()  # an engine that carries the wrong record
    torch_tensorrt.save(program, str(tmp_path / "program.ep"), retrace=False)
    with pytest.raises(ValueError, match="holds 2 optimization profile.*names 1"):
        torch_tensorrt.load(str(tmp_path / "program.ep"))


class TestMutableModule:
    def test_before_and_after_a_weight_change(self):
        model = eager()
        # An example of one token must not freeze the axis, and a call of another length must not compile again.
        profiles = [
            OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}, "positions": {1: (16, 64, 128)}}),
            OptimizationProfile("decode", {"ids": {1: 1}, "positions": {1: 1}}),
        ]
        mutable = torch_tensorrt.MutableTorchTensorRTModule(model, optimization_profiles=profiles, min_block_size=1)
        with mutable.optimization_profile("decode"):
            assert_runs(mutable, eager(), *tokens(1))
        engines = mutable.gm
        with optimization_profile(mutable, "prefill"):
            assert_runs(mutable, eager(), *tokens(70))
        assert mutable.gm is engines
        assert profile_names(mutable) == ["prefill", "decode"]
        changed = eager()
        with torch.no_grad():
            changed.linear.weight.mul_(-2)
        mutable.load_state_dict(changed.state_dict())
        with optimization_profile(mutable, "decode"):
            assert_runs(mutable, changed.cuda(), *tokens(1))
        with optimization_profile(mutable, "prefill"):
            assert_runs(mutable, changed, *tokens(16))
        assert mutable.gm is not engines

    def test_contexts_per_profile_over_a_weight_change(self):
        profiles = [
            OptimizationProfile("prefill", {"ids": {1: (16, 64, 128)}, "positions": {1: (16, 64, 128)}}),
            OptimizationProfile("decode", {"ids": {1: 1}, "positions": {1: 1}}),
        ]
        mutable = torch_tensorrt.MutableTorchTensorRTModule(eager(), optimization_profiles=profiles, min_block_size=1)
        assert_runs(mutable, eager(), *tokens(64))
        with context_per_profile(mutable):
            changed = eager()
            with torch.no_grad():
                changed.linear.weight.mul_(-2)
            mutable.load_state_dict(changed.state_dict())
            changed.cuda()
            for count in (16, 1, 70, 1):
                with optimization_profile(mutable, "auto"):
                    assert_runs(mutable, changed, *tokens(count))
            (engine,) = [part.engine for part in mutable.gm.modules() if isinstance(part, TorchTensorRTModule)]
            counters = torch.ops.tensorrt.get_profile_counters(engine)
            assert (counters["switches"], counters["runs_0"], counters["runs_1"]) == (0, 2, 2)


def test_scope_around_a_compiled_caller(program):
    """Enter and exit are not traced into the caller's graph."""

    def step(ids, positions):
        with optimization_profile(program, "decode"):
            return program(ids, positions) * 2

    compiled = torch.compile(step, backend="eager")
    for _ in range(3):
        ids, positions = tokens(1)
        torch.testing.assert_close(compiled(ids, positions), eager()(ids, positions) * 2, rtol=2e-2, atol=2e-2)
    assert_runs(program, eager(), *tokens(64))
