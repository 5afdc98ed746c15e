"""Precomputed visibility: lists of the corners that can be seen from each grid cell.

The ground is cut into *pieces*, one per polygon and square cell. A piece lists the corners that are visible along a
taut line from at least one vertex of the piece. A corner that all vertices see is listed by its number. A corner that
only some see is listed by its complement (``~corner``), and a query has to test whether it is visible.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.ground import bucket_boxes, fit_grid
from gym_batchnav.navmesh.kernels.layout import Cells, Corners, Ground
from gym_batchnav.navmesh.kernels.visibility import (
    MAX_CONES,
    cone_contains,
    grown,
    is_taut,
    make_sight,
    next_cone,
    open_cones,
)
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

CELL = 0.1  # metres; more where one of the limits below would be exceeded
MAX_CELLS = 1 << 17
MAX_PIECES = 1 << 20  # takes about 250 bytes each while the lists are made
MAX_TESTS = 1 << 28  # pieces times corners, which bounds the time that the lists take to make
MAX_LISTED = 1 << 24  # corners listed by all pieces together: 4 bytes each, and 20 while the lists are made
MAX_OUTLINE = 16  # vertices of a piece: a convex polygon of 6 that is clipped 4 times has at most 10
PULL = 0.02  # fraction of the way to the centre by which samples on a piece's border are moved inward


def make_cells(ground: Ground, corners: Corners) -> Cells:
    """List the corners that every piece of a ground sees.

    The cells are enlarged until the numbers of pieces and of listed corners are within their limits. Larger cells make
    a query slower, since it has to test more corners itself, but do not change its result.

    Raises:
        ValueError: If the lists exceed the limit even in a grid of one cell.
    """
    low = ground.frame[:2]
    high = ground.frame[:2]
    if len(ground.boxes):
        high = ground.boxes[:, 1].max(axis=0)[::2].astype(np.float64)
    finest = CELL
    while True:
        most_pieces = min(MAX_PIECES, MAX_TESTS // max(len(corners.point), 1))
        cell, nz, nx = fit_grid(ground.boxes, low, high, finest, MAX_CELLS, most_pieces)
        grid, candidates = bucket_boxes(ground.boxes, low[0], low[1], cell, nz, nx)
        pieces, outlines, outline_start = _cut(ground, low[0], low[1], cell, grid, candidates)
        samples = _sort_samples(len(ground.num_vertices), pieces, outlines, outline_start)
        is_complete, listed = _list_corners(ground, corners, pieces, outline_start, samples, MAX_LISTED)
        if is_complete:
            return Cells(grid, pieces, listed, np.array([low[0], low[1], cell]))
        if nz == nx == 1:
            raise ValueError(
                f"the visible pairs of {len(ground.num_vertices):,} polygons and {len(corners.point):,} corners exceed "
                f"the limit of {MAX_LISTED:,}: build the navmesh with a larger cell_size or edge_max_error"
            )
        finest = 2 * cell


class _Samples(NamedTuple):
    """Sample points sorted by polygon, with scratch arrays to mark them."""

    start: np.ndarray  # [P + 1] int32, rows of point
    point: np.ndarray  # [S, 2] float32, x and z
    piece: np.ndarray  # [S] int32
    stamp: np.ndarray  # [S] int32, the last corner that the sample saw
    times: np.ndarray  # [Q] int32, number of the piece's samples that see the current corner
    touched: np.ndarray  # [Q] int32, pieces with at least one such sample


@njit(**INNER)
def _clip(polygon: np.ndarray, count: int, axis: int, sign: float, limit: float, out: np.ndarray) -> int:
    """Write the part of a convex polygon [n, 2] with ``sign * coordinate <= sign * limit``; return its vertex count."""
    kept = 0
    for i in range(count):
        j = (i + 1) % count
        a = sign * (polygon[i, axis] - limit)
        b = sign * (polygon[j, axis] - limit)
        if a <= 0.0 and kept < len(out):
            out[kept, 0] = polygon[i, 0]
            out[kept, 1] = polygon[i, 1]
            kept += 1
        if ((a < 0.0 and b > 0.0) or (a > 0.0 and b < 0.0)) and kept < len(out):
            t = a / (a - b)
            out[kept, 0] = polygon[i, 0] + t * (polygon[j, 0] - polygon[i, 0])
            out[kept, 1] = polygon[i, 1] + t * (polygon[j, 1] - polygon[i, 1])
            kept += 1
    return kept


@njit(**ENTRY)
def _cut(
    ground: Ground, origin_x: float, origin_z: float, cell: float, grid: np.ndarray, candidates: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut polygons into pieces, cell by cell.

    The polygons of a cell are ``candidates[begin:end]`` with begin and end in ``grid`` [NZ, NX, 2] int32, which are
    overwritten by begin and end in the pieces.

    Returns:
        Pieces [Q + 1, 2] int32 (polygon; the second column is 0), their outlines [S, 2] float32 (x and z, metres) and
        the first row of every outline [Q + 1] int32.
    """
    bound = len(candidates)
    work = np.empty((2, MAX_OUTLINE, 2), np.float64)
    pieces = np.zeros((bound + 1, 2), np.int32)
    outline_start = np.zeros(bound + 1, np.int32)
    outlines = np.empty((4 * bound + MAX_OUTLINE, 2), np.float32)
    total = 0
    size = 0
    for j in range(grid.shape[0]):
        for i in range(grid.shape[1]):
            begin = grid[j, i, 0]
            end = grid[j, i, 1]
            grid[j, i, 0] = total
            for k in range(begin, end):
                polygon = to_int64(candidates[k])
                count = to_int64(ground.num_vertices[polygon])
                for corner in range(count):
                    work[0, corner, 0] = ground.outline[polygon, corner, 0]
                    work[0, corner, 1] = ground.outline[polygon, corner, 1]
                for axis, low in enumerate((origin_x + i * cell, origin_z + j * cell)):
                    count = _clip(work[0], count, axis, -1.0, low, work[1])
                    count = _clip(work[1], count, axis, 1.0, low + cell, work[0])
                if size + count > len(outlines):
                    longer = np.empty((2 * len(outlines), 2), np.float32)
                    for row in range(size):  # assigning a slice takes seconds to compile
                        longer[row, 0] = outlines[row, 0]
                        longer[row, 1] = outlines[row, 1]
                    outlines = longer
                if count > 2:
                    pieces[total, 0] = candidates[k]
                    for corner in range(count):
                        outlines[size, 0] = work[0, corner, 0]
                        outlines[size, 1] = work[0, corner, 1]
                        size += 1
                    total += 1
                    outline_start[total] = size
            grid[j, i, 1] = total
    return pieces[: total + 1].copy(), outlines[:size].copy(), outline_start[: total + 1].copy()


