"""Loading scenes: the features of every format one by one, frames, and invalid files."""

import hashlib
import io
import json
import pickle
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import trimesh
from compressed import draco_square
from glb import SQUARE, SQUARE_CORNERS, SQUARE_UVS, Glb, four_colors, pictured, soup, square
from PIL import Image
from rooms import names_of

from gym_batchnav.library.loader import is_lasting
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene import builder as assemble
from gym_batchnav.scene import images, json_values
from gym_batchnav.scene.files import naming
from gym_batchnav.scene.formats import gltf as read_gltf
from gym_batchnav.scene.formats import gltf_codecs as read_draco
from gym_batchnav.scene.formats import gltf_document as gltf
from gym_batchnav.scene.formats import via_trimesh
from gym_batchnav.scene.formats.gltf_document import count_gltf
from gym_batchnav.scene.load import SceneError, SceneNotFoundError, load_scene
from gym_batchnav.scene.scene import CLAMP, LINEAR, MASK, MIRROR, NEAREST, OPAQUE, REPEAT


def color_at(scene, point):
    """The texel that the scene's vertex at ``point`` shows, looked up half a texel inside the picture."""
    row = int(np.argmin(np.linalg.norm(scene.vertices - point, axis=1)))
    texture = scene.textures[0]
    u, v = np.clip(scene.uvs[row], 0.01, 0.99)
    return texture[int(v * texture.shape[0]), int(u * texture.shape[1]), :3].tolist()


