"""Saving scenes as GLB: what is loaded back is what was saved, and copies are stored once."""

import dataclasses
import json
import struct

import numpy as np
import pytest
import trimesh
from PIL import Image
from rooms import box, box_room, named, scene_of

from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.load import SceneError, load_scene
from gym_batchnav.scene.save import save_glb
from gym_batchnav.scene.scene import CLAMP, LINEAR, MASK, MIRROR, NEAREST, OPAQUE, REPEAT, Materials, Scene


def smooth_picture(height, width, alpha=255):
    rows, columns = np.mgrid[0:height, 0:width]
    channels = np.broadcast_arrays(rows * 255 // height, columns * 255 // width, 90, alpha)
    return np.stack(channels, axis=-1).astype(np.uint8)


def materials():
    return Materials(
        base_color=np.array([[1, 1, 1, 1], [0.1, 0.2, 0.3, 0.4], [0.8, 1, 1, 1]], np.float32),
        texture=np.array([0, 1, -1], np.int32),
        alpha_mode=np.array([OPAQUE, MASK, OPAQUE], np.uint8),
        alpha_cutoff=np.array([0.5, 0.3, 0.5], np.float32),
        double_sided=np.array([True, False, False]),
        wrap=np.array([[REPEAT, REPEAT], [CLAMP, MIRROR], [REPEAT, REPEAT]], np.uint8),
        filter=np.array([NEAREST, NEAREST, LINEAR], np.uint8),
    )


def random_scene(rng):
    return Scene(
        name="made",
        vertices=rng.normal(size=(200, 3)).astype(np.float32),
        triangles=rng.integers(0, 200, (300, 3)).astype(np.int32),
        triangle_material=rng.integers(0, 3, 300).astype(np.int32),
        triangle_object=(1 + np.arange(300) % 4).astype(np.int32),
        materials=materials(),
        uvs=rng.normal(size=(200, 2)).astype(np.float32),
        colors=rng.integers(0, 256, (200, 4)).astype(np.uint8),
        textures=(smooth_picture(64, 32), smooth_picture(16, 16, alpha=7)),
        objects=(*named(*(f"object {number}" for number in range(3))), SceneObject("object_3", "")),
    )


def content(path):
    """The JSON of a GLB file."""
    data = path.read_bytes()
    return json.loads(data[20 : 20 + struct.unpack_from("<I", data, 12)[0]])


def test_what_is_saved_is_loaded_back(tmp_path):
    scene = random_scene(np.random.default_rng(1))
    save_glb(scene, tmp_path / "made.glb")
    back = load_scene(tmp_path / "made.glb")
    order = np.lexsort((scene.triangle_material, scene.triangle_object))
    assert back.objects == scene.objects and back.warnings == ()
    np.testing.assert_array_equal(back.triangle_object, scene.triangle_object[order])
    np.testing.assert_array_equal(back.vertices[back.triangles], scene.vertices[scene.triangles[order]])
    np.testing.assert_array_equal(back.colors[back.triangles], scene.colors[scene.triangles[order]])
    before = scene.triangle_material[order]
    after = back.triangle_material
    textured = scene.materials.texture[before] >= 0
    corner_uvs = scene.uvs[scene.triangles[order]]
    np.testing.assert_array_equal(back.uvs[back.triangles][textured], corner_uvs[textured])
    for name in ("base_color", "alpha_mode", "double_sided", "wrap", "filter", "alpha_cutoff"):
        np.testing.assert_array_equal(getattr(back.materials, name)[after], getattr(scene.materials, name)[before])
    texture = back.materials.texture[after]
    np.testing.assert_array_equal(texture >= 0, textured)
    for row in (0, 1):
        (number,) = set(texture[before == row].tolist())
        difference = np.abs(back.textures[number].astype(int) - scene.textures[row])
        assert difference.max() <= (0 if row == 1 else 12)  # alpha is kept exactly, JPEG is not exact


def test_other_readers_agree(tmp_path):
    scene = random_scene(np.random.default_rng(2))
    save_glb(scene, tmp_path / "made.glb")
    other = trimesh.load_scene(tmp_path / "made.glb", process=False)
    meshes = other.dump()
    theirs = np.concatenate([np.asarray(mesh.vertices)[mesh.faces].reshape(-1, 9) for mesh in meshes])
    ours = scene.vertices[scene.triangles].reshape(-1, 9)
    np.testing.assert_allclose(np.sort(theirs, axis=0), np.sort(ours, axis=0), atol=1e-6)


def test_equal_corners_share_a_vertex_and_idle_attributes_are_left_out(tmp_path):
    scene = dataclasses.replace(
        scene_of("box", box((0, 0, 0), (1, 1, 1))),
        uvs=np.random.default_rng(0).normal(size=(36, 2)).astype(np.float32),
        colors=np.full((36, 4), 255, np.uint8),
        textures=(smooth_picture(8, 8), smooth_picture(8, 8)),
    )
    save_glb(scene, tmp_path / "box.glb")
    document = content(tmp_path / "box.glb")
    assert "images" not in document
    assert list(document["meshes"][0]["primitives"][0]["attributes"]) == ["POSITION"]
    assert [accessor["count"] for accessor in document["accessors"]] == [8, 36]
    assert document["accessors"][1]["componentType"] == 5123


def test_more_than_65535_vertices_need_wide_indices(tmp_path):
    corners = np.random.default_rng(3).normal(size=(25_000, 3, 3)).astype(np.float32)
    save_glb(scene_of("large", corners), tmp_path / "large.glb")
    assert content(tmp_path / "large.glb")["accessors"][1]["componentType"] == 5125
    back = load_scene(tmp_path / "large.glb")
    np.testing.assert_array_equal(back.vertices[back.triangles], corners)


def copies_of(model, matrices):
    """A scene of one object for each matrix, all alike."""
    placed = [trimesh.transform_points(model.vertices, matrix)[model.faces] for matrix in matrices]
    scene = scene_of("copies", *np.float32(placed))
    instances = {number: ("chair", matrix) for number, matrix in enumerate(matrices, start=1)}
    plain = np.zeros_like(scene.triangle_material)
    return dataclasses.replace(scene, triangle_material=plain, metadata={"instances": instances})


def test_instances_share_a_mesh_and_come_back_in_place(tmp_path):
    matrices = []
    for number in range(6):
        matrix = trimesh.transformations.rotation_matrix(number, [0, 1, 0])
        matrix[:3, 3] = 3 * number, 0.5, -number
        matrices.append(matrix)
    matrices[5][:3, :3] *= [-1, 1, 1]  # mirrored: must not share, or its fronts would turn inwards
    scene = copies_of(trimesh.creation.icosphere(3, 0.4), matrices)
    vertices = scene.vertices.copy()
    vertices[len(vertices) // 6 * 4] += 0.01  # the fifth is dented: the claim that it is a copy is wrong
    scene = dataclasses.replace(scene, vertices=vertices)
    save_glb(scene, tmp_path / "shared.glb")
    save_glb(dataclasses.replace(scene, metadata={}), tmp_path / "flat.glb")
    document = content(tmp_path / "shared.glb")
    meshes = [node["mesh"] for node in document["nodes"]]
    assert len(set(meshes[:4])) == 1 and len(set(meshes)) == 3
    for name in ("shared.glb", "flat.glb"):
        back = load_scene(tmp_path / name)
        assert back.objects == scene.objects
        np.testing.assert_allclose(back.vertices[back.triangles], vertices[scene.triangles], atol=2e-6)
    assert (tmp_path / "shared.glb").stat().st_size < 0.6 * (tmp_path / "flat.glb").stat().st_size


def test_opaque_pictures_are_jpeg_and_flat_or_transparent_ones_png(tmp_path):
    rng = np.random.default_rng(4)
    noise = np.asarray(Image.fromarray(rng.integers(0, 255, (32, 32, 3), np.uint8)).resize((128, 128)).convert("RGBA"))
    checks = np.kron(np.indices((8, 8)).sum(axis=0) % 2, np.ones((16, 16)))[..., None] * [200, 180, 90, 0]
    checks = (checks + np.array([20, 20, 20, 255])).astype(np.uint8)
    glass = noise.copy()
    glass[0, 0, 3] = 100
    pictures = (noise, checks, glass)
    scene = dataclasses.replace(
        random_scene(rng),
        textures=pictures,
        materials=dataclasses.replace(materials(), texture=np.array([0, 1, 2], np.int32)),
    )
    save_glb(scene, tmp_path / "made.glb")
    kinds = {image["mimeType"] for image in content(tmp_path / "made.glb")["images"]}
    assert kinds == {"image/jpeg", "image/png"}
    back = load_scene(tmp_path / "made.glb")
    rows = back.materials.texture[back.triangle_material]
    order = np.lexsort((scene.triangle_material, scene.triangle_object))
    for row, exact in ((0, False), (1, True), (2, True)):
        number = rows[scene.triangle_material[order] == row][0]
        assert np.array_equal(back.textures[number], pictures[row]) == exact


def test_a_failed_save_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    scene = random_scene(np.random.default_rng(5))
    save_glb(scene, tmp_path / "made.glb")
    before = (tmp_path / "made.glb").read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_glb(dataclasses.replace(scene, name="other"), tmp_path / "made.glb")
    assert [path.name for path in tmp_path.iterdir()] == ["made.glb"]
    assert (tmp_path / "made.glb").read_bytes() == before


def test_the_same_scene_gives_the_same_bytes(tmp_path):
    for name in ("a.glb", "b.glb"):
        save_glb(random_scene(np.random.default_rng(6)), tmp_path / name)
    assert (tmp_path / "a.glb").read_bytes() == (tmp_path / "b.glb").read_bytes()


def test_scenes_that_would_change_their_ids_are_refused(tmp_path):
    scene = random_scene(np.random.default_rng(7))
    with pytest.raises(SceneError, match=r"ends in \.glb"):
        save_glb(scene, tmp_path / "made.obj")
    for wrong in (scene.triangle_object - 1, scene.triangle_object + 1, np.ones_like(scene.triangle_object)):
        with pytest.raises(SceneError, match="every object a triangle"):
            save_glb(dataclasses.replace(scene, triangle_object=wrong), tmp_path / "made.glb")


def test_a_texture_that_no_file_holds_is_named(tmp_path):
    scene = box_room("hall")
    materials = dataclasses.replace(scene.materials, texture=np.zeros(len(scene.materials), np.int32))
    scene = dataclasses.replace(scene, materials=materials, textures=(np.full((70_000, 1, 4), 255, np.uint8),))
    with pytest.raises(SceneError, match=r"scene 'hall': texture 0: a texture of 1x70000 pixels cannot be written"):
        save_glb(scene, tmp_path / "hall.glb")
