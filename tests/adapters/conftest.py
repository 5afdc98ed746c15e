"""Fixtures for the tests of all libraries."""

import sys

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def the_same_actions_in_every_run():
    """Seed torch and NumPy's legacy generator, which some libraries use, before every test.

    One thread: networks this small are slower on two.
    """
    np.random.seed(0)  # noqa: NPY002
    torch = sys.modules.get("torch")  # of those that have no library there is none
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def record(settings, opened):
    """Make a batch of six with depth in one row, as for a scan, that records every step."""
    from ledger import Recorder

    from gym_batchnav.geometry import Camera

    def make(num_envs=6, **keywords):
        given = {**settings, "camera": Camera(16, 1), "autoreset_mode": "same_step", **keywords}
        return opened(Recorder(num_envs, **given))

    return make


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Return keywords of batches in a box room, with short time limits and goals that are reached by chance."""
    from rooms import box_room  # late: not all tests need scenes

    from gym_batchnav.geometry import Camera
    from gym_batchnav.library.library import SceneLibrary
    from gym_batchnav.task.pointnav import PointNav

    return {
        "library": SceneLibrary.from_scenes([box_room()]),
        "camera": Camera(width=8, height=8),
        "task": PointNav(success_distance=4.0),
        "max_episode_steps": 9,
        "episodes": 50,
    }
