"""The rays of lenses, against their projections: from a direction to image coordinates."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gym_batchnav.geometry import Camera
from gym_batchnav.lenses import (
    Beams,
    Cylindrical,
    DoubleSphere,
    Equirectangular,
    Fisheye,
    Lens,
    Orthographic,
)

WIDTH = 40
HEIGHT = 30
CENTRAL = [Equirectangular(), Cylindrical(), Fisheye(200), DoubleSphere(-0.2, 0.6, 0.2), Beams(270, (30, 0, -30))]
shares = st.floats(0, 1)


def ray_at(lens: Lens, x: float, y: float) -> np.ndarray:
    return lens.rays(np.array(x), np.array(y), WIDTH, HEIGHT).direction


@pytest.mark.parametrize("lens", [*CENTRAL, Orthographic()], ids=repr)
def test_the_centre_looks_ahead_and_all_directions_have_length_one(lens):
    np.testing.assert_allclose(ray_at(lens, WIDTH / 2, HEIGHT / 2), [0, 0, 1], atol=1e-12)
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    direction, origin = lens.rays(x, y, WIDTH, HEIGHT)
    assert direction.shape == (HEIGHT, WIDTH, 3) and origin.shape == (HEIGHT, WIDTH, 2)
    length = np.linalg.norm(direction, axis=-1)
    assert np.isnan(length).any() == isinstance(lens, (Fisheye, DoubleSphere))
    np.testing.assert_allclose(length[~np.isnan(length)], 1, rtol=1e-12)
    assert (origin != 0).any() == lens.is_parallel


@pytest.mark.parametrize("lens", CENTRAL, ids=repr)
def test_to_the_right_is_right_and_upwards_is_up(lens):
    if not isinstance(lens, Beams):
        assert ray_at(lens, WIDTH / 2, HEIGHT / 2 - 2)[1] > 0
    assert ray_at(lens, WIDTH / 2 + 2, HEIGHT / 2)[0] > 0


@given(across=shares, down=shares, hfov=st.floats(1, 360), vfov=st.floats(1, 180))
def test_equirectangular_is_linear_in_both_angles(across, down, hfov, vfov):
    right, up, ahead = ray_at(Equirectangular(hfov, vfov), across * WIDTH, down * HEIGHT)
    np.testing.assert_allclose(up, np.sin(np.radians(vfov * (0.5 - down))), atol=1e-9)
    level = np.cos(np.radians(vfov * (0.5 - down)))
    azimuth = np.radians(hfov * (across - 0.5))
    np.testing.assert_allclose([right, ahead], [level * np.sin(azimuth), level * np.cos(azimuth)], atol=1e-9)


@given(across=shares, height=st.floats(-0.9, 0.9))
def test_cylindrical_keeps_upright_lines_straight_and_evenly_spaced(across, height):
    right, up, ahead = ray_at(Cylindrical(360, 90), across * WIDTH, (1 - height) / 2 * HEIGHT)
    np.testing.assert_allclose(up / np.hypot(right, ahead), height, atol=1e-9)  # on a cylinder of radius 1
    np.testing.assert_allclose(np.exp(1j * np.arctan2(right, ahead)), np.exp(2j * np.pi * (across - 0.5)), atol=1e-9)


@given(across=shares, down=shares, fov=st.floats(1, 360))
def test_fisheye_angles_are_proportional_to_the_distance_from_the_centre(across, down, fov):
    x = (across - 0.5) * WIDTH
    y = (0.5 - down) * HEIGHT
    radius = np.hypot(x, y) / (HEIGHT / 2)  # of the circle that touches the longer edges
    assume(abs(radius - 1) > 1e-9)
    ray = ray_at(Fisheye(fov), across * WIDTH, down * HEIGHT)
    if radius > 1:
        assert np.isnan(ray).all()
        return
    np.testing.assert_allclose(ray[2], np.cos(np.radians(fov / 2) * radius), atol=1e-9)
    assert abs(ray[0] * y - ray[1] * x) < 1e-6  # in the plane through the axis and the pixel
    assert (ray[:2] * [x, y]).sum() >= -1e-9


@given(
    across=shares, down=shares, xi=st.floats(-0.5, 0.9), alpha=st.floats(0, 0.9), focal=st.floats(0.2, 1),
    center=st.tuples(st.floats(0.4, 0.6), st.floats(0.4, 0.6)),
)  # fmt: skip
def test_double_sphere_inverts_its_projection(across, down, xi, alpha, focal, center):
    lens = DoubleSphere(xi, alpha, focal, center)
    right, up, ahead = ray_at(lens, across * WIDTH, down * HEIGHT)
    if np.isnan(ahead):
        return
    first = 1.0  # distance of the point from the centre of the first sphere; equations 40 to 42
    second = np.sqrt(right**2 + up**2 + (xi * first + ahead) ** 2)
    scale = alpha * second + (1 - alpha) * (xi * first + ahead)
    x = focal * WIDTH * right / scale + center[0] * WIDTH
    y = center[1] * HEIGHT - focal * WIDTH * up / scale
    np.testing.assert_allclose([x, y], [across * WIDTH, down * HEIGHT], atol=1e-6)


def test_a_double_sphere_without_spheres_is_a_pinhole():
    lens = DoubleSphere(0, 0, 0.5)  # 90 degrees across
    right, up, ahead = ray_at(lens, WIDTH, 0)
    np.testing.assert_allclose([right / ahead, up / ahead], [1, HEIGHT / WIDTH])


def test_orthographic_rays_are_parallel_and_fill_the_width():
    direction, origin = Orthographic(6).rays(np.array([0.0, WIDTH]), np.array([0.0, HEIGHT]), WIDTH, HEIGHT)
    np.testing.assert_allclose(direction, [[0, 0, 1]] * 2)
    np.testing.assert_allclose(origin, [[-3, 3 * HEIGHT / WIDTH], [3, -3 * HEIGHT / WIDTH]])


def test_beams_have_the_elevations_of_their_rows_and_the_azimuths_of_their_columns():
    x, y = np.meshgrid(np.arange(20) + 0.5, np.arange(3) + 0.5)
    right, up, ahead = np.moveaxis(Beams(180, (10.0, -5.0, 0.0)).rays(x, y, 20, 3).direction, -1, 0)
    np.testing.assert_allclose(np.degrees(np.arcsin(up)), np.repeat([[10], [-5], [0]], 20, axis=1), atol=1e-9)
    np.testing.assert_allclose(np.degrees(np.arctan2(right, ahead)), x / 20 * 180 - 90, atol=1e-9)


def test_a_lidar_is_a_camera_of_beams_in_metres():
    lidar = Camera.lidar(num_beams=90, elevations_deg=[2, -2], max_range=30, yaw_deg=5)
    assert (lidar.width, lidar.height, lidar.max_depth, lidar.yaw_deg) == (90, 2, 30, 5)
    assert not lidar.normalize_depth and lidar.lens == Beams(360, (2, -2)) and hash(lidar)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Equirectangular(hfov_deg=361), "hfov_deg=361"),
        (lambda: Equirectangular(vfov_deg=0), "vfov_deg=0"),
        (lambda: Cylindrical(vfov_deg=180), "vfov_deg=180"),
        (lambda: Fisheye(fov_deg=np.nan), "fov_deg=nan"),
        (lambda: Fisheye(fov_deg="180"), "fov_deg='180'"),
        (lambda: DoubleSphere(2, 0.5, 0.3), "xi=2"),
        (lambda: DoubleSphere(0, 1.5, 0.3), "alpha=1.5"),
        (lambda: DoubleSphere(0, 0.5, 0), "focal=0"),
        (lambda: DoubleSphere(0, 0.5, 0.3, (0.5,)), "center"),
        (lambda: Orthographic(extent=-1), "extent=-1"),
        (lambda: Beams(elevations_deg=()), "elevations_deg"),
        (lambda: Beams(elevations_deg=(91,)), "elevations_deg=91"),
        (lambda: Camera(lens="fisheye"), "gym_batchnav.lenses"),
        (lambda: Camera(lens=Fisheye()).intrinsics, "only a pinhole"),
    ],
)
def test_a_lens_that_cannot_be_made_is_refused_by_name(make, named):
    with pytest.raises(ValueError, match=named.replace(".", r"\.")):
        make()
