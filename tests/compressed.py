"""Compressed textures and meshes that independent encoders wrote, and GLB files that hold them."""

import base64

import numpy as np
import pytest
from glb import Glb, four_colors, pictured

# 16 x 16 pixels, written by the npm package ktx2-encoder 0.6.0 (Binomial's encoder) as
# encodeToKTX2(image, {isUASTC, needSupercompression, generateMipmap, qualityLevel: 255, isSetKTX2SRGBTransferFunc})
# of four quarters: red and green above blue and half-transparent grey.
QUARTERS = np.array([[[255, 0, 0, 255], [0, 255, 0, 255]], [[0, 0, 255, 255], [128, 128, 128, 128]]])
KTX2_FILES = {
    "etc1s": (
        "q0tUWCAyMLsNChoKAAAAAAEAAAAQAAAAEAAAAAAAAAAAAAAAAQAAAAEAAAABAAAAaAAAADwAAACkAAAAJAAAAMgAAAAAAAAAlAAAAAAAAABcAQAA"
        "AAAAAAwAAAAAAAAAAAAAAAAAAAA8AAAAAAAAAAIAOACjAQIAAwMAAAgIAAAAAAAAAAA/AAAAAAAAAAAA/////0AAPw8AAAAAAAAAAP////8fAAAA"
        "S1RYd3JpdGVyAEJhc2lzIFVuaXZlcnNhbCAyLjUwAAAFAAIAMQAAAAkAAAAyAAAAAAAAAAAAAAAAAAAABgAAAAYAAAAGAAAAIMBEAAAAAAAQtMEI"
        "RQATAQAAAAAASAIRwIQAAQAAAACSBxCAKQAAAAAAECgLRqL/AayqqqpSVVVVBRTAhAABAAAAENSFsACYACAAAAAAgVyGgLkBAwAAAQAsSgxGJzjF"
        "ATADAAAAAACAHCAAgjh2gC4SjmunK98G"
    ),
    "etc1s_mips": (
        "q0tUWCAyMLsNChoKAAAAAAEAAAAQAAAAEAAAAAAAAAAAAAAAAQAAAAUAAAABAAAAyAAAADwAAAAEAQAAJAAAACgBAAAAAAAAKQEAAAAAAABjAgAA"
        "AAAAABEAAAAAAAAAAAAAAAAAAABbAgAAAAAAAAgAAAAAAAAAAAAAAAAAAABXAgAAAAAAAAQAAAAAAAAAAAAAAAAAAABTAgAAAAAAAAQAAAAAAAAA"
        "AAAAAAAAAABRAgAAAAAAAAIAAAAAAAAAAAAAAAAAAAA8AAAAAAAAAAIAOACjAQIAAwMAAAgIAAAAAAAAAAA/AAAAAAAAAAAA/////0AAPw8AAAAA"
        "AAAAAP////8fAAAAS1RYd3JpdGVyAEJhc2lzIFVuaXZlcnNhbCAyLjUwAAAQAAsASgAAAC0AAAA6AAAAAAAAAAAAAAAAAAAACgAAAAoAAAAHAAAA"
        "AAAAAAAAAAAEAAAABAAAAAQAAAAAAAAAAAAAAAIAAAACAAAAAgAAAAAAAAAAAAAAAgAAAAIAAAACAAAAAAAAAAAAAAABAAAAAQAAAAEAAAAgQIQA"
        "AQAAQFAtcEBgFkAUAAEAAGEYWgY+OIMcwMMGAQAAQZ0FFAMDEYAICAIAAIAghQZJsD1gnzjwk1LduJK+gKuC9G+J47YtBXx9VVBQVVVVXRcUXF+1"
        "srJKpaKiqqqqqrq+vr6urwcFRUFBQQFQVQVQrapSBQDBhIABAABhGIYFMv+qLqgQQAQIAQCAYKB5SkuOCXgbNgDAIEwmH4jCpUeATXIAzAAAAAAA"
        "ACAHCAAEAqoCsgBmAPoAvhMYGzPWPAPRokWmUklMIp0OGXGiv/t9AA=="
    ),
    "uastc": (
        "q0tUWCAyMLsNChoKAAAAAAEAAAAQAAAAEAAAAAAAAAAAAAAAAQAAAAEAAAAAAAAAaAAAACwAAACUAAAALAAAAAAAAAAAAAAAAAAAAAAAAADAAAAA"
        "AAAAAAABAAAAAAAAAAEAAAAAAAAsAAAAAAAAAAIAKACmAQIAAwMAABAAAAAAAAAAAAB/AwAAAAAAAAAA/////x8AAABLVFh3cml0ZXIAQmFzaXMg"
        "VW5pdmVyc2FsIDIuNTAAAAQAAAB/fwAA9x8A4B96AAAAAAAAAAAAAPcfAOAfegAAAAAAAAAAAAAX4B/gHwIPAAAAAAAAAAAAF+Af4B8CDwAAAAAA"
        "AAAAAPcfAOAfegAAAAAAAAAAAAD3HwDgH3oAAAAAAAAAAAAAF+Af4B8CDwAAAAAAAAAAABfgH+AfAg8AAAAAAAAAAAAXAOD/HwLgAQAAAAAAAAAA"
        "FwDg/x8C4AEAAAAAAAAAABcQEBAQQAgBAAAAAAAAAAAXEBAQEEAIAQAAAAAAAAAAFwDg/x8C4AEAAAAAAAAAABcA4P8fAuABAAAAAAAAAAAXEBAQ"
        "EEAIAQAAAAAAAAAAFxAQEBBACAEAAAAAAAAAAA=="
    ),
    "uastc_zstd": (
        "q0tUWCAyMLsNChoKAAAAAAEAAAAQAAAAEAAAAAAAAAAAAAAAAQAAAAEAAAACAAAAaAAAACwAAACUAAAAJAAAAAAAAAAAAAAAAAAAAAAAAAC4AAAA"
        "AAAAADoAAAAAAAAAAAEAAAAAAAAsAAAAAAAAAAIAKACmAQIAAwMAABAAAAAAAAAAAAB/AwAAAAAAAAAA/////x8AAABLVFh3cml0ZXIAQmFzaXMg"
        "VW5pdmVyc2FsIDIuNTAAACi1L/1gAACFAQDg9x8A4B96ABfgH+AfAg8XAOD/HwLgARAQEBBACAcABBIAdplZuAOWAlhsJgIFMAI="
    ),
}
# Written by the npm package meshoptimizer 1.3.0: MeshoptEncoder.encodeGltfBuffer(data, count, stride, mode, version)
# of SQUARE and SQUARE_CORNERS.
SQUARE_V0 = "oAAAATMAAAD//wEzAAAAfn0AAAEMAAAA/wEMAAAAfgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="
SQUARE_V1 = "ofrqqgAAAP8AfwB+AAB/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEBAA=="
CORNERS = "4fAAAHaHVmd4qYZliWiYAWkAAA=="
SEQUENCE = "0QAECAIAAAAA"  # of 0 1 3 2


