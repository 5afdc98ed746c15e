"""The content of a glTF file in numbers, read without decoding its geometry and images."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_batchnav.scene.builder import MAX_PARTS, TOO_MANY_PARTS, ImageBudget
from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats.gltf_document import GltfDocument
from gym_batchnav.scene.images import open_image
from gym_batchnav.scene.json_values import mapping, sequence, whole
from gym_batchnav.scene.textures import AUTO, size_for


@dataclass(frozen=True, slots=True)
class GltfCounts:
    """The content of a glTF file, as its headers declare it; strips and instances make the true counts differ."""

    num_triangles: int
    num_vertices: int
    num_textures: int
    texture_size: int  # pixels of the longest side after scaling
    texture_bytes: int  # after scaling


def count_gltf(path: Path, texture_size: int | str = AUTO) -> GltfCounts:
    """Return the counts of a ``.glb`` or ``.gltf`` file.

    Args:
        path: The file.
        texture_size: See ``load_scene``.

    Raises:
        ValueError: If the file is damaged, or a mesh has too many parts or the file too many images to be loaded.
        OSError: If it cannot be read.
    """
    files = SceneFiles(path)
    document = GltfDocument(files)
    triangles = vertices = 0
    meshes: dict[object, tuple[int, int]] = {}
    for index in range(document.count("nodes")):
        node = document.item("nodes", index)
        if "mesh" not in node:
            continue
        mesh = document.item("meshes", node["mesh"])
        if node["mesh"] not in meshes:
            meshes[node["mesh"]] = _count_mesh(document, mesh)
        triangles += meshes[node["mesh"]][0]
        vertices += meshes[node["mesh"]][1]
    sides = []
    images = ImageBudget(files)
    for index in range(document.count("images")):
        data, label = document.image(index)
        images.add(len(data or b""))
        with suppress(ValueError):  # loading tells what is wrong with it
            if data is not None:
                image = open_image(data, label, decodes=False)
                sides.append((image.width, image.height))
    size, num_bytes = size_for(sides, texture_size)
    return GltfCounts(triangles, vertices, len(sides), size, num_bytes)


def _count_mesh(document: GltfDocument, mesh: Mapping[str, Any]) -> tuple[int, int]:
    """Return the triangles and vertices of a mesh; ValueError if it has too many parts."""
    primitives = sequence(mesh.get("primitives", []), "primitives")
    if len(primitives) > MAX_PARTS:
        raise ValueError(TOO_MANY_PARTS)
    triangles = vertices = 0
    for item in primitives:
        primitive = mapping(item, "a primitive")
        attributes = mapping(primitive.get("attributes"), "attributes")
        if "POSITION" in attributes and primitive.get("mode", 4) == 4:
            points = whole(document.item("accessors", attributes["POSITION"]), "count")
            corners = primitive.get("indices")
            vertices += points
            triangles += (points if corners is None else whole(document.item("accessors", corners), "count")) // 3
    return triangles, vertices
