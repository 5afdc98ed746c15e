"""glTF scenes: nodes, meshes and materials into a SceneBuilder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gym_batchnav.scene.assemble import Part, SceneBuilder, Surface
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.gltf import GltfDocument, extensions, numbers, whole
from gym_batchnav.scene.mesh import CLAMP, MASK, MIRROR, OPAQUE, REPEAT

_WRAP = {10497: REPEAT, 33071: CLAMP, 33648: MIRROR}
_TRIANGLES, _STRIP, _FAN = 4, 5, 6


def read_gltf(files: SceneFiles, builder: SceneBuilder) -> None:
    """Add a glTF file's default scene to a builder, one object for each node that has triangles.

    Args:
        files: The scene's files; the main one is a ``.glb`` or a ``.gltf``.
        builder: Gets the content.

    Raises:
        ValueError: the file is damaged or uses what is not supported.
        OSError: a buffer's file is missing.
    """
    document = GltfDocument(files)
    reader = _Reader(document, builder)
    identity = np.eye(4)
    if document.count("nodes"):
        for index, node, matrix in document.placed_nodes():
            if "mesh" in node:
                parts = reader.mesh_parts(node["mesh"])
                builder.add_object(str(node.get("name") or f"node_{index}"), parts, matrix)
    else:
        files.warnings.append("The file has meshes but no nodes: each mesh was placed once, at the origin")
        for index in range(document.count("meshes")):
            name = document.item("meshes", index).get("name")
            builder.add_object(str(name or f"mesh_{index}"), reader.mesh_parts(index), identity)
    if reader.num_skipped:
        files.warnings.append(f"{reader.num_skipped} primitives of lines or points were left out")
    if document.count("skins"):
        files.warnings.append("The file has skins: skinned meshes stand as they were modelled, unposed")


class _Reader:
    """Turns meshes and materials into parts and surfaces, each once."""

    def __init__(self, document: GltfDocument, builder: SceneBuilder) -> None:
        self._document = document
        self._builder = builder
        self._meshes: dict[object, list[Part]] = {}
        self._images: dict[object, int] = {}
        self.num_skipped = 0

    def mesh_parts(self, index: object) -> list[Part]:
        """The parts of a mesh, one a primitive."""
        mesh = self._document.item("meshes", index)
        if index not in self._meshes:
            found = [self._primitive_part(primitive) for primitive in mesh.get("primitives", [])]
            self._meshes[index] = [part for part in found if part is not None]
        return self._meshes[index]

    def _primitive_part(self, primitive: Mapping[str, Any]) -> Part | None:
        mode, attributes = whole(primitive, "mode", _TRIANGLES, high=_FAN), primitive["attributes"]
        if mode < _TRIANGLES:
            self.num_skipped += 1
            return None
        if "POSITION" not in attributes:
            return None
        document = self._document
        vertices = document.accessor(attributes["POSITION"], (3,))
        if "indices" in primitive:
            corners = document.accessor(primitive["indices"], (1,))[:, 0]
            if corners.dtype.kind != "u":
                raise ValueError(f"accessor {primitive['indices']} holds indices that are no unsigned numbers")
        else:
            corners = np.arange(len(vertices), dtype=np.uint32)
        if len(corners) and int(corners.max()) >= len(vertices):
            raise ValueError(f"it has triangles of vertex {corners.max()}, of {len(vertices)}: the file is damaged")
        material = document.item("materials", primitive["material"]) if "material" in primitive else {}
        wear = _base_color_texture(material)
        uvs = self._uvs(attributes, wear, len(vertices)) if wear else None
        surface = self._surface(material, wear if uvs is not None else {})
        uvs = uvs if surface.image >= 0 else None
        colors = self._colors(attributes, len(vertices)) if "COLOR_0" in attributes else None
        return self._builder.part(vertices, _triangles(corners, mode), surface, uvs, colors)

    def _uvs(self, attributes: Mapping[str, Any], wear: Mapping[str, Any], count: int) -> np.ndarray | None:
        """The texture coordinates that a texture reference asks for, with its KHR_texture_transform applied."""
        transform = extensions(wear).get("KHR_texture_transform", {})
        name = f"TEXCOORD_{transform.get('texCoord', wear.get('texCoord', 0))}"
        if name not in attributes:
            return None
        uvs = _sized(self._document.accessor(attributes[name], (2,)), count, name)
        if not transform:
            return uvs
        angle = numbers({"rotation": [transform.get("rotation", 0.0)]}, "rotation", (0.0,))[0]
        u, v = (uvs * numbers(transform, "scale", (1.0, 1.0))).T
        # Counter-clockwise with v downwards, as all renderers do it: the listing in the specification is transposed.
        turned = np.stack([np.cos(angle) * u + np.sin(angle) * v, np.cos(angle) * v - np.sin(angle) * u], axis=1)
        return turned + numbers(transform, "offset", (0.0, 0.0))

    def _colors(self, attributes: Mapping[str, Any], count: int) -> np.ndarray:
        values = _sized(self._document.accessor(attributes["COLOR_0"], (3, 4)), count, "COLOR_0")
        if values.dtype.kind != "f":
            raise ValueError("its COLOR_0 is neither float nor normalized: re-export it")
        colors = np.full((count, 4), 255, np.uint8)
        colors[:, : values.shape[1]] = np.round(np.clip(np.nan_to_num(values), 0, 1) * 255)
        return colors

    def _surface(self, material: Mapping[str, Any], wear: Mapping[str, Any]) -> Surface:
        gloss = extensions(material).get("KHR_materials_pbrSpecularGlossiness")
        factors = gloss if gloss is not None else material.get("pbrMetallicRoughness", {})
        factor = numbers(factors, "diffuseFactor" if gloss is not None else "baseColorFactor", (1.0, 1.0, 1.0, 1.0))
        mode = material.get("alphaMode", "OPAQUE")
        cutoff = numbers({"alphaCutoff": [material.get("alphaCutoff", 0.5)]}, "alphaCutoff", (0.5,))[0]
        image, wrap = self._texture(wear) if wear else (-1, (REPEAT, REPEAT))
        red, green, blue, alpha = np.clip(factor, 0, 1).tolist()
        return Surface(
            base_color=(red, green, blue, alpha),
            image=image,
            alpha_mode=OPAQUE if mode == "OPAQUE" else MASK,
            alpha_cutoff=float(cutoff) if mode == "MASK" else 0.5,
            double_sided=bool(material.get("doubleSided", False)),
            wrap=wrap if image >= 0 else (REPEAT, REPEAT),
        )

    def _texture(self, wear: Mapping[str, Any]) -> tuple[int, tuple[int, int]]:
        """The builder's number of a referenced picture, -1 for none, and how it is wrapped."""
        document = self._document
        texture = document.item("textures", wear.get("index"))
        source = extensions(texture).get("EXT_texture_webp", {}).get("source", texture.get("source"))
        if source is None:
            compressed = [name for name in extensions(texture) if name.startswith("KHR_texture_")]
            if compressed:
                raise ValueError(f"its textures use {compressed[0]} alone: convert its textures to PNG or JPEG")
            return -1, (REPEAT, REPEAT)
        if source not in self._images:
            self._images[source] = self._builder.add_image(*document.image(source))
        sampler = document.item("samplers", texture["sampler"]) if "sampler" in texture else {}
        wrap = tuple(_WRAP.get(sampler.get(key, 10497), REPEAT) for key in ("wrapS", "wrapT"))
        return self._images[source], (wrap[0], wrap[1])


