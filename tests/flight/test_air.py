"""The air of rooms whose shortest paths are known."""

import numpy as np
import pytest
from rooms import box, box_room
from soups import trimesh_distances

from gym_batchnav.flight.air import Air, air_from_arrays, find_air

RADIUS = 0.15
CELL = 0.15
ERROR = 0.03  # of a path's length, plus
ROUNDING = 0.06  # metres


def floor(width, depth, count=2000):
    rng = np.random.default_rng(0)
    points = rng.uniform([-width / 2 + 0.2, 0, -depth / 2 + 0.2], [width / 2 - 0.2, 0, depth / 2 - 0.2], (count, 3))
    return points.astype(np.float32)


def air_of(*objects, width=8.0, depth=6.0, height=2.6):
    room = box((-width / 2, 0, -depth / 2), (width / 2, height, depth / 2), inward=True)
    return find_air(np.concatenate([room, *objects]), floor(width, depth), RADIUS, CELL)


def lengths(air, starts, goal):
    air = air.with_goals(np.array([goal], np.float32))
    return air.distance(np.array(starts, np.float32), np.zeros(len(starts), np.int32))


def wall_with_window(low, high):
    """A wall across the room at x = 0, 0.2 m thick, with a window from (y, z) low to high."""
    below = box((-0.1, 0, -3), (0.1, low[0], 3))
    above = box((-0.1, high[0], -3), (0.1, 2.6, 3))
    left = box((-0.1, low[0], -3), (0.1, high[0], low[1]))
    right = box((-0.1, low[0], high[1]), (0.1, high[0], 3))
    return np.concatenate([below, above, left, right])


def test_an_empty_room_is_all_air_and_its_paths_are_straight():
    air = air_of()
    points = air.random_points(200, np.random.default_rng(0))
    goal = np.array([2.1, 1.3, -1.7], np.float32)
    np.testing.assert_allclose(lengths(air, points, goal), np.linalg.norm(points - goal, axis=1), rtol=1e-5)
    volume = len(air.fields.centers) * CELL**3  # without a margin of the radius
    assert volume == pytest.approx(np.prod(np.array([8, 2.6, 6]) - 2 * RADIUS), rel=0.12)


def test_over_a_wall_the_path_is_unrolled_around_its_rounded_edges():
    top = 1.5
    air = air_of(box((-0.1, 0, -3), (0.1, top, 3)))
    start = np.array([-2.5, 0.4, -1.0])
    goal = np.array([2.5, 0.4, 1.5])
    # Two edges, rounded by the radius: tangents from both sides, and arcs around the edges.
    run, rise = 2.4, top - 0.4
    reach = np.hypot(run, rise)
    tangent = np.sqrt(reach**2 - RADIUS**2)
    slope = np.arctan2(rise, run) + np.arcsin(RADIUS / reach)
    flat = 2 * (tangent + RADIUS * slope) + 0.2
    exact = np.hypot(flat, 2.5)
    assert lengths(air, [start], goal)[0] == pytest.approx(exact, rel=ERROR, abs=ROUNDING)


def test_through_a_window_the_path_bends_only_there():
    low, high = (0.9, -0.5), (1.9, 0.5)
    air = air_of(wall_with_window(low, high))
    rng = np.random.default_rng(0)
    starts = rng.uniform([-3.5, 0.3, -2.5], [-1, 2.3, 2.5], (60, 3))
    goal = np.array([2.5, 0.5, 2.0])
    # The exact path, by dense search for the places where it enters and leaves the window, less the radius.
    grid = np.stack(np.meshgrid(np.linspace(0.9 + RADIUS, 1.9 - RADIUS, 25), np.linspace(-0.35, 0.35, 25)), -1)
    places = grid.reshape(-1, 2)
    enter = np.column_stack([np.full(len(places), -0.1), places])
    leave = np.column_stack([np.full(len(places), 0.1), places])
    middle = np.linalg.norm(enter[:, None] - leave[None], axis=2)
    after = (middle + np.linalg.norm(leave - goal, axis=1)).min(axis=1)
    exact = np.array([(np.linalg.norm(enter - start, axis=1) + after).min() for start in starts])
    found = lengths(air, starts, goal)
    assert (found >= exact - 0.1).all()
    np.testing.assert_allclose(found, exact, rtol=ERROR, atol=ROUNDING + 0.04)  # edges are sharp in the exact path


def test_no_path_leads_through_a_gap_that_is_too_narrow():
    wide, narrow = (air_of(wall_with_window((1.0, -size), (1.6, size))) for size in (0.3, 0.12))
    sides = [{bool(side) for side in air.fields.centers[:, 0] > 0} for air in (wide, narrow)]
    assert sides == [{False, True}, sides[1]] and len(sides[1]) == 1  # the larger part alone


def test_paths_are_symmetric_and_never_shorter_than_straight():
    air = air_of(box((-0.1, 0, -3), (0.1, 2.6, 1.5)), box((1, 0, -2), (2, 1.2, 0)))
    points = air.random_points(12, np.random.default_rng(3))
    air = air.with_goals(points)
    rows, columns = np.divmod(np.arange(144), 12)
    table = air.distance(points[rows], columns).reshape(12, 12)
    straight = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert (table >= straight - 1e-4).all()
    np.testing.assert_allclose(table, table.T, rtol=ERROR, atol=ROUNDING)
    through = (table[:, :, None] + table[None]).min(axis=1)  # the triangle inequality
    assert (table <= through * (1 + ERROR) + ROUNDING).all()