def test_node_transforms_are_applied_from_the_root_down(tmp_path):
    glb = square()
    half = np.sqrt(0.5)
    glb.json["nodes"] = [
        {"children": [1], "translation": [10, 0, 0], "scale": [2, 2, 2]},
        {"children": [2], "rotation": [0, half, 0, half]},  # a quarter turn to the left about y: x becomes -z
        {"mesh": 0, "name": "plate", "matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 3, 0, 0, 1]},
    ]
    scene = glb.load(tmp_path)
    expected = np.array([[10, 0, -6], [10, 0, -8], [10, 2, -8], [10, 2, -6]], np.float32)
    np.testing.assert_allclose(scene.vertices, expected, atol=1e-6)
    assert names_of(scene) == ("plate",)


@pytest.mark.parametrize("scale", [(1, 1, 1), (-1, 1, 1), (-2, -3, -1), (-1, -1, 1)])
def test_a_mirrored_node_keeps_its_fronts_outside(tmp_path, scale):
    box = trimesh.creation.box()
    glb = Glb()
    glb.mesh(glb.primitive(box.vertices.astype(np.float32), box.faces.astype(np.uint16).ravel()))
    glb.json["nodes"][0]["scale"] = scale
    corners = soup(glb.load(tmp_path))
    volume = np.linalg.det(corners).sum() / 6
    assert volume == pytest.approx(abs(np.prod(scale)))


def test_nodes_are_objects_in_order_of_the_tree(tmp_path):
    glb = square()
    glb.json["nodes"] = [
        {"children": [2, 1], "name": "root"},
        {"mesh": 0, "name": "second"},
        {"mesh": 0, "children": [3]},
        {"name": "empty"},
    ]
    scene = glb.load(tmp_path)
    assert names_of(scene) == ("node_2", "second")
    assert scene.triangle_object.tolist() == [1, 1, 2, 2]


def obj_square(tmp_path, picture):
    Image.fromarray(picture).save(tmp_path / "p.png")
    (tmp_path / "s.mtl").write_text("newmtl m\nKd 0.5 0.5 0.5\nmap_Kd p.png\n")
    corners = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
    (tmp_path / "s.obj").write_text(f"mtllib s.mtl\n{corners}usemtl m\nf 1/1 2/2 3/3 4/4\n")
    return load_scene(tmp_path / "s.obj", up="y")


def ply_square(tmp_path, picture):
    Image.fromarray(picture).save(tmp_path / "p.png")
    header = "ply\nformat ascii 1.0\ncomment TextureFile p.png\nelement vertex 4\n"
    header += "".join(f"property float {name}\n" for name in ("x", "y", "z", "s", "t"))
    header += "element face 2\nproperty list uchar int vertex_indices\nend_header\n"
    body = "0 0 0 0 0\n1 0 0 1 0\n1 1 0 1 1\n0 1 0 0 1\n3 0 1 2\n3 0 2 3\n"
    (tmp_path / "s.ply").write_text(header + body)
    return load_scene(tmp_path / "s.ply", up="y")


def glb_square(tmp_path, picture):
    return pictured(picture).load(tmp_path)


@pytest.mark.parametrize("make", [glb_square, obj_square, ply_square])
def test_a_picture_stands_upright_whatever_the_format(tmp_path, make):
    scene = make(tmp_path, four_colors())
    assert scene.textures[0][0, 0].tolist() == [255, 0, 0, 255]
    assert color_at(scene, [0, 1, 0]) == [255, 0, 0]
    assert color_at(scene, [1, 1, 0]) == [0, 255, 0]
    assert color_at(scene, [0, 0, 0]) == [0, 0, 255]
    assert color_at(scene, [1, 0, 0]) == [255, 255, 255]


def test_materials_of_gltf(tmp_path):
    glb = Glb()
    glb.json["samplers"] = [{"wrapS": 33071, "wrapT": 33648, "magFilter": 9728}]
    textured = glb.picture(four_colors(), sampler=0)
    glb.json["materials"][textured] |= {"alphaMode": "MASK", "alphaCutoff": 0.25, "doubleSided": True}
    glb.json["materials"][textured]["pbrMetallicRoughness"]["baseColorFactor"] = [0.1, 0.2, 0.3, 0.4]
    glass = glb.material(alphaMode="BLEND")
    parts = [glb.primitive(uvs=SQUARE_UVS, material=textured), glb.primitive(material=glass), glb.primitive()]
    scene = glb.mesh(*parts, glb.primitive(material=textured)).load(tmp_path)
    *rows, without_uvs = scene.triangle_material[::2]
    materials = scene.materials
    assert materials.texture[without_uvs] == -1
    np.testing.assert_allclose(materials.base_color[rows[0]], [0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    assert materials.base_color[rows[2]].tolist() == [1, 1, 1, 1]
    assert materials.texture[rows].tolist() == [0, -1, -1]
    assert materials.alpha_mode[rows].tolist() == [MASK, MASK, OPAQUE]
    assert materials.alpha_cutoff[rows[:2]].tolist() == [0.25, 0.5]
    assert materials.double_sided[rows].tolist() == [True, False, False]
    assert materials.wrap[rows].tolist() == [[CLAMP, MIRROR], [REPEAT, REPEAT], [REPEAT, REPEAT]]
    assert materials.filter[rows].tolist() == [NEAREST, LINEAR, LINEAR]


def test_a_texture_transform_is_baked_into_the_uvs(tmp_path):
    glb = pictured()
    # The example in the extension's text: the lower left quarter of the picture, turned clockwise by 90 degrees.
    transform = {"offset": [0, 1], "rotation": np.pi / 2, "scale": [0.5, 0.5]}
    reference = glb.json["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"]
    reference["extensions"] = {"KHR_texture_transform": transform}
    glb.json["extensionsRequired"] = ["KHR_texture_transform"]
    uvs = glb.load(tmp_path).uvs
    np.testing.assert_allclose(uvs, np.stack([SQUARE_UVS[:, 1] / 2, 1 - SQUARE_UVS[:, 0] / 2], axis=1), atol=1e-6)


def test_vertex_colors_fill_up_with_white(tmp_path):
    glb = Glb()
    floats = np.array([[0, 0.5, 1]] * 4, np.float32)
    shorts = np.array([[65535, 0, 0, 32768]] * 4, np.uint16)
    scene = glb.mesh(glb.primitive(colors=floats), glb.primitive(colors=shorts), glb.primitive()).load(tmp_path)
    assert scene.colors[::4].tolist() == [[0, 128, 255, 255], [255, 0, 0, 128], [255, 255, 255, 255]]


def test_instances_of_a_mesh_are_objects_of_their_own(tmp_path):
    """EXT_mesh_gpu_instancing: the node's own transform comes last; a quaternion may have any length."""
    glb = Glb()
    glb.mesh(glb.primitive())
    quarter = [0, np.sqrt(0.5), 0, np.sqrt(0.5)]  # about y
    attributes = {
        "TRANSLATION": glb.accessor(np.array([[0, 0, 0], [4, 0, 0], [0, 0, -2]], np.float32)),
        "ROTATION": glb.accessor(np.array([[0, 0, 0, 3], quarter, np.multiply(2, quarter)], np.float32)),
        "SCALE": glb.accessor(np.array([[1, 1, 1], [1, 2, 1], [0.5, 1, 1]], np.float32)),
    }
    extension = {"EXT_mesh_gpu_instancing": {"attributes": attributes}}
    glb.json["nodes"] = [{"mesh": 0, "name": "chair", "translation": [10, 0, 0], "extensions": extension}]
    glb.json["extensionsRequired"] = ["EXT_mesh_gpu_instancing"]
    scene = glb.load(tmp_path)
    assert len(scene.objects) == 3 and scene.objects[0].name == "chair" and len(scene.triangles) == 6
    turned = SQUARE[:, [2, 1, 0]] * [1, 1, -1]  # x goes to -z
    expected = [np.add(SQUARE, [10, 0, 0]), turned * [1, 2, 1] + [14, 0, 0], turned * [1, 1, 0.5] + [10, 0, -2]]
    for number, corners in enumerate(expected, start=1):
        found = scene.vertices[np.unique(scene.triangles[scene.triangle_object == number])]
        order = np.lexsort(found.round(4).T)
        np.testing.assert_allclose(found[order], corners[np.lexsort(corners.round(4).T)], atol=1e-5)


def test_normalized_rotations_of_instances_are_read(tmp_path):
    glb = Glb()
    glb.mesh(glb.primitive())
    rotation = glb.accessor(np.array([[0, 23170, 0, 23170]], np.int16), normalized=True)
    glb.json["nodes"][0]["extensions"] = {"EXT_mesh_gpu_instancing": {"attributes": {"ROTATION": rotation}}}
    low, high = glb.load(tmp_path).bounds
    np.testing.assert_allclose([low, high], [[0, 0, -1], [0, 1, 0]], atol=1e-4)


def test_morph_targets_stand_at_their_weights(tmp_path):
    """Those of the node take the place of those of the mesh; a node without any has the mesh's."""
    glb = Glb()
    up = np.tile(np.array([[0, 1, 0]], np.float32), (4, 1))
    targets = [{"POSITION": glb.accessor(up)}, {"POSITION": glb.accessor(2 * up)}, {"NORMAL": glb.accessor(up)}]
    glb.mesh(glb.primitive(targets=targets))
    glb.json["meshes"][0]["weights"] = [0.5, 0.0, 1.0]
    glb.json["nodes"] = [{"mesh": 0}, {"mesh": 0, "weights": [0, 1.0, 0]}, {"mesh": 0, "weights": [0, 0, 0]}]
    glb.json["scenes"] = [{"nodes": [0, 1, 2]}]
    scene = glb.load(tmp_path)
    lowest = [scene.vertices[scene.triangles[scene.triangle_object == number].ravel(), 1].min() for number in (1, 2, 3)]
    np.testing.assert_allclose(lowest, [0.5, 2.0, 0.0])
    assert any("morph targets" in warning for warning in scene.warnings)


def test_lines_and_points_are_left_out_and_counted(tmp_path):
    glb = Glb()
    glb.mesh(glb.primitive(mode=1), glb.primitive(mode=0), glb.primitive()).mesh(glb.primitive(mode=1))
    # The instances of the second mesh are not read: the file lacks them.
    glb.json["nodes"].append({"mesh": 1, "extensions": {"EXT_mesh_gpu_instancing": {"attributes": {"SCALE": 10**6}}}})
    glb.json["scenes"] = [{"nodes": [0, 1]}]
    scene = glb.load(tmp_path)
    assert len(scene.triangles) == 2
    assert scene.warnings == ("3 primitives of lines or points were left out",)


def test_accessors_may_be_strided_sparse_or_normalized(tmp_path):
    glb = Glb()
    padded = np.zeros((4, 5), np.float32)
    padded[:, 1:4] = SQUARE
    first = glb.primitive()
    view = glb.view(padded.tobytes(), byteStride=20)
    glb.json["accessors"][first["attributes"]["POSITION"]] |= {"bufferView": view, "byteOffset": 4}
    second = glb.primitive()
    where = glb.view(np.array([2], np.uint8).tobytes())
    what = glb.view(np.array([5, 6, 7], np.float32).tobytes())
    sparse = {"count": 1, "indices": {"bufferView": where, "componentType": 5121}, "values": {"bufferView": what}}
    glb.json["accessors"][second["attributes"]["POSITION"]]["sparse"] = sparse
    third = glb.primitive(vertices=(SQUARE * 127).astype(np.int8))
    glb.json["accessors"][third["attributes"]["POSITION"]]["normalized"] = True
    vertices = glb.mesh(first, second, third).load(tmp_path).vertices
    np.testing.assert_array_equal(vertices[:4], SQUARE)
    np.testing.assert_array_equal(vertices[4:8], [SQUARE[0], SQUARE[1], [5, 6, 7], SQUARE[3]])
    np.testing.assert_allclose(vertices[8:], SQUARE)


def test_a_missing_buffer_of_a_gltf_is_named(tmp_path):
    glb = square()
    document = {key: items for key, items in glb.json.items() if items}
    document["buffers"] = [{"byteLength": len(glb.binary), "uri": "sub/my%20data.bin"}]
    (tmp_path / "made.gltf").write_text(json.dumps(document))
    with pytest.raises(SceneError, match=r"made\.gltf.*my data\.bin.*does not exist.*put the file there"):
        load_scene(tmp_path / "made.gltf")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/my data.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1".ljust(len(glb.binary)))
    with pytest.raises(SceneError, match=r"'sub/my%20data\.bin' is a pointer of Git LFS.* git lfs pull"):
        load_scene(tmp_path / "made.gltf")
    document["buffers"][0]["uri"] = 5000 * "x"
    (tmp_path / "made.gltf").write_text(json.dumps(document))
    with pytest.raises(SceneError, match=r"too long.*put the file there") as error:
        load_scene(tmp_path / "made.gltf")
    assert len(error.value.reason) < 1000


def test_a_missing_texture_costs_one_warning(tmp_path):
    glb = Glb()
    parts = []
    for number in range(2):
        material = glb.picture(four_colors())
        glb.json["images"][number] = {"uri": f"gone_{number}.png"}
        glb.json["materials"][material]["pbrMetallicRoughness"]["baseColorFactor"] = [0, 1, number, 1]
        parts.append(glb.primitive(uvs=SQUARE_UVS, material=material))
    with pytest.warns(UserWarning, match=r"2 missing or damaged textures.*gone_0\.png") as seen:
        scene = glb.mesh(*parts).load(tmp_path)
    assert len(seen) == 1 and len(scene.warnings) == 1
    assert scene.materials.texture.tolist() == [-1, -1]
    assert scene.materials.base_color.tolist() == [[0, 1, 0, 1], [0, 1, 1, 1]]


def test_triangles_that_are_not_finite_are_dropped(tmp_path):
    glb = Glb()
    vertices = SQUARE.copy()
    vertices[3, 1] = np.nan
    scene = glb.mesh(glb.primitive(vertices)).load(tmp_path)
    assert len(scene.triangles) == 1 and np.isfinite(scene.vertices).all() and len(scene.vertices) == 3
    assert scene.warnings == ("1 triangles with corners that are not finite were dropped",)


def test_every_file_that_a_scene_is_made_of_is_noted_with_its_digest(tmp_path):
    obj_square(tmp_path, four_colors())
    noted = load_scene(tmp_path / "s.obj").metadata["files"]
    present = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert len(present) == 3 and present.items() <= noted.items()
    assert all(noted[name] == "" for name in noted.keys() - present.keys())  # what was looked for beside it


@pytest.mark.parametrize("suffix", ["ply", "stl", "obj", "off"])
@pytest.mark.parametrize("up", ["y", "z"])
def test_up_is_guessed_from_the_surface_that_faces_it(tmp_path, suffix, up):
    size = (8, 2.5, 7) if up == "y" else (8, 7, 2.5)
    trimesh.creation.box(size).export(tmp_path / f"room.{suffix}")
    scene = load_scene(tmp_path / f"room.{suffix}")
    np.testing.assert_allclose(np.ptp(scene.vertices, axis=0), [8, 2.5, 7], rtol=1e-6)
    assert any("guessed" in sentence for sentence in scene.warnings) == (up == "z" or suffix != "obj")
    explicit = load_scene(tmp_path / f"room.{suffix}", up="y")
    np.testing.assert_allclose(np.ptp(explicit.vertices, axis=0), size, rtol=1e-6)


def test_a_room_in_gltf_that_lies_on_its_side_is_reported(tmp_path):
    trimesh.creation.box((8, 2.5, 7)).export(tmp_path / "upright.glb")
    assert load_scene(tmp_path / "upright.glb").warnings == ()
    trimesh.creation.box((8, 7, 2.5)).export(tmp_path / "lying.glb")
    with pytest.warns(UserWarning, match=r"lies? on its side.*'lying\.stage_config\.json' with"):
        scene = load_scene(tmp_path / "lying.glb")
    np.testing.assert_allclose(np.ptp(scene.vertices, axis=0), [8, 7, 2.5], rtol=1e-6)
    (tmp_path / "lying.stage_config.json").write_text('{"up": [0, 0, 1], "front": [0, 1, 0]}')
    turned = load_scene(tmp_path / "lying.glb")
    np.testing.assert_allclose(np.ptp(turned.vertices, axis=0), [8, 2.5, 7], rtol=1e-6)
    assert load_scene(tmp_path / "upright.glb", up="z").metadata["up"] == "z"


@pytest.mark.parametrize(("unit", "scale"), [(1, "auto"), (1000, 0.001)])
def test_a_small_home_on_its_side_is_reported_though_its_walls_have_more_surface_than_its_floor(tmp_path, unit, scale):
    walls = [trimesh.creation.box((0.1, 4.9, 2.5)), *(trimesh.creation.box((8, 0.1, 2.5)) for _ in range(2))]
    for wall, place in zip(walls, ((0, 0), (0, 2.55), (0, -2.55)), strict=True):
        wall.apply_translation((*place, 1.25))
    floor = trimesh.Trimesh([[-4, -2.5, 0], [4, -2.5, 0], [4, 2.5, 0], [-4, 2.5, 0]], [[0, 1, 2], [0, 2, 3]])
    home = trimesh.util.concatenate([floor, *walls])
    home.apply_scale(unit)
    home.export(tmp_path / "lying.glb")
    with pytest.warns(UserWarning, match='lie on its side.*"front": .0, 1, 0.' + (", .*0.001" if unit > 1 else "}")):
        load_scene(tmp_path / "lying.glb", scale=scale)
    home.apply_transform(trimesh.transformations.rotation_matrix(-np.pi / 2, [1, 0, 0]))
    home.export(tmp_path / "upright.glb")
    assert load_scene(tmp_path / "upright.glb", scale=scale).warnings == ()


def test_a_damaged_navmesh_beside_the_scene_is_refused_before_the_scene_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.scene.load.read_gltf", lambda *_: pytest.fail("the scene was read"))
    (tmp_path / "room.glb").write_bytes(b"glTF")
    (tmp_path / "room.navmesh").write_bytes(b"bad")
    with pytest.raises(ValueError, match=r"room\.navmesh' cannot be used"):
        load_scene(tmp_path / "room.glb")


@pytest.mark.parametrize("up", ["y", "z"])
def test_a_navmesh_says_which_way_is_up_in_gltf(tmp_path, up):
    lying = trimesh.creation.box((8, 7, 2.5) if up == "z" else (8, 2.5, 7))
    lying.export(tmp_path / "room.glb")
    upright = trimesh.creation.box((8, 2.5, 7))
    NavMesh.build(np.asarray(upright.vertices), np.asarray(upright.faces)).save(tmp_path / "room.navmesh")
    scene = load_scene(tmp_path / "room.glb")
    assert scene.metadata["up"] == up and any("taken to be z" in one for one in scene.warnings) == (up == "z")
    np.testing.assert_allclose(np.ptp(scene.vertices, axis=0), [8, 2.5, 7], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*units high")
@pytest.mark.parametrize("unit", [1, 0.01, 0.001])
def test_units_are_guessed_from_the_height(tmp_path, unit):
    trimesh.creation.box(np.array([8, 2.5, 7]) / unit).export(tmp_path / "room.obj")
    scene = load_scene(tmp_path / "room.obj")
    np.testing.assert_allclose(np.ptp(scene.vertices, axis=0), [8, 2.5, 7], rtol=1e-6)
    assert any("units high" in sentence for sentence in scene.warnings) == (unit != 1)
    explicit = load_scene(tmp_path / "room.obj", scale=1)
    np.testing.assert_allclose(np.ptp(explicit.vertices, axis=0), np.array([8, 2.5, 7]) / unit, rtol=1e-6)


def test_z_up_becomes_y_up_and_stays_right_handed(tmp_path):
    scene = square().load(tmp_path, up="z", scale=2)
    np.testing.assert_array_equal(scene.vertices, 2 * SQUARE[:, [0, 2, 1]] * [1, 1, -1])
    normal = np.cross(*np.diff(soup(scene)[0], axis=0))
    assert normal.tolist() == [0, 4, 0]


def test_ply_colors_become_linear(tmp_path):
    mesh = trimesh.Trimesh(SQUARE, SQUARE_CORNERS.reshape(-1, 3), process=False, vertex_colors=[[188, 0, 255, 255]] * 4)
    mesh.export(tmp_path / "c.ply")
    assert load_scene(tmp_path / "c.ply", up="y").colors[0].tolist() == [128, 0, 255, 255]


def changed(*keys, **values):
    """The change of an object in the JSON, which the keys lead to."""

    def change(glb):
        found = glb.json
        for key in keys:
            found = found[key]
        found |= values

    return change


def instances(attributes):
    """Copies of the first node; accessor 0 has four positions, accessor 1 the corners."""
    return changed("nodes", 0, extensions={"EXT_mesh_gpu_instancing": {"attributes": attributes}})


def texture(uri):
    def change(glb):
        material = glb.picture(four_colors())
        glb.json |= {"images": [{"uri": uri}], "meshes": []}
        glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=material))

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (changed(nodes=[{"mesh": 0, "children": [1]}, {"children": [0]}]), "own ancestor"),
        (changed(nodes=[{"children": [1, 1]}, {"mesh": 0}]), "two parents"),
        (changed(nodes=[{"children": [k + 1]} for k in range(1000)] + [{"mesh": 0}]), "deeper than"),
        (changed(nodes=[{"mesh": 7}]), r"meshes\[7\], but there are 1"),
        (changed(nodes=[{"mesh": -1}]), r"meshes\[-1\], but there are 1"),
        (changed(nodes=[{"mesh": 0, "scale": [1, 1]}]), "scale is not 3 finite numbers"),
        (changed(nodes=[{"mesh": 0, "translation": [1e300, 0, 0]}]), "translation is not 3 finite"),
        (changed(nodes={"mesh": 0}), "not a JSON list"),
        (changed(nodes=["mesh"]), "not a JSON object"),
        (changed(scene=3), r"scenes\[3\], but there are 1"),
        (changed(scenes=[{"nodes": []}]), "no triangles"),
        (changed(extensionsRequired=["EXT_unheard_of"]), "EXT_unheard_of.*without that extension"),
        (changed(extensionsRequired=["KHR_texture_ktx"]), "KHR_texture_ktx.*PNG or JPEG"),
        (instances({}), "must have one length, not none"),
        (instances({"TRANSLATION": 0, "SCALE": 1}), "wrong type"),
        (instances({"TRANSLATION": 99}), r"accessors\[99\]"),
        (instances({"ROTATION": 0}), "wrong type"),
        (changed("accessors", 0, count=10**12), "count"),
        (changed("accessors", 0, count=5), "exceeds its bufferView"),
        (changed("accessors", 0, count=-1), "count -1"),
        (changed("accessors", 0, count=2.5), r"count 2\.5"),
        (changed("accessors", 0, count="x" * 10**6), "count 'xxx"),
        (changed("accessors", 0, componentType=5130), "wrong type"),
        (changed("accessors", 0, type="VEC2"), "wrong type"),
        (changed("accessors", 0, byteOffset=4), "exceeds its bufferView"),
        (changed("bufferViews", 0, byteLength=10**6), "exceeds its buffer"),
        (changed("bufferViews", 0, byteStride=4), "exceeds its bufferView"),
        (changed("bufferViews", 0, buffer=1), r"buffers\[1\], but there are 1"),
        (changed("meshes", 0, primitives=[{}]), "malformed"),
        (changed("meshes", 0, primitives=7), "primitives is not a JSON list"),
        (changed("accessors", 0, count=3), "triangles refer to vertex 3, but there are 3"),
        (texture("../secret.png"), "not inside its folder"),
        (texture("%2e%2e/secret.png"), "not inside its folder"),
        (texture("/etc/passwd"), "not inside its folder"),
        (texture("file:///etc/passwd"), "not inside its folder"),
        (texture("C:\\secret.png"), "not inside its folder"),
        (texture("data:image/png;base64,@@"), "damaged data URI"),
    ],
)
def test_an_invalid_file_is_refused_by_name(tmp_path, change, reason):
    glb = square()
    change(glb)
    with pytest.raises(SceneError, match=reason) as error:
        glb.load(tmp_path)
    assert "made.glb" in str(error.value) and len(str(error.value)) < 1000


