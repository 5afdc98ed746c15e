"""The kernel that draws views: it traces packets of 4x4 rays through Embree's trees and shades the hits.

It reads a record of the slot table (see ``SLOT``) for every view, so that one call draws the views of all slots.
A view is drawn in bands of rows; the numbers of bands and threads do not affect the pictures. The kernel is compiled
without moving bodies if they are None, and without colours and masks if ``Shading`` is None.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray, njit

from gym_batchnav.render.embree.bodies import Bodies, any_hit, light_on_body, pixels_of_body, take_hits, view_of_body
from gym_batchnav.render.embree.packet import (
    FAR,
    HIT,
    NOTHING,
    SHOWN,
    TRIANGLE,
    Surfaces,
    aim,
    filter_hits,
    intersect,
    new_packets,
    pointer,
    start_view,
)
from gym_batchnav.render.embree.shade import (
    blend_texels,
    fetch_records,
    fetch_texels,
    find_footprints,
    find_levels,
    find_shine,
    find_texels,
    finish_colors,
    read_materials,
    read_records,
    read_texels,
    row_of,
)
from gym_batchnav.render.optics import Optics
from gym_batchnav.render.records import MATERIAL_WORDS, TRIANGLE_WORDS
from gym_batchnav.system.jit import ENTRY, INNER, to_int64
from gym_batchnav.system.parallel import for_each

# The record of a slot for kernels, all zero for an empty slot. The fields of surfaces are zero if no kernel reads them.
SLOT = np.dtype(
    [
        ("tree", np.int64),  # address of the RTCScene
        ("objects", np.int64),  # address of the triangles' object ids, [num_triangles] int32
        ("triangles", np.int64),  # address of the records, see records.py
        ("materials", np.int64),  # address of the records, see records.py
        ("texels", np.int64),  # address of the texture pool
        ("num_triangles", np.int64),
        ("num_materials", np.int64),
        ("num_textures", np.int64),
        ("masked", np.int64),  # 1 if rays may pass through some triangles
    ]
)


GROUP = 4  # packets of a row that are shaded together; 8 and 16 are not faster


class Tracer(NamedTuple):
    """The addresses of Embree's functions."""

    function: int  # address of rtcIntersect16, rtcIntersect8 or rtcIntersect4
    num_rays: int  # number of rays that the function traces at once, 16, 8 or 4
    hit_filter: int  # address of the filter for hits of masked triangles; 0 if there are none


class Views(NamedTuple):
    """N views into K slots."""

    table: np.ndarray  # [K] SLOT
    slots: np.ndarray  # [N] int64
    order: np.ndarray  # [N] int64, the order in which the views are drawn
    matrices: np.ndarray  # [N, 4, 4] float32, world-to-camera
    lights: np.ndarray  # [N, 3] float32, unit vectors towards the light in world space


class Shading(NamedTuple):
    """The inputs of shading other than surfaces."""

    brightness: np.ndarray  # [2] float32, ambient and diffuse
    size: int  # texels per side of level 0 of the texture pools
    level_starts: np.ndarray  # [levels] int64, see textures.level_starts
    encode: np.ndarray  # [steps + 1] uint8, sRGB byte of evenly spaced linear light


class Output(NamedTuple):
    """The pictures to write; those of absent sensors have no pixels: [N, 0, 0]."""

    depth: np.ndarray  # [N, H, W] float32
    rgb: np.ndarray  # [N, H, W, 3] uint8
    semantic: np.ndarray  # [N, H, W] int32


@njit(**ENTRY)
def draw(
    tracer: Tracer,
    views: Views,
    bodies: Bodies | None,
    optics: Optics,
    shading: Shading | None,
    bands: int,
    out: Output,
) -> None:
    """Draw any of the three sensors.

    Args:
        tracer: Embree's functions.
        views: The views.
        bodies: Moving bodies, or None.
        optics: The camera.
        shading: Inputs of shading; None if neither colours are drawn nor triangles masked.
        bands: Number of bands per view, so that a few views can keep all threads busy.
        out: The pictures, written.
    """
    for_each(_draw_band, len(views.order) * bands, (bands, tracer, views, bodies, optics, shading, out))


