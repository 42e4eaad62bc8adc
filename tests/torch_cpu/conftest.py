"""Tests that need torch, and no GPU; they skip where torch is missing."""

import importlib.util

import pytest


def pytest_collection_modifyitems(items):
    missing = importlib.util.find_spec("torch") is None
    for item in items:
        if "tests/torch_cpu" in item.path.as_posix():
            item.add_marker(pytest.mark.torch)
            if missing:
                item.add_marker(pytest.mark.skip(reason="torch is not installed"))
