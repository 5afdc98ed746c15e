import statistics

import numpy as np
import pytest

from gym_batchnav.episodes.normal import truncated_normal


def test_normal_numbers_are_quantiles():
    """The reference is the standard library's."""
    normal = statistics.NormalDist()
    uniform = np.concatenate([np.random.default_rng(0).random(3000), [0, 1e-12, 0.5, 1 - 1e-16]])[:, None]
    for low, high in ((-6.0, 6.0), (-3.0, 3.0), (-0.4, 3.0), (2.5, 2.6), (-3.0, -2.9)):
        found = truncated_normal(uniform, np.full_like(uniform, low), high)[:, 0]
        first = normal.cdf(low)
        shares = [first + u * (normal.cdf(high) - first) for u in uniform[:, 0]]
        expected = np.clip([normal.inv_cdf(share) for share in shares], low, high)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
        assert (found >= low).all() and (found <= high).all()
    lows = np.array([[-3.0, 0.0], [2.0, -1.0]])
    np.testing.assert_allclose(truncated_normal(np.zeros((2, 2)), lows, 3.0), lows, atol=1e-9)


def test_wrong_bounds_are_refused():
    for low, high in ((-7.0, 3), (4.0, 3), (np.nan, 3), (0.0, np.inf)):
        with pytest.raises(ValueError, match="low"):
            truncated_normal(np.zeros((2, 2)), np.full((2, 2), low), high)
    with pytest.raises(ValueError, match="low"):
        truncated_normal(np.zeros((2, 2)), np.zeros((2, 1)), 3)
