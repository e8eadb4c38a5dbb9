"""Tables and plots from a made-up result, and that the committed ones are those of the committed results."""

from __future__ import annotations

import json
from pathlib import Path

import draw
import pytest
from cases.names import ENGINES, TWO
from drawing import pages as all_pages
from drawing.results import Superseded, load
from drawing.summary import alike, headline, summary
from drawing.switching import cost_against, pays_after
from drawing.words import compared
from example_results import cases, write_results

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pages(tmp_path: Path) -> dict[str, str]:
    """Page name to text."""
    results = load([write_results(tmp_path / "toy.json")])
    files = draw.draw(results, tmp_path / "measured", with_plots=False)
    return {file.stem: file.read_text() for file in files}


def row(page: str, *cells: str) -> str:
    """The one line of a page that has these cells."""
    (line,) = [line for line in page.splitlines() if all(f"| {cell} |" in line for cell in cells)]
    return line


def section(page: str, title: str) -> str:
    return page.split(f"## {title}", 1)[1].split("\n## ", 1)[0]


def test_what_is_worse_says_so_in_words(pages: dict[str, str]) -> None:
    decode, prefill = (section(pages["latency"], phase) for phase in ("Decode", "Prefill"))
    peer = "one profile, tuned for prefill"
    assert row(decode, peer) == (
        f"| none, no graphs | {peer} | 30.0 / 10.0 / 10.0 | **worse than this**, 95.00x | 0.800 (0.790 to 0.810) | "
        "better, 1.60x |"
    )
    assert "| the same within 25 % | 1.00 (0.990 to 1.01) | **worse than this**, 1.20x |" in row(prefill, peer)


def test_more_calls_per_second_are_better(pages: dict[str, str]) -> None:
    assert "| **worse than one context**, 2.00x |" in row(pages["growth"], "a context per profile")


def test_a_runtime_cache_is_set_against_none(pages: dict[str, str]) -> None:
    assert "| 900 / 900 / 900 | 9.00 / 9.00 / 9.00 | better, 100.00x | 2.0 |" in row(pages["first_calls"], "decode")
    assert "| **worse than without**, 2.00x | 2.0 |" in row(pages["first_calls"], "prefill")


def test_memory_is_set_against_both_of_ours(pages: dict[str, str]) -> None:
    assert row(pages["memory"], "two named profiles", "300.0").endswith("|  | **worse than this**, 1.10x |")
    assert row(pages["memory"], "two engines", "500.0").endswith("| better, 1.67x | better, 1.52x |")


def test_the_floor_is_the_bytes_over_the_copy_bandwidth(pages: dict[str, str]) -> None:
    line = row(pages["floor"], "two named profiles")
    assert "| 10.00x of 0.050 ms | 4.00x of 0.125 ms |" in line  # 200 MB, and 300 MB more, at 4 TB/s


def test_the_break_even_rule(pages: dict[str, str]) -> None:
    assert "| 300 | 500 | 2 decode calls |" in pages["switching"]
    assert pays_after(gain=100, cost=100) == "1 decode call"
    assert pays_after(gain=100, cost=101) == "2 decode calls"
    assert "worse than with one profile" in pays_after(gain=-1, cost=100)
    assert pays_after(gain=5, cost=-3).startswith("1 decode call")


def test_what_was_left_out_is_told_with_the_reason(pages: dict[str, str]) -> None:
    said = pages["left_out"]
    assert "No module named 'onnx'" in row(said, "small: decode-only engine from ONNX")
    assert "cut off: its time limit of 40 s" in row(said, "growth-threads")
    assert "skipped: 3 s of the budget were left" in row(said, "generation")
    assert "generation" not in pages


def test_a_page_names_its_file_gpu_versions_and_revision(pages: dict[str, str]) -> None:
    line = row(pages["memory"], "NVIDIA Toy")
    assert "[toy.json](../../benchmarks/results/toy.json)" in line
    assert "torch 2.14.1, Torch-TensorRT 2.14.0, TensorRT 1.6.1" in line
    assert "| 0123456789 |" in line


def test_what_stands_out_has_the_figures_of_the_tables(pages: dict[str, str]) -> None:
    said = pages["summary"]
    assert "small decoder, decode 900 to 900, with a runtime cache 9.00 to 9.00; small decoder, prefill 100 to" in said
    assert "Device memory, MB: small decoder, two named profiles 300.0; small decoder, a context per profile 3" in said
    assert "(with one context): 2 threads 1000 (2000)." in said
    assert "Our kernel" not in said  # was not measured


def test_what_stands_out_of_generation_has_the_first_token(tmp_path: Path) -> None:
    figures = {"median_tokens_per_second": 1200.0, "first_token_median_ms": 2.5}
    generated = {"kind": "generation", "model": "small", "contender": TWO, **figures}
    results = load([write_results(tmp_path / "toy.json", generation={"result": {"rows": [generated]}})])
    assert "(ms to the first token): small decoder, two named profiles 1200 (2.50)." in summary(results)


def test_generation_says_how_long_its_requests_are(tmp_path: Path) -> None:
    generated = {"kind": "generation", "model": "small", "contender": TWO}
    keys = ("median_tokens_per_second", "first_token_median_ms", "token_p50_ms", "token_p99_ms")
    generated |= dict.fromkeys(keys, 1.0)
    result = {"rows": [generated], "requests": [[32, 48], [900, 16]]}
    results = load([write_results(tmp_path / "toy.json", generation={"status": "complete", "result": result})])
    assert (
        "2 requests, with prompts of 32 to 900 tokens and 16 to 48 new ones."
        in all_pages.written(results)["generation"]
    )


