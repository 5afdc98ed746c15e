"""Loading scenes: every shared file, glTF's features one by one, and files that lie."""

import base64
import gzip
import io
import json
import shutil
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import trimesh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from gym_batchnav.scene import assemble, files
from gym_batchnav.scene.load import SUFFIXES, SceneError, load_scene
from gym_batchnav.scene.mesh import CLAMP, MASK, MIRROR, OPAQUE, REPEAT

TYPES = {np.dtype(kind): number for number, kind in enumerate(("i1", "u1", "i2", "u2", "i4", "u4", "f4"), start=5120)}
SQUARE = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float32)
SQUARE_UVS = np.array([[0, 1], [1, 1], [1, 0], [0, 0]], np.float32)  # the picture stands upright on the square
SQUARE_CORNERS = np.array([0, 1, 2, 0, 2, 3], np.uint16)


class Glb:
    """A GLB file put together by hand, with whatever is wrong with it."""

    def __init__(self):
        self.binary = bytearray()
        self.json = {"asset": {"version": "2.0"}, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}]}
        for key in ("meshes", "accessors", "bufferViews", "materials", "textures", "images", "samplers"):
            self.json[key] = []

    def view(self, data, **extra):
        self.binary += b"\0" * (-len(self.binary) % 4)
        entry = {"buffer": 0, "byteOffset": len(self.binary), "byteLength": len(data), **extra}
        self.json["bufferViews"].append(entry)
        self.binary += data
        return len(self.json["bufferViews"]) - 1

    def accessor(self, array, **extra):
        array = np.asarray(array)
        kind = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}[1 if array.ndim == 1 else array.shape[1]]
        entry = {"bufferView": self.view(array.tobytes()), "componentType": TYPES[array.dtype], "type": kind}
        self.json["accessors"].append({"count": len(array), **entry, **extra})
        return len(self.json["accessors"]) - 1

    def primitive(self, vertices=SQUARE, corners=SQUARE_CORNERS, uvs=None, colors=None, **extra):
        attributes = {"POSITION": self.accessor(vertices)}
        if uvs is not None:
            attributes["TEXCOORD_0"] = self.accessor(uvs)
        if colors is not None:
            attributes["COLOR_0"] = self.accessor(colors, normalized=colors.dtype.kind == "u")
        if corners is not None:
            extra["indices"] = self.accessor(corners)
        return {"attributes": attributes, **extra}

    def mesh(self, *primitives):
        self.json["meshes"].append({"primitives": list(primitives)})
        return self

    def picture(self, pixels, **texture):
        """A material that wears a picture; returns its number."""
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "PNG")
        self.json["images"].append({"bufferView": self.view(stream.getvalue()), "mimeType": "image/png"})
        self.json["textures"].append({"source": len(self.json["images"]) - 1, **texture})
        return self.material(pbrMetallicRoughness={"baseColorTexture": {"index": len(self.json["textures"]) - 1}})

    def material(self, **material):
        self.json["materials"].append(material)
        return len(self.json["materials"]) - 1

    def bytes(self):
        document = {key: items for key, items in self.json.items() if items}
        if self.binary:
            document["buffers"] = [{"byteLength": len(self.binary)}]
        text = json.dumps(document).encode()
        text += b" " * (-len(text) % 4)
        binary = bytes(self.binary) + b"\0" * (-len(self.binary) % 4)
        head = struct.pack("<4sIIII", b"glTF", 2, 28 + len(text) + len(binary), len(text), 0x4E4F534A)
        return head + text + struct.pack("<II", len(binary), 0x004E4942) + binary

    def load(self, tmp_path, **options):
        path = tmp_path / "made.glb"
        path.write_bytes(self.bytes())
        return load_scene(path, **options)


def square():
    glb = Glb()
    return glb.mesh(glb.primitive())


def four_colors():
    """A picture of 2 x 2 pixels: red green / blue white."""
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)
    return pixels.repeat(4, axis=0).repeat(4, axis=1)


def soup(scene):
    return scene.vertices[scene.triangles].astype(np.float64)


def color_at(scene, point):
    """The texel that the scene's vertex at ``point`` wears, looked up half a texel inside the picture."""
    row = int(np.argmin(np.linalg.norm(scene.vertices - point, axis=1)))
    texture = scene.textures[0]
    u, v = np.clip(scene.uvs[row], 0.01, 0.99)
    return texture[int(v * texture.shape[0]), int(u * texture.shape[1]), :3].tolist()


