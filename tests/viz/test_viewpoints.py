"""Places from which a scene is seen."""

import itertools

import numpy as np
import pytest

from gym_batchnav.geometry import look_at
from gym_batchnav.viz.overviews import overlook


@pytest.mark.parametrize("size", [(12, 3, 5), (5, 3, 12)])
def test_a_scene_lies_across_the_picture_in_front_of_the_eye(size):
    bounds = np.array([[-1.0, 0.0, 2.0], np.add([-1, 0, 2], size)])
    corners = np.array(list(itertools.product(*bounds.T)))
    spans = []
    for aside in (0.0, 0.2):
        view = look_at(*overlook(bounds, aside)).astype(np.float64).reshape(4, 4)
        x, y, z = (corners @ view[:3, :3].T + view[:3, 3]).T
        assert (z < 0).all()
        assert np.ptp(x) > 1.2 * np.ptp(y / -z * np.mean(-z))
        spans.append((x.min(), x.max()))
        assert np.abs(y / z).max() < 0.7
    assert spans[0][0] == pytest.approx(-spans[0][1], abs=1e-4) and spans[0][1] == pytest.approx(6, abs=1e-4)
    assert spans[1][1] == pytest.approx(6 - 0.2 * 12, abs=1e-4)
