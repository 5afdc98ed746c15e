"""BufferViews compressed by meshoptimizer: what an independent encoder wrote, round trips, and invalid data."""

import base64
import sys

import numpy as np
import pytest
from compressed import SEQUENCE, SQUARE_V0, SQUARE_V1, meshopt_extension, meshopt_square
from glb import SQUARE, SQUARE_CORNERS
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.scene.formats import gltf_document
from gym_batchnav.scene.formats.gltf_codecs import decode_meshopt, meshopt_size
from gym_batchnav.scene.load import SceneError

# Of the same encoder: what encodeFilterExp, encodeFilterOct, encodeFilterQuat and encodeFilterColor made of VALUES.
FILTERED = {
    "EXPONENTIAL 12": (
        "oAABPwAAAEAvDwABPAAAAMgEAAEMAAAAQAABPAAAAMgEAAEDAAAAXwEBAAAAATwAAADIBAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAAAjgAAAI4AAACO"
    ),
    "OCTAHEDRAL 4": ("oAE/AAAA/v39AQ8AAAD9bwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAfwA="),
    "OCTAHEDRAL 8": ("oAEaAAAAAT8AAAAODQ8BCwAAAN0BDwAAAA8YAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD/BwAA"),
    "QUATERNION 8": (
        "oAEDAAAAsQEDAAAACgETAAAArwEzAAAADgMBAwAAALEBAwAAAAoBNAAAAAMAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/wc="
    ),
    "COLOR 4": ("oAE/AAAAfn2AAT8AAAD9/f4BPwAAAIOCgAEPAAAAfX4AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQH/B/w=="),
    "COLOR 8": (
        "oAEYAAAAAT8AAAB+fYABKQAAAAE/AAAA/f//ATgAAAADAT8AAACBgoABCQAAAAEPAAAAfX4AAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAAAAAAAQP9/AcD//w=="
    ),
}
HALF = np.sqrt(0.5)
VALUES = {
    "EXPONENTIAL": [[0, 0, 0], [0.5, 0, 0], [0.5, 2, 0], [0, 2, -3]],
    "OCTAHEDRAL": [[0, 0, 1, 0], [1, 0, 0, 0], [0, -1, 0, 0], [-0.6, 0, -0.8, 0]],
    "QUATERNION": [[0, 0, 0, 1], [0, HALF, 0, HALF], [HALF, 0, HALF, 0], [0.5, 0.5, 0.5, 0.5]],
    "COLOR": [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0.5], [0.5, 0.5, 0.5, 1]],
}
TYPES = {"EXPONENTIAL 12": "<f4", "OCTAHEDRAL 4": "i1", "OCTAHEDRAL 8": "<i2", "QUATERNION 8": "<i2"}
TYPES |= {"COLOR 4": "u1", "COLOR 8": "<u2"}

meshopt = pytest.importorskip("meshopt")  # it needs Python 3.11


@pytest.mark.parametrize("kind", FILTERED)
def test_filters_are_undone(kind):
    name, stride = kind.split()
    data = base64.b64decode(FILTERED[kind])
    raw = decode_meshopt(data, meshopt_extension(data, 4, int(stride), filter=name))
    found = np.frombuffer(raw, TYPES[kind]).reshape(4, -1)
    whole = 1.0 if found.dtype.kind == "f" else np.iinfo(found.dtype).max
    expected = np.array(VALUES[name])
    coarse = 0.02 if name == "OCTAHEDRAL" or kind == "COLOR 4" else 2e-3
    np.testing.assert_allclose(found / whole, expected, atol=coarse)


@pytest.mark.parametrize(
    ("name", "vertices"), [("EXT_meshopt_compression", SQUARE_V0), ("KHR_meshopt_compression", SQUARE_V1)]
)
def test_a_compressed_square_is_a_square(tmp_path, name, vertices):
    scene = meshopt_square(name, vertices).load(tmp_path)
    corners = scene.vertices[scene.triangles]
    # The codec may start a triangle at another corner.
    expected = SQUARE[SQUARE_CORNERS].reshape(2, 3, 3)
    turned = [np.roll(expected[k], -j, axis=0) for k in range(2) for j in range(3)]
    assert all(any(np.array_equal(corner, one) for one in turned) for corner in corners)
    strip = meshopt_square(name, vertices, SEQUENCE, "INDICES", 4).load(tmp_path)
    assert len(strip.triangles) == 2
    np.testing.assert_array_equal(strip.bounds, scene.bounds)


