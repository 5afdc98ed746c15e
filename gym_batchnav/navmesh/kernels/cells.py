"""What an agent sees from where it stands, looked up instead of looked for.

The ground is cut into *pieces*, one for every polygon in every square cell. A piece lists the corners that some of its
own corners see along a taut line. What all of them see is listed as the corner's number, what only some see as its
complement (``~corner``): there a query must look for itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.ground import Ground, to_int64
from gym_batchnav.navmesh.kernels.views import view_1d, view_2d, view_3d
from gym_batchnav.navmesh.kernels.visibility import (
    CORNERS,
    MOST_CONES,
    Corners,
    grown,
    in_cone,
    is_taut,
    make_sight,
    next_cone,
    open_cones,
)

CELLS = CORNERS + len(Corners._fields)  # index of their first array in a row of addresses
CELL = 0.1  # metres, unless more than MAX_CELLS would be needed
MAX_CELLS = 1 << 17
PULL = 0.02  # part of the way to the middle by which samples on a piece's border are pulled in


class Cells(NamedTuple):
    """Lists of corners by cell and polygon."""

    grid: np.ndarray  # [NZ, NX, 2] int32, begin and end in pieces
    pieces: np.ndarray  # [Q + 1, 2] int32, polygon and begin in listed; the end is the next row's begin
    listed: np.ndarray  # [L] int32, corners, complemented where not all of the piece sees them
    frame: np.ndarray  # [3] float64, origin x and z, cell


@njit(cache=True, nogil=True)
def cells_at(row: np.ndarray) -> Cells:
    """The cells that a row of addresses points to."""
    return Cells(
        view_3d(row, CELLS, 0, 2, np.int32),
        view_2d(row, CELLS + 1, 2, np.int32),
        view_1d(row, CELLS + 2, np.int32),
        view_1d(row, CELLS + 3, np.float64),
    )


def make_cells(ground: Ground, corners: Corners) -> Cells:
    """Look around from every piece of a ground."""
    low, high = ground.frame[:2], ground.frame[:2]
    if len(ground.boxes):
        high = ground.boxes[:, 1].max(axis=0)[[0, 2]].astype(np.float64)
    size = np.maximum(high - low, 1e-3)
    cell = max(CELL, float(np.sqrt(size.prod() / MAX_CELLS)), float(size.max() / MAX_CELLS))
    nx, nz = (int(cells) for cells in np.floor(size / cell) + 1)
    grid, pieces, outlines, outline_start = _cut(ground, low[0], low[1], cell, nz, nx)
    samples = _sort_samples(len(ground.num_vertices), pieces, outlines, outline_start)
    listed = _list_corners(ground, corners, pieces, outline_start, samples)
    return Cells(grid, pieces, listed, np.array([low[0], low[1], cell]))


class _Samples(NamedTuple):
    """Points to look at, sorted by polygon, and scratch to mark them in."""

    start: np.ndarray  # [P + 1] int32, rows of point
    point: np.ndarray  # [S, 2] float32, x and z
    piece: np.ndarray  # [S] int32
    stamp: np.ndarray  # [S] int32, the last corner that was seen
    times: np.ndarray  # [Q] int32, samples of a piece that see the corner at hand
    touched: np.ndarray  # [Q] int32, pieces of which some do


@njit(cache=True, nogil=True)
def _clip(polygon: np.ndarray, count: int, axis: int, sign: float, limit: float, out: np.ndarray) -> int:
    """Keep the part of a convex polygon [n, 2] where ``sign * coordinate <= sign * limit``."""
    kept = 0
    for i in range(count):
        j = (i + 1) % count
        a, b = sign * (polygon[i, axis] - limit), sign * (polygon[j, axis] - limit)
        if a <= 0.0:
            out[kept, 0], out[kept, 1] = polygon[i, 0], polygon[i, 1]
            kept += 1
        if (a < 0.0 and b > 0.0) or (a > 0.0 and b < 0.0):
            t = a / (a - b)
            out[kept, 0] = polygon[i, 0] + t * (polygon[j, 0] - polygon[i, 0])
            out[kept, 1] = polygon[i, 1] + t * (polygon[j, 1] - polygon[i, 1])
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _clip_to_cell(ground: Ground, polygon: int, low_x: float, low_z: float, cell: float, work: np.ndarray) -> int:
    """The part of a polygon inside a cell, in ``work[0, :n]`` for the n that is returned."""
    count = ground.num_vertices[polygon]
    for i in range(count):
        work[0, i, 0], work[0, i, 1] = ground.outline[polygon, i, 0], ground.outline[polygon, i, 1]
    count = _clip(work[0], count, 0, -1.0, low_x, work[1])
    count = _clip(work[1], count, 0, 1.0, low_x + cell, work[0])
    count = _clip(work[0], count, 1, -1.0, low_z, work[1])
    return _clip(work[1], count, 1, 1.0, low_z + cell, work[0])


@njit(cache=True, nogil=True)
def _cut(
    ground: Ground, origin_x: float, origin_z: float, cell: float, nz: int, nx: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Cut polygons into pieces, cell by cell; returns grid, pieces (begins still 0), and the pieces' outlines."""
    grid = np.zeros((nz, nx, 2), np.int32)
    work = np.empty((2, 16, 2), np.float64)
    for p in range(len(ground.num_vertices)):  # an upper bound of the pieces in every cell
        box = ground.boxes[p]
        for j in range(int((box[0, 2] - origin_z) / cell), min(int((box[1, 2] - origin_z) / cell), nz - 1) + 1):
            for i in range(int((box[0, 0] - origin_x) / cell), min(int((box[1, 0] - origin_x) / cell), nx - 1) + 1):
                grid[j, i, 1] += 1
    bound = 0
    for j in range(nz):
        for i in range(nx):
            size = grid[j, i, 1]
            grid[j, i, 0] = grid[j, i, 1] = bound
            bound += size
    candidates = np.empty(bound, np.int32)
    for p in range(len(ground.num_vertices)):
        box = ground.boxes[p]
        for j in range(int((box[0, 2] - origin_z) / cell), min(int((box[1, 2] - origin_z) / cell), nz - 1) + 1):
            for i in range(int((box[0, 0] - origin_x) / cell), min(int((box[1, 0] - origin_x) / cell), nx - 1) + 1):
                candidates[grid[j, i, 1]] = p
                grid[j, i, 1] += 1
    pieces = np.zeros((bound + 1, 2), np.int32)
    outline_start = np.zeros(bound + 1, np.int32)
    outlines = np.empty((10 * bound, 2), np.float32)
    total, size = 0, 0
    for j in range(nz):
        for i in range(nx):
            begin, end = grid[j, i, 0], grid[j, i, 1]
            grid[j, i, 0] = total
            for k in range(begin, end):
                count = _clip_to_cell(ground, candidates[k], origin_x + i * cell, origin_z + j * cell, cell, work)
                if count > 2:
                    pieces[total, 0] = candidates[k]
                    for corner in range(count):
                        outlines[size, 0], outlines[size, 1] = work[0, corner, 0], work[0, corner, 1]
                        size += 1
                    total += 1
                    outline_start[total] = size
            grid[j, i, 1] = total
    return grid, pieces[: total + 1].copy(), outlines[:size].copy(), outline_start[: total + 1].copy()


