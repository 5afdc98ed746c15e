"""Triangles: the closest point of one, and a uniform grid of many.

The closest point is that of Ericson, Real-Time Collision Detection (2005), section 5.1.5.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.layout import Point
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

_THIN = 1e-12  # squared sine of the angle at a corner, below which only the edges count
MARGIN = 1e-6  # metres around cells, for rounding


@njit(**INNER)
def closest_on_segment(a: Point, b: Point, p: Point) -> Point:
    """Return the point of a segment that is closest to a point."""
    dx = b.x - a.x
    dy = b.y - a.y
    dz = b.z - a.z
    length = dx * dx + dy * dy + dz * dz
    along = (p.x - a.x) * dx + (p.y - a.y) * dy + (p.z - a.z) * dz
    if along <= 0.0 or length == 0.0:
        return a
    if along >= length:
        return b
    share = along / length
    return Point(a.x + share * dx, a.y + share * dy, a.z + share * dz)


@njit(**SMALL)
def squared(p: Point, q: Point) -> float:
    """Return the squared distance of two points."""
    return (p.x - q.x) ** 2 + (p.y - q.y) ** 2 + (p.z - q.z) ** 2


@njit(**INNER)
def _closest_on_edges(a: Point, b: Point, c: Point, p: Point) -> Point:
    """Return the point on the edges of a triangle that is closest to a point."""
    best = closest_on_segment(a, b, p)
    for other in (closest_on_segment(b, c, p), closest_on_segment(c, a, p)):
        if squared(p, other) < squared(p, best):
            best = other
    return best


@njit(**SMALL)
def corner_at(corners: np.ndarray, triangle: int, corner: int) -> Point:
    """Return a corner of a triangle."""
    return Point(
        np.float64(corners[triangle, corner, 0]),
        np.float64(corners[triangle, corner, 1]),
        np.float64(corners[triangle, corner, 2]),
    )


@njit(**INNER)
def closest_on_triangle(corners: np.ndarray, triangle: int, p: Point) -> Point:
    """Return the point of a triangle, which may be degenerate, that is closest to a point."""
    a = corner_at(corners, to_int64(triangle), to_int64(0))
    b = corner_at(corners, to_int64(triangle), to_int64(1))
    c = corner_at(corners, to_int64(triangle), to_int64(2))
    abx, aby, abz = b.x - a.x, b.y - a.y, b.z - a.z
    acx, acy, acz = c.x - a.x, c.y - a.y, c.z - a.z
    nx = aby * acz - abz * acy
    ny = abz * acx - abx * acz
    nz = abx * acy - aby * acx
    normal = nx * nx + ny * ny + nz * nz
    if normal <= _THIN * (abx * abx + aby * aby + abz * abz) * (acx * acx + acy * acy + acz * acz):
        return _closest_on_edges(a, b, c, p)
    d1 = abx * (p.x - a.x) + aby * (p.y - a.y) + abz * (p.z - a.z)
    d2 = acx * (p.x - a.x) + acy * (p.y - a.y) + acz * (p.z - a.z)
    if d1 <= 0.0 and d2 <= 0.0:
        return a
    d3 = abx * (p.x - b.x) + aby * (p.y - b.y) + abz * (p.z - b.z)
    d4 = acx * (p.x - b.x) + acy * (p.y - b.y) + acz * (p.z - b.z)
    if d3 >= 0.0 and d4 <= d3:
        return b
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        return closest_on_segment(a, b, p)
    d5 = abx * (p.x - c.x) + aby * (p.y - c.y) + abz * (p.z - c.z)
    d6 = acx * (p.x - c.x) + acy * (p.y - c.y) + acz * (p.z - c.z)
    if d6 >= 0.0 and d5 <= d6:
        return c
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        return closest_on_segment(a, c, p)
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        return closest_on_segment(b, c, p)
    share = ((p.x - a.x) * nx + (p.y - a.y) * ny + (p.z - a.z) * nz) / normal
    return Point(p.x - share * nx, p.y - share * ny, p.z - share * nz)


@njit(**INNER)
def distance_to_box(corners: np.ndarray, triangle: int, p: Point) -> float:
    """Return the distance from a point to the bounding box of a triangle, which is no more than to the triangle."""
    total = 0.0
    for axis, value in enumerate((p.x, p.y, p.z)):
        a = np.float64(corners[triangle, 0, axis])
        b = np.float64(corners[triangle, 1, axis])
        c = np.float64(corners[triangle, 2, axis])
        outside = max(min(a, b, c) - value, 0.0, value - max(a, b, c))
        total += outside * outside
    return math.sqrt(total)


@njit(**SMALL)
def cell_of(value: float, low: float, side: float, count: int) -> int:
    """Return the cell of a coordinate along one axis, the first or last one for coordinates outside the grid."""
    cell = (value - low) / side
    if not cell > 0.0:  # also NaN
        return 0
    if cell >= count:
        return count - 1
    return to_int64(cell)


@njit(**INNER)
def _range(
    corners: np.ndarray, triangle: int, axis: int, shape: np.ndarray, frame: np.ndarray, margin: float
) -> tuple[int, int]:
    """Return the first cell along an axis that a triangle's box touches, and the one after the last; equal if none."""
    a = np.float64(corners[triangle, 0, axis])
    b = np.float64(corners[triangle, 1, axis])
    c = np.float64(corners[triangle, 2, axis])
    low = min(a, b, c) - margin
    high = max(a, b, c) + margin
    end = frame[axis] + shape[axis] * frame[3]
    if high < frame[axis] or low > end:
        return 0, 0
    first = cell_of(low, frame[axis], frame[3], shape[axis])
    return first, cell_of(high, frame[axis], frame[3], shape[axis]) + 1


