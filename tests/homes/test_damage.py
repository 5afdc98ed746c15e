"""Damage: what is drawn changes, where agents walk does not, except round debris."""

from __future__ import annotations

from functools import wraps

import numpy as np
import pytest
from generated import HOME, home
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.homes import generate_scene, undamaged_scene
from gym_batchnav.homes.damage import Spots, Surface, debris_spots, refine
from gym_batchnav.library import sources
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import cached_navmesh
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.navmesh.mesh import NavMesh, NavMeshSettings
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.simplify import digest_of_geometry, digest_of_whole_geometry


def sheet(width: float, depth: float) -> Surface:
    vertices = np.array([[0, 0, 0], [width, 0, 0], [width, 0, depth], [0, 0, depth]], np.float64)
    triangles = np.array([[0, 2, 1], [0, 3, 2]])
    return Surface(vertices, vertices[:, [0, 2]], np.full((4, 4), 255.0), triangles, np.array([0, 1]), np.array([4, 5]))


def test_damage_leaves_less_of_the_walls_within_bounds_and_a_moderate_number_of_triangles():
    def surface(scene: Scene) -> float:
        walls = [number for number, one in enumerate(scene.objects, 1) if one.category in ("wall", "ceiling")]
        a, b, c = (scene.vertices[scene.triangles[np.isin(scene.triangle_object, walls)][:, k]] for k in range(3))
        return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)

    damaged = home(damage=0.7)
    whole = home()
    assert surface(damaged) < 0.95 * surface(whole)
    assert (damaged.bounds[0] > whole.bounds[0] - 0.1).all() and (damaged.bounds[1] < whole.bounds[1] + 0.1).all()
    assert len(damaged.triangles) < 60_000
    assert np.unique(damaged.triangle_object).tolist() == list(range(1, len(damaged.objects) + 1))
    assert np.isfinite(damaged.vertices).all()
    assert not any(one.solid for one in damaged.objects if one.name == "floaters")


def test_the_navmesh_is_that_of_the_scene_without_damage_and_with_debris():
    settings = NavMeshSettings()
    damaged = home(damage=0.7)
    whole = undamaged_scene(1, damage=0.7, **HOME)
    walked = cached_navmesh(damaged, settings, None)
    plain = NavMesh.build(home().vertices, home().triangles, settings)
    assert digest_of_whole_geometry(damaged) == digest_of_geometry(whole) != digest_of_geometry(damaged)
    debris = [box for one, box in zip(whole.objects, whole.object_boxes, strict=True) if one.name.startswith("debris")]
    points = plain.random_points(400, np.random.default_rng(0))
    snapped = walked.snap(points)
    moved = np.linalg.norm((snapped - points)[:, [0, 2]], axis=1) > 0.15
    near = np.zeros(len(points), bool)
    for low, high in debris:
        near |= ((points > low - 0.5) & (points < high + 0.5))[:, [0, 2]].all(axis=1)
    assert not (moved & ~near).any()
    assert walked.num_islands == plain.num_islands


def test_debris_leaves_every_room_in_one_piece():
    rng = np.random.default_rng(0)
    obstacle = [[2.0, 2.0], [4.0, 2.0], [4.0, 3.0], [2.0, 3.0]]
    spots = debris_spots([[0, 0, 8, 6]], [obstacle], 40, rng)
    assert len(spots) > 2
    for x, z, radius in spots:
        assert min(x, z, 8 - x, 6 - z) >= radius + 0.5
        outside = np.hypot(max(2 - x, 0, x - 4), max(2 - z, 0, z - 3))
        assert outside >= radius + 0.5
    gaps = [np.hypot(a[0] - b[0], a[1] - b[1]) - a[2] - b[2] for a in spots for b in spots if a is not b]
    assert min(gaps) >= 0.5


def test_a_recipe_knows_the_way_back(tmp_path, monkeypatch):
    given = {}

    def small(seed, **keywords):
        given.update(keywords)
        return home(damage=keywords["damage"])

    monkeypatch.setattr(sources, "generate_scene", wraps(generate_scene)(small))
    (source,) = scene_sources("procedural:1?damage=0.7&area=30&closed_doors=0&triangles=5000", DiskCache(tmp_path))
    for scene in (source.load(), source.load()):  # made, then from the cache
        assert digest_of_geometry(scene.unsimplified()) == digest_of_whole_geometry(scene)
    assert {name: given[name] for name in ("area", "closed_doors", "triangles")} == {
        "area": 30,
        "closed_doors": 0,
        "triangles": 5000,
    }


@given(st.floats(0.2, 6.0), st.floats(0.2, 6.0), st.floats(0.15, 2.0))
def test_refinement_keeps_the_surface_and_leaves_no_cracks(width, depth, longest):
    fine = refine(sheet(width, depth), longest)
    assert fine.areas.sum() == pytest.approx(width * depth)
    assert (fine.areas[fine.material == 0].sum()) == pytest.approx(width * depth / 2)
    corners = fine.vertices[fine.triangles]
    assert np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2).max() <= longest + 1e-9
    np.testing.assert_allclose(fine.uvs, fine.vertices[:, [0, 2]], atol=1e-9)
    assert_no_cracks(fine, width, depth)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (normals[:, 1] > 0).all()


def test_refinement_at_spots_is_local_and_leaves_no_cracks():
    spot = Spots(np.array([[1.0, 0, 1.0]]), np.array([0.4]), 0.1)
    fine = refine(sheet(5, 5), 2.0, spot)
    assert fine.areas.sum() == pytest.approx(25)
    corners = fine.vertices[fine.triangles]
    longest = np.linalg.norm(np.roll(corners, -1, axis=1) - corners, axis=2).max(axis=1)
    away = np.linalg.norm(corners.mean(axis=1) - spot.points[0], axis=1)
    assert longest[away < 0.35].max() <= 0.1 and longest[away > 3].min() > 0.3
    assert_no_cracks(fine, 5, 5)


def assert_no_cracks(fine: Surface, width: float, depth: float) -> None:
    """An edge with one triangle lies on the rim."""
    edges = np.sort(np.stack([fine.triangles, np.roll(fine.triangles, -1, axis=1)], axis=-1).reshape(-1, 2), axis=1)
    unique, counts = np.unique(edges, axis=0, return_counts=True)
    ends = fine.vertices[unique[counts == 1]]
    rim = [np.isclose(ends[:, :, axis], bound).all(axis=1) for axis, bound in ((0, 0), (0, width), (2, 0), (2, depth))]
    assert np.any(rim, axis=0).all()
