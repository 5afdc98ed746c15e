"""Tasks and measures of agents that share worlds, against positions that are set by hand."""

import numpy as np
import pytest
from rooms import box, scene_of

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.task.api import Measure
from gym_batchnav.task.meeting import Players, Rendezvous, Tag
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.task.socialnav import (
    BodyCollisions,
    MinBodyDistance,
    NearestBodies,
    PersonalSpace,
    SocialNav,
    TimeToCollision,
)

MEASURES = (BodyCollisions(), PersonalSpace(), MinBodyDistance(), TimeToCollision())
R = 0.18  # metres, of an agent


@pytest.fixture(scope="module")
def hall():
    """An empty room of 10 m by 8 m."""
    return scene_of("hall", box((-5, 0, -4), (5, 2.6, 4), inward=True))


@pytest.fixture
def make(hall, opened):
    def make(task, num_agents=2, **keywords):
        given = {"scenes": hall, "task": task, "agents_per_world": num_agents, "sensors": (), "episodes": 200}
        env = opened(BatchNavEnv(num_agents, **given, **keywords))
        env.reset(seed=0)
        return env

    return make


def place(env, points, headings):
    """Put the agents at x and z on the floor."""
    y = env.agents.position[0, 1]
    env.set_pose(np.array([[x, y, z] for x, z in points]), np.array(headings, float))


def test_measures_of_two_that_walk_towards_each_other(make):
    env = make(PointNav(), measures=MEASURES)
    place(env, [(-1, 0), (1, 0)], [-np.pi / 2, np.pi / 2])  # they look at each other
    info = env.step(np.array([1, 1]))[4]
    gap = 1.5 - 2 * R
    np.testing.assert_allclose(info["time_to_collision"], gap / 2.0, atol=1e-3)  # each walks at 1 m/s
    np.testing.assert_array_equal(info["body_collisions"], 0)
    for _ in range(4):
        info = env.step(np.array([1, 1]))[4]
    assert env.agents.position[1, 0] - env.agents.position[0, 0] == pytest.approx(2 * R, abs=1e-3)
    np.testing.assert_array_equal(info["body_collisions"], 2)
    np.testing.assert_array_equal(info["personal_space_violations"], 3)  # gaps 1.14, 0.64, 0.14, 0, 0
    np.testing.assert_allclose(info["min_body_distance"], 0, atol=1e-3)
    np.testing.assert_allclose(info["collisions_count"], 2)
    info = env.step(np.array([2, 2]))[4]
    np.testing.assert_array_equal(info["time_to_collision"], 5.0)


def test_the_detector_sees_who_is_near(make):
    task = SocialNav(detector=NearestBodies(2, reach=3.0))
    env = make(task, num_agents=3)
    place(env, [(0, 0), (1, -2), (0, 3.5)], [0, 0, 0])
    seen = env.step(np.array([2, 1, 2]))[0]["nearest_bodies"]
    heading = np.radians(10)
    way, walk = np.array([1, -2.25]), np.array([0, -1.0])
    ahead = np.array([-np.sin(heading), -np.cos(heading)])
    right = np.array([np.cos(heading), -np.sin(heading)])
    expected = [way @ ahead, way @ right, walk @ ahead, walk @ right, 1]
    np.testing.assert_allclose(seen[0, 0], expected, atol=2e-3)
    np.testing.assert_array_equal(seen[0, 1], 0)  # farther than 3 m


def test_social_nav_pays_for_touching(make):
    env = make(SocialNav(step_reward=0, touch_reward=-1, near_reward=-0.5))
    place(env, [(-0.3, 0), (0.3, 0)], [-np.pi / 2, np.pi / 2])
    before = env.episodes.distance.copy()
    reward = env.step(np.array([1, 2]))[1]
    progress = before - env.episodes.distance
    assert reward[0] == pytest.approx(progress[0] - 1.5, abs=1e-5)
    assert reward[1] == pytest.approx(-0.5, abs=1e-5)  # who turns on the spot is near, but was not stopped
    assert env.episodes.num_collisions.tolist() == [1, 0]


def test_tag_is_a_game_of_two_sides(make):
    env = make(Tag(), max_episode_steps=50)
    place(env, [(-1, 0), (1, 0)], [-np.pi / 2, np.pi / 2])
    observation, reward, *_ = env.step(np.array([3, 1]))
    assert reward[0] == pytest.approx(-0.2 * 0.25, abs=1e-3) and reward[1] == pytest.approx(0.2 * 0.25, abs=1e-3)
    np.testing.assert_allclose(observation["players"][1, 0], [1.75, 0, -1], atol=1e-3)
    terminated = np.zeros(2, bool)
    for _ in range(20):
        _, reward, terminated, _, info = env.step(np.array([0, 1]))  # STOP does nothing
        np.testing.assert_allclose(reward.sum(), 0, atol=1e-6)
        if terminated.any():
            break
    assert terminated.all() and info["caught"].all() and reward[1] > 4
    assert info["path_to_others"][0] == pytest.approx(2 * R + 0.15, abs=0.3)


