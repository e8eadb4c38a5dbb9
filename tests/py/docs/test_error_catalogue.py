"""The error catalogue has every message of the sources, and none that they do not have."""

from __future__ import annotations

import re

from messages import ROOT, VALUE, texts

PAGES = sorted((ROOT / "docsrc" / "errors").glob("*.md"))
_ENTRY = re.compile(r"^`(?P<words>[^\n]*)`\n: (?P<meaning>.+)", re.MULTILINE)
TEXTS = list(texts())
ENTRIES = [
    (page.stem, entry["words"].strip(VALUE + " ")) for page in PAGES for entry in _ENTRY.finditer(page.read_text())
]


def says_something(text: str) -> bool:
    """Rather than pass on what was said elsewhere."""
    return len(re.findall(r"[^\W\d_]{2,}", text.replace("torch-tensorrt-profiles", ""))) >= 3


def test_entries_are_found():
    assert len(ENTRIES) > 200


def test_every_entry_is_said_by_the_sources():
    stale = [f"errors/{page}.md: {words}" for page, words in ENTRIES if not any(words in text.text for text in TEXTS)]
    assert not stale, "no source says:\n" + "\n".join(stale)


def test_every_message_has_an_entry():
    raised = [text for text in TEXTS if text.is_raised and says_something(text.text)]
    assert len(raised) > 150
    missing = [text for text in raised if not any(words in text.text for _, words in ENTRIES)]
    assert not missing, "without an entry in docsrc/errors:\n" + "\n".join(f"{t.place}: {t.text}" for t in missing)


def test_no_page_has_an_entry_twice():
    assert len(set(ENTRIES)) == len(ENTRIES)
