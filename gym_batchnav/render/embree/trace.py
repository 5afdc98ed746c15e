"""The kernel that draws views: packets of 4x4 rays are traced through Embree's trees, and what they hit is shaded.

It reads a row of the slot table (see ``SLOT_FIELDS``) for every view, so that one call draws the views of all slots.
A view is drawn in bands of rows; neither the bands nor the threads change a picture.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, prange

from gym_batchnav.render.embree.packet import (
    CONTEXT_FIELDS,
    CONTEXT_MATERIALS,
    CONTEXT_SIZE,
    CONTEXT_TEXELS,
    CONTEXT_TEXTURES,
    CONTEXT_TRIANGLES,
    FAR,
    HIT,
    NOTHING,
    SHOWN,
    TRIANGLE,
    aim,
    filter_hits,
    intersect,
    new_packet,
    pointer,
    start_view,
)
from gym_batchnav.render.embree.shade import (
    blend_texels,
    find_footprints,
    find_levels,
    find_shine,
    find_texels,
    finish_colors,
    read_materials,
    read_records,
    read_texels,
)
from gym_batchnav.render.embree.surface import MATERIAL_WORDS, TRIANGLE_WORDS

# The slot table [K, SLOT_FIELDS] int64: addresses of the tree, the triangles' object ids, their surface records, the
# materials and the texels; the numbers of triangles, materials and textures; and whether rays may pass a surface.
SLOT_FIELDS = 9
TREE, OBJECTS, TRIANGLES, MATERIALS, TEXELS, NUM_TRIANGLES, NUM_MATERIALS, NUM_TEXTURES, MASKED = range(SLOT_FIELDS)


@njit(parallel=True, cache=True, nogil=True)
def draw(
    function: int,
    num_rays: int,
    hit_filter: int,
    table: np.ndarray,
    slots: np.ndarray,
    order: np.ndarray,
    views: np.ndarray,
    lens: tuple[np.float32, ...],
    lights: np.ndarray,
    brightness: np.ndarray,
    size: int,
    encode: np.ndarray,
    bands: int,
    depth: np.ndarray,
    rgb: np.ndarray,
    semantic: np.ndarray,
) -> None:
    """Draw any of the three sensors.

    Args:
        function: Address of rtcIntersect16, rtcIntersect8 or rtcIntersect4.
        num_rays: How many it traces at once, 16, 8 or 4.
        hit_filter: Address of the filter that is asked about masked triangles.
        table: [K, SLOT_FIELDS] int64; surfaces are read only where there are colours or masked triangles.
        slots: [N] int64.
        order: [N] int64, the views in the order in which they are drawn; it does not change the pictures.
        views: [N, 4, 4] float32.
        lens: Eight float32: near plane, end of the rays, depth of a miss, greatest depth, what depth is divided by,
            left and upper edge of the image plane and side of a pixel, at unit distance.
        lights: [N, 3] float32, unit vectors towards the light in world space.
        brightness: [2] float32, ambient and diffuse.
        size: Texels along a side of level 0 of the texture pools.
        encode: [steps + 1] uint8, sRGB byte of evenly spaced linear light.
        bands: Parts a view is cut into, so that few views keep all threads busy.
        depth: [N, H, W] float32, written; or [1, 0, 0].
        rgb: [N, H, W, 3] uint8, written; or [1, 0, 0, 3].
        semantic: [N, H, W] int32, written; or [1, 0, 0].
    """
    height = max(depth.shape[1], rgb.shape[1], semantic.shape[1])
    rows = (height + 4 * bands - 1) // (4 * bands) * 4
    for item in prange(len(slots) * bands):
        n, first = order[item // bands], item % bands * rows
        _draw_view(
            function,
            num_rays,
            hit_filter,
            table[slots[n]],
            views[n],
            lens,
            lights[n],
            brightness,
            size,
            encode,
            first,
            min(first + rows, height),
            depth[n if depth.size else 0],
            rgb[n if rgb.size else 0],
            semantic[n if semantic.size else 0],
        )


@njit(cache=True, nogil=True)
def _draw_view(
    function: int,
    num_rays: int,
    hit_filter: int,
    slot: np.ndarray,
    view: np.ndarray,
    lens: tuple[np.float32, ...],
    light: np.ndarray,
    brightness: np.ndarray,
    size: int,
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
    axes = view[:2, :3] * pixel
    packet, narrow = new_packet(), new_packet()
    floats = packet.view(np.float32)
    start_view(packet, floats, view, near)
    if slot[MASKED] != 0:
        surfaces = np.empty(CONTEXT_FIELDS, np.int64)
        surfaces[CONTEXT_TRIANGLES], surfaces[CONTEXT_MATERIALS] = slot[TRIANGLES], slot[MATERIALS]
        surfaces[CONTEXT_TEXELS], surfaces[CONTEXT_TEXTURES], surfaces[CONTEXT_SIZE] = slot[TEXELS], num_textures, size
        filter_hits(packet, floats, axes, hit_filter, surfaces)
    for y in range(first_row, last_row, 4):
        for x in range(0, width, 4):
            aim(packet, floats, view, x, y, left, top, pixel, far)
            intersect(function, num_rays, slot[TREE], packet, narrow)
            if rgb.size and _any_hit(packet):
                find_shine(floats, light, brightness)
                if read_materials(packet, triangles, materials):
                    read_records(packet, triangles)
                    find_footprints(floats, axes)
                    find_levels(packet, floats, size)
                    find_texels(packet, floats, size, num_textures)
                    read_texels(packet, texels)
                    blend_texels(packet, floats)
                finish_colors(packet, floats, np.float32(len(encode) - 1))
            for lane in range(16):
                column, row = x + (lane & 3), y + (lane >> 2)
                if column >= width or row >= height:
                    continue
                hit = packet[HIT + lane] != NOTHING
                if depth.size:
                    depth[row, column] = min(floats[FAR + lane], max_depth) / divisor if hit else miss
                if semantic.size:
                    semantic[row, column] = objects[packet[TRIANGLE + lane]] if hit else 0
                if rgb.size:
                    rgb[row, column, 0] = encode[packet[SHOWN + lane]] if hit else 0
                    rgb[row, column, 1] = encode[packet[SHOWN + 16 + lane]] if hit else 0
                    rgb[row, column, 2] = encode[packet[SHOWN + 32 + lane]] if hit else 0


@njit(cache=True, nogil=True)
def _any_hit(packet: np.ndarray) -> bool:
    """Whether any ray of a packet has hit something."""
    common = NOTHING
    for lane in range(16):
        common &= packet[HIT + lane]
    return common != NOTHING
