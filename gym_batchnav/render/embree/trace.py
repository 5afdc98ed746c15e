"""The kernel that draws views: it traces packets of 4x4 rays through Embree's trees and shades the hits.

It reads a record of the slot table (see ``SLOT``) for every view, so that one call draws the views of all slots.
A view is drawn in bands of rows; the numbers of bands and threads do not affect the pictures. The kernel is compiled
without moving bodies if they are None, and without colours and masks if ``Shading`` is None. Rays of pinholes are
computed, which is faster; a table of rays serves every lens, and sensors that need the rays themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray, njit

from gym_batchnav.render.embree import bodies as body_rays
from gym_batchnav.render.embree import packet as layout
from gym_batchnav.render.embree import shade
from gym_batchnav.render.embree.bodies import Bodies
from gym_batchnav.render.embree.packet import Surfaces, filter_hits, intersect, new_packets, pointer
from gym_batchnav.render.embree.shade import Shading
from gym_batchnav.render.optics import AHEAD, END, ORIGIN_RIGHT, ORIGIN_UP, RIGHT, UP, Optics, RayTable
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


class Output(NamedTuple):
    """The pictures to write; those of absent sensors have no pixels: [N, 0, 0]."""

    depth: np.ndarray  # [N, H, W] float32
    rgb: np.ndarray  # [N, H, W, 3] uint8
    semantic: np.ndarray  # [N, H, W] int32


class Rays(NamedTuple):
    """The rays of a camera from a table, and the pictures of the sensors that need them; absent ones as in Output."""

    table: RayTable
    normals: np.ndarray  # [N, H, W, 3] float32
    points: np.ndarray  # [N, H, W, 3] float32


@njit(**ENTRY)
def draw(
    tracer: Tracer,
    views: Views,
    bodies: Bodies | None,
    rays: Rays | None,
    optics: Optics,
    shading: Shading | None,
    bands: int,
    out: Output,
) -> None:
    """Draw any of the sensors, in so many bands per view that a few views can keep all threads busy.

    There are no ``rays`` for a pinhole and the three sensors of ``out``: they follow from ``optics``. There is no
    ``shading`` if neither colours are drawn nor triangles masked.
    """
    for_each(_draw_band, len(views.order) * bands, (bands, tracer, views, bodies, rays, optics, shading, out))


@njit(**INNER)
def _draw_band(
    item: int,
    bands: int,
    tracer: Tracer,
    views: Views,
    bodies: Bodies | None,
    rays: Rays | None,
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
    packets = new_packets(to_int64(GROUP))
    floats = packets.view(np.float32)
    scratch = new_packets(to_int64(1))[0]
    eye = np.empty(3, np.float32)
    for k in range(GROUP):
        _start(packets[k], floats[k], view, rays, optics, shading, tracer, slot, eye)
    body_ids = np.zeros((GROUP, 16), np.int32)  # the bodies' object ids plus 1, 0 for the scene
    if bodies is not None:
        boxes = np.empty((bodies.first[n + 1] - bodies.first[n], 4), np.int64)
        for body in range(len(boxes)):
            row = bodies.first[n] + body
            sphere = bodies.spheres[bodies.slot[row]]
            body_rays.pixels_of_body(view, bodies.pose[row], sphere, optics, rays is None, boxes[body])
    for y in range(first_row, last_row, 4):
        for x in range(0, optics.width, 4 * GROUP):
            count = min(GROUP, (optics.width - x + 3) // 4)
            for k in range(count):
                _aim(packets[k], floats[k], view, eye, rays, optics, x + 4 * k, y)
                intersect(tracer.function, tracer.num_rays, slot.tree, packets[k], scratch)
                if shading is not None:
                    if rgb.size:
                        shade.fetch_records(packets[k], slot.triangles)
            if shading is not None:
                if rgb.size:
                    shade.shade_hits(packets[:count], floats[:count], views.lights[n], shading, slot)
            if bodies is not None:
                if len(boxes) > 0:
                    _add_bodies(
                        packets[:count],
                        floats[:count],
                        body_ids,
                        scratch,
                        boxes,
                        x,
                        y,
                        n,
                        rgb.size > 0,
                        tracer,
                        views,
                        bodies,
                        rays,
                        optics,
                        shading,
                    )
            for k in range(count):
                packet = packets[k]
                if rays is not None:
                    _write_geometry(packet, floats[k], view, optics, rays, n, x + 4 * k, y)
                for lane in range(16):
                    column = x + 4 * k + (lane & 3)
                    row = y + (lane >> 2)
                    if column >= optics.width or row >= optics.height:
                        continue
                    i = np.uint32(row)  # unsigned, see shade.unsigned
                    j = np.uint32(column)
                    hit = packet[layout.HIT + lane] != layout.NOTHING
                    if depth.size:
                        metres = max(min(floats[k, layout.FAR + lane], optics.max_depth), optics.min_depth)
                        depth[i, j] = (metres - optics.offset) / optics.unit if hit else optics.miss
                    if semantic.size:
                        own = body_ids[k, lane]
                        triangle = shade.unsigned(packet[layout.TRIANGLE + lane])
                        semantic[i, j] = own - 1 if own != 0 else objects[triangle] if hit else 0
                    if shading is not None:
                        if rgb.size:
                            for channel in range(3):
                                step = shade.unsigned(packet[layout.SHOWN_RGB + 16 * channel + lane])
                                rgb[i, j, channel] = shading.encode[step] if hit else 0


@njit(**INNER)
def _start(
    packet: np.ndarray,
    floats: np.ndarray,
    view: np.ndarray,
    rays: Rays | None,
    optics: Optics,
    shading: Shading | None,
    tracer: Tracer,
    slot: np.record,
    eye: np.ndarray,
) -> None:
    """Write the words that all packets of a view share, and the camera's position [3] float32 to ``eye``.

    Embree is made to filter the hits of the slot's masked triangles, if it has any.
    """
    packet[:] = 0
    for axis in range(3):
        origin = 0.0
        for row in range(3):
            origin -= np.float64(view[row, axis]) * np.float64(view[row, 3])
        eye[axis] = np.float32(origin)
        floats[layout.ORIGIN + 16 * axis : layout.ORIGIN + 16 * axis + 16] = eye[axis]
    floats[layout.NEAR : layout.NEAR + 16] = optics.near
    packet[layout.MASK : layout.MASK + 16] = -1
    packet[layout.ACTIVE : layout.ACTIVE + 16] = -1
    packet[layout.ARGUMENTS] = layout.COHERENT
    packet[layout.ARGUMENTS + 1] = layout.ALL_FEATURES
    if rays is not None:
        floats[layout.PARALLEL] = rays.table.parallel
    else:
        for axis in range(2):
            for k in range(3):
                floats[layout.AXES + 3 * axis + k] = view[axis, k] * optics.pixel
    if shading is not None:
        if slot.masked != 0:
            starts = np.int64(shading.level_starts.ctypes.data)
            last = len(shading.level_starts) - 1
            surfaces = Surfaces(slot.triangles, slot.materials, slot.texels, slot.num_textures, last, starts)
            filter_hits(packet, tracer.hit_filter, surfaces)


@njit(**INNER)
def _aim(
    packet: np.ndarray,
    floats: np.ndarray,
    view: np.ndarray,
    eye: np.ndarray,
    rays: Rays | None,
    optics: Optics,
    x: int,
    y: int,
) -> None:
    """Aim the rays of the 4x4 pixels from column ``x`` and row ``y`` of a camera at ``eye`` [3].

    Directions of pinholes have length one along the view axis, so that the distance along the ray is planar depth. Rays
    beyond the picture's edge are traced but not read.
    """
    if rays is None:
        half = np.float32(0.5)
        rx = view[0, 0]
        ry = view[0, 1]
        rz = view[0, 2]
        ux = view[1, 0]
        uy = view[1, 1]
        uz = view[1, 2]
        bx = view[2, 0]
        by = view[2, 1]
        bz = view[2, 2]
        for lane in range(16):
            right = optics.left + (np.float32(x + (lane & 3)) + half) * optics.pixel
            up = optics.top - (np.float32(y + (lane >> 2)) + half) * optics.pixel
            floats[layout.DIRECTION + lane] = right * rx + up * ux - bx
            floats[layout.DIRECTION + 16 + lane] = right * ry + up * uy - by
            floats[layout.DIRECTION + 32 + lane] = right * rz + up * uz - bz
            floats[layout.FAR + lane] = optics.far
            packet[layout.HIT + lane] = layout.NOTHING
    else:
        local = rays.table.axes[y >> 2, x >> 2]
        for axis in range(2):
            for k in range(3):
                turned = local[axis, 0] * view[0, k] + local[axis, 1] * view[1, k]
                floats[layout.AXES + 3 * axis + k] = turned - local[axis, 2] * view[2, k]
        for lane in range(16):
            ray = rays.table.rays[y + (lane >> 2), x + (lane & 3)]
            for k in range(3):
                start = eye[k] + ray[ORIGIN_RIGHT] * view[0, k] + ray[ORIGIN_UP] * view[1, k]
                floats[layout.ORIGIN + 16 * k + lane] = start
                across = ray[RIGHT] * view[0, k] + ray[UP] * view[1, k]
                floats[layout.DIRECTION + 16 * k + lane] = across - ray[AHEAD] * view[2, k]
            floats[layout.FAR + lane] = ray[END]
            packet[layout.HIT + lane] = layout.NOTHING


@njit(**INNER)
def _add_bodies(
    packets: np.ndarray,
    floats: np.ndarray,
    body_ids: np.ndarray,
    scratch: np.ndarray,
    boxes: np.ndarray,
    x: int,
    y: int,
    n: int,
    colored: bool,
    tracer: Tracer,
    views: Views,
    bodies: Bodies,
    rays: Rays | None,
    optics: Optics,
    shading: Shading | None,
) -> None:
    """Trace rays that have been traced through the scene through the bodies of view ``n``; keep the nearer hits.

    The packets show the pixels from column ``x`` and row ``y`` on. ``body_ids`` [GROUP, 16] int32 is written: the
    bodies' object ids plus 1, 0 for the scene. ``boxes`` [B, 4] int64 are the bodies' pixels, see ``pixels_of_body``.
    """
    body_ids[:] = 0
    view = np.empty((4, 4), np.float32)
    light = np.empty(3, np.float32)
    eye = np.empty(3, np.float32)
    center = np.empty(3, np.float32)
    own = new_packets(to_int64(1))
    packet = own[0]
    distances = packet.view(np.float32)
    for body in range(len(boxes)):
        if boxes[body, 1] >= y + 4 or boxes[body, 3] <= y:
            continue
        if boxes[body, 0] >= x + 4 * len(packets) or boxes[body, 2] <= x:
            continue
        row = bodies.first[n] + body
        slot = bodies.table[bodies.slot[row]]
        sphere = bodies.spheres[bodies.slot[row]]
        pose = bodies.pose[row]
        body_rays.center_of_body(pose, sphere, center)
        body_rays.turn_to_body(views.matrices[n], views.lights[n], pose, view, light)
        _start(packet, distances, view, rays, optics, shading, tracer, slot, eye)
        for k in range(len(packets)):
            if boxes[body, 0] >= x + 4 * k + 4 or boxes[body, 2] <= x + 4 * k:
                continue
            if not body_rays.may_hit(floats[k], center, sphere[3]):
                continue
            _aim(packet, distances, view, eye, rays, optics, x + 4 * k, y)
            for lane in range(16):
                distances[layout.FAR + lane] = floats[k, layout.FAR + lane]
            intersect(tracer.function, tracer.num_rays, slot.tree, packet, scratch)
            if not body_rays.any_hit(packet):
                continue
            if shading is not None:
                if colored:
                    shade.fetch_records(packet, slot.triangles)
                    shade.shade_hits(own, own.view(np.float32), light, shading, slot)
            body_rays.take_hits(packets[k], floats[k], body_ids[k], packet, pose, bodies.object_id[row])


@njit(**INNER)
def _write_geometry(
    packet: np.ndarray, floats: np.ndarray, view: np.ndarray, optics: Optics, rays: Rays, n: int, x: int, y: int
) -> None:
    """Write normals and points of the 4x4 pixels from column ``x`` and row ``y`` of view ``n``."""
    normals = rays.normals[n]
    points = rays.points[n]
    for lane in range(16):
        column = x + (lane & 3)
        row = y + (lane >> 2)
        if column >= optics.width or row >= optics.height:
            continue
        hit = packet[layout.HIT + lane] != layout.NOTHING
        if points.size:
            for k in range(3):
                along = floats[layout.FAR + lane] * floats[layout.DIRECTION + 16 * k + lane]
                points[row, column, k] = floats[layout.ORIGIN + 16 * k + lane] + along if hit else np.float32(0.0)
        if normals.size:
            nx = floats[layout.NORMAL + lane]
            ny = floats[layout.NORMAL + 16 + lane]
            nz = floats[layout.NORMAL + 32 + lane]
            away = nx * floats[layout.DIRECTION + lane] + ny * floats[layout.DIRECTION + 16 + lane]
            away += nz * floats[layout.DIRECTION + 32 + lane]
            scale = np.float32(1.0) / np.sqrt(nx * nx + ny * ny + nz * nz)
            scale = -scale if away > np.float32(0.0) else scale
            for k in range(3):
                turned = (view[k, 0] * nx + view[k, 1] * ny + view[k, 2] * nz) * scale
                normals[row, column, k] = turned if hit else np.float32(0.0)
