"""What the Python tests share."""

from __future__ import annotations

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    available = torch.cuda.device_count()
    for item in items:
        needed = 2 if item.get_closest_marker("gpu2") else 1 if item.get_closest_marker("gpu") else 0
        if available < needed:
            item.add_marker(pytest.mark.skip(reason=f"needs {needed} GPU(s), found {available}"))
