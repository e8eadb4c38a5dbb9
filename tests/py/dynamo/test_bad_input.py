"""Everything that is refused at compile time: what is blamed, what to do instead, and that nothing was changed."""

from __future__ import annotations

import copy
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import exported_programs as programs
import numpy as np
import pytest
import torch
from torch.export import Dim, ExportedProgram, export
from torch_tensorrt import Input
from torch_tensorrt.dynamo import OptimizationProfile as Profile

AB = namedtuple("AB", ["batch", "seq"])
BA = namedtuple("BA", ["seq", "batch"])


@dataclass
class Bad:
    """A call that is refused, and what the message has to contain."""

    profiles: Callable[[], Any]
    says: list[str]
    error: type[Exception] = ValueError
    program: Callable[[], ExportedProgram] = programs.decoder
    options: dict[str, Any] = field(default_factory=dict)


def profile(spec: Any, name: Any = "p", of: Any = "input_ids") -> Callable[[], list[Profile]]:
    return lambda: [Profile(name, {of: spec})]


def third_profile() -> list[Profile]:
    good = {"input_ids": {1: 4}, "position_ids": {1: 4}}
    whole = {"min": (1, 8), "opt": (1, 99), "max": (1, 64)}
    return [
        Profile("one", good),
        Profile("two", good),
        Profile("three", {"input_ids": {1: (8, 99, 64)}, "position_ids": whole}),
    ]


def whole_third_profile() -> list[Profile]:
    good = {"min_shape": (1, 8), "opt_shape": (1, 16), "max_shape": (1, 64)}
    bad = {"min_shape": (1, 8), "opt_shape": (1, 99), "max_shape": (1, 64)}
    return [
        Profile(name, {"input_ids": good, "position_ids": bad if name == "three" else good})
        for name in ("one", "two", "three")
    ]


def named(**profiles: Any) -> Input:
    return Input(profiles=profiles, dtype=torch.int64)


def two_named_inputs() -> tuple[Input, ...]:
    return (named(prefill=(1, 8), decode=(1, 1)), named(decode=(1, 1), prefill=(1, 8)))


def ids(**shapes: Any) -> Input:
    return Input(dtype=torch.int64, **shapes)


def ranged(low: int, opt: int, high: int) -> Input:
    return ids(min_shape=(1, low), opt_shape=(1, opt), max_shape=(1, high))


IN_P = ["'p'", "'input_ids'"]

