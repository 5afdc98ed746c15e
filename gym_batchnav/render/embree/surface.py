"""Surfaces for the ray tracer: the appearance of a scene's triangles, in records of 4-byte words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.render.textures import TexturePool, build_texture_pool, material_factors, texture_coordinates
from gym_batchnav.scene.scene import MASK, NEAREST, Scene

# The texture mapping of a triangle, its colours and its material.
TRIANGLE_RECORD = np.dtype(
    [
        ("uv", np.float32, 2),  # at corner 0
        ("to_1", np.float32, 2),  # change of uv to corner 1
        ("to_2", np.float32, 2),  # change of uv to corner 2
        ("gradient_u", np.float32, 3),  # of u in world space, per metre
        ("gradient_v", np.float32, 3),
        ("color", np.uint8, (3, 4)),  # linear RGBA of the corners
        ("material", np.int32),  # row
    ]
)
MATERIAL_RECORD = np.dtype(
    [
        ("factor", np.float32, 4),  # linear RGBA
        ("cutoff", np.float32),  # alpha below which a ray passes; 0 for opaque materials
        ("texture", np.int32),  # row, -1 for none
        ("wrap_u", np.int32),  # plus NEAREST_BIT if level 0 is not interpolated
        ("wrap_v", np.int32),
    ]
)


def _word(record: np.dtype, field: str) -> int:
    """Return the 4-byte word at which a field of a record begins."""
    return record.fields[field][1] // 4  # type: ignore[index]


# Kernels read records as rows of 4-byte words.
TRIANGLE_WORDS = TRIANGLE_RECORD.itemsize // 4
MATERIAL_WORDS = MATERIAL_RECORD.itemsize // 4
U0 = _word(TRIANGLE_RECORD, "uv")
V0 = U0 + 1
U1 = _word(TRIANGLE_RECORD, "to_1")
V1 = U1 + 1
U2 = _word(TRIANGLE_RECORD, "to_2")
V2 = U2 + 1
GRADIENT_U = _word(TRIANGLE_RECORD, "gradient_u")
GRADIENT_V = _word(TRIANGLE_RECORD, "gradient_v")
COLOR = _word(TRIANGLE_RECORD, "color")
MATERIAL = _word(TRIANGLE_RECORD, "material")
FACTOR = _word(MATERIAL_RECORD, "factor")
CUTOFF = _word(MATERIAL_RECORD, "cutoff")
TEXTURE = _word(MATERIAL_RECORD, "texture")
WRAP_U = _word(MATERIAL_RECORD, "wrap_u")
WRAP_V = _word(MATERIAL_RECORD, "wrap_v")
assert COLOR == 12, "shading reads the twelve floats before the colours at once"
assert (WRAP_U, WRAP_V) == (TEXTURE + 1, TEXTURE + 2), "shading reads the three words at once"

NEAREST_BIT = 4  # above the codes of wrapping
WHITE = np.int32(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """The appearance of a scene's triangles."""

    triangles: np.ndarray  # [T] TRIANGLE_RECORD, 64-byte aligned: a record is one cache line
    materials: np.ndarray  # [M] MATERIAL_RECORD
    pool: TexturePool

    @property
    def nbytes(self) -> int:
        """The size in main memory, in bytes."""
        return self.triangles.nbytes + self.materials.nbytes + self.pool.nbytes


@dataclass(frozen=True, slots=True)
class SurfacePreparer:
    """A callable that makes the surfaces of scenes, for the scene library.

    Attributes:
        size: Texels per side of the textures.
        masked_only: Whether only scenes with masked materials need a surface.
    """

    size: int
    masked_only: bool

    def __call__(self, scene: Scene) -> Surface | None:
        """Return the surface of a scene, or None if no kernel reads it."""
        return build_surface(scene, self.size) if is_masked(scene) or not self.masked_only else None


def is_masked(scene: Scene) -> bool:
    """Return whether rays may pass through a triangle of the scene."""
    return bool((scene.materials.alpha_mode == MASK).any())