def encoded(picture, kind="PNG", **options):
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def jpeg_of_scans(num_more):
    """A progressive JPEG with one of its scans repeated."""
    data = encoded(Image.new("L", (64, 64), 7), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xc4")  # its table and itself, up to the end of the image
    return data[:-2] + data[last:-2] * num_more + data[-2:]


def test_pictures_that_take_long_or_much_to_decode_are_refused(monkeypatch):
    assert images.open_image(jpeg_of_scans(0), "it").info["progressive"]
    assert images.decode_texture(images.open_image(jpeg_of_scans(20), "it"), "it")[..., :3].max() == 7
    with pytest.raises(ValueError, match="image it has more than 32 scans: save it as"):
        images.open_image(jpeg_of_scans(40), "it")
    monkeypatch.setattr(images, "MAX_COSTLY_PIXELS", 1000)
    with pytest.raises(ValueError, match="image it has 60x20 pixels, the limit is 1,000"):
        images.open_image(encoded(Image.new("RGB", (60, 20)), "WEBP"), "it")
    with pytest.raises(ValueError, match="image tall has 1x131072 pixels, the limit is 65,536 per side"):
        images.open_image(encoded(Image.new("1", (1, 2**17))), "tall")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.glb", b"", "empty"),
        ("a.glb", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "run git lfs pull"),
        ("a.glb", b"glTF", "cut short"),
        ("a.glb", b"hello, world", "not a GLB file"),
        ("a.gltf", b"[" * 10**5, "JSON"),
        ("a.gltf", b'{"asset": {"version": NaN}}', "NaN"),
        ("a.fbx", b"Kaydara", "'.fbx' are not supported"),
        ("a.scene_instance.json", b"{}", r"or a Habitat dataset's X\.scene_dataset_config\.json as scenes="),
        ("a.obj", b"hello, world", "no triangles"),
        ("a.obj", b"v 0 0 0\nv 1 0 0\nv nan 0 1\nf 1 2 3\n", "has triangles, but no finite one"),
        ("a.obj", b"v 0 0\nf 1 1 1\n", "line 1 is .v 0 0.: it has too few coordinates"),
        ("a.obj", b"mtllib ../../a.mtl\nv 0 0 0\nf 1 1 1\n", "not inside its folder"),
        ("a.stl", b"solid nothing", "cannot be read|no triangles"),
        ("a.stl", bytes(80) + b"\xff\xff\xff\xff", "cannot be read|no triangles"),
    ],
)
def test_files_that_are_not_scenes_are_refused(tmp_path, name, content, reason):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SceneError, match=reason) as error:
        load_scene(tmp_path / name)
    assert error.value.scene == str(tmp_path / name)
    assert str(error.value) == f"scene '{tmp_path / name}': {error.value.reason}"


