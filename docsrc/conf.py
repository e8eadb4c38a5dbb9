"""The documentation site. ``make docs`` builds it, with warnings as errors and without fetching anything."""

from __future__ import annotations

# Extends torch_tensorrt, so that autodoc finds the names where users import them.
import torch_tensorrt  # noqa: F401
from torch_tensorrt_profiles import __version__, activate

activate()

project = author = "torch-tensorrt-profiles"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings say types in words
napoleon_use_rtype = False

highlight_language = "none"  # for blocks that name none

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["width.css"]
html_title = f"torch-tensorrt-profiles {__version__}"
html_show_copyright = False
