"""Fixtures of tests of pictures."""

import pytest
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv


@pytest.fixture
def make(opened):
    """Return a function that makes small batches in one room; they are closed after the test."""

    def make_env(num_envs=3, **keywords):
        return opened(BatchNavEnv(num_envs, **{"scenes": box_room(), "episodes": 20, "renderer": "embree", **keywords}))

    return make_env
