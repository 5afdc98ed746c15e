"""The visible floor: its distance below the navmesh.

Recast rounds heights up to whole voxels, so a navmesh lies one or two cell heights above the visible floor.
``make_drops`` casts vertical rays onto the scene's triangles, at the nodes of a fine grid over every polygon.
``drop_at`` looks the result up: it interpolates where the floor is smooth and takes the nearest node's value at edges.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.ground import (
    above_triangle,
    bucket_boxes,
    contains,
    fit_grid,
    floor_height,
    nearest_on_outline,
)
from gym_batchnav.navmesh.kernels.layout import Drops, Ground
from gym_batchnav.navmesh.record import NavMeshSettings
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

NODE_CELL = 0.025  # metres between nodes; more where one of the next two limits would be exceeded
MAX_NODES = 1 << 21
MAX_TESTS = 1 << 28  # tests of one node against one triangle
BUCKET_CELL = 0.1  # metres
MAX_BUCKETS = 1 << 18
MAX_BUCKET_ENTRIES = 1 << 24
_BLOCK = 1 << 14  # triangles
CELL_HEIGHTS_BELOW = 2.0  # Recast rounds a height up once for the voxel and lifts the detail mesh by one more


def no_drops(num_polygons: int) -> Drops:
    """Return drops that are 0 everywhere, for a navmesh without a scene."""
    return Drops(
        np.zeros(num_polygons + 1, np.int32), np.zeros((num_polygons, 2), np.int32), np.zeros(0, np.float32), np.ones(1)
    )


def make_drops(ground: Ground, settings: NavMeshSettings, vertices: np.ndarray, triangles: np.ndarray) -> Drops:
    """Measure the distance of the visible floor below every polygon.

    The floor is the highest surface between two limits: ``agent_max_climb`` above the navmesh, since an agent stands
    on whatever it can climb, and ``agent_max_climb`` plus two cell heights below it. Triangles count from both sides.
    The drop is 0 where no such surface exists. It is 0 everywhere if the scene is so dense that testing the corners of
    the polygons alone would exceed ``MAX_TESTS``.
    """
    num_polygons = len(ground.num_vertices)
    if not num_polygons:
        return no_drops(0)
    above = settings.agent_max_climb
    below = settings.agent_max_climb + CELL_HEIGHTS_BELOW * settings.cell_height
    low = ground.boxes[:, 0].min(axis=0).astype(np.float64)
    low[1] -= below
    high = ground.boxes[:, 1].max(axis=0).astype(np.float64)
    high[1] += above
    surfaces = _surfaces_within(vertices, triangles, low, high)
    if not len(surfaces):
        return no_drops(num_polygons)
    boxes = np.stack([surfaces.min(axis=1), surfaces.max(axis=1)], axis=1)
    np.clip(boxes, low.astype(np.float32), None, out=boxes)
    bucket, nz, nx = fit_grid(boxes, low[::2], high[::2], BUCKET_CELL, MAX_BUCKETS, MAX_BUCKET_ENTRIES)
    grid, listed = bucket_boxes(boxes, low[0], low[2], bucket, nz, nx)
    frame = np.array([low[0], low[2], bucket])
    cell = NODE_CELL
    start, size = _lay_out(ground, cell)
    while start[-1] > MAX_NODES or _count_tests(ground, start, size, cell, grid, frame) > MAX_TESTS:
        if (size == 2).all():
            return no_drops(num_polygons)
        cell *= 1.5
        start, size = _lay_out(ground, cell)
    drop = np.zeros(start[-1], np.float32)
    drops = Drops(start.astype(np.int32), size, drop, np.array([cell]))
    _measure(ground, drops, grid, listed, frame, surfaces, above, below)
    return drops


def _surfaces_within(vertices: np.ndarray, triangles: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the corners [S, 3, 3] float32 of the triangles that reach into a box and are not vertical."""
    kept = [np.zeros((0, 3, 3), np.float32)]
    for start in range(0, len(triangles), _BLOCK):
        corners = vertices[triangles[start : start + _BLOCK]]
        a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
        below = np.minimum(np.minimum(a, b), c) <= high
        above = np.maximum(np.maximum(a, b), c) >= low
        corners = corners[(below & above).all(axis=1)]
        edges = corners[:, 1:, ::2].astype(np.float64) - corners[:, :1, ::2]
        area = edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]
        kept.append(corners[np.abs(area) > 1e-12].astype(np.float32))
    return np.concatenate(kept)


