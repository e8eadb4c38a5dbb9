"""Every Python snippet of the documentation and of the README runs."""

from __future__ import annotations

import pytest
from snippets import PAGES, SET_UP, name_of, run, snippets_of
from torch_tensorrt.runtime import get_profiling, set_profiling

WITH_SNIPPETS = [page for page in PAGES if snippets_of(page)]
FOR_GPU = [page for page in WITH_SNIPPETS if any(snippet.needs_gpu for snippet in snippets_of(page))]
FOR_CPU = [page for page in WITH_SNIPPETS if not all(snippet.needs_gpu for snippet in snippets_of(page))]


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """In a folder of its own, and without a trace in the process."""
    monkeypatch.chdir(tmp_path)
    before = get_profiling()
    yield
    set_profiling(before.enabled, format=before.format, path_prefix=before.path_prefix)


@pytest.mark.parametrize("page", FOR_CPU, ids=name_of)
def test_page(page):
    run(page, with_gpu=False)


@pytest.mark.gpu
@pytest.mark.parametrize("page", FOR_GPU, ids=name_of)
def test_page_on_gpu(page):
    run(page, with_gpu=True)


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=name_of)
def test_what_waits_for_a_gpu_is_python(page):
    for snippet in snippets_of(page):
        assert snippet.info in ("", "gpu"), f"{page}:{snippet.line - 1}: the info {snippet.info!r} says nothing"
        compile(snippet.code, f"{page}:{snippet.line}", "exec")


def test_every_set_up_belongs_to_a_page():
    assert {path.relative_to(SET_UP).with_suffix("").as_posix() for path in SET_UP.rglob("*.py")} <= {
        name_of(page) for page in WITH_SNIPPETS
    }
