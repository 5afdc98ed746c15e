"""BatchNav/DroneNavScan-v0: one row with what the Dict of BatchNav/DroneNav-v0 holds."""

import gymnasium
import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.flight.episodes import FlightEpisodes
from gym_batchnav.flight.scan import FLIGHT_CAMERAS
from gym_batchnav.flight.task import DroneNav
from gym_batchnav.geometry import Camera

TASK = DroneNav(sampler=FlightEpisodes(num_goals=4))


@pytest.fixture
def make(opened):
    def make(id="BatchNav/DroneNavScan-v0", **keywords):
        keywords = {"scenes": [box_room()], "episodes": 20, "task": TASK, **keywords}
        return opened(gymnasium.make_vec(id, num_envs=3, renderer="embree", **keywords))

    return make


def test_a_row_holds_depths_goal_and_velocity(make):
    flat = make(max_episode_steps=7, autoreset_mode="same_step")
    whole = make("BatchNav/DroneNav-v0", camera=dict(FLIGHT_CAMERAS), max_episode_steps=7, autoreset_mode="same_step")
    row = flat.reset(seed=0)[0]
    seen = whole.reset(seed=0)[0]
    ended = 0
    for step in range(16):
        assert flat.observation_space.contains(row)
        depths = [seen[f"{name}/depth"].reshape(3, -1) for name in ("front", "left", "back", "right")]
        np.testing.assert_array_equal(row[:, :-7], np.concatenate(depths, axis=1))
        direction, nearness, velocity = row[:, -7:-4], row[:, -4:-3], row[:, -3:]
        np.testing.assert_allclose(direction * nearness / (1 - nearness), seen["goal_vector"], atol=1e-4)
        np.testing.assert_allclose(velocity * 1.5, seen["velocity"], atol=1e-5)
        actions = np.random.default_rng(step).uniform(-1, 1, (3, 4)).astype(np.float32)
        row, *_, info = flat.step(actions)
        seen, *_, infos = whole.step(actions)
        if "final_obs" in info:
            ended += 1
            assert (info["final_obs"] != row).any()
            np.testing.assert_allclose(info["final_obs"][:, -3:] * 1.5, infos["final_obs"]["velocity"], atol=1e-5)
    assert ended
    blind = make(sensors=()).reset(seed=0)[0]
    assert blind.shape == (3, 7)
    np.testing.assert_array_equal(blind, flat.reset(seed=0)[0][:, -7:])


def test_what_a_row_cannot_hold_is_refused(make):
    with pytest.raises(ValueError, match="DroneNav-v0"):
        make(sensors=("rgb",))
    with pytest.raises(ValueError, match="normalize_depth"):
        make(camera=Camera(eye_height=0, normalize_depth=False))