def test_a_path_may_begin_with_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "square.glb").write_bytes(square().bytes())
    assert load_scene("~/square.glb").name == "square"


def test_a_missing_file_is_the_same_error_wherever_it_is_named(tmp_path):
    words = r"^scene file '.*none\.glb' does not exist: check the path$"
    for use in (load_scene, scene_sources):
        with pytest.raises(SceneNotFoundError, match=words) as error:
            use(tmp_path / "none.glb")
        assert isinstance(error.value, FileNotFoundError) and isinstance(error.value, SceneError)
        copy = pickle.loads(pickle.dumps(error.value))  # as worker processes send it
        assert (type(copy), str(copy), copy.reason) == (type(error.value), str(error.value), error.value.reason)
        assert is_lasting(error.value)
    with pytest.raises(FileNotFoundError, match=r"^navmesh file '.*none\.navmesh' does not exist: check the path$"):
        NavMesh.load(tmp_path / "none.navmesh")


def test_a_name_that_is_too_long_is_a_missing_file():
    for use in (load_scene, scene_sources):
        with pytest.raises(SceneNotFoundError, match="does not exist: check the path"):
            use("a" * 300 + ".glb")


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (FileNotFoundError(2, "gone"), "put the file there"),
        (PermissionError(13, "denied"), "make it readable"),
        (OSError(24, "Too many open files"), "remove the cause and try again"),
    ],
)
def test_the_remedy_fits_the_error_of_the_system(error, remedy):
    with pytest.raises(SceneError, match=remedy), naming(Path("room.glb"), "re-export it"):
        raise error


