"""Names of layers where there is little room."""

from __future__ import annotations

import re

from torch_tensorrt_profiles.report._text_table import ELLIPSIS, shortened, width_of

#: Many layers have these in common: the type and operator before the node, as Torch-TensorRT names layers
#: (``[MATRIX_MULTIPLY]-[aten_ops.linear.default]-[blocks.0.up/linear_3]``), and the profile, which is told elsewhere.
_IN_COMMON = re.compile(r"\[[A-Z0-9_]+\]-\[[^\[\]]*\]-(?=\[)| \[profile [0-9]+\]")


def short_layer_name(name: str, width: int) -> str:
    """The name in at most ``width`` columns of a terminal, with the parts that tell layers apart.

    What many layers have in common goes first. Then the middle goes, nearer to the end: TensorRT's names begin with
    what a layer is, and end with its number.
    """
    if width_of(name) <= width:
        return name
    return shortened(_IN_COMMON.sub(ELLIPSIS, name), width, front=2 / 3)
