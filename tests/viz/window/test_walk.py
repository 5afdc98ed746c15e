"""A batch that is stepped by hand and by agents in turn."""

from functools import partial
from threading import Event
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

from gym_batchnav.evaluation.agents import RandomAgent, ShortestPathAgent
from gym_batchnav.evaluation.loop import EpisodeLoop
from gym_batchnav.state import Action
from gym_batchnav.viz.window.page import Page
from gym_batchnav.viz.window.walk import Controls, Walk


@pytest.fixture
def make(make):
    return partial(make, sensors=())


def test_it_steps_like_a_loop(make):
    walk = Walk(make(), ShortestPathAgent(), seed=3)
    loop = EpisodeLoop(make(), ShortestPathAgent(), seed=3)
    for _ in range(150):
        walk.step()
        loop.step()
        np.testing.assert_array_equal(walk.env.agents.position, loop.batch.agents.position)
        np.testing.assert_array_equal(walk.env.episodes.count, loop.batch.episodes.count)
    assert (walk.env.episodes.count > 1).all()


def test_one_agent_acts_while_the_others_wait(make):
    env = make()
    walk = Walk(env, RandomAgent(0), seed=3)
    others = [0, 2]
    before = env.get_state()["agents"]
    walk.act(1, Action.TURN_LEFT)
    turned = env.agents.heading[1] - before["heading"][1]
    assert np.cos(turned) == pytest.approx(np.cos(np.radians(10)), abs=1e-6)
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(env.agents, name)[others], values[others])
    np.testing.assert_array_equal(env.episodes.num_steps, [0, 1, 0])


def test_agents_of_a_shared_world_go_on_together(make):
    env = make(num_envs=4, agents_per_world=2)
    walk = Walk(env, ShortestPathAgent(), seed=3)
    heading = env.agents.heading[1]
    walk.act(1, Action.TURN_LEFT)
    assert np.cos(env.agents.heading[1] - heading) == pytest.approx(np.cos(np.radians(10)), abs=1e-6)
    np.testing.assert_array_equal(env.episodes.num_steps, 1)
    walk.begin(2)
    np.testing.assert_array_equal(env.episodes.count, [1, 1, 2, 2])


def test_after_stop_the_next_action_begins_an_episode(make):
    env = make()
    walk = Walk(env, ShortestPathAgent(), seed=3)
    walk.act(1, Action.STOP)
    np.testing.assert_array_equal(env.episodes.done, [False, True, False])
    walk.act(1, Action.MOVE_FORWARD)
    np.testing.assert_array_equal(env.episodes.count, [1, 2, 1])
    np.testing.assert_array_equal(env.episodes.num_steps, 0)
    walk.begin(2)
    np.testing.assert_array_equal(env.episodes.count, [1, 2, 2])


class Remembering(RandomAgent):
    """Notes which episodes it is told of."""

    def act(self, env, observation, begun):
        self.told = begun.copy()
        return np.full(env.num_envs, int(Action.TURN_LEFT))


def test_an_agent_is_told_of_episodes_that_began_by_hand(make):
    agent = Remembering()
    walk = Walk(make(), agent, seed=3)
    walk.step()
    assert agent.told.all()
    walk.step()
    assert not agent.told.any()
    walk.act(0, Action.STOP)
    walk.act(0, Action.TURN_LEFT)  # begins the next episode
    walk.act(0, Action.TURN_LEFT)
    walk.begin(2)
    walk.step()
    np.testing.assert_array_equal(agent.told, [True, False, True])


def test_another_autoreset_mode_is_refused(make):
    with pytest.raises(ValueError, match="next_step"):
        Walk(make(autoreset_mode="same_step"), ShortestPathAgent())


def test_the_panel_says_that_keys_choose_no_continuous_actions():
    server = MagicMock()
    Controls(server, Event(), ("follower",), 0)
    assert "continuous actions, which keys cannot choose" in server.gui.add_markdown.call_args[0][0]


def test_whatever_a_client_sends_names_a_driver_an_agent_and_a_speed():
    server = MagicMock()
    controls = Controls(server, Event(), ("follower", "random"), 4)
    page = Page(server, 3)
    driver, speed, picked = (
        getattr(server.gui, kind).return_value for kind in ("add_dropdown", "add_slider", "add_number")
    )
    for name, number in (("nobody", 10**400), ("", -(10**400)), ("random", 0)):
        driver.value, speed.value, picked.value = name, number, number
        assert controls.driver == ("random" if name == "random" else "follower")
        assert 1 / 60 <= controls.period <= 1 and page.picked in (0, 2)
    note = server.scene.on_click.return_value.call_args[0][0]
    for ray in ((np.nan, 0, 0), (0, 1e300, 0), (0, 0), ()):
        page.wake.clear()
        note(SimpleNamespace(ray_origin=ray, ray_direction=ray))
        assert not page.wake.is_set()
