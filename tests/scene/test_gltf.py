"""glTF by its specification: skins, extensions that are required or not, URIs, containers and odd but valid JSON."""

import base64
import io
import json
import struct
from urllib.parse import quote

import numpy as np
import pytest
from glb import SQUARE, SQUARE_UVS, Glb, four_colors, pictured, square
from PIL import Image, features
from rooms import names_of

from gym_batchnav.scene.load import SceneError, load_scene

ONES = np.ones((4, 4), np.uint8)
WEIGHTS = np.ones((4, 4), np.float32)


def skinned(joints=ONES, weights=WEIGHTS, matrices=None):
    """A square at x = 10 with two joints: one turned a quarter to the left, one moved up."""
    half = float(np.sqrt(0.5))
    glb = Glb()
    part = glb.primitive()
    part["attributes"] |= {"JOINTS_0": glb.accessor(joints), "WEIGHTS_0": glb.accessor(weights)}
    glb.mesh(part)
    glb.json["nodes"] = [
        {"mesh": 0, "skin": 0, "translation": [100, 0, 0], "name": "doll"},  # of no effect on a skinned mesh
        {"children": [2, 3], "translation": [10, 0, 0]},
        {"rotation": [0, half, 0, half]},
        {"translation": [0, 5, 0], "scale": [2, 2, 2]},
    ]
    glb.json["scenes"] = [{"nodes": [0, 1]}]
    glb.json["skins"] = [{"joints": [2, 3]}]
    if matrices is not None:
        row = glb.accessor(np.asarray(matrices, np.float32).transpose(0, 2, 1).reshape(-1, 4))
        glb.json["accessors"][row] |= {"type": "MAT4", "count": len(matrices)}
        glb.json["skins"][0]["inverseBindMatrices"] = row
    return glb


TURNED = np.array([[10, 0, 0], [10, 0, -1], [10, 1, -1], [10, 1, 0]], np.float64)  # x has become -z
RAISED = SQUARE * 2.0 + [10, 5, 0]


@pytest.mark.parametrize(("kind", "whole"), [(np.uint8, 1.0), (np.uint16, 255), (np.uint8, 65535)])
def test_skinned_meshes_stand_where_their_joints_are(tmp_path, kind, whole):
    joints = np.array([[0, 1, 0, 0]] * 4, kind)
    weights = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0, 0]]) * whole
    weights = weights.astype({1.0: np.float32, 255: np.uint8, 65535: np.uint16}[whole])
    glb = skinned(joints, weights)
    if whole != 1.0:
        glb.json["accessors"][3]["normalized"] = True
    scene = glb.load(tmp_path)
    expected = [TURNED[0], RAISED[1], (TURNED[2] + RAISED[2]) / 2, TURNED[3]]
    np.testing.assert_allclose(scene.vertices, expected, atol=0.03)
    assert names_of(scene) == ("doll",)
    assert scene.warnings == ("The file has skins: skinned meshes are shown in the rest pose of their joints",)


def test_inverse_bind_matrices_come_first(tmp_path):
    shift = np.tile(np.eye(4), (2, 1, 1))
    shift[:, 0, 3] = -1
    joints = np.zeros((4, 4), np.uint8)
    weights = np.tile(np.array([3, 0, 0, 0], np.float32), (4, 1))  # of any sum
    scene = skinned(joints, weights, shift).load(tmp_path)
    np.testing.assert_allclose(scene.vertices, TURNED + np.array([0, 0, 1]), atol=1e-5)


def test_a_skin_does_not_move_a_mesh_without_joints(tmp_path):
    glb = square()
    glb.json["nodes"] = [{"mesh": 0, "skin": 0, "translation": [7, 0, 0]}]
    glb.json["skins"] = [{"joints": [0]}]
    np.testing.assert_allclose(glb.load(tmp_path).vertices, SQUARE + np.array([7, 0, 0]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"joints": []}, "skin 0 has 0 joints"),
        ({"joints": [2] * 9}, "skin 0 has 9 joints, but there are 4 nodes"),
        ({"joints": [2]}, "refer to joint 1, but there are 1"),
        ({"joints": [2, 77]}, r"nodes\[77\]"),
        ({"joints": [2, 3], "inverseBindMatrices": 0}, "wrong type"),
    ],
)
def test_invalid_skins_are_refused_by_name(tmp_path, change, reason):
    glb = skinned()
    glb.json["skins"][0] = change
    with pytest.raises(SceneError, match=reason):
        glb.load(tmp_path)