# Every file under scenes/: how many triangles, or a part of the reason why it is refused.
KAYKIT = """armchair 528|armchair_pillows 614|bed_double_A 540|bed_double_B 600|bed_single_A 474|bed_single_B 534|
book_set 196|book_single 68|cabinet_medium 428|cabinet_medium_decorated 1018|cabinet_small 322|
cabinet_small_decorated 464|cactus_medium_A 448|cactus_medium_B 448|cactus_small_A 252|cactus_small_B 252|chair_A 308|
chair_A_wood 308|chair_B 384|chair_B_wood 384|chair_C 288|chair_stool 216|chair_stool_wood 216|couch 636|
couch_pillows 808|lamp_standing 320|lamp_table 392|pictureframe_large_A 60|pictureframe_large_B 60|
pictureframe_medium 60|pictureframe_small_A 60|pictureframe_small_B 60|pictureframe_small_C 60|
pictureframe_standing_A 74|pictureframe_standing_B 74|pillow_A 86|pillow_B 86|rug_oval_A 176|rug_oval_B 176|
rug_rectangle_A 44|rug_rectangle_B 44|rug_rectangle_stripes_A 68|rug_rectangle_stripes_B 68|shelf_A_big 212|
shelf_A_small 212|shelf_B_large 212|shelf_B_large_decorated 482|shelf_B_small 212|shelf_B_small_decorated 532|
table_low 276|table_medium 168|table_medium_long 168|table_small 168"""
OUTCOMES: dict[str, int | str] = {
    "aws_bookstore/aws_bookstore.glb": 101_833,
    "aws_small_house/aws_small_house.glb": 146_484,
    "drake_livingroom/assets/curtain_open.gltf": 9_216,
    "drake_livingroom/assets/living_room.gltf": 4_252,
    "drake_livingroom/assets/painted_wooden_cabinet_02_1k.gltf": 966,
    "drake_livingroom/assets/painted_wooden_cabinet_1k.gltf": 2_227,
    "drake_livingroom/assets/painted_wooden_stool_1k.gltf": 676,
    "drake_livingroom/assets/sofa_03_1k.gltf": 8_004,
    "drake_livingroom/assets/sphere.gltf": 960,
    "drake_livingroom/assets/tea_set_01_1k.gltf": 40_296,
    "drake_livingroom/assets/tea_set_posed.gltf": 33_960,
    "drake_livingroom/assets/wooden_bookshelf_worn_1k.gltf": 10_106,
    "drake_livingroom/assets/wooden_table_02_1k.gltf": 196,
    "drake_livingroom/drake_furnished_living_room.glb": 35_447,
    "godot/living_room.glb": 5_088,
    "godot/room.glb": 63_720,
    "habitat_sim_scenes/batch-four-squares-compressed.gltf": "KHR_texture_ktx",
    "habitat_sim_scenes/batch-four-squares-deep-hierarchy-whole-file.gltf": "KHR_texture_ktx",
    "habitat_sim_scenes/batch-four-squares-no-materials.gltf": 8,
    "habitat_sim_scenes/batch-four-squares-no-scene.gltf": 8,
    "habitat_sim_scenes/batch-four-squares.gltf": "KHR_texture_ktx",
    "habitat_sim_scenes/batch-multiple-meshes.gltf": "KHR_texture_ktx",
    "habitat_sim_scenes/batch-multiple-textures.gltf": "MAGNUMX_mesh_views",
    "habitat_sim_scenes/batch-square-circle-triangle-compressed.gltf": "MAGNUMX_mesh_views",
    "habitat_sim_scenes/batch-square-circle-triangle.gltf": "MAGNUMX_mesh_views",
    "habitat_sim_scenes/batch.gltf": "MAGNUMX_mesh_views",
    "habitat_sim_scenes/plane.glb": 2_048,
    "habitat_sim_scenes/receptacle_mesh_simple_room_table.ply": 2,
    "habitat_sim_scenes/simple_room.glb": 84,
    "habitat_sim_scenes/stage_floor1.glb": 2_048,
    **{f"kaykit_furniture/gltf/{name}.gltf": int(n) for name, n in (e.split() for e in KAYKIT.split("|"))},
    **{f"mcguire_CornellBox/CornellBox-Empty-{kind}.obj": 12 for kind in ("CO", "RG", "Squashed", "White")},
    "mcguire_CornellBox/CornellBox-Glossy-Floor.obj": 1_112,
    "mcguire_CornellBox/CornellBox-Glossy.obj": 1_112,
    "mcguire_CornellBox/CornellBox-Mirror.obj": 36,
    "mcguire_CornellBox/CornellBox-Original.obj": 36,
    "mcguire_CornellBox/CornellBox-Sphere.obj": 2_188,
    "mcguire_CornellBox/CornellBox-Water.obj": 7_088,
    "mcguire_CornellBox/water.obj": 4_900,
    "mcguire_lost-empire/lost_empire.obj": 224_998,
    "recast/dungeon.obj": 10_133,
    "recast/nav_test.obj": 1_612,
    "recast/undulating.obj": 5_202,
    "van_gogh_room/van-gogh-room.mesh.ply": 11_272,
}
# trimesh places nothing in a file without nodes.
PLACED_BY_TRIMESH = [
    name for name, n in OUTCOMES.items() if ".gl" in name and type(n) is int and "no-scene" not in name
]


