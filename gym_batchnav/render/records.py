"""Surfaces for ray tracers: the appearance of a scene's triangles, in records of 4-byte words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from gym_batchnav.render.textures import TexturePool, build_texture_pool, texture_coordinates
from gym_batchnav.scene.scene import MASK, NEAREST, Scene
from gym_batchnav.system.jit import ENTRY, SMALL

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


def _words(record: np.dtype) -> list[int]:
    """Return the 4-byte word at which each field of a record begins."""
    return [record.fields[name][1] // 4 for name in record.names]  # type: ignore[index, union-attr]


# Kernels read records as rows of 4-byte words.
TRIANGLE_WORDS = TRIANGLE_RECORD.itemsize // 4
MATERIAL_WORDS = MATERIAL_RECORD.itemsize // 4
U0, U1, U2, GRADIENT_U, GRADIENT_V, COLOR, MATERIAL = _words(TRIANGLE_RECORD)
FACTOR, CUTOFF, TEXTURE, WRAP_U, WRAP_V = _words(MATERIAL_RECORD)
V0 = U0 + 1
V1 = U1 + 1
V2 = U2 + 1
assert COLOR == 12, "shading reads the twelve floats before the colours at once"
assert (WRAP_U, WRAP_V) == (TEXTURE + 1, TEXTURE + 2), "shading reads the three words at once"

NEAREST_BIT = 4  # above the codes of wrapping
WHITE = np.int32(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """The appearance of a scene's triangles."""

    triangles: np.ndarray  # [T] TRIANGLE_RECORD, 64-byte aligned: a record is one cache line
    materials: np.ndarray  # [M] MATERIAL_RECORD, at least one
    pool: TexturePool

    @property
    def nbytes(self) -> int:
        """The size in main memory, in bytes."""
        return self.triangles.nbytes + self.materials.nbytes + self.pool.nbytes


@dataclass(frozen=True, slots=True)
class SurfacePreparer:
    """A callable that makes the surfaces of scenes, for the scene library."""

    size: int  # texels per side of the textures
    masked_only: bool  # whether only scenes with masked materials need a surface

    def __call__(self, scene: Scene) -> Surface | None:
        """Return the surface of a scene, or None if no kernel reads it."""
        return build_surface(scene, self.size) if is_masked(scene) or not self.masked_only else None


def is_masked(scene: Scene) -> bool:
    """Return whether rays may pass through a triangle of the scene."""
    return bool((scene.materials.alpha_mode == MASK).any())


def build_surface(scene: Scene, size: int) -> Surface:
    """Make the records of a scene's triangles and materials, and its textures with ``size`` texels per side.

    Raises:
        ValueError: See ``Scene.check``.
    """
    scene.check()  # preparers run in parallel, so that of the geometry may not have checked it yet
    triangles = _aligned(len(scene.triangles), TRIANGLE_RECORD)
    rows = triangles.view(np.float32).reshape(len(triangles), TRIANGLE_WORDS)
    if scene.uvs is not None:
        _map_textures(scene.vertices, scene.triangles, texture_coordinates(scene.uvs), rows)
    triangles["color"] = 255
    if scene.colors is not None:
        triangles["color"] = scene.colors[scene.triangles]
    triangles["material"] = scene.triangle_material
    return Surface(triangles, material_records(scene), build_texture_pool(scene, size))


def _aligned(count: int, record: np.dtype) -> np.ndarray:
    """Return [count] zeroed records on a 64-byte boundary, followed by one more: misses read the first record."""
    buffer = np.zeros((count + 1) * record.itemsize + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    return buffer[start : start + count * record.itemsize].view(record)


@njit(**ENTRY)
def _map_textures(vertices: np.ndarray, triangles: np.ndarray, uvs: np.ndarray, rows: np.ndarray) -> None:
    """Write the texture mapping of every triangle: uv, its changes along two edges, and its gradients per metre.

    Of ``rows`` [T, TRIANGLE_WORDS] float32 the words of TRIANGLE_RECORD before the colours are written.
    """
    for t in range(len(triangles)):
        i = triangles[t, 0]
        j = triangles[t, 1]
        k = triangles[t, 2]
        x = np.float64(vertices[i, 0])
        y = np.float64(vertices[i, 1])
        z = np.float64(vertices[i, 2])
        ax = np.float64(vertices[j, 0]) - x
        ay = np.float64(vertices[j, 1]) - y
        az = np.float64(vertices[j, 2]) - z
        bx = np.float64(vertices[k, 0]) - x
        by = np.float64(vertices[k, 1]) - y
        bz = np.float64(vertices[k, 2]) - z
        nx = ay * bz - az * by
        ny = az * bx - ax * bz
        nz = ax * by - ay * bx
        square = nx * nx + ny * ny + nz * nz
        inverse = 1.0 / square if square > 0.0 else 0.0
        # The dual basis of the edges: its product with its own edge is 1, and with the other edge or the normal 0.
        to_ax = (by * nz - bz * ny) * inverse
        to_ay = (bz * nx - bx * nz) * inverse
        to_az = (bx * ny - by * nx) * inverse
        to_bx = (ny * az - nz * ay) * inverse
        to_by = (nz * ax - nx * az) * inverse
        to_bz = (nx * ay - ny * ax) * inverse
        for c in range(2):
            first = np.float64(uvs[i, c])
            along_a = np.float64(uvs[j, c]) - first
            along_b = np.float64(uvs[k, c]) - first
            rows[t, U0 + c] = uvs[i, c]
            rows[t, U1 + c] = along_a
            rows[t, U2 + c] = along_b
            rows[t, GRADIENT_U + 3 * c] = _bounded(along_a * to_ax + along_b * to_bx)
            rows[t, GRADIENT_U + 3 * c + 1] = _bounded(along_a * to_ay + along_b * to_by)
            rows[t, GRADIENT_U + 3 * c + 2] = _bounded(along_a * to_az + along_b * to_bz)


@njit(**SMALL)
def _bounded(gradient: float) -> float:
    """Return a gradient that float32 can hold; 0 for NaN."""
    return min(max(gradient, -1e9), 1e9) if gradient == gradient else 0.0


def material_records(scene: Scene) -> np.ndarray:
    """Return the records [M] MATERIAL_RECORD of a scene's materials, or of one if it has none: misses read it."""
    materials = scene.materials
    if not len(materials):
        return np.array([(1, 0, -1, 0, 0)], MATERIAL_RECORD)
    records = np.zeros(len(materials), MATERIAL_RECORD)
    records["factor"] = np.clip(np.nan_to_num(materials.base_color), 0, 1)  # files may hold any value
    records["cutoff"] = np.where(materials.alpha_mode == MASK, materials.alpha_cutoff, 0)
    records["texture"] = materials.texture
    nearest = np.where(materials.filter == NEAREST, NEAREST_BIT, 0)
    records["wrap_u"] = materials.wrap[:, 0] + nearest
    records["wrap_v"] = materials.wrap[:, 1] + nearest
    return records
