"""The arrays that the kernels of flight read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Surfaces(NamedTuple):
    """Triangles, and the cells of a uniform grid that each of them touches."""

    corners: np.ndarray  # [T, 3, 3] float32, metres
    start: np.ndarray  # [cells + 1] int64, first row of every cell in items; cells in the order of x, y, z
    items: np.ndarray  # [M] int32, triangles
    shape: np.ndarray  # [3] int64, number of cells along x, y and z
    frame: np.ndarray  # [4] float64, smallest corner of the grid and side of a cell, metres


class Voxels(NamedTuple):
    """Cubes of space."""

    clearance: np.ndarray  # [X, Y, Z] float32, metres from the centre to the nearest triangle, at most a limit
    number: np.ndarray  # [X, Y, Z] int32, row of a voxel of the air in the fields; -1 for all others
    frame: np.ndarray  # [4] float64, smallest corner of the voxels and side of one, metres


class Fields(NamedTuple):
    """The shortest paths from the voxels of the air to goals."""

    centers: np.ndarray  # [F, 3] float32, metres, centres of the voxels of the air
    goals: np.ndarray  # [G, 3] float32, metres
    distance: np.ndarray  # [G, F] float32, metres, inf without a path
    parent: np.ndarray  # [G, F] int32, voxel at which the path turns next; -1 for the goal itself
