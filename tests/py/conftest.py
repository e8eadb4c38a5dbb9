"""What the Python tests share."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    available = torch.cuda.device_count()
    for item in items:
        needed = 2 if item.get_closest_marker("gpu2") else 1 if item.get_closest_marker("gpu") else 0
        if available < needed:
            item.add_marker(pytest.mark.skip(reason=f"needs {needed} GPU(s), found {available}"))


@pytest.fixture(scope="session")
def engine_explorer() -> ModuleType:
    """``trex.engine_plan`` of the trt-engine-explorer package.

    Its ``__init__`` imports notebooks and plotting, whose pinned versions fit neither this numpy nor Python 3.12; what
    reads files needs pandas alone, and is imported without it.
    """
    spec = importlib.util.find_spec("trex")
    if spec is None or importlib.util.find_spec("pandas") is None:
        pytest.skip("needs pip install --no-deps trt-engine-explorer==0.1.5, and pandas")
    if "trex" not in sys.modules:
        package = ModuleType("trex")
        package.__path__ = list(spec.submodule_search_locations or [])
        sys.modules["trex"] = package
    return importlib.import_module("trex.engine_plan")
