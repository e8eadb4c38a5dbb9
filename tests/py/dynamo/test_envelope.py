"""What is read from an exported program: names, places, and the range of every axis."""

from __future__ import annotations

import io
from dataclasses import dataclass

import exported_programs as programs
import pytest
import torch
from torch.export import Dim, ExportedProgram, export
from torch_tensorrt_profiles.dynamo._envelope import Affine, Bounds, Envelope, affine
from torch_tensorrt_profiles.dynamo._optimization_profile import Extents


def reloaded(program: ExportedProgram) -> ExportedProgram:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


def x_bounds(program: ExportedProgram) -> list[Bounds]:
    envelope = Envelope.of(program)
    return [envelope.bounds_of(axis) for axis in envelope.inputs[0].axes]


@pytest.mark.parametrize("read", [lambda p: p, reloaded, lambda p: p.run_decompositions()])
def test_names_paths_and_places_of_a_nested_call(read) -> None:
    envelope = Envelope.of(read(programs.nested()))
    seen = [(spec.path, spec.name, spec.leaf, spec.is_kwarg) for spec in envelope.inputs]
    assert seen == [
        ("batch['ids'][0]", "batch_ids_0", 0, False),
        ("batch['ids'][1]", "batch_ids_1", 1, False),
        ("mask", "mask", 3, True),
    ]
    assert dict(envelope.constants) == {2: 3, 4: None}
    assert envelope.parameters == ("batch", "scale", "mask", "tag")
    assert {str(bounds) for bounds in envelope.symbols.values()} == {"1 to 8", "1 to 128"}


def test_inputs_are_found_by_path_and_by_placeholder() -> None:
    envelope = Envelope.of(programs.nested())
    first = envelope.inputs[0]
    assert envelope.find("batch['ids'][0]") is envelope.find('batch["ids"][0]') is envelope.find("batch_ids_0") is first
    assert envelope.find("batch") is None
    assert envelope.find("scale") is None


def test_a_path_wins_over_a_placeholder_of_the_same_spelling() -> None:
    class Clash(torch.nn.Module):
        def forward(self, a, a_0):
            return a[0] + a_0

    x = torch.zeros(2)
    envelope = Envelope.of(export(Clash(), ((x,), x)))
    assert envelope.find("a_0").path == "a_0"
    assert envelope.find("a[0]").path == "a[0]"


@pytest.mark.parametrize("key", ["it's", 'say "it"', 'it\'s "it"', "plain"])
def test_a_path_is_found_however_it_is_quoted(key: str) -> None:
    class Keyed(torch.nn.Module):
        def forward(self, d):
            return d[1][key] + d[0]

    envelope = Envelope.of(export(Keyed(), ([torch.zeros(2), {key: torch.zeros(2)}],)))
    one = "d[1]['" + key.replace("'", "\\'") + "']"
    two = 'd[1]["' + key.replace('"', '\\"') + '"]'
    assert envelope.find(one) is envelope.find(two) is envelope.find(envelope.inputs[1].path) is envelope.inputs[1]
    assert envelope.find(f"d[ 1 ][{key!r}]") is envelope.inputs[1]
    assert envelope.find("d[1]['") is None


def test_parameter_names_keep_their_case() -> None:
    class Capital(torch.nn.Module):
        def forward(self, inputIds, *rest, **named):  # noqa: N803
            return inputIds + rest[0] + named["maskB"]

    x = torch.zeros(2)
    envelope = Envelope.of(export(Capital(), (x, x), kwargs={"maskB": x}))
    assert [spec.path for spec in envelope.inputs] == ["inputIds", "rest_0", "maskB"]


@dataclass
class State:
    x: torch.Tensor
    y: torch.Tensor | None


torch.export.register_dataclass(State, serialized_type_name="test_envelope.State")


def test_fields_of_a_dataclass() -> None:
    class Sum(torch.nn.Module):
        def forward(self, state):
            return state.x + state.y

    envelope = Envelope.of(export(Sum(), (State(torch.zeros(2), torch.zeros(2)),)))
    assert [(spec.path, spec.name) for spec in envelope.inputs] == [("state.x", "state_x"), ("state.y", "state_y")]


