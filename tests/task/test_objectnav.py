"""ObjectNav in a room with two crates and a table."""

import numpy as np
import pytest
from furnished import CATEGORIES, furnished

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import ObjectOracleAgent
from gym_batchnav.evaluation.evaluate import evaluate
from gym_batchnav.geometry import polar_goals
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.task.objectnav import ObjectNav


@pytest.fixture(scope="module")
def library():
    return SceneLibrary.from_scenes([furnished()])


@pytest.fixture
def env(library):
    env = BatchNavEnv(8, library=library, episodes=40, sensors=(), task=ObjectNav(CATEGORIES))
    yield env
    env.close()


def test_the_oracle_succeeds_and_faces_the_object(env):
    angles = []

    class Watched(ObjectOracleAgent):
        def act(self, env, observation, begun):
            actions = super().act(env, observation, begun)
            polar = polar_goals(env.agents.position, env.agents.heading, env.episodes.target)
            stops = (actions == 0) & env.episodes.valid & ~env.episodes.done
            angles.extend(polar[stops, 1])
            return actions

    episodes = evaluate(env, Watched())
    assert len(episodes) == 40 and episodes.success.all() and episodes.spl.mean() > 0.95
    assert len(angles) >= 40 and np.abs(angles).max() <= np.radians(5.2)


def test_the_oracle_faces_the_object_beside_it_and_not_the_one_nearest_to_the_start(env):
    env.reset(seed=0)
    episodes = env.simulator.episode_set(0)
    crates = np.unique(episodes.targets[episodes.first_goal[1] : episodes.first_goal[2]], axis=0)
    assert len(crates) == 2
    rows = np.nonzero(env.episodes.category == 1)[0]
    assert len(rows)
    position = env.agents.position.copy()
    for row in rows:  # to a view point of the other crate
        other = (episodes.targets != env.episodes.target[row]).any(axis=1) & (episodes.targets[:, None] == crates).all(
            axis=2
        ).any(axis=1)
        position[row] = episodes.goals[np.argmax(other)]
    before = env.episodes.target.copy()
    env.set_pose(position, env.agents.heading)
    agent = ObjectOracleAgent()
    agent.reset(env)
    faced = np.zeros(8, bool)
    for _ in range(20):
        actions = agent.act(env, None, np.zeros(8, bool))
        for row in rows[(actions[rows] == 0) & ~faced[rows]]:
            (other,) = crates[(crates != before[row]).any(axis=1)]
            place = (env.agents.position[[row]], env.agents.heading[[row]])
            assert abs(polar_goals(*place, other[None])[0, 1]) <= np.radians(5.2)
            assert abs(polar_goals(*place, before[[row]])[0, 1]) > np.radians(20)
            faced[row] = True
        env.step(actions)
    assert faced[rows].all()


def test_the_goal_is_a_category_that_the_scene_has(env):
    observation, _ = env.reset(seed=0)
    assert set(observation) == {"objectgoal", "gps", "compass"}
    goals = observation["objectgoal"]
    assert goals.shape == (8, 1) and set(goals[:, 0]) <= {0, 1}  # no lamp
    np.testing.assert_array_equal(goals[:, 0], env.episodes.category)
    for _ in range(5):
        again, *_ = env.step(np.full(8, 2))
        np.testing.assert_array_equal(again["objectgoal"], goals)


def test_the_distance_is_that_to_the_nearest_view_point(env):
    env.reset(seed=0)
    episodes = env.simulator.episode_set(0)
    mesh = env.simulator.navmesh(0)
    for _ in range(20):
        _, _, _, _, info = env.step(np.random.default_rng(0).integers(1, 4, 8))
        for index in range(8):
            members = episodes.goals[slice(*episodes.first_goal[env.episodes.goal_index[index] :][:2])]
            lengths = mesh.geodesic_distance(np.repeat(env.agents.position[[index]], len(members), axis=0), members)
            assert info["distance_to_goal"][index] == pytest.approx(lengths.min(), abs=2e-3)