def ktx2_file(name):
    return base64.b64decode(KTX2_FILES[name])


def ktx2_square(name, source=None):
    """A square that wears a KTX2 texture, with or without the four colours in PNG."""
    glb = pictured()
    glb.json["images"].append({"bufferView": glb.view(ktx2_file(name)), "mimeType": "image/ktx2"})
    plain = {} if source is None else {"source": source}
    glb.json["textures"][0] = {"extensions": {"KHR_texture_basisu": {"source": 1}}} | plain
    glb.json["extensionsRequired"] = ["KHR_texture_basisu"]
    return glb


def meshopt_extension(data, count, stride, mode="ATTRIBUTES", **more):
    return {"buffer": 0, "byteLength": len(data), "count": count, "byteStride": stride, "mode": mode, **more}


def meshopt_square(name="EXT_meshopt_compression", vertices=SQUARE_V0, corners=CORNERS, mode="TRIANGLES", stride=2):
    """A square whose vertices and corners are compressed, with a buffer without data to fall back on."""
    glb = Glb()
    places = base64.b64decode(vertices)
    triangles = base64.b64decode(corners)
    count = 6 if mode == "TRIANGLES" else 4
    for data, compressed, size in (
        (places, meshopt_extension(places, 4, 12), 48),
        (triangles, meshopt_extension(triangles, count, stride, mode), count * stride),
    ):
        row = glb.view(data)
        at = glb.json["bufferViews"][row]["byteOffset"]
        compressed |= {"byteOffset": at}
        glb.json["bufferViews"][row] = {"buffer": 1, "byteLength": size, "extensions": {name: compressed}}
    glb.json["bufferViews"][0]["byteStride"] = 12
    kinds = {2: 5123, 4: 5125}
    glb.json["accessors"] = [
        {"bufferView": 0, "componentType": 5126, "type": "VEC3", "count": 4},
        {"bufferView": 1, "componentType": kinds[stride], "type": "SCALAR", "count": count},
    ]
    glb.json["buffers"] = [{"byteLength": len(glb.binary)}, {"byteLength": 48 + count * stride}]
    glb.json["extensionsRequired"] = [name]
    primitive = {"attributes": {"POSITION": 0}, "indices": 1}
    return glb.mesh(primitive if mode == "TRIANGLES" else primitive | {"mode": 5})


def draco_square(**options):
    """A textured 3 x 3 grid, plain and compressed, as GLB builders."""
    dracopy = pytest.importorskip("DracoPy")
    grid = np.stack(np.meshgrid([0, 1, 2], [0, 1, 2]), axis=-1).reshape(-1, 2)
    vertices = np.concatenate([grid, grid[:, :1] * grid[:, 1:] / 4], axis=1).astype(np.float32)
    uvs = (grid / 2).astype(np.float32)
    corner = np.array([0, 1, 3, 4])
    triangles = (corner[:, None] + [0, 1, 4, 0, 4, 3]).reshape(-1, 3).astype(np.uint32)
    plain = Glb()
    packed = Glb()
    made = plain.primitive(vertices, triangles.ravel(), uvs, material=plain.picture(four_colors()))
    plain.mesh(made)
    data = dracopy.encode(vertices, triangles, quantization_bits=16, tex_coord=uvs.astype(np.float64), **options)
    kinds = {0: "POSITION", 3: "TEXCOORD_0"}  # Draco's numbers for them
    found = {kinds[entry["attribute_type"]]: entry["unique_id"] for entry in dracopy.decode(data).attributes}
    part = packed.primitive(vertices, triangles.ravel(), uvs, material=packed.picture(four_colors()))
    extension = {"bufferView": packed.view(data), "attributes": found}
    part["extensions"] = {"KHR_draco_mesh_compression": extension}
    packed.mesh(part)
    packed.json["extensionsRequired"] = ["KHR_draco_mesh_compression"]
    for accessor in packed.json["accessors"]:
        del accessor["bufferView"]
    return plain, packed
