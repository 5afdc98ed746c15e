"""PettingZoo's own tests on a world, and its episodes against those of the batch."""

# ruff: noqa: E402
from libraries import require

require("pettingzoo")

import warnings

import gymnasium
import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from gym_batchnav.adapters.pettingzoo import PettingZooEnv
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Episodes
from gym_batchnav.env.flat import ScanObservation
from gym_batchnav.geometry import Camera
from gym_batchnav.worlds.api import Team
from gym_batchnav.worlds.people import People

M = 3
GOAL = "pointgoal_with_gps_compass"


@pytest.fixture
def make(settings, opened):
    """Make a world of three agents and a person in a room."""

    def make(agents_per_world=M, **keywords):
        given = {**settings, "sensors": (), "bodies": (People(1),), "max_episode_steps": 25, **keywords}
        return opened(PettingZooEnv.make(agents_per_world, **given))

    return make


def play(env, seed, policy):
    """All steps of an episode."""
    observations, _ = env.reset(seed=seed)
    steps = []
    while env.agents:
        acting = list(env.agents)
        steps.append((acting, *env.step({name: policy(name, observations[name]) for name in acting})))
        observations = steps[-1][1]
    return steps


@pytest.mark.parametrize(
    "keywords", [{}, {"sensors": ("depth",)}, {"actions": "velocity"}, {"agents_per_world": (1, 3)}]
)
def test_pettingzoos_test_of_the_interface(make, keywords):
    env = make(**keywords)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if isinstance(env.batch.config.team.num_agents, tuple):  # then fewer than all may take part
            warnings.filterwarnings("ignore", "No agents present but not all possible_agents")
        parallel_api_test(env, num_cycles=60)


def test_pettingzoos_test_of_seeds(make):
    parallel_seed_test(make, num_cycles=60)


def test_its_episodes_are_those_of_the_batch(make, settings, opened):
    env = make()
    keywords = {"sensors": (), "max_episode_steps": 25, "bodies": (People(1),), "autoreset_mode": "disabled"}
    batch = opened(BatchNavEnv(M, agents_per_world=M, **{**settings, **keywords}))
    rng = np.random.default_rng(0)
    stopped = {True: 0, False: 0}
    for seed in range(6):
        actions = rng.choice(4, size=(25, M), p=[0.06, 0.54, 0.2, 0.2])
        observation, _ = batch.reset(seed=seed)
        own, _ = env.reset(seed=seed)
        total = np.zeros(M)
        counted = dict.fromkeys(env.possible_agents, 0.0)
        ends = {}
        for row in actions:
            for name, seen in own.items():
                np.testing.assert_array_equal(seen[GOAL], observation[GOAL][env.possible_agents.index(name)])
            observation, reward, terminated, truncated, info = batch.step(row)
            own, rewards, terminations, truncations, infos = env.step({name: row[int(name[-1])] for name in env.agents})
            total += reward
            for name in own:
                counted[name] += rewards[name]
                assert not (terminations[name] and truncations[name])
                if terminations[name] or truncations[name]:
                    ends[name] = (terminations[name], truncations[name], infos[name]["success"], infos[name]["spl"])
            if (terminated | truncated).any():
                break
        assert env.agents == [] and len(ends) == M
        np.testing.assert_array_equal(list(counted.values()), total)
        for index, name in enumerate(env.possible_agents):
            assert ends[name] == (terminated[index], truncated[index], info["success"][index], info["spl"][index])
            stopped[bool(terminated[index])] += 1
    assert min(stopped.values()) > 2


def test_agents_leave_when_their_own_episodes_end(make):
    env = make()
    steps = play(env, 0, lambda name, _: 0 if name == "agent_1" else 2)
    assert steps[0][0] == ["agent_0", "agent_1", "agent_2"]
    assert steps[0][3] == {"agent_0": False, "agent_1": True, "agent_2": False}
    assert "success" in steps[0][5]["agent_1"] and "success" not in steps[0][5]["agent_0"]
    assert all(acting == ["agent_0", "agent_2"] for acting, *_ in steps[1:])
    assert len(steps) == 25 and set(steps[-1][4].values()) == {True}
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_only_those_that_take_part_are_listed(make):
    env = make(Team((1, 3)))
    found = set()
    for seed in range(12):
        observations, infos = env.reset(seed=seed)
        assert list(observations) == list(infos) == env.agents == env.possible_agents[: len(env.agents)]
        found.add(len(env.agents))
    assert found == {1, 2, 3}


def test_an_agent_alone_whose_episode_is_chosen(make):
    env = make(1, bodies=())
    steps = play(env, 0, lambda *_: 2)
    assert len(steps) == 25 and steps[-1][4] == {"agent_0": True}
    _, infos = env.reset(options={"episode_index": 7})
    assert infos["agent_0"]["episode_index"] == 7
    assert make().reset(options={"episode_index": 7})[1]["agent_0"]["episode_index"] == 7


def test_every_episode_once_ends_with_an_error(make):
    env = make(episodes=Episodes(order="once", count=20))
    for _ in range(20):
        assert len(play(env, None, lambda *_: 0)) == 1
    with pytest.raises(RuntimeError, match="every episode has run once"):
        env.reset()


def test_views_are_shown_side_by_side(make):
    env = make(render_mode="rgb_array", renderer="embree")
    env.reset(seed=0)
    picture = env.render()
    assert picture.shape == (256, 256 * M, 3) and picture.dtype == np.uint8 and np.ptp(picture) > 0
    assert make().render() is None


def test_wrappers_of_the_batch_are_kept(settings, opened):
    batch = gymnasium.make_vec(
        "BatchNav/PointNav-v0", num_envs=2, agents_per_world=2, autoreset_mode="disabled",
        **{**settings, "camera": Camera(width=16, height=1)},
    )  # fmt: skip
    env = opened(PettingZooEnv(ScanObservation(batch)))
    observations, _ = env.reset(seed=0)
    for name, seen in observations.items():
        assert env.observation_space(name).contains(seen)
        assert env.observation_space(name) is env.observation_space(name)
    assert env.observation_space("agent_0") is not env.observation_space("agent_1")


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({"agent_0": 1}, "pass one for each of"),
        (dict.fromkeys(("agent_0", "agent_1", "agent_2", "agent_3"), 1), "pass one for each of"),
        ({"agent_0": 1, "agent_1": 1.5, "agent_2": 1}, "action of agent_1 is float64"),
        ({"agent_0": 1, "agent_1": [1, 1], "agent_2": 1}, "action of agent_1 is"),
        ({"agent_0": 1, "agent_1": 9, "agent_2": 1}, "9"),
    ],
)
def test_wrong_actions_are_refused(make, actions, message):
    env = make()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(actions)


def test_other_batches_are_refused(settings, opened):
    with pytest.raises(ValueError, match=r"leave out num_envs= and pass agents_per_world="):
        PettingZooEnv.make(2, num_envs=2)
    worlds = opened(BatchNavEnv(4, **settings, sensors=(), agents_per_world=2, autoreset_mode="disabled"))
    with pytest.raises(ValueError, match=r"has several worlds, and PettingZoo takes one"):
        PettingZooEnv(worlds)
    other = opened(BatchNavEnv(2, **settings, sensors=(), agents_per_world=2))
    with pytest.raises(ValueError, match=r"PettingZooEnv\.make\(agents_per_world="):
        PettingZooEnv(other)
