"""BatchNav/DroneNav-v0: the promises of every batch, and what is special about flight."""

import gymnasium
import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.actions.noise import LoCoBotNoise
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.flight.actions import FlightActions
from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.flight.task import DroneNav
from gym_batchnav.geometry import Camera, CameraJitter
from gym_batchnav.task.pointnav import PointNav

ROOMS = (box_room("first"), box_room("second", width=10, depth=7))
TASK = DroneNav(sampler=FlightEpisodes(num_goals=4))
SWAYING = Camera(eye_height=0, jitter=CameraJitter(eye_height=(-0.5, 0.1)))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def make(cache, opened):
    def make(num_envs=4, **keywords):
        given = {"scenes": ROOMS, "episodes": 20, "task": TASK, "camera": Camera(16, 16, eye_height=0), **keywords}
        return opened(gymnasium.make_vec("BatchNav/DroneNav-v0", num_envs, renderer="embree", **given).unwrapped)

    return make


def rollout(env, steps, seed=0):
    """Observations, rewards and ends of the same random actions for every environment, by its own seed."""
    results = [env.reset(seed=seed)[0]]
    for step in range(steps):
        actions = [np.random.default_rng([seed + i, step]).uniform(-1, 1, 4) for i in range(env.num_envs)]
        observation, reward, terminated, truncated, _ = env.step(np.array(actions, np.float32))
        results.append({**observation, "reward": reward, "terminated": terminated, "truncated": truncated})
    return results


def test_a_batch_of_n_equals_n_batches_of_one(make):
    rooms = {"scenes": [ROOMS[0]], "max_episode_steps": 12}
    together = rollout(make(3, **rooms), 30, seed=7)
    for index in range(3):
        alone = rollout(make(1, **rooms), 30, seed=7 + index)
        for batch, one in zip(together, alone, strict=True):
            for name, values in one.items():
                np.testing.assert_array_equal(batch[name][index], values[0], name)


def test_the_follower_succeeds_in_every_episode(make):
    env = make(8, sensors=(), episodes=Episodes(order="once", count=20))
    env.reset(seed=0)
    success, spl = [], []
    for _ in range(400):
        _, reward, terminated, _, info = env.step(env.shortest_path_actions())
        ended = info.get("_success", np.zeros(8, bool))
        assert (reward[terminated] > 2).all()
        success += info["success"][ended].tolist() if ended.any() else []
        spl += info["spl"][ended].tolist() if ended.any() else []
        if not info["episode_valid"].any():
            break
    assert len(success) == 40 and all(success) and np.mean(spl) > 0.95


def test_goal_and_velocity_are_those_of_the_body_and_0_at_the_start(make):
    env = make(1, sensors=(), camera=Camera(), max_episode_steps=2, autoreset_mode="same_step")  # blind: any camera
    env.reset(seed=0)
    start = env.episodes.start[0].copy()
    goal = env.episodes.goal[0]
    seen = env.set_pose(start[None], np.zeros(1))
    offset = goal - start
    np.testing.assert_allclose(seen["goal_vector"][0], [-offset[2], offset[1], offset[0]], atol=1e-5)
    seen, *_ = env.step(np.array([[0, 1, 0, 0]], np.float32))
    velocity = env.task_state.buffers["flight_velocity"][0].copy()
    np.testing.assert_allclose(seen["velocity"][0], [-velocity[2], velocity[1], velocity[0]], atol=1e-6)
    seen, _, _, truncated, _ = env.step(np.ones((1, 4), np.float32))
    assert velocity.any() and truncated.all() and not seen["velocity"].any()


def test_the_camera_is_at_the_centre_and_looks_along_the_heading(make):
    env = make(1, camera=Camera(width=33, height=33, eye_height=0, normalize_depth=False), scenes=[ROOMS[0]])
    env.reset(seed=0)
    depth = env.set_pose(np.array([[-2.0, 1.3, 0.5]], np.float32), np.array([np.pi / 2]))["depth"][0, ..., 0]
    assert depth[16, 16] == pytest.approx(2.0, abs=1e-4)  # the wall at x = -4
    assert depth[0, 16] == pytest.approx(1.3 / np.tan(np.radians(45) * 32 / 33), rel=0.05)  # the ceiling at 2.6 m
    with pytest.raises(ValueError, match=r"not navigable.*choose another"):
        env.set_pose(np.array([[0.0, 1.3, -1.0]], np.float32), np.zeros(1))  # in a wall


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"task": DroneNav()}, r"FlightActions\(\)"),
        ({"actions": "flight"}, r"task=DroneNav\(\)"),
        ({"task": DroneNav(), "actions": "flight", "camera": Camera()}, "eye_height=0"),
        ({"task": DroneNav(), "actions": "flight", "camera": SWAYING}, "camera with eye_height=-0.5"),
        ({"task": DroneNav(), "actions": "flight", "actuation_noise": LoCoBotNoise()}, "actuation_noise"),
        ({"task": DroneNav(), "actions": "flight", "geodesic": "detour"}, "detour"),
        ({"task": PointNav(), "actions": FlightActions(), "camera": Camera(eye_height=0)}, "DroneNav"),
    ],
)
def test_keywords_that_do_not_fit_are_refused(keywords, message):
    camera = {"camera": Camera(eye_height=0)}
    with pytest.raises(ValueError, match=message):
        BatchNavEnv(1, scenes=ROOMS, **{**camera, **keywords})
