"""Simplification: how many triangles are left, and what stays as it was."""

from dataclasses import replace

import numpy as np
import pytest
from glb import Glb
from rays import render
from rooms import named, scene_of

from gym_batchnav.geometry import view_matrices
from gym_batchnav.homes import generate_apartment
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.load import load_scene
from gym_batchnav.scene.scene import Materials, Scene
from gym_batchnav.scene.simplify import simplify_scene

SLOPE = np.array([[0.3, 0.0, 0.1], [0.0, 0.2, -0.4]])  # of u and v per metre


def grid(size, count, z=0.0, noise=0.0, seed=0):
    """Vertices [V, 3] and triangles [T, 3] of a square floor around the origin, moved along z."""
    along = np.linspace(0, size, count)
    x, y = np.meshgrid(along, along)
    height = noise * np.random.default_rng(seed).standard_normal(x.shape)
    vertices = np.stack([x, height, z - y], axis=-1).reshape(-1, 3).astype(np.float32)
    first = (np.arange(count - 1)[:, None] * count + np.arange(count - 1)).ravel()
    quads = np.stack([first, first + 1, first + count + 1, first, first + count + 1, first + count], axis=1)
    return vertices, quads.reshape(-1, 3).astype(np.int32)


def floors(count=40, noise=0.0, num=3):
    """A scene of floors side by side, each an object, with two materials that take turns by columns."""
    made = [grid(4.0, count, 4.0 * index, noise, index) for index in range(num)]
    vertices = np.concatenate([one for one, _ in made])
    triangles = np.concatenate([one + count**2 * index for index, (_, one) in enumerate(made)])
    middle = vertices[triangles].mean(axis=1)
    colors = np.full((len(vertices), 4), 255, np.uint8)
    colors[:, 0] = np.round(vertices[:, 0] * 60)
    return Scene(
        name="floors",
        vertices=vertices,
        triangles=triangles,
        triangle_material=(middle[:, 0] > 2).astype(np.int32),
        triangle_object=np.repeat(np.arange(1, num + 1), len(made[0][1])).astype(np.int32),
        materials=Materials(
            np.ones((2, 4), np.float32), *(np.full(2, value, kind) for value, kind in ((-1, "i4"), (0, "u1"))),
            np.full(2, 0.5, np.float32), np.ones(2, bool), np.zeros((2, 2), np.uint8), np.zeros(2, np.uint8),
        ),
        uvs=(vertices @ SLOPE.T).astype(np.float32),
        colors=colors,
        objects=named(*(f"floor_{index}" for index in range(num))),
    )  # fmt: skip


def areas(scene):
    """The area of each pair of object and material."""
    a, b, c = np.moveaxis(scene.vertices[scene.triangles].astype(float), 1, 0)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
    return np.bincount(2 * scene.triangle_object + scene.triangle_material, area)


@pytest.mark.parametrize(("noise", "share"), [(0.0, 0.5), (0.004, 0.15)])
def test_materials_objects_uvs_and_colors_stay_where_they_were(noise, share):
    scene = floors(noise=noise)
    most = int(share * len(scene.triangles))
    simple = simplify_scene(scene, most)
    assert 0.5 * most < len(simple.triangles) <= most
    assert simple.triangles.dtype == simple.triangle_material.dtype == simple.triangle_object.dtype == np.int32
    assert simple.objects == scene.objects
    assert areas(simple) == pytest.approx(areas(scene), rel=0.03 if noise else 1e-5)
    used = np.unique(simple.triangles)
    assert len(used) == len(simple.vertices) == len(simple.uvs) == len(simple.colors)
    assert np.abs(simple.uvs - simple.vertices @ SLOPE.T).max() < 1e-5
    assert np.abs(simple.colors[:, 0] - simple.vertices[:, 0] * 60).max() < 1
    assert (simple.colors[:, 3] == 255).all()
    assert np.ptp(simple.vertices[:, 1]) <= np.ptp(scene.vertices[:, 1]) + 1e-5
    assert "simplified from" in simple.warnings[-1]


def test_flat_floors_need_two_triangles_for_each_material():
    scene = floors(41)
    simple = simplify_scene(scene, 12)
    assert len(simple.triangles) == 12
    assert areas(simple) == pytest.approx(areas(scene), rel=1e-5)


