"""Profiles against programs. What is refused is in test_bad_input.py."""

from __future__ import annotations

from dataclasses import replace

import exported_programs as programs
import pytest
from torch.export import Dim
from torch_tensorrt_profiles.dynamo import OptimizationProfile
from torch_tensorrt_profiles.dynamo._envelope import Axis, Envelope
from torch_tensorrt_profiles.dynamo._optimization_profile import Extents, ShapeRange
from torch_tensorrt_profiles.dynamo._resolve import InputLimits, Resolution, resolve


def resolved(program, *profiles, limits=None) -> Resolution:
    return resolve(Envelope.of(program), list(profiles) or None, limits)


def axis_of(resolution: Resolution, name: str, axis: int = 0, profile: int = 0) -> tuple[int, int, int]:
    return tuple(resolution.shapes[profile][name].axis(axis))


def test_index_is_list_position_and_names_are_kept() -> None:
    profiles = [OptimizationProfile(name, {"x": {0: extent}}) for name, extent in (("b", 3), ("a", 2), ("c", 9))]
    resolution = resolved(programs.double(Dim("d", max=16)), *profiles)
    assert resolution.names == ("b", "a", "c")
    assert [axis_of(resolution, "x", profile=index) for index in range(3)] == [(3, 3, 3), (2, 2, 2), (9, 9, 9)]
    assert [list(symbols.values()) for symbols in resolution.symbols] == [[Extents(e, e, e)] for e in (3, 2, 9)]


def test_one_input_settles_the_others_that_share_its_symbol() -> None:
    prefill = OptimizationProfile("prefill", {"input_ids": {"min": (1, 32), "opt": (1, 1024), "max": (1, 2048)}})
    decode = OptimizationProfile("decode", {"position_ids": {-1: 1}})
    resolution = resolved(programs.decoder(), prefill, decode)
    for name in ("input_ids", "position_ids"):
        assert resolution.shapes[0][name] == ShapeRange((1, 32), (1, 1024), (1, 2048))
        assert resolution.shapes[1][name] == ShapeRange((1, 1), (1, 1), (1, 1))
    assert {shapes["cache"] for shapes in resolution.shapes} == {ShapeRange((1, 8, 4), (1, 8, 4), (1, 8, 4))}


@pytest.mark.parametrize("key", ["batch['ids'][1]", 'batch["ids"][1]', "batch_ids_1", "mask"])
def test_nested_and_keyword_inputs(key: str) -> None:
    resolution = resolved(programs.nested(), OptimizationProfile("p", {key: {0: 2, 1: (3, 4, 5)}}))
    assert resolution.shapes[0] == dict.fromkeys(
        ("batch_ids_0", "batch_ids_1", "mask"), ShapeRange((2, 3), (2, 4), (2, 5))
    )


def test_two_inputs_may_say_the_same() -> None:
    whole = {"min": (1, 1), "opt": (1, 2), "max": (1, 3)}
    profile = OptimizationProfile("p", {"input_ids": {1: (1, 2, 3)}, "position_ids": whole})
    assert axis_of(resolved(programs.decoder(), profile), "input_ids", 1) == (1, 2, 3)


@pytest.mark.parametrize(
    ("low", "high", "opt"), [(1, 2048, 1024), (1000, 1200, 1100), (1, 2, 1), (7, 7 + 1, 7), (3, 10, 6)]
)
def test_an_axis_left_alone_takes_its_whole_range(low: int, high: int, opt: int) -> None:
    program = programs.double(Dim("a", min=low, max=high), Dim("b", max=2048), extent=high)
    left_alone = resolved(program, OptimizationProfile("p", {"x": {1: 4}}))
    assert axis_of(left_alone, "x", 0) == (low, opt, high)
    assert axis_of(left_alone, "x", 1) == (4, 4, 4)


def test_without_profiles_there_is_one_without_a_name() -> None:
    resolution = resolved(programs.double(Dim("a", max=9), None))
    assert resolution.names == ("",)
    assert resolution.shapes == ({"x": ShapeRange((1, 4), (5, 4), (9, 4))},)


def test_a_static_program_without_profiles() -> None:
    resolution = resolved(programs.double(None))
    assert (resolution.symbols, resolution.shapes) == (({},), ({"x": ShapeRange((4,), (4,), (4,))},))


