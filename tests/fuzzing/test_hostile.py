"""Hostile scenes: each is loaded soundly or raises a SceneError, in bounded time and memory."""

import io
import json
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import trimesh
from glb import SQUARE_UVS, Glb, square
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from rooms import box, box_room, scene_of

from gym_batchnav.scene.load import SceneError, load_scene
from gym_batchnav.scene.save import save_glb

TESTS = Path(__file__).parents[1]


def fuzz(folder, *arguments):
    """Run the program ``loads.py`` in a folder; returns how many scenes it loaded and how many were refused."""
    paths = [TESTS, TESTS.parent, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    program = [sys.executable, TESTS / "fuzzing" / "loads.py", *arguments]
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-3000:]}"
    loaded, refused = map(int, done.stdout.split())
    return loaded, refused


def picture():
    return np.random.default_rng(0).integers(0, 256, (48, 48, 3)).astype(np.uint8)


def sphere():
    mesh = trimesh.creation.icosphere(subdivisions=3)
    return mesh.vertices.astype(np.float32), mesh.faces.astype(np.uint16)


def write_glb(folder):
    glb = Glb()
    vertices, triangles = sphere()
    part = glb.primitive(vertices, triangles.ravel(), vertices[:, :2] + 1, material=glb.picture(picture()))
    (folder / "s.glb").write_bytes(glb.mesh(part).bytes())


def write_obj(folder):
    Image.fromarray(picture()).save(folder / "p.png")
    (folder / "s.mtl").write_text("newmtl m\nKd 1 1 1\nmap_Kd p.png\nd 0.5\n")
    vertices, triangles = sphere()
    lines = ["mtllib s.mtl", "o ball", *("v {:.6f} {:.6f} {:.6f}".format(*vertex) for vertex in vertices)]
    lines += ["vt 0 0", "usemtl m", *("f {}/1 {}/1 {}/1".format(*(triangle + 1)) for triangle in triangles)]
    (folder / "s.obj").write_text("\n".join(lines))


def write_ply(folder):
    vertices, triangles = sphere()
    trimesh.Trimesh(vertices, triangles, process=False).export(folder / "s.ply")


def write_ascii_ply(folder):
    vertices, triangles = sphere()
    trimesh.Trimesh(vertices, triangles, process=False).export(folder / "s.ply", encoding="ascii")


def write_stl(folder):
    trimesh.Trimesh(*sphere(), process=False).export(folder / "s.stl")


def write_off(folder):
    trimesh.Trimesh(*sphere(), process=False).export(folder / "s.off")


def write_draco(folder):
    dracopy = pytest.importorskip("DracoPy")
    vertices, triangles = sphere()
    glb = Glb()
    part = glb.primitive(vertices, triangles.ravel())
    data = dracopy.encode(vertices, triangles.astype(np.uint32), quantization_bits=14)
    glb.binary.clear()
    glb.json["bufferViews"].clear()
    for accessor in glb.json["accessors"]:
        del accessor["bufferView"]
    part["extensions"] = {"KHR_draco_mesh_compression": {"bufferView": glb.view(data), "attributes": {"POSITION": 0}}}
    (folder / "s.glb").write_bytes(glb.mesh(part).bytes())


def write_meshopt(folder):
    meshopt = pytest.importorskip("meshopt")
    vertices, triangles = sphere()
    data = [meshopt.encode_gltf_buffer(vertices.astype(np.float32), "ATTRIBUTES")]
    data.append(meshopt.encode_gltf_buffer(triangles.astype(np.uint32), "TRIANGLES"))
    glb = Glb()
    glb.mesh(glb.primitive(vertices.astype(np.float32), triangles.astype(np.uint32).ravel()))
    glb.binary.clear()
    glb.json["bufferViews"].clear()
    glb.json["accessors"][0]["count"] = len(vertices)
    for packed, count, stride, mode in zip(
        data, (len(vertices), triangles.size), (12, 4), ("ATTRIBUTES", "TRIANGLES"), strict=True
    ):
        view = glb.json["bufferViews"][glb.view(packed)]
        view["extensions"] = {"EXT_meshopt_compression": {**view, "count": count, "byteStride": stride, "mode": mode}}
    (folder / "s.glb").write_bytes(glb.bytes())


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
@pytest.mark.parametrize(
    "write", [write_glb, write_obj, write_ply, write_ascii_ply, write_stl, write_off, write_draco, write_meshopt]
)
@pytest.mark.slow
def test_bytes_flipped_and_files_cut_at_every_kilobyte(tmp_path, write):
    write(tmp_path)
    name = next(path.name for path in tmp_path.glob("s.*") if path.suffix != ".mtl")
    assert len(load_scene(tmp_path / name).triangles) == 1280
    loaded, refused = fuzz(tmp_path, "bytes", name)
    assert loaded + refused > 200 and min(loaded, refused) > 5


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
@pytest.mark.slow
def test_any_json_gives_a_sound_scene_or_a_scene_error(tmp_path):
    loaded, refused = fuzz(tmp_path, "json")
    assert min(loaded, refused) > 10


