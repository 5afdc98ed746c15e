"""A uniform grid of triangles: its construction, and the range of cells that a box touches."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gym_batchnav.flight.kernels.closest import closest_on_triangle, squared
from gym_batchnav.flight.kernels.layout import Point
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

MARGIN = 1e-6  # metres around cells, for rounding


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
