"""Saving of scenes as GLB files, which ``load_scene`` reads back unchanged."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.scene.categories import GENERATOR, SceneObject
from gym_batchnav.scene.files import SceneError
from gym_batchnav.scene.formats.gltf_codecs import CHUNK_BIN, CHUNK_JSON, GLB_MAGIC
from gym_batchnav.scene.formats.gltf_document import COMPONENTS, FILTER, WRAP
from gym_batchnav.scene.images import encode_texture
from gym_batchnav.scene.scene import LINEAR, MASK, REPEAT, Scene
from gym_batchnav.system.storage import write_atomically

_JPEG_QUALITY = 88
_SAME_PLACE = 1e-4  # metres: copies of a prototype that agree this closely share its mesh
_WRAP_CODE = {wrap: code for code, wrap in WRAP.items()}
_FILTER_CODE = {kind: code for code, kind in FILTER.items()}
_COMPONENT_CODE = {dtype: code for code, dtype in COMPONENTS.items()}
_ARRAY_BUFFER = 34962
_ELEMENT_BUFFER = 34963


def save_glb(scene: Scene, path: str | Path) -> None:
    """Write a scene as a GLB file with one node per object, without its navmesh and metadata.

    ``load_scene`` returns the same objects, triangles, uvs and vertex colours, with triangles sorted by object and
    material. Opaque textures are written as JPEG of quality 88, or as PNG if that is smaller; others as PNG.

    If ``scene.metadata["instances"]`` maps semantic ids to pairs (name of a prototype, [4, 4] matrix from the
    prototype's frame to the world), objects that are equal in their prototype's frame share one mesh. Their vertices
    are restored within 0.1 mm.

    Args:
        scene: The scene; every triangle belongs to an object and every object has a triangle.
        path: The file, ending in ``.glb``. It is replaced atomically.

    Raises:
        SceneError: If there are triangles without object, objects without triangles, or a texture of a size that
            neither JPEG nor PNG supports.
        OSError: If the file cannot be written.
    """
    path = Path(path)
    if path.suffix.lower() != ".glb":
        raise SceneError(path, "scenes are saved as GLB: choose a name that ends in .glb")
    write_atomically(path, glb_bytes(scene))


def glb_bytes(scene: Scene) -> bytes:
    """Return the content of the file that ``save_glb`` writes.

    Raises:
        SceneError: See ``save_glb``.
    """
    count = len(scene.objects)
    sizes = np.bincount(scene.triangle_object, minlength=count + 1)
    if sizes[0] or len(sizes) > count + 1 or not sizes[1:].all():
        raise SceneError(
            scene.name,
            f"to be saved, every triangle must have an object and every object a triangle, but {sizes[0]:,} triangles "
            f"have no object, {(sizes[1 : count + 1] == 0).sum():,} of {count:,} objects no triangle, and "
            f"{sizes[count + 1 :].sum():,} triangles a number above {count:,}: correct triangle_object",
        )
    return _Writer(scene).glb()


@dataclass(frozen=True, slots=True, eq=False)
class _ObjectCorners:
    """The corners [3T] of an object's triangles, ordered by material."""

    positions: np.ndarray  # [3T, 3] float64
    attributes: np.ndarray  # [3T, 12] uint8, the bytes of uvs and colours
    materials: np.ndarray  # [T] int32, ascending


class _Writer:
    """The JSON and the binary data of one GLB file."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._binary = bytearray()
        self._image_rows: dict[int, int] = {}
        self._material_rows: dict[int, int] = {}
        self._json: dict[str, list[Any]] = {
            key: []
            for key in ("nodes", "meshes", "accessors", "materials", "textures", "samplers", "images", "bufferViews")
        }

    def glb(self) -> bytes:
        self._add_objects()
        binary = bytes(self._binary)
        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": GENERATOR},
            "scene": 0,
            "scenes": [{"name": self._scene.name, "nodes": list(range(len(self._json["nodes"])))}],
            **{key: items for key, items in self._json.items() if items},
            "buffers": [{"byteLength": len(binary)}],
        }
        text = json.dumps(document, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        length = 12 + 8 + len(text) + 8 + len(binary)
        header = GLB_MAGIC + struct.pack("<4I", 2, length, len(text), CHUNK_JSON)
        return header + text + struct.pack("<2I", len(binary), CHUNK_BIN) + binary

    def _add_objects(self) -> None:
        scene = self._scene
        order = np.lexsort((scene.triangle_material, scene.triangle_object))
        ends = np.cumsum(np.bincount(scene.triangle_object)).tolist()
        instances = _instances(scene)
        copies = Counter(prototype for prototype, _ in instances.values())
        first: dict[object, tuple[_ObjectCorners, int]] = {}
        for number, one in enumerate(scene.objects, start=1):
            node = _named(one)
            corners = self._corners(order[ends[number - 1] : ends[number]])
            prototype, matrix = instances.get(number, (None, np.eye(4)))
            if copies[prototype] < 2 or not np.linalg.det(matrix[:3, :3]) > 1e-6:  # mirrors would swap the sides
                self._json["nodes"].append({**node, "mesh": self._add_mesh(corners)})
                continue
            if prototype not in first:
                local = (corners.positions - matrix[:3, 3]) @ np.linalg.inv(matrix[:3, :3]).T
                model = _ObjectCorners(
                    local.astype(np.float32).astype(np.float64), corners.attributes, corners.materials
                )
                first[prototype] = model, self._add_mesh(model)
            model, mesh = first[prototype]
            if _same(model, matrix, corners):
                values = [float(value) for value in matrix.T.ravel()]
                self._json["nodes"].append({**node, "mesh": mesh, "matrix": values})
            else:
                self._json["nodes"].append({**node, "mesh": self._add_mesh(corners)})

    def _corners(self, rows: np.ndarray) -> _ObjectCorners:
        """Return the corners of some triangles with their attributes; attributes without effect are zero."""
        scene = self._scene
        corners = scene.triangles[rows].ravel()
        materials = scene.triangle_material[rows]
        textured = np.repeat(scene.materials.texture[materials] >= 0, 3)
        attributes = np.zeros((len(corners), 12), np.uint8)
        if scene.uvs is not None:
            attributes[textured, :8] = np.ascontiguousarray(scene.uvs[corners[textured]], "<f4").view(np.uint8)
        attributes[:, 8:] = scene.colors[corners] if scene.colors is not None else 255
        return _ObjectCorners(scene.vertices[corners].astype(np.float64), attributes, materials)

    def _add_mesh(self, corners: _ObjectCorners) -> int:
        """Add a mesh with one primitive per material and return its number."""
        primitives = []
        materials, starts = np.unique(corners.materials, return_index=True)
        ends = [*starts[1:].tolist(), len(corners.materials)]
        for material, start, end in zip(materials.tolist(), starts.tolist(), ends, strict=True):
            mine = slice(3 * start, 3 * end)
            positions = corners.positions[mine].astype("<f4")
            primitives.append(self._primitive(positions, corners.attributes[mine], material))
        self._json["meshes"].append({"primitives": primitives})
        return len(self._json["meshes"]) - 1

    def _primitive(self, positions: np.ndarray, attributes: np.ndarray, material: int) -> dict[str, Any]:
        """Return a primitive of corners [C], in which equal corners share a vertex."""
        rows = np.concatenate([positions.view(np.uint8), attributes], axis=1)
        whole_rows = rows.view(np.dtype((np.void, rows.shape[1])))[:, 0]
        _, first, inverse = np.unique(whole_rows, return_index=True, return_inverse=True)
        order = np.argsort(first)  # vertices in the order in which triangles first use them
        rank = np.argsort(order)
        kept = first[order]
        # Index 65,535 is reserved: it restarts primitives.
        indices = rank[inverse.ravel()].astype("<u2" if len(kept) < 65536 else "<u4")
        positions = positions[kept]
        attributes = attributes[kept]
        bounds = {"min": _short(positions.min(axis=0)), "max": _short(positions.max(axis=0))}
        found = {"POSITION": self._accessor(positions, "VEC3", **bounds)}
        if self._scene.materials.texture[material] >= 0 and self._scene.uvs is not None:
            found["TEXCOORD_0"] = self._accessor(attributes[:, :8].copy().view("<f4"), "VEC2")
        colors = attributes[:, 8:]
        if (colors != 255).any():
            found["COLOR_0"] = self._accessor(colors, "VEC4", normalized=True)
        corner_row = self._accessor(indices, "SCALAR")
        return {"attributes": found, "indices": corner_row, "material": self._material(material)}

    def _accessor(self, values: np.ndarray, shape: str, **more: Any) -> int:
        view = self._view(values.tobytes(), target=_ELEMENT_BUFFER if shape == "SCALAR" else _ARRAY_BUFFER)
        component = _COMPONENT_CODE[values.dtype.type]
        accessor = {"bufferView": view, "componentType": component, "count": len(values), "type": shape, **more}
        self._json["accessors"].append(accessor)
        return len(self._json["accessors"]) - 1

    def _view(self, data: bytes, **more: int) -> int:
        view = {"buffer": 0, "byteOffset": len(self._binary), "byteLength": len(data), **more}
        self._binary += data + b"\0" * (-len(data) % 4)
        self._json["bufferViews"].append(view)
        return len(self._json["bufferViews"]) - 1

    def _material(self, row: int) -> int:
        if row not in self._material_rows:
            materials = self._scene.materials
            surface: dict[str, Any] = {"metallicFactor": 0}
            if (materials.base_color[row] != 1).any():
                surface["baseColorFactor"] = _short(materials.base_color[row])
            if materials.texture[row] >= 0:
                surface["baseColorTexture"] = {"index": self._texture(row)}
            material: dict[str, Any] = {"pbrMetallicRoughness": surface}
            if materials.alpha_mode[row] == MASK:
                material |= {"alphaMode": "MASK", "alphaCutoff": _short(materials.alpha_cutoff[row : row + 1])[0]}
            if materials.double_sided[row]:
                material["doubleSided"] = True
            self._json["materials"].append(material)
            self._material_rows[row] = len(self._json["materials"]) - 1
        return self._material_rows[row]

    def _texture(self, row: int) -> int:
        """Return the number of a material's texture, which combines an image, its wrapping and its filter."""
        image = int(self._scene.materials.texture[row])
        if image not in self._image_rows:
            try:
                data, kind = encode_texture(self._scene.textures[image], _JPEG_QUALITY)
            except ValueError as error:
                raise SceneError(self._scene.name, f"texture {image}: {error}") from error
            self._image_rows[image] = len(self._json["images"])
            self._json["images"].append({"bufferView": self._view(data), "mimeType": kind})
        wrap_u, wrap_v = self._scene.materials.wrap[row].tolist()
        filtered = int(self._scene.materials.filter[row])
        texture = {"source": self._image_rows[image]}
        if (wrap_u, wrap_v, filtered) != (REPEAT, REPEAT, LINEAR):
            sampler = {"wrapS": _WRAP_CODE[wrap_u], "wrapT": _WRAP_CODE[wrap_v]}
            if filtered != LINEAR:
                sampler["magFilter"] = _FILTER_CODE[filtered]
            texture["sampler"] = _number_of(self._json["samplers"], sampler)
        return _number_of(self._json["textures"], texture)


def _named(one: SceneObject) -> dict[str, Any]:
    """Return a node's name, and as its extras what reading the name alone would not give."""
    by_name = SceneObject.generated(one.name)
    extras: dict[str, Any] = {} if by_name.category == one.category else {"category": one.category}
    if not one.solid:
        extras["solid"] = False
    return {"name": one.name, "extras": extras} if extras else {"name": one.name}


def _instances(scene: Scene) -> dict[int, tuple[object, np.ndarray]]:
    """Return the prototype and the matrix [4, 4] float64 of the objects that the metadata lists as instances."""
    found = scene.metadata.get("instances")
    if not isinstance(found, Mapping):
        return {}
    return {int(number): (prototype, np.asarray(matrix, np.float64)) for number, (prototype, matrix) in found.items()}


def _same(model: _ObjectCorners, matrix: np.ndarray, corners: _ObjectCorners) -> bool:
    """Return whether a model placed by a matrix equals the corners of an object."""
    return (
        np.array_equal(model.materials, corners.materials)
        and np.array_equal(model.attributes, corners.attributes)
        and bool((np.abs(model.positions @ matrix[:3, :3].T + matrix[:3, 3] - corners.positions) < _SAME_PLACE).all())
    )


def _short(values: np.ndarray) -> list[float]:
    """Return the shortest decimal numbers that round to these float32."""
    return [float(str(np.float32(value))) for value in values]


def _number_of(items: list[Any], item: dict[str, Any]) -> int:
    """Return the position of an item in a list, to which it is appended if it is new."""
    if item not in items:
        items.append(item)
    return items.index(item)
