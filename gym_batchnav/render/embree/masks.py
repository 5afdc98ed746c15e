"""The filter through which Embree asks whether a ray passes a surface: where its alpha is below the cutoff.

All surfaces that a ray meets are asked, in whatever order Embree finds them, so it does not matter that two lie in one
plane.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray, cfunc, njit, types

from gym_batchnav.render.embree.packet import (
    AXES,
    CONTEXT,
    CONTEXT_FIELDS,
    CONTEXT_MATERIALS,
    CONTEXT_SIZE,
    CONTEXT_TEXELS,
    CONTEXT_TEXTURES,
    CONTEXT_TRIANGLES,
    pointer,
)
from gym_batchnav.render.embree.shade import level_start, wrap_texel
from gym_batchnav.render.embree.surface import (
    COLOR,
    CUTOFF,
    GRADIENT_U,
    GRADIENT_V,
    MATERIAL,
    MATERIAL_WORDS,
    TEXTURE,
    TRIANGLE_WORDS,
    U0,
    U1,
    U2,
    V0,
    V1,
    V2,
    WHITE,
    WRAP_U,
    WRAP_V,
)


@cache
def alpha_filter() -> Any:
    """Embree's callback on a hit of a masked triangle: reject it where the surface is not to be seen."""

    @cfunc(types.void(types.CPointer(types.intp)), cache=True)
    def reject_holes(arguments: Any) -> None:
        fields = carray(arguments, (6,))  # RTCFilterFunctionNArguments: valid, user data, context, ray, hit, count
        count = fields[5] & 0xFFFFFFFF
        valid = carray(pointer(fields[0]), (count,), np.int32)
        ray = carray(pointer(fields[3]), (9, count), np.float32)
        hit = carray(pointer(fields[4]), (5, count), np.float32)
        triangle = carray(pointer(fields[4]), (6, count), np.int32)[5]
        surfaces = carray(pointer(fields[2] + 16), (CONTEXT_FIELDS,), np.int64)
        axes = carray(pointer(fields[2] + 4 * (AXES - CONTEXT)), (2, 3), np.float32)
        for lane in range(count):
            if valid[lane] != 0 and not _is_seen(
                surfaces,
                axes,
                triangle[lane],
                (ray[4, lane], ray[5, lane], ray[6, lane]),
                ray[8, lane],
                (hit[0, lane], hit[1, lane], hit[2, lane]),
                hit[3, lane],
                hit[4, lane],
            ):
                valid[lane] = 0

    return reject_holes


@njit(cache=True, nogil=True)
def _is_seen(
    surfaces: np.ndarray,
    axes: np.ndarray,
    triangle: int,
    direction: tuple[np.float32, np.float32, np.float32],
    distance: np.float32,
    normal: tuple[np.float32, np.float32, np.float32],
    u: np.float32,
    v: np.float32,
) -> bool:
    """Whether the alpha of a triangle, where a ray hits it, reaches the cutoff of its material.

    Args:
        surfaces: [CONTEXT_FIELDS] int64.
        axes: [2, 3] float32, the camera's axes to the right and up, a pixel long.
        triangle: Its row.
        direction: Of the ray, one long along the view axis.
        distance: Along the ray.
        normal: Of the triangle.
        u: Weight of its second corner.
        v: Weight of its third corner.
    """
    words = carray(pointer(surfaces[CONTEXT_TRIANGLES] + 4 * TRIANGLE_WORDS * triangle), (TRIANGLE_WORDS,), np.int32)
    record, row = words.view(np.float32), words[MATERIAL]
    material = carray(pointer(surfaces[CONTEXT_MATERIALS] + 4 * MATERIAL_WORDS * row), (MATERIAL_WORDS,), np.int32)
    factors = material.view(np.float32)
    color_0, color_1, color_2, alpha = words[COLOR], words[COLOR + 1], words[COLOR + 2], factors[3]
    if (color_0 & color_1 & color_2) != WHITE:
        alpha *= _mix_alpha(words, u, v)
    if material[TEXTURE] >= 0:
        square = _footprint(record, axes, normal, direction, distance)
        at_u, at_v = record[U0] + u * record[U1] + v * record[U2], record[V0] + u * record[V1] + v * record[V2]
        alpha *= _trilinear_alpha(surfaces, material, square, at_u, at_v)
    return alpha >= factors[CUTOFF]


