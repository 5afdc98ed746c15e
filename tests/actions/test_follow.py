"""The shortest-path follower in every action space, and agents that act at random."""

from contextlib import closing

import numpy as np
import pytest

from gym_batchnav import BatchNavEnv
from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.continuous import HolonomicActions, VelocityActions, WaypointActions
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.config import Episodes
from gym_batchnav.evaluation.agents import RandomAgent, ShortestPathAgent
from gym_batchnav.evaluation.evaluate import evaluate

KINDS = ["discrete", "velocity", "waypoint", "holonomic"]
ODD = [  # limits that a follower could stumble over
    VelocityActions(stop_component=True, look_range_deg=(-30, 30)),
    VelocityActions((-0.1, 2.5), (-300, 300), time_step=0.1),
    VelocityActions(angular_range_deg=(0.0, 20.0)),  # turns left only
    VelocityActions(angular_range_deg=(-0.5, 20.0)),  # a turn to the right would mean STOP
    WaypointActions(0.3, 45, stop_component=True),
    WaypointActions(5, 180, min_angle_deg=0.1),
    HolonomicActions(0.25, 0.05, 5, stop_component=True),
    HolonomicActions(0.1, 0.4, 90),
    HolonomicActions(0.25, 1e-5),  # hardly moves sideways
    DiscreteActions(0.25, 10, look_angle_deg=30),
]


def follow(actions, **keywords):
    given = {"scenes": "apartment_4", "sensors": (), "episodes": Episodes(order="once")}
    with closing(BatchNavEnv(50, actions=actions, **given, **keywords)) as env:
        return evaluate(env, ShortestPathAgent())


@pytest.mark.parametrize("actions", [*KINDS, *ODD], ids=str)
def test_the_follower_needs_nearly_shortest_paths(actions):
    episodes = follow(actions)
    assert len(episodes) == 100 and episodes.success.all() and episodes.spl.mean() > 0.97


def test_the_follower_reaches_its_goals_in_spite_of_noise():
    for actions in KINDS:
        episodes = follow(actions, actuation_noise="locobot")
        assert episodes.success.mean() > 0.97 and 0.5 < episodes.spl.mean() < 0.99


@pytest.mark.parametrize("actions", ["velocity", "holonomic", ODD[-1]], ids=str)
def test_random_agents_do_not_depend_on_the_number_of_environments(actions):
    found = []
    for num_envs in (3, 20):
        env = BatchNavEnv(num_envs, scenes="apartment_4", actions=actions, sensors=(), max_episode_steps=40)
        found.append(evaluate(env, RandomAgent(seed=5), episodes_per_scene=12))
        if num_envs == 20:
            with_another_seed = evaluate(env, RandomAgent(seed=6), episodes_per_scene=12)
        env.close()
    np.testing.assert_array_equal(found[0].path_length, found[1].path_length)
    np.testing.assert_array_equal(found[0].num_steps, found[1].num_steps)
    assert found[0].path_length.mean() > 0 and (found[0].num_steps == 40).any()
    assert actions == "holonomic" or (found[0].num_steps < 40).any()  # standing still in three ways at once is rare
    assert (with_another_seed.path_length != found[0].path_length).any()


class Forward(Actions):
    """One number: metres ahead."""

    space = VelocityActions().space

    def validate(self, actions, num_agents):
        return np.asarray(actions, np.float32)

    def decode(self, actions):
        return VelocityActions().decode(actions)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1e5])
@pytest.mark.parametrize("name", ["turn", "forward", "side"])
def test_motion_that_no_kernel_could_end_is_refused(name, wrong, monkeypatch, opened):
    env = opened(BatchNavEnv(2, scenes="apartment_4", actions=Forward(), sensors=()))
    env.reset(seed=0)
    good = VelocityActions().decode(np.zeros((2, 2), np.float32))
    amounts = getattr(good, name).copy()
    amounts[1] = wrong
    monkeypatch.setattr(Forward, "decode", lambda self, actions: good._replace(**{name: amounts}))
    with pytest.raises(ValueError, match=rf"{name}\[1\] = "):
        env.step(np.zeros((2, 2)))


def test_a_subclass_of_discrete_actions_is_checked_too(opened):
    class Endless(DiscreteActions):
        def decode(self, actions):
            return DiscreteActions.decode(self, actions)._replace(forward=np.array([0.25, np.nan]))

    env = opened(BatchNavEnv(2, scenes="apartment_4", actions=Endless(), sensors=()))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"forward\[1\] = nan"):
        env.step(np.ones(2, int))


def test_own_actions_may_lack_a_follower(opened):
    env = opened(BatchNavEnv(2, scenes="apartment_4", actions=Forward(), sensors=()))
    env.reset(seed=0)
    env.step(np.zeros((2, 2)))
    assert env.episodes.path_length.all()
    with pytest.raises(NotImplementedError, match=r"Forward has no follow\(\)"):
        env.shortest_path_actions()
