"""The ground that kernels read: outlines, heights and a grid to find polygons in.

Polygons wind so that ``outside`` is negative for points inside. ``make_ground`` makes the ``Ground`` of a navmesh, a
tuple of plain arrays. Kernels compute in float64 and int64. Values from narrower arrays are cast by ``np.float64(...)``
and ``to_int64(...)``, since Numba's ``float(...)`` and ``int(...)`` keep narrow types.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.layout import Ground
from gym_batchnav.navmesh.record import NavMeshData
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

GRID_CELL = 0.5  # metres; more where one of the two limits would be exceeded
MAX_GRID_CELLS = 1 << 18
MAX_GRID_ENTRIES = 1 << 22  # polygons listed by all cells together


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


def make_ground(mesh: NavMeshData) -> Ground:
    """Lay out the arrays of a navmesh for kernels."""
    used = mesh.polygons >= 0
    corners = mesh.vertices[np.where(used, mesh.polygons, mesh.polygons[:, :1])]
    surface = np.concatenate([mesh.vertices, mesh.detail_vertices])[mesh.detail_triangles]
    boxes = np.empty((mesh.num_polygons, 2, 3), np.float32)
    boxes[:, 0] = corners.min(axis=1)
    boxes[:, 1] = corners.max(axis=1)
    if mesh.num_polygons:
        heights = surface[:, :, 1]
        begin = mesh.detail_start[:-1]
        boxes[:, 0, 1] = np.minimum(boxes[:, 0, 1], np.minimum.reduceat(heights.min(axis=1), begin))
        boxes[:, 1, 1] = np.maximum(boxes[:, 1, 1], np.maximum.reduceat(heights.max(axis=1), begin))
        low = boxes[:, 0].min(axis=0).astype(np.float64)
        high = boxes[:, 1].max(axis=0).astype(np.float64)
    else:
        low = np.zeros(3)
        high = np.zeros(3)
    cell, nz, nx = fit_grid(boxes, low[::2], high[::2], GRID_CELL, MAX_GRID_CELLS, MAX_GRID_ENTRIES)
    grid, grid_polygons = bucket_boxes(boxes, low[0], low[2], cell, nz, nx)
    return Ground(
        np.ascontiguousarray(corners[:, :, [0, 2]], np.float64),
        np.ascontiguousarray(corners[:, :, 1], np.float32),
        used.sum(axis=1).astype(np.int32),
        np.ascontiguousarray(mesh.neighbours),
        np.ascontiguousarray(mesh.polygon_island),
        np.ascontiguousarray(surface, np.float64),
        np.ascontiguousarray(mesh.detail_start),
        boxes,
        grid,
        grid_polygons,
        np.array([low[0], low[2], cell, mesh.settings.agent_max_climb, mesh.num_islands]),
    )


def fan_areas(outline: np.ndarray) -> np.ndarray:
    """Return the areas [n, 4], in square metres, of the fans of triangles that make up outlines [n, 6, 2].

    Outlines are padded with their first vertex, so the padding adds triangles without area.
    """
    fan = outline[:, 1:] - outline[:, :1]
    return np.abs(fan[:, :-1, 0] * fan[:, 1:, 1] - fan[:, :-1, 1] * fan[:, 1:, 0]) / 2


@njit(**SMALL)
def outside(ax: float, az: float, bx: float, bz: float, x: float, z: float) -> float:
    """Return a positive number if the point lies outside the edge from a to b of a polygon.

    The number is twice the signed area of the triangle.
    """
    return (bx - ax) * (z - az) - (bz - az) * (x - ax)


@njit(**INNER)
def contains(ground: Ground, polygon: int, x: float, z: float) -> bool:
    """Return whether a point lies above or below a polygon; the border counts as inside."""
    outline = ground.outline
    n = ground.num_vertices[polygon]
    ax = outline[polygon, n - 1, 0]
    az = outline[polygon, n - 1, 1]
    for i in range(n):
        bx = outline[polygon, i, 0]
        bz = outline[polygon, i, 1]
        if outside(ax, az, bx, bz, x, z) > 0.0:
            return False
        ax = bx
        az = bz
    return True


@njit(**SMALL)
def nearest_on_segment(ax: float, az: float, bx: float, bz: float, x: float, z: float) -> tuple[float, float, float]:
    """Return the squared horizontal distance to the segment from a to b, and the nearest point on it."""
    dx = bx - ax
    dz = bz - az
    length2 = dx * dx + dz * dz
    t = 0.0
    if length2 > 0.0:
        t = min(max(((x - ax) * dx + (z - az) * dz) / length2, 0.0), 1.0)
    px = ax + t * dx
    pz = az + t * dz
    return (x - px) ** 2 + (z - pz) ** 2, px, pz


@njit(**INNER)
def nearest_on_outline(ground: Ground, polygon: int, x: float, z: float) -> tuple[float, float, float]:
    """Return the squared horizontal distance to a polygon's border, and the nearest point on it."""
    outline = ground.outline
    n = ground.num_vertices[polygon]
    best = np.inf
    best_x = x
    best_z = z
    ax = outline[polygon, n - 1, 0]
    az = outline[polygon, n - 1, 1]
    for i in range(n):
        bx = outline[polygon, i, 0]
        bz = outline[polygon, i, 1]
        distance2, px, pz = nearest_on_segment(ax, az, bx, bz, x, z)
        if distance2 < best:
            best = distance2
            best_x = px
            best_z = pz
        ax = bx
        az = bz
    return best, best_x, best_z