def test_parameters_and_buffers_are_no_inputs() -> None:
    class WithState(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(4))
            self.register_buffer("offset", torch.zeros(4))

        def forward(self, x):
            return x * self.weight + self.offset

    assert [spec.name for spec in Envelope.of(export(WithState(), (torch.zeros(4),))).inputs] == ["x"]


@pytest.mark.parametrize(
    ("dim", "bounds"),
    [
        (None, Bounds(4, 4)),
        (Dim("d", min=1, max=64), Bounds(1, 64)),
        (Dim("d", min=5, max=64), Bounds(5, 64)),
        (Dim("d"), Bounds(1, None)),
        (Dim("d", min=3), Bounds(3, None)),
        (Dim.AUTO, Bounds(2, None)),
        (Dim.DYNAMIC, Bounds(2, None)),
        (Dim.AUTO(max=64), Bounds(2, 64)),
        (2 * Dim("d", min=3, max=9), Bounds(6, 18)),
        (4 * Dim("_d", min=1, max=9), Bounds(4, 36)),
    ],
)
@pytest.mark.parametrize("read", [lambda p: p, reloaded])
def test_ranges(dim, bounds, read) -> None:
    assert x_bounds(read(programs.double(dim, None))) == [bounds, Bounds(4, 4)]


def test_a_guard_that_narrows_the_range_counts() -> None:
    class Narrow(torch.nn.Module):
        def forward(self, x):
            return x[6:]

    program = export(Narrow(), (torch.zeros(12),), dynamic_shapes={"x": {0: Dim.AUTO(min=2, max=64)}})
    assert x_bounds(program)[0].min >= 6


def test_shared_and_derived_axes() -> None:
    envelope = Envelope.of(programs.repeat())
    (symbol,) = envelope.symbols
    assert [spec.axes[0].affine for spec in envelope.inputs] == [Affine(symbol, 1, 0), Affine(symbol, 2, 0)]
    assert [envelope.bounds_of(spec.axes[0]) for spec in envelope.inputs] == [Bounds(1, 32), Bounds(2, 64)]
    assert [(spec.name, axis) for spec, axis in envelope.axes_of(symbol)] == [("a", 0), ("b", 0)]
    assert envelope.inputs[1].axes[0].span({symbol: Extents(4, 5, 6)}) == (8, 10, 12)


def test_an_axis_of_two_symbols_is_not_affine() -> None:
    axis = Envelope.of(programs.concat()).inputs[2].axes[0]
    assert axis.affine is None
    assert len(axis.symbols) == 2
    assert axis.span(dict.fromkeys(axis.symbols, Extents(5, 5, 5))).opt == 10


def test_affine_forms() -> None:
    import sympy
    from torch.utils._sympy.functions import FloorDiv

    s, t = sympy.Symbol("s", integer=True, positive=True), sympy.Symbol("t", integer=True, positive=True)
    assert affine(3 * s - 2) == Affine("s", 3, -2)
    assert affine(10 - s) == Affine("s", -1, 10)
    assert [affine(expr) for expr in (s * s, s + t, FloorDiv(s, 2), s / 2)] == [None] * 4
    assert Affine("s", 3, -2).solve(7) == 3
    assert Affine("s", 3, -2).solve(8) is None


def test_a_dynamic_integer_is_a_shape_tensor_of_one_element() -> None:
    class Scale(torch.nn.Module):
        def forward(self, x, n):
            return x * n

    program = export(Scale(), (torch.zeros(4), 5), dynamic_shapes={"x": None, "n": Dim.DYNAMIC})
    spec = Envelope.of(program).find("n")
    assert (spec.dtype, spec.is_shape_tensor, len(spec.axes)) == (torch.int64, True, 1)
    assert Envelope.of(program).bounds_of(spec.axes[0]) == Bounds(1, None)