@given(st.integers(1, 2000), st.integers(1, 12), st.integers(0, 1), st.integers(0, 2**32 - 1))
def test_what_was_encoded_comes_back(count, words, version, seed):
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.integers(-3, 4, (count, words)), axis=0).astype(np.int32)
    data = meshopt.encode_gltf_buffer(values, "ATTRIBUTES", version)
    assert decode_meshopt(data, meshopt_extension(data, count, 4 * words)) == values.tobytes()
    assert meshopt_size(meshopt_extension(data, count, 4 * words), 10**6) == values.nbytes  # no honest data is refused
    corners = rng.integers(0, count, 3 * count).astype(np.uint32)
    data = meshopt.encode_gltf_buffer(corners, "INDICES")
    assert decode_meshopt(data, meshopt_extension(data, 3 * count, 4, "INDICES")) == corners.tobytes()
    same = np.zeros(3 * count, np.uint32)
    for mode in ("TRIANGLES", "INDICES"):
        data = meshopt.encode_gltf_buffer(same, mode)
        assert meshopt_size(meshopt_extension(data, 3 * count, 4, mode), 10**6) == same.nbytes
    data = meshopt.encode_gltf_buffer(np.zeros((count, words), np.int32), "ATTRIBUTES", version)
    assert meshopt_size(meshopt_extension(data, count, 4 * words), 10**6) == 4 * words * count


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mode": "LINES"}, "meshopt mode 'LINES' is none of"),
        ({"mode": ["ATTRIBUTES"]}, "meshopt mode"),
        ({"filter": "NOISE"}, "filter 'NOISE' is unknown for ATTRIBUTES"),
        ({"mode": "INDICES", "filter": "COLOR"}, "filter 'COLOR' is unknown for INDICES"),
        ({"byteStride": 10}, "4 elements of 10 bytes, which mode ATTRIBUTES with filter NONE"),
        ({"filter": "QUATERNION"}, "4 elements of 12 bytes, which mode ATTRIBUTES with filter QUATERNION"),
        ({"byteStride": 300}, "byteStride 300"),
        ({"count": -1}, "count -1"),
        ({"count": 10**6}, "declares 1,000,000 elements, more than it can hold"),
        ({"count": 4000}, "meshopt data cannot be decoded"),
        ({"byteLength": 40}, "meshopt data cannot be decoded"),
        ({"byteLength": 10**6}, "the meshopt data of bufferView 0 exceeds its buffer"),
        ({"buffer": 1}, "buffer 1 has no data"),
    ],
)
def test_lies_are_refused_by_name(tmp_path, changes, reason):
    glb = meshopt_square()
    glb.json["bufferViews"][0]["extensions"]["EXT_meshopt_compression"] |= changes
    with pytest.raises(SceneError, match=reason):
        glb.load(tmp_path)


def test_what_all_views_expand_to_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(gltf_document, "FREE_BYTES", 59)
    monkeypatch.setattr(gltf_document, "BYTES_PER_BYTE", 0)
    with pytest.raises(SceneError, match="meshopt data expands to more than 59 bytes"):
        meshopt_square().load(tmp_path)


def test_without_its_extra_it_is_refused_by_name_unless_there_is_a_plain_copy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "meshopt", None)
    glb = meshopt_square()
    with pytest.raises(SceneError, match=r"needs meshopt: .*gym-batchnav\[formats\].*npx @gltf-transform/cli copy"):
        glb.load(tmp_path)
    (tmp_path / "plain.bin").write_bytes(SQUARE.tobytes() + SQUARE_CORNERS.tobytes())
    glb.json["buffers"][1]["uri"] = "plain.bin"
    glb.json["bufferViews"][1]["byteOffset"] = 48
    np.testing.assert_array_equal(glb.load(tmp_path).vertices, SQUARE)
