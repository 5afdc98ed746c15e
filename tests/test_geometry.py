import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from gym_batchnav.geometry import (
    Camera,
    camera_to_world,
    camera_views,
    forward_vectors,
    look_at,
    polar_goals,
    view_matrices,
)

angles = st.floats(-10, 10)
metres = st.floats(-50, 50)


def test_heading_zero_looks_along_minus_z_and_grows_to_the_left():
    np.testing.assert_allclose(forward_vectors(np.array([0.0]))[0], [0, 0, -1])
    np.testing.assert_allclose(forward_vectors(np.array([np.pi / 2]))[0], [-1, 0, 0], atol=1e-12)


@given(x=metres, z=metres, heading=angles, distance=st.floats(0.1, 20))
def test_a_point_ahead_lies_on_the_cameras_axis(x, z, heading, distance):
    position = np.array([[x, 0.5, z]], np.float32)
    heading = np.array([heading], np.float32)
    ahead = position[0] + [0, 1.25, 0] + distance * forward_vectors(heading)[0]
    seen = view_matrices(position, heading, 1.25)[0] @ np.append(ahead, 1)
    np.testing.assert_allclose(seen[:3], [0, 0, -distance], atol=2e-4)


def test_look_at_takes_many_cameras_at_once():
    eyes = np.array([[0, 1, 0], [2.0, 0.5, -1], [0, 5, 0]])
    targets = np.array([[1.0, 1, 1], [0, 0, 0], [0, 0, 0]])
    views = look_at(eyes, targets)
    for view, eye, target in zip(views, eyes, targets, strict=True):
        np.testing.assert_array_equal(view, look_at(eye, target))
        np.testing.assert_allclose((view @ [*target, 1])[:3], [0, 0, -np.linalg.norm(target - eye)], atol=1e-6)
    np.testing.assert_array_equal(look_at(eyes, targets[1])[1], views[1])


@given(x=metres, y=metres, z=metres, heading=angles)
def test_view_matrices_are_rigid_agree_with_look_at_and_have_poses_as_inverses(x, y, z, heading):
    position = np.array([[x, y, z]], np.float32)
    heading = np.array([heading], np.float32)
    view = view_matrices(position, heading, 1.0)[0]
    np.testing.assert_allclose(view[:3, :3] @ view[:3, :3].T, np.eye(3), atol=1e-5)
    assert np.linalg.det(view[:3, :3]) == pytest.approx(1, abs=1e-5)
    eye = position[0] + [0, 1, 0]
    np.testing.assert_allclose(view, look_at(eye, eye + forward_vectors(heading)[0]), atol=2e-4)
    pose = camera_to_world(view)
    np.testing.assert_allclose(pose[:3, 3], eye, atol=1e-4)
    np.testing.assert_allclose(pose @ view, np.eye(4), atol=1e-4)
    np.testing.assert_array_equal(camera_to_world(view[None])[0], pose)


@given(x=metres, z=metres, heading=st.floats(-3, 3), distance=st.floats(0.1, 20), turn=st.floats(-3, 3))
def test_polar_goal_tells_distance_and_left_positive_angle(x, z, heading, distance, turn):
    position = np.array([[x, 0, z]], np.float64)
    heading = np.array([heading])
    goal = position + distance * forward_vectors(heading + turn) + [0, 7, 0]  # height does not count
    np.testing.assert_allclose(polar_goals(position, heading, goal)[0], [distance, turn], atol=1e-4)


def moved(*translation):
    """The matrix [4, 4] of a translation."""
    matrix = np.eye(4)
    matrix[:3, 3] = translation
    return matrix


def turned(axis, angle):
    """The matrix [4, 4] of a right-handed rotation about an axis, in radians."""
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_euler(axis, angle).as_matrix()
    return matrix


