"""Kernels that trace packets of 4x4 rays through Embree's trees, called through the address of its C function.

They read a row of the slot table (see ``SLOT_FIELDS``) for every view, so that one call draws the views of all slots.
A view is drawn in bands of rows; neither the bands nor the threads change a picture.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, prange

from gym_batchnav.render.packet import (
    ACTIVE,
    BLUE,
    FAR,
    GREEN,
    HIT,
    NOTHING,
    RED,
    SHINE,
    TRIANGLE,
    aim,
    intersect16,
    new_packet,
    pointer,
    start_view,
    wake,
)
from gym_batchnav.render.shade import find_colors, find_shine, find_steps, pass_through
from gym_batchnav.render.surface import MATERIAL_WORDS, TRIANGLE_WORDS

# The slot table [K, SLOT_FIELDS] int64: addresses of the tree, the triangles' object ids, their surface records, the
# materials and the texels; the numbers of triangles, materials and textures; and whether rays may pass a surface.
SLOT_FIELDS = 9
TREE, OBJECTS, TRIANGLES, MATERIALS, TEXELS, NUM_TRIANGLES, NUM_MATERIALS, NUM_TEXTURES, MASKED = range(SLOT_FIELDS)


@njit(cache=True, nogil=True)
def _encode_depth(
    distance: np.float32, hit: bool, miss: np.float32, max_depth: np.float32, divisor: np.float32
) -> np.float32:
    """The depth that a pixel shows."""
    return min(distance, max_depth) / divisor if hit else miss


@njit(cache=True, nogil=True)
def _trace_view(
    function: int,
    arguments: int,
    slot: np.ndarray,
    view: np.ndarray,
    lens: tuple[np.float32, ...],
    first_row: int,
    last_row: int,
    depth: np.ndarray,
    semantic: np.ndarray,
) -> None:
    """Depth [H, W] and semantic [H, W] of rows ``first_row`` to ``last_row`` of a view; an empty one is left out."""
    near, far, miss, max_depth, divisor, left, top, pixel = lens
    height, width = max(depth.shape[0], semantic.shape[0]), max(depth.shape[1], semantic.shape[1])
    objects = carray(pointer(slot[OBJECTS]), (slot[NUM_TRIANGLES],), np.int32)
    packet = new_packet()
    floats = packet.view(np.float32)
    address = packet.ctypes.data
    start_view(packet, floats, view, near)
    for y in range(first_row, last_row, 4):
        for x in range(0, width, 4):
            aim(packet, floats, view, x, y, left, top, pixel, far)
            intersect16(function, address + 4 * ACTIVE, slot[TREE], address, arguments)
            for lane in range(16):
                column, row = x + (lane & 3), y + (lane >> 2)
                if column >= width or row >= height:
                    continue
                hit = packet[HIT + lane] != NOTHING
                if depth.size:
                    depth[row, column] = _encode_depth(floats[FAR + lane], hit, miss, max_depth, divisor)
                if semantic.size:
                    semantic[row, column] = objects[packet[TRIANGLE + lane]] if hit else 0


@njit(parallel=True, cache=True, nogil=True)
def trace(
    function: int,
    arguments: int,
    table: np.ndarray,
    slots: np.ndarray,
    views: np.ndarray,
    lens: tuple[np.float32, ...],
    bands: int,
    depth: np.ndarray,
    semantic: np.ndarray,
) -> None:
    """Draw depth, semantic or both, where no ray passes through a surface.

    Args:
        function: Address of rtcIntersect16.
        arguments: Address of its RTCIntersectArguments.
        table: [K, SLOT_FIELDS] int64; only the tree, the objects and their number are read.
        slots: [N] int64.
        views: [N, 4, 4] float32.
        lens: Eight float32: near plane, end of the rays, depth of a miss, greatest depth, what depth is divided by,
            left and upper edge of the image plane and side of a pixel, at unit distance.
        bands: Parts a view is cut into, so that few views keep all threads busy.
        depth: [N, H, W] float32, written; or [1, 0, 0].
        semantic: [N, H, W] int32, written; or [1, 0, 0].
    """
    height = max(depth.shape[1], semantic.shape[1])
    rows = (height + 4 * bands - 1) // (4 * bands) * 4
    for item in prange(len(slots) * bands):
        n, first = item // bands, item % bands * rows
        last = min(first + rows, height)
        _trace_view(
            function,
            arguments,
            table[slots[n]],
            views[n],
            lens,
            first,
            last,
            depth[n if depth.size else 0],
            semantic[n if semantic.size else 0],
        )


@njit(cache=True, nogil=True)
def _shade_view(
    function: int,
    arguments: int,
    slot: np.ndarray,
    view: np.ndarray,
    lens: tuple[np.float32, ...],
    light: np.ndarray,
    brightness: np.ndarray,
    size: int,
    decode: np.ndarray,
    encode: np.ndarray,
    first_row: int,
    last_row: int,
    depth: np.ndarray,
    rgb: np.ndarray,
    semantic: np.ndarray,
) -> None:
    """All three pictures of rows ``first_row`` to ``last_row`` of a view; an empty one is left out."""
    near, far, miss, max_depth, divisor, left, top, pixel = lens
    height = max(depth.shape[0], rgb.shape[0], semantic.shape[0])
    width = max(depth.shape[1], rgb.shape[1], semantic.shape[1])
    num_textures = slot[NUM_TEXTURES]
    objects = carray(pointer(slot[OBJECTS]), (slot[NUM_TRIANGLES],), np.int32)
    triangles = carray(pointer(slot[TRIANGLES]), (slot[NUM_TRIANGLES], TRIANGLE_WORDS), np.int32)
    materials = carray(pointer(slot[MATERIALS]), (slot[NUM_MATERIALS], MATERIAL_WORDS), np.int32)
    texels = carray(pointer(slot[TEXELS]), (num_textures * size * size * 2,), np.int32)
    steps = np.float32(len(encode) - 1)
    packet = new_packet()
    floats = packet.view(np.float32)
    address = packet.ctypes.data
    start_view(packet, floats, view, near)
    for y in range(first_row, last_row, 4):
        for x in range(0, width, 4):
            aim(packet, floats, view, x, y, left, top, pixel, far)
            intersect16(function, address + 4 * ACTIVE, slot[TREE], address, arguments)
            if slot[MASKED] != 0:
                find_steps(floats, view, pixel)
                find_colors(packet, floats, triangles, materials, texels, size, num_textures, decode, True)
                while pass_through(packet, floats, triangles, materials, far):
                    intersect16(function, address + 4 * ACTIVE, slot[TREE], address, arguments)
                    find_steps(floats, view, pixel)
                    find_colors(packet, floats, triangles, materials, texels, size, num_textures, decode, True)
                wake(packet, floats, near)
            if rgb.size:
                find_steps(floats, view, pixel)
                find_shine(floats, light, brightness)
                find_colors(packet, floats, triangles, materials, texels, size, num_textures, decode, False)
            for lane in range(16):
                column, row = x + (lane & 3), y + (lane >> 2)
                if column >= width or row >= height:
                    continue
                hit = packet[HIT + lane] != NOTHING
                if depth.size:
                    depth[row, column] = _encode_depth(floats[FAR + lane], hit, miss, max_depth, divisor)
                if semantic.size:
                    semantic[row, column] = objects[packet[TRIANGLE + lane]] if hit else 0
                if rgb.size:
                    shine = floats[SHINE + lane] * steps if hit else np.float32(0.0)
                    half = np.float32(0.5)
                    rgb[row, column, 0] = encode[int(min(floats[RED + lane] * shine, steps) + half)]
                    rgb[row, column, 1] = encode[int(min(floats[GREEN + lane] * shine, steps) + half)]
                    rgb[row, column, 2] = encode[int(min(floats[BLUE + lane] * shine, steps) + half)]


@njit(parallel=True, cache=True, nogil=True)
def shade(
    function: int,
    arguments: int,
    table: np.ndarray,
    slots: np.ndarray,
    views: np.ndarray,
    lens: tuple[np.float32, ...],
    lights: np.ndarray,
    brightness: np.ndarray,
    size: int,
    decode: np.ndarray,
    encode: np.ndarray,
    bands: int,
    depth: np.ndarray,
    rgb: np.ndarray,
    semantic: np.ndarray,
) -> None:
    """Draw any of the three sensors, with surfaces that rays may pass through.

    Args:
        function: Address of rtcIntersect16.
        arguments: Address of its RTCIntersectArguments.
        table: [K, SLOT_FIELDS] int64.
        slots: [N] int64.
        views: [N, 4, 4] float32.
        lens: As for ``trace``.
        lights: [N, 3] float32, unit vectors towards the light in world space.
        brightness: [2] float32, ambient and diffuse.
        size: Texels along a side of level 0 of the texture pools.
        decode: [256] float32, linear light of an sRGB byte.
        encode: [steps + 1] uint8, sRGB byte of evenly spaced linear light.
        bands: As for ``trace``.
        depth: [N, H, W] float32, written; or [1, 0, 0].
        rgb: [N, H, W, 3] uint8, written; or [1, 0, 0, 3].
        semantic: [N, H, W] int32, written; or [1, 0, 0].
    """
    height = max(depth.shape[1], rgb.shape[1], semantic.shape[1])
    rows = (height + 4 * bands - 1) // (4 * bands) * 4
    for item in prange(len(slots) * bands):
        n, first = item // bands, item % bands * rows
        last = min(first + rows, height)
        _shade_view(
            function,
            arguments,
            table[slots[n]],
            views[n],
            lens,
            lights[n],
            brightness,
            size,
            decode,
            encode,
            first,
            last,
            depth[n if depth.size else 0],
            rgb[n if rgb.size else 0],
            semantic[n if semantic.size else 0],
        )
