"""Reading a directory of traces: engines, profiles, processes, ranks, and what cannot be used."""

from __future__ import annotations

import json
import os

import pytest
from torch_tensorrt_profiles.report._run import NoTracesError, read_run
from trace_writer import (
    DECODE,
    INFORMATION,
    LAYERS,
    PREFILL,
    Layer,
    engine_record,
    perfetto,
    stock_perfetto,
    timing_row,
    trex,
    with_mark,
    write_engine,
    write_two_profiles,
)


def figures(profile):
    return {layer.name: (layer.total_ms, layer.count) for layer in profile.layers}


def by_profile(engine):
    return {profile.label: figures(profile) for profile in engine.profiles}


def as_figures(layers, *, counts=True):
    return {layer.name: (pytest.approx(layer.total_ms), layer.count if counts else None) for layer in layers}


def reasons(run):
    return {skipped.path: skipped.reason for skipped in run.skipped}


def test_profiles_are_told_apart_by_their_mark(tmp_path):
    write_two_profiles(tmp_path)
    run = read_run(tmp_path)
    (engine,) = run.engines
    assert by_profile(engine) == {"prefill": as_figures(PREFILL), "decode": as_figures(DECODE)}
    assert [profile.index for profile in engine.profiles] == [0, 1]
    assert (engine.name, engine.pid, engine.rank, engine.device) == ("decoder_engine", 4711, None, 0)
    assert (run.skipped, engine.remarks) == ((), ())
    decode = engine.profiles[1]
    assert decode.total_ms == pytest.approx(18.5)
    assert decode.share(decode.layers[3]) == pytest.approx(9 / 18.5)
    assert decode.layers[3].mean_ms == pytest.approx(0.09)


def test_perfetto_has_no_counts(tmp_path):
    write_two_profiles(tmp_path, format="perfetto")
    (engine,) = read_run(tmp_path).engines
    assert by_profile(engine) == {
        "prefill": as_figures(PREFILL, counts=False),
        "decode": as_figures(DECODE, counts=False),
    }
    assert engine.profiles[0].layers[0].mean_ms is None
    assert "trex" in engine.remarks[0]


def test_a_run_of_the_first_profile_only(tmp_path):
    """Nothing in the trace is marked, but the layer information shows that marks are in use."""
    known = [layer.name for layer in [*PREFILL, *with_mark(DECODE, 1)]]
    write_engine(tmp_path, PREFILL, profile_names=["prefill", "decode"], known_layers=known)
    (engine,) = read_run(tmp_path).engines
    assert by_profile(engine) == {"prefill": as_figures(PREFILL)}


def test_a_layer_information_that_could_not_be_repaired_has_the_names(tmp_path):
    write_engine(tmp_path, PREFILL, profile_names=["prefill", "decode"])
    content = {"Layers": [layer.name for layer in with_mark(PREFILL, 1)], "unreadable": "Layers: ..."}
    (tmp_path / f"decoder_engine{INFORMATION}").write_text(json.dumps(content))
    run = read_run(tmp_path)
    assert by_profile(run.engines[0]) == {"prefill": as_figures(PREFILL)}
    assert run.skipped == ()


def test_profiles_that_nothing_tells_apart_are_not_guessed(tmp_path):
    write_engine(tmp_path, PREFILL, profile_names=["prefill", "decode"])
    (engine,) = read_run(tmp_path).engines
    (profile,) = engine.profiles
    assert (profile.index, profile.label) == (None, "all profiles")
    assert "dump_engine_timing" in engine.remarks[0]


def test_timings_tell_profiles_and_counts(tmp_path):
    write_engine(tmp_path, [*PREFILL], profile_names=["prefill", "decode"], format="perfetto")
    rows = [timing_row("decode", layer) for layer in DECODE] + [timing_row("prefill", layer) for layer in PREFILL]
    rows.append(timing_row("decode", DECODE[0], object_id="0xother"))
    (tmp_path / "timing.4711.json").write_text(json.dumps(rows))
    (engine,) = read_run(tmp_path).engines
    assert by_profile(engine) == {"prefill": as_figures(PREFILL), "decode": as_figures(DECODE)}
    assert [profile.index for profile in engine.profiles] == [0, 1]
    assert engine.remarks == ()