@given(
    position=st.tuples(metres, metres, metres),
    heading=angles,
    tilt=st.floats(-1.5, 1.5),
    degrees=st.tuples(*[st.floats(-200, 200)] * 3),
    offset=st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
)
def test_a_camera_is_carried_turned_tilted_and_rolled_in_this_order(position, heading, tilt, degrees, offset):
    yaw, pitch, roll = degrees
    camera = Camera(eye_height=0.9, offset=offset, yaw_deg=yaw, pitch_deg=pitch, roll_deg=roll)
    body = moved(*position) @ turned("y", heading) @ moved(offset[0], 0.9, -offset[1])
    pose = body @ turned("y", np.radians(yaw)) @ turned("x", np.radians(pitch) + tilt) @ turned("z", np.radians(roll))
    views = camera_views(
        camera, np.array([position], np.float32), np.array([heading], np.float32), np.array([tilt], np.float32)
    )
    assert views.dtype == np.float32 and views.shape == (1, 4, 4)
    np.testing.assert_allclose(views[0], np.linalg.inv(pose), atol=5e-4)


def test_a_level_camera_has_the_level_view_to_the_bit_and_each_agent_its_own_pitch():
    rng = np.random.default_rng(0)
    position = rng.uniform(-9, 9, (5, 3)).astype(np.float32)
    heading = rng.uniform(-4, 4, 5).astype(np.float32)
    level = camera_views(Camera(), position, heading, np.zeros(5, np.float32))
    np.testing.assert_array_equal(level, view_matrices(position, heading, 1.25))
    pitch = np.array([0, 0.5, -0.5, 0, 1], np.float32)
    tilted = camera_views(Camera(), position, heading, pitch)
    assert (tilted == level).all(axis=(1, 2)).tolist() == [True, False, False, True, False]
    np.testing.assert_allclose(-tilted[:, 2, 1], np.sin(pitch), atol=1e-6)  # how far each looks up


def test_positive_yaw_looks_left_positive_pitch_up_and_positive_roll_leans_the_top_to_the_left():
    origin = np.zeros((1, 3), np.float32)
    ahead = np.zeros(1, np.float32)
    np.testing.assert_allclose(-camera_views(Camera(yaw_deg=90), origin, ahead)[0, 2, :3], [-1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(-camera_views(Camera(pitch_deg=90), origin, ahead)[0, 2, :3], [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(camera_views(Camera(roll_deg=90), origin, ahead)[0, 1, :3], [-1, 0, 0], atol=1e-6)


def test_an_offset_may_come_as_a_list_as_from_json():
    assert Camera(offset=[0.5, 1]) == Camera(offset=(0.5, 1)) and hash(Camera(offset=[0.5, 1]))


def test_intrinsics_put_the_edges_of_the_view_on_the_edges_of_the_picture():
    camera = Camera(width=128, height=64, hfov_deg=90)
    for x, y, z, u, v in ((0, 0, -1, 64, 32), (1, 0.5, -1, 128, 0), (-2, -1, -2, 0, 64)):
        np.testing.assert_allclose(camera.intrinsics @ [x, -y, -z] / -z, [u, v, 1], atol=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0}, {"height": 4097}, {"width": 64.0}, {"height": True}, {"hfov_deg": np.nan}, {"hfov_deg": "90"},
        {"eye_height": np.nan}, {"eye_height": np.inf}, {"eye_height": 1e6}, {"near": np.nan},
        {"max_depth": np.inf}, {"lit": "no"}, {"normalize_depth": None}, {"cull_backfaces": 1}, {"hfov_deg": 180},
        {"near": 0}, {"max_depth": 0.01}, {"max_depth": 1e39}, {"depth_miss": "black"}, {"min_depth": -0.1},
        {"min_depth": 10}, {"yaw_deg": np.inf}, {"pitch_deg": None}, {"roll_deg": True}, {"offset": (1, 2, 3)},
        {"offset": 0.5}, {"offset": (np.nan, 0)}, {"offset": (0, 2000)},
    ],
    ids=str,
)  # fmt: skip
def test_a_camera_that_cannot_take_a_picture_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Camera(**wrong)
