"""Spheres among triangles: closest points, times of contact, sliding, and that nothing is ever entered."""

import numpy as np
import pytest
import trimesh
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from rooms import box, box_room
from soups import trimesh_distances

from gym_batchnav.flight.air import make_surfaces
from gym_batchnav.flight.kernels.sweep import LONGEST, MAX_SLIDES, distances, first_contact, slide
from gym_batchnav.flight.kernels.triangles import closest_on_triangle
from gym_batchnav.navmesh.kernels.layout import Point

RADIUS = 0.15
LOW = np.full(3, -6.0)
HIGH = np.full(3, 6.0)
WALL = np.array([[[1, -50, -50], [1, 50, -50], [1, 0, 80]]], np.float32)  # the plane x = 1


@njit
def closest_points(corners, points, out):
    for row in range(len(points)):
        x, y, z = points[row]
        out[row, 0], out[row, 1], out[row, 2] = closest_on_triangle(corners, row, Point(x, y, z))


def closest(corners, points):
    out = np.empty_like(points)
    closest_points(np.asarray(corners, np.float32), points, out)
    return out


@njit
def sweeps(surfaces, starts, motions, times, out):
    normals = np.empty((MAX_SLIDES, 3))
    for row in range(len(starts)):
        start = Point(starts[row, 0], starts[row, 1], starts[row, 2])
        motion = Point(motions[row, 0], motions[row, 1], motions[row, 2])
        times[row] = first_contact(surfaces, start, motion, RADIUS).time
        out[row, 0], out[row, 1], out[row, 2] = slide(surfaces, normals, start, motion, motion, RADIUS, True).position


def swept(surfaces, starts, motions):
    """Times of first contact [M], and the places [M, 3] where spheres end that slide."""
    starts = np.atleast_2d(np.asarray(starts, np.float64))
    motions = np.atleast_2d(np.asarray(motions, np.float64))
    times = np.empty(len(starts))
    ends = np.empty_like(starts)
    sweeps(surfaces, starts, motions, times, ends)
    return times, ends


def clearance(surfaces, points, most=1.0):
    out = np.empty(len(points))
    distances(surfaces, np.ascontiguousarray(points, np.float64), most, out)
    return out


def test_closest_points_are_those_of_trimesh():
    rng = np.random.default_rng(0)
    corners = rng.normal(size=(4000, 3, 3)).astype(np.float32)
    points = rng.normal(scale=2, size=(4000, 3))
    expected = trimesh.triangles.closest_point(corners.astype(np.float64), points)
    np.testing.assert_allclose(closest(corners, points), expected, atol=1e-9)


def test_closest_points_of_a_triangle_without_area_are_those_of_its_longest_edge():
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


def test_distances_are_those_of_trimesh():
    scene = box_room()
    corners = scene.vertices[scene.triangles]
    surfaces = make_surfaces(corners, LOW, HIGH)
    points = np.random.default_rng(0).uniform([-4, 0, -3], [4, 2.6, 3], (500, 3))
    expected = trimesh_distances(scene.vertices[scene.triangles], points)
    np.testing.assert_allclose(clearance(surfaces, points), np.minimum(expected, 1), atol=1e-6)