def test_air_is_neither_on_the_roof_nor_in_front_of_the_house():
    roof_and_ground = np.concatenate([box((-5, 2.6, -4), (5, 2.9, 4)), box((-20, -0.5, -20), (20, -0.01, 20))])
    door = wall_with_window((0.01, -0.5), (2.0, 0.5)) + np.array([4.1, 0, 0], np.float32)
    walls = box((-4, 0, -3), (4, 2.6, 3), inward=True)
    walls = walls[~(walls[:, :, 0] == 4).all(axis=1)]  # one wall is replaced by one with a door to the outside
    air = find_air(np.concatenate([walls, roof_and_ground, door]), floor(8, 6), RADIUS, CELL)
    centers = air.fields.centers
    assert centers[:, 1].max() < 2.6
    assert (np.abs(centers[:, [0, 2]]) < [5.05, 4.05]).all()  # it may be below the eaves


def test_without_a_ceiling_air_ends_above_the_floor():
    walls = box((-4, 0, -3), (4, 9, 3), inward=True)
    walls = walls[~(walls[:, :, 1] == 9).all(axis=1)]
    centers = find_air(walls, floor(8, 6), RADIUS, CELL).fields.centers
    assert 2.2 < centers[:, 1].max() < 2.6


@pytest.mark.parametrize(("y", "height"), [(0.0, 0.5), (2.6, 2.1)])
def test_a_hole_in_the_floor_or_the_ceiling_does_not_divide_air(y, height):
    room = box((-4, 0, -3), (4, 2.6, 3), inward=True)
    room = room[~(room[:, :, 1] == np.float32(y)).all(axis=1)]
    spans = (((-4, -3), (-2.6, 3)), ((-1.4, -3), (4, 3)), ((-2.6, -3), (-1.4, -0.6)), ((-2.6, 0.6), (-1.4, 3)))
    around = [box((x0, y, z0), (x1, y, z1)) for (x0, z0), (x1, z1) in spans]
    wall = box((-0.1, 0, -3), (0.1, 2.6, 2))
    air = find_air(np.concatenate([room, wall, *around]), floor(8, 6), RADIUS, CELL)
    assert lengths(air, [[-2, height, 0]], [2, 1.3, 0])[0] == pytest.approx(5.8, abs=0.3)


def test_random_points_are_free_of_surfaces():
    scene = box_room()
    air = find_air(scene.vertices[scene.triangles], floor(8, 6), RADIUS, CELL)
    points = air.random_points(1000, np.random.default_rng(0))
    assert trimesh_distances(scene.vertices[scene.triangles], points).min() >= RADIUS
    assert air.is_free(points).all()
    assert not air.is_free(np.array([[0, 1, -1], [50, 0, 0], [np.nan, 0, 0], [4.0, 1, 0]])).any()


def test_space_that_is_too_large_or_too_full_is_refused():
    with pytest.raises(ValueError, match="larger cell"):
        find_air(box((-400, 0, -400), (400, 5, 400), inward=True), floor(790, 790), RADIUS, CELL)
    with pytest.raises(ValueError, match="no free space"):
        air_of(*(box((-4, y, -3), (4, y + 0.01, 3)) for y in np.arange(0.25, 2.6, 0.25)))


@pytest.fixture(scope="module")
def small() -> Air:
    air = air_of(width=2.0, depth=2.0, height=1.5)
    return air.with_goals(air.random_points(2, np.random.default_rng(0)))


def test_air_is_restored_from_its_arrays(small):
    again = air_from_arrays(small.arrays(), RADIUS)
    points = small.random_points(5, np.random.default_rng(1))
    goals = np.array([0, 1, 0, 1, 1])
    np.testing.assert_array_equal(again.distance(points, goals), small.distance(points, goals))
    with pytest.raises(ValueError, match="from 0 to 1"):
        small.distance(points, goals + 1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("surfaces_items", lambda a: a + 1000),
        ("surfaces_start", lambda a: a[::-1].copy()),
        ("surfaces_shape", lambda a: a + 1),
        ("surfaces_frame", lambda a: a * np.nan),
        ("surfaces_corners", lambda a: a.astype(np.float64)),
        ("voxels_number", lambda a: a + 1),
        ("voxels_clearance", lambda a: a[:-1]),
        ("voxels_frame", lambda a: -a),
        ("fields_parent", lambda a: a + 10**6),
        ("fields_distance", lambda a: a - 100),
        ("fields_goals", lambda a: a[:1]),
        ("fields_centers", lambda a: a[:, :2]),
    ],
)
def test_damaged_arrays_are_refused(small, name, change):
    arrays = small.arrays()
    with pytest.raises(ValueError, match=r"surfaces|air"):
        air_from_arrays({**arrays, name: change(arrays[name])}, RADIUS)