@njit(cache=True, nogil=True)
def _trilinear_alpha(
    surfaces: np.ndarray, material: np.ndarray, square: np.float32, u: np.float32, v: np.float32
) -> np.float32:
    """The alpha of a texture at (u, v), on the two mip levels nearest to a footprint's longer axis."""
    size, num_textures = surfaces[CONTEXT_SIZE], surfaces[CONTEXT_TEXTURES]
    texels = carray(pointer(surfaces[CONTEXT_TEXELS]), (num_textures * size * size * 2,), np.int32)
    side, one = size, np.float32(1.0)
    square *= np.float32(size * size)
    while side > 1 and not square < np.float32(4.0):  # not a number counts as endless
        square *= np.float32(0.25)
        side >>= 1
    blend = min(max(np.float32(0.5) * np.log2(square), np.float32(0.0)), one) if square > one else np.float32(0.0)
    fine = _bilinear_alpha(texels, size, num_textures, material, side, u, v)
    coarse = _bilinear_alpha(texels, size, num_textures, material, max(side >> 1, 1), u, v)
    return (fine + blend * (coarse - fine)) * np.float32(1 / 255)


@njit(cache=True, nogil=True)
def _footprint(
    record: np.ndarray,
    axes: np.ndarray,
    normal: tuple[np.float32, np.float32, np.float32],
    direction: tuple[np.float32, np.float32, np.float32],
    distance: np.float32,
) -> np.float32:
    """The square of the longer axis of a pixel's footprint, in textures; see ``shade.find_footprints``."""
    nx, ny, nz = normal
    dx, dy, dz = direction
    longest = np.float32(0.0)
    for axis in range(2):
        ax, ay, az = axes[axis, 0], axes[axis, 1], axes[axis, 2]
        slope = np.divide(nx * ax + ny * ay + nz * az, nx * dx + ny * dy + nz * dz)
        px, py, pz = distance * (ax - dx * slope), distance * (ay - dy * slope), distance * (az - dz * slope)
        along_u = record[GRADIENT_U] * px + record[GRADIENT_U + 1] * py + record[GRADIENT_U + 2] * pz
        along_v = record[GRADIENT_V] * px + record[GRADIENT_V + 1] * py + record[GRADIENT_V + 2] * pz
        longest = max(longest, along_u * along_u + along_v * along_v)
    return longest


@njit(cache=True, nogil=True)
def _mix_alpha(words: np.ndarray, u: np.float32, v: np.float32) -> np.float32:
    """The alpha of the corners' colours, weighted."""
    mixed = (np.float32(1.0) - u - v) * np.float32((words[COLOR] >> 24) & 255)
    mixed += u * np.float32((words[COLOR + 1] >> 24) & 255) + v * np.float32((words[COLOR + 2] >> 24) & 255)
    return mixed * np.float32(1 / 255)


@njit(cache=True, nogil=True)
def _bilinear_alpha(
    texels: np.ndarray, size: int, num_textures: int, material: np.ndarray, side: int, u: np.float32, v: np.float32
) -> np.float32:
    """The alpha of a texture at (u, v) on the mip level of ``side`` texels, 0 to 255."""
    start = level_start(size, num_textures, side, material[TEXTURE])
    x, y = u * np.float32(side) - np.float32(0.5), v * np.float32(side) - np.float32(0.5)
    left, top = int(np.floor(x)), int(np.floor(y))
    fx, fy, total = x - np.floor(x), y - np.floor(y), np.float32(0.0)
    for j in range(2):
        row = start + side * wrap_texel(top + j, side, material[WRAP_V])
        for i in range(2):
            weight = (fx if i else np.float32(1.0) - fx) * (fy if j else np.float32(1.0) - fy)
            total += weight * np.float32((texels[row + wrap_texel(left + i, side, material[WRAP_U])] >> 24) & 255)
    return total