def test_timings_by_index(tmp_path):
    write_engine(tmp_path, DECODE)
    (tmp_path / "timing.4711.json").write_text(json.dumps([timing_row(2, layer) for layer in DECODE]))
    (engine,) = read_run(tmp_path).engines
    assert by_profile(engine) == {"profile 2": as_figures(DECODE)}


def test_timings_of_an_address_that_was_used_again_are_not_used(tmp_path):
    write_engine(tmp_path, PREFILL, name="gone")
    write_engine(tmp_path, DECODE, name="alive")  # the same object_id
    (tmp_path / "timing.4711.json").write_text(json.dumps([timing_row(0, Layer("other", 1.0))]))
    assert [by_profile(engine) for engine in read_run(tmp_path).engines] == [
        {"profile 0": as_figures(DECODE)},
        {"profile 0": as_figures(PREFILL)},
    ]


def test_several_engines_processes_and_ranks(tmp_path):
    write_engine(tmp_path, PREFILL)
    write_engine(tmp_path, DECODE, folder="decoder_engine.4711", object_id="0x2")
    for rank in (0, 1):
        write_engine(
            tmp_path, PREFILL, pid=100 + rank, folder=f"decoder_engine.{100 + rank}.r{rank}", rank=rank, device=rank
        )
    run = read_run(tmp_path)
    assert [(e.pid, e.rank, e.device, e.folder) for e in run.engines] == [
        (4711, None, 0, "."),
        (4711, None, 0, "decoder_engine.4711"),
        (100, 0, 0, "decoder_engine.100.r0"),
        (101, 1, 1, "decoder_engine.101.r1"),
    ]
    labels = [engine.label for engine in run.engines]
    assert len(set(labels)) == 4, labels
    assert labels[2] == "decoder_engine (rank 0, pid 100)"
    assert run.skipped == ()


def test_processes_of_one_number_on_two_hosts_have_their_own_timings(tmp_path):
    """In a container everybody is process 1, and addresses are often the same too."""
    for host, layers in (("a", PREFILL), ("b", DECODE)):
        write_engine(tmp_path / host, [], pid=1)
        (tmp_path / host / "timing.1.json").write_text(json.dumps([timing_row(0, layer) for layer in layers]))
    first, second = read_run(tmp_path).engines
    assert by_profile(first) == {"profile 0": as_figures(PREFILL)}
    assert by_profile(second) == {"profile 0": as_figures(DECODE)}


def test_files_of_stock_without_a_list_of_engines(tmp_path):
    (tmp_path / f"a_engine{LAYERS}").write_text(stock_perfetto(PREFILL, "a_engine"))
    (tmp_path / f"a_engine{INFORMATION}").write_text(json.dumps({"Layers": [{"Name": "embedding", "LayerType": "x"}]}))
    (engine,) = read_run(tmp_path).engines
    assert (engine.name, engine.pid, engine.format) == ("a_engine", None, "perfetto")
    assert by_profile(engine) == {"profile 0": as_figures(PREFILL, counts=False)}


def test_a_folder_tells_process_and_rank_where_the_list_is_lost(tmp_path):
    write_engine(tmp_path, PREFILL, folder="decoder_engine.31.r2.1", pid=31)
    (tmp_path / "engines.31.json").write_text('{"pid": 31, "eng')
    run = read_run(tmp_path)
    (engine,) = run.engines
    assert (engine.pid, engine.rank, engine.device) == (31, 2, None)
    assert "cut off" in reasons(run)["engines.31.json"]