def test_readings_of_measures_do_not_change_what_is_observed(make):
    """An agent that stops leaves its world after the measures and before the observations of the step."""

    class NumNear(Measure):
        name = "num_near"

        def measure(self, state):
            return state.reading("nearest_bodies")[:, :, 4].sum(axis=1)

    task = SocialNav(detector=NearestBodies(2))
    seen = []
    for measures in ((), (NumNear(),)):
        env = make(task, num_agents=3, measures=measures)
        place(env, [(0, 0), (1, 0), (0, 1.5)], [0, 0, 0])
        env.step(np.array([2, 2, 2]))
        seen.append(env.step(np.array([0, 2, 2]))[0]["nearest_bodies"])
    np.testing.assert_array_equal(seen[0], seen[1])
    assert (seen[0][1:, 1] == 0).all()


def test_runners_win_when_time_runs_out(make):
    env = make(Tag(), max_episode_steps=5)
    place(env, [(-3, 0), (3, 0)], [0, 0])
    for _ in range(5):
        _, _, terminated, truncated, info = env.step(np.array([2, 2]))
    assert truncated.all() and not terminated.any() and not info["caught"].any()


def test_a_catch_is_no_loss_of_distance_to_the_next_runner(make):
    env = make(Tag(num_agents=4, num_runners=2), num_agents=4)
    place(env, [(0, 0), (-3, 3), (0.6, 0), (-3, 0)], [0, 0, np.pi / 2, np.pi / 2])
    env.step(np.array([2, 2, 1, 2]))
    assert env.task_state.buffers["caught"].tolist() == [True, False, False, False]
    distance = env.navmesh_of(0).geodesic_distance
    runner = np.repeat(env.agents.position[1:2], 2, axis=0)
    before = distance(env.agents.position[2:], runner)
    reward = env.step(np.array([2, 2, 1, 2]))[1]
    np.testing.assert_allclose(reward[2:], 0.2 * (before - distance(env.agents.position[2:], runner)), atol=1e-5)
    assert reward[2] > 0.02 and reward[0] == 0


def test_who_is_put_elsewhere_has_no_speed(make):
    env = make(SocialNav(), measures=MEASURES)
    env.step(np.array([1, 1]))
    y = env.agents.position[0, 1]
    pose = np.array([[0, y, 0], [0, y, -2]]), np.zeros(2)
    seen = env.set_pose(*pose, np.array([True, False]))["nearest_bodies"]
    np.testing.assert_array_equal(seen[1, :, 2:4], 0)
    seen = env.set_pose(*pose)["nearest_bodies"]
    np.testing.assert_allclose(seen[0, 0], [2, 0, 0, 0, 1], atol=1e-3)


def test_a_caught_runner_leaves_the_others(make):
    env = make(Tag(num_agents=3, num_runners=2), num_agents=3)
    place(env, [(0, 0), (-3, 3), (0.6, 0)], [0, 0, np.pi / 2])
    observation, reward, terminated, _, info = env.step(np.array([2, 2, 1]))
    assert info["caught"].tolist() == [True, False, False] and not terminated.any()
    assert info["waiting"].tolist() == [True, False, False]
    assert reward[2] > 4 and reward[0] < -4
    np.testing.assert_array_equal(observation["players"][2, 0], 0)
    assert observation["players"][2, 1, 2] == -1


def test_rendezvous_ends_when_all_have_met(make):
    env = make(Rendezvous(num_agents=3), num_agents=3)
    place(env, [(0, 0), (0.7, 0), (1.3, 0.4)], [0, 0, np.pi / 2])
    _, reward, terminated, _, info = env.step(np.array([2, 2, 2]))
    assert info["path_to_others"].max() > 1 and not terminated.any() and not info["met"].any()
    _, reward, terminated, *_ = env.step(np.array([2, 2, 1]))
    far = np.hypot(1.3, 0.4)
    assert reward[2] == pytest.approx(far - np.hypot(1.3 - 0.25, 0.4) - 0.01, abs=2e-2) or terminated.all()
    place(env, [(0, 0), (0.5, 0), (0.5, 0.5)], [0, 0, 0])
    _, reward, terminated, _, info = env.step(np.array([2, 2, 2]))
    assert terminated.all() and (reward > 2).all() and info["met"].all()


def test_alone_these_tasks_say_what_they_need(make):
    with pytest.raises(ValueError, match="pass agents_per_world= or bodies="):
        make(SocialNav(), num_agents=1)
    with pytest.raises(ValueError, match="agents_per_world=3: pass num_others=2, or num_agents=3 to the task"):
        make(Tag(), num_agents=3)
    for wrong in ({"num_agents": 1}, {"num_runners": 2}, {"catch_distance": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Tag(**wrong)
    assert Players(2).space.shape == (2, 3)
