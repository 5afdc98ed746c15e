"""Preparation of a scene for OpenGL: chunks of neighbouring triangles, and texture layers.

Nothing here calls OpenGL, so a library may run it in the background.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np

from gym_batchnav.render.records import MATERIAL_RECORD, material_records
from gym_batchnav.render.textures import TexturePool, build_texture_pool, texture_coordinates
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.scene.scene import MASK, Scene

CHUNK_TRIANGLES = 256
NUM_CLASSES = 4  # of chunks drawn in one call: 2 x masked + double-sided

VERTEX_ATTRIBUTES = np.dtype([("uv", np.float32, 2), ("color", np.uint8, 4)])
TRIANGLE_RECORD = np.dtype([("material", np.uint32), ("object", np.int32), ("normal", np.int16, 4)])

# The buffers on the device, in groups of equal layout, with the size of one item in bytes.
DEVICE_BUFFERS = {
    "vertices": {"positions": 12, "attributes": VERTEX_ATTRIBUTES.itemsize},
    "triangles": {"indices": 12, "triangles": TRIANGLE_RECORD.itemsize},
    "materials": {"materials": MATERIAL_RECORD.itemsize},
}


@dataclass(frozen=True, slots=True, eq=False)
class PreparedMesh:
    """A scene's geometry in the order and layout of the device; triangles are sorted by chunk."""

    positions: np.ndarray  # [V, 3] float32, metres
    attributes: np.ndarray  # [V] VERTEX_ATTRIBUTES
    indices: np.ndarray  # [T, 3] uint32, rows of positions
    triangles: np.ndarray  # [T] TRIANGLE_RECORD; normals in units of 1 / 32767
    materials: np.ndarray  # [M] MATERIAL_RECORD
    chunk_first: np.ndarray  # [C] int64, first triangle
    chunk_count: np.ndarray  # [C] int64, triangles
    chunk_class: np.ndarray  # [C] int64, 0 to NUM_CLASSES - 1, in ascending order
    chunk_bounds: np.ndarray  # [C, 6] float32, metres: centre and half the sides of the chunk's bounding box

    @property
    def nbytes(self) -> int:
        """The size in main memory, in bytes."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    @property
    def device_nbytes(self) -> int:
        """The size on the device in bytes, without the output of culling."""
        return sum(getattr(self, name).nbytes for buffers in DEVICE_BUFFERS.values() for name in buffers)


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTextures:
    """A scene's mip chains and the texture of each material."""

    pool: TexturePool
    layers: np.ndarray  # [M] int32, texture in the pool, -1 for none

    @property
    def nbytes(self) -> int:
        """The size in main memory, in bytes."""
        return self.pool.nbytes + self.layers.nbytes

    @property
    def device_nbytes(self) -> int:
        """The size on the device in bytes: all levels, and one row of the table per material."""
        return self.nbytes


