import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.geometry import Camera, forward_vectors, look_at, polar_goals, projection_matrix, view_matrices

angles = st.floats(-10, 10)
metres = st.floats(-50, 50)


def test_heading_zero_looks_along_minus_z_and_grows_to_the_left():
    np.testing.assert_allclose(forward_vectors(np.array([0.0]))[0], [0, 0, -1])
    np.testing.assert_allclose(forward_vectors(np.array([np.pi / 2]))[0], [-1, 0, 0], atol=1e-12)


@given(x=metres, z=metres, heading=angles, distance=st.floats(0.1, 20))
def test_a_point_ahead_lies_on_the_cameras_axis(x, z, heading, distance):
    position, heading = np.array([[x, 0.5, z]], np.float32), np.array([heading], np.float32)
    ahead = position[0] + [0, 1.25, 0] + distance * forward_vectors(heading)[0]
    seen = view_matrices(position, heading, 1.25)[0] @ np.append(ahead, 1)
    np.testing.assert_allclose(seen[:3], [0, 0, -distance], atol=2e-4)


@given(x=metres, y=metres, z=metres, heading=angles)
def test_view_matrices_are_rigid_and_agree_with_look_at(x, y, z, heading):
    position, heading = np.array([[x, y, z]], np.float32), np.array([heading], np.float32)
    view = view_matrices(position, heading, 1.0)[0]
    np.testing.assert_allclose(view[:3, :3] @ view[:3, :3].T, np.eye(3), atol=1e-5)
    assert np.linalg.det(view[:3, :3]) == pytest.approx(1, abs=1e-5)
    eye = position[0] + [0, 1, 0]
    np.testing.assert_allclose(view, look_at(eye, eye + forward_vectors(heading)[0]), atol=2e-4)


@given(x=metres, z=metres, heading=st.floats(-3, 3), distance=st.floats(0.1, 20), turn=st.floats(-3, 3))
def test_polar_goal_tells_distance_and_left_positive_angle(x, z, heading, distance, turn):
    position, heading = np.array([[x, 0, z]], np.float64), np.array([heading])
    goal = position + distance * forward_vectors(heading + turn)
    np.testing.assert_allclose(polar_goals(position, heading, goal)[0], [distance, turn], atol=1e-4)


def test_polar_goal_ignores_height():
    goal = polar_goals(np.zeros((1, 3)), np.zeros(1), np.array([[0.0, 7.0, -2.0]]))
    np.testing.assert_allclose(goal, [[2, 0]])


def test_projection_sends_the_near_plane_to_minus_one_and_infinity_to_one():
    matrix = projection_matrix(Camera(near=0.1))
    near, far = matrix @ [0, 0, -0.1, 1], matrix @ [0, 0, -1e6, 1]
    assert near[2] / near[3] == pytest.approx(-1)
    assert far[2] / far[3] == pytest.approx(1, abs=1e-5)


def test_projection_puts_the_edge_of_the_view_on_the_edge_of_the_picture():
    camera = Camera(width=128, height=64, hfov_deg=90)
    corner = projection_matrix(camera) @ [1.0, 0.5, -1.0, 1.0]
    np.testing.assert_allclose(corner[:2] / corner[3], [1, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"width": 0}, "width"),
        ({"hfov_deg": 180}, "hfov_deg"),
        ({"near": 0}, "near"),
        ({"max_depth": 0.01}, "max_depth"),
        ({"depth_miss": "black"}, "depth_miss"),
    ],
)
def test_a_camera_that_cannot_take_a_picture_is_refused_by_name(wrong, named):
    with pytest.raises(ValueError, match=named):
        Camera(**wrong)