@pytest.mark.parametrize(
    ("limit", "most", "reason"),
    [("JOINTS", 1, "skins have more than 1 joints"), ("INFLUENCES", 15, "skins have more than 15 joint weights")],
)
def test_skins_are_refused_by_what_they_move_before_they_do(tmp_path, monkeypatch, limit, most, reason):
    monkeypatch.setattr(f"gym_batchnav.scene.formats.gltf.MAX_{limit}", most)
    monkeypatch.setattr("gym_batchnav.scene.formats.gltf.posed", None)
    with pytest.raises(SceneError, match=reason):
        skinned().load(tmp_path)


def test_joints_that_are_their_own_ancestors_are_refused(tmp_path):
    glb = skinned()
    glb.json["nodes"][2]["children"] = [1]
    glb.json["scenes"] = [{"nodes": [0]}]
    with pytest.raises(SceneError, match="is its own ancestor"):
        glb.load(tmp_path)


def test_hidden_nodes_and_all_below_them_are_left_out(tmp_path):
    glb = square()
    hidden = {"KHR_node_visibility": {"visible": False}}
    glb.json["nodes"] = [
        {"mesh": 0, "name": "seen", "extensions": {"KHR_node_visibility": {"visible": True}}, "children": [1]},
        {"extensions": hidden, "children": [2]},
        {"mesh": 0, "name": "unseen"},
    ]
    glb.json["extensionsRequired"] = ["KHR_node_visibility"]
    scene = glb.load(tmp_path)
    assert names_of(scene) == ("seen",)
    assert scene.warnings == ("1 nodes that the file hides were left out",)


@pytest.mark.parametrize(
    "name", ["KHR_materials_specular", "KHR_lights_punctual", "EXT_lights_image_based", "MSFT_lod"]
)
def test_required_extensions_without_effect_on_surfaces_are_ignored_quietly(tmp_path, name):
    glb = Glb()
    material = glb.material(extensions={name: {}})
    glb.mesh(glb.primitive(material=material))
    glb.json |= {"extensionsRequired": [name], "extensionsUsed": [name], "cameras": [{"type": "perspective"}]}
    glb.json["nodes"] = [{"mesh": 0, "camera": 0, "extensions": {name: {}}}]
    assert glb.load(tmp_path).warnings == ()


def test_unlit_materials_are_warned_of(tmp_path):
    glb = square()
    glb.json["extensionsUsed"] = ["KHR_materials_unlit"]
    assert "unlit" in glb.load(tmp_path).warnings[0]


def test_unknown_extensions_count_only_if_they_are_required(tmp_path):
    glb = square()
    glb.json["extensionsUsed"] = ["ACME_teapots"]
    glb.json["nodes"][0]["extensions"] = {"ACME_teapots": 7}
    assert len(glb.load(tmp_path).triangles) == 2
    glb.json["extensionsRequired"] = ["ACME_teapots"]
    with pytest.raises(SceneError, match="requires the glTF extension ACME_teapots"):
        glb.load(tmp_path)


def test_versions_are_read_by_the_rules(tmp_path):
    glb = square()
    for asset in ({"version": "2.1"}, {"version": "2.1", "minVersion": "2.0"}):
        glb.json["asset"] = asset
        assert len(glb.load(tmp_path).triangles) == 2
    for asset in ({"version": "2.1", "minVersion": "2.1"}, {"version": "1.0"}, {}):
        glb.json["asset"] = asset
        with pytest.raises(SceneError, match="glTF version"):
            glb.load(tmp_path)


def test_numbers_may_be_written_as_floats(tmp_path):
    plain = square()
    for entry in (*plain.json["accessors"], *plain.json["bufferViews"], *plain.json["nodes"]):
        entry |= {key: float(value) for key, value in entry.items() if type(value) is int}
    np.testing.assert_array_equal(plain.load(tmp_path).vertices, SQUARE)


