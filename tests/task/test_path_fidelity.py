"""nDTW against the textbook recurrence and on paths with known values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gym_batchnav.state import Buffers, agent_state, episode_state
from gym_batchnav.task.api import TaskState
from gym_batchnav.task.measures import NDTW, next_costs


class Straight:
    """A floor without obstacles, on which the shortest path is a straight line."""

    def shortest_path(self, start, goal, method):
        return np.stack([start, goal]).astype(np.float32)


def walked(goal, positions, **keywords):
    """Return the nDTW of one agent that walks from the origin through positions."""
    measure = NDTW(**keywords)
    state = TaskState(agent_state(1), episode_state(1), Buffers(measure.buffers(1)), lambda slot: Straight(), 500, 0.2)
    state.episodes.goal[0] = goal
    measure.begin(state, np.arange(1))
    for position in positions:
        state.agents.position[0] = position
        measure.update(state, np.ones(1, int), np.ones(1, bool))
    return measure.measure(state)[0]


def textbook(reference, path):
    """Return DTW by its definition as a recurrence over both paths."""
    costs = np.full((len(path) + 1, len(reference) + 1), np.inf)
    costs[0, 0] = 0
    for j, point in enumerate(path, 1):
        for i, other in enumerate(reference, 1):
            before = min(costs[j - 1, i], costs[j - 1, i - 1], costs[j, i - 1])
            costs[j, i] = np.linalg.norm(np.subtract(point, other)) + before
    return costs[-1, -1]


def test_the_shortest_path_is_one_and_a_parallel_path_exp_of_its_distance():
    assert walked([0, 0, -2], [[0, 0, -0.25 * k] for k in range(1, 9)]) == pytest.approx(1, abs=1e-6)
    # Nine points, each 0.6 m from its partner, except that both paths begin at the origin.
    beside = [[0.6, 0, -0.25 * k] for k in range(1, 9)]
    assert walked([0, 0, -2], beside) == pytest.approx(np.exp(-8 * 0.6 / (9 * 3.0)), rel=1e-6)
    assert walked([0, 0, -2], beside, threshold=1.5) == pytest.approx(np.exp(-8 * 0.6 / (9 * 1.5)), rel=1e-6)


def test_standing_still_aligns_all_points_with_the_start():
    # Points 0, 1, 2, 3 and 4 m ahead; turns on the spot add nothing.
    value = walked([0, 0, -4], [[0, 0, 0]] * 5, spacing=1.0)
    assert value == pytest.approx(np.exp(-(0 + 1 + 2 + 3 + 4) / (5 * 3.0)), rel=1e-6)


def test_a_goal_at_the_start_is_one_point():
    assert walked([0, 0, 0], []) == 1


@given(arrays(np.float64, (7, 3), elements=st.floats(-9, 9)), arrays(np.float64, (9, 3), elements=st.floats(-9, 9)))
def test_costs_follow_the_recurrence(reference, path):
    distances = np.linalg.norm(path[:, None] - reference, axis=2)
    costs = np.cumsum(distances[:1], axis=1)
    for row in distances[1:]:
        costs = next_costs(costs, row[None])
    assert costs[0, -1] == pytest.approx(textbook(reference, path), abs=1e-9)


def test_longer_paths_have_wider_spacing():
    steps = [[0, 0, -0.25 * k] for k in range(1, 401)]
    assert walked([0, 0, -100], steps) > 0.8