@pytest.mark.parametrize("dim", [Dim("d", min=1, max=64), Dim("d")])
def test_an_extent_of_one_where_the_program_starts_at_one(dim) -> None:
    assert axis_of(resolved(programs.double(dim), OptimizationProfile("p", {"x": {0: (1, 1, 5)}})), "x") == (1, 1, 5)


@pytest.mark.parametrize("dim", [Dim.AUTO, Dim.DYNAMIC, Dim("d", min=2)])
def test_a_profile_gives_an_unbounded_axis_its_bound(dim) -> None:
    resolution = resolved(programs.double(dim), OptimizationProfile("p", {"x": {0: (2, 64, 1 << 20)}}))
    assert axis_of(resolution, "x") == (2, 64, 1 << 20)


def test_a_derived_axis_follows_its_symbol_and_settles_it() -> None:
    program = programs.repeat()
    by_symbol = resolved(program, OptimizationProfile("p", {"a": {0: (1, 4, 16)}}))
    by_derived = resolved(program, OptimizationProfile("p", {"b": {0: (2, 8, 32)}}))
    assert by_symbol == by_derived
    assert (axis_of(by_symbol, "a"), axis_of(by_symbol, "b")) == ((1, 4, 16), (2, 8, 32))
    assert axis_of(resolved(program), "b") == (2, 32, 64)


def test_an_axis_of_two_symbols_may_be_given_as_what_it_comes_to() -> None:
    shapes = {"a": {0: (2, 4, 8)}, "b": {0: (3, 5, 9)}}
    left_out = resolved(programs.concat(), OptimizationProfile("p", shapes))
    assert axis_of(left_out, "c") == (5, 9, 17)
    assert resolved(programs.concat(), OptimizationProfile("p", {"c": {0: (5, 9, 17)}, **shapes})) == left_out


def test_a_product_and_what_falls_with_its_symbol() -> None:
    flat = resolved(programs.flatten(), OptimizationProfile("p", {"a": {0: (2, 3, 4), 1: (3, 5, 9)}}))
    assert axis_of(flat, "b") == (6, 15, 36)


def test_an_axis_that_falls_with_one_of_its_symbols() -> None:
    envelope = Envelope.of(programs.concat())
    a, b, c = envelope.inputs
    rest = replace(c, axes=(Axis(2 * a.axes[0].expr - b.axes[0].expr),))
    envelope = replace(envelope, inputs=(a, b, rest))

    def extents(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return axis_of(resolve(envelope, [OptimizationProfile("p", {"a": {0: a}, "b": {0: b}})]), "c")

    assert extents((10, 20, 30), (2, 4, 8)) == (12, 36, 58)
    assert extents((3, 4, 5), (2, 4, 8)) == (1, 4, 8), "not all combinations need to fit together"
    with pytest.raises(ValueError, match="'p', input 'c', axis 0: its extent .* would be at most -3"):
        extents((2, 2, 3), (9, 9, 9))


def test_an_input_narrows_the_range_and_moves_the_default_optimum() -> None:
    limits = {"input_ids": InputLimits((1, 8), (1, 10), (1, 512))}
    left_alone = resolved(programs.decoder(), limits=limits)
    assert axis_of(left_alone, "position_ids", 1) == (8, 10, 512)
    given = resolved(programs.decoder(), OptimizationProfile("p", {"position_ids": {1: (9, 99, 500)}}), limits=limits)
    assert axis_of(given, "input_ids", 1) == (9, 99, 500)


def test_an_input_of_an_optimum_only_moves_only_that() -> None:
    limits = {"position_ids": InputLimits(None, (1, 100), None)}
    assert axis_of(resolved(programs.decoder(), limits=limits), "input_ids", 1) == (1, 100, 2048)


def test_an_input_bounds_an_unbounded_axis() -> None:
    limits = {"x": InputLimits((2,), (3,), (9,))}
    assert axis_of(resolved(programs.double(Dim.AUTO), limits=limits), "x") == (2, 3, 9)


def test_ranges_that_do_not_contradict_the_inputs_of_two_limits() -> None:
    limits = {"a": InputLimits((1,), (4,), (8,)), "b": InputLimits((2,), (8,), (16,))}
    assert axis_of(resolved(programs.repeat(), limits=limits), "b") == (2, 8, 16)