@pytest.mark.data
def test_every_shared_file_has_an_expected_outcome(data_dir):
    found = {str(path.relative_to(data_dir / "scenes")) for path in (data_dir / "scenes").rglob("*")}
    assert {path for path in found if Path(path).suffix in SUFFIXES} == set(OUTCOMES)


@pytest.mark.data
@pytest.mark.parametrize("name", OUTCOMES)
def test_shared_file_loads_or_is_refused_for_a_reason(data_dir, name):
    expected = OUTCOMES[name]
    if isinstance(expected, str):
        with pytest.raises(SceneError, match=expected) as error:
            load_scene(data_dir / "scenes" / name)
        assert Path(name).name in str(error.value)
        return
    scene = load_scene(data_dir / "scenes" / name)
    assert len(scene.triangles) == expected == len(scene.triangle_material) == len(scene.triangle_object)
    assert (scene.vertices.dtype, scene.triangles.dtype) == (np.float32, np.int32)
    assert sorted(set(scene.triangles.ravel().tolist())) == list(range(len(scene.vertices)))
    assert sorted(set(scene.triangle_object.tolist())) == list(range(1, len(scene.objects) + 1))
    assert 0 <= scene.triangle_material.min() and scene.triangle_material.max() < len(scene.materials)
    assert all(t.dtype == np.uint8 and t.shape[2] == 4 and max(t.shape[:2]) <= 2048 for t in scene.textures)
    assert -1 <= scene.materials.texture.min() and scene.materials.texture.max() < len(scene.textures)


@pytest.mark.data
@pytest.mark.parametrize("name", PLACED_BY_TRIMESH)
def test_gltf_agrees_with_trimesh(data_dir, name):
    path = data_dir / "scenes" / name
    other = trimesh.load_scene(path, process=False)
    meshes = [(other.graph[node][0], other.geometry[other.graph[node][1]]) for node in other.graph.nodes_geometry]
    theirs = np.concatenate([trimesh.transform_points(m.vertices, t)[m.faces] for t, m in meshes])
    ours = soup(load_scene(path))
    assert len(ours) == len(theirs)
    # Sorted sums of corners and area vectors: a comparison that no order of triangles and no rounding disturbs.
    for measure in (lambda t: t.sum(axis=1), lambda t: np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])):
        np.testing.assert_allclose(np.sort(measure(ours), axis=0), np.sort(measure(theirs), axis=0), atol=2e-5)


@pytest.mark.data
@pytest.mark.parametrize(
    "fixture",
    [
        "aws_bookstore",
        "aws_small_house",
        "drake_living_room",
        "godot_room",
        "godot_living_room",
        "recast_nav_test",
        "recast_dungeon",
        "van_gogh_room",
    ],
)
def test_fixtures_baked_elsewhere_have_the_same_count_and_bounds(data_dir, fixture):
    oracle = json.loads(gzip.decompress((data_dir / "fixtures" / fixture / "oracle.json.gz").read_bytes()))
    scene = load_scene(data_dir / "scenes" / oracle["source"])
    assert len(scene.triangles) == oracle["triangles_in_file"]
    corners = soup(scene)
    real = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) > 1e-12
    bounds = [corners[real].min(axis=(0, 1)), corners[real].max(axis=(0, 1))]
    np.testing.assert_allclose(bounds, oracle["bounds"], atol=1e-5)
    if fixture.startswith(("aws", "drake", "godot_room")):
        assert len(scene.objects) == oracle["instances"]


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name in OUTCOMES if name.endswith(".obj")])
def test_obj_has_as_many_triangles_as_trimesh_counts(data_dir, name):
    other = trimesh.load_scene(data_dir / "scenes" / name, process=False, skip_materials=True)
    assert OUTCOMES[name] == sum(len(mesh.faces) for mesh in other.geometry.values())


