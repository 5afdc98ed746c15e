"""Buildings of several storeys: maps show one at a time."""

import numpy as np
import pytest
from rooms import box, box_room, scene_of

from gym_batchnav import viz
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.viz.floors import storey_at, storey_spans, visible_floor_and_cut


@pytest.fixture(scope="module")
def house():
    """Return a house with a floor of 8 m by 6 m at height 0, and one at 3 m above its western half."""
    return scene_of("house", box((-4, -0.1, -3), (4, 0, 3)), box((-4, 2.9, -3), (0, 3, 3)))


@pytest.fixture(scope="module")
def navmesh(house):
    return NavMesh.build(house.vertices, house.triangles)


def color_at(above, picture, x, z):
    column, row = above.pixels(np.array([x, 0.0, z])).astype(int)
    return tuple(picture[row, column].tolist())


def test_a_storey_reaches_from_below_its_floor_to_below_the_next(navmesh):
    assert viz.storeys(navmesh) == pytest.approx([0.1, 3.1], abs=0.05)
    assert storey_spans([]) == [(-np.inf, np.inf)]
    assert storey_spans([0.0, 3.0]) == [(-np.inf, 2.5), (2.5, np.inf)]
    for heights, floor in ((1.6, 0.1), (3.0, 3.1), (np.array([0.2, 3.2, 3.2]), 3.1), (np.array([0.2, 3.2]), 0.1)):
        assert storey_at(navmesh, heights)[0] == pytest.approx(floor, abs=0.05)


def test_a_map_of_a_navmesh_shows_the_storey_of_a_height(navmesh):
    lower, upper = (viz.navmesh_map(navmesh, 200, height=height) for height in (0.0, 3.0))
    assert color_at(lower, lower.picture, 2, 1) != viz.BACKGROUND
    assert color_at(upper, upper.picture, 2, 1) == viz.BACKGROUND  # nothing above the eastern half
    assert color_at(upper, upper.picture, -2, 1) != viz.BACKGROUND


def test_a_storey_is_drawn_with_what_lies_over_it_taken_off(house, navmesh, renderer_of):
    lower, upper = (viz.storey_map(renderer_of(house), house, 0, navmesh, 200, height) for height in (0.0, 3.0))
    east, west = (color_at(lower, lower.picture, x, 1) for x in (2, -2))
    assert east == west != color_at(upper, upper.picture, -2, 1)
    outlined = viz.draw_outline(lower, navmesh).picture
    assert color_at(lower, outlined, -0.15, 1) != viz.OUTLINE  # the edge of the upper floor is not on the lower map
    ways = [np.array([[-3.0, 0.2, 0], [-1.0, 0.2, 0]]), np.array([[-3.0, 3.2, 2], [-1.0, 3.2, 2]])]
    assert lower.shows(np.array([way[0] for way in ways])).tolist() == [True, False]
    for above, strong, faint in ((lower, 0, 1), (upper, 1, 0)):
        picture = viz.draw_trajectories(above, ways)
        assert color_at(above, picture, -2, ways[strong][0, 2]) == viz.PATH_COLORS[strong]
        pale = color_at(above, picture, -2, ways[faint][0, 2])
        assert pale not in (viz.PATH_COLORS[faint], color_at(above, above.picture, -2, ways[faint][0, 2]))


def test_a_field_tells_of_the_storey_of_its_map_and_of_no_other(navmesh):
    goal = np.array([-2.0, 3.2, 0.0])
    upper = viz.geodesic_field(navmesh, goal, viz.navmesh_map(navmesh, 160))
    above = viz.navmesh_map(navmesh, 160, height=0.0)
    lower = viz.geodesic_field(navmesh, goal, above)
    column, row = above.pixels(np.array([2.0, 0, 1.0])).astype(int)
    assert np.isnan(upper[row, column]) and np.isinf(lower[row, column])


def test_storeys_are_the_level_floors_and_a_slope_has_none():
    def floor(low, high):
        quad = np.array([[0, low, 0], [0, low, 5], [8, high, 5], [8, high, 0]], np.float32)
        return quad[[[0, 1, 2], [0, 2, 3]]]

    def of(*floors):
        scene = scene_of("floors", *floors)
        return viz.storeys(NavMesh.build(scene.vertices, scene.triangles))

    assert of(floor(0, 0), floor(3, 3)) == pytest.approx([0, 3], abs=0.25)
    assert of(floor(0, 0), floor(3, 3), floor(-2.7, -2.7)) == pytest.approx([-2.7, 0, 3], abs=0.25)
    assert of(floor(0, 5)) == []


@pytest.mark.parametrize("ceiling", [1.9, 2.2, 3.5])
def test_a_map_looks_below_low_ceilings(renderer_of, ceiling):
    scene = box_room(height=ceiling)
    navmesh = NavMesh.build(scene.vertices, scene.triangles)
    above = viz.storey_map(renderer_of(scene), scene, 0, navmesh, 200, viz.storeys(navmesh)[0])
    crate, floor = (color_at(above, above.picture, x, z) for x, z in ((2.0, -0.5), (2.0, 1.5)))
    assert crate != floor, "the crate cannot be distinguished from the floor"
    assert viz.BACKGROUND not in (crate, floor), "the ceiling hides the room"


def test_the_cut_is_measured_from_the_visible_floor_and_wide_furniture_is_no_ceiling():
    for ceiling, cut in ((1.7, 1.65), (2.2, 2.0), (3.0, 2.0)):
        assert visible_floor_and_cut(box_room(height=ceiling), 0.2) == pytest.approx((0.0, cut))
    scene = scene_of(
        "loft", box((-4, 0, -3), (4, 3, 3), inward=True), box((1, 0, -3), (4, 1.5, -2)), box((-4, 1.3, 2), (-1, 1.4, 3))
    )
    assert visible_floor_and_cut(scene, 0.1) == pytest.approx((0.0, 2.0))