def build_surface(scene: Scene, size: int) -> Surface:
    """Make the records of a scene's triangles and materials, and its textures with ``size`` texels per side.

    Raises:
        ValueError: If a triangle refers to a material, or a material to a texture, that the scene does not have.
    """
    materials = scene.materials
    check_rows(scene, "triangle_material", scene.triangle_material, 0, len(materials))
    check_rows(scene, "materials.texture", materials.texture, -1, len(scene.textures))
    triangles = _aligned(len(scene.triangles), TRIANGLE_RECORD)
    uvs, gradients = _texture_coordinates(scene)
    for field, values in zip(("uv", "to_1", "to_2"), uvs, strict=True):
        triangles[field] = values
    for field, values in zip(("gradient_u", "gradient_v"), gradients, strict=True):
        triangles[field] = values
    triangles["color"] = 255
    if scene.colors is not None:
        triangles["color"] = scene.colors[scene.triangles]
    triangles["material"] = scene.triangle_material
    return Surface(triangles, _material_records(scene), build_texture_pool(scene, size))


def _aligned(count: int, record: np.dtype) -> np.ndarray:
    """Return [count] undefined records on a 64-byte boundary."""
    buffer = np.empty(count * record.itemsize + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + count * record.itemsize].view(record)


def check_rows(scene: Scene, field: str, rows: np.ndarray, least: int, count: int) -> None:
    """Raise ValueError for references to rows that do not exist, since kernels would read beyond their arrays.

    Args:
        scene: The scene, for the error.
        field: Name of the scene's field.
        rows: Integers, the values of the field.
        least: The smallest value allowed.
        count: One more than the largest value allowed.
    """
    if rows.size and (rows.min() < least or rows.max() >= count):
        raise ValueError(
            f"scene {scene.name!r}: {field} has values from {rows.min()} to {rows.max()}, but there are {count} rows"
        )


def _texture_coordinates(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return the texture mapping of every triangle.

    Returns:
        [3, T, 2] float32: the coordinates of corner 0 and the differences to corners 1 and 2; and [2, T, 3] float32:
        the gradients of u and v in world space, per metre.
    """
    count = len(scene.triangles)
    if scene.uvs is None:
        return np.zeros((3, count, 2), np.float32), np.zeros((2, count, 3), np.float32)
    uv = texture_coordinates(scene.uvs)[scene.triangles].astype(np.float64)
    change = uv[:, 1:] - uv[:, :1]  # [T, 2 edges, 2]
    corners = scene.vertices[scene.triangles].astype(np.float64)
    edge_1 = corners[:, 1] - corners[:, 0]
    edge_2 = corners[:, 2] - corners[:, 0]
    normal = np.cross(edge_1, edge_2)
    square = np.einsum("ti,ti->t", normal, normal)
    inverse = np.divide(1, square, out=np.zeros(count), where=square > 0)
    # The dual basis of the edges: its product with its own edge is 1, and with the other edge or the normal 0.
    dual = np.stack([np.cross(edge_2, normal), np.cross(normal, edge_1)], axis=1) * inverse[:, None, None]
    gradients = np.einsum("tec,tei->cti", change, dual)
    return (
        np.stack([uv[:, 0], change[:, 0], change[:, 1]]).astype(np.float32),
        np.nan_to_num(np.clip(gradients, -1e9, 1e9)).astype(np.float32),
    )


def _material_records(scene: Scene) -> np.ndarray:
    """Return the records [M] MATERIAL_RECORD of a scene's materials."""
    materials = scene.materials
    records = np.zeros(len(materials), MATERIAL_RECORD)
    records["factor"] = material_factors(materials)
    records["cutoff"] = np.where(materials.alpha_mode == MASK, materials.alpha_cutoff, 0)
    records["texture"] = materials.texture
    nearest = np.where(materials.filter == NEAREST, NEAREST_BIT, 0)
    records["wrap_u"] = materials.wrap[:, 0] + nearest
    records["wrap_v"] = materials.wrap[:, 1] + nearest
    return records