@njit(**SMALL)
def above_triangle(surface: np.ndarray, t: int, x: float, z: float) -> tuple[float, float, float]:
    """Return twice a triangle's area from above, a point's least barycentric weight, and the height of its plane."""
    ax = np.float64(surface[t, 0, 0])
    ay = np.float64(surface[t, 0, 1])
    az = np.float64(surface[t, 0, 2])
    ux = surface[t, 1, 0] - ax
    uz = surface[t, 1, 2] - az
    vx = surface[t, 2, 0] - ax
    vz = surface[t, 2, 2] - az
    area = ux * vz - uz * vx
    u = ((x - ax) * vz - (z - az) * vx) / area
    v = (ux * (z - az) - uz * (x - ax)) / area
    return area, min(u, v, 1.0 - u - v), ay + u * (surface[t, 1, 1] - ay) + v * (surface[t, 2, 1] - ay)


@njit(**INNER)
def floor_height(ground: Ground, polygon: int, x: float, z: float) -> float:
    """Return the height of a polygon's floor; a point just outside takes the plane of the nearest detail triangle."""
    surface = ground.surface
    begin = ground.surface_start[polygon]
    best = -np.inf
    height = surface[begin, 0, 1]
    for t in range(begin, ground.surface_start[polygon + 1]):
        area, inside, above = above_triangle(surface, t, x, z)
        if abs(area) > 1e-12 and inside > best:
            best = inside
            height = above
            if inside >= 0.0:
                break
    return height


@njit(**SMALL)
def _box_cost(ground: Ground, polygon: int, x: float, y: float, z: float) -> tuple[float, bool]:
    """Return a lower bound of ``_snap_cost``, and whether the polygon's box lies within the half extents."""
    box = ground.boxes[polygon]
    dx = max(box[0, 0] - x, x - box[1, 0], 0.0)
    dy = max(box[0, 1] - y, y - box[1, 1], 0.0)
    dz = max(box[0, 2] - z, z - box[1, 2], 0.0)
    rise = max(dy - ground.frame[3], 0.0)
    return dx * dx + dz * dz + rise * rise, dx <= 2.0 and dy <= 4.0 and dz <= 2.0


@njit(**INNER)
def _snap_cost(ground: Ground, polygon: int, x: float, y: float, z: float) -> tuple[float, float, float, float]:
    """Return the cost of snapping a point to a polygon, as ``nearest_polygon`` defines it, and the snapped point."""
    if contains(ground, polygon, x, z):
        height = floor_height(ground, polygon, x, z)
        return max(abs(height - y) - ground.frame[3], 0.0) ** 2, x, height, z
    distance2, px, pz = nearest_on_outline(ground, polygon, x, z)
    height = floor_height(ground, polygon, px, pz)
    return distance2 + (height - y) ** 2, px, height, pz


@njit(**INNER)
def snaps_to_island_of(ground: Ground, polygon: int, other: int, x: float, y: float, z: float) -> bool:
    """Return whether the polygon nearest to a point lies on the island of ``polygon``.

    ``other`` is a polygon of the island near the point; no full search is needed if no other island is as near.
    """
    island = ground.islands[polygon]
    low_x = ground.frame[0]
    low_z = ground.frame[1]
    cell = ground.frame[2]
    cost = _snap_cost(ground, other, x, y, z)[0]
    alone = cost <= 1.0
    if alone:
        reach = np.sqrt(cost)
        bottom = len(ground.grid) - 1
        top = ground.grid.shape[1] - 1
        first = min(max(int((x - reach - low_x) / cell), 0), top)
        last = min(max(int((x + reach - low_x) / cell), 0), top)
        for j in range(max(int((z - reach - low_z) / cell), 0), min(int((z + reach - low_z) / cell), bottom) + 1):
            for k in range(ground.grid[j, first, 0], ground.grid[j, last, 1]):  # the cells of a row follow each other
                rival = to_int64(ground.grid_polygons[k])
                if ground.islands[rival] != island and _box_cost(ground, rival, x, y, z)[0] <= cost:
                    alone = False
    if alone:
        return True
    nearest = nearest_polygon(ground, x, y, z)[0]
    return nearest >= 0 and ground.islands[nearest] == island