def test_a_house_keeps_its_walls_and_what_agents_see():
    scene = generate_apartment(0, area=40, storeys=1, closed_doors=0)
    simple = simplify_scene(scene, len(scene.triangles) // 4)
    off = np.abs(simple.object_boxes - scene.object_boxes).max(axis=(1, 2))
    assert off[[one.category in ("wall", "floor", "ceiling", "door") for one in scene.objects]].max() < 0.03
    assert np.array_equal(np.unique(simple.triangle_object), np.unique(scene.triangle_object))
    low, high = scene.bounds
    rng = np.random.default_rng(0)
    places = rng.uniform(low + 0.5, high - 0.5, (32, 3)).astype(np.float32)
    places[:, 1] = 1.25
    views = view_matrices(places, rng.uniform(-np.pi, np.pi, 32).astype(np.float32), 0.0)
    before, after = (render(one, views)["depth"] for one in (scene, simple))
    assert np.abs(before - after)[before < 20].mean() < 0.02


def test_triangles_are_taken_where_the_error_is_smallest():
    fine, rows = grid(4.0, 60, noise=0.002)
    coarse = np.array([[[0, 0, 9], [9, 0, 9], [0, 3, 9]], [[9, 0, 9], [9, 3, 9], [0, 3, 9]]], np.float32)
    scene = scene_of("wall", fine[rows], coarse)
    simple = simplify_scene(scene, 300)
    assert 290 <= len(simple.triangles) <= 300
    assert np.array_equal(simple.vertices[simple.triangles[simple.triangle_object == 2]], coarse)


def test_it_is_the_same_every_time():
    scene = floors(20, noise=0.004)
    one, other = (simplify_scene(scene, 500) for _ in range(2))
    for array in ("vertices", "triangles", "uvs", "colors"):
        assert np.array_equal(getattr(one, array), getattr(other, array))
    assert simplify_scene(scene, len(scene.triangles)) is scene


def test_triangles_that_repeat_their_corners_are_joined_first():
    scene = floors(20, num=1)
    rows = scene.triangles.ravel()
    soup = {name: getattr(scene, name)[rows] for name in ("vertices", "uvs", "colors")}
    loose = replace(scene, triangles=np.arange(len(rows), dtype=np.int32).reshape(-1, 3), **soup)
    simple = simplify_scene(loose, 300)
    assert len(simple.triangles) <= 300
    assert areas(simple) == pytest.approx(areas(loose), rel=1e-5)


def test_what_is_smaller_than_the_errors_vanishes():
    corners = np.random.default_rng(0).random((50, 3, 3)).astype(np.float32)
    sizes = np.linspace(0.1, 1, 50, dtype=np.float32)[:, None, None]
    scene = scene_of("loose", *(sizes * corners + 5 * np.arange(50, dtype=np.float32)[:, None, None])[:, None])
    simple = simplify_scene(scene, 10)
    assert len(simple.triangles) == 10
    assert areas(scene)[areas(scene) > 0].mean() < areas(simple)[areas(simple) > 0].mean()


def test_a_limit_out_of_reach_is_an_error_that_names_one_within():
    points = np.random.default_rng(0).random((30, 3)).astype(np.float32)
    soup = np.random.default_rng(1).integers(30, size=(3000, 3))  # too many triangles at every point
    with pytest.raises(ValueError, match=r"3,000 triangles, and .* are the fewest .* pass max_triangles=\d+ or more"):
        simplify_scene(scene_of("knot", points[soup]), 10)


def floor_file(tmp_path):
    glb = Glb()
    vertices, triangles = grid(5.0, 60, noise=0.003)
    glb.mesh(glb.primitive(vertices, triangles.astype(np.uint32).ravel())).load(tmp_path)
    (path,) = tmp_path.glob("*.glb")
    return path


def test_navmeshes_are_those_of_the_whole_scene(tmp_path, monkeypatch):
    path = floor_file(tmp_path)
    whole = load_scene(path)
    expected = NavMesh.build(whole.vertices, whole.triangles).data
    disk = DiskCache(tmp_path / "cache")
    (source,) = scene_sources(path, disk, {"max_triangles": 2500})
    for scene in (source.load(), source.load(), load_scene(path, max_triangles=2500)):  # made, cached, without a cache
        assert len(scene.triangles) <= 2500
        for cache in (None, disk):
            found = NavigationPreparer(cache=cache).navmesh(scene).data
            assert np.array_equal(found.vertices, expected.vertices)
            assert np.array_equal(found.polygons, expected.polygons)
    (plain,) = scene_sources(path, disk)  # shares the entry of the navmesh
    monkeypatch.setattr(NavMesh, "build", None)
    NavigationPreparer(cache=disk).navmesh(plain.load())
    NavigationPreparer(cache=disk).navmesh(source.load())


def test_the_limit_is_checked_and_part_of_the_key(tmp_path):
    path = floor_file(tmp_path)
    for wrong in (0, -5, 1.5, "many", True):
        with pytest.raises(ValueError, match="max_triangles="):
            load_scene(path, max_triangles=wrong)
    disk = DiskCache(tmp_path / "cache")
    counts = []
    for most in (2000, 4000, None, 2000):
        (source,) = scene_sources(path, disk, {"max_triangles": most})
        counts.append(len(source.load().triangles))
    assert counts[0] == counts[3] <= 2000 < counts[1] <= 4000 < counts[2] == 2 * 59**2