@dataclass(frozen=True, slots=True)
class MeshPreparer:
    """A callable that prepares the geometry of scenes, for the scene library."""

    semantic_ids: SemanticIds = field(default=SemanticIds())  # what the sensor "semantic" draws

    def __call__(self, scene: Scene) -> PreparedMesh:
        """Sort a scene's triangles into chunks of neighbours that are drawn alike."""
        scene.check()
        materials = scene.materials
        kinds = 2 * (materials.alpha_mode == MASK) + materials.double_sided
        chunks, classes = _chunks(scene.vertices[scene.triangles].mean(axis=1), kinds[scene.triangle_material])
        order = np.concatenate([np.zeros(0, np.int64), *chunks])
        counts = np.array([len(chunk) for chunk in chunks], np.int64)
        firsts = np.cumsum(counts) - counts

        # Vertices are sorted by their first use, so that a chunk reads neighbouring vertices.
        used, first_use, inverse = np.unique(scene.triangles[order], return_index=True, return_inverse=True)
        by_use = np.argsort(first_use)
        rank = np.empty(len(used), np.uint32)
        rank[by_use] = np.arange(len(used), dtype=np.uint32)
        vertices = used[by_use]
        positions = np.ascontiguousarray(scene.vertices[vertices], np.float32)
        indices = rank[inverse].reshape(-1, 3)

        corners = positions[indices]
        low = corners.min(axis=1)
        high = corners.max(axis=1)
        if len(chunks):
            low = np.minimum.reduceat(low, firsts)
            high = np.maximum.reduceat(high, firsts)
        center = (low + high) / 2
        # A margin, so that rounding never makes culling lose a triangle.
        half = (high - low) / 2 + 1e-4 + 1e-6 * np.abs(center)
        return PreparedMesh(
            positions=positions,
            attributes=_vertex_attributes(scene, vertices),
            indices=indices,
            triangles=_triangle_records(scene, order, corners, self.semantic_ids.of_triangles(scene)),
            materials=material_records(scene),
            chunk_first=firsts,
            chunk_count=counts,
            chunk_class=np.array(classes, np.int64),
            chunk_bounds=np.hstack([center, half]).astype(np.float32),
        )


@dataclass(frozen=True, slots=True)
class TexturePreparer:
    """A callable that makes the mip chains that a camera needs, for the scene library."""

    size: int  # texels per side of level 0, a power of two
    masks_only: bool  # whether to include only textures of masked materials, for targets without colour

    def __call__(self, scene: Scene) -> PreparedTextures:
        """Prepare the textures of a scene."""
        layers = scene.materials.texture
        if self.masks_only:
            layers = np.where(scene.materials.alpha_mode == MASK, layers, -1)
            kept = np.unique(layers[layers >= 0])
            layers = np.where(layers >= 0, np.searchsorted(kept, layers), -1)
            scene = replace(scene, textures=tuple(scene.textures[index] for index in kept))
        return PreparedTextures(build_texture_pool(scene, self.size), layers.astype(np.int32))


def _chunks(centroids: np.ndarray, kinds: np.ndarray) -> tuple[list[np.ndarray], list[int]]:
    """Split the triangles [T] of each class at the median of their longest axis until they fit into chunks."""
    chunks: list[np.ndarray] = []
    classes: list[int] = []
    for kind in range(NUM_CLASSES):
        stack = [np.flatnonzero(kinds == kind)]
        while stack:
            part = stack.pop()
            if len(part) <= CHUNK_TRIANGLES:
                if len(part):
                    chunks.append(part)
                    classes.append(kind)
                continue
            points = centroids[part]
            axis = int(np.argmax(np.ptp(points, axis=0)))
            # The left half holds a whole number of full chunks, so that nearly every chunk is full.
            middle = (-(-len(part) // CHUNK_TRIANGLES) // 2) * CHUNK_TRIANGLES
            halves = np.argpartition(points[:, axis], middle)
            stack += [part[halves[middle:]], part[halves[:middle]]]
    return chunks, classes


def _vertex_attributes(scene: Scene, vertices: np.ndarray) -> np.ndarray:
    """Return the texture coordinates and colours [V] VERTEX_ATTRIBUTES of the given vertices."""
    attributes = np.zeros(len(vertices), VERTEX_ATTRIBUTES)
    attributes["color"] = 255
    if scene.uvs is not None:
        attributes["uv"] = texture_coordinates(scene.uvs[vertices])
    if scene.colors is not None:
        attributes["color"] = scene.colors[vertices]
    return attributes


def _triangle_records(scene: Scene, order: np.ndarray, corners: np.ndarray, semantic: np.ndarray) -> np.ndarray:
    """Return the records [T] TRIANGLE_RECORD of triangles with the given corners [T, 3, 3]."""
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]).astype(np.float64)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    records = np.zeros(len(order), TRIANGLE_RECORD)
    records["material"] = scene.triangle_material[order]
    records["object"] = semantic[order]
    records["normal"][:, :3] = np.rint(normals * 32767)
    return records
