"""GLB files put together by hand, for tests of the loader."""

import io
import json
import struct

import numpy as np
from PIL import Image

from gym_batchnav.scene.load import load_scene

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
            document.setdefault("buffers", [{"byteLength": len(self.binary)}])
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


def pictured(pixels=None):
    """A square that wears a picture, by default the four colours."""
    glb = Glb()
    material = glb.picture(four_colors() if pixels is None else pixels)
    return glb.mesh(glb.primitive(uvs=SQUARE_UVS, material=material))


def four_colors():
    """A picture of 2 x 2 pixels: red green / blue white."""
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)
    return pixels.repeat(4, axis=0).repeat(4, axis=1)


def soup(scene):
    return scene.vertices[scene.triangles].astype(np.float64)
