"""Voxels: their clearance, the sky and the ground of their columns, lines of sight, and the part that is connected.

The clearance of any point is interpolated from the centres of eight voxels. A line of sight is clear if this is at
least the radius, less a slack, everywhere on it. Where a line crosses a surface, the interpolated clearance is about
half a voxel at most, so that no line of sight does.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gym_batchnav.flight.kernels.layout import Voxels
from gym_batchnav.flight.kernels.triangles import cell_of, closest_on_triangle, corner_at, distance_to_box, squared
from gym_batchnav.navmesh.kernels.layout import Point
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

SLACK = 0.25  # of a voxel's side, by which the interpolated clearance may fall short on a line of sight
_STRIDE = 1 / 3  # of a voxel's side, the least distance between two samples on a line of sight
NUM_NEIGHBOURS = 26


@njit(**SMALL)
def center_of(frame: np.ndarray, x: int, y: int, z: int) -> Point:
    """Return the centre of a voxel."""
    side = frame[3]
    return Point(frame[0] + (x + 0.5) * side, frame[1] + (y + 0.5) * side, frame[2] + (z + 0.5) * side)


@njit(**ENTRY)
def write_clearance(corners: np.ndarray, frame: np.ndarray, clearance: np.ndarray) -> None:
    """Lower the clearance [X, Y, Z] float32 of all voxels, at first its limit, to the distance of the triangles."""
    side = frame[3]
    shape = clearance.shape
    most = np.float64(clearance.max())
    for triangle in range(len(corners)):
        a = corner_at(corners, to_int64(triangle), to_int64(0))
        b = corner_at(corners, to_int64(triangle), to_int64(1))
        c = corner_at(corners, to_int64(triangle), to_int64(2))
        x0 = cell_of(min(a.x, b.x, c.x) - most, frame[0], side, shape[0])
        x1 = cell_of(max(a.x, b.x, c.x) + most, frame[0], side, shape[0])
        y0 = cell_of(min(a.y, b.y, c.y) - most, frame[1], side, shape[1])
        y1 = cell_of(max(a.y, b.y, c.y) + most, frame[1], side, shape[1])
        z0 = cell_of(min(a.z, b.z, c.z) - most, frame[2], side, shape[2])
        z1 = cell_of(max(a.z, b.z, c.z) + most, frame[2], side, shape[2])
        for x in range(x0, x1 + 1):
            for y in range(y0, y1 + 1):
                for z in range(z0, z1 + 1):
                    center = center_of(frame, x, y, z)
                    if distance_to_box(corners, triangle, center) >= clearance[x, y, z]:
                        continue
                    distance = math.sqrt(squared(center, closest_on_triangle(corners, triangle, center)))
                    if distance < clearance[x, y, z]:
                        clearance[x, y, z] = distance


@njit(**SMALL)
def _side_of(ax: float, az: float, bx: float, bz: float, x: float, z: float) -> float:
    """Return on which side of the line from a to b a point lies, seen from above."""
    return (bx - ax) * (z - az) - (bz - az) * (x - ax)


@njit(**ENTRY)
def write_columns(corners: np.ndarray, frame: np.ndarray, lowest: np.ndarray, highest: np.ndarray) -> None:
    """Write the heights [X, Z] float64 at which vertical lines through the voxels' centres first and last hit.

    They must hold inf and -inf at first, and keep these where a line hits nothing.
    """
    side = frame[3]
    num_x, num_z = lowest.shape
    for triangle in range(len(corners)):
        a = corner_at(corners, to_int64(triangle), to_int64(0))
        b = corner_at(corners, to_int64(triangle), to_int64(1))
        c = corner_at(corners, to_int64(triangle), to_int64(2))
        area = _side_of(a.x, a.z, b.x, b.z, c.x, c.z)
        if area == 0.0:
            continue
        x0 = cell_of(min(a.x, b.x, c.x) - 0.5 * side, frame[0], side, num_x)
        x1 = cell_of(max(a.x, b.x, c.x), frame[0], side, num_x)
        z0 = cell_of(min(a.z, b.z, c.z) - 0.5 * side, frame[2], side, num_z)
        z1 = cell_of(max(a.z, b.z, c.z), frame[2], side, num_z)
        for column in range(x0, x1 + 1):
            x = frame[0] + (column + 0.5) * side
            for row in range(z0, z1 + 1):
                z = frame[2] + (row + 0.5) * side
                u = _side_of(b.x, b.z, c.x, c.z, x, z) / area
                v = _side_of(c.x, c.z, a.x, a.z, x, z) / area
                w = 1.0 - u - v
                if u >= 0.0 and v >= 0.0 and w >= -1e-12:
                    height = u * a.y + v * b.y + w * c.y
                    lowest[column, row] = min(lowest[column, row], height)
                    highest[column, row] = max(highest[column, row], height)


@njit(**INNER)
def clearance_at(voxels: Voxels, p: Point) -> float:
    """Return the interpolated clearance of a point; 0 beyond the centres of the outermost voxels."""
    clearance = voxels.clearance
    frame = voxels.frame
    side = frame[3]
    fx = (p.x - frame[0]) / side - 0.5
    fy = (p.y - frame[1]) / side - 0.5
    fz = (p.z - frame[2]) / side - 0.5
    if not (0.0 <= fx <= clearance.shape[0] - 1 and 0.0 <= fy <= clearance.shape[1] - 1):
        return 0.0
    if not 0.0 <= fz <= clearance.shape[2] - 1:
        return 0.0
    x = min(to_int64(fx), to_int64(clearance.shape[0] - 2))
    y = min(to_int64(fy), to_int64(clearance.shape[1] - 2))
    z = min(to_int64(fz), to_int64(clearance.shape[2] - 2))
    fx -= x
    fy -= y
    fz -= z
    low = (clearance[x, y, z] * (1 - fz) + clearance[x, y, z + 1] * fz) * (1 - fy) + (
        clearance[x, y + 1, z] * (1 - fz) + clearance[x, y + 1, z + 1] * fz
    ) * fy
    high = (clearance[x + 1, y, z] * (1 - fz) + clearance[x + 1, y, z + 1] * fz) * (1 - fy) + (
        clearance[x + 1, y + 1, z] * (1 - fz) + clearance[x + 1, y + 1, z + 1] * fz
    ) * fy
    return low * (1 - fx) + high * fx


@njit(**INNER)
def least_clearance(voxels: Voxels, p: Point) -> float:
    """Return a lower bound of the distance from a point to the nearest triangle and to the faces of the voxels' box.

    It is negative outside the box.
    """
    frame = voxels.frame
    side = frame[3]
    shape = voxels.clearance.shape
    to_face = np.inf  # the clearance is that of the scene's triangles alone
    for axis, value in enumerate((p.x, p.y, p.z)):
        to_face = min(to_face, value - frame[axis], frame[axis] + shape[axis] * side - value)
    x = cell_of(p.x, frame[0], side, shape[0])
    y = cell_of(p.y, frame[1], side, shape[1])
    z = cell_of(p.z, frame[2], side, shape[2])
    center = center_of(frame, x, y, z)
    return min(to_face, np.float64(voxels.clearance[x, y, z]) - math.sqrt(squared(center, p))) - 1e-6


@njit(**INNER)
def sees(voxels: Voxels, a: Point, b: Point, radius: float) -> bool:
    """Return whether the line of sight between two points is clear for a sphere."""
    length = math.sqrt(squared(a, b))
    side = voxels.frame[3]
    least = radius - SLACK * side
    stride = _STRIDE * side
    done = 0.0
    while True:
        share = done / length if length > 0.0 else 0.0
        at = Point(a.x + share * (b.x - a.x), a.y + share * (b.y - a.y), a.z + share * (b.z - a.z))
        spare = clearance_at(voxels, at) - least
        if not spare >= 0.0:
            return False
        if done >= length:
            return True
        done = min(length, done + max(stride, 0.9 * spare))


@njit(**SMALL)
def offset_of(neighbour: int) -> tuple[int, int, int]:
    """Return the offset of one of the 26 neighbours of a voxel."""
    number = neighbour + 1 if neighbour >= 13 else neighbour
    return number // 9 - 1, number // 3 % 3 - 1, number % 3 - 1


@njit(**ENTRY)
def label_parts(voxels: Voxels, free: np.ndarray, radius: float, labels: np.ndarray) -> int:
    """Number the connected parts of free voxels from 1 in ``labels`` [X, Y, Z] int32, at first 0; return how many.

    Two of the 26 neighbours are connected if both are free [X, Y, Z] bool and see each other.
    """
    shape = free.shape
    stack = np.empty((free.sum() + 1, 3), np.int32)
    parts = 0
    for x in range(shape[0]):
        for y in range(shape[1]):
            for z in range(shape[2]):
                if not free[x, y, z] or labels[x, y, z]:
                    continue
                parts += 1
                labels[x, y, z] = parts
                stack[0, 0], stack[0, 1], stack[0, 2] = x, y, z
                size = 1
                while size:
                    size -= 1
                    i, j, k = np.int64(stack[size, 0]), np.int64(stack[size, 1]), np.int64(stack[size, 2])
                    for neighbour in range(NUM_NEIGHBOURS):
                        dx, dy, dz = offset_of(neighbour)
                        u, v, w = i + dx, j + dy, k + dz
                        if not (0 <= u < shape[0] and 0 <= v < shape[1] and 0 <= w < shape[2]):
                            continue
                        if not free[u, v, w] or labels[u, v, w]:
                            continue
                        if sees(voxels, center_of(voxels.frame, i, j, k), center_of(voxels.frame, u, v, w), radius):
                            labels[u, v, w] = parts
                            stack[size, 0], stack[size, 1], stack[size, 2] = u, v, w
                            size += 1
    return parts


@njit(**ENTRY)
def write_neighbours(voxels: Voxels, places: np.ndarray, radius: float, out: np.ndarray) -> None:
    """Write the neighbours ``out`` [F, 26] int32 that the voxels of the air at ``places`` [F, 3] int32 see, or -1."""
    shape = voxels.number.shape
    for row in range(len(places)):
        x, y, z = np.int64(places[row, 0]), np.int64(places[row, 1]), np.int64(places[row, 2])
        for neighbour in range(NUM_NEIGHBOURS):
            out[row, neighbour] = -1
            dx, dy, dz = offset_of(neighbour)
            u, v, w = x + dx, y + dy, z + dz
            if not (0 <= u < shape[0] and 0 <= v < shape[1] and 0 <= w < shape[2]) or voxels.number[u, v, w] < 0:
                continue
            if sees(voxels, center_of(voxels.frame, x, y, z), center_of(voxels.frame, u, v, w), radius):
                out[row, neighbour] = voxels.number[u, v, w]