@pytest.mark.data
def test_relative_indices_put_the_cornell_box_together(data_dir):
    scene = load_scene(data_dir / "scenes/mcguire_CornellBox/CornellBox-Original.obj")
    assert scene.objects[:3] == ("floor", "ceiling", "backWall") and len(scene.objects) == 7
    normals = np.cross(soup(scene)[:, 1] - soup(scene)[:, 0], soup(scene)[:, 2] - soup(scene)[:, 0])
    for name, axis, where in (("floor", 1, 0.0), ("ceiling", 1, 1.99), ("backWall", 2, -1.04)):
        mine = scene.triangle_object == 1 + scene.objects.index(name)
        np.testing.assert_allclose(soup(scene)[mine][..., axis], where, atol=1e-6)
        assert np.abs(normals[mine]).argmax(axis=1).tolist() == [axis, axis]


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
    assert scene.objects == ("plate",)


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
    assert scene.objects == ("node_2", "second")
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
    glb = Glb()
    material = glb.picture(picture)
    return glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=material)).load(tmp_path)


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
    glb.json["samplers"] = [{"wrapS": 33071, "wrapT": 33648}]
    worn = glb.picture(four_colors(), sampler=0)
    glb.json["materials"][worn] |= {"alphaMode": "MASK", "alphaCutoff": 0.25, "doubleSided": True}
    glb.json["materials"][worn]["pbrMetallicRoughness"]["baseColorFactor"] = [0.1, 0.2, 0.3, 0.4]
    glass = glb.material(alphaMode="BLEND")
    parts = [glb.primitive(uvs=SQUARE_UVS, material=worn), glb.primitive(material=glass), glb.primitive()]
    scene = glb.mesh(*parts).load(tmp_path)
    rows = scene.triangle_material[::2]
    materials = scene.materials
    np.testing.assert_allclose(materials.base_color[rows[0]], [0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    assert materials.base_color[rows[2]].tolist() == [1, 1, 1, 1]
    assert materials.texture[rows].tolist() == [0, -1, -1]
    assert materials.alpha_mode[rows].tolist() == [MASK, MASK, OPAQUE]
    assert materials.alpha_cutoff[rows[:2]].tolist() == [0.25, 0.5]
    assert materials.double_sided[rows].tolist() == [True, False, False]
    assert materials.wrap[rows].tolist() == [[CLAMP, MIRROR], [REPEAT, REPEAT], [REPEAT, REPEAT]]


def test_a_texture_transform_is_baked_into_the_uvs(tmp_path):
    glb = Glb()
    material = glb.picture(four_colors())
    # The example in the extension's text: the lower left quarter of the picture, turned clockwise by 90 degrees.
    transform = {"offset": [0, 1], "rotation": np.pi / 2, "scale": [0.5, 0.5]}
    wear = glb.json["materials"][material]["pbrMetallicRoughness"]["baseColorTexture"]
    wear["extensions"] = {"KHR_texture_transform": transform}
    glb.json["extensionsRequired"] = ["KHR_texture_transform"]
    uvs = glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=material)).load(tmp_path).uvs
    np.testing.assert_allclose(uvs, np.stack([SQUARE_UVS[:, 1] / 2, 1 - SQUARE_UVS[:, 0] / 2], axis=1), atol=1e-6)


def test_a_texture_without_uvs_is_not_worn(tmp_path):
    glb = Glb()
    material = glb.picture(four_colors())
    scene = glb.mesh(glb.primitive(material=material)).load(tmp_path)
    assert scene.materials.texture.tolist() == [-1] and scene.uvs is None


def test_vertex_colors_fill_up_with_white(tmp_path):
    glb = Glb()
    floats = np.array([[0, 0.5, 1]] * 4, np.float32)
    shorts = np.array([[65535, 0, 0, 32768]] * 4, np.uint16)
    scene = glb.mesh(glb.primitive(colors=floats), glb.primitive(colors=shorts), glb.primitive()).load(tmp_path)
    assert scene.colors[::4].tolist() == [[0, 128, 255, 255], [255, 0, 0, 128], [255, 255, 255, 255]]


def test_large_textures_are_scaled_down(tmp_path):
    wide = np.zeros((500, 5000, 3), np.uint8)
    wide[:, 2500:] = 255
    scene = glb_square(tmp_path, wide)
    assert scene.textures[0].shape == (205, 2048, 4)
    assert scene.textures[0][100, 1000, 0] == 0 and scene.textures[0][100, 1050, 0] == 255


def test_pictures_of_16_bits_keep_their_brightness(tmp_path):
    scene = glb_square(tmp_path, np.full((4, 4), 32768, np.uint16))
    assert scene.textures[0][0, 0].tolist() == [128, 128, 128, 255]


