"""The reference names everything that users can call, and the README's links lead somewhere."""

from __future__ import annotations

import re

import torch_tensorrt
from messages import ROOT

REFERENCE = ROOT / "docsrc" / "reference"


def test_every_operator_is_in_the_table():
    source = (ROOT / "core" / "runtime" / "register_jit_hooks.cpp").read_text()
    schemas = source[source.index("kSchemas{") : source.index("};", source.index("kSchemas{"))]
    schemas = re.sub(r'"\n +"', "", schemas)  # one literal over several lines
    found = re.findall(r'"tensorrt::([a-z]\w+\(.*?)",\n', schemas)
    shown = re.findall(r"^\| `(\w+\(.*?)` \|", (REFERENCE / "operators.md").read_text(), re.MULTILINE)
    assert len(found) == 15
    assert sorted(shown) == sorted(s.replace("__torch__.torch.classes.tensorrt.", "") for s in found)


def test_every_name_that_is_added_is_on_the_page():
    page = (REFERENCE / "python.md").read_text()
    for module in (torch_tensorrt.dynamo, torch_tensorrt.runtime):
        added = [
            name
            for name, value in vars(module).items()
            if str(getattr(value, "__module__", "")).startswith("torch_tensorrt_profiles") and not name.startswith("_")
        ]
        assert added
        missing = [name for name in added if not re.search(rf"\.\. (auto|py:)\w+:: {name}\b", page)]
        assert not missing, f"docsrc/reference/python.md lacks {missing} of {module.__name__}"


def test_every_environment_variable_is_on_the_page():
    sources = [path.read_text() for path in (ROOT / "py").rglob("*.py")]
    sources += [path.read_text() for path in (ROOT / "core").rglob("*.cpp")]
    read = re.compile(
        r'(?:environ(?:ment)?\.get|getenv|in_environment)\("(\w+)"|^[A-Z_]+ = "(TORCH\w+_\w+)"$', re.MULTILINE
    )
    variables = {one or other for source in sources for one, other in read.findall(source)}
    assert {"TORCHTRT_PROFILES", "TORCHTRT_PROFILES_COMPUTE_CAPABILITY", "RANK"} < variables
    page = (REFERENCE / "environment.md").read_text()
    assert not [variable for variable in variables if f"`{variable}`" not in page]
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert not [
        variable for variable in variables if variable.startswith("TORCHTRT_") and f"`{variable}" not in changes
    ]


def test_links_of_the_readme():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", (ROOT / "README.md").read_text())
    assert len(targets) > 5
    assert not [target for target in targets if not (ROOT / target).exists()]
