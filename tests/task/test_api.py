"""TaskState, as tasks, sensors and measures use it."""

from dataclasses import replace

import numpy as np

from gym_batchnav.state import Buffers, agent_state, episode_state
from gym_batchnav.task.api import TaskState


def state_of(num_envs, seed=0):
    state = TaskState(agent_state(num_envs), episode_state(num_envs), Buffers({}), None, 500, 0.2)
    state.episodes.key[:] = seed + np.arange(num_envs)
    return state


def test_agents_are_told_apart_by_the_scenes_they_are_in():
    state = state_of(5)
    state.agents.slot[:] = [2, 0, 2, 2, 0]
    state = replace(state, navmesh="navmesh of slot {}".format)
    rows_by_navmesh = {navmesh: rows.tolist() for navmesh, rows in state.by_scene()}
    assert rows_by_navmesh == {"navmesh of slot 0": [1, 4], "navmesh of slot 2": [0, 2, 3]}


class TestUniform:
    def test_it_fills_the_range_evenly_without_correlation(self):
        draws = state_of(4000).uniform("noise", 3)
        assert draws.shape == (4000, 3) and draws.dtype == np.float64 and draws.min() >= 0 and draws.max() < 1
        np.testing.assert_allclose(np.histogram(draws, 10, (0, 1))[0] / draws.size, 0.1, atol=0.01)
        both = np.concatenate([draws, state_of(4000).uniform("other", 3)], axis=1)
        np.testing.assert_allclose(np.corrcoef(both.T), np.eye(6), atol=0.07)

    def test_the_same_state_draws_the_same_and_each_row_for_itself(self):
        many = state_of(5)
        one = state_of(1, seed=3)
        np.testing.assert_array_equal(many.uniform("noise", 2)[3:4], one.uniform("noise", 2))
        np.testing.assert_array_equal(many.uniform("noise", 2), many.uniform("noise", 2))

    def test_episode_step_and_purpose_each_matter(self):
        state = state_of(1)
        drawn = [state.uniform("noise", 4), state.uniform("other", 4)]
        for array in (state.episodes.key, state.episodes.num_steps):
            array += 1
            drawn.append(state.uniform("noise", 4))
        assert len(np.unique(np.concatenate(drawn))) == 16