@pytest.mark.parametrize(
    ("format", "newer", "kept"), [("perfetto", 1, 2), ("perfetto", 2, 2), ("trex", 1, 1), ("trex", 2, 2)]
)
def test_a_place_that_two_processes_had_in_turn(tmp_path, format, newer, kept):
    write_engine(tmp_path, DECODE, pid=1, format=format, device=1)
    write_engine(tmp_path, PREFILL, pid=2, format=format, device=2)
    os.utime(tmp_path / f"engines.{newer}.json", (2e9, 2e9))
    run = read_run(tmp_path)
    (engine,) = run.engines
    assert (engine.pid, engine.device) == (kept, kept)
    assert reasons(run) == {
        f"engines.{3 - kept}.json": f"engine 'decoder_engine': its traces were replaced by process {kept}"
    }


CUT = trex(PREFILL)[:70]

UNUSABLE = [
    ("is an empty file", ""),
    ("is an empty file", " \n"),
    ("cut off", CUT),
    ("cut off", "["),
    ("cut off", '[{"name": "a'),
    ("not JSON", '[{"name": "a", "ph": "X", "ts": 0, "dur": nan, "tid": 1, "pid": 1}]'),
    ("not JSON", '[{"name": "a "quoted" one", "ph": "X"}]'),
    ("NaN", '[{"name": "a", "timeMs": NaN, "averageMs": 1}]'),
    ("of another kind", '{"traceEvents": []}'),
    ("of another kind", "[1, 2]"),
    ("of another kind", '"text"'),
    ("neither 'timeMs' nor 'ph'", '[{"name": "a"}]'),
    ("'dur' is -1", '[{"name": "a", "ph": "X", "ts": 0, "dur": -1}]'),
    ("'dur' is null", '[{"name": "a", "ph": "X", "ts": 0}]'),
    ("'dur' is true", '[{"name": "a", "ph": "X", "ts": 0, "dur": true}]'),
    ("'name' is 3", '[{"name": 3, "ph": "X", "ts": 0, "dur": 1}]'),
    ("'averageMs' is null", '[{"name": "a", "timeMs": 1}]'),
    ("mixes", '[{"name": "a", "timeMs": 1, "averageMs": 1}, {"name": "a", "ph": "X", "ts": 0, "dur": 1}]'),
    ("nested too deeply", "[" * 100_000 + "]" * 100_000),
    ("not UTF-8", b"[\xff\xfe]"),
    ("is not JSON", b"\x7fELF\x01\x02"),
    ("number from 0 to", '[{"name": "a", "timeMs": 1e999, "averageMs": 1}]'),
    ("number from 0 to", '[{"name": "a", "timeMs": 1e308, "averageMs": 1}]'),
    ("number from 0 to", '[{"name": "a", "timeMs": 1' + "0" * 400 + ', "averageMs": 1}]'),
    ("is not JSON", "[" + "9" * 5000 + "]"),
]


@pytest.mark.parametrize(("reason", "content"), UNUSABLE)
def test_a_file_that_cannot_be_used_is_named_and_the_rest_reported(tmp_path, reason, content):
    write_engine(tmp_path, PREFILL)
    bad = tmp_path / f"bad_engine{LAYERS}"
    bad.write_bytes(content if isinstance(content, bytes) else content.encode())
    run = read_run(tmp_path)
    assert [engine.name for engine in run.engines] == ["decoder_engine"]
    assert reason in reasons(run)[bad.name], reasons(run)
    bad.rename(tmp_path / f"decoder_engine{LAYERS}")
    with pytest.raises(NoTracesError, match="holds no usable layer trace") as raised:
        read_run(tmp_path)
    assert reason in str(raised.value)


def test_a_count_that_no_profiler_can_have_is_not_told(tmp_path):
    write_engine(tmp_path, PREFILL)
    (tmp_path / f"decoder_engine{LAYERS}").write_text('[{"name": "a", "timeMs": 1, "averageMs": 5e-324}]')
    assert figures(read_run(tmp_path).engines[0].profiles[0]) == {"a": (1.0, None)}