BAD: dict[str, Bad] = {
    # Values of one profile.
    "min above opt": Bad(profile({1: (9, 8, 16)}), [*IN_P, "axis 1", "min 9", "opt 8", "Give min <= opt <= max"]),
    "opt above max": Bad(
        whole_third_profile, ["'three'", "'position_ids'", "axis 1", "opt 99", "max 64", "Give min <= opt <= max"]
    ),
    "opt above max by axis": Bad(third_profile, ["'three'", "'input_ids'", "axis 1", "opt 99", "max 64"]),
    "extent 0": Bad(profile({1: (0, 8, 16)}), [*IN_P, "axis 1", "min is 0", "at least 1"]),
    "extent 0 in a shape": Bad(profile((1, 0)), [*IN_P, "axis 1", "is 0", "at least 1"]),
    "negative extent": Bad(profile({1: -4}), [*IN_P, "axis 1", "-4", "at least 1"]),
    "bool": Bad(profile({1: True}), [*IN_P, "axis 1", "True", "integer"], TypeError),
    "numpy bool": Bad(profile({1: (1, np.True_, 4)}), [*IN_P, "axis 1", "opt", "True", "integer"], TypeError),
    "torch bool": Bad(profile({1: torch.tensor(True)}), [*IN_P, "axis 1", "integer"], TypeError),
    "float": Bad(profile({1: (1, 2.0, 4)}), [*IN_P, "axis 1", "opt", "2.0", "integer", "float"], TypeError),
    "float tensor": Bad(profile((1, torch.tensor(2.0))), [*IN_P, "axis 1", "integer"], TypeError),
    "numpy float": Bad(profile((1, np.float32(2))), [*IN_P, "axis 1", "integer"], TypeError),
    "string": Bad(profile({1: "16"}), [*IN_P, "axis 1", "'16'", "integer"], TypeError),
    "string extent in a shape": Bad(profile((1, "16")), [*IN_P, "axis 1", "'16'", "integer"], TypeError),
    "None": Bad(profile({1: None}), [*IN_P, "axis 1", "None", "(min, opt, max)"], TypeError),
    "opt missing": Bad(
        profile({"min": (1, 1), "max": (1, 9)}), [*IN_P, "opt_shape missing", "min_shape and max_shape", "all three"]
    ),
    "min and max missing": Bad(profile({"opt_shape": (1, 1)}), [*IN_P, "min_shape and max_shape missing", "all three"]),
    "given twice": Bad(
        profile({"min": (1, 1), "min_shape": (1, 1), "opt": (1, 1), "max": (1, 1)}), [*IN_P, "'min'", "'min_shape'"]
    ),
    "unknown key": Bad(profile({"min": (1, 1), "best": (1, 1), "max": (1, 1)}), [*IN_P, "'best'", "'opt_shape'"]),
    "whole and by axis": Bad(
        profile({"min": (1, 1), "opt": (1, 1), "max": (1, 1), 1: 4}), [*IN_P, "cannot be mixed", "one or the other"]
    ),
    "pair": Bad(profile({1: (1, 16)}), [*IN_P, "axis 1", "(1, 16)", "extent or (min, opt, max)"]),
    "a sequence of shapes": Bad(
        profile([(1, 1), (1, 8), (1, 16)]), [*IN_P, "(1, 8)", "Name them", "'min_shape'"], TypeError
    ),
    "one, below what Dim.AUTO takes": Bad(
        profile({1: 1}),
        [*IN_P, "axis 1", "2 to 2048", "Dim('n', min=1)", "Dim.AUTO"],
        program=lambda: programs.decoder(low=2),
    ),
    "nothing for an input": Bad(profile({}), [*IN_P, "nothing is given", "(min, opt, max)"]),
    "a number for an input": Bad(profile(16), [*IN_P, "16", "(min, opt, max)"], TypeError),
    "a string for an input": Bad(profile("1x16"), [*IN_P, "'1x16'", "(min, opt, max)"], TypeError),
    "a shape that is no sequence": Bad(
        profile({"min": 1, "opt": (1, 1), "max": (1, 1)}), [*IN_P, "min_shape"], TypeError
    ),
    "ranks among the three": Bad(
        profile({"min": (1,), "opt": (1, 2), "max": (1, 2)}), [*IN_P, "(1,)", "(1, 2)", "different ranks"]
    ),
    "axis names among the three": Bad(
        profile({"min": AB(1, 2), "opt": BA(1, 2), "max": AB(1, 2)}),
        [*IN_P, "('batch', 'seq')", "('seq', 'batch')", "one named tuple"],
    ),
    "axis that is a bool": Bad(profile({True: 4}), [*IN_P, "True", "axis"], TypeError),
    "axis that is a float": Bad(profile({1.0: 4}), [*IN_P, "1.0", "axis"], TypeError),
    # Names.
    "empty name": Bad(profile({1: 4}, name=""), ["''", "1 to 64", "letters"]),
    "auto": Bad(profile({1: 4}, name="auto"), ["'auto'", "another name"]),
    "slash": Bad(profile({1: 4}, name="a/b"), ["'a/b'", "letters", "file names"]),
    "dots": Bad(profile({1: 4}, name=".."), ["'..'", "file names"]),
    "line break": Bad(profile({1: 4}, name="a\n"), ["'a\\n'", "letters"]),
    "long name": Bad(profile({1: 4}, name="x" * 65), ["1 to 64"]),
    "name that is a number": Bad(profile({1: 4}, name=1), ["1", "string"], TypeError),
    "input name that is a number": Bad(profile({1: 4}, of=0), ["'p'", "0", "string"], TypeError),
    "empty input name": Bad(profile({1: 4}, of=""), ["'p'", "''"], TypeError),
    "no inputs": Bad(lambda: [Profile("p", {})], ["'p'", "names no input", "Give at least one"]),
    "inputs that are a list": Bad(lambda: [Profile("p", [(1, 16)])], ["'p'", "mapping", "list"], TypeError),
    # The list of profiles.
    "no profiles": Bad(list, ["optimization_profiles is empty", "at least one", "leave it out"]),
    "a profile that is no list": Bad(
        lambda: Profile("p", {"input_ids": {1: 4}}), ["list of OptimizationProfile"], TypeError
    ),
    "a mapping of profiles": Bad(
        lambda: {"p": {"input_ids": {1: 4}}},
        ["list of OptimizationProfile", "dict", "[OptimizationProfile("],
        TypeError,
    ),
    "something else in the list": Bad(
        lambda: [Profile("p", {"input_ids": {1: 4}}), 3],
        ["[1]", "int", "Write", "OptimizationProfile('decode', {"],
        TypeError,
    ),
    "ranges alone in the list": Bad(
        lambda: [{"input_ids": {1: 4}}], ["[0]", "Write OptimizationProfile(name, {'input_ids': {1: 4}})\n"], TypeError
    ),
    "a name and ranges in the list": Bad(
        lambda: [("p", {"input_ids": {1: 4}})],
        ["[0]", "Write OptimizationProfile('p', {'input_ids': {1: 4}})\n"],
        TypeError,
    ),
    "duplicate name": Bad(
        lambda: [Profile(name, {"input_ids": {1: 4}}) for name in "aba"], ["[0] and [2]", "'a'", "name of its own"]
    ),
    # Against the program.
    "rank": Bad(profile((1, 16, 1)), [*IN_P, "(1, 16, 1)", "3 axes", "exported with 2"]),
    "static axis": Bad(profile((2, 16)), [*IN_P, "axis 0", "2", "always 1", "torch.export.Dim"]),
    "static axis by axis": Bad(profile({0: (1, 1, 2)}), [*IN_P, "axis 0", "(1, 1, 2)", "always 1", "torch.export.Dim"]),
    "above the exported range": Bad(
        profile({1: (1, 16, 4096)}), [*IN_P, "axis 1", "(1, 16, 4096)", "1 to 2048", "wider torch.export.Dim"]
    ),
    "below the exported range": Bad(
        profile({1: 1}),
        [*IN_P, "axis 1", "1", "4 to 2048", "wider torch.export.Dim"],
        program=lambda: programs.decoder(low=4),
    ),
    "one where the program starts at two": Bad(
        profile({0: 1}, of="x"),
        ["'p'", "'x'", "axis 0: 1 given, but the axis is at least 2, as exported"],
        program=lambda: programs.double(Dim.AUTO),
    ),
    "unknown input": Bad(
        profile({1: 4}, of="inputs_id"), ["'p'", "'inputs_id'", "Did you mean 'input_ids'?", "'cache'"]
    ),
    "unknown nested input": Bad(
        profile({1: 4}, of="batch['id'][0]"), ["'p'", "Did you mean \"batch['ids'][0]\"?"], program=programs.nested
    ),
    "input that is no tensor": Bad(
        profile({0: 4}, of="scale"), ["'p'", "'scale'", "no tensor"], program=programs.nested
    ),
    "input given twice": Bad(
        lambda: [Profile("p", {"batch_ids_0": {1: 4}, "batch['ids'][0]": {1: 4}})],
        ["'p'", "'batch_ids_0'", "batch['ids'][0]", "same input"],
        program=programs.nested,
    ),
    "axis given twice": Bad(profile({1: 4, -1: 4}), [*IN_P, "axes -1 and 1", "Give it once"]),
    "axis too large": Bad(profile({2: 4}), [*IN_P, "axis 2", "2 axes", "-2 to 1"]),
    "axis too negative": Bad(profile({-3: 4}), [*IN_P, "axis -3", "2 axes", "-2 to 1"]),
    "two ranges for a symbol": Bad(
        lambda: [Profile("p", {"input_ids": {1: (1, 4, 8)}, "position_ids": {1: (1, 4, 9)}})],
        ["'p'", "'input_ids', axis 1", "'position_ids', axis 1", "(1, 4, 8)", "(1, 4, 9)", "the same range"],
    ),
    "two optima for a symbol": Bad(
        lambda: [Profile("p", {"input_ids": {1: (1, 4, 8)}, "position_ids": {1: (1, 5, 8)}})],
        ["'p'", "'input_ids', axis 1", "'position_ids', axis 1"],
    ),
    "derived axis that no symbol gives": Bad(
        profile({0: (2, 5, 8)}, of="b"), ["'p'", "'b'", "axis 0", "5", "2*s"], program=programs.repeat
    ),
    "derived axis against its symbol": Bad(
        lambda: [Profile("p", {"a": {0: 4}, "b": {0: 10}})],
        ["'p'", "'a', axis 0", "'b', axis 0"],
        program=programs.repeat,
    ),
    "axis of two symbols": Bad(
        lambda: [Profile("p", {"a": {0: 4}, "b": {0: 5}, "c": {0: 10}})],
        ["'p'", "'c', axis 0", "10", "makes it 9", "axis 0 of 'a' and axis 0 of 'b'"],
        program=programs.concat,
    ),
    "no dynamic axis": Bad(
        profile({0: 4}, of="x"),
        ["'p'", "no dynamic axis", "nothing for profiles to vary", "without optimization_profiles"],
        program=lambda: programs.double(None),
    ),
    "a profile that no input uses": Bad(
        lambda: [Profile("q", {"input_ids": {1: 4}}), Profile("p", {"cache": (1, 8, 4)})],
        ["'p'", "sets no dynamic axis", "'cache'", "axis 1 of 'input_ids'"],
    ),
    "nothing but an axis that follows from others": Bad(
        profile({0: (4, 8, 16)}, of="b", name="a"),
        ["'a'", "only axis 0 of 'b', which others make", "one of these: axis 0 of 'a', axis 1 of 'a'\n"],
        program=programs.flatten,
    ),
    "unbounded axis": Bad(
        profile({0: 4}, of="x"),
        ["'p'", "'x'", "axis 1", "no upper bound", "(min, opt, max)", "Input"],
        program=lambda: programs.double(Dim.AUTO(max=16), Dim.AUTO),
    ),
    "unbounded axis without profiles": Bad(
        lambda: None, ["'x'", "axis 0", "no upper bound", "Input", "Dim"], program=lambda: programs.double(Dim.AUTO)
    ),
    # Beside Inputs and options.
    "refittable weights": Bad(profile({1: 4}), ["'p'", "immutable_weights=True"], options={"immutable_weights": False}),
    "profiles on an Input too": Bad(
        profile({1: 4}),
        ["'input_ids'", "optimization_profiles", "one place"],
        options={"inputs": [named(a=(1, 4)), ids(), Input((1, 8, 4))]},
    ),
    "a list of profiles on an Input too": Bad(
        profile({1: 4}),
        ["'position_ids'", "optimization_profiles", "one place"],
        options={
            "inputs": [
                ids(name="input_ids"),
                ids(profiles=[dict.fromkeys(("min_shape", "opt_shape", "max_shape"), (1, 4))]),
            ]
        },
    ),
    "outside an Input": Bad(
        profile({1: (1, 4, 512)}),
        [*IN_P, "axis 1", "(1, 4, 512)", "1 to 256", "Input for 'position_ids', axis 1", "widen the Input"],
        options={"inputs": [ids(name="input_ids"), ranged(1, 4, 256)]},
    ),
    "an Input outside the program": Bad(
        profile({1: 4}),
        ["Input for 'input_ids', axis 1", "(1, 4, 4096)", "1 to 2048"],
        options={"inputs": [ranged(1, 4, 4096)]},
    ),
    "Inputs that contradict each other": Bad(
        profile({1: 4}),
        ["Input for 'input_ids', axis 1", "Input for 'position_ids', axis 1", "(1, 4, 64)", "(1, 4, 128)"],
        options={"inputs": [ranged(1, 4, 64), ranged(1, 4, 128)]},
    ),
    "Inputs with two optima": Bad(
        lambda: None,
        ["Input for 'input_ids', axis 1", "Input for 'position_ids', axis 1", "4 and 5"],
        options={"inputs": [ids(opt_shape=(1, 4)), ids(opt_shape=(1, 5))]},
    ),
    "an Input whose optimum is above its maximum": Bad(
        profile({1: 4}),
        ["Input for 'input_ids', axis 1", "opt 99", "max 64"],
        options={"inputs": [ranged(1, 99, 64)]},
    ),
    "an Input of another rank": Bad(
        profile({1: 4}),
        ["Input for 'input_ids'", "(4,)", "1 axes", "with 2"],
        options={"inputs": [ids(opt_shape=(4,))]},
    ),
    "an axis name for no axis": Bad(
        profile({1: 4}),
        ["Input for 'input_ids'", "axis 2", "2 axes"],
        options={"inputs": [ids(shared_dims={2: "seq"})]},
    ),
    "both names for the inputs": Bad(
        profile({1: 4}), ["inputs and arg_inputs"], options={"inputs": [ids()], "arg_inputs": [ids()]}
    ),
    "dtype of an Input": Bad(
        profile({1: 4}),
        ["Input for 'input_ids'", "float32", "int64"],
        options={"inputs": [Input(name="input_ids", dtype=torch.float32)]},
    ),
    "dtype of an example": Bad(
        profile({1: 4}), ["'input_ids'", "float32", "int64"], options={"inputs": [torch.zeros(1, 16)]}
    ),
    "rank of an example": Bad(
        profile({1: 4}),
        ["'input_ids'", "(16,)", "exported as (1, s"],
        options={"inputs": [torch.zeros(16, dtype=torch.int64)]},
    ),
    "static axis of an example": Bad(
        profile({1: 4}), ["'cache'", "axis 1", "9", "8"], options={"kwarg_inputs": {"cache": torch.zeros(1, 9, 4)}}
    ),
    "something else for an input": Bad(
        profile({1: 4}), ["'input_ids'", "tensor", "'ids'"], TypeError, options={"inputs": ["ids"]}
    ),
    "too many inputs": Bad(profile({1: 4}), ["4 inputs", "has 3", "cache"], options={"inputs": [None] * 4}),
    "unknown keyword": Bad(
        profile({1: 4}), ["'cash'", "Did you mean 'cache'?"], options={"kwarg_inputs": {"cash": torch.zeros(1, 8, 4)}}
    ),
    "an input given twice": Bad(
        profile({1: 4}),
        ["'input_ids'", "twice"],
        options={"inputs": [ids(name="position_ids"), ids(name="input_ids"), ids(name="input_ids")]},
    ),
    "another structure": Bad(
        profile({1: 4}, of="mask"),
        ["'batch'", "['ids']", "'idz'"],
        program=programs.nested,
        options={"inputs": [{"idz": []}]},
    ),
    "another length": Bad(
        profile({1: 4}, of="mask"),
        ["batch['ids']", "structure"],
        program=programs.nested,
        options={"inputs": [{"ids": [torch.zeros(2, 16)]}]},
    ),
    # Profiles that Inputs name.
    "two lists of names": Bad(
        lambda: None,
        ["'input_ids'", "['prefill', 'decode']", "'position_ids'", "['decode', 'prefill']", "same order"],
        options={"inputs": list(two_named_inputs())},
    ),
    "names on one Input only": Bad(
        lambda: None,
        ["'input_ids'", "['a']", "'position_ids'", "1 without names"],
        options={
            "inputs": [named(a=(1, 4)), ids(profiles=[{"min_shape": (1, 1), "opt_shape": (1, 4), "max_shape": (1, 4)}])]
        },
    ),
    "named profiles outside the program": Bad(
        lambda: None, ["'a'", "'input_ids'", "axis 1", "4096", "1 to 2048"], options={"inputs": [named(a=(1, 4096))]}
    ),
}