def test_strips_fans_and_lists_give_the_same_square(tmp_path):
    glb = Glb()
    strip = glb.primitive(corners=np.array([0, 1, 3, 2], np.uint8), mode=5)
    fan = glb.primitive(corners=np.array([0, 1, 2, 3], np.uint32), mode=6)
    bare = glb.primitive(vertices=SQUARE[SQUARE_CORNERS], corners=None)
    corners = soup(glb.mesh(strip, fan, bare).load(tmp_path)).reshape(3, 2, 3, 3)
    areas = np.cross(corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0]).sum(axis=1) / 2
    np.testing.assert_allclose(areas, [[0, 0, 1]] * 3)


def test_lines_and_points_are_left_out_and_counted(tmp_path):
    glb = Glb()
    scene = glb.mesh(glb.primitive(mode=1), glb.primitive(mode=0), glb.primitive()).load(tmp_path)
    assert len(scene.triangles) == 2
    assert scene.warnings == ("2 primitives of lines or points were left out",)


def test_accessors_may_be_strided_sparse_or_normalized(tmp_path):
    glb = Glb()
    padded = np.zeros((4, 5), np.float32)
    padded[:, 1:4] = SQUARE
    first = glb.primitive()
    view = glb.view(padded.tobytes(), byteStride=20)
    glb.json["accessors"][first["attributes"]["POSITION"]] |= {"bufferView": view, "byteOffset": 4}
    second = glb.primitive()
    where, what = glb.view(np.array([2], np.uint8).tobytes()), glb.view(np.array([5, 6, 7], np.float32).tobytes())
    sparse = {"count": 1, "indices": {"bufferView": where, "componentType": 5121}, "values": {"bufferView": what}}
    glb.json["accessors"][second["attributes"]["POSITION"]]["sparse"] = sparse
    third = glb.primitive(vertices=(SQUARE * 127).astype(np.int8))
    glb.json["accessors"][third["attributes"]["POSITION"]]["normalized"] = True
    vertices = glb.mesh(first, second, third).load(tmp_path).vertices
    np.testing.assert_array_equal(vertices[:4], SQUARE)
    np.testing.assert_array_equal(vertices[4:8], [SQUARE[0], SQUARE[1], [5, 6, 7], SQUARE[3]])
    np.testing.assert_allclose(vertices[8:], SQUARE)


def test_a_gltf_may_hold_its_data_in_uris_or_beside_it(tmp_path):
    glb = square()
    plain = {key: items for key, items in glb.json.items() if items}
    for uri in ("data:application/octet-stream;base64," + base64.b64encode(glb.binary).decode(), "sub/my%20data.bin"):
        (tmp_path / "sub").mkdir(exist_ok=True)
        (tmp_path / "sub" / "my data.bin").write_bytes(glb.binary)
        plain["buffers"] = [{"byteLength": len(glb.binary), "uri": uri}]
        (tmp_path / "made.gltf").write_text(json.dumps(plain))
        np.testing.assert_array_equal(load_scene(tmp_path / "made.gltf").vertices, SQUARE)
    (tmp_path / "sub" / "my data.bin").unlink()
    with pytest.raises(SceneError, match=r"made\.gltf.*my data\.bin.*does not exist.*put the file there"):
        load_scene(tmp_path / "made.gltf")


def test_a_missing_texture_costs_one_warning(tmp_path):
    glb = Glb()
    parts = []
    for number in range(2):
        material = glb.picture(four_colors())
        glb.json["images"][number] = {"uri": f"gone_{number}.png"}
        glb.json["materials"][material]["pbrMetallicRoughness"]["baseColorFactor"] = [0, 1, number, 1]
        parts.append(glb.primitive(uvs=SQUARE_UVS, material=material))
    with pytest.warns(UserWarning, match=r"2 textures are missing.*gone_0\.png") as seen:
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
    glb = Glb()
    with pytest.raises(SceneError, match="no triangles"):
        glb.mesh(glb.primitive(np.full((4, 3), np.inf, np.float32))).load(tmp_path)


def test_the_content_hash_knows_bytes_options_and_references(tmp_path):
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        obj_square(tmp_path / folder, four_colors())
        paths.append(tmp_path / folder / "s.obj")
    same = load_scene(paths[0]).content_hash
    assert len(same) == 64 and same == load_scene(paths[1], name="another").content_hash
    different = {same, load_scene(paths[0], up="z").content_hash, load_scene(paths[0], scale=2).content_hash}
    Image.fromarray(four_colors()[::-1]).save(tmp_path / "b" / "p.png")
    different.add(load_scene(paths[1]).content_hash)
    assert len(different) == 4