def _lay_out(ground: Ground, cell: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the first node of every polygon [P + 1] int64, and its number of nodes along z and x [P, 2] int32."""
    extent = (ground.boxes[:, 1, ::2] - ground.boxes[:, 0, ::2]).astype(np.float64)
    size = (np.ceil(extent[:, ::-1] / cell).astype(np.int64) + 1).clip(2)
    start = np.concatenate([[0], np.cumsum(size.prod(axis=1))])
    return start, size.astype(np.int32)


@njit(**SMALL)
def _bucket(grid: np.ndarray, frame: np.ndarray, x: float, z: float) -> tuple[int, int]:
    """Return the row and column of the bucket that holds a point, or of the nearest bucket."""
    row = min(max(int((z - frame[1]) / frame[2]), 0), grid.shape[0] - 1)
    column = min(max(int((x - frame[0]) / frame[2]), 0), grid.shape[1] - 1)
    return row, column


@njit(**ENTRY)
def _count_tests(
    ground: Ground, start: np.ndarray, size: np.ndarray, cell: float, grid: np.ndarray, frame: np.ndarray
) -> int:
    """Return an upper bound of the tests of a node against a triangle; counting stops beyond ``MAX_TESTS``."""
    tests = 0
    for p in range(len(size)):
        details = ground.surface_start[p + 1] - ground.surface_start[p]
        tests += details * (start[p + 1] - start[p])
        if tests > MAX_TESTS or start[p + 1] > MAX_NODES:
            return to_int64(MAX_TESTS + 1)
        for j in range(size[p, 0]):
            for i in range(size[p, 1]):
                x = ground.boxes[p, 0, 0] + i * cell
                z = ground.boxes[p, 0, 2] + j * cell
                row, column = _bucket(grid, frame, x, z)
                tests += grid[row, column, 1] - grid[row, column, 0]
    return to_int64(tests)


@njit(**ENTRY)
def _measure(
    ground: Ground,
    drops: Drops,
    grid: np.ndarray,
    listed: np.ndarray,
    frame: np.ndarray,
    surfaces: np.ndarray,
    above: float,
    below: float,
) -> None:
    """Write the drop of every node that lies on its polygon or next to it; other nodes keep 0.

    A node next to its polygon takes the drop of the polygon's nearest point, so heights are never extrapolated.
    """
    cell = drops.cell[0]
    for p in range(len(drops.size)):
        nz = drops.size[p, 0]
        nx = drops.size[p, 1]
        for j in range(nz):
            for i in range(nx):
                x = np.float64(ground.boxes[p, 0, 0]) + i * cell
                z = np.float64(ground.boxes[p, 0, 2]) + j * cell
                if not contains(ground, p, x, z):
                    distance2, x, z = nearest_on_outline(ground, p, x, z)
                    if distance2 > 2.0 * cell * cell:
                        continue
                height = floor_height(ground, p, x, z)
                row, column = _bucket(grid, frame, x, z)
                floor = -np.inf
                for k in range(grid[row, column, 0], grid[row, column, 1]):
                    _, inside, hit = above_triangle(surfaces, listed[k], x, z)
                    if inside >= -1e-9 and floor < hit <= height + above:  # the triangle's border counts as inside
                        floor = hit
                if floor >= height - below:
                    drops.drop[drops.start[p] + j * nx + i] = height - floor


@njit(**INNER)
def drop_at(ground: Ground, drops: Drops, polygon: int, x: float, z: float) -> float:
    """Return the distance in metres from the navmesh down to the visible floor; negative where the floor is higher.

    The drop is interpolated between four nodes if their drops differ by at most the distance between nodes, a slope of
    45 degrees. Otherwise, as at the edge of a step, a rug or a hole, it is the drop of the nearest node.
    """
    nz = to_int64(drops.size[polygon, 0])
    nx = to_int64(drops.size[polygon, 1])
    if nz < 2 or nx < 2:
        return 0.0
    cell = drops.cell[0]
    u = (x - ground.boxes[polygon, 0, 0]) / cell
    v = (z - ground.boxes[polygon, 0, 2]) / cell
    if not (u >= 0.0):  # also NaN
        u = 0.0
    if not (v >= 0.0):
        v = 0.0
    u = min(u, nx - 1.0)
    v = min(v, nz - 1.0)
    i = min(int(u), nx - 2)
    j = min(int(v), nz - 2)
    u = u - i
    v = v - j
    first = drops.start[polygon] + j * nx + i
    a = np.float64(drops.drop[first])
    b = np.float64(drops.drop[first + 1])
    c = np.float64(drops.drop[first + nx])
    d = np.float64(drops.drop[first + nx + 1])
    if max(a, b, c, d) - min(a, b, c, d) <= cell:
        return (a * (1.0 - u) + b * u) * (1.0 - v) + (c * (1.0 - u) + d * u) * v
    if v < 0.5:
        return a if u < 0.5 else b
    return c if u < 0.5 else d


@njit(**ENTRY)
def lower_points(ground: Ground, drops: Drops, polygons: np.ndarray, points: np.ndarray) -> None:
    """Move points [N, 3] on polygons [N] (-1 for none) from the navmesh to the visible floor, in place."""
    for i in range(len(points)):
        if polygons[i] >= 0:
            points[i, 1] -= drop_at(
                ground, drops, to_int64(polygons[i]), np.float64(points[i, 0]), np.float64(points[i, 2])
            )


def check_drops(drops: Drops) -> None:
    """Raise ValueError unless every polygon's nodes lie within the array, given arrays that ``check_parts`` accepts."""
    nodes = np.diff(drops.start.astype(np.int64))
    if (drops.size < 0).any() or (drops.size.astype(np.int64).prod(axis=1) != nodes).any():
        raise ValueError("Drops size: a polygon's number of nodes does not match the rows that start gives it")
    if not (drops.cell > 0).all():
        raise ValueError(f"Drops cell: {drops.cell}; it must be positive")
