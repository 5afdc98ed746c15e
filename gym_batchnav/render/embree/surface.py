"""Surfaces for the ray tracer: how a scene's triangles look, as flat records of 4-byte words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.render.textures import TexturePool, build_texture_pool, texture_coordinates
from gym_batchnav.scene.scene import MASK, Scene

TRIANGLE_WORDS, MATERIAL_WORDS = 16, 8

# Words of a triangle record: texture coordinates of corner 0 and how they change to corners 1 and 2, their gradients
# in world space, the colours of the corners (RGBA bytes) and the row of the material.
U0, V0, U1, V1, U2, V2, GRADIENT_U, GRADIENT_V, COLOR, MATERIAL = 0, 1, 2, 3, 4, 5, 6, 9, 12, 15
# Words of a material record: the factors RGBA, the alpha below which a ray goes on (0: never), the row of the
# texture (-1: none) and the wrap modes.
CUTOFF, TEXTURE, WRAP_U, WRAP_V = 4, 5, 6, 7

WHITE = np.int32(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """How a scene's triangles look: records of 4-byte words, float32 or int32, and the textures."""

    triangles: np.ndarray  # [T, TRIANGLE_WORDS] int32, 64-byte aligned: a record is one line of the cache
    materials: np.ndarray  # [M, MATERIAL_WORDS] int32
    pool: TexturePool

    @property
    def nbytes(self) -> int:
        """Bytes of main memory."""
        return self.triangles.nbytes + self.materials.nbytes + self.pool.nbytes


@dataclass(frozen=True, slots=True)
class SurfacePreparer:
    """Makes the surfaces of scenes; a plain callable for the scene library.

    Attributes:
        size: Texels along a side of the textures.
        masked_only: Scenes through whose surfaces no ray passes need none.
    """

    size: int
    masked_only: bool

    def __call__(self, scene: Scene) -> Surface | None:
        """The surface of one scene, None where rays need not look at it."""
        return build_surface(scene, self.size) if is_masked(scene) or not self.masked_only else None


def is_masked(scene: Scene) -> bool:
    """Whether rays may pass through a triangle of the scene."""
    return bool((scene.materials.alpha_mode == MASK).any())


def build_surface(scene: Scene, size: int) -> Surface:
    """The records of a scene's triangles and materials, and its textures of ``size`` texels a side.

    Raises:
        ValueError: A triangle names a material, or a material a texture, that the scene does not have.
    """
    materials = scene.materials
    check_rows(scene, "triangle_material", scene.triangle_material, 0, len(materials))
    check_rows(scene, "materials.texture", materials.texture, -1, len(scene.textures))
    count = len(scene.triangles)
    buffer = np.empty(count * TRIANGLE_WORDS + 16, np.int32)
    start = -(buffer.ctypes.data // 4) % 16
    triangles = buffer[start : start + count * TRIANGLE_WORDS].reshape(count, TRIANGLE_WORDS)
    floats = triangles.view(np.float32)
    uvs, gradients = _texture_coordinates(scene)
    floats[:, U0:GRADIENT_U] = uvs
    floats[:, GRADIENT_U:COLOR] = gradients
    triangles[:, COLOR:MATERIAL] = WHITE
    if scene.colors is not None:
        triangles[:, COLOR:MATERIAL] = np.ascontiguousarray(scene.colors).view(np.int32)[scene.triangles, 0]
    triangles[:, MATERIAL] = scene.triangle_material
    return Surface(triangles, _material_records(scene), build_texture_pool(scene, size))


def check_rows(scene: Scene, what: str, rows: np.ndarray, least: int, count: int) -> None:
    """Refuse references to rows that do not exist: kernels would read beyond their arrays.

    Args:
        scene: Named in the error.
        what: The field of the scene that ``rows`` are.
        rows: Integers.
        least: The smallest that is allowed.
        count: One more than the greatest that is allowed.

    Raises:
        ValueError: One is not.
    """
    if rows.size and (rows.min() < least or rows.max() >= count):
        raise ValueError(f"scene {scene.name!r}: {what} runs from {rows.min()} to {rows.max()}, of {count} rows")


def _texture_coordinates(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Of every triangle, [T, 6] corner 0 and the differences to corners 1 and 2, and [T, 6] the gradients per metre."""
    count = len(scene.triangles)
    if scene.uvs is None:
        return np.zeros((count, 6), np.float32), np.zeros((count, 6), np.float32)
    uv = texture_coordinates(scene.uvs)[scene.triangles].astype(np.float64)
    change = uv[:, 1:] - uv[:, :1]  # [T, 2 edges, 2]
    corners = scene.vertices[scene.triangles].astype(np.float64)
    edge_1, edge_2 = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normal = np.cross(edge_1, edge_2)
    square = np.einsum("ti,ti->t", normal, normal)
    inverse = np.divide(1, square, out=np.zeros(count), where=square > 0)
    # The dual basis of the edges: its product with a step along an edge is 1, with the other edge or the normal 0.
    dual = np.stack([np.cross(edge_2, normal), np.cross(normal, edge_1)], axis=1) * inverse[:, None, None]
    gradients = np.einsum("tec,tei->tci", change, dual)
    return (
        np.concatenate([uv[:, 0], change[:, 0], change[:, 1]], axis=1).astype(np.float32),
        np.nan_to_num(np.clip(gradients, -1e9, 1e9)).reshape(count, 6).astype(np.float32),
    )


def _material_records(scene: Scene) -> np.ndarray:
    """[M, MATERIAL_WORDS] int32 records of a scene's materials."""
    materials = scene.materials
    records = np.zeros((len(materials), MATERIAL_WORDS), np.int32)
    floats = records.view(np.float32)
    floats[:, :CUTOFF] = np.clip(np.nan_to_num(materials.base_color), 0, 1)
    floats[:, CUTOFF] = np.where(materials.alpha_mode == MASK, materials.alpha_cutoff, 0)
    records[:, TEXTURE] = materials.texture
    records[:, WRAP_U : WRAP_V + 1] = materials.wrap
    return records
