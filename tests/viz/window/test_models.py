"""Parts of a scene that the window draws."""

import numpy as np
import pytest
from rooms import box, scene_of

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.load import load_scene
from gym_batchnav.viz.window.models import distance_field, first_hit, is_overhead, scene_model

FLOOR = np.array([[-4, 0, -3], [4, 0, -3], [4, 0, 3], [-4, 0, 3], [-4, 1, -3], [4, 1, -3], [4, 1, 3]], np.float32)
TWO_LEVELS = np.array([[0, 2, 1], [0, 3, 2], [4, 6, 5]], np.int32)


def test_only_the_ceiling_is_overhead(room, navmesh):
    over = is_overhead(room, navmesh)
    corners = room.vertices[room.triangles[over]]
    assert over.sum() >= 2 and (corners[..., 1] == pytest.approx(2.6))
    walls_and_floor = room.vertices[room.triangles[~over]]
    assert (walls_and_floor[..., 1].min(axis=1) < 1).all()


def test_a_thick_ceiling_is_overhead_although_agents_could_stand_on_it():
    walls = [box((x, 0, -3), (x + 0.1, 2.5, 3)) for x in (-4, 3.9)]
    scene = scene_of("slab", *walls, box((-4, -0.2, -3), (4, 0, 3)), box((-4, 2.5, -3), (4, 2.8, 3)))
    over = is_overhead(scene, NavMesh.build(scene.vertices, scene.triangles))
    np.testing.assert_array_equal(over, scene.vertices[scene.triangles, 1].min(axis=1) >= 2.5)


def test_both_parts_together_are_the_scene(room, navmesh, tmp_path):
    parts = []
    for name, data in zip(("lower", "overhead"), scene_model(room, navmesh), strict=True):
        (tmp_path / f"{name}.glb").write_bytes(data)
        parts.append(load_scene(tmp_path / f"{name}.glb"))
    assert sum(len(part.triangles) for part in parts) == len(room.triangles)
    assert sum(doubled_area(part) for part in parts) == pytest.approx(doubled_area(room), rel=1e-5)
    assert parts[1].bounds[0, 1] > 2


def doubled_area(scene):
    a, b, c = scene.vertices[scene.triangles].astype(float).swapaxes(0, 1)
    return np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()


@pytest.mark.parametrize(
    ("origin", "direction", "expected"),
    [
        ((1, 5, -1), (0, -2, 0), (1, 1, -1)),  # the upper of two levels
        ((-1, 5, 1), (0, -1, 0), (-1, 0, 1)),
        ((-1, -5, 1), (0, 3, 0), (-1, 0, 1)),  # from below
        ((0, 1, 0.5), (1, -1, 0), (1, 0, 0.5)),
        *(((0, 5, 0), none, (np.nan,) * 3) for none in ((0, 1, 0), (1, 0, 0), (np.nan, 0, 0), (0, 0, 0), (100, -1, 0))),
    ],
)
def test_a_ray_meets_the_nearest_surface_or_nothing(origin, direction, expected):
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(first_hit(FLOOR, TWO_LEVELS, origin, direction), expected, atol=1e-6)


def test_the_field_has_the_distances_of_the_navmesh(navmesh):
    goal = navmesh.snap(np.array([[-3.0, 0.0, -2.0]]))[0]
    field = distance_field(navmesh, goal)
    some = np.linspace(0, len(field.points) - 1, 40).astype(int)
    expected = navmesh.geodesic_distance(field.points[some], np.repeat(goal[None], 40, axis=0))
    np.testing.assert_allclose(field.metres[some], expected, atol=1e-3)
    assert len(field.points) > 500 and field.colors.shape == field.points.shape
    assert (navmesh.is_navigable(field.points)).all()
