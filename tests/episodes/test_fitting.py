"""Episodes whose lengths are measured as Detour measures them."""

import numpy as np
import pytest
from floors import floor_plan

from gym_batchnav.episodes.episode_set import episode_set, tour_set
from gym_batchnav.episodes.fitting import measure_like_detour
from gym_batchnav.navmesh.kernels.detour_path import MAX_CORRIDOR

STRIP = floor_plan(["0" * (MAX_CORRIDOR + 40)])


def point(x: float) -> list[float]:
    return [x, 0.0, 0.5]


def test_episodes_beyond_detours_limits_are_left_out_with_a_warning() -> None:
    ends = np.array([[0.5, 9.5], [0.5, 290.5], [20.5, 9.5]])
    start, goal = (np.array([point(x) for x in column]) for column in ends.T)
    episodes = episode_set(start, np.arange(3), goal, np.abs(ends[:, 1] - ends[:, 0]), ("a", "b", "c"))
    with pytest.warns(UserWarning, match=r"hall: left out 1 of 3 episodes.*256 on the path: pass geodesic='exact'"):
        left = measure_like_detour(episodes, STRIP, STRIP.tables(episodes.goals), "hall")
    assert left.ids == ("a", "c")
    np.testing.assert_allclose(left.distance, [9, 11])
    np.testing.assert_array_equal(left.start, start[[0, 2]])
    np.testing.assert_array_equal(left.goal, goal[[0, 2]])
    np.testing.assert_array_equal(left.heading, [0, 2])
    with pytest.raises(ValueError, match="left out 1 of 1 episodes"):
        only = episode_set(start[1:2], np.zeros(1), goal[1:2], np.array([290]))
        measure_like_detour(only, STRIP, STRIP.tables(only.goals), "hall")


def test_every_leg_of_a_tour_is_measured() -> None:
    goals = np.array([[point(10.5), point(5.5), point(8.5)], [point(3.5), point(200.5), point(0.5)]])
    start = np.array([point(1.5), point(2.5)])
    tours = tour_set(start, np.zeros(2), goals, np.full((2, 3), 99))
    got = measure_like_detour(tours, STRIP, STRIP.tables(tours.goals), "hall")
    np.testing.assert_allclose(got.leg_distance, [[9, 5, 3], [1, 197, 200]])
    np.testing.assert_array_equal(got.tour, tours.tour)
