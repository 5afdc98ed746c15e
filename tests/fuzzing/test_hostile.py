"""Hostile scenes: each is loaded soundly or raises a SceneError, in bounded time and memory."""

import io
import json
import struct
import sys
import zlib

import numpy as np
import pytest
from glb import SQUARE_UVS, Glb, square
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from fuzzing.run import FAILED, Process
from fuzzing.samples import INSTANCE, write_dataset
from gym_batchnav.scene.load import SceneError, load_scene

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """A function that loads files, of which each may take ten seconds and one GiB, and counts those loaded and refused.

    It loads them in a process, which is replaced after a failure.
    """
    samples = tmp_path_factory.mktemp("samples")
    (samples / "load").mkdir()
    (samples / "load" / "warm.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    processes = [Process(samples, ["load"])]

    def outcomes(folder, *names):
        counts = {"loaded": 0, "refused": 0}
        for name in names:
            outcome, reason = processes[-1].attempt("load", folder, name)
            if outcome == FAILED:
                processes[-1].close()
                processes.append(Process(samples, ["load"]))
                pytest.fail(f"{name}: {reason}")
            counts[outcome] += 1
        return tuple(counts.values())

    yield outcomes
    processes[-1].close()


@linux
@pytest.mark.parametrize(("count", "outcome"), [(100_000, (1, 0)), (1_000_000, (0, 1))])
@pytest.mark.slow
def test_a_dataset_of_many_objects_is_loaded_or_refused_in_time(outcomes, tmp_path, count, outcome):
    write_dataset(tmp_path, [{"template_name": "crate"}] * count)
    assert outcomes(tmp_path, INSTANCE) == outcome


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


def wearing(picture: bytes, times: int = 1) -> bytes:
    """Squares that wear a picture, each by an image of its own."""
    glb = Glb()
    view = glb.view(picture)
    parts = []
    for index in range(times):
        glb.json["images"].append({"bufferView": view})
        glb.json["textures"].append({"source": index})
        material = glb.material(pbrMetallicRoughness={"baseColorTexture": {"index": index}})
        parts.append(glb.primitive(uvs=SQUARE_UVS, material=material))
    return glb.mesh(*parts).bytes()


def pictures() -> bytes:
    """Two billion pixels."""
    stream = io.BytesIO()
    Image.new("1", (8192, 8192)).save(stream, "PNG")
    return wearing(stream.getvalue(), times=30)


def entries() -> bytes:
    """Eight million JSON objects and lists."""
    return b'{"asset": {"version": "2.0"}, "x": [' + b'{"":[]},' * 4_000_000 + b"{}]}"


def polygon() -> bytes:
    """A face of nine million corners."""
    return b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf" + b" 1 2 3" * 3_000_000


def scans() -> bytes:
    """A picture of 64 million pixels that is gone over five hundred times."""
    stream = io.BytesIO()
    Image.new("L", (8192, 8192), 7).save(stream, "JPEG", progressive=True)
    data = stream.getvalue()
    return wearing(data[:-2] + data[data.rindex(b"\xff\xc4") : -2] * 500 + data[-2:])


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


@linux
@pytest.mark.slow
def test_long_texts_are_refused_in_time(outcomes, tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.obj").write_bytes(text)
    assert outcomes(tmp_path, *(path.name for path in tmp_path.iterdir())) == (0, len(TEXTS))


@linux
@pytest.mark.slow
def test_small_files_that_stand_for_much_are_refused(outcomes, tmp_path):
    made = {"a.glb": strips(), "b.glb": copies(), "c.glb": specks(), "d.glb": pictures(), "e.gltf": entries()}
    for name, data in (made | {"f.obj": polygon(), "g.glb": scans()}).items():
        (tmp_path / name).write_bytes(data)
    assert outcomes(tmp_path, *(path.name for path in tmp_path.iterdir())) == (0, 7)


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
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 1, 2**26, 1, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(2**27), 9))]
    picture = b"\x89PNG\r\n\x1a\n"
    for kind, data in [*chunks, (b"IEND", b"")]:
        picture += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return wearing(picture)


@linux
def test_large_floors_load_and_a_picture_one_pixel_wide_is_refused(outcomes, tmp_path):
    made = {"one.glb": floors(1, 400.0), "many.glb": floors(400, 100.0), "tall.glb": tall_picture()}
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    assert outcomes(tmp_path, "one.glb", "many.glb") == (2, 0)
    assert outcomes(tmp_path, "tall.glb") == (0, 1)


@linux
@pytest.mark.slow
def test_long_comments_of_off_are_passed_over(outcomes, tmp_path):
    body = b"3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
    (tmp_path / "one.off").write_bytes(b"OFF\n#" + b"x" * 100_000_000 + b"\n" + body)
    (tmp_path / "many.off").write_bytes(b"OFF\n" + b"#\n" * 20_000_000 + body)
    (tmp_path / "lies.off").write_bytes(b"OFF\n999999999999 1 0\n0 0 0\n")
    (tmp_path / "short.off").write_bytes(b"OFF\n1000 1 0\n0 0 0\n")
    assert outcomes(tmp_path, "one.off", "many.off", "lies.off", "short.off") == (2, 2)


def deep_folders(folder):
    inner = folder
    for _ in range(12):
        inner = inner / "f"
    inner.mkdir(parents=True)
    (folder / "f" / "again").symlink_to(folder)
    (folder / "f" / "f" / "once_more").symlink_to(folder / "f")


@linux
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
def test_patterns_of_a_dataset_are_matched_in_time(outcomes, tmp_path, patterns, outcome):
    write_dataset(tmp_path, [{"template_name": "crate"}])
    deep_folders(tmp_path)
    path = tmp_path / "home.scene_dataset_config.json"
    dataset = json.loads(path.read_text())
    dataset["objects"]["paths"][".glb"] += patterns
    path.write_text(json.dumps(dataset))
    assert outcomes(tmp_path, INSTANCE) == outcome


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
