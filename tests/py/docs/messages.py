"""What the sources say to users: every text in them, and which of these are raised or warned with.

A value inside of a text is shown as an ellipsis, as in the error catalogue.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]
VALUE = "\N{HORIZONTAL ELLIPSIS}"
#: What makes an error or a warning of its argument. The rest of the message may come from elsewhere.
_PYTHON = re.compile(r".*(?:Error|Exception)|_refuse|warn|warning")
_CPP = re.compile(r"\b(?:TORCH_CHECK\w*|TORCH_WARN|warnings_?\.add|warn|throw [\w:]+|std::\w+_error)\s*\(")
_CPP_TOKEN = re.compile(r'//[^\n]*|#[^\n]*|"(?P<text>(?:[^"\\]|\\.)*)"|\'(?:[^\'\\]|\\.)+\'|(?P<end>;)|\S')


class Text(NamedTuple):
    place: str
    text: str
    is_raised: bool


def texts() -> Iterator[Text]:
    """All texts of the Python package, the library and the public header with its example."""
    for path in sorted((ROOT / "py").rglob("*.py")):
        yield from _of_python(path)
    for folder in ("core", "cpp"):
        for path in sorted(p for p in (ROOT / folder).rglob("*") if p.suffix in (".cpp", ".h")):
            yield from _of_cpp(path)


def _of_python(path: Path) -> Iterator[Text]:
    place = path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if _PYTHON.fullmatch(name) and node.args:
                for text in _alternatives(node.args[0]):
                    yield Text(f"{place}:{node.lineno}", text, is_raised=True)
        elif isinstance(node, (ast.JoinedStr, ast.Constant, ast.BinOp)):
            for text in _alternatives(node):
                yield Text(f"{place}:{node.lineno}", text, is_raised=False)


def _alternatives(node: ast.expr) -> list[str]:
    """The texts that an expression may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [re.sub("%[sdr]", VALUE, node.value)]
    if isinstance(node, ast.JoinedStr):
        return _joined(map(_alternatives, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _joined([_alternatives(node.left), _alternatives(node.right)])
    if isinstance(node, ast.IfExp):
        return _alternatives(node.body) + _alternatives(node.orelse)
    return [VALUE]


def _joined(parts: Iterable[list[str]]) -> list[str]:
    found = [""]
    for part in parts:
        found = [before + after for before in found for after in part]
    return found


def _of_cpp(path: Path) -> Iterator[Text]:
    """A text per statement: its string literals, with a value between two unless they stand side by side."""
    source = path.read_text()
    start, parts = 0, [""]
    for token in _CPP_TOKEN.finditer(source):
        if token["text"] is not None:
            parts.append(token["text"])
        elif token["end"]:
            text = re.sub(f"{VALUE}+", VALUE, "".join(parts))
            line = source.count("\n", 0, start) + 1
            is_raised = _CPP.search(source, start, token.start()) is not None
            yield Text(f"{path.relative_to(ROOT).as_posix()}:{line}", text, is_raised)
            start, parts = token.end(), [""]
        elif token[0] not in ("<", "(", ")", "{", "}") and not token[0].startswith(("//", "#")):
            parts.append(VALUE)
