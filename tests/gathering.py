"""Small noisy collections, and comparisons of their folders."""

import numpy as np
import pytest

from gym_batchnav.actions.noise import LoCoBotNoise
from gym_batchnav.collect.collector import collect
from gym_batchnav.geometry import Camera
from gym_batchnav.noise.depth import RedwoodNoise
from gym_batchnav.noise.rgb import GaussianNoise

KEYWORDS = {
    "sensors": ("rgb", "depth"),
    "camera": Camera(24, 20),
    "renderer": "embree",
    "max_episode_steps": 25,
    "sensor_noise": {"rgb": GaussianNoise(0.1), "depth": RedwoodNoise()},
    "actuation_noise": LoCoBotNoise(0.5),
}
SCENES = ["apartment_1", "apartment_2"]


def gather(out, **changes):
    """Collect five noisy episodes of two apartments in shards of two."""
    if changes.get("to", "zarr") == "zarr":
        pytest.importorskip("zarr", reason="zarr needs Python 3.11")
    given = {"policy": "random", "episodes_per_scene": 5, "episodes_per_shard": 2, "num_envs": 4, "seed": 7}
    return collect(out, **{"scenes": SCENES, **given, **KEYWORDS, **changes})


def content(folder):
    """All files of a dataset by path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_same_content(one, other):
    first, second = content(one), content(other)
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []


def assert_same_arrays(one, other):
    assert sorted(one) == sorted(other)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
        assert one[name].dtype == other[name].dtype, name
