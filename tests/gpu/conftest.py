"""GPU tests skip with a reason where there is no NVIDIA GPU."""

import pytest


def pytest_collection_modifyitems(items):
    reason = _missing()
    for item in items:
        if "tests/gpu" in item.path.as_posix():
            item.add_marker(pytest.mark.gpu)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


def _missing() -> str | None:
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    return None if torch.cuda.is_available() else "torch sees no NVIDIA GPU"