@pytest.mark.data
def test_a_navmesh_beside_the_scene_comes_with_it(tmp_path, data_dir):
    square().load(tmp_path)
    bare = load_scene(tmp_path / "made.glb")
    shutil.copy(data_dir / "fixtures" / "godot_room" / "recast.navmesh", tmp_path / "made.navmesh")
    scene = load_scene(tmp_path / "made.glb")
    assert bare.navmesh is None and scene.navmesh is not None and len(scene.navmesh.polygons) == 35
    assert bare.content_hash != scene.content_hash
    (tmp_path / "made.navmesh").write_bytes(b"nonsense")
    with pytest.raises(SceneError, match=r"made\.navmesh"):
        load_scene(tmp_path / "made.glb")


def room(size):
    """A box seen from inside with the given extents."""
    return trimesh.creation.box(size)


@pytest.mark.parametrize("suffix", ["ply", "stl", "obj"])
@pytest.mark.parametrize("up", ["y", "z"])
def test_up_is_guessed_from_the_surface_that_faces_it(tmp_path, suffix, up):
    size = (8, 2.5, 7) if up == "y" else (8, 7, 2.5)
    room(size).export(tmp_path / f"room.{suffix}")
    scene = load_scene(tmp_path / f"room.{suffix}")
    np.testing.assert_allclose(np.ptp(scene.vertices, axis=0), [8, 2.5, 7], rtol=1e-6)
    assert any("guessed" in sentence for sentence in scene.warnings) == (up == "z" or suffix != "obj")
    told = load_scene(tmp_path / f"room.{suffix}", up="y")
    np.testing.assert_allclose(np.ptp(told.vertices, axis=0), size, rtol=1e-6)


@pytest.mark.parametrize("unit", [1, 0.01, 0.001])
def test_units_are_guessed_from_the_height(tmp_path, unit):
    room(np.array([8, 2.5, 7]) / unit).export(tmp_path / "room.obj")
    scene = load_scene(tmp_path / "room.obj")
    np.testing.assert_allclose(np.ptp(scene.vertices, axis=0), [8, 2.5, 7], rtol=1e-6)
    assert any("units high" in sentence for sentence in scene.warnings) == (unit != 1)
    told = load_scene(tmp_path / "room.obj", scale=1)
    np.testing.assert_allclose(np.ptp(told.vertices, axis=0), np.array([8, 2.5, 7]) / unit, rtol=1e-6)


def test_z_up_becomes_y_up_and_stays_right_handed(tmp_path):
    scene = square().load(tmp_path, up="z", scale=2)
    np.testing.assert_array_equal(scene.vertices, 2 * SQUARE[:, [0, 2, 1]] * [1, 1, -1])
    normal = np.cross(*np.diff(soup(scene)[0], axis=0))
    assert normal.tolist() == [0, 4, 0]


def test_obj_counts_backwards_from_the_face_and_splits_groups(tmp_path):
    floor = "g floor\nv 0 0 0\nv 0 0 1\nv 1 0 1\nv 1 0 0\nvn 0 1 0\nf -4//-1 -3//-1 -2//-1 -1//-1\n"
    wall = "g wall one\nv 0 0 0\nv 1 0 0\nv 1 1 0\nf -3 -2 \\\n -1\nl 1 2\n"
    (tmp_path / "o.obj").write_text(floor + wall)
    scene = load_scene(tmp_path / "o.obj")
    assert scene.objects == ("floor", "wall one") and scene.triangle_object.tolist() == [1, 1, 2]
    normals = np.cross(soup(scene)[:, 1] - soup(scene)[:, 0], soup(scene)[:, 2] - soup(scene)[:, 0])
    assert normals.tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert scene.warnings == ("1 lines, points and curves were left out",)


def test_mtl_colors_and_masks(tmp_path):
    Image.fromarray(four_colors()).save(tmp_path / "p.png")
    Image.fromarray(np.array([[0, 255], [255, 255]], np.uint8).repeat(4, 0).repeat(4, 1)).save(tmp_path / "m.png")
    mtl = "newmtl glass # thin\nKd 0.1 0.2 0.3\nd 0.7\nnewmtl leaf\nmap_Kd -s 1 1 1 -clamp on p.png\nmap_d m.png\n"
    (tmp_path / "o.mtl").write_text(mtl)
    faces = "usemtl leaf\nf 1/1 2/2 3/3\nusemtl glass\nf 1 2 3\n"
    (tmp_path / "o.obj").write_text("mtllib o.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nvt 0 0\nvt 1 0\nvt 1 1\n" + faces)
    scene = load_scene(tmp_path / "o.obj")
    leaf, glass = scene.triangle_material
    materials = scene.materials
    np.testing.assert_allclose(materials.base_color[glass], [0.1, 0.2, 0.3, 0.7], rtol=1e-6)
    assert materials.alpha_mode.tolist() == [MASK, MASK] and materials.double_sided.all()
    assert materials.wrap[leaf].tolist() == [CLAMP, CLAMP] and materials.texture[glass] == -1
    assert scene.textures[0][0, 0].tolist() == [255, 0, 0, 0] and scene.textures[0][7, 7, 3] == 255


