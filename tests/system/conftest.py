import shutil
from pathlib import Path

import pytest

import gym_batchnav


@pytest.fixture
def copy(tmp_path):
    """A copy of the package's sources."""
    ignored = shutil.ignore_patterns("__pycache__", "assets", "*.safetensors")
    return shutil.copytree(Path(gym_batchnav.__file__).parent, tmp_path / "gym_batchnav", ignore=ignored)
