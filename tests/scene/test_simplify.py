"""Simplification: how many triangles are left, and what stays as it was."""

import numpy as np
import pytest
from glb import Glb
from rooms import named

from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.load import SceneError, load_scene
from gym_batchnav.scene.scene import Materials, Scene
from gym_batchnav.scene.simplify import simplify_scene

pytest.importorskip("fast_simplification")
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


def border(scene):
    """The corners of the edges that only one triangle of an object and material has, as a set."""
    kind = 2 * scene.triangle_object + scene.triangle_material
    pairs = np.sort(scene.triangles[:, [[0, 1], [1, 2], [2, 0]]], axis=2)
    edges = np.concatenate([np.repeat(kind, 3)[:, None], pairs.reshape(-1, 2)], axis=1)
    single = np.unique(edges, axis=0, return_counts=True)
    corners = single[0][single[1] == 1][:, 1:].ravel()
    return {tuple(point) for point in scene.vertices[corners].round(5).tolist()}


@pytest.mark.parametrize("noise", [0.0, 0.004])
@pytest.mark.parametrize("share", [0.5, 0.15])
def test_materials_objects_uvs_and_colors_stay_where_they_were(noise, share):
    scene = floors(noise=noise)
    most = int(share * len(scene.triangles))
    simple = simplify_scene(scene, most)
    assert 0.5 * most < len(simple.triangles) <= most
    assert simple.triangles.dtype == simple.triangle_material.dtype == simple.triangle_object.dtype == np.int32
    assert simple.objects == scene.objects
    assert areas(simple) == pytest.approx(areas(scene), rel=0.03)
    used = np.unique(simple.triangles)
    assert len(used) == len(simple.vertices) == len(simple.uvs) == len(simple.colors)
    far = np.linalg.norm(SLOPE) * 0.02 if noise else 1e-4
    assert np.abs(simple.uvs - simple.vertices @ SLOPE.T).max() < far
    assert np.abs(simple.colors[:, 0] - simple.vertices[:, 0] * 60).mean() < 12
    assert (simple.colors[:, 3] == 255).all()
    assert np.ptp(simple.vertices[:, 1]) <= np.ptp(scene.vertices[:, 1]) + 1e-5
    assert "simplified from" in simple.warnings[-1]


def test_borders_are_kept_while_that_suffices():
    scene = floors(noise=0.004)
    kept = simplify_scene(scene, len(scene.triangles) // 3)
    assert border(scene) <= border(kept) and "cracks" not in kept.warnings[-1]
    rougher = simplify_scene(scene, 200)
    assert len(rougher.triangles) <= 200 and "cracks" in rougher.warnings[-1]


def test_a_scene_that_is_small_enough_stays_the_same():
    scene = floors(8)
    assert simplify_scene(scene, len(scene.triangles)) is scene


def test_triangles_that_repeat_their_corners_are_joined_first():
    scene = floors(20, num=1)
    rows = scene.triangles.ravel()
    soup = {"vertices": scene.vertices[rows], "uvs": scene.uvs[rows], "colors": scene.colors[rows]}
    loose = Scene(**{name: getattr(scene, name) for name in scene.__slots__} | soup
                  | {"triangles": np.arange(len(rows), dtype=np.int32).reshape(-1, 3)})  # fmt: skip
    simple = simplify_scene(loose, 300)
    assert len(simple.triangles) <= 300 and "cracks" not in simple.warnings[-1]


def test_a_limit_out_of_reach_is_an_error_that_names_one_within():
    corners = np.random.default_rng(0).random((50, 3, 3)).astype(np.float32)
    corners += 5 * np.arange(50, dtype=np.float32)[:, None, None]
    one = floors(2, num=1)
    scene = Scene(
        "loose", corners.reshape(-1, 3), np.arange(150, dtype=np.int32).reshape(-1, 3), np.zeros(50, np.int32),
        np.arange(1, 51, dtype=np.int32), one.materials, objects=tuple(map(str, range(50))),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"50 triangles, and (\d+) are the fewest .* pass max_triangles=\1 or more"):
        simplify_scene(scene, 10)


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


def test_without_the_library_the_error_names_the_extra(tmp_path, monkeypatch):
    path = floor_file(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "fast_simplification", None)
    with pytest.raises(SceneError, match=r"gym-batchnav\[formats\]"):
        load_scene(path, max_triangles=100)
    assert len(load_scene(path, max_triangles=10**6).triangles) == 2 * 59**2