def test_ply_colors_become_linear(tmp_path):
    mesh = trimesh.Trimesh(SQUARE, SQUARE_CORNERS.reshape(-1, 3), process=False, vertex_colors=[[188, 0, 255, 255]] * 4)
    mesh.export(tmp_path / "c.ply")
    assert load_scene(tmp_path / "c.ply", up="y").colors[0].tolist() == [128, 0, 255, 255]


def break_json(**changes):
    def change(glb):
        glb.json |= changes

    return change


def break_item(kind, index, **changes):
    def change(glb):
        glb.json[kind][index] |= changes

    return change


def corners_of(*values):
    def change(glb):
        glb.json["meshes"] = []
        glb.mesh(glb.primitive(corners=np.array(values, np.uint16)))

    return change


def wear(uri):
    def change(glb):
        material = glb.picture(four_colors())
        glb.json["images"][0] = {"uri": uri}
        glb.json["meshes"] = []
        glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=material))

    return change


def many_copies(glb):
    glb.json["nodes"] = [{"mesh": 0}] * 100
    glb.json["scenes"][0]["nodes"] = list(range(100))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (break_json(nodes=[{"mesh": 0, "children": [1]}, {"children": [0]}]), "own ancestor"),
        (break_json(nodes=[{"children": [1, 1]}, {"mesh": 0}]), "two parents"),
        (break_json(nodes=[{"children": [k + 1]} for k in range(1000)] + [{"mesh": 0}]), "deeper than"),
        (break_json(nodes=[{"mesh": 7}]), "number 7 of its 1 meshes"),
        (break_json(nodes=[{"mesh": -1}]), "number -1 of its 1 meshes"),
        (break_json(nodes=[{"mesh": 0, "scale": [1, 1]}]), "scale is not 3 finite numbers"),
        (break_json(nodes=[{"mesh": 0, "translation": [1e300, 0, 0]}]), "translation is not 3 finite"),
        (break_json(nodes={"mesh": 0}), "not a JSON list"),
        (break_json(nodes=["mesh"]), "not a JSON object"),
        (break_json(asset={"version": "1.0"}), "version '1.0'"),
        (break_json(scene=3), "number 3 of its 1 scenes"),
        (break_json(scenes=[{"nodes": []}]), "no triangles"),
        (break_json(extensionsRequired=["KHR_draco_mesh_compression"]), "KHR_draco.*without mesh compression"),
        (break_json(extensionsRequired=["EXT_meshopt_compression"]), "EXT_meshopt.*without mesh compression"),
        (break_json(extensionsRequired=["KHR_texture_basisu"]), "KHR_texture_basisu.*PNG or JPEG"),
        (break_item("nodes", 0, extensions={"EXT_mesh_gpu_instancing": {}}), "EXT_mesh_gpu_instancing"),
        (break_item("accessors", 0, count=10**12), "count"),
        (break_item("accessors", 0, count=5), "reaches beyond its bufferView"),
        (break_item("accessors", 0, count=-1), "count -1"),
        (break_item("accessors", 0, count=2.0), r"count 2\.0"),
        (break_item("accessors", 0, componentType=5130), "wrong type"),
        (break_item("accessors", 0, type="VEC2"), "wrong type"),
        (break_item("accessors", 0, byteOffset=4), "reaches beyond its bufferView"),
        (break_item("bufferViews", 0, byteLength=10**6), "reaches beyond its buffer"),
        (break_item("bufferViews", 0, byteStride=4), "reaches beyond its bufferView"),
        (break_item("bufferViews", 0, buffer=1), "number 1 of its 1 buffers"),
        (break_item("meshes", 0, primitives=[{}]), "malformed"),
        (break_item("meshes", 0, primitives=7), "malformed"),
        (corners_of(0, 1, 4), "triangles of vertex 4, of 4"),
        (wear("../secret.png"), "not inside its folder"),
        (wear("%2e%2e/secret.png"), "not inside its folder"),
        (wear("/etc/passwd"), "not inside its folder"),
        (wear("http://example.com/a.png"), "not inside its folder"),
        (wear("file:///etc/passwd"), "not inside its folder"),
        (wear("C:\\secret.png"), "not inside its folder"),
        (wear("data:image/png;base64,@@"), "damaged data URI"),
    ],
)
def test_a_lying_file_is_refused_by_name(tmp_path, change, reason):
    glb = square()
    change(glb)
    with pytest.raises(SceneError, match=reason) as error:
        glb.load(tmp_path)
    assert "made.glb" in str(error.value)


