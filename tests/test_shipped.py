"""The shipped apartments keep the promises of the documentation, and so does a real house."""

import gymnasium
import numba
import numpy as np
import pytest

import gym_batchnav  # noqa: F401 - registers the environments
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.episodes.habitat import read_episodes
from gym_batchnav.library.sources import assets_dir, shipped_scenes
from gym_batchnav.scene.load import load_scene


def test_eight_apartments_ship_with_navmesh_and_episodes():
    scenes = shipped_scenes()
    assert list(scenes) == [f"apartment_{index}" for index in range(8)]
    assert sum(path.stat().st_size for path in assets_dir().glob("apartment_*")) <= 10e6
    for name, path in scenes.items():
        scene = load_scene(path)
        assert 20_000 <= len(scene.triangles) <= 60_000
        assert scene.navmesh is not None and scene.navmesh.navigable_area > 20
        assert not scene.warnings and len(scene.objects) > 30
        assert len(read_episodes(path.with_suffix(".json.gz"))[name]) == 100


def test_the_follower_reaches_the_shipped_goals_by_nearly_the_shortest_way():
    env = BatchNavEnv(200, sensors=(), episodes=Episodes(order="once"))
    env.reset(seed=0)
    spl = []
    success = []
    while env.episodes.valid.any():
        _, _, terminated, truncated, info = env.step(env.shortest_path_actions())
        ended = terminated | truncated
        if ended.any():
            spl += list(info["spl"][ended])
            success += list(info["success"][ended])
    env.close()
    assert len(spl) == 800
    assert np.mean(spl) >= 0.95 and np.mean(success) >= 0.99


def test_no_view_of_an_apartment_escapes_through_its_walls():
    env = BatchNavEnv(400, sensors=("semantic",))
    observation, _ = env.reset(seed=0)
    env.close()
    assert (observation["semantic"] > 0).all()


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing():
    available = numba.config.NUMBA_NUM_THREADS
    if available < 2:
        pytest.skip("this machine gives Numba one thread")
    actions = np.random.default_rng(0).choice(4, (6, 600), p=[0.02, 0.58, 0.2, 0.2])
    runs = []
    try:
        for threads in (1, 2):
            numba.set_num_threads(threads)
            env = BatchNavEnv(600, sensors=("depth", "rgb", "semantic"))
            runs.append([env.reset(seed=7)[0]] + [env.step(row)[0] for row in actions])
            env.close()
    finally:
        numba.set_num_threads(available)
    for one, two in zip(*runs, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], two[name], err_msg=name)


@pytest.mark.data
def test_hundreds_of_agents_share_a_real_house(data_dir):
    scene = data_dir / "scenes/aws_small_house/aws_small_house.glb"
    envs = gymnasium.make_vec("BatchNav/PointNav-v0", num_envs=256, scenes=str(scene), sensors=("depth", "rgb"))
    observation, _ = envs.reset(seed=0)
    observation, _, _, _, info = envs.step(envs.shortest_path_actions())
    assert envs.observation_space.contains(observation)
    assert np.isfinite(info["distance_to_goal"]).all()
    assert 0.05 < observation["depth"].mean() < 0.6 and observation["rgb"].std() > 20
    envs.close()
