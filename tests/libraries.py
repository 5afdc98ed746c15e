"""The release of Gymnasium, and the RL libraries that must be there.

GYM_BATCHNAV_REQUIRE=torchrl forbids the skip of TorchRL's tests.
"""

import os

import gymnasium
import pytest

GYMNASIUM = tuple(int(part) for part in gymnasium.__version__.split(".")[:2])
REQUIRED = set(filter(None, os.environ.get("GYM_BATCHNAV_REQUIRE", "").split(",")))


def require(module: str) -> None:
    """Skip the test module where a library is not installed, unless it is required by its module's name."""
    if module not in REQUIRED:
        pytest.importorskip(module, reason=f"{module} is not installed")