def test_bombs_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(assemble, "MAX_TRIANGLES", 100)
    glb = square()
    many_copies(glb)
    with pytest.raises(SceneError, match="more than 100 triangles"):
        glb.load(tmp_path)
    monkeypatch.setattr(files, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(SceneError, match="image image 0 has 40x40 pixels"):
        glb_square(tmp_path, np.zeros((40, 40, 3), np.uint8))


def test_ktx2_pictures_are_refused(tmp_path):
    (tmp_path / "p.png").write_bytes(b"\xabKTX 20\xbb\r\n\x1a\n" + bytes(100))
    (tmp_path / "s.mtl").write_text("newmtl m\nmap_Kd p.png\n")
    (tmp_path / "s.obj").write_text("mtllib s.mtl\nv 0 0 0\nv 1 0 0\nv 1 1 0\nusemtl m\nf 1 2 3\n")
    with pytest.raises(SceneError, match=r"p\.png is KTX2.*convert"):
        load_scene(tmp_path / "s.obj")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.glb", None, "does not exist"),
        ("a.glb", b"", "empty"),
        ("a.glb", b"glTF", "cut short"),
        ("a.glb", b"hello, world", "JSON"),
        ("a.gltf", b"[" * 10**5, "JSON"),
        ("a.gltf", b'{"asset": {"version": NaN}}', "NaN"),
        ("a.fbx", b"Kaydara", "'.fbx' are not read"),
        ("a.obj", b"hello, world", "no triangles"),
        ("a.obj", b"v 0 0\nf 1 1 1\n", "fewer than three coordinates"),
        ("a.obj", b"v 0 0 0\nf 1 2 3\n", "does not exist before it"),
        ("a.obj", b"v 0 0 zero\n", "zero"),
        ("a.obj", b"mtllib ../../a.mtl\nv 0 0 0\nf 1 1 1\n", "not inside its folder"),
        ("a.ply", b"ply\nhello", "cannot be read|no triangles"),
        (
            "a.ply",
            b"ply\nformat binary_little_endian 1.0\nelement vertex 9999999999\nproperty float x\nend_header\n",
            "no triangles|cannot be read",
        ),
        ("a.stl", b"solid nothing", "cannot be read|no triangles"),
        ("a.stl", bytes(80) + b"\xff\xff\xff\xff", "cannot be read|no triangles"),
    ],
)
def test_files_that_are_no_scenes_are_refused(tmp_path, name, content, reason):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(SceneError, match=reason) as error:
        load_scene(tmp_path / name)
    assert name in str(error.value)


def test_options_are_checked(tmp_path):
    for wrong in ({"up": "x"}, {"scale": 0}, {"scale": "mm"}, {"scale": np.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            square().load(tmp_path, **wrong)


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    whole = square().bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "cut.glb").write_bytes(whole[:length])
        with pytest.raises(SceneError, match=r"cut\.glb"):
            load_scene(tmp_path / "cut.glb")


def load_or_refuse(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return load_scene(path)
        except SceneError:
            return None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
def test_any_bytes_give_a_sound_scene_or_a_scene_error(tmp_path, changes):
    glb = Glb()
    data = bytearray(glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=glb.picture(four_colors()))).bytes())
    for position, value in changes:
        data[position % len(data)] = value
    (tmp_path / "fuzzed.glb").write_bytes(data)
    scene = load_or_refuse(tmp_path / "fuzzed.glb")
    assert scene is None or (np.isfinite(scene.vertices).all() and scene.triangles.max() < len(scene.vertices))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_json_gives_a_sound_scene_or_a_scene_error(tmp_path, data):
    glb = Glb()
    glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=glb.picture(four_colors())))
    place = glb.json
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not place[key] or not isinstance(place[key], (dict, list)) or data.draw(st.integers(0, 3)) == 0:
            break
        place = place[key]
    place[key] = data.draw(json_values)
    (tmp_path / "fuzzed.glb").write_bytes(glb.bytes())
    scene = load_or_refuse(tmp_path / "fuzzed.glb")
    assert scene is None or (np.isfinite(scene.vertices).all() and scene.triangles.max() < len(scene.vertices))