def write_gltf(folder, glb, uri):
    document = {key: items for key, items in glb.json.items() if items}
    document["buffers"] = [{"byteLength": len(glb.binary), "uri": uri}]
    path = folder / "made.gltf"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("kind", ["application/octet-stream", "application/gltf-buffer", "text/plain;charset=utf8", ""])
@pytest.mark.parametrize("trim", [False, True])
def test_data_uris_may_be_of_any_type(tmp_path, kind, trim):
    glb = square()
    text = base64.b64encode(glb.binary).decode()
    uri = f"data:{kind};base64,{text.rstrip('=') if trim else text}"
    np.testing.assert_array_equal(load_scene(write_gltf(tmp_path, glb, uri)).vertices, SQUARE)
    escaped = "data:," + "".join(f"%{byte:02X}" for byte in glb.binary)
    np.testing.assert_array_equal(load_scene(write_gltf(tmp_path, glb, escaped)).vertices, SQUARE)


@pytest.mark.parametrize("name", ["a b.bin", " a  b.bin", "ö%20.bin", "50%.bin", "sub/b.bin"])
def test_files_are_found_by_escaped_and_by_plain_names(tmp_path, name):
    glb = square()
    (tmp_path / "sub").mkdir()
    (tmp_path / name).write_bytes(glb.binary)
    for uri in (name, quote(name), "./" + quote(name)):
        np.testing.assert_array_equal(load_scene(write_gltf(tmp_path, glb, uri)).vertices, SQUARE)


def chunk(kind, data):
    return struct.pack("<II", len(data), kind) + data


@pytest.mark.parametrize("pad", [b" \n ", b"\0\0"], ids=["spaces", "zeros"])  # zeros are wrong, yet some exist
def test_containers_may_have_padding_and_further_chunks(tmp_path, pad):
    whole = square().bytes()
    length = struct.unpack_from("<I", whole, 12)[0]
    text, binary = whole[20 : 20 + length], whole[28 + length :]
    chunks = chunk(0x4E4F534A, text + pad) + chunk(0x004E4942, binary) + chunk(0x12345678, b"more") + chunk(7, b"")
    path = tmp_path / "made.glb"
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks + b"behind it all")
    np.testing.assert_array_equal(load_scene(path).vertices, SQUARE)


RESTART = 65535


@pytest.mark.parametrize(
    ("mode", "corners", "expected"),
    [
        (5, [0, 1, 3, 2, RESTART, 3, 0, 2], [[0, 1, 3], [1, 2, 3], [3, 0, 2]]),
        (6, [0, 1, 2, 3, RESTART, 1, 2, 3], [[1, 2, 0], [2, 3, 0], [2, 3, 1]]),
        (5, [RESTART, RESTART, 0, 1, RESTART, 2, RESTART, 1, 2, 3, RESTART], [[1, 2, 3]]),
        (6, [RESTART, RESTART, 0, 1, RESTART, 2, RESTART, 1, 2, 3, RESTART], [[2, 3, 1]]),
    ],
)
def test_strips_and_fans_may_begin_anew(tmp_path, mode, corners, expected):
    glb = Glb()
    glb.mesh(glb.primitive(corners=np.array(corners, np.uint16), mode=mode), glb.primitive())
    glb.json["extensionsUsed"] = glb.json["extensionsRequired"] = ["KHR_mesh_primitive_restart"]
    scene = glb.load(tmp_path)
    np.testing.assert_array_equal(scene.vertices[scene.triangles[:-2]], SQUARE[np.array(expected)])
    del glb.json["extensionsUsed"], glb.json["extensionsRequired"]
    with pytest.raises(SceneError, match="indices contain 65535, which glTF reserves"):
        glb.load(tmp_path)


def test_degenerate_triangles_and_missing_bounds_are_kept_as_they_are(tmp_path):
    glb = Glb()
    scene = glb.mesh(glb.primitive(corners=np.array([0, 1, 1, 0, 1, 2], np.uint8))).load(tmp_path)
    assert scene.triangles.tolist() == [[0, 1, 1], [0, 1, 2]]


