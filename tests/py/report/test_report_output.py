"""What a run looks like: terminal, CSV, JSON, HTML, timeline."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from torch_tensorrt_profiles.report._html import comparison_as_html, run_as_html
from torch_tensorrt_profiles.report._layer_names import short_layer_name
from torch_tensorrt_profiles.report._records import runs_as_csv, runs_as_json
from torch_tensorrt_profiles.report._run import read_run
from torch_tensorrt_profiles.report._text import comparison_as_text, run_as_text
from torch_tensorrt_profiles.report._text_table import printable, shortened, text_table, width_of
from torch_tensorrt_profiles.report._timeline import run_as_timeline
from trace_event_format import check_trace_events
from trace_writer import DECODE, PREFILL, Layer, with_mark, write_engine, write_two_profiles

NASTY = [
    'quote " and \\',
    "<script>alert(1)</script>",
    "&amp; ]]> -->",
    "\x1b[31mred\x1b[0m\nline",
    "n\u00e4me \u20ac \u6f22\u5b57",
    "=cmd()",
    "x" * 400,
]


@pytest.fixture
def run(tmp_path):
    write_two_profiles(tmp_path)
    return read_run(tmp_path)


@pytest.fixture
def nasty(tmp_path):
    write_engine(tmp_path, [Layer(name, 1.0 + i) for i, name in enumerate(NASTY)])
    return read_run(tmp_path)


@pytest.fixture
def two_runs(tmp_path):
    write_two_profiles(tmp_path / "a")
    slower = [Layer(layer.name, layer.total_ms * (2 if layer.name == "mlp" else 1), layer.count) for layer in PREFILL]
    write_engine(
        tmp_path / "b",
        [*slower, *with_mark([*DECODE, Layer("new", 1.0, 10)], 1)],
        profile_names=["prefill", "decode"],
        pid=9,
    )
    write_engine(tmp_path / "b", PREFILL, name="other_engine", pid=9, object_id="0x2")
    return read_run(tmp_path / "a"), read_run(tmp_path / "b")


def line_of(text, start):
    """The cells of the first line that starts so, with one space between them."""
    return " ".join(next(line for line in text.splitlines() if line.startswith(start)).split())


class TestText:
    def test_profiles_side_by_side_with_the_difference(self, run):
        text = run_as_text(run, top=10, width=120)
        assert line_of(text, "head") == "head 16.0% 0.4000 4.0000 10 48.6% 0.0900 9.0000 100 -0.3100"
        layers = [line.split()[0] for line in text.splitlines() if "%" in line][1:]
        assert layers == ["head", "mlp", "attention", "embedding"]  # by the largest share in a profile
        assert "vs prefill" in text

    def test_profiles_with_layers_of_their_own_have_tables_of_their_own(self, tmp_path):
        """As TensorRT-RTX names them: beside each other, most cells would be empty."""
        one, other = [Layer("a0", 2.0), Layer("a1", 8.0)], [Layer("b0", 1.0), Layer("b1", 3.0)]
        write_engine(tmp_path, [*one, *with_mark(other, 1)], profile_names=["one", "other"])
        text = run_as_text(read_run(tmp_path), top=1, width=120)
        assert line_of(text, "a1").startswith("a1 80.0%")
        assert line_of(text, "b1").startswith("b1 75.0%")
        assert text.count("(1 more layer;") == 2
        assert "vs one" not in text

    def test_top(self, run):
        text = run_as_text(run, top=2, width=120)
        assert "attention" not in text
        assert "2 more layers" in text

    def test_layers_that_took_no_time_are_told_from_those_that_did(self, tmp_path):
        """TensorRT-RTX reports waits and the like: they are no layers to look at."""
        layers = [Layer("mlp", 2.0), Layer("head", 1.0), Layer("wait 1", 0.0), Layer("wait 2", 0.0)]
        write_engine(tmp_path, layers, format="perfetto")
        run = read_run(tmp_path)
        text = run_as_text(run, top=1, width=120)
        header, _, row = text.splitlines()[:3]
        assert row[header.index("layers") :].split()[0] == "2"
        assert "(layers are those that took time; 2 more took none)" in text
        assert "(3 more layers, 2 of which took no time; --top shows more)" in text
        assert "(2 more layers, all of which took no time; --top shows more)" in run_as_text(run, top=2, width=120)
        assert "(2 more layers, all of which took no time;" in comparison_as_text(run, run, top=2, width=120)
        assert "All 4 layers, 2 of which took no time" in _Page(run_as_html(run, top=1)).texts

    def test_a_narrow_terminal_stacks_profiles(self, run):
        wide, narrow = (run_as_text(run, top=10, width=width) for width in (120, 80))
        assert wide.count("embedding") == 1
        assert narrow.count("embedding") == 2
        assert max(map(len, narrow.splitlines())) <= 80
        assert line_of(narrow[narrow.index("| decode") :], "head").endswith(" -0.3100")

    def test_totals_of_different_numbers_of_calls_are_not_compared(self, tmp_path):
        write_two_profiles(tmp_path, format="perfetto")
        text = run_as_text(read_run(tmp_path), top=10, width=120)
        assert line_of(text, "head") == "head 16.0% - 4.0000 - 48.6% - 9.0000 - -"

    def test_a_terminal_is_not_sent_control_characters(self, nasty):
        text = run_as_text(nasty, top=10, width=100)
        assert "\x1b" not in text
        assert "\\x1b[31mred" in text
        assert all(width_of(line) <= 100 for line in text.splitlines())

    def test_skipped_files_are_listed(self, tmp_path):
        write_engine(tmp_path, PREFILL)
        for number in range(13):
            (tmp_path / f"foreign{number:02}\x1b").write_text("")
        text = run_as_text(read_run(tmp_path), top=1, width=100)
        assert text.count("is no file that profiling writes") == 10
        assert "and 3 more" in text
        assert "\x1b" not in text

    def test_two_runs(self, two_runs):
        text = comparison_as_text(*two_runs, top=2, width=120)
        prefill = text[text.index("decoder_engine, prefill") :]
        assert line_of(prefill, "mlp") == "mlp 1.2000 2.4000 +1.2000 2.00"
        assert line_of(prefill, "all layers") == "all layers 2.5000 3.7000 +1.2000 1.48"
        decode = text[text.index("decoder_engine, decode") :]
        assert line_of(decode, "new") == "new - 0.1000 - -"
        assert "other_engine, profile 0: only in B" in text

    def test_two_runs_without_counts(self, tmp_path):
        for name in ("a", "b"):
            write_engine(tmp_path / name, PREFILL, format="perfetto")
        text = comparison_as_text(read_run(tmp_path / "a"), read_run(tmp_path / "b"), top=1, width=120)
        assert "A total ms" in text
        assert line_of(text, "all layers") == "all layers 25.0000 25.0000 +0.0000 1.00"


class TestTextTable:
    def test_wide_characters(self):
        table = text_table(["name", "n"], [["\u6f22\u5b57", "1"], ["abcd", "22"]]).splitlines()
        assert table[2] == "\u6f22\u5b57   1"
        assert table[3] == "abcd  22"

    @pytest.mark.parametrize("width", range(5, 20))
    def test_shortening_keeps_both_ends(self, width):
        name = "abcdefghijklmnopqrstuvwxyz"
        short = shortened(name, width)
        assert width_of(short) == width
        front, _, back = short.partition("...")
        assert name.startswith(front)
        assert name.endswith(back)

    def test_shortening_may_keep_more_of_the_beginning(self):
        assert shortened("abcdefghijklmnopqrstuvwxyz", 12, front=2 / 3) == "abcdef...xyz"

    def test_a_long_group_title_widens_its_columns(self):
        lines = text_table(["a", "b"], [["1", "2"]], groups=[("", 1), ("a very long title", 1)]).splitlines()
        assert lines[0].index("a very") == 3
        assert len(lines[1]) == len(lines[2])

    def test_printable(self):
        assert printable("a\u202eb\u2066") == "a\\x202eb\\x2066"
        assert printable("a\x00\x1b\x7f\x9b\u2028\u00e4") == "a\\x00\\x1b\\x7f\\x9b\\x2028\u00e4"


class TestLayerNames:
    """As TensorRT-RTX names layers of the example on an H200: what tells them apart is in the middle and at the end."""

    NAMES = [
        layer.name
        for engine in read_run(Path(__file__).parent / "h200" / "traces").engines
        for profile in engine.profiles
        for layer in profile.layers
    ]

    @pytest.mark.parametrize("width", [44, 60, 80])
    def test_each_layer_is_told_from_the_others_and_shows_its_node(self, width):
        short = {name: short_layer_name(name, width) for name in self.NAMES}
        assert len(set(short.values())) == len(set(self.NAMES))
        assert max(map(width_of, short.values())) <= width
        nodes = {name: match[1] for name in self.NAMES if (match := re.search(r"\[([a-z][\w.]*/linear_\d+)_", name))}
        assert len(nodes) > 15
        for name, node in nodes.items():
            assert node in short[name]

    def test_a_name_that_fits_is_whole(self):
        for name in self.NAMES:
            assert short_layer_name(name, len(name)) == name

    def test_charts_shorten_and_tell_the_whole_name_when_pointed_at(self, tmp_path):
        name = "[MATRIX_MULTIPLY]-[aten_ops.linear.default]-[blocks.0.up/linear_3_matrix_multiply] [profile 1]_myl1_22"
        write_engine(tmp_path / "a", [Layer(name, 1.0)])
        write_engine(tmp_path / "b", [Layer(name, 2.0)])
        run, other = read_run(tmp_path / "a"), read_run(tmp_path / "b")
        for text in (run_as_html(run, top=20), comparison_as_html(run, other, top=20)):
            labels = dict(re.findall(r'class="label"[^>]*><title>([^<]*)</title>([^<]*)<', text))
            assert labels[name] == "...[blocks.0.up/linear_3_mat...y]..._myl1_22"


class TestRecords:
    def test_csv(self, run):
        rows = list(csv.DictReader(io.StringIO(runs_as_csv([run]))))
        assert len(rows) == 8
        head = next(row for row in rows if (row["profile"], row["layer"]) == ("decode", "head"))
        assert head["run"] == str(run.directory)
        assert {k: head[k] for k in ("engine", "pid", "rank", "device", "profile_index", "count", "total_ms")} == {
            "engine": "decoder_engine",
            "pid": "4711",
            "rank": "",
            "device": "0",
            "profile_index": "1",
            "count": "100",
            "total_ms": "9.0",
        }
        assert float(head["share"]) == pytest.approx(9 / 18.5)

    def test_names_survive(self, nasty):
        rows = list(csv.DictReader(io.StringIO(runs_as_csv([nasty]))))
        assert [row["layer"] for row in rows] == NASTY
        (engine,) = json.loads(runs_as_json([nasty]))["runs"][0]["engines"]
        assert [layer["name"] for layer in engine["profiles"][0]["layers"]] == NASTY

    def test_json(self, run):
        document = json.loads(runs_as_json([run]))
        assert document["schema"] == 1
        assert "comparison" not in document
        (engine,) = document["runs"][0]["engines"]
        assert engine["profile_names"] == ["prefill", "decode"]
        assert [profile["index"] for profile in engine["profiles"]] == [0, 1]
        assert engine["profiles"][1]["layers"][3] == {
            "name": "head",
            "count": 100,
            "total_ms": 9.0,
            "mean_ms": pytest.approx(0.09),
            "share": pytest.approx(9 / 18.5),
        }
        assert engine["last_call_us"]["input packing"][1] == {
            "name": "cudaStreamSynchronize",
            "start": 4.0,
            "duration": 20.0,
        }

    def test_json_of_two_runs(self, two_runs):
        comparison = json.loads(runs_as_json(list(two_runs)))["comparison"]
        assert [(pair["engine"], pair["profile"], pair["in"]) for pair in comparison] == [
            ("decoder_engine", "prefill", ["first", "second"]),
            ("decoder_engine", "decode", ["first", "second"]),
            ("other_engine", "profile 0", ["second"]),
        ]
        assert comparison[0]["layers"][0] == {
            "name": "mlp",
            "difference_ms": pytest.approx(1.2),
            "ratio": pytest.approx(2.0),
            "of": "mean",
        }

    def test_engines_of_one_name_are_compared_rank_by_rank(self, tmp_path):
        for name, factor in (("a", 1), ("b", 2)):
            for rank in (0, 1):
                layers = [Layer("mlp", (rank + 1) * factor)]
                write_engine(
                    tmp_path / name, layers, pid=rank + 1, rank=rank, folder=f"decoder_engine.{rank + 1}.r{rank}"
                )
        runs = [read_run(tmp_path / name) for name in ("a", "b")]
        comparison = json.loads(runs_as_json(runs))["comparison"]
        assert [pair["layers"][0]["difference_ms"] for pair in comparison] == [1.0, 2.0]


class _Page(HTMLParser):
    """Texts of an HTML page, its elements, and whether they are closed in order."""

    VOID = {"meta", "link", "rect", "line"}

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


class TestHtml:
    def test_charts_and_table(self, run):
        page = _Page(run_as_html(run, top=20))
        assert page.elements.count("svg") == 3
        assert "script" not in page.elements
        assert {"48.6%", "-0.3100", "prefill", "decode"} <= set(page.texts)
        assert "process 4711, device cuda:0, format trex" in page.texts

    def test_the_bar_of_shares_is_whole_and_has_a_colour_per_layer(self, tmp_path):
        """Also where other layers cost the most under another profile."""
        one = [Layer(f"a{i}", 10.0 - i) for i in range(8)] + [Layer(f"b{i}", 0.1) for i in range(8)]
        other = [Layer(f"a{i}", 0.1) for i in range(8)] + [Layer(f"b{i}", 20.0 - i) for i in range(8)]
        write_engine(tmp_path, [*one, *with_mark(other, 1)], profile_names=["one", "other"])
        text = run_as_html(read_run(tmp_path), top=20)
        chart = text[text.index("Where the time goes") : text.index("layers with the largest share")]
        bars = [
            [float(width) for width in re.findall(rf'y="{y}" width="([\d.]+)" height="24"', chart)]
            for y in sorted({int(y) for y in re.findall(r'y="(\d+)" width="[\d.]+" height="24"', chart)})
        ]
        assert len(bars) == 2
        for widths in bars:
            assert sum(widths) == pytest.approx(630, abs=0.1)
        legend = re.findall(r'<title>([^<]*)</title><rect class="(c\d)" x="\d+" y="\d+" width="12"', chart)
        assert len(legend) == len({name for name, _ in legend}) == len({colour for _, colour in legend}) == 9

    def test_profiles_with_layers_of_their_own_have_charts_of_their_own(self, tmp_path):
        """As TensorRT-RTX names them. Each profile gets some of the colours."""
        one, other = ([Layer(f"{mark}{i}", 10.0 - i) for i in range(9)] for mark in ("a", "b"))
        write_engine(tmp_path, [*one, *with_mark(other, 1)], profile_names=["one", "other"])
        text = run_as_html(read_run(tmp_path), top=20)
        assert "one: layers with the largest share" in text
        assert "other: layers with the largest share" in text
        chart = text[text.index("Where the time goes") : text.index("layers with the largest share")]
        legend = re.findall(r'<title>([^<]*)</title><rect class="c\d" x="\d+" y="\d+" width="12"', chart)
        assert {name[0] for name in legend if name != "all others"} == {"a", "b"}
        assert _Page(text).elements.count("details") == 2

    def test_a_layer_of_two_groups_has_one_colour(self, tmp_path):
        a, x = Layer("a", 5.0), Layer("x", 3.0)
        layers = [a, *with_mark([x], 1), *with_mark([a, x], 2)]
        write_engine(tmp_path, layers, profile_names=["one", "two", "both"])
        text = run_as_html(read_run(tmp_path), top=20)
        chart = text[text.index("Where the time goes") : text.index("layers with the largest share")]
        legend = re.findall(r'<title>([^<]*)</title><rect class="c\d" x="\d+" y="\d+" width="12"', chart)
        assert sorted(legend) == ["a", "x"]

    def test_nothing_is_loaded(self, run, two_runs):
        for text in (run_as_html(run, top=20), comparison_as_html(*two_runs, top=20)):
            page = _Page(text)
            loading = [(k, v) for k, v in page.attributes if k in ("src", "href", "action", "srcset", "xlink:href")]
            assert loading == [("href", "data:,")]
            assert "url(" not in text
            assert "@import" not in text

    def test_names_are_only_text(self, nasty):
        page = _Page(run_as_html(nasty, top=20))
        assert "script" not in page.elements
        assert "<script>alert(1)</script>" in page.texts
        assert not [name for name, _ in page.attributes if name.startswith("on")]

    def test_skipped_files(self, tmp_path):
        write_engine(tmp_path, PREFILL)
        (tmp_path / "<b>.txt").write_text("")
        assert "<b>.txt" in _Page(run_as_html(read_run(tmp_path), top=20)).texts

    def test_several_engines_are_compared_in_a_chart(self, tmp_path):
        write_engine(tmp_path, PREFILL)
        write_engine(tmp_path, DECODE, name="other_engine", object_id="0x2")
        assert "Time by engine, all profiled calls" in _Page(run_as_html(read_run(tmp_path), top=20)).texts

    def test_two_runs(self, two_runs):
        page = _Page(comparison_as_html(*two_runs, top=20))
        assert page.elements.count("svg") == 2
        assert "+1.2000 ms" in page.texts
        assert "Only in B." in page.texts


class TestTimeline:
    """The trace event format, which the Perfetto UI and chrome://tracing read."""

    @pytest.fixture
    def timeline(self, tmp_path):
        write_two_profiles(tmp_path)
        for rank in (0, 1):
            write_engine(
                tmp_path,
                PREFILL,
                pid=100 + rank,
                folder=f"decoder_engine.{100 + rank}.r{rank}",
                rank=rank,
                format="perfetto",
            )
        (tmp_path / "stock_engine_engine_execution_profile.trace").write_text("[]")
        return json.loads(run_as_timeline(read_run(tmp_path)))

    def test_is_the_trace_event_format(self, timeline):
        check_trace_events(timeline["traceEvents"])

    def test_processes_and_tracks_have_names(self, timeline):
        names = {
            (event["name"], event["pid"], event["tid"]): event["args"]["name"]
            for event in timeline["traceEvents"]
            if event["name"] in ("process_name", "thread_name")
        }
        assert names[("process_name", 101, 0)] == "Torch-TensorRT, rank 1, process 101"
        assert names[("process_name", 4711, 0)] == "Torch-TensorRT, process 4711"
        tracks = [name for (kind, pid, _), name in names.items() if kind == "thread_name" and pid == 4711]
        assert "decoder_engine on cuda:0: decode: layers, mean" in tracks
        for event in timeline["traceEvents"]:
            if event["ph"] == "X":
                assert ("thread_name", event["pid"], event["tid"]) in names
                assert ("process_name", event["pid"], 0) in names

    def test_layers_lie_end_to_end_in_the_engines_order(self, timeline):
        (tid,) = [
            event["tid"]
            for event in timeline["traceEvents"]
            if event["name"] == "thread_name" and "decode: layers" in event["args"]["name"]
        ]
        spans = [e for e in timeline["traceEvents"] if e["ph"] == "X" and (e["pid"], e["tid"]) == (4711, tid)]
        assert [span["name"] for span in spans] == [layer.name for layer in DECODE]
        assert [span["dur"] for span in spans] == [
            pytest.approx(layer.total_ms / layer.count * 1000) for layer in DECODE
        ]
        for one, following in itertools.pairwise(spans):
            assert following["ts"] == pytest.approx(one["ts"] + one["dur"])

    def test_ranks_in_containers_of_their_own(self, tmp_path):
        """Each is process 1 there."""
        for rank in (0, 1, 2):
            write_engine(tmp_path / f"host{rank}", PREFILL, pid=1, rank=rank)
        events = json.loads(run_as_timeline(read_run(tmp_path)))["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        assert names == {
            number: f"Torch-TensorRT, rank {rank}, process 1, in host{rank}"
            for number, rank in ((1, 0), (0, 1), (2, 2))
        }

    def test_hosts_whose_processes_have_the_same_number(self, tmp_path):
        """Without ranks only the folders tell them apart, be it an engine's own or that of all."""
        for host in ("host0", "host1"):
            write_engine(tmp_path / host, PREFILL, pid=1)
            write_engine(tmp_path / host, DECODE, pid=1, object_id="0x2", folder="decoder_engine.1")
        run = read_run(tmp_path)
        assert len({engine.label for engine in run.engines}) == 4
        assert "4 engine(s) in 2 process(es)" in run_as_html(run, top=1)
        events = json.loads(run_as_timeline(run))["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        assert names == {1: "Torch-TensorRT, process 1, in host0", 0: "Torch-TensorRT, process 1, in host1"}
        assert {event["pid"] for event in events if event["ph"] == "X"} == set(names)

    def test_a_process_that_nobody_knows_shares_no_number(self, tmp_path):
        write_engine(tmp_path, PREFILL, pid=0)
        (tmp_path / "stock_engine_engine_execution_profile.trace").write_text(
            '[{"name": "a", "ph": "X", "ts": 0, "dur": 1, "tid": 1, "pid": "stock"}]'
        )
        events = json.loads(run_as_timeline(read_run(tmp_path)))["traceEvents"]
        assert {event["pid"] for event in events} == {0, 1}


@pytest.mark.parametrize("what", ["layers", "phase"])
def test_the_traces_themselves_are_in_the_trace_event_format(tmp_path, what):
    write_engine(tmp_path, PREFILL, format="perfetto")
    suffix = "_engine_execution_profile.trace" if what == "layers" else "_input_profile.trace"
    events = json.loads((tmp_path / f"decoder_engine{suffix}").read_text())
    check_trace_events(events)
    assert [event["name"] for event in events[:2]] == ["process_name", "thread_name"]
