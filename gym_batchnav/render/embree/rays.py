"""The kernel that draws views of cameras whose rays come from a table.

A table serves every lens, and sensors that need the rays themselves. The pinhole's arithmetic, in ``trace.py``, is
faster where it suffices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray, njit

from gym_batchnav.render.embree.bodies import (
    Bodies,
    any_hit,
    center_of_body,
    light_on_body,
    may_meet,
    take_hits,
    view_of_body,
)
from gym_batchnav.render.embree.packet import (
    AXES,
    DIRECTION,
    FAR,
    HIT,
    NORMAL,
    NOTHING,
    ORIGIN,
    PARALLEL,
    SHOWN,
    TRIANGLE,
    intersect,
    new_packets,
    pointer,
    start_view,
)
from gym_batchnav.render.embree.trace import Shading, Tracer, Views, filter_masked, shade_hits
from gym_batchnav.render.optics import AHEAD, END, ORIGIN_RIGHT, ORIGIN_UP, RIGHT, UP, Optics, RayTable
from gym_batchnav.system.jit import ENTRY, INNER, to_int64
from gym_batchnav.system.parallel import for_each


class RayOutput(NamedTuple):
    """The pictures to write; those of absent sensors have no pixels: [N, 0, 0]."""

    depth: np.ndarray  # [N, H, W] float32
    rgb: np.ndarray  # [N, H, W, 3] uint8
    semantic: np.ndarray  # [N, H, W] int32
    normals: np.ndarray  # [N, H, W, 3] float32
    points: np.ndarray  # [N, H, W, 3] float32


@njit(**ENTRY)
def draw_rays(
    tracer: Tracer,
    views: Views,
    bodies: Bodies | None,
    table: RayTable,
    optics: Optics,
    shading: Shading | None,
    bands: int,
    out: RayOutput,
) -> None:
    """Draw any of the five sensors.

    Args:
        tracer: Embree's functions.
        views: The views.
        bodies: Moving bodies, or None.
        table: The rays of the camera.
        optics: Size and encoding of the pictures; its image plane is not read.
        shading: Inputs of shading; None if neither colours are drawn nor triangles masked.
        bands: Number of bands per view, so that a few views can keep all threads busy.
        out: The pictures, written.
    """
    for_each(_draw_band, len(views.order) * bands, (bands, tracer, views, bodies, table, optics, shading, out))


@njit(**INNER)
def _draw_band(
    item: int,
    bands: int,
    tracer: Tracer,
    views: Views,
    bodies: Bodies | None,
    table: RayTable,
    optics: Optics,
    shading: Shading | None,
    out: RayOutput,
) -> None:
    """Draw band ``item % bands`` of view ``views.order[item // bands]``."""
    rows = (optics.height + 4 * bands - 1) // (4 * bands) * 4
    n = views.order[item // bands]
    first_row = item % bands * rows
    last_row = min(first_row + rows, optics.height)
    slot = views.table[views.slots[n]]
    view = views.matrices[n]
    rgb = out.rgb[n]
    axes = np.empty((2, 3), np.float32)
    packets = new_packets(to_int64(1))
    packet = packets[0]
    narrow = new_packets(to_int64(1))[0]
    own = new_packets(to_int64(1))  # of bodies
    floats = packet.view(np.float32)
    shown_by = np.zeros(16, np.int32)  # the bodies' object ids plus 1, 0 for the scene
    if bodies is not None:
        first_body = bodies.first[n]
        centers = np.empty((bodies.first[n + 1] - first_body, 3), np.float32)
        for body in range(len(centers)):
            row = first_body + body
            center_of_body(bodies.pose[row], bodies.spheres[bodies.slot[row]], centers[body])
    start_view(packet, floats, view, optics.near)
    if shading is not None:
        filter_masked(packet, floats, axes, shading, tracer, slot)
    floats[PARALLEL] = table.parallel
    eye = _eye(floats)
    for y in range(first_row, last_row, 4):
        for x in range(0, optics.width, 4):
            _turn_axes(view, table.axes[y >> 2, x >> 2], axes)
            _set_axes(floats, axes)
            _aim(packet, floats, view, eye, table.rays, x, y)
            intersect(tracer.function, tracer.num_rays, slot.tree, packet, narrow)
            if shading is not None:
                if rgb.size:
                    _shade(packets, views.lights[n], axes, table, shading, slot)
            shown_by[:] = 0
            if bodies is not None:
                for body in range(len(centers)):
                    row = first_body + body
                    if may_meet(floats, centers[body], bodies.spheres[bodies.slot[row], 3]):
                        _add_body(
                            packet,
                            floats,
                            shown_by,
                            own,
                            narrow,
                            x,
                            y,
                            n,
                            row,
                            tracer,
                            views,
                            bodies,
                            table,
                            optics,
                            shading,
                            rgb.size > 0,
                        )
            _write_geometry(packet, floats, shown_by, view, slot, optics, out, n, x, y)
            if shading is not None:
                if rgb.size:
                    for lane in range(16):
                        column = x + (lane & 3)
                        row = y + (lane >> 2)
                        if column < optics.width and row < optics.height:
                            hit = packet[HIT + lane] != NOTHING
                            for k in range(3):
                                rgb[row, column, k] = shading.encode[packet[SHOWN + 16 * k + lane]] if hit else 0


@njit(**INNER)
def _eye(floats: np.ndarray) -> np.ndarray:
    """Return the position [3] float32 of the camera of a packet that ``start_view`` prepared."""
    eye = np.empty(3, np.float32)
    for axis in range(3):
        eye[axis] = floats[ORIGIN + 16 * axis]
    return eye


@njit(**INNER)
def _set_axes(floats: np.ndarray, axes: np.ndarray) -> None:
    """Write the axes [2, 3] of a packet's pixels for the filter of masked triangles."""
    for axis in range(2):
        for k in range(3):
            floats[AXES + 3 * axis + k] = axes[axis, k]


@njit(**INNER)
def _shade(
    packets: np.ndarray, light: np.ndarray, axes: np.ndarray, table: RayTable, shading: Shading, slot: np.record
) -> None:
    """Write the colours of the surfaces that the rays of one packet [1, words] have hit."""
    floats = packets.view(np.float32)
    if table.parallel == 0:
        shade_hits(packets, floats, light, axes, shading, slot)
        return
    distances = floats[0, FAR : FAR + 16].copy()
    floats[0, FAR : FAR + 16] = np.float32(1.0)  # the footprints of parallel rays do not grow with the distance
    shade_hits(packets, floats, light, axes, shading, slot)
    floats[0, FAR : FAR + 16] = distances


@njit(**INNER)
def _add_body(
    packet: np.ndarray,
    floats: np.ndarray,
    shown_by: np.ndarray,
    own: np.ndarray,
    narrow: np.ndarray,
    x: int,
    y: int,
    n: int,
    row: int,
    tracer: Tracer,
    views: Views,
    bodies: Bodies,
    table: RayTable,
    optics: Optics,
    shading: Shading | None,
    colored: bool,
) -> None:
    """Trace rays that have been traced through the scene through a body; keep the nearer hits.

    Args:
        packet: The packet as int32: distances, hits, normals and colours are replaced.
        floats: The packet as float32.
        shown_by: [16] int32, written: the bodies' object ids plus 1, 0 for the scene.
        own: [1, words] int32, a packet of which nothing is kept.
        narrow: Another one.
        x: Column of the first pixel.
        y: Row of the first pixel.
        n: The view.
        row: The body's.
        tracer: Embree's functions.
        views: The views.
        bodies: The bodies.
        table: The rays of the camera.
        optics: The camera.
        shading: Inputs of shading, or None.
        colored: Whether colours are drawn.
    """
    slot = bodies.table[bodies.slot[row]]
    pose = bodies.pose[row]
    view = np.empty((4, 4), np.float32)
    axes = np.empty((2, 3), np.float32)
    view_of_body(views.matrices[n], pose, view)
    _turn_axes(view, table.axes[y >> 2, x >> 2], axes)
    of_body = own[0]
    distances = of_body.view(np.float32)
    start_view(of_body, distances, view, optics.near)
    if shading is not None:
        filter_masked(of_body, distances, axes, shading, tracer, slot)
    distances[PARALLEL] = table.parallel
    _aim(of_body, distances, view, _eye(distances), table.rays, x, y)
    for lane in range(16):
        distances[FAR + lane] = floats[FAR + lane]
    intersect(tracer.function, tracer.num_rays, slot.tree, of_body, narrow)
    if not any_hit(of_body):
        return
    if shading is not None:
        if colored:
            light = np.empty(3, np.float32)
            light_on_body(views.lights[n], pose, light)
            _shade(own, light, axes, table, shading, slot)
    take_hits(packet, floats, shown_by, of_body, pose, bodies.object_id[row])


@njit(**INNER)
def _turn_axes(view: np.ndarray, local: np.ndarray, axes: np.ndarray) -> None:
    """Turn axes [2, 3] (right, up, ahead) of a camera's frame into the world."""
    for axis in range(2):
        for k in range(3):
            turned = local[axis, 0] * view[0, k] + local[axis, 1] * view[1, k]
            axes[axis, k] = turned - local[axis, 2] * view[2, k]


@njit(**INNER)
def _aim(
    packet: np.ndarray, floats: np.ndarray, view: np.ndarray, eye: np.ndarray, rays: np.ndarray, x: int, y: int
) -> None:
    """Aim the rays of the 4x4 pixels from (x, y).

    Args:
        packet: The packet as int32.
        floats: The packet as float32.
        view: [4, 4] float32, world-to-camera.
        eye: [3] float32, the camera's position.
        rays: See ``RayTable``.
        x: Column of the first pixel.
        y: Row of the first pixel.
    """
    for lane in range(16):
        ray = rays[y + (lane >> 2), x + (lane & 3)]
        for k in range(3):
            floats[ORIGIN + 16 * k + lane] = eye[k] + ray[ORIGIN_RIGHT] * view[0, k] + ray[ORIGIN_UP] * view[1, k]
            across = ray[RIGHT] * view[0, k] + ray[UP] * view[1, k]
            floats[DIRECTION + 16 * k + lane] = across - ray[AHEAD] * view[2, k]
        floats[FAR + lane] = ray[END]
        packet[HIT + lane] = NOTHING


@njit(**INNER)
def _write_geometry(
    packet: np.ndarray,
    floats: np.ndarray,
    shown_by: np.ndarray,
    view: np.ndarray,
    slot: np.record,
    optics: Optics,
    out: RayOutput,
    n: int,
    x: int,
    y: int,
) -> None:
    """Write depth, semantic, normals and points of the 4x4 pixels from (x, y) of view n."""
    objects = carray(pointer(slot.objects), (slot.num_triangles,), np.int32)
    depth = out.depth[n]
    semantic = out.semantic[n]
    normals = out.normals[n]
    points = out.points[n]
    for lane in range(16):
        column = x + (lane & 3)
        row = y + (lane >> 2)
        if column >= optics.width or row >= optics.height:
            continue
        hit = packet[HIT + lane] != NOTHING
        length = floats[FAR + lane]
        if depth.size:
            metres = max(min(length, optics.max_depth), optics.min_depth)
            depth[row, column] = (metres - optics.offset) / optics.unit if hit else optics.miss
        if semantic.size:
            own = shown_by[lane]
            semantic[row, column] = own - 1 if own != 0 else objects[packet[TRIANGLE + lane]] if hit else 0
        if points.size:
            for k in range(3):
                reached = floats[ORIGIN + 16 * k + lane] + length * floats[DIRECTION + 16 * k + lane]
                points[row, column, k] = reached if hit else np.float32(0.0)
        if normals.size:
            nx = floats[NORMAL + lane]
            ny = floats[NORMAL + 16 + lane]
            nz = floats[NORMAL + 32 + lane]
            away = nx * floats[DIRECTION + lane] + ny * floats[DIRECTION + 16 + lane]
            away += nz * floats[DIRECTION + 32 + lane]
            scale = np.float32(1.0) / np.sqrt(nx * nx + ny * ny + nz * nz)
            scale = -scale if away > np.float32(0.0) else scale
            for k in range(3):
                turned = (view[k, 0] * nx + view[k, 1] * ny + view[k, 2] * nz) * scale
                normals[row, column, k] = turned if hit else np.float32(0.0)