def write_dataset(folder, rows):
    """A Habitat dataset of a room and a crate, with one scene instance, whose name is returned."""
    save_glb(box_room(), folder / "room.glb")
    save_glb(scene_of("crate", box((0, 0, 0), (1, 1, 1))), folder / "crate.glb")
    dataset = {
        "stages": {"paths": {".glb": ["room.glb"]}},
        "objects": {"paths": {".glb": ["crate.glb"]}},
        "scene_instances": {"paths": {".json": ["*"]}},
    }
    (folder / "home.scene_dataset_config.json").write_text(json.dumps(dataset))
    instance = {"stage_instance": {"template_name": "room"}, "object_instances": rows}
    (folder / "home.scene_instance.json").write_text(json.dumps(instance))
    return "home.scene_instance.json"


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
def test_a_damaged_instance_of_a_dataset_gives_a_sound_scene_or_a_scene_error(tmp_path):
    row = {"template_name": "crate", "translation": [1, 2, 3], "rotation": [1, 0, 0, 0], "uniform_scale": 0.5}
    loaded, refused = fuzz(tmp_path, "bytes", write_dataset(tmp_path, [row, row]))
    assert loaded + refused > 200 and min(loaded, refused) > 5


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
@pytest.mark.parametrize(("count", "outcome"), [(100_000, (1, 0)), (1_000_000, (0, 1))])
@pytest.mark.slow
def test_a_dataset_of_many_objects_is_loaded_or_refused_in_time(tmp_path, count, outcome):
    assert fuzz(tmp_path, "files", write_dataset(tmp_path, [{"template_name": "crate"}] * count)) == outcome


def strips() -> bytes:
    """Twenty million triangles: one list of corners 199 times."""
    glb = Glb()
    rng = np.random.default_rng(0)
    corners = rng.integers(0, 20_000, 100_000).astype(np.uint32)
    part = glb.primitive(rng.random((20_000, 3)).astype(np.float32), corners, mode=5)
    return glb.mesh(*[part] * 199).bytes()


def copies() -> bytes:
    """Twenty million triangles and sixty million vertices: one mesh at 660 nodes."""
    glb = Glb()
    glb.mesh(glb.primitive(np.random.default_rng(0).random((90_000, 3)).astype(np.float32), None))
    glb.json["nodes"], glb.json["scenes"] = [{"mesh": 0}] * 660, [{"nodes": list(range(660))}]
    return glb.bytes()


def specks() -> bytes:
    """A quarter of a million parts of two triangles."""
    glb = Glb()
    return glb.mesh(*[glb.primitive()] * 250_000).bytes()


def pictures() -> bytes:
    """Two billion pixels."""
    glb = Glb()
    stream = io.BytesIO()
    Image.new("1", (8192, 8192)).save(stream, "PNG")
    view = glb.view(stream.getvalue())
    parts = []
    for index in range(30):
        glb.json["images"].append({"bufferView": view})
        glb.json["textures"].append({"source": index})
        material = glb.material(pbrMetallicRoughness={"baseColorTexture": {"index": index}})
        parts.append(glb.primitive(uvs=SQUARE_UVS, material=material))
    return glb.mesh(*parts).bytes()


def entries() -> bytes:
    """Eight million JSON objects and lists."""
    return b'{"asset": {"version": "2.0"}, "x": [' + b'{"":[]},' * 4_000_000 + b"{}]}"


def polygon() -> bytes:
    """A face of nine million corners."""
    return b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf" + b" 1 2 3" * 3_000_000


def scans() -> bytes:
    """A picture of 64 million pixels that is gone over five hundred times."""
    glb = Glb()
    stream = io.BytesIO()
    Image.new("L", (8192, 8192), 7).save(stream, "JPEG", progressive=True)
    data = stream.getvalue()
    data = data[:-2] + data[data.rindex(b"\xff\xc4") : -2] * 500 + data[-2:]
    glb.json["images"].append({"bufferView": glb.view(data)})
    glb.json["textures"].append({"source": 0})
    material = glb.material(pbrMetallicRoughness={"baseColorTexture": {"index": 0}})
    return glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=material)).bytes()