def test_what_is_not_told_apart_in_the_headline_says_so() -> None:
    first, near, far = ({"median_ms": m, "quartiles_ms": [m - 1, m + 1]} for m in (10.0, 11.0, 20.0))
    either = "The first and the third, within and without CUDA graphs, are not told apart. "
    assert alike({TWO: first, ENGINES: near}, {TWO: near, ENGINES: first}) == either
    assert alike({TWO: first, ENGINES: far}, {TWO: near, ENGINES: first}) == either.replace("within and ", "")
    assert alike({TWO: first, ENGINES: far}, {TWO: far, ENGINES: first}) == ""


def test_there_is_no_headline_until_all_that_it_names_was_measured(tmp_path: Path) -> None:
    results = load([write_results(tmp_path / "toy.json")])
    assert headline(results) == ""
    results.cases["latency-small"]["result"]["decoder"]["model"] = "reference"
    assert headline(results) == ""


def test_the_readme_quotes_the_headline_of_the_committed_results() -> None:
    said = headline(load(draw.committed_results()))
    quoted = [line[2:] for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("> ")]
    assert said
    assert " ".join(quoted) == said


def test_a_later_file_replaces_only_what_it_measured(tmp_path: Path) -> None:
    again = cases()["memory"]
    again["result"]["rows"][0]["median_bytes"] = 123e6
    nothing = {"status": "failed", "why": "it ended with 1", "log": ""}
    files = [
        write_results(tmp_path / "first.json"),
        write_results(tmp_path / "second.json", **{"memory": again, "latency-small": nothing}),
    ]
    results = load(files)
    assert results.sources["memory"].name == "second.json"
    assert results.sources["latency-small"].name == "first.json"
    assert next(results.rows("memory"))["median_bytes"] == 123e6
    assert row(all_pages.written(results)["left_out"], "memory", "first.json", "complete", "second.json")


def test_a_case_that_was_cut_off_does_not_replace_a_whole_one(tmp_path: Path) -> None:
    part = cases()["memory"] | {"status": "cut off", "why": "its time limit of 260 s"}
    whole, cut = write_results(tmp_path / "whole.json"), write_results(tmp_path / "cut.json", memory=part)
    for files in ([whole, cut], [cut, whole]):
        results = load(files)
        assert results.sources["memory"].name == "whole.json"
        assert Superseded("memory", "cut.json", "cut off: its time limit of 260 s") in results.superseded
    assert load([cut]).sources["memory"].name == "cut.json"


def test_another_json_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    file.write_text(json.dumps({"benchmark": "import_time", "results": []}))
    with pytest.raises(ValueError, match=r"other\.json has no result to draw"):
        load([file])


def test_plots_are_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    results = load([write_results(tmp_path / "toy.json")])
    first, second = (
        {file.name: file.read_text() for file in draw.draw(results, tmp_path / name) if file.suffix == ".svg"}
        for name in ("first", "second")
    )
    assert first == second
    assert {"decode_latency.svg", "growth.svg"} == set(first)
    headline = first["decode_latency.svg"].replace("\n", "")
    assert ">two named profiles<" in headline
    assert "&quot;none&quot;" in headline or '"none"' in headline  # "lazy" was not measured in it
    assert "0.50" in headline


def test_the_committed_pages_are_those_of_the_committed_results(tmp_path: Path) -> None:
    files = draw.committed_results()
    if not files:
        pytest.skip("no result of the suite is committed yet")
    has_plots = plotting_library_is_the_pinned_one()
    committed = {file.name: file.read_bytes() for file in (ROOT / "docsrc" / "measured").iterdir()}
    drawn = {file.name: file.read_bytes() for file in draw.draw(load(files), tmp_path, with_plots=has_plots)}
    if not has_plots:
        committed = {name: data for name, data in committed.items() if not name.endswith(".svg")}
    assert drawn == committed, "run: make plots"


def plotting_library_is_the_pinned_one() -> bool:
    """Another version may place text elsewhere."""
    try:
        import matplotlib
    except ImportError:
        return False
    return f'"matplotlib=={matplotlib.__version__}"' in (ROOT / "pyproject.toml").read_text()


class TestVerdicts:
    ROW = {"median_ms": 1.0, "quartiles_ms": [0.9, 1.1]}

    @pytest.mark.parametrize(
        ("median", "quartiles", "says"),
        [
            (1.2, [1.05, 1.3], "not told apart"),
            (1.2, [1.15, 1.3], "better, 1.20x"),
            (0.8, [0.7, 0.85], "**worse than this**, 1.25x"),
            (0.8, None, "**worse than this**, 1.25x"),
        ],
    )
    def test_none_where_quartiles_overlap(self, median, quartiles, says):
        assert compared(self.ROW, {"median_ms": median, "quartiles_ms": quartiles}, "ms", "this") == says

    @pytest.mark.parametrize(
        ("ours", "stock", "says"),
        [
            (-0.5, 8.0, "no cost was seen"),
            (0.7, 100.0, "no cost was seen"),
            (10.0, 72.0, "better, 7.20x"),
            (10.0, 5.0, "**worse than stock**, 2.00x"),
            (3.0, 0.2, "**worse than stock**, where no cost was seen"),
        ],
    )
    def test_of_a_cost(self, ours, stock, says):
        assert cost_against(ours, stock) == says
