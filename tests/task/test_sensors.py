"""Sensors of the agent's pose, compared with values computed by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooms import box, scene_of

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.state import agent_state, episode_state
from gym_batchnav.task.api import TaskState
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.task.sensors import GPS, Compass, PointGoal, StaticPointGoal, WalkScan

ANGLES = st.floats(-3.125, 3.125, width=32)
METRES = st.floats(-50, 50, width=32)


def state_of(start, start_heading, position, heading):
    agents = agent_state(1)
    episodes = episode_state(1)
    agents.position[0] = position
    agents.heading[0] = heading
    episodes.start[0] = start
    episodes.start_heading[0] = start_heading
    return TaskState(agents, episodes, {}, None, 500, 0.2)


@pytest.mark.parametrize(
    ("start_heading", "position", "expected"),
    [
        (0, [1, 0, 0], [2, 0]),  # two metres along -z, which is where it looked
        (0, [3, 1, 2], [0, 2]),  # to the right, and up, which does not count
        (np.pi / 2, [-1, 0, 2], [2, 0]),  # it looked along -x
        (np.pi / 2, [1, 0, 0], [0, 2]),
        (np.pi, [1, 0, 5], [3, 0]),
    ],
)
def test_gps_is_metres_ahead_and_to_the_right_of_the_start(start_heading, position, expected):
    state = state_of([1, 0, 2], start_heading, position, heading=0.7)
    np.testing.assert_allclose(GPS().observe(state), [expected], atol=1e-5)


@given(METRES, METRES, ANGLES)
def test_gps_keeps_distances(x, z, heading):
    read = GPS().observe(state_of([2, 0, 3], heading, [x, 0, z], 0))
    assert np.hypot(*read[0]) == pytest.approx(np.hypot(x - 2, z - 3), abs=1e-4)
    assert GPS().space.contains(read[0])


@given(ANGLES, ANGLES)
def test_compass_is_the_angle_turned_to_the_left(start, now):
    read = Compass().observe(state_of([0, 0, 0], start, [0, 0, 0], now))
    assert Compass().space.contains(read[0])
    turned = np.exp(1j * (np.float64(np.float32(now)) - np.float64(np.float32(start))))
    assert abs(np.exp(1j * np.float64(read[0, 0])) - turned) < 1e-6


def test_in_an_episode_they_count_from_where_it_began(library):
    keywords = {"library": library, "episodes": 20, "sensors": (GPS(), Compass())}
    env = BatchNavEnv(16, autoreset_mode="same_step", max_episode_steps=12, **keywords)
    observation, _ = env.reset(seed=0)
    assert (np.abs(env.agents.heading) > 0.1).sum() > 10  # or the start's heading would not matter
    for step in range(24):
        fresh = step % 12 == 0
        np.testing.assert_allclose(observation["compass"][:, 0], 0 if fresh else np.radians(10), atol=1e-5)
        free = (env.episodes.num_collisions == 0) & (env.episodes.path_length > 0)
        if step % 12 > 1:
            assert free.sum() > 2
            ahead_and_right = 0.25 * (step % 12 - 1) * np.array([np.cos(np.radians(10)), -np.sin(np.radians(10))])
            np.testing.assert_allclose(observation["gps"][free], np.tile(ahead_and_right, (free.sum(), 1)), atol=1e-4)
        observation, *_ = env.step(np.full(16, 2 if fresh else 1))
    env.close()


def test_the_static_goal_is_the_goal_as_seen_from_the_start():
    state = state_of([1, 0, 2], np.pi / 2, [4, 0, -3], heading=0.7)
    state.episodes.goal[0] = [-1, 0, 2]  # it looked along -x
    np.testing.assert_allclose(StaticPointGoal().observe(state), [[2, 0]], atol=1e-6)


def test_the_static_goal_stays_while_the_agent_moves(library):
    keywords = {"library": library, "episodes": 20, "autoreset_mode": "same_step"}
    task = PointNav(goal_sensor=StaticPointGoal())
    env = BatchNavEnv(8, task=task, sensors=(PointGoal(),), max_episode_steps=10, **keywords)
    observation, _ = env.reset(seed=0)
    assert "pointgoal" in env.single_observation_space.spaces
    first = observation["pointgoal_with_gps_compass"]
    for step in range(1, 20):
        observation, *_ = env.step(np.full(8, 1 + step % 2))
        if step == 10:
            first = observation["pointgoal_with_gps_compass"]
        np.testing.assert_allclose(observation["pointgoal"], first, atol=1e-5)
    assert not np.allclose(observation["pointgoal_with_gps_compass"], first, atol=0.05)
    env.close()


def test_the_scan_measures_how_far_the_walls_of_a_hall_are():
    hall = scene_of("hall", box((-5, 0, -4), (5, 2.6, 4), inward=True))
    env = BatchNavEnv(2, scenes=hall, sensors=(WalkScan(8, reach=6.0),), episodes=20)
    env.reset(seed=0)
    heading = np.array([0.3, -1.2])
    y = env.agents.position[0, 1]
    read = env.set_pose(np.array([[1, y, 0.5], [-2, y, -1]]), heading)["walk_scan"]
    x_edge, z_edge = np.abs(env.navmesh_of(0).bounds[:, [0, 2]]).min(axis=0)  # of the navmesh, by a radius from walls
    for row, (x, z) in enumerate([(1, 0.5), (-2, -1)]):
        for number in range(8):
            angle = heading[row] + number * np.pi / 4
            ahead = np.array([-np.sin(angle), -np.cos(angle)])  # left is positive, along -z at 0
            edges = np.where(ahead > 0, [x_edge, z_edge], [-x_edge, -z_edge])
            expected = min(*((edges - [x, z]) / ahead), 6.0)
            assert read[row, number] == pytest.approx(expected, abs=0.06), (row, number)
    assert env.single_observation_space["walk_scan"].contains(read[0]) and read.max() == 6
    env.close()
    with pytest.raises(ValueError, match="num_directions=0"):
        WalkScan(0)
