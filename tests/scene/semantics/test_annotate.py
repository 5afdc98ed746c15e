"""Annotations of scans: every triangle gets the object whose surface it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trimesh
from furnished import furnished
from rooms import box, scene_of
from scans import object_ply, painted, palette, write_hm3d, write_mp3d

from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.sources import SceneFile, load_recipe, scene_sources
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.frame import Z_UP
from gym_batchnav.scene.load import load_scene
from gym_batchnav.scene.save import save_glb
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.semantics.annotate import nearest_numbers, read_painted_glb, semantics_beside, surface_points

pytest.importorskip("scipy")


def merged(scene: Scene) -> Scene:
    """The scene as one object, as scans are."""
    return replace(
        scene,
        objects=(SceneObject("chunk", "chunk"),),
        triangle_object=np.ones_like(scene.triangle_object),
        metadata={},
    )


def categories(scene: Scene) -> list[str]:
    """The category of every triangle."""
    return [scene.objects[number - 1].category if number else "" for number in scene.triangle_object.tolist()]


@pytest.fixture
def home() -> Scene:
    return furnished()


def test_hm3d_gives_every_triangle_its_object(tmp_path, home):
    save_glb(merged(home), tmp_path / "a.basis.glb")
    write_hm3d(home, tmp_path, "a")
    loaded = load_scene(tmp_path / "a.basis.glb")
    assert [one.category for one in loaded.objects] == [one.category for one in home.objects]
    assert loaded.objects[4].name == "table_5"  # its number in the file, and its semantic id
    assert categories(loaded) == categories(home)
    assert loaded.metadata["semantics"] == "a.semantic.txt" and not loaded.warnings
    assert set(loaded.metadata["files"]) == {"a.basis.glb", "a.semantic.glb", "a.semantic.txt"}
    whole = load_scene(tmp_path / "a.basis.glb", semantics=False)
    assert len(whole.objects) == 1 and whole.metadata.get("semantics") is None


def test_texels_tell_objects_within_a_triangle_of_the_annotated_mesh(tmp_path):
    # The annotated wall is one square whose texture is half red and half green; the drawn one has two halves.
    left, right = (flat(x, x + 1.0) for x in (0.0, 1.0))
    save_glb(scene_of("wall", np.concatenate([left, right])), tmp_path / "w.glb")
    picture = np.zeros((8, 8, 4), np.uint8)
    picture[:, :4] = (255, 0, 0, 255)
    picture[:, 4:] = (0, 255, 0, 255)
    save_painted_square(picture, tmp_path / "w.semantic.glb")
    text = 'HM3D Semantic Annotations\n1,FF0000,"door",0\n2,00FF00,"wall, tiled",0\n'
    (tmp_path / "w.semantic.txt").write_text(text)
    assert categories(load_scene(tmp_path / "w.glb")) == ["door", "door", "wall, tiled", "wall, tiled"]


def flat(low: float, high: float) -> np.ndarray:
    """A square in the plane z = 0, 1 m high."""
    a, b, c, d = (low, 0, 0), (high, 0, 0), (high, 1, 0), (low, 1, 0)
    return np.array([[a, b, c], [a, c, d]], np.float32)


def save_painted_square(picture: np.ndarray, path: Path) -> None:
    """Save a square 2 m wide that wears a picture."""
    square = scene_of("wall", flat(0.0, 2.0))
    uvs = np.stack([square.vertices[:, 0] / 2, 1 - square.vertices[:, 1]], axis=1).astype(np.float32)
    materials = replace(square.materials, texture=np.zeros(1, np.int32), base_color=np.ones((1, 4), np.float32))
    save_glb(replace(square, uvs=uvs, textures=(picture,), materials=materials), path)


@pytest.mark.parametrize("coarse", [False, True])
def test_mp3d_matches_surfaces_of_other_triangles(tmp_path, home, coarse):
    saved = home if coarse else refined(home)
    save_glb(merged(saved), tmp_path / "b.glb")
    write_mp3d(refined(home) if coarse else home, tmp_path, "b")
    loaded = load_scene(tmp_path / "b.glb")
    assert np.mean(np.array(categories(loaded)) == categories(saved)) > 0.95
    assert {"room", "wall", "crate", "table"} == set(categories(loaded))


def refined(scene: Scene) -> Scene:
    """The scene with every triangle divided into four."""
    vertices, triangles = trimesh.remesh.subdivide(scene.vertices, scene.triangles)
    return replace(
        scene,
        vertices=vertices.astype(np.float32),
        triangles=triangles.astype(np.int32),
        triangle_material=np.repeat(scene.triangle_material, 4),
        triangle_object=np.repeat(scene.triangle_object, 4),
    )


def test_annotations_are_in_the_frame_of_the_scene(tmp_path, home):
    turned = replace(home, vertices=(home.vertices @ Z_UP).astype(np.float32))  # its z is up
    save_glb(merged(turned), tmp_path / "c.glb")
    write_mp3d(turned, tmp_path, "c")
    loaded = load_scene(tmp_path / "c.glb", up="z")
    assert categories(loaded) == categories(home)
    np.testing.assert_allclose(np.nanmin(loaded.object_boxes, axis=(0, 1)), (-4, 0, -3), atol=1e-5)


def test_gibson_lists_objects_in_json(tmp_path, home):
    save_glb(merged(home), tmp_path / "g.glb")
    (tmp_path / "g_semantic.ply").write_bytes(object_ply(home.vertices, home.triangles, home.triangle_object - 2))
    rows = [{"id": number, "class_": one.category} for number, one in enumerate(home.objects[2:], 1)]
    (tmp_path / "g.scn").write_text(json.dumps({"objects": rows}))
    loaded = load_scene(tmp_path / "g.glb")  # walls and room have numbers that are not listed
    assert set(categories(loaded)) == {"", "crate", "table"}
    assert loaded.objects[0] == SceneObject("crate_1", "crate")


def test_replica_has_quads_and_classes(tmp_path, home):
    corners = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1], [0, 2, 0], [1, 2, 0], [1, 2, 1], [0, 2, 1]], float)
    data = object_ply(corners, np.array([[0, 3, 2, 1], [4, 5, 6, 7]]), np.array([1, 2]))
    (tmp_path / "mesh_semantic.ply").write_bytes(data)
    classes = [{"id": 5, "name": "floor"}, {"id": 9, "name": "ceiling"}]
    objects = [{"id": 1, "class_id": 5}, {"id": 2, "class_id": 9}, {"id": 4, "class_id": -1}]
    (tmp_path / "info_semantic.json").write_text(json.dumps({"classes": classes, "objects": objects}))
    loaded = load_scene(tmp_path / "mesh_semantic.ply", up="y")
    low = loaded.vertices[loaded.triangles].max(axis=(1, 2)) <= 1
    names = np.array(categories(loaded))
    assert set(names[low]) == {"floor"} and set(names[~low]) == {"ceiling"}
    assert loaded.objects[4] == SceneObject("object_4", "")


def test_surfaces_far_from_annotations_are_reported(tmp_path, home):
    extra = scene_of("more", *(box((6, 0, 0), (7, 1, 1)),))
    save_glb(scene_of("all", home.vertices[home.triangles], extra.vertices[extra.triangles]), tmp_path / "d.glb")
    write_mp3d(home, tmp_path, "d")
    with pytest.warns(UserWarning, match=r"16\.7% of the triangles lie nowhere near .*d_semantic.ply.*: check"):
        loaded = load_scene(tmp_path / "d.glb")
    assert categories(loaded)[-12:] == [""] * 12 and "" not in categories(loaded)[:-12]
    assert "16.7%" in loaded.warnings[-1]


def test_cached_scenes_notice_new_and_changed_annotations(tmp_path, home):
    folder = tmp_path / "scenes"
    folder.mkdir()
    save_glb(merged(home), folder / "e.glb")
    recipe = SceneFile(str(folder / "e.glb"), "e")
    disk = DiskCache(tmp_path / "cache")
    plain = replace(recipe, options={"semantics": False})
    without = plain.make()
    assert len(load_recipe(recipe, disk).objects) == 1
    write_hm3d(home, folder, "e")
    assert plain.is_current(without, plain.key())
    assert [one.category for one in load_recipe(recipe, disk).objects] == [one.category for one in home.objects]
    write_hm3d(home, folder, "e", ["thing"] * len(home.objects))
    assert {one.category for one in load_recipe(recipe, disk).objects} == {"thing"}
    (folder / "e.semantic.txt").unlink()
    assert semantics_beside(folder / "e.glb") is None and len(load_recipe(recipe, disk).objects) == 1


def test_without_scipy_the_scene_loads_and_says_what_is_missing(tmp_path, home, monkeypatch):
    save_glb(merged(home), tmp_path / "f.glb")
    write_hm3d(home, tmp_path, "f")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"f\.semantic\.txt.*gym-batchnav\[formats\]"):
        assert len(load_scene(tmp_path / "f.glb").objects) == 1


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("h.semantic.txt", "HM3D\n", "its first line is not"),
        ("h.semantic.txt", "HM3D Semantic Annotations\n", "lists no objects"),
        ("h.semantic.txt", 'HM3D Semantic Annotations\n1,FF0000,"a"\n', "fewer than four columns"),
        ("h.semantic.txt", 'HM3D Semantic Annotations\n1,GG0000,"a",1\n', "GG0000"),
        ("h.semantic.txt", 'HM3D Semantic Annotations\n1,1FF0000,"a",1\n', "more than six digits"),
        ("h.semantic.txt", 'HM3D Semantic Annotations\n1000000,FF0000,"a",1\n', "not from 0 to 99,999"),
        ("h.semantic.txt", 'HM3D Semantic Annotations\n0,FF0000,"a",1\n', "numbers begin at 1"),
        ("h.semantic.txt", 'HM3D Semantic Annotations\n1,FF0000,"' + "x" * 200_000 + '",1\n', "malformed .*field"),
        ("h.semantic.glb", "not a GLB", "h.semantic.glb"),
    ],
)
def test_damaged_annotations_are_refused_by_name(tmp_path, home, name, content, reason):
    save_glb(merged(home), tmp_path / "h.glb")
    write_hm3d(home, tmp_path, "h")
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=reason) as caught:
        load_scene(tmp_path / "h.glb")
    assert name in str(caught.value)


def test_colors_that_are_not_listed_have_no_object(tmp_path, home):
    save_glb(merged(home), tmp_path / "i.glb")
    save_glb(painted(home, palette(len(home.objects))), tmp_path / "i.semantic.glb")
    (tmp_path / "i.semantic.txt").write_text('HM3D Semantic Annotations\n3,000001,"lamp",0\n')
    with pytest.warns(UserWarning, match=r"100\.0% of the triangles have colours in .*i\.semantic\.txt' does not list"):
        loaded = load_scene(tmp_path / "i.glb")
    assert not loaded.triangle_object.any() and [one.category for one in loaded.objects] == ["", "", "lamp"]


def test_a_folder_lists_scans_without_their_annotated_meshes(tmp_path, home):
    for name in ("a.basis.glb", "b.glb", "c.semantic.glb"):
        save_glb(home, tmp_path / name)
    write_hm3d(home, tmp_path, "a")
    write_mp3d(home, tmp_path, "b")
    found = [source.name for source in scene_sources(str(tmp_path))]
    assert found == ["a.basis", "b", "c.semantic"]  # the last annotates nothing
    assert [source.name for source in scene_sources(str(tmp_path / "*.glb"))] == found
    assert [source.name for source in scene_sources(str(tmp_path / "a.semantic.glb"))] == ["a.semantic"]


def test_many_points_in_one_place_are_searched_once():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 1e-5, (100_000, 3, 3))
    owner, weights = surface_points(corners, 0.1)
    points = np.einsum("pk,pkx->px", weights, corners[owner])
    numbers, found = nearest_numbers(points, np.ones(len(points), np.int64), corners, 0.1)
    assert found.all() and (numbers == 1).all()


def test_colours_of_large_pictures_are_not_mixed(tmp_path, monkeypatch):
    # Both pictures are scaled down, from PNG and after reading: averages would be colours of neither object.
    monkeypatch.setattr("gym_batchnav.scene.textures.AUTO_BYTES", 1)
    picture = np.full((301, 4200, 4), 255, np.uint8)
    picture[..., 2] = 0
    picture[:, ::2, 1] = 0  # red and yellow in turns
    save_painted_square(picture, tmp_path / "w.semantic.glb")
    painted = read_painted_glb(SceneFiles(tmp_path / "w.semantic.glb"))[1]
    assert max(painted.textures[0].shape) == 64
    assert {tuple(one) for one in painted.textures[0][..., :3].reshape(-1, 3).tolist()} <= {(255, 0, 0), (255, 255, 0)}