@pytest.mark.parametrize("number", ["9" * 5000, "\u0663", "\u00b2", ""])
def test_what_only_looks_like_the_mark_of_a_profile_is_a_name(tmp_path, number):
    write_engine(tmp_path, [Layer(f"a [profile {number}]", 1.0)])
    (profile,) = read_run(tmp_path).engines[0].profiles
    assert [layer.name for layer in profile.layers] == [f"a [profile {number}]"]


def test_a_directory_that_cannot_be_read_is_named_and_the_rest_reported(tmp_path, monkeypatch):
    write_engine(tmp_path, PREFILL)
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def refusing(path):  # the tests may run as root, who may read everything
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    run = read_run(tmp_path)
    assert len(run.engines) == 1
    assert reasons(run) == {"locked": "cannot be read: Permission denied"}
    with pytest.raises(NoTracesError, match="locked cannot be read: Permission denied"):
        read_run(tmp_path / "locked")


def test_names_of_files_are_escaped_in_the_message(tmp_path):
    (tmp_path / "\x1b[31mred\n").write_text("")
    with pytest.raises(NoTracesError, match=r"\\x1b\[31mred\\x0a: is no file"):
        read_run(tmp_path)


def test_foreign_files_folders_and_links(tmp_path):
    write_engine(tmp_path, PREFILL)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / ".torchtrt_profiles.lock").write_text("")
    (tmp_path / LAYERS).write_text("no engine's name")
    (tmp_path / f"x{LAYERS}").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / f"pipe{LAYERS}").symlink_to("/nowhere")
    run = read_run(tmp_path)
    assert len(run.engines) == 1
    assert set(reasons(run)) == {"notes.txt", LAYERS, f"pipe{LAYERS}"}
    assert "No such file" in reasons(run)[f"pipe{LAYERS}"]


def test_a_named_pipe_is_not_waited_for(tmp_path):
    write_engine(tmp_path, PREFILL)
    os.mkfifo(tmp_path / f"pipe{LAYERS}")
    assert "no regular file" in reasons(read_run(tmp_path))[f"pipe{LAYERS}"]


def test_parts_of_an_engine_may_be_lost(tmp_path):
    write_engine(tmp_path, PREFILL)
    (tmp_path / f"decoder_engine{INFORMATION}").write_text('{"unreadable": "no names"}')
    (tmp_path / "decoder_engine_input_profile.trace").write_text("[")
    (tmp_path / "decoder_engine_output_profile.trace").write_text('[{"name": 1}]')
    run = read_run(tmp_path)
    (engine,) = run.engines
    assert by_profile(engine) == {"profile 0": as_figures(PREFILL)}
    assert set(engine.phases) == {"enqueue"}
    assert len(run.skipped) == 3


def test_phases_of_an_engine_without_a_layer_trace(tmp_path):
    write_engine(tmp_path, PREFILL)
    (tmp_path / "lost_engine_input_profile.trace").write_text(perfetto([], "lost_engine", 1))
    assert "has no lost_engine_engine_execution_profile.trace beside it" in reasons(read_run(tmp_path)).values()


def test_an_engine_in_the_list_whose_traces_are_gone(tmp_path):
    write_engine(tmp_path, PREFILL)
    write_engine(tmp_path, PREFILL, name="gone", object_id="0x2")
    for path in tmp_path.glob("gone_*"):
        path.unlink()
    run = read_run(tmp_path)
    assert len(run.engines) == 1
    assert "engine 'gone'" in reasons(run)["engines.4711.json"]