@njit(**INNER)
def _draw_band(
    item: int,
    bands: int,
    tracer: Tracer,
    views: Views,
    bodies: Bodies | None,
    optics: Optics,
    shading: Shading | None,
    out: Output,
) -> None:
    """Draw band ``item % bands`` of view ``views.order[item // bands]``."""
    rows = (optics.height + 4 * bands - 1) // (4 * bands) * 4
    n = views.order[item // bands]
    first_row = item % bands * rows
    last_row = min(first_row + rows, optics.height)
    slot = views.table[views.slots[n]]
    view = views.matrices[n]
    depth = out.depth[n]
    rgb = out.rgb[n]
    semantic = out.semantic[n]
    objects = carray(pointer(slot.objects), (slot.num_triangles,), np.int32)
    axes = view[:2, :3] * optics.pixel
    packets = new_packets(to_int64(GROUP))
    floats = packets.view(np.float32)
    narrow = new_packets(to_int64(1))[0]
    for k in range(GROUP):
        start_view(packets[k], floats[k], view, optics.near)
        if shading is not None:
            filter_masked(packets[k], floats[k], axes, shading, tracer, slot)
    shown_by = np.zeros((GROUP, 16), np.int32)  # the bodies' object ids plus 1, 0 for the scene
    if bodies is not None:
        first_body = bodies.first[n]
        boxes = np.empty((bodies.first[n + 1] - first_body, 4), np.int64)
        for body in range(len(boxes)):
            row = first_body + body
            pixels_of_body(view, bodies.pose[row], bodies.spheres[bodies.slot[row]], optics, boxes[body])
    for y in range(first_row, last_row, 4):
        for x in range(0, optics.width, 4 * GROUP):
            count = min(GROUP, (optics.width - x + 3) // 4)
            for k in range(count):
                aim(packets[k], floats[k], view, x + 4 * k, y, optics)
                intersect(tracer.function, tracer.num_rays, slot.tree, packets[k], narrow)
                if shading is not None:
                    if rgb.size:
                        fetch_records(packets[k], slot.triangles)
            if shading is not None:
                if rgb.size:
                    shade_hits(packets[:count], floats[:count], views.lights[n], axes, shading, slot)
            if bodies is not None:
                if len(boxes) > 0:
                    _add_bodies(
                        packets[:count],
                        floats[:count],
                        shown_by,
                        narrow,
                        boxes,
                        x,
                        y,
                        n,
                        rgb.size > 0,
                        tracer,
                        views,
                        bodies,
                        optics,
                        shading,
                    )
            for k in range(count):
                packet = packets[k]
                for lane in range(16):
                    column = x + 4 * k + (lane & 3)
                    row = y + (lane >> 2)
                    if column >= optics.width or row >= optics.height:
                        continue
                    i = np.uint32(row)  # unsigned, see row_of
                    j = np.uint32(column)
                    hit = packet[HIT + lane] != NOTHING
                    if depth.size:
                        metres = max(min(floats[k, FAR + lane], optics.max_depth), optics.min_depth)
                        depth[i, j] = (metres - optics.offset) / optics.unit if hit else optics.miss
                    if semantic.size:
                        own = shown_by[k, lane]
                        semantic[i, j] = own - 1 if own != 0 else objects[row_of(packet[TRIANGLE + lane])] if hit else 0
                    if shading is not None:
                        if rgb.size:
                            rgb[i, j, 0] = shading.encode[row_of(packet[SHOWN + lane])] if hit else 0
                            rgb[i, j, 1] = shading.encode[row_of(packet[SHOWN + 16 + lane])] if hit else 0
                            rgb[i, j, 2] = shading.encode[row_of(packet[SHOWN + 32 + lane])] if hit else 0


@njit(**INNER)
def filter_masked(
    packet: np.ndarray, floats: np.ndarray, axes: np.ndarray, shading: Shading, tracer: Tracer, slot: np.record
) -> None:
    """Make Embree filter the hits of a slot's masked triangles, if it has any; ``axes`` [2, 3] as in ``shade_hits``."""
    if slot.masked != 0:
        starts = np.int64(shading.level_starts.ctypes.data)
        last = len(shading.level_starts) - 1
        surfaces = Surfaces(slot.triangles, slot.materials, slot.texels, slot.num_textures, last, starts)
        filter_hits(packet, floats, axes, tracer.hit_filter, surfaces)


@njit(**INNER)
def _add_bodies(
    packets: np.ndarray,
    floats: np.ndarray,
    shown_by: np.ndarray,
    narrow: np.ndarray,
    boxes: np.ndarray,
    x: int,
    y: int,
    n: int,
    colored: bool,
    tracer: Tracer,
    views: Views,
    bodies: Bodies,
    optics: Optics,
    shading: Shading | None,
) -> None:
    """Trace rays that have been traced through the scene through the bodies of view ``n``; keep the nearer hits.

    Args:
        packets: [P, words], the packets as int32: distances, hits and colours are replaced.
        floats: [P, words], the packets as float32.
        shown_by: [GROUP, 16] int32, written: the bodies' object ids plus 1, 0 for the scene.
        narrow: Another packet, of which nothing is kept.
        boxes: [B, 4] int64, pixels of the bodies, see ``pixels_of_body``.
        x: Column of the first pixel of the first packet.
        y: Row of the first pixel.
        n: The view.
        colored: Whether colours are drawn.
        tracer: Embree's functions.
        views: The views.
        bodies: The bodies.
        optics: The camera.
        shading: Inputs of shading, or None.
    """
    shown_by[:] = 0
    for body in range(len(boxes)):
        if boxes[body, 1] >= y + 4 or boxes[body, 3] <= y:
            continue
        if boxes[body, 0] >= x + 4 * len(packets) or boxes[body, 2] <= x:
            continue
        row = bodies.first[n] + body
        slot = bodies.table[bodies.slot[row]]
        pose = bodies.pose[row]
        view = np.empty((4, 4), np.float32)
        light = np.empty(3, np.float32)
        view_of_body(views.matrices[n], pose, view)
        light_on_body(views.lights[n], pose, light)
        axes = view[:2, :3] * optics.pixel
        own = new_packets(to_int64(1))
        packet = own[0]
        distances = packet.view(np.float32)
        start_view(packet, distances, view, optics.near)
        if shading is not None:
            filter_masked(packet, distances, axes, shading, tracer, slot)
        for k in range(len(packets)):
            if boxes[body, 0] >= x + 4 * k + 4 or boxes[body, 2] <= x + 4 * k:
                continue
            aim(packet, distances, view, x + 4 * k, y, optics)
            for lane in range(16):
                distances[FAR + lane] = floats[k, FAR + lane]
            intersect(tracer.function, tracer.num_rays, slot.tree, packet, narrow)
            if not any_hit(packet):
                continue
            if shading is not None:
                if colored:
                    fetch_records(packet, slot.triangles)
                    shade_hits(own, own.view(np.float32), light, axes, shading, slot)
            take_hits(packets[k], floats[k], shown_by[k], packet, pose, bodies.object_id[row])


@njit(**INNER)
def shade_hits(
    packets: np.ndarray, floats: np.ndarray, light: np.ndarray, axes: np.ndarray, shading: Shading, slot: np.record
) -> None:
    """Write the colours of the surfaces that the rays of some packets have hit.

    Each stage runs over all packets, so that the processor can load the data of one packet while it computes another.

    Args:
        packets: [P, words], the packets as int32.
        floats: [P, words], the packets as float32.
        light: [3] float32, towards the light.
        axes: [2, 3] float32, change of a ray to the next pixel on the right and above.
        shading: Inputs of shading.
        slot: SLOT, the scene.
    """
    triangles = carray(pointer(slot.triangles), (slot.num_triangles, TRIANGLE_WORDS), np.int32)
    materials = carray(pointer(slot.materials), (slot.num_materials, MATERIAL_WORDS), np.int32)
    texels = carray(pointer(slot.texels), (slot.num_textures * shading.size * shading.size * 2,), np.int32)
    textured = False
    for k in range(len(packets)):
        find_shine(floats[k], light, shading.brightness)
        textured |= read_materials(packets[k], triangles, materials)
    if textured:
        for k in range(len(packets)):
            read_records(packets[k], triangles)
            find_footprints(floats[k], axes)
            find_levels(packets[k], floats[k], shading.size)
            find_texels(packets[k], floats[k], shading.size, slot.num_textures)
            fetch_texels(packets[k], slot.texels)
        for k in range(len(packets)):
            read_texels(packets[k], texels)
            blend_texels(packets[k], floats[k])
    for k in range(len(packets)):
        finish_colors(packets[k], floats[k], np.float32(len(shading.encode) - 1))
