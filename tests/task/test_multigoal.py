"""MultiGoalNav: tours of goals, on episodes whose optimal lengths are computed independently."""

import numpy as np
import pytest
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.episodes.samplers import PointEpisodes, TourEpisodes, sampler_from_json, sampler_to_json
from gym_batchnav.episodes.sampling import SamplingRules, sample_tours
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.state import agent_state, episode_state
from gym_batchnav.task.api import TaskState
from gym_batchnav.task.measures import SPL
from gym_batchnav.task.multigoal import PPL, MultiGoalNav, TourProgress, TourSuccess

STOP, FORWARD, LEFT = 0, 1, 2


@pytest.fixture
def make(library, opened):
    def make(num_envs=8, **keywords):
        defaults = {"library": library, "episodes": 30, "sensors": ()}
        return opened(BatchNavEnv(num_envs, **{**defaults, "task": MultiGoalNav(), **keywords}))

    return make


def test_sampled_tours_keep_the_rules():
    scene = box_room()
    mesh = NavMesh.build(scene.vertices, scene.triangles)
    rules = SamplingRules(min_distance=2.0, max_distance=6.0)
    tours = sample_tours(mesh, 50, 4, np.random.default_rng(0), rules)
    stops = np.concatenate([tours.start[:, None], tours.goals[tours.tour]], axis=1)
    assert stops.shape == (50, 5, 3)
    for leg in range(4):
        legs = mesh.geodesic_distance(stops[:, leg], stops[:, leg + 1])
        np.testing.assert_allclose(tours.leg_distance[:, leg], legs, rtol=1e-5)
        assert (legs >= 2 - 1e-5).all() and (legs <= 6 + 1e-5).all()
    np.testing.assert_allclose(tours.distance, tours.leg_distance.sum(axis=1))
    with pytest.raises(ValueError, match=r"no path on this navmesh|choose other distances"):
        sample_tours(mesh, 5, 2, np.random.default_rng(0), SamplingRules(min_distance=80.0, max_distance=90.0))


def test_the_shortest_path_oracle_reaches_every_goal_in_order(make):
    env = make(16, autoreset_mode="disabled", max_episode_steps=600)
    env.reset(seed=0)
    episodes = env.episodes
    rows = episodes.episode.copy()
    sets = [env.simulator.episode_set(slot) for slot in env.agents.slot]
    finals = {}
    seen = [[tuple(goal)] for goal in episodes.goal]
    done = np.zeros(16, bool)
    while not done.all():
        with env.paused(done):
            observation, reward, terminated, truncated, info = env.step(env.shortest_path_actions())
        for i in np.flatnonzero(~done):
            if tuple(episodes.goal[i]) != seen[i][-1]:
                seen[i].append(tuple(episodes.goal[i]))
                assert reward[i] == pytest.approx(2.5 - 0.01)  # the change of goal itself is no progress
                assert observation["goals_left"][i] == 4 - len(seen[i])
                offset = episodes.goal[i] - env.agents.position[i]
                there = observation["pointgoal_with_gps_compass"][i, 0]
                assert there == pytest.approx(np.hypot(offset[0], offset[2]), abs=1e-4)
            if terminated[i] or truncated[i]:
                finals[i] = {name: info[name][i] for name in ("success", "spl", "progress", "ppl")}
        done |= terminated | truncated
        env.simulator.episodes.done[:] = False
    for i, final in finals.items():
        assert final["success"] and final["progress"] == 1 and final["spl"] > 0.95
        assert final["ppl"] == final["spl"]
        assert [tuple(goal) for goal in sets[i].goals[sets[i].tour[rows[i]]]] == seen[i]
        assert episodes.start_distance[i] == pytest.approx(sets[i].leg_distance[rows[i]].sum(), rel=1e-6)


def test_stop_away_from_the_goal_is_failure(make):
    env = make(8)
    env.reset(seed=1)
    assert (env.episodes.distance > 1.5).any()
    far = env.episodes.distance > 1.5
    _, _, terminated, _, info = env.step(np.zeros(8, int))
    np.testing.assert_array_equal(terminated, far)  # near ones go on to their second goal
    assert not info["success"][far].any() and (info["progress"][far] == 0).all() and (info["ppl"][far] == 0).all()
    np.testing.assert_allclose(info["progress"][~far], 1 / 3)


def test_measures_of_known_tours():
    episodes = episode_state(4)
    episodes.num_goals[:] = 3
    episodes.num_reached[:] = [0, 1, 3, 3]
    episodes.start_distance[:] = 12.0
    episodes.reached_distance[:] = [0, 4, 12, 12]
    episodes.path_length[:] = [3, 8, 12, 24]
    state = TaskState(agent_state(4), episodes, {}, None, 500, 1.5)
    np.testing.assert_array_equal(TourSuccess().measure(state), [False, False, True, True])
    np.testing.assert_allclose(TourProgress().measure(state), [0, 1 / 3, 1, 1])
    np.testing.assert_allclose(SPL(TourSuccess()).measure(state), [0, 0, 1, 0.5])
    np.testing.assert_allclose(PPL().measure(state), [0, 1 / 6, 1, 0.5])


def test_tours_come_from_the_cache_unchanged(make):
    first = make(2).simulator.episode_set(0)
    again = make(2, episodes=30).simulator.episode_set(0)
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, getattr(again, name))
    assert make(2, task=MultiGoalNav(num_goals=2)).simulator.episode_set(0).tour.shape == (30, 2)


def test_samplers_survive_json():
    for sampler in (PointEpisodes(), TourEpisodes(5), TourEpisodes(np.int64(5))):
        assert sampler_from_json(sampler_to_json(sampler)) == sampler
    assert repr(sampler) == repr(TourEpisodes(5))  # which is part of the cache's key
    assert sampler_to_json(object()) is None
