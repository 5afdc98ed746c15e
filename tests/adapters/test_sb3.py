"""Stable-Baselines3 drives the single environment (CI installs it; GYM_BATCHNAV_REQUIRE=sb3 forbids the skip)."""

import os

import pytest
from rooms import box_room

from gym_batchnav.adapters.single import SingleEnv
from gym_batchnav.scene.library import SceneLibrary

if "sb3" not in os.environ.get("GYM_BATCHNAV_REQUIRE", ""):
    pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed")


def test_sb3s_checker_is_content(tmp_path):
    from stable_baselines3.common.env_checker import check_env

    library = SceneLibrary.from_scenes([box_room()])
    env = SingleEnv(sensors=("depth", "rgb"), library=library, num_episodes=20, cache_dir=tmp_path)
    check_env(env, warn=False)
    assert not env.batch.closed
    env.close()