@njit(**ENTRY)
def count_boxes(corners: np.ndarray, shape: np.ndarray, frame: np.ndarray, margin: float) -> float:
    """Return the number of pairs of a triangle and a cell that its bounding box touches, with a margin in metres."""
    total = 0.0
    for triangle in range(len(corners)):
        pairs = 1.0
        for axis in range(3):
            first, end = _range(corners, to_int64(triangle), to_int64(axis), shape, frame, margin)
            pairs *= end - first
        total += pairs
    return total


@njit(**ENTRY)
def fill_cells(
    corners: np.ndarray, shape: np.ndarray, frame: np.ndarray, start: np.ndarray, items: np.ndarray, counts: bool
) -> None:
    """Count the triangles of every cell in ``start`` [cells + 1], shifted by one, or write them to ``items``.

    Args:
        corners: [T, 3, 3] float32.
        shape: [3] int64.
        frame: [4] float64.
        start: [cells + 1] int64; if it counts, zeros that become counts; otherwise the next free row of every cell.
        items: [M] int32.
        counts: Whether to count.
    """
    side = frame[3]
    reach = (0.5 * math.sqrt(3.0) * side + MARGIN) ** 2
    for triangle in range(len(corners)):
        x0, x1 = _range(corners, to_int64(triangle), to_int64(0), shape, frame, MARGIN)
        y0, y1 = _range(corners, to_int64(triangle), to_int64(1), shape, frame, MARGIN)
        z0, z1 = _range(corners, to_int64(triangle), to_int64(2), shape, frame, MARGIN)
        for x in range(x0, x1):
            for y in range(y0, y1):
                for z in range(z0, z1):
                    center = Point(
                        frame[0] + (x + 0.5) * side, frame[1] + (y + 0.5) * side, frame[2] + (z + 0.5) * side
                    )
                    if squared(center, closest_on_triangle(corners, triangle, center)) > reach:
                        continue
                    cell = (x * shape[1] + y) * shape[2] + z
                    if counts:
                        start[cell + 1] += 1
                    else:
                        items[start[cell]] = triangle
                        start[cell] += 1