CORNERS = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"
FILL = 2**25  # bytes
# Texts of 32 MiB that took half a minute or over a GiB when they were read line by line.
TEXTS = {
    "vertices": b"v 1 2 3\n" * (FILL // 8),
    "short vertices": b"v 1\n" * (FILL // 4),
    "texture coordinates": b"vt 1\n" * (FILL // 5),
    "quads": CORNERS + b"f 1 2 3 1\n" * (FILL // 10),
    "objects": CORNERS + b"f 1 2 3\n" + b"o\n" * (FILL // 2),
    "parts": CORNERS + b"o a\nf 1 2 3\no b\nf 1 2 3\n" * (FILL // 24),
    "blank": b"\n" * FILL,
}


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
@pytest.mark.slow
def test_long_texts_are_refused_in_time(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.obj").write_bytes(text)
    assert fuzz(tmp_path, "files", *(path.name for path in tmp_path.iterdir())) == (0, len(TEXTS))


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
@pytest.mark.slow
def test_small_files_that_stand_for_much_are_refused(tmp_path):
    made = {"a.glb": strips(), "b.glb": copies(), "c.glb": specks(), "d.glb": pictures(), "e.gltf": entries()}
    for name, data in (made | {"f.obj": polygon(), "g.glb": scans()}).items():
        (tmp_path / name).write_bytes(data)
    assert fuzz(tmp_path, "files", *(path.name for path in tmp_path.iterdir())) == (0, 7)


def floors(count: int, side: float) -> bytes:
    """Storeys of one square floor each, ten metres apart."""
    glb = Glb()
    floor = np.array([[0, 0, 0], [0, 0, side], [side, 0, side], [side, 0, 0]], np.float32)
    glb.mesh(glb.primitive(floor))
    glb.json["nodes"] = [{"mesh": 0, "translation": [0, 10 * storey, 0]} for storey in range(count)]
    glb.json["scenes"] = [{"nodes": list(range(count))}]
    return glb.bytes()


def tall_picture() -> bytes:
    """A picture of 64 million pixels in a file of 8 kB, each a row of its own."""
    glb = Glb()
    stream = io.BytesIO()
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 1, 2**26, 1, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(2**27), 9))]
    stream.write(b"\x89PNG\r\n\x1a\n")
    for kind, data in [*chunks, (b"IEND", b"")]:
        stream.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    glb.json["images"].append({"bufferView": glb.view(stream.getvalue())})
    glb.json["textures"].append({"source": 0})
    material = glb.material(pbrMetallicRoughness={"baseColorTexture": {"index": 0}})
    return glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=material)).bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
def test_large_floors_load(tmp_path):
    (tmp_path / "one.glb").write_bytes(floors(1, 400.0))
    (tmp_path / "many.glb").write_bytes(floors(400, 100.0))
    assert fuzz(tmp_path, "files", "one.glb", "many.glb") == (2, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
def test_a_picture_one_pixel_wide_is_refused(tmp_path):
    (tmp_path / "tall.glb").write_bytes(tall_picture())
    assert fuzz(tmp_path, "files", "tall.glb") == (0, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
@pytest.mark.slow
def test_long_comments_of_off_are_passed_over(tmp_path):
    body = b"3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
    (tmp_path / "one.off").write_bytes(b"OFF\n#" + b"x" * 100_000_000 + b"\n" + body)
    (tmp_path / "many.off").write_bytes(b"OFF\n" + b"#\n" * 20_000_000 + body)
    (tmp_path / "lies.off").write_bytes(b"OFF\n999999999999 1 0\n0 0 0\n")
    (tmp_path / "short.off").write_bytes(b"OFF\n1000 1 0\n0 0 0\n")
    assert fuzz(tmp_path, "files", "one.off", "many.off", "lies.off", "short.off") == (2, 2)


def deep_folders(folder):
    inner = folder
    for _ in range(12):
        inner = inner / "f"
    inner.mkdir(parents=True)
    (folder / "f" / "again").symlink_to(folder)
    (folder / "f" / "f" / "once_more").symlink_to(folder / "f")


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")
@pytest.mark.parametrize(
    ("patterns", "outcome"),
    [
        (["/".join(["**"] * 14) + "/*.glb", "**/*/**/*/**/*/**/x*"], (1, 0)),
        ([f"{k}/**/*" for k in range(100_000)], (0, 1)),
        (["/".join(["*"] * 3000)], (0, 1)),
        (["*" + "a*" * 1000 + "b"], (1, 0)),
    ],
)
@pytest.mark.slow
def test_patterns_of_a_dataset_are_matched_in_time(tmp_path, patterns, outcome):
    instance = write_dataset(tmp_path, [{"template_name": "crate"}])
    deep_folders(tmp_path)
    path = tmp_path / "home.scene_dataset_config.json"
    dataset = json.loads(path.read_text())
    dataset["objects"]["paths"][".glb"] += patterns
    path.write_text(json.dumps(dataset))
    assert fuzz(tmp_path, "files", instance) == outcome


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    whole = square().bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "cut.glb").write_bytes(whole[:length])
        with pytest.raises(SceneError, match=r"cut\.glb"):
            load_scene(tmp_path / "cut.glb")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.lists(
        st.sampled_from(["v", "vt", "f", "o", "g", "usemtl", "\n", " ", "1", "-1", "0", "1/1", "nan", "#", "\\\n"])
    )
)
def test_any_words_of_an_obj_give_a_sound_scene_or_a_scene_error(tmp_path, text):
    (tmp_path / "s.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n" + " ".join(text))
    try:
        scene = load_scene(tmp_path / "s.obj")
    except SceneError:
        return
    assert np.isfinite(scene.vertices).all() and scene.triangles.max() < len(scene.vertices)