@njit(**INNER)
def nearest_polygon(ground: Ground, x: float, y: float, z: float) -> tuple[int, float, float, float]:
    """Find the nearest polygon within half extents of (2, 4, 2) m, as Habitat's snap does.

    The cost of a polygon above or below the point is ``max(0, |dy| - climb)^2``, that of any other its squared
    distance.

    Returns:
        The polygon, -1 for none, and the point on it.
    """
    best = np.inf
    best_polygon = -1
    best_x = np.nan
    best_y = np.nan
    best_z = np.nan
    nz = ground.grid.shape[0]
    nx = ground.grid.shape[1]
    cell = ground.frame[2]
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        return -1, best_x, best_y, best_z
    in_x = (x - ground.frame[0]) / cell
    in_z = (z - ground.frame[1]) / cell
    column = int(np.floor(min(max(in_x, -1e6), 1e6)))
    row = int(np.floor(min(max(in_z, -1e6), 1e6)))
    margin = max(min(in_x - column, column + 1 - in_x, in_z - row, row + 1 - in_z), 0.0)
    for ring in range(int(2.0 / cell) + 2):
        if ring > 0 and ((ring - 1 + margin) * cell) ** 2 >= best:
            break
        for j in range(max(row - ring, 0), min(row + ring, nz - 1) + 1):
            stride = 1 if ring == 0 or abs(j - row) == ring else 2 * ring
            for i in range(column - ring, column + ring + 1, stride):
                if i < 0 or i >= nx:
                    continue
                for k in range(ground.grid[j, i, 0], ground.grid[j, i, 1]):
                    polygon = to_int64(ground.grid_polygons[k])
                    bound, near = _box_cost(ground, polygon, x, y, z)
                    if not near or bound >= best:
                        continue
                    cost, px, py, pz = _snap_cost(ground, polygon, x, y, z)
                    if cost < best:
                        best = cost
                        best_polygon = polygon
                        best_x = px
                        best_y = py
                        best_z = pz
    return best_polygon, best_x, best_y, best_z


@njit(**ENTRY)
def _snap(ground: Ground, points: np.ndarray, snapped: np.ndarray, polygons: np.ndarray) -> None:
    for i in range(len(points)):
        polygon, x, y, z = nearest_polygon(ground, points[i, 0], points[i, 1], points[i, 2])
        polygons[i] = polygon
        snapped[i, 0] = x
        snapped[i, 1] = y
        snapped[i, 2] = z


def snap_points(ground: Ground, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move points [N, 3] to the nearest points on the ground, as Habitat's snap does.

    Returns:
        Points [N, 3] float32, metres, NaN for none, and their polygons [N] int32, -1 for none.

    Raises:
        ValueError: If ``points`` is not [N, 3].
    """
    points = np.ascontiguousarray(points, np.float64)
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"points of shape {points.shape}: give an array of shape [N, 3]")
    snapped = np.empty(points.shape, np.float32)
    polygons = np.empty(len(points), np.int32)
    _snap(ground, points, snapped, polygons)
    return snapped, polygons


@njit(**ENTRY)
def cover_map(ground: Ground, low_x: float, low_z: float, cell: float, reach: float, out: np.ndarray) -> None:
    """Mark the samples of a map [Z, X] bool that lie over a polygon, seen from above, or within ``reach`` of one."""
    for p in range(len(ground.num_vertices)):
        box = ground.boxes[p]
        first_row = max(int(np.ceil((box[0, 2] - reach - low_z) / cell)), 0)
        first_column = max(int(np.ceil((box[0, 0] - reach - low_x) / cell)), 0)
        last_row = min(int((box[1, 2] + reach - low_z) / cell), out.shape[0] - 1)
        last_column = min(int((box[1, 0] + reach - low_x) / cell), out.shape[1] - 1)
        for j in range(first_row, last_row + 1):
            for i in range(first_column, last_column + 1):
                x = low_x + i * cell
                z = low_z + j * cell
                if contains(ground, p, x, z) or nearest_on_outline(ground, p, x, z)[0] <= reach * reach:
                    out[j, i] = True


@njit(**ENTRY)
def fill_heights(ground: Ground, polygons: np.ndarray, points: np.ndarray) -> None:
    """Set the y of points [N, 3] of known polygons [N] to the height of the floor."""
    for i in range(len(points)):
        points[i, 1] = floor_height(ground, to_int64(polygons[i]), np.float64(points[i, 0]), np.float64(points[i, 2]))