@njit(cache=True, nogil=True)
def _sort_samples(num_polygons: int, pieces: np.ndarray, outlines: np.ndarray, outline_start: np.ndarray) -> _Samples:
    """The corners of all pieces, pulled in a little, by polygon."""
    num_pieces = len(pieces) - 1
    start = np.zeros(num_polygons + 1, np.int32)
    for piece in range(num_pieces):
        start[pieces[piece, 0] + 1] += outline_start[piece + 1] - outline_start[piece]
    for p in range(num_polygons):
        start[p + 1] += start[p]
    place = start.copy()
    point, owner = np.empty((len(outlines), 2), np.float32), np.empty(len(outlines), np.int32)
    for piece in range(num_pieces):
        begin, end = outline_start[piece], outline_start[piece + 1]
        middle_x, middle_z = 0.0, 0.0
        for k in range(begin, end):
            middle_x += outlines[k, 0] / (end - begin)
            middle_z += outlines[k, 1] / (end - begin)
        for k in range(begin, end):
            at = place[pieces[piece, 0]]
            point[at, 0] = outlines[k, 0] + (middle_x - outlines[k, 0]) * PULL
            point[at, 1] = outlines[k, 1] + (middle_z - outlines[k, 1]) * PULL
            owner[at] = piece
            place[pieces[piece, 0]] += 1
    stamp, times = np.full(len(outlines), -1, np.int32), np.zeros(num_pieces, np.int32)
    return _Samples(start, point, owner, stamp, times, np.empty(num_pieces, np.int32))


