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

#: Entries that are for several messages, since one meaning covers them.
FAMILIES = {
    "cannot be read": "a directory, a trace, a program, with the system's reason",
    "is negative; a profile's index starts at 0": "in Python, in C++ and of the operator",
    "optimization profile index … is negative": "in Python and in C++",
    "but its record names": "in Python and in C++",
    "optimization profile(s), but its record names": "in Python and in C++",
    "expected an engine of Torch-TensorRT, got a value of type": "of the operators and of the header",
    "has no method": "each with the method that is missing",
    "has no property": "each with the property that is missing",
    "'…' cannot hold traces": "the prefix, and an engine's own folder",
    "tensorrt::execute_engine: engine '…'": "how each message of a call begins",
}


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


def test_every_entry_is_for_one_message():
    """An entry that is too short leads to a wrong explanation."""
    messages = {text.text for text in TEXTS if text.is_raised}
    several = {words: found for _, words in ENTRIES if len(found := [m for m in messages if words in m]) > 1}
    assert several.keys() == FAMILIES.keys(), "\n".join(
        f"{words}: {found}" for words, found in several.items() if words not in FAMILIES
    )


def test_no_page_has_an_entry_twice():
    assert len(set(ENTRIES)) == len(ENTRIES)