def test_the_whole_scene_is_found_from_another_folder(tmp_path, monkeypatch):
    glb = Glb()
    glb.mesh(*(glb.primitive() for _ in range(40)))
    (tmp_path / "room.glb").write_bytes(glb.bytes())
    monkeypatch.chdir(tmp_path)
    scene = load_scene("room.glb", max_triangles=60)
    monkeypatch.chdir("/")
    assert len(scene.unsimplified().triangles) > len(scene.triangles)


def test_options_are_checked(tmp_path):
    for wrong in ({"up": "x"}, {"scale": 0}, {"scale": "mm"}, {"scale": np.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            square().load(tmp_path, **wrong)


def test_limits_hold_for_the_whole_file(tmp_path, monkeypatch):
    picture = np.zeros((40, 40, 3), np.uint8)
    glb = Glb()
    parts = [glb.primitive(uvs=SQUARE_UVS, material=glb.picture(picture)) for _ in range(2)]
    glb.mesh(*parts).load(tmp_path)
    for module, name, limit, reason in (
        (assemble, "MAX_SCENE_PIXELS", 3000, "more than 3,000 pixels in total"),
        (assemble, "FREE_PIXELS", -(10**6), "pixels in total"),
        (assemble, "FREE_IMAGE_BYTES", -(10**6), "textures have more than .* bytes in total: store each image once"),
        (assemble, "MAX_TEXTURES", 1, "more than 1 textures: combine some into an atlas"),
        (assemble, "MAX_TRIANGLES", 3, "more than 3 triangles"),
        (assemble, "MAX_PARTS", 1, "parts: join some of its meshes"),
        (images, "MAX_IMAGE_PIXELS", 1000, "image image 0 has 40x40 pixels"),
        (gltf, "MAX_ELEMENTS_READ", 20, "read more than 20 vertices and indices"),
        (gltf, "MAX_NODES", 0, "has 1 nodes"),
        (gltf, "MAX_GLTF_JSON_BYTES", 100, "bytes of JSON"),
        (json_values, "MAX_JSON_ITEMS", 30, "entries, the limit is 30"),
    ):
        with monkeypatch.context() as patch, pytest.raises(SceneError, match=reason):
            patch.setattr(module, name, limit)
            glb.load(tmp_path)
    del glb.json["accessors"][0]["bufferView"]
    glb.json["accessors"][0]["count"] = 10**7
    with pytest.raises(SceneError, match="accessor 0 has 10,000,000 elements and no data"):
        glb.load(tmp_path)


@pytest.mark.parametrize(("name", "limit"), [("MAX_TEXTURES", 3), ("FREE_IMAGE_BYTES", 350_000)])
def test_images_that_cannot_be_decoded_count_too(tmp_path, monkeypatch, name, limit):
    """Many of them may be views of the same bytes, so a small file could keep the loader busy for days."""
    monkeypatch.setattr(assemble, "IMAGE_BYTES_PER_BYTE", 0)
    glb = Glb()
    materials = [glb.picture(np.zeros((4, 4, 3), np.uint8)) for _ in range(4)]
    garbage = glb.view(bytes(100_000))
    for image in glb.json["images"]:
        image["bufferView"] = garbage
    glb.mesh(*(glb.primitive(uvs=SQUARE_UVS, material=material) for material in materials))
    with pytest.warns(UserWarning, match="4 missing or damaged textures"):
        assert not glb.load(tmp_path).textures
    (path,) = tmp_path.glob("*.glb")
    assert count_gltf(path).num_textures == 0
    monkeypatch.setattr(assemble, name, limit)
    for load in (load_scene, count_gltf):
        with pytest.raises(ValueError, match=r"its textures have more than|more than 3 textures"):
            load(path)


def test_a_mesh_is_counted_once_however_many_nodes_place_it(tmp_path, monkeypatch):
    glb = Glb()
    glb.mesh(*(glb.primitive() for _ in range(3)))
    glb.json["nodes"], glb.json["scenes"] = [{"mesh": 0}] * 500, [{"nodes": list(range(500))}]
    glb.load(tmp_path)
    (path,) = tmp_path.glob("*.glb")
    looked_up = []
    original = gltf.GltfDocument.item
    monkeypatch.setattr(gltf.GltfDocument, "item", lambda *rest: looked_up.append(rest[1]) or original(*rest))
    counts = count_gltf(path)
    assert (counts.num_triangles, counts.num_vertices) == (3000, 6000)
    assert looked_up.count("accessors") == 6
    del glb.json["nodes"], glb.json["scenes"]
    path.write_bytes(glb.bytes())
    assert count_gltf(path).num_triangles == 6 == len(load_scene(path).triangles)
    monkeypatch.setattr(gltf, "MAX_PARTS", 2)
    with pytest.raises(ValueError, match="parts: join some of its meshes"):
        count_gltf(path)


def test_large_files_may_hold_more_than_small_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(assemble, "MAX_ELEMENTS", 0)
    glb = Glb()
    glb.mesh(glb.primitive(np.random.default_rng(0).random((900, 3)).astype(np.float32), None))
    assert len(glb.load(tmp_path).triangles) == 300
    glb.json["nodes"], glb.json["scenes"] = [{"mesh": 0}] * 20, [{"nodes": list(range(20))}]
    with pytest.raises(SceneError, match="instance its meshes less often"):
        glb.load(tmp_path)
    glb.view(bytes(40_000))
    glb.load(tmp_path)


@pytest.mark.parametrize(
    ("mode", "transparent"),
    [("1", False), ("I;16", False), ("L", False), ("P", False), ("P", True), ("RGB", True), ("RGBA", True)],
)
def test_large_pictures_of_any_mode_keep_color_and_transparency(tmp_path, mode, transparent):
    kept = {"1": 1, "I;16": 32768, "L": 200, "P": 3, "RGB": (10, 20, 30), "RGBA": (10, 20, 30, 0)}[mode]
    picture = Image.new(mode, (4096, 8), kept)
    if mode == "P":
        picture.putpalette([0, 0, 0] * 3 + [10, 20, 30])
    key = {"P": bytes([255, 255, 255, 128]), "RGB": kept}.get(mode) if transparent else None
    pixels = images.decode_texture(images.open_image(encoded(picture, transparency=key), "it"), "it")
    assert pixels.shape == (4, 2048, 4)
    assert (pixels[..., 3] == (255 if not transparent else 128 if mode == "P" else 0)).all()
    if not transparent:
        expected = {"1": 255, "I;16": 128, "L": 200}.get(mode, (10, 20, 30))
        assert (pixels[..., :3] == expected).all()


def test_few_triangles_of_many_vertices_keep_their_attributes(tmp_path):
    many = np.concatenate([np.full((500, 3), 7, np.float32), SQUARE])
    uvs = np.concatenate([np.zeros((500, 2), np.float32), SQUARE_UVS])
    colors = np.arange(504 * 4).reshape(504, 4).astype(np.uint8)
    glb = Glb()
    part = glb.primitive(many, SQUARE_CORNERS + np.uint16(500), uvs, colors, material=glb.picture(four_colors()))
    scene = glb.mesh(part).load(tmp_path)
    np.testing.assert_array_equal(scene.vertices, SQUARE)
    np.testing.assert_array_equal(scene.triangles.ravel(), SQUARE_CORNERS)
    np.testing.assert_array_equal(scene.uvs, SQUARE_UVS)
    np.testing.assert_array_equal(scene.colors, colors[500:])


def test_links_may_not_lead_out_of_the_folder(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "s.obj").write_text("mtllib s.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nvt 0 0\nusemtl m\nf 1/1 2/1 3/1\n")
        (folder / "s.mtl").write_text("newmtl m\nmap_Kd p.png\n")
    Image.fromarray(four_colors()).save(outside / "p.png")
    (inside / "p.png").symlink_to(outside / "p.png")
    with pytest.raises(SceneError, match=r"p\.png', a link out of its folder"):
        load_scene(inside / "s.obj")
    (outside / "s.mtl").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(SceneError, match=r"'s\.mtl' is a pointer of Git LFS"):
        load_scene(outside / "s.obj")
    (outside / "s.mtl").write_text("newmtl m\nmap_Kd p.png\n")
    for name in ("s.obj", "s.mtl"):  # as download tools keep files: all of them are links into one store
        (inside / name).unlink()
        (inside / name).symlink_to(outside / name)
    assert len(load_scene(inside / "s.obj").textures) == 1


def corner_rows(scene):
    """Every corner's place and uv, as sorted rows."""
    corners = scene.triangles.ravel()
    rows = np.concatenate([scene.vertices[corners], scene.uvs[corners]], axis=1).round(3) + 0.0
    return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize("preserve_order", [False, True])
def test_draco_gives_what_was_compressed(tmp_path, preserve_order):
    plain, packed = draco_square(preserve_order=preserve_order)
    expected = plain.load(tmp_path)
    found = packed.load(tmp_path)
    np.testing.assert_allclose(corner_rows(found), corner_rows(expected), atol=2e-3)
    normals = [np.cross(s[:, 1] - s[:, 0], s[:, 2] - s[:, 0]) for s in (soup(expected), soup(found))]
    np.testing.assert_allclose(normals[1].sum(axis=0), normals[0].sum(axis=0), atol=1e-3)


def test_damaged_draco_is_refused(tmp_path):
    _, packed = draco_square()
    packed.json["accessors"][0]["count"] = 10
    with pytest.raises(SceneError, match=r"accessor 0 was compressed as \(9, 3\), not \(10, 3\)"):
        packed.load(tmp_path)
    _, packed = draco_square()
    packed.json["bufferViews"][-1]["byteLength"] -= 20
    with pytest.raises(SceneError, match="Draco data cannot be decoded"):
        packed.load(tmp_path)


@pytest.mark.parametrize("preserve_order", [False, True])
def test_draco_is_not_decoded_where_it_makes_more_than_it_may(tmp_path, monkeypatch, preserve_order):
    _, packed = draco_square(preserve_order=preserve_order)
    view = packed.json["bufferViews"][-1]
    data = bytes(packed.binary[view["byteOffset"] :][: view["byteLength"]])
    assert read_draco.draco_counts(data) == (9, 8)
    monkeypatch.setattr(read_gltf, "decode_draco", None)
    corners = packed.json["accessors"][-1]
    with monkeypatch.context() as patch, pytest.raises(SceneError, match="more than 7 triangles"):
        patch.setattr(assemble, "MAX_TRIANGLES", 7)
        packed.load(tmp_path)
    corners["count"] -= 3
    with pytest.raises(SceneError, match="declares 9 vertices and 8 triangles, more than its accessors"):
        packed.load(tmp_path)
    for place, byte, reason in ((5, 1, "version 1.2, not 2.2"), (7, 0, "not a mesh"), (0, 0, "not a mesh")):
        packed.binary[view["byteOffset"] + place], kept = byte, packed.binary[view["byteOffset"] + place]
        with pytest.raises(SceneError, match=reason):
            packed.load(tmp_path)
        packed.binary[view["byteOffset"] + place] = kept


def test_draco_without_its_extra_is_refused_by_name_unless_there_is_a_plain_copy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "DracoPy", None)
    glb = Glb()  # a header of four vertices and two triangles
    data = b"DRACO\2\2\1\0\0\0\2\4"
    part = glb.primitive()
    part["extensions"] = {"KHR_draco_mesh_compression": {"bufferView": glb.view(data), "attributes": {}}}
    glb.mesh(part)
    np.testing.assert_array_equal(glb.load(tmp_path).vertices, SQUARE)
    del glb.json["accessors"][0]["bufferView"]
    with pytest.raises(SceneError, match=r"KHR_draco_mesh_compression.*gym-batchnav\[draco\]"):
        glb.load(tmp_path)


def textured_by(extension, **plain):
    """A square whose texture is of an extension, optionally with a plain source."""
    glb = pictured()
    glb.json["textures"][0] = {"extensions": {extension: {"source": 0}}, **plain}
    return glb


def test_webp_is_read_and_what_is_not_gives_way_to_a_plain_copy(tmp_path):
    glb = textured_by("EXT_texture_webp")
    data = encoded(Image.fromarray(four_colors()), "WEBP", lossless=True)
    glb.json["images"][0] = {"bufferView": glb.view(data), "mimeType": "image/webp"}
    np.testing.assert_array_equal(glb.load(tmp_path).textures[0][..., :3], four_colors())
    glb = textured_by("MSFT_texture_dds")
    with pytest.warns(UserWarning, match="1 missing or damaged texture, .*: MSFT_texture_dds"):
        assert glb.load(tmp_path).materials.texture.tolist() == [-1]
    for extension in ("KHR_texture_basisu", "EXT_texture_avif", "MSFT_texture_dds"):
        assert len(textured_by(extension, source=0).load(tmp_path).textures) == 1


def test_one_of_several_scenes_is_chosen_by_name(tmp_path):
    glb = square()
    glb.json["nodes"] = [{"mesh": 0, "name": name} for name in ("a", "b", "c")]
    glb.json["scenes"] = [{"nodes": [0], "name": "hall"}, {"nodes": [1, 2], "name": "attic"}, {"nodes": [2]}]
    assert names_of(glb.load(tmp_path)) == ("a",)
    glb.json["scene"] = 1
    scene = glb.load(tmp_path)
    assert names_of(scene) == ("b", "c")
    assert scene.warnings == ("Loaded scene 'attic' of 3: choose another with scene=",)
    chosen = glb.load(tmp_path, scene="hall")
    assert names_of(chosen) == ("a",) and chosen.warnings == ()
    assert names_of(glb.load(tmp_path, scene="2")) == ("c",)
    with pytest.raises(SceneError, match=r"no scene 'cellar': it has hall, attic, 2"):
        glb.load(tmp_path, scene="cellar")
    del glb.json["scenes"], glb.json["scene"]
    assert names_of(glb.load(tmp_path)) == ("a", "b", "c")
    (tmp_path / "o.obj").write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3\n")
    with pytest.raises(SceneError, match="only glTF files hold several scenes"):
        load_scene(tmp_path / "o.obj", scene="hall")


def test_edges_of_ply_take_no_time(tmp_path):
    """Trimesh would join them to paths, for a minute."""
    rng = np.random.default_rng(0)
    header = "ply\nformat binary_little_endian 1.0\n"
    header += "element vertex 150000\nproperty float x\nproperty float y\nproperty float z\n"
    header += "element face 1\nproperty list uchar int vertex_indices\n"
    header += "element edge 150000\nproperty int vertex1\nproperty int vertex2\nend_header\n"
    body = rng.random((150_000, 3)).astype("<f4").tobytes() + b"\3" + np.arange(3, dtype="<i4").tobytes()
    edges = rng.integers(0, 150_000, (150_000, 2)).astype("<i4").tobytes()
    (tmp_path / "edges.ply").write_bytes(header.encode() + body + edges)
    before = time.process_time()
    assert len(load_scene(tmp_path / "edges.ply").triangles) == 1
    assert time.process_time() - before < 10


def test_wrong_headers_and_long_texts_are_refused_before_trimesh_sees_them(tmp_path, monkeypatch):
    mesh = trimesh.creation.box((1, 1, 1))
    monkeypatch.setattr(via_trimesh, "_MAX_TEXT_ROWS", 19)
    monkeypatch.setattr(trimesh, "load_scene", None)
    header, body = mesh.export(file_type="ply").split(b"end_header\n")
    solid = b"solid a\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendsolid\n"
    for name, data, reason in (
        ("a.ply", header.replace(b"element face 12", b"element face 1200000") + b"end_header\n" + body, "declares"),
        ("b.ply", header.replace(b"element face 12", b"element face -1") + b"end_header\n" + body, "element face -1"),
        ("c.ply", b"ply\nformat ascii 1.0\nelement vertex 1\nend_header\n" + b"\n" * 2000, "far more lines"),
        ("d.ply", b"ply\nformat ascii 1.0\nelement vertex 1\nend_header\n" + b"\x0b" * 2000, "characters"),
        ("e.ply", b"ply\n" + b"comment\n" * 10**5 + b"end_header\n", "header has no end"),
        ("f.stl", solid * 2001, "more than 2000 solids"),
        ("g.ply", mesh.export(file_type="ply", encoding="ascii"), "20 vertices and faces, the limits are .* and 19"),
        ("h.off", mesh.export(file_type="off").encode(), "20 vertices and faces, .*: save it as GLB or in binary"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(SceneError, match=reason):
            load_scene(tmp_path / name)


def test_the_chosen_frame_is_reported(tmp_path):
    frame = {"up": "y", "scale": 1.0, "origin": (0.0, 0.0, 0.0)}
    assert frame.items() <= square().load(tmp_path).metadata.items()
    trimesh.creation.box((8000, 7000, 2500)).export(tmp_path / "room.stl")
    with pytest.warns(UserWarning, match=r"room\.stl.*2500 units high, which were assumed to be millimetres.*scale="):
        scene = load_scene(tmp_path / "room.stl")
    assert (frame | {"up": "z", "scale": 0.001}).items() <= scene.metadata.items()
    assert [word in " ".join(scene.warnings) for word in ("up='y'", "scale=")] == [True, True]


def test_gltf_is_in_metres_however_large(tmp_path):
    glb = square()
    glb.json["nodes"][0]["scale"] = [900, 900, 900]
    assert np.ptp(glb.load(tmp_path).vertices[:, 1]) == 900
    glb.json["nodes"][0]["scale"] = [2500, 2500, 2500]
    with pytest.warns(UserWarning, match=r"2500 m high if its unit is the metre, .*scale=0\.001.*stage_config"):
        assert np.ptp(glb.load(tmp_path).vertices[:, 1]) == 2500
    assert np.ptp(glb.load(tmp_path, scale=0.001).vertices[:, 1]) == 2.5
    assert np.ptp(glb.load(tmp_path, scale=1).vertices[:, 1]) == 2500


def test_a_far_scene_with_a_navmesh_stays_and_says_so(tmp_path):
    glb = square()
    glb.json["nodes"][0] |= {"translation": [20_000, 0, 0], "rotation": [2**-0.5, 0, 0, 2**-0.5], "scale": [9, 9, 9]}
    with pytest.warns(UserWarning, match="its origin was moved"):
        glb.load(tmp_path)
    vertices = np.array([[20_001, 0, 1], [20_001, 0, 4], [20_004, 0, 4], [20_004, 0, 1]], np.float32)
    NavMesh.build(vertices, np.array([[0, 1, 2], [0, 2, 3]], np.int32)).save(tmp_path / "made.navmesh")
    with pytest.warns(UserWarning, match=r"extends 20,009 m from its origin.*has a \.navmesh"):
        scene = glb.load(tmp_path)
    assert scene.metadata["origin"] == (0.0, 0.0, 0.0)


def test_the_name_of_a_shipped_scene_is_answered_with_how_to_load_it():
    words = r"gymnasium.make_vec\('BatchNav/PointNav-v0', scenes='apartment_0'\).*shipped_scenes\(\)"
    with pytest.raises(SceneError, match=words):
        load_scene("apartment_0")


def test_a_damaged_picture_is_named():
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    for data in (b"no picture", encoded(Image.fromarray(noise))[:3000]):
        with pytest.raises(images.DamagedImageError, match="image wood"):
            images.decode_texture(images.open_image(data, "wood"), "wood")


def test_scenes_far_from_the_origin_keep_their_precision(tmp_path):
    glb = square()
    glb.json["nodes"] = [
        {"mesh": 0, "scale": [0.001, 0.001, 0.001], "translation": [1e6 + 0.25, 3, -2e6]},
        {"mesh": 0, "translation": [1e6 - 3.125, 0, -2e6]},
    ]
    glb.json["scenes"] = [{"nodes": [0, 1]}]
    with pytest.warns(UserWarning, match=r"its origin was moved to \(999999, 0, -2000000\) m"):
        scene = glb.load(tmp_path)
    assert scene.metadata["origin"] == (999999.0, 0.0, -2000000.0)
    np.testing.assert_allclose(scene.vertices[:4], SQUARE * 0.001 + [1.25, 3, 0], atol=1e-6)
    np.testing.assert_array_equal(scene.vertices[4:], SQUARE + np.float32([-2.125, 0, 0]))
    glb.json["nodes"][0]["translation"] = glb.json["nodes"][1]["translation"] = [5000, 0, 0]
    assert glb.load(tmp_path).vertices[4].tolist() == [5000, 0, 0]


def test_a_stage_configuration_says_which_way_is_up(tmp_path):
    square().load(tmp_path)
    path = tmp_path / "made.stage_config.json"
    config = {"render_asset": "made.glb", "up": [0, 0, 1], "front": [0, 1, 0]}
    config |= {"units_to_meters": 0.5, "scale": [2, 2, 6]}
    path.write_text(json.dumps(config))
    scene = load_scene(tmp_path / "made.glb")
    assert scene.metadata["up"] == "z" and scene.metadata["scale"] == (1.0, 1.0, 3.0)
    np.testing.assert_array_equal(scene.vertices, SQUARE[:, [0, 2, 1]] * [1, 1, -3])
    explicit = load_scene(tmp_path / "made.glb", up="y", scale=1)
    np.testing.assert_array_equal(explicit.vertices, SQUARE)
    (sentence,) = (one for one in load_scene(tmp_path / "made.glb", up="y").warnings if "made.stage_config" in one)
    assert sentence == "Taken from 'made.stage_config.json': scale; pass scale= to override"
    path.write_text(json.dumps({"up": [1, 0, 0], "front": [0, 0, -1]}))
    sideways = load_scene(tmp_path / "made.glb")
    np.testing.assert_array_equal(sideways.vertices, SQUARE[:, [1, 0, 2]] * [-1, 1, 1])
    assert sideways.metadata["up"] == "made.stage_config.json"
    path.write_text(json.dumps(config | {"render_asset": "other.glb"}))
    np.testing.assert_array_equal(load_scene(tmp_path / "made.glb").vertices, SQUARE)
    for wrong, reason in (
        ({"up": [0, 1, 0], "front": [0, 1, 1]}, "two directions at right angles: correct one"),
        ({"scale": [0, 1, 1]}, "scale or units_to_meters is not positive"),
        *(({"up": "y"}, ""), ({"up": [0, 0, 0]}, ""), ([], "")),
    ):
        path.write_text(json.dumps(wrong))
        with pytest.raises(SceneError, match=rf"made\.stage_config\.json' cannot be used .*{reason}"):
            load_scene(tmp_path / "made.glb")


def test_a_navmesh_of_another_scene_is_refused(tmp_path):
    floor = trimesh.creation.box((6, 0.1, 4))
    floor.export(tmp_path / "floor.obj")
    mesh = NavMesh.build(np.asarray(floor.vertices), np.asarray(floor.faces))
    mesh.save(tmp_path / "floor.navmesh")
    assert load_scene(tmp_path / "floor.obj").navmesh.num_polygons == mesh.num_polygons
    for shift in ([4, 0, 0], [0, 3, 0], [0, 0, -20]):
        other = floor.copy()
        other.apply_translation(shift)
        other.export(tmp_path / "floor.obj")
        with pytest.raises(SceneError, match=r"floor\.navmesh' spans x -2\.8 to 2\.8.*remove it"):
            load_scene(tmp_path / "floor.obj")