def test_a_texture_transform_may_choose_other_uvs(tmp_path):
    glb = pictured()
    reference = glb.json["materials"][0]["pbrMetallicRoughness"]["baseColorTexture"]
    reference["extensions"] = {"KHR_texture_transform": {"texCoord": 1.0, "offset": [0.25, 0]}}
    glb.json["meshes"][0]["primitives"][0]["attributes"]["TEXCOORD_1"] = glb.accessor(SQUARE_UVS / 2)
    uvs = glb.load(tmp_path).uvs
    np.testing.assert_allclose(uvs, SQUARE_UVS / 2 + [0.25, 0])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.uint16])
@pytest.mark.parametrize("normalized", [False, True])
def test_quantized_positions_and_uvs_of_all_types(tmp_path, kind, normalized):
    glb = Glb()
    whole = np.iinfo(kind).max
    part = glb.primitive(material=glb.picture(four_colors()))
    padded = np.zeros((4, 4), kind)
    padded[:, :3] = SQUARE * whole
    row = glb.accessor(padded, type="VEC3", normalized=normalized)
    glb.json["bufferViews"][-1]["byteStride"] = padded.strides[0]
    part["attributes"] = {"POSITION": row}
    part["attributes"]["TEXCOORD_0"] = glb.accessor((SQUARE_UVS * whole).astype(kind), normalized=normalized)
    scale = 1.0 if normalized else 1 / whole
    glb.json["nodes"][0]["scale"] = [scale] * 3
    scene = glb.mesh(part).load(tmp_path)
    np.testing.assert_allclose(scene.vertices, SQUARE, rtol=1e-6)
    np.testing.assert_allclose(scene.uvs * scale, SQUARE_UVS, rtol=1e-6)


@pytest.mark.skipif(not features.check("avif"), reason="Pillow reads AVIF from version 11.3")
def test_avif_is_read(tmp_path):
    glb = pictured()
    stream = io.BytesIO()
    Image.fromarray(four_colors()).save(stream, "AVIF", quality=100, subsampling="4:4:4")
    glb.json["images"].append({"bufferView": glb.view(stream.getvalue()), "mimeType": "image/avif"})
    glb.json["textures"][0] = {"extensions": {"EXT_texture_avif": {"source": 1}}}
    glb.json["extensionsRequired"] = ["EXT_texture_avif"]
    (picture,) = glb.load(tmp_path).textures
    assert np.abs(picture[..., :3].astype(int) - four_colors()).max() <= 40


def test_avif_that_cannot_be_read_gives_way_to_a_plain_copy_or_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.scene.formats.gltf_document._TEXTURES", {"EXT_texture_avif": lambda: False})
    glb = pictured()
    glb.json["textures"][0]["extensions"] = {"EXT_texture_avif": {"source": 77}}
    assert len(glb.load(tmp_path).textures) == 1
    del glb.json["textures"][0]["source"]
    with pytest.raises(SceneError, match=r"only AVIF, which needs Pillow 11\.3"):
        glb.load(tmp_path)


def test_materials_that_look_the_same_stay_apart(tmp_path):
    glb = Glb()
    one, other = glb.material(name="oak"), glb.material(name="ash", pbrMetallicRoughness={"metallicFactor": 0})
    parts = [glb.primitive(material=material) for material in (one, other, one)]
    scene = glb.mesh(*parts).load(tmp_path)
    assert scene.triangle_material.tolist() == [0, 0, 1, 1, 0, 0] and len(scene.materials) == 2


def test_the_number_that_is_reserved_may_be_a_vertex(tmp_path):
    vertices = np.random.default_rng(0).random((256, 3)).astype(np.float32)
    glb = Glb()
    glb.mesh(glb.primitive(vertices, np.array([0, 1, 255], np.uint8)))
    with pytest.warns(UserWarning, match="a number that glTF reserves"):
        scene = glb.load(tmp_path)
    assert len(scene.triangles) == 1
    with pytest.raises(SceneError, match="reserves to restart"):
        square = Glb()
        square.mesh(square.primitive(corners=np.array([0, 1, 255], np.uint8))).load(tmp_path)
