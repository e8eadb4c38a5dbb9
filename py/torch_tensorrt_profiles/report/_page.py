"""The frame of an HTML page: its head, its colours, and that it loads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from torch_tensorrt_profiles.report._charts import text_of

# The policy keeps the page from running or loading anything, whatever a layer is called.
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
:root {
  --ink: #1c1e21; --quiet: #626a73; --paper: #fff; --line: #d7dbe0; --stripe: #f5f6f8;
  --c0: #0072b2; --c1: #e69f00; --c2: #009e73; --c3: #cc79a7; --c4: #56b4e9;
  --c5: #d55e00; --c6: #b3a900; --c7: #7a5195; --c8: #9aa0a6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e6e9; --quiet: #9aa3ad; --paper: #17191c; --line: #383c42; --stripe: #1f2226;
    --c0: #4aa3dd; --c7: #a983c9;
  }
}
body {
  font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1080px; margin: 2rem auto; padding: 0 1rem;
}
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.about, figcaption, .note { color: var(--quiet); }
figure { margin: 1.2rem 0; overflow-x: auto; }
figcaption { margin-bottom: .4rem; }
svg { max-width: 100%; height: auto; font: 12px ui-monospace, monospace; }
svg text { fill: var(--ink); }
svg text.inside { fill: #fff; font-weight: 600; }
svg .axis { stroke: var(--quiet); }
.c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); }
.c3 { fill: var(--c3); } .c4 { fill: var(--c4); } .c5, .more { fill: var(--c5); }
.c6 { fill: var(--c6); } .c7 { fill: var(--c7); } .c8 { fill: var(--c8); } .less { fill: var(--c2); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: .2rem .7rem; text-align: left; }
.figures th, .figures td { text-align: right; white-space: nowrap; }
thead th { border-bottom: 1px solid var(--line); }
.figures tr.groups th { text-align: left; border-bottom: 0; }
tbody tr:nth-child(odd) { background: var(--stripe); }
.figures td:first-child, .figures th:first-child {
  text-align: left; font-family: ui-monospace, monospace; white-space: normal; overflow-wrap: anywhere;
}
summary { cursor: pointer; margin: .8rem 0; }
</style></head><body>
"""


def page(title: str, body: Sequence[str]) -> str:
    """A whole page. ``title`` is text; ``body`` is HTML."""
    return _HEAD.replace("{title}", text_of(title)) + "\n".join(body) + "\n</body></html>\n"