def test_a_sphere_meets_a_wall_where_its_surface_touches():
    surfaces = make_surfaces(WALL, LOW, HIGH)
    times, ends = swept(surfaces, [0.1, 0, 0], [1.0, 0, 0])
    assert times[0] == pytest.approx(0.9 - RADIUS, abs=1e-6)
    np.testing.assert_allclose(ends[0], [1 - RADIUS, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("walls", "start", "motion", "end", "atol"),
    [
        (WALL, [0.5, 0, 0], [0.7, -0.2, 0.4], [1 - RADIUS, -0.2, 0.4], 1e-5),
        (box((-1, -1, -1), (1, 1, 1), inward=True), [0, 0, 0], [3, 4, 5], [1 - RADIUS] * 3, 1e-5),
        (box((-1, -1, -5), (1, 1, 5), inward=True), [0, 0, 0], [3, 3, 2.5], [1 - RADIUS, 1 - RADIUS, 2.5], 1e-4),
    ],
    ids=["wall", "corner", "crease"],
)
def test_a_sphere_slides_and_keeps_the_motion_along_the_walls(walls, start, motion, end, atol):
    np.testing.assert_allclose(swept(make_surfaces(walls, LOW, HIGH), start, motion)[1][0], end, atol=atol)


def test_a_sphere_meets_an_edge_and_a_corner():
    surfaces = make_surfaces(np.array([[[1, 0, 0], [3, 0, 3], [3, 0, -3]]], np.float32), LOW, HIGH)
    for height in (0.0, 0.05, 0.1499):  # towards the corner, from the side: a sphere of the radius around it
        times, _ = swept(surfaces, [0.2, height, 0], [1, 0, 0])
        assert times[0] == pytest.approx(0.8 - np.sqrt(RADIUS**2 - height**2), abs=1e-6)
    assert swept(surfaces, [0.2, RADIUS + 1e-4, 0], [1, 0, 0])[0] == 1


@pytest.mark.parametrize("speed", [0.01, 1, 1e4])
def test_nothing_tunnels_through_a_sheet(speed):
    surfaces = make_surfaces(WALL, LOW, HIGH)
    rng = np.random.default_rng(0)
    starts = rng.uniform([-5, -5, -5], [1 - RADIUS - 1e-3, 5, 5], (200, 3)) * 0.9
    motions = rng.normal(size=(200, 3))
    motions *= speed / np.linalg.norm(motions, axis=1, keepdims=True)
    _, ends = swept(surfaces, starts, motions)
    assert (ends[:, 0] <= 1 - RADIUS + 1e-4).all()  # a sphere that slides for long comes a little nearer
    assert (np.abs(ends) <= 6 - RADIUS + 1e-4).all()  # nor out of the box


def soup(rng, count):
    """Triangles of very different sizes, some of them without area."""
    size = 10 ** rng.uniform(-3, 0.5, (count, 1, 1))
    corners = rng.uniform(-2, 2, (count, 1, 3)) + size * rng.normal(size=(count, 3, 3))
    corners[:3, 2] = corners[:3, 1]
    return corners.astype(np.float32)


@given(st.integers(0, 2**32), st.floats(-2, 2))
def test_no_sphere_ever_enters_a_surface(seed, exponent):
    """Whatever the triangles and the velocity: at most 1 mm deep after each of many motions."""
    rng = np.random.default_rng(seed)
    surfaces = make_surfaces(soup(rng, 60), LOW, HIGH)
    points = rng.uniform(-5, 5, (40, 3))
    points = points[clearance(surfaces, points) >= RADIUS]
    for _ in range(8):
        motions = rng.normal(size=points.shape)
        motions *= 10**exponent / np.linalg.norm(motions, axis=1, keepdims=True)
        _, points = swept(surfaces, points, motions)
        assert (clearance(surfaces, points) >= RADIUS - 1e-3).all()
        points = points.astype(np.float32).astype(np.float64)


@given(st.integers(0, 2**32))
def test_the_time_of_contact_is_that_of_small_steps(seed):
    rng = np.random.default_rng(seed)
    corners = soup(rng, 30)
    surfaces = make_surfaces(corners, LOW, HIGH)
    points = rng.uniform(-4, 4, (30, 3))
    points = points[clearance(surfaces, points) >= RADIUS + 0.01]
    motions = rng.normal(size=points.shape)
    motions *= LONGEST / np.linalg.norm(motions, axis=1, keepdims=True)
    times, _ = swept(surfaces, points, motions)
    for share in np.linspace(0, 1, 101):  # before the contact there is none
        early = times >= share
        assert (clearance(surfaces, points[early] + share * motions[early]) >= RADIUS - 1e-6).all()
    hit = times < 1
    at = points[hit] + times[hit, None] * motions[hit]
    np.testing.assert_allclose(clearance(surfaces, at), RADIUS, atol=1e-4)


def test_many_large_triangles_are_put_into_larger_cells():
    rng = np.random.default_rng(0)
    corners = rng.uniform(-300, 300, (3000, 3, 3)).astype(np.float32)
    surfaces = make_surfaces(corners, np.full(3, -300.0), np.full(3, 300.0))
    assert surfaces.frame[3] > 0.25 and surfaces.shape.prod() <= 4_000_000
    points = rng.uniform(-290, 290, (20, 3))
    expected = trimesh_distances(corners, points)
    np.testing.assert_allclose(clearance(surfaces, points, 3.0), np.minimum(expected, 3), atol=1e-4)