def _sort_samples(num_polygons: int, pieces: np.ndarray, outlines: np.ndarray, outline_start: np.ndarray) -> _Samples:
    """Return the vertices of all pieces, moved inward a little and sorted by polygon."""
    size = np.diff(outline_start)
    piece = np.repeat(np.arange(len(size), dtype=np.int32), size)
    middle = np.stack([np.bincount(piece, along / size[piece], len(size)) for along in outlines.T], axis=1)
    point = (outlines + (middle[piece] - outlines) * PULL).astype(np.float32)
    polygon = pieces[piece, 0]
    order = np.argsort(polygon, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(polygon, minlength=num_polygons))]).astype(np.int32)
    stamp = np.full(len(outlines), -1, np.int32)
    times = np.zeros(len(size), np.int32)
    return _Samples(start, point[order], piece[order], stamp, times, np.empty(len(size), np.int32))


@njit(**INNER)
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
    """Mark the samples of a polygon that lie in a cone of sight from a corner.

    ``found`` pieces are touched before the call. The directions of the cone's sides are seen from the corner.

    Returns:
        Number of pieces touched after the call.
    """
    x = corners.point[corner, 0]
    z = corners.point[corner, 2]
    for k in range(samples.start[polygon], samples.start[polygon + 1]):
        px = np.float64(samples.point[k, 0])
        pz = np.float64(samples.point[k, 1])
        if (
            cone_contains(left_x, left_z, right_x, right_z, px - x, pz - z)
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


@njit(**ENTRY)
def _list_corners(
    ground: Ground, corners: Corners, pieces: np.ndarray, outline_start: np.ndarray, samples: _Samples, most_listed: int
) -> tuple[bool, np.ndarray]:
    """Find the samples that every corner sees, and write the second column of ``pieces``.

    Returns:
        Whether the list has at most ``most_listed`` corners, and the list [L] int32, which is empty if it has not.
    """
    num_corners = len(corners.point)
    num_pieces = len(pieces) - 1
    sight = make_sight(len(ground.num_vertices), num_corners)
    seen_from = np.empty(num_pieces, np.int32)  # pairs, corner by corner
    listed = np.empty(num_pieces, np.int32)
    total = to_int64(0)
    for corner in range(num_corners):
        x = corners.point[corner, 0]
        z = corners.point[corner, 2]
        found = to_int64(0)
        for k in range(corners.fan_start[corner], corners.fan_start[corner + 1]):
            own = to_int64(corners.fan[k, 0])
            found = _mark(samples, corners, corner, own, 0.0, 0.0, 0.0, 0.0, found)  # sees all of it
            size = open_cones(ground, sight, to_int64(0), own, to_int64(corners.fan[k, 1]), x, z)
            for _ in range(MAX_CONES * len(ground.num_vertices)):
                if size == 0:
                    break
                size, polygon, left_x, left_z, right_x, right_z = next_cone(ground, sight, size, x, z)
                found = _mark(samples, corners, corner, polygon, left_x, left_z, right_x, right_z, found)
        if total + found > most_listed:
            return False, np.empty(0, np.int32)
        if total + found > len(listed):
            seen_from = grown(seen_from, total, 2 * total + found)
            listed = grown(listed, total, 2 * total + found)
        for k in range(found):
            piece = samples.touched[k]
            everywhere = samples.times[piece] == outline_start[piece + 1] - outline_start[piece]
            seen_from[total] = piece
            listed[total] = corner if everywhere else ~corner
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
    return True, by_piece


@njit(**SMALL)
def piece_at(cells: Cells, polygon: int, x: float, z: float) -> int:
    """Return the piece of ``polygon`` at a point, or -1 if the point lies outside the polygon because of rounding."""
    column = int((x - cells.frame[0]) / cells.frame[2])
    row = int((z - cells.frame[1]) / cells.frame[2])
    if 0 <= row < cells.grid.shape[0] and 0 <= column < cells.grid.shape[1]:
        for piece in range(cells.grid[row, column, 0], cells.grid[row, column, 1]):
            if cells.pieces[piece, 0] == polygon:
                return piece
    return -1
