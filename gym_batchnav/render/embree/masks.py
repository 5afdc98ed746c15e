"""The filter for hits of masked triangles: rays pass through where the alpha is below the cutoff.

Embree calls the filter for every masked triangle along a ray, in no particular order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray, cfunc, njit, types

from gym_batchnav.render import records
from gym_batchnav.render.embree import packet as layout
from gym_batchnav.render.embree.packet import Surfaces, pointer
from gym_batchnav.render.embree.shade import neighbours
from gym_batchnav.render.records import COLOR, GRADIENT_U, GRADIENT_V, MATERIAL_WORDS, TRIANGLE_WORDS
from gym_batchnav.system.jit import INNER, SMALL


@cache
def alpha_filter() -> Any:
    """Return Embree's callback for hits of masked triangles, which rejects those with an alpha below the cutoff."""

    @cfunc(types.void(types.CPointer(types.intp)), cache=True)
    def reject_holes(arguments: Any) -> None:
        fields = carray(arguments, (6,))  # RTCFilterFunctionNArguments: valid, user data, context, ray, hit, count
        count = fields[5] & 0xFFFFFFFF
        valid = carray(pointer(fields[0]), (count,), np.int32)
        ray = carray(pointer(fields[3]), (9, count), np.float32)
        hit = carray(pointer(fields[4]), (5, count), np.float32)
        triangle = carray(pointer(fields[4]), (6, count), np.int32)[5]
        own = carray(pointer(fields[2] + layout.SURFACES_BYTE), (layout.SURFACES_FIELDS,), np.int64)
        surfaces = Surfaces(own[0], own[1], own[2], own[3], own[4], own[5])
        axes = carray(pointer(fields[2] + 4 * (layout.AXES - layout.CONTEXT)), (2, 3), np.float32)
        parallel = carray(pointer(fields[2] + 4 * (layout.PARALLEL - layout.CONTEXT)), (1,), np.float32)[0]
        for lane in range(count):
            if valid[lane] != 0:
                length = np.float32(1.0) if parallel != np.float32(0.0) else ray[8, lane]
                if not _is_seen(surfaces, axes, triangle[lane], ray[4:7, lane], length, hit[:, lane]):
                    valid[lane] = 0

    return reject_holes


@njit(**INNER)
def _is_seen(
    surfaces: Surfaces, axes: np.ndarray, triangle: int, direction: np.ndarray, distance: np.float32, hit: np.ndarray
) -> bool:
    """Return whether the alpha at the point where a ray hits a triangle reaches the cutoff of the material.

    ``axes`` [2, 3] are the changes of the ray to the next pixel on the right and above; ``distance`` is in lengths of
    its direction, 1 if rays are parallel; ``hit`` [5] is the triangle's normal and the weights of its second and third
    corner.
    """
    u = hit[3]
    v = hit[4]
    words = carray(pointer(surfaces.triangles + 4 * TRIANGLE_WORDS * triangle), (TRIANGLE_WORDS,), np.int32)
    record = words.view(np.float32)
    row = words[records.MATERIAL]
    material = carray(pointer(surfaces.materials + 4 * MATERIAL_WORDS * row), (MATERIAL_WORDS,), np.int32)
    factors = material.view(np.float32)
    alpha = factors[records.FACTOR + 3]
    if (words[COLOR] & words[COLOR + 1] & words[COLOR + 2]) != records.WHITE:
        alpha *= _mix_alpha(words, u, v)
    if material[records.TEXTURE] >= 0:
        square = _footprint(record, axes, hit, direction, distance)
        at_u = record[records.U0] + u * record[records.U1] + v * record[records.U2]
        at_v = record[records.V0] + u * record[records.V1] + v * record[records.V2]
        alpha *= _trilinear_alpha(surfaces, material, square, at_u, at_v)
    return alpha >= factors[records.CUTOFF]


@njit(**INNER)
def _trilinear_alpha(
    surfaces: Surfaces, material: np.ndarray, square: np.float32, u: np.float32, v: np.float32
) -> np.float32:
    """Return the alpha of a texture at (u, v), between the two mip levels nearest to a footprint's longer axis."""
    last = surfaces.last_level
    level = 0
    one = np.float32(1.0)
    square *= np.float32(1 << (2 * last))
    while level < last and not square < np.float32(4.0):  # not a number counts as infinite
        square *= np.float32(0.25)
        level += 1
    blend = min(max(np.float32(0.5) * np.log2(square), np.float32(0.0)), one) if square > one else np.float32(0.0)
    fine = _bilinear_alpha(surfaces, material, level, u, v)
    coarse = _bilinear_alpha(surfaces, material, min(level + 1, last), u, v)
    return (fine + blend * (coarse - fine)) * np.float32(1 / 255)


@njit(**INNER)
def _footprint(
    record: np.ndarray, axes: np.ndarray, normal: np.ndarray, direction: np.ndarray, distance: np.float32
) -> np.float32:
    """Return the square of the longer axis of a pixel's footprint, in textures; see ``shade.find_footprints``."""
    nx = normal[0]
    ny = normal[1]
    nz = normal[2]
    dx = direction[0]
    dy = direction[1]
    dz = direction[2]
    longest = np.float32(0.0)
    for axis in range(2):
        ax = axes[axis, 0]
        ay = axes[axis, 1]
        az = axes[axis, 2]
        slope = (nx * ax + ny * ay + nz * az) / (nx * dx + ny * dy + nz * dz)
        px = distance * (ax - dx * slope)
        py = distance * (ay - dy * slope)
        pz = distance * (az - dz * slope)
        along_u = record[GRADIENT_U] * px + record[GRADIENT_U + 1] * py + record[GRADIENT_U + 2] * pz
        along_v = record[GRADIENT_V] * px + record[GRADIENT_V + 1] * py + record[GRADIENT_V + 2] * pz
        longest = max(longest, along_u * along_u + along_v * along_v)
    return longest


@njit(**SMALL)
def _mix_alpha(words: np.ndarray, u: np.float32, v: np.float32) -> np.float32:
    """Return the weighted alpha of the corners' colours."""
    mixed = (np.float32(1.0) - u - v) * _alpha(words[COLOR])
    return (mixed + (u * _alpha(words[COLOR + 1]) + v * _alpha(words[COLOR + 2]))) * np.float32(1 / 255)


@njit(**INNER)
def _bilinear_alpha(surfaces: Surfaces, material: np.ndarray, level: int, u: np.float32, v: np.float32) -> np.float32:
    """Return the alpha of a texture at (u, v) on one mip level, from 0 to 255."""
    num_textures = surfaces.num_textures
    side = 1 << (surfaces.last_level - level)
    texels = carray(pointer(surfaces.texels), (num_textures << (2 * surfaces.last_level + 1),), np.int32)
    starts = carray(pointer(surfaces.level_starts), (level + 1,), np.int64)
    start = num_textures * starts[level] + material[records.TEXTURE] * side * side
    x0, x1, across = neighbours(u, np.int32(side), material[records.WRAP_U], level == 0)
    y0, y1, down = neighbours(v, np.int32(side), material[records.WRAP_V], level == 0)
    one = np.float32(1.0)
    total = (one - across) * (one - down) * _alpha(texels[start + side * y0 + x0])
    total += across * (one - down) * _alpha(texels[start + side * y0 + x1])
    total += (one - across) * down * _alpha(texels[start + side * y1 + x0])
    total += across * down * _alpha(texels[start + side * y1 + x1])
    return total


@njit(**SMALL)
def _alpha(texel: int) -> np.float32:
    """Return the alpha of a texel, from 0 to 255."""
    return np.float32((texel >> 24) & 255)