@pytest.mark.parametrize(
    ("reason", "content"),
    [
        ("expected an object", "[]"),
        ("'pid' is '1'", '{"pid": "1", "engines": []}'),
        ("'pid' is True", '{"pid": true, "engines": []}'),
        ("holds process 5", '{"pid": 5, "engines": []}'),
        ("list of objects", '{"pid": 1, "engines": 3}'),
        ("'profile_names' is None", '{"pid": 1, "engines": [{"name": "a"}]}'),
        ("'folder' is null", json.dumps({"pid": 1, "engines": [{**engine_record("a"), "folder": None}]})),
        ("'rank' is", json.dumps({"pid": 1, "engines": [{**engine_record("a"), "rank": "r"}]})),
        ("leads out of", json.dumps({"pid": 1, "engines": [engine_record("a", "../elsewhere")]})),
        ("leads out of", json.dumps({"pid": 1, "engines": [engine_record("a", "/etc")]})),
    ],
)
def test_a_damaged_list_of_engines(tmp_path, reason, content):
    write_engine(tmp_path, PREFILL)
    (tmp_path / "engines.1.json").write_text(content)
    run = read_run(tmp_path)
    assert len(run.engines) == 1
    assert reason in reasons(run)["engines.1.json"], reasons(run)


@pytest.mark.parametrize(
    ("reason", "content"),
    [
        ("list of objects", "{}"),
        ("'profile' is null", "[{}]"),
        ("'profile' is -1", '[{"profile": -1, "count": 1}]'),
        ("'count' is -1", '[{"profile": 0, "count": -1}]'),
        ("'count' is 1000", '[{"profile": 0, "count": 1' + "0" * 400 + "}]"),
        ("'engine' is null", '[{"profile": 0, "count": 1}]'),
    ],
)
def test_damaged_timings(tmp_path, reason, content):
    write_engine(tmp_path, PREFILL)
    (tmp_path / "timing.4711.json").write_text(content)
    run = read_run(tmp_path)
    assert by_profile(run.engines[0]) == {"profile 0": as_figures(PREFILL)}
    assert reason in reasons(run)["timing.4711.json"]


def test_timings_stand_in_for_a_damaged_trace(tmp_path):
    write_engine(tmp_path, PREFILL, profile_names=["prefill", "decode"])
    (tmp_path / f"decoder_engine{LAYERS}").write_text(CUT)
    (tmp_path / "timing.4711.json").write_text(json.dumps([timing_row("decode", layer) for layer in DECODE]))
    run = read_run(tmp_path)
    assert by_profile(run.engines[0]) == {"decode": as_figures(DECODE)}
    assert "cut off" in reasons(run)[f"decoder_engine{LAYERS}"]


def test_no_directory_and_an_empty_one(tmp_path):
    with pytest.raises(NoTracesError, match="does not exist"):
        read_run(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(NoTracesError, match="is a file"):
        read_run(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoTracesError, match="is empty"):
        read_run(tmp_path / "empty")


def test_too_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr("torch_tensorrt_profiles.report._run.MAX_FILES", 3)
    write_engine(tmp_path, PREFILL)
    with pytest.raises(NoTracesError, match="more than 3 files"):
        read_run(tmp_path)


def test_a_relative_directory(tmp_path, monkeypatch):
    write_two_profiles(tmp_path / "traces")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    from pathlib import Path

    run = read_run(Path("../traces"))
    assert run.engines[0].profile_names == ("prefill", "decode")
    assert str(run.directory) == "../traces"


def test_a_layer_that_took_no_time_and_a_trace_without_layers(tmp_path):
    write_engine(tmp_path, [Layer("shuffle", 0.0)])
    write_engine(tmp_path, [], name="graph_engine", object_id="0x2")
    shuffle, empty = read_run(tmp_path).engines
    assert figures(shuffle.profiles[0]) == {"shuffle": (0.0, None)}
    assert shuffle.profiles[0].share(shuffle.profiles[0].layers[0]) == 0
    assert empty.profiles == ()
    assert "names no layer" in empty.remarks[0]


def test_layers_of_one_name_are_added_up(tmp_path):
    write_engine(tmp_path, [Layer("a", 1.0, 2), Layer("a", 3.0, 4)])
    assert figures(read_run(tmp_path).engines[0].profiles[0]) == {"a": (4.0, 6)}