@njit(cache=True, nogil=True)
def _mark(
    samples: _Samples,
    corners: Corners,
    corner: int,
    polygon: int,
    left_x: float,
    left_z: float,
    right_x: float,
    right_z: float,
    found: int,
) -> int:
    """Count the samples of a polygon in a cone from a corner; returns how many pieces are touched by now."""
    x, z = corners.point[corner, 0], corners.point[corner, 2]
    for k in range(samples.start[polygon], samples.start[polygon + 1]):
        px, pz = np.float64(samples.point[k, 0]), np.float64(samples.point[k, 1])
        if (
            in_cone(left_x, left_z, right_x, right_z, px - x, pz - z)
            and samples.stamp[k] != corner
            and is_taut(corners.point, corners.walls, corner, px, pz)
        ):
            samples.stamp[k] = corner
            piece = samples.piece[k]
            if samples.times[piece] == 0:
                samples.touched[found] = piece
                found += 1
            samples.times[piece] += 1
    return found


@njit(cache=True, nogil=True)
def _list_corners(
    ground: Ground, corners: Corners, pieces: np.ndarray, outline_start: np.ndarray, samples: _Samples
) -> np.ndarray:
    """Look from every corner at all samples; fills the begins of ``pieces`` and returns the corners that they list."""
    num_corners, num_pieces = len(corners.point), len(pieces) - 1
    sight = make_sight(len(ground.num_vertices), num_corners)
    seen_from, listed = np.empty(num_pieces, np.int32), np.empty(num_pieces, np.int32)  # pairs, corner by corner
    total = 0
    for corner in range(num_corners):
        x, z = corners.point[corner, 0], corners.point[corner, 2]
        found = 0
        for k in range(corners.fan_start[corner], corners.fan_start[corner + 1]):
            own = to_int64(corners.fan[k, 0])
            found = _mark(samples, corners, corner, own, 0.0, 0.0, 0.0, 0.0, found)  # sees all of it
            size = open_cones(ground, sight, 0, own, to_int64(corners.fan[k, 1]), x, z)
            for _ in range(MOST_CONES * len(ground.num_vertices)):
                if size == 0:
                    break
                size, polygon, left_x, left_z, right_x, right_z = next_cone(ground, sight, size, x, z)
                found = _mark(samples, corners, corner, polygon, left_x, left_z, right_x, right_z, found)
        if total + found > len(listed):
            seen_from, listed = grown(seen_from, total, 2 * total + found), grown(listed, total, 2 * total + found)
        for k in range(found):
            piece = samples.touched[k]
            everywhere = samples.times[piece] == outline_start[piece + 1] - outline_start[piece]
            seen_from[total], listed[total] = piece, corner if everywhere else ~corner
            samples.times[piece] = 0
            total += 1
    for k in range(total):
        pieces[seen_from[k] + 1, 1] += 1
    for piece in range(num_pieces):
        pieces[piece + 1, 1] += pieces[piece, 1]
    by_piece = np.empty(total, np.int32)
    place = pieces[:, 1].copy()
    for k in range(total):
        by_piece[place[seen_from[k]]] = listed[k]
        place[seen_from[k]] += 1
    return by_piece


@njit(cache=True, nogil=True)
def piece_at(cells: Cells, polygon: int, x: float, z: float) -> int:
    """The piece of ``polygon`` at a point, -1 if rounding put the point beside it."""
    column, row = int((x - cells.frame[0]) / cells.frame[2]), int((z - cells.frame[1]) / cells.frame[2])
    if 0 <= row < cells.grid.shape[0] and 0 <= column < cells.grid.shape[1]:
        for piece in range(cells.grid[row, column, 0], cells.grid[row, column, 1]):
            if cells.pieces[piece, 0] == polygon:
                return piece
    return -1
