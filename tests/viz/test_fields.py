import numpy as np
import pytest
from rooms import box, scene_of

from gym_batchnav import viz
from gym_batchnav.navmesh.mesh import NavMesh


def middle(top_down, row, column):
    """Return the centre of a pixel, x and z in metres."""
    return np.array([column + 0.5, row + 0.5]) / top_down.pixels_per_metre + np.array(top_down.origin)


def test_a_pixel_holds_the_geodesic_distance_from_its_middle(navmesh):
    goal = np.array([3.0, 0.2, -2.0])
    above = viz.navmesh_map(navmesh, size=200)
    field = viz.geodesic_field(navmesh, goal, above)
    assert field.shape == above.picture.shape[:2]
    row, column = np.nonzero(np.isfinite(field))
    some = np.random.default_rng(0).choice(len(row), 200, replace=False)
    x, z = np.array([middle(above, row[i], column[i]) for i in some]).T
    points = np.stack([x, np.full(len(x), 0.2), z], axis=1)
    expected = navmesh.geodesic_distance(points, np.tile(goal, (len(x), 1)))
    floor = np.abs(navmesh.snap(points)[:, 1] - 0.2) < 0.15  # the crate's top is a separate island
    np.testing.assert_allclose(field[row[some], column[some]][floor], expected[floor], atol=0.02)
    assert floor.sum() > 150


def test_nothing_is_told_of_pixels_where_nobody_can_walk(navmesh):
    above = viz.navmesh_map(navmesh, size=200)
    field = viz.geodesic_field(navmesh, np.array([3.0, 0.2, -2.0]), above)
    column, row = above.pixels(np.array([0.0, 0, -1.0])).astype(int)  # in the wall
    assert np.isnan(field[row, column]) and np.isnan(field[0, 0])
    cell = 1 / above.pixels_per_metre**2
    assert (~np.isnan(field)).sum() * cell == pytest.approx(navmesh.polygon_area_xz.sum(), rel=0.03)


def test_an_island_without_a_way_is_infinitely_far_and_grey():
    floors = scene_of("two", box((-6, -0.1, -2), (-1, 0, 2)), box((1, -0.1, -2), (6, 0, 2)))
    navmesh = NavMesh.build(floors.vertices, floors.triangles)
    above = viz.navmesh_map(navmesh, size=240)
    field = viz.geodesic_field(navmesh, np.array([-3.0, 0, 0]), above)
    drawn = viz.draw_field(above, field, contour=0, strength=1.0)
    for x, finite in ((-4.0, True), (4.0, False)):
        column, row = above.pixels(np.array([x, 0, 0.5])).astype(int)
        assert np.isfinite(field[row, column]) == finite and np.isinf(field[row, column]) != finite
        assert (tuple(drawn.picture[row, column]) == (176, 178, 182)) != finite


def test_lines_lie_where_whole_metres_are_passed_and_nowhere_else(navmesh):
    above = viz.navmesh_map(navmesh, size=300)
    field = viz.geodesic_field(navmesh, np.array([3.0, 0.2, -2.0]), above)
    plain, lined = (viz.draw_field(above, field, contour).picture for contour in (0, 1.0))
    changed = (plain != lined).any(axis=2)
    assert changed.sum() > 300
    off = np.abs(field[changed] - np.round(field[changed]))
    assert off.max() < 2.5 / above.pixels_per_metre
    untouched = np.isnan(field)
    np.testing.assert_array_equal(lined[untouched], above.picture[untouched])


def test_a_goal_off_the_navmesh_is_refused(navmesh):
    with pytest.raises(ValueError, match="not near the navmesh"):
        viz.geodesic_field(navmesh, np.array([50.0, 0, 50.0]), viz.navmesh_map(navmesh, size=100))
