"""Closest points, against trimesh."""

import numpy as np
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.flight.kernels.closest import closest_points


def closest(corners, points):
    out = np.empty_like(points)
    closest_points(np.asarray(corners, np.float32), np.arange(len(points), dtype=np.int32), points, out)
    return out


def test_they_are_those_of_trimesh():
    rng = np.random.default_rng(0)
    corners = rng.normal(size=(4000, 3, 3)).astype(np.float32)
    points = rng.normal(scale=2, size=(4000, 3))
    expected = trimesh.triangles.closest_point(corners.astype(np.float64), points)
    np.testing.assert_allclose(closest(corners, points), expected, atol=1e-9)


def test_of_a_triangle_without_area_they_are_those_of_its_longest_edge():
    line = [[0, 0, 0], [2, 0, 0], [1, 0, 0]]
    point = [[1, 1, 1], [1, 1, 1], [1, 1, 1]]
    points = np.array([[0.5, 3, 0], [1.5, 0, 1]])
    np.testing.assert_allclose(closest([line, line], points), [[0.5, 0, 0], [1.5, 0, 0]])
    np.testing.assert_allclose(closest([point], points[:1]), [[1, 1, 1]])


@given(st.integers(0, 2**32), st.floats(1e-9, 1e-2))
def test_no_sampled_point_of_a_sliver_is_closer(seed, width):
    rng = np.random.default_rng(seed)
    a, along, across = rng.normal(size=(3, 3))
    corners = np.array([[a, a + along, a + rng.uniform(-1, 2) * along + width * across]], np.float32)
    point = a + rng.normal(size=(1, 3))
    found = np.linalg.norm(closest(corners, point) - point)
    weights = rng.dirichlet((0.5, 0.5, 0.5), 2000)
    sampled = np.linalg.norm(weights @ corners[0].astype(np.float64) - point, axis=1)
    assert found <= sampled.min() + 1e-6
