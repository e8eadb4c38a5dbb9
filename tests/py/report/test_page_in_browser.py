"""The HTML report in a real browser: from a file, without a network, without an error, and with its charts in sight."""

from __future__ import annotations

import shutil

import pytest
from torch_tensorrt_profiles.report._html import comparison_as_html, run_as_html
from torch_tensorrt_profiles.report._run import read_run
from trace_writer import DECODE, PREFILL, Layer, write_engine, write_two_profiles

playwright = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("needs Chromium: make chromium", allow_module_level=True)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        # A container's user is root, and has no sandbox.
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Shown:
    """A page as the browser shows it, and what it had to say."""

    def __init__(self, browser, path, *, dark=False):
        context = browser.new_context(offline=True, color_scheme="dark" if dark else "light")
        self.page, self.messages, self.requests = context.new_page(), [], []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def charts(self):
        """Width, height and number of visible bars of each chart."""
        return self.page.evaluate(
            "[...document.querySelectorAll('svg')].map(chart => {"
            "  const bars = [...chart.querySelectorAll('rect')].map(bar => bar.getBoundingClientRect());"
            "  const seen = bars.filter(bar => bar.width > 0 && bar.height > 0);"
            "  const box = chart.getBoundingClientRect();"
            "  return {width: box.width, height: box.height, bars: seen.length, all: bars.length}; })"
        )


@pytest.fixture
def shown(browser, tmp_path):
    def show(text, **options):
        path = tmp_path / "report.html"
        path.write_text(text)
        return Shown(browser, path, **options)

    return show


@pytest.fixture
def traces(tmp_path):
    write_two_profiles(tmp_path / "traces")
    write_engine(tmp_path / "traces", PREFILL, name="vision_engine", object_id="0x2", format="perfetto")
    return tmp_path / "traces"


@pytest.mark.parametrize("dark", [False, True])
def test_a_run(shown, traces, dark):
    page = shown(run_as_html(read_run(traces), top=20), dark=dark)
    assert page.messages == []
    assert [url.partition(":")[0] for url in page.requests] == ["file"]
    charts = page.charts()
    # By engine; then per engine: where the time goes, its layers, and the host's side.
    assert len(charts) == 7
    for chart in charts:
        assert chart["width"] > 300
        assert chart["height"] > 20
        assert 0 < chart["bars"] == chart["all"]
    assert page.page.title().startswith("Engine profile of")
    row = page.page.locator("tr", has_text="head").first
    assert not row.is_visible()
    page.page.locator("summary").first.click()
    assert row.is_visible()
    assert "48.6%" in row.inner_text()


def test_two_runs(shown, traces, tmp_path):
    write_engine(tmp_path / "other", DECODE, profile_names=["prefill"])
    page = shown(comparison_as_html(read_run(traces), read_run(tmp_path / "other"), top=20))
    assert page.messages == []
    assert len(page.charts()) == 1


def test_a_layers_name_is_no_code(shown, tmp_path):
    names = ["<script>console.error('ran')</script>", "<img src=x onerror=\"console.error('ran')\">", "</title></svg>"]
    write_engine(tmp_path / "t", [Layer(name, 1.0) for name in names])
    page = shown(run_as_html(read_run(tmp_path / "t"), top=20))
    assert page.messages == []
    assert page.page.locator("img").count() == page.page.locator("script").count() == 0
    assert page.page.locator("svg text.label").count() >= len(names)


def test_bars_are_as_long_as_their_values(shown, tmp_path):
    write_engine(tmp_path / "t", [Layer("long", 8.0, 2), Layer("half", 4.0, 2)])
    page = shown(run_as_html(read_run(tmp_path / "t"), top=20))
    widths = page.page.evaluate(
        "[...document.querySelectorAll('svg')][1].querySelectorAll('rect').values().map("
        "bar => bar.getBoundingClientRect().width).toArray()"
    )
    assert widths[0] == pytest.approx(2 * widths[1], rel=1e-2)


def test_a_narrow_window_scrolls_inside(shown, traces):
    page = shown(run_as_html(read_run(traces), top=20))
    page.page.set_viewport_size({"width": 420, "height": 800})
    page.page.locator("summary").first.click()
    overflow = page.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert overflow <= 0
