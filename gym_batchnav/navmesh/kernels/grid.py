"""Horizontal grids of square cells: the choice of the cell size, and lists of the boxes that touch each cell."""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY


def fit_grid(
    boxes: np.ndarray, origin: np.ndarray, high: np.ndarray, finest: float, most_cells: int, most_entries: int
) -> tuple[float, int, int]:
    """Choose the smallest cell that keeps a grid over boxes within its limits.

    ``boxes`` [P, 2, 3] float32 have a smallest and a largest corner. The grid reaches from ``origin`` to ``high``, both
    [2] float64 (x and z). Its cells measure ``finest`` or more, and there are about ``most_cells`` at most, and
    ``most_entries`` pairs of a cell and a box that touches it, which must not be less than P.

    Returns:
        The side of a cell in metres, and the number of cells along z and along x.
    """
    size = np.maximum(high - origin, 1e-3)
    cell = max(finest, float(np.sqrt(size.prod() / most_cells)), float(size.max() / most_cells))
    while True:
        nx, nz = (int(cells) for cells in np.floor(size / cell) + 1)
        low_cell = np.floor((boxes[:, 0, ::2] - origin) / cell)
        high_cell = np.minimum(np.floor((boxes[:, 1, ::2] - origin) / cell), [nx - 1, nz - 1])
        entries = np.maximum(high_cell - low_cell + 1, 0).prod(axis=1).sum()
        if entries <= most_entries or (nx == 1 and nz == 1):
            return cell, nz, nx
        cell *= 1.5


@njit(**ENTRY)
def bucket_boxes(
    boxes: np.ndarray, origin_x: float, origin_z: float, cell: float, nz: int, nx: int
) -> tuple[np.ndarray, np.ndarray]:
    """List the boxes that touch each cell of a grid, in ascending order.

    No box [2, 3] (smallest and largest corner) of ``boxes`` [P, 2, 3] lies below the origin.

    Returns:
        The begin and end of every cell in the list [nz, nx, 2] int32, and the list [M] int32.
    """
    grid = np.zeros((nz, nx, 2), np.int32)
    listed = np.empty(0, np.int32)
    for fill in range(2):  # first count, then write
        for p in range(len(boxes)):
            first_row = int((boxes[p, 0, 2] - origin_z) / cell)
            last_row = min(int((boxes[p, 1, 2] - origin_z) / cell), nz - 1)
            first_column = int((boxes[p, 0, 0] - origin_x) / cell)
            last_column = min(int((boxes[p, 1, 0] - origin_x) / cell), nx - 1)
            for j in range(first_row, last_row + 1):
                for i in range(first_column, last_column + 1):
                    if fill == 1:
                        listed[grid[j, i, 1]] = p
                    grid[j, i, 1] += 1
        if fill == 0:
            total = 0
            for j in range(nz):
                for i in range(nx):
                    size = grid[j, i, 1]
                    grid[j, i, 0] = total
                    grid[j, i, 1] = total
                    total += size
            listed = np.empty(total, np.int32)
    return grid, listed
