"""Cameras whose rays come from a table, and the kernel that draws their views.

A table serves every lens, and sensors that need the rays themselves. The pinhole's arithmetic, in ``trace.py``, is
faster where it suffices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray, njit

from gym_batchnav.geometry import Camera
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
    Optics,
    intersect,
    new_packets,
    pointer,
    start_view,
)
from gym_batchnav.render.embree.trace import Shading, Tracer, Views, filter_masked, shade_hits
from gym_batchnav.system.jit import ENTRY, INNER, to_int64
from gym_batchnav.system.parallel import for_each

_SIDE = 4  # pixels per side of a packet
_RIGHT, _UP, _AHEAD, _ORIGIN_RIGHT, _ORIGIN_UP, _END = range(6)


class RayTable(NamedTuple):
    """The rays of a camera, in its own frame; both arrays cover whole packets of 4x4 pixels.

    The texture footprints of the pixels of a packet are computed from one pair of axes: how the direction of a ray
    changes to the next pixel, on average over the packet. The origin takes its place if rays are parallel.
    """

    rays: (
        np.ndarray
    )  # [4 h, 4 w, 6] float32: direction (right, up, ahead), origin (right, up) in metres, end of the ray
    axes: np.ndarray  # [h, w, 2, 3] float32: change to the next pixel on the right and above, as (right, up, ahead)
    parallel: np.float32  # 1 if the rays are parallel


class RayOutput(NamedTuple):
    """The pictures to write; those of absent sensors have no pixels: [N, 0, 0]."""

    depth: np.ndarray  # [N, H, W] float32
    rgb: np.ndarray  # [N, H, W, 3] uint8
    semantic: np.ndarray  # [N, H, W] int32
    normals: np.ndarray  # [N, H, W, 3] float32
    points: np.ndarray  # [N, H, W, 3] float32


def ray_table(camera: Camera, optics: Optics) -> RayTable:
    """Return the rays of a camera.

    Args:
        camera: The camera.
        optics: The same as kernels take it.
    """
    rows = -(-camera.height // _SIDE)
    columns = -(-camera.width // _SIDE)
    rays = np.zeros((_SIDE * rows, _SIDE * columns, 6), np.float32)
    rays[..., _AHEAD] = 1
    rays[..., _END] = -1  # Embree ignores a ray that ends before it begins
    changes = np.full((_SIDE * rows, _SIDE * columns, 2, 3), np.nan)
    image = slice(camera.height), slice(camera.width)
    if camera.lens is None:
        # As in the kernel for pinholes, to the bit.
        half = np.float32(0.5)
        x = np.arange(camera.width, dtype=np.float32) + half
        y = np.arange(camera.height, dtype=np.float32)[:, None] + half
        rays[(*image, _RIGHT)] = optics.left + x * optics.pixel
        rays[(*image, _UP)] = optics.top - y * optics.pixel
        rays[(*image, _END)] = optics.far
        changes[image] = [[optics.pixel, 0, 0], [0, optics.pixel, 0]]
        return RayTable(rays, _packet_means(changes, rows, columns), np.float32(0))
    y, x = np.mgrid[: camera.height, : camera.width] + 0.5
    size = (camera.width, camera.height)
    direction, origin = camera.lens.rays(x, y, *size)
    has_ray = ~np.isnan(direction).any(axis=-1)
    whole = np.concatenate([direction, origin, np.full((*x.shape, 1), optics.far)], axis=-1)
    rays[image][has_ray] = whole[has_ray]
    part = "origin" if camera.lens.is_parallel else "direction"
    for axis, (dx, dy) in enumerate(((0.5, 0), (0, -0.5))):  # rows count downwards
        after = getattr(camera.lens.rays(x + dx, y + dy, *size), part)
        before = getattr(camera.lens.rays(x - dx, y - dy, *size), part)
        changes[image][:, :, axis] = 0 if camera.lens.is_parallel else np.nan
        changes[image][:, :, axis, : after.shape[-1]] = after - before
    return RayTable(rays, _packet_means(changes, rows, columns), np.float32(camera.lens.is_parallel))


def _packet_means(changes: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return the means [h, w, 2, 3] float32 of changes [4 h, 4 w, 2, 3] over packets; zero where all are NaN."""
    packets = changes.reshape(rows, _SIDE, columns, _SIDE, 2, 3)
    known = ~np.isnan(packets).any(axis=(-1, -2), keepdims=True)
    total = np.where(known, packets, 0).sum(axis=(1, 3))
    return (total / np.maximum(known.sum(axis=(1, 3)), 1)).astype(np.float32)


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
            floats[ORIGIN + 16 * k + lane] = eye[k] + ray[_ORIGIN_RIGHT] * view[0, k] + ray[_ORIGIN_UP] * view[1, k]
            across = ray[_RIGHT] * view[0, k] + ray[_UP] * view[1, k]
            floats[DIRECTION + 16 * k + lane] = across - ray[_AHEAD] * view[2, k]
        floats[FAR + lane] = ray[_END]
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