def snapshot(program: ExportedProgram, options: dict[str, Any]) -> Any:
    def state(value: Any) -> Any:
        return (
            copy.deepcopy({k: v for k, v in vars(value).items() if k != "torch_tensor"})
            if isinstance(value, Input)
            else id(value)
        )

    leaves = torch.utils._pytree.tree_leaves(options)
    return (
        str(program.graph),
        dict(program.range_constraints),
        [id(leaf) for leaf in leaves],
        [state(leaf) for leaf in leaves],
    )


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_refused_with_a_message_and_nothing_changed(bad: Bad) -> None:
    import torch_tensorrt

    program = bad.program()
    before = snapshot(program, bad.options)
    with pytest.raises(bad.error) as caught:
        torch_tensorrt.dynamo.compile(program, optimization_profiles=bad.profiles(), **bad.options)
    assert type(caught.value) is bad.error
    message = str(caught.value)
    assert [part for part in bad.says if part not in message + "\n"] == [], message
    assert snapshot(program, bad.options) == before


def test_a_traced_size_is_no_extent() -> None:
    class Traced(torch.nn.Module):
        def forward(self, x):
            Profile("p", {"x": (x.shape[0],)})
            return x * 2

    with pytest.raises(TypeError, match="'p', input 'x', axis 0: shape has to be an integer"):
        export(Traced(), (torch.zeros(4),), dynamic_shapes={"x": {0: Dim.AUTO}})
