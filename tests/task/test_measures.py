import numpy as np
import pytest

from gym_batchnav.task import measures as measure


def test_success_needs_stop_within_the_distance():
    stopped = np.array([True, True, False, True])
    distance = np.array([0.19, 0.2, 0.0, np.inf])
    np.testing.assert_array_equal(measure.success(stopped, distance, 0.2), [True, False, False, False])


def test_spl_of_known_walks():
    succeeded = np.array([True, True, True, False])
    start = np.array([4.0, 4.0, 4.0, 4.0])
    path = np.array([4.0, 8.0, 2.0, 4.0])
    # Twice as far as needed is one half; a path shorter than the geodesic (the radius of success) is no more than 1.
    np.testing.assert_allclose(measure.spl(succeeded, start, path), [1, 0.5, 1, 0])


def test_soft_spl_rewards_the_way_made():
    left = np.array([1.0, 6.0, 0.0])
    start = np.array([4.0, 4.0, 4.0])
    path = np.array([3.0, 2.0, 5.0])
    np.testing.assert_allclose(measure.soft_spl(left, start, path), [0.75, 0, 0.8])


def test_an_episode_that_starts_on_its_goal_divides_nothing_by_zero():
    zero = np.zeros(1)
    with np.errstate(all="raise"):
        assert measure.spl(np.array([True]), zero, zero)[0] == 1
        assert measure.soft_spl(zero, zero, zero)[0] == pytest.approx(0)
