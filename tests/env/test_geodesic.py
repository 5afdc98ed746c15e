"""geodesic="detour": all distances that tasks and measures read are those of Detour's paths."""

import gymnasium
import numpy as np
import pytest
from furnished import furnished

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.task.explore import Flee
from gym_batchnav.task.measures import NDTW
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav

NUM_ENVS = 48
SCENES = ["apartment_1", "apartment_6"]  # one in 25 of their paths is more than 1 cm too long


@pytest.fixture
def make(opened):
    def make(num_envs=NUM_ENVS, **keywords):
        return opened(BatchNavEnv(num_envs, **{"geodesic": "detour", "scenes": SCENES, "sensors": (), **keywords}))

    return make


def measured(env, starts, goals, method="detour"):
    """Distances [N] of pairs of points in the scenes of all environments."""
    pairs = zip(starts[:, None], goals[:, None], strict=True)
    return np.array([env.navmesh_of(i).geodesic_distance(*pair, method)[0] for i, pair in enumerate(pairs)])


def test_distances_are_detours_and_episodes_the_same_in_shared_scenes(make):
    exact = make(geodesic="exact")
    detour = make(library=exact.library, scenes=None)
    exact.reset(seed=4)
    detour.reset(seed=4)
    np.testing.assert_array_equal(detour.episodes.start, exact.episodes.start)
    np.testing.assert_array_equal(detour.episodes.goal, exact.episodes.goal)
    rng = np.random.default_rng(0)
    longer = []
    for step in range(40):
        for env, method in ((exact, "exact"), (detour, "detour")):
            now = measured(env, env.agents.position, env.episodes.goal, method)
            np.testing.assert_allclose(env.episodes.distance, now, atol=2e-4)
            if step == 0:
                np.testing.assert_array_equal(env.episodes.start_distance, env.episodes.distance)
        longer.append(detour.episodes.distance - exact.episodes.distance)
        actions = rng.choice([1, 2, 3], NUM_ENVS, p=[0.7, 0.15, 0.15])
        exact.step(actions)
        info = detour.step(actions)[-1]
        np.testing.assert_array_equal(detour.agents.position, exact.agents.position)
        np.testing.assert_array_equal(info["distance_to_goal"], detour.episodes.distance)
    assert np.max(longer) > 0.02 and np.min(longer) > -1e-3


def test_tours(make):
    env = make(task=MultiGoalNav(num_goals=2, success_distance=50.0))
    env.reset(seed=2)
    state = env.episodes
    rows = [env.simulator.episode_set(int(slot)) for slot in env.agents.slot]
    tours = np.stack([one.goals[one.tour[episode]] for one, episode in zip(rows, state.episode, strict=True)])
    first = measured(env, state.start, tours[:, 0])
    second = measured(env, tours[:, 0], tours[:, 1])
    np.testing.assert_allclose(state.start_distance, first + second, rtol=1e-5)
    np.testing.assert_allclose(state.distance, first, rtol=1e-5)
    env.step(np.zeros(NUM_ENVS, int))
    np.testing.assert_allclose(state.reached_distance, first, rtol=1e-5)
    np.testing.assert_allclose(state.distance, measured(env, env.agents.position, tours[:, 1]), rtol=1e-5)


def test_the_nearest_of_several_goals(make):
    chairs = {f"chair_{k}": ((x, 0, z), (x + 0.5, 0.9, z + 0.5)) for k, (x, z) in enumerate([(2, 1.5), (5, 3)])}
    env = make(4, scenes=[furnished(**chairs)], task=ObjectNav(), episodes=20)
    env.reset(seed=0)
    env.step(np.ones(4, int))
    for i in range(4):
        episodes = env.simulator.episode_set(0)
        goal_set = env.episodes.goal_index[i]
        goals = episodes.goals[episodes.first_goal[goal_set] : episodes.first_goal[goal_set + 1]]
        assert len(goals) > 10
        for point, distance in (
            (env.episodes.start[i], env.episodes.start_distance[i]),
            (env.agents.position[i], env.episodes.distance[i]),
        ):
            lengths = env.navmesh_of(i).geodesic_distance(np.repeat(point[None], len(goals), 0), goals, "detour")
            assert distance == pytest.approx(lengths.min(), abs=1e-4)


def test_flee_and_ndtw_measure_the_same_paths(make):
    env = make(task=Flee(), measures=[NDTW()])
    env.reset(seed=3)
    env.set_pose(env.episodes.goal, np.zeros(NUM_ENVS))
    info = env.step(np.full(NUM_ENVS, 2))[-1]
    wanted = measured(env, env.episodes.start, env.agents.position)
    np.testing.assert_allclose(info["distance_from_start"], wanted, atol=1e-6)
    assert (wanted > measured(env, env.episodes.start, env.agents.position, "exact") + 0.01).any()
    size = env.task_state.buffers["reference_size"]
    for i in range(3):
        path = env.navmesh_of(i).shortest_path(env.episodes.start[i], env.episodes.goal[i], "detour")
        reference = env.task_state.buffers["reference_path"][i, : size[i]]
        np.testing.assert_allclose(reference[[0, -1]], path[[0, -1]], atol=1e-5)


def test_single_environments_take_it_and_other_names_are_refused():
    keywords = {"scenes": SCENES[1:], "sensors": ()}
    env = gymnasium.make("BatchNav/PointNav-v0", geodesic="detour", **keywords)
    _, info = env.reset(seed=0)
    batch = env.unwrapped.batch
    assert info["distance_to_goal"] == pytest.approx(measured(batch, batch.agents.position, batch.episodes.goal)[0])
    env.close()
    with pytest.raises(ValueError, match="geodesic='habitat': choose one of 'exact', 'detour'"):
        BatchNavEnv(geodesic="habitat", **keywords)