def _base_color_texture(material: Mapping[str, Any]) -> Mapping[str, Any]:
    """A material's reference to the texture of its colour, empty for none."""
    gloss = extensions(material).get("KHR_materials_pbrSpecularGlossiness")
    if gloss is not None:
        return gloss.get("diffuseTexture", {})
    return material.get("pbrMetallicRoughness", {}).get("baseColorTexture", {})


def _triangles(corners: np.ndarray, mode: int) -> np.ndarray:
    """The triangles [T, 3] that a list of corners [C] stands for; corners left over are ignored."""
    corners = corners.astype(np.int32)
    if mode == _TRIANGLES:
        return corners[: len(corners) // 3 * 3].reshape(-1, 3)
    if len(corners) < 3:
        return np.zeros((0, 3), np.int32)
    if mode == _FAN:
        return np.stack([corners[1:-1], corners[2:], np.full(len(corners) - 2, corners[0])], axis=1)
    triangles = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
    triangles[1::2] = triangles[1::2, [0, 2, 1]]  # every other triangle of a strip winds the other way
    return triangles


def _sized(values: np.ndarray, count: int, name: str) -> np.ndarray:
    if len(values) != count:
        raise ValueError(f"its {name} has {len(values)} elements for {count} vertices: the file is damaged")
    return values
