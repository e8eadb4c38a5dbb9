"""The Python snippets of the documentation, and how a page of them is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[3]
SET_UP = Path(__file__).parent / "set_up"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docsrc").rglob("*.md"))]
_FENCE = re.compile(r"^```python(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


class Snippet(NamedTuple):
    """One fenced block."""

    line: int
    info: str
    code: str

    @property
    def needs_gpu(self) -> bool:
        return self.info == "gpu"


def snippets_of(page: Path) -> list[Snippet]:
    text = page.read_text()
    return [
        Snippet(text.count("\n", 0, found.start("code")) + 1, found["info"].strip(), found["code"])
        for found in _FENCE.finditer(text)
    ]


def name_of(page: Path) -> str:
    """Its path in docsrc/, or README, without the ending: also that of its set-up file."""
    base = ROOT / "docsrc"
    return (page.relative_to(base) if page.is_relative_to(base) else page.relative_to(ROOT)).with_suffix("").as_posix()


def run(page: Path, with_gpu: bool) -> dict[str, Any]:
    """Runs the page's set-up, then its snippets in their order; returns the names they leave behind."""
    names: dict[str, Any] = {"__name__": "snippets"}
    set_up = SET_UP / f"{name_of(page)}.py"
    if set_up.exists():
        exec(compile(set_up.read_text(), str(set_up), "exec"), names)
    for snippet in snippets_of(page):
        if with_gpu or not snippet.needs_gpu:
            # The line numbers of a traceback are those of the page.
            exec(compile("\n" * (snippet.line - 1) + snippet.code, str(page), "exec"), names)
    return names
