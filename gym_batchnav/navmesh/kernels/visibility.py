"""The corners of a navmesh, the lines of sight between them, and all shortest paths along these lines.

The graph is the visibility graph (Lozano-Perez & Wesley 1979, "An algorithm for planning collision-free paths among
polyhedral obstacles"), reduced to its taut (bitangent) lines, since shortest paths use no others. Visibility is found
by triangular expansion (Bungiu et al. 2014, "Efficient computation of visibility polygons") over convex polygons.

Seen from above, a shortest path bends only at *corners*: boundary vertices whose walkable side is wider than 180
degrees. Cones of sight are expanded from polygon to polygon across shared edges. Floors above each other therefore
never mix, and nothing is visible through a wall. Lengths are those of the polyline in 3-D.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.ground import floor_height
from gym_batchnav.navmesh.kernels.heap import pop, rise
from gym_batchnav.navmesh.kernels.layout import Corners, Ground
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

REFLEX = np.pi + 1e-9  # radians
SIGHT_TOLERANCE = 1e-7  # square metres: twice the area below which a triangle counts as flat
TAUT_TOLERANCE = 1e-4  # radians
MAX_CONES = 256  # per polygon, from one point; with convex polygons there are far fewer
MAX_CORNERS = 1 << 13  # the table of their distances takes 256 MiB
MAX_RELAXATIONS = 1 << 32  # corners times taut lines: about ten seconds of Dijkstra's algorithm
INWARD = 1e-4  # fraction of the way to its polygon's centre by which a point is moved before its view is computed


class Sight(NamedTuple):
    """Scratch arrays of visibility queries; one set per thread."""

    cones: np.ndarray  # [S, 4] float64, two directions (x, z) that bound a cone of sight
    entered: np.ndarray  # [S, 2] int32, polygon that the cone enters and the polygon that it comes from
    stamp: np.ndarray  # [C + 1] int32, number of the query that last saw each corner; the last item counts queries
    entered_at: np.ndarray  # [P] int32, number of the query that last had a cone enter each polygon
    seen: np.ndarray  # [C] int32, the corners that a query found
    dropped: np.ndarray  # [1] int64, cones that queries could not follow because there were too many


def make_corners(ground: Ground) -> Corners:
    """Find the corners of a ground, the taut lines of sight between them and their shortest paths.

    Raises:
        ValueError: If the corners or the lines between them would take too much memory or time, or lines of sight
            cannot be followed.
    """
    corner_of, points, walls, fan_start, fan = _find_corners(ground)
    if len(points) > MAX_CORNERS:
        raise ValueError(
            f"the navmesh has {len(points):,} corners, more than {MAX_CORNERS:,}: the table of their distances would "
            f"take {4 * len(points) ** 2 / 2**30:.1f} GiB; build it with a larger cell_size or edge_max_error"
        )
    sight = make_sight(len(ground.num_vertices), len(points))
    most_edges = MAX_RELAXATIONS // max(len(points), 1)
    edge_start, edges = _taut_graph(ground, sight, points, walls, corner_of, fan_start, fan, most_edges)
    if len(edges) > most_edges:
        raise ValueError(
            f"the navmesh has {len(points):,} corners with more than {most_edges:,} lines of sight between them, too "
            "many to compute shortest paths: build it with a larger cell_size or edge_max_error"
        )
    check_sight(sight.dropped[0])
    lengths = np.linalg.norm(points[edges] - np.repeat(points, np.diff(edge_start), axis=0), axis=1)
    between = _all_shortest_paths(lengths, edge_start, edges)
    return Corners(points, walls, corner_of, fan_start, fan, edge_start, edges, between)


def check_sight(dropped: int) -> None:
    """Raise ValueError if visibility queries have dropped cones, because paths would then be too long."""
    if dropped:
        raise ValueError(
            f"{dropped:,} lines of sight could not be followed, because polygons of the navmesh are thinner than "
            "rounding errors: build it again, with a larger cell_size"
        )


@njit(**ENTRY)
def make_sight(num_polygons: int, num_corners: int) -> Sight:
    """Allocate the scratch arrays for a ground of the given size."""
    size = 6 * num_polygons + 6
    return Sight(
        np.empty((size, 4), np.float64),
        np.empty((size, 2), np.int32),
        np.zeros(num_corners + 1, np.int32),
        np.zeros(num_polygons, np.int32),
        np.empty(num_corners, np.int32),
        np.zeros(1, np.int64),
    )


@njit(**INNER)
def grown(array: np.ndarray, used: int, size: int) -> np.ndarray:
    """Return an array [size] int32 that begins with the used part of another."""
    longer = np.empty(size, np.int32)
    for k in range(used):
        longer[k] = array[k]
    return longer


@njit(**INNER)
def _next_around(ground: Ground, polygon: int, vertex: int) -> tuple[int, int]:
    """Return the next polygon around a vertex and the vertex's index in it; -1 twice at a wall."""
    outline = ground.outline
    beyond = to_int64(ground.neighbours[polygon, vertex])
    if beyond >= 0:
        n = ground.num_vertices[beyond]
        for j in range(n):
            if (
                ground.neighbours[beyond, (j - 1) % n] == polygon
                and outline[beyond, j, 0] == outline[polygon, vertex, 0]
                and outline[beyond, j, 1] == outline[polygon, vertex, 1]
            ):
                return beyond, to_int64(j)
    return to_int64(-1), to_int64(-1)


@njit(**SMALL)
def _direction(ground: Ground, polygon: int, start: int, end: int) -> tuple[float, float]:
    """Return the unit vector from one vertex of a polygon to another."""
    dx = ground.outline[polygon, end, 0] - ground.outline[polygon, start, 0]
    dz = ground.outline[polygon, end, 1] - ground.outline[polygon, start, 1]
    length = max(np.sqrt(dx * dx + dz * dz), 1e-12)
    return dx / length, dz / length


@njit(**ENTRY)
def _find_corners(ground: Ground) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Find the corners, one per fan of polygons around a vertex: a vertex where two fans meet has two corners."""
    num_polygons = len(ground.num_vertices)
    corner_of = np.full((num_polygons, 6), -1, np.int32)
    most = 6 * num_polygons
    points = np.empty((most, 3), np.float64)
    walls = np.empty((most, 2, 2), np.float64)
    fan_start = np.zeros(most + 1, np.int32)
    fan = np.empty((most, 2), np.int32)
    corners = 0
    size = 0
    for p in range(num_polygons):
        for i in range(ground.num_vertices[p]):
            if ground.neighbours[p, (i - 1) % ground.num_vertices[p]] >= 0:
                continue  # only the first polygon of a fan, which has a wall before the vertex
            angle = 0.0
            begin = size
            polygon = to_int64(p)
            vertex = to_int64(i)
            first_x, first_z = _direction(ground, polygon, vertex, (vertex - 1) % ground.num_vertices[p])
            last_x = first_x
            last_z = first_z
            while polygon >= 0 and size - begin < num_polygons and size < most:
                n = ground.num_vertices[polygon]
                ax, az = _direction(ground, polygon, vertex, (vertex - 1) % n)
                last_x, last_z = _direction(ground, polygon, vertex, (vertex + 1) % n)
                angle += abs(np.arctan2(ax * last_z - az * last_x, ax * last_x + az * last_z))
                fan[size, 0] = polygon
                fan[size, 1] = vertex
                size += 1
                polygon, vertex = _next_around(ground, polygon, vertex)
            if angle <= REFLEX:
                size = begin
                continue
            x = ground.outline[p, i, 0]
            z = ground.outline[p, i, 1]
            points[corners, 0] = x
            points[corners, 2] = z
            points[corners, 1] = floor_height(ground, p, np.float64(x), np.float64(z))
            walls[corners, 0, 0] = first_x
            walls[corners, 0, 1] = first_z
            walls[corners, 1, 0] = last_x
            walls[corners, 1, 1] = last_z
            for k in range(begin, size):
                corner_of[fan[k, 0], fan[k, 1]] = corners
            corners += 1
            fan_start[corners] = size
    return (
        corner_of,
        points[:corners].copy(),
        walls[:corners].copy(),
        fan_start[: corners + 1].copy(),
        fan[:size].copy(),
    )


@njit(**SMALL)
def inward(ground: Ground, polygon: int, x: float, z: float) -> tuple[float, float]:
    """Move a point slightly towards the centre of its polygon, so that it lies inside despite rounding."""
    n = ground.num_vertices[polygon]
    middle_x = 0.0
    middle_z = 0.0
    for i in range(n):
        middle_x += ground.outline[polygon, i, 0]
        middle_z += ground.outline[polygon, i, 1]
    return x + (middle_x / n - x) * INWARD, z + (middle_z / n - z) * INWARD


@njit(**INNER)
def open_cones(ground: Ground, sight: Sight, size: int, polygon: int, skip: int, x: float, z: float) -> int:
    """Push one cone per open edge of a point's own polygon, except edges at vertex ``skip`` (-1: none)."""
    n = ground.num_vertices[polygon]
    for i in range(n):
        j = (i + 1) % n
        beyond = ground.neighbours[polygon, i]
        if beyond < 0 or i == skip or j == skip:
            continue
        ax = ground.outline[polygon, i, 0] - x
        az = ground.outline[polygon, i, 1] - z
        bx = ground.outline[polygon, j, 0] - x
        bz = ground.outline[polygon, j, 1] - z
        if ax * bz - az * bx < 0.0:
            cone = sight.cones[size]
            cone[0] = ax
            cone[1] = az
            cone[2] = bx
            cone[3] = bz
            sight.entered[size, 0] = beyond
            sight.entered[size, 1] = polygon
            size += 1
    return size


@njit(**SMALL)
def _note(sight: Sight, corner: int, count: int) -> int:
    """Append a corner to ``sight.seen`` unless it is listed already; return the number of listed corners."""
    now = sight.stamp[-1]
    if sight.stamp[corner] != now:
        sight.stamp[corner] = now
        sight.seen[count] = corner
        count += 1
    return count


@njit(**INNER)
def next_cone(
    ground: Ground, sight: Sight, size: int, x: float, z: float
) -> tuple[int, int, float, float, float, float]:
    """Pop a cone from the stack and push its continuations beyond the polygon that it enters.

    Returns:
        The stack's size, the polygon, and the directions of the cone's left and right side, seen from (x, z).
    """
    size -= 1
    left_x, left_z, right_x, right_z = sight.cones[size]
    polygon = to_int64(sight.entered[size, 0])
    origin = sight.entered[size, 1]
    n = ground.num_vertices[polygon]
    ax = ground.outline[polygon, n - 1, 0] - x
    az = ground.outline[polygon, n - 1, 1] - z
    edge = n - 1
    for i in range(n):
        bx = ground.outline[polygon, i, 0] - x
        bz = ground.outline[polygon, i, 1] - z
        beyond = ground.neighbours[polygon, edge]
        if beyond >= 0 and beyond != origin and ax * bz - az * bx < 0.0:
            new_left_x, new_left_z = (ax, az) if left_x * az - left_z * ax < 0.0 else (left_x, left_z)
            new_right_x, new_right_z = (bx, bz) if bx * right_z - bz * right_x < 0.0 else (right_x, right_z)
            is_open = new_left_x * new_right_z - new_left_z * new_right_x < 0.0
            if is_open and size >= len(sight.cones):
                sight.dropped[0] += 1
            elif is_open:
                cone = sight.cones[size]
                cone[0] = new_left_x
                cone[1] = new_left_z
                cone[2] = new_right_x
                cone[3] = new_right_z
                sight.entered[size, 0] = beyond
                sight.entered[size, 1] = polygon
                size += 1
        ax = bx
        az = bz
        edge = i
    return size, polygon, left_x, left_z, right_x, right_z


@njit(**SMALL)
def cone_contains(left_x: float, left_z: float, right_x: float, right_z: float, dx: float, dz: float) -> bool:
    """Return whether a direction lies in a cone; the cone's sides count as inside."""
    return left_x * dz - left_z * dx <= SIGHT_TOLERANCE and dx * right_z - dz * right_x <= SIGHT_TOLERANCE


@njit(**INNER)
def _expand(ground: Ground, corner_of: np.ndarray, sight: Sight, size: int, count: int, x: float, z: float) -> int:
    """Follow the cones on the stack to the walls and record every corner and polygon inside them."""
    for _ in range(MAX_CONES * len(ground.num_vertices)):
        if size == 0:
            break
        size, polygon, left_x, left_z, right_x, right_z = next_cone(ground, sight, size, x, z)
        sight.entered_at[polygon] = sight.stamp[-1]
        for i in range(ground.num_vertices[polygon]):
            corner = to_int64(corner_of[polygon, i])
            if corner >= 0:
                dx = ground.outline[polygon, i, 0] - x
                dz = ground.outline[polygon, i, 1] - z
                if cone_contains(left_x, left_z, right_x, right_z, dx, dz):
                    count = _note(sight, corner, count)
    sight.dropped[0] += size
    return count


@njit(**INNER)
def is_taut(points: np.ndarray, walls: np.ndarray, corner: int, x: float, z: float) -> bool:
    """Return whether a path from (x, z) could bend at a corner: both its walls lie on one side of the line."""
    ux = points[corner, 0] - x
    uz = points[corner, 2] - z
    length = np.sqrt(ux * ux + uz * uz)
    if length < 1e-3:
        return True
    slack = TAUT_TOLERANCE * length
    first = ux * walls[corner, 0, 1] - uz * walls[corner, 0, 0]
    second = ux * walls[corner, 1, 1] - uz * walls[corner, 1, 0]
    return (first >= -slack and second >= -slack) or (first <= slack and second <= slack)


@njit(**INNER)
def look_around(ground: Ground, corners: Corners, sight: Sight, polygon: int, x: float, z: float) -> int:
    """Write the corners that a point of ``polygon`` sees along taut lines to ``sight.seen[:n]`` and return n.

    Afterwards ``sight.entered_at[p] == sight.stamp[-1]`` for the polygons that the point sees at least in part.
    """
    x, z = inward(ground, polygon, x, z)
    sight.stamp[-1] += 1
    sight.entered_at[polygon] = sight.stamp[-1]
    count = to_int64(0)
    for i in range(ground.num_vertices[polygon]):
        if corners.corner_of[polygon, i] >= 0:
            count = _note(sight, to_int64(corners.corner_of[polygon, i]), count)
    size = open_cones(ground, sight, to_int64(0), polygon, to_int64(-1), x, z)
    count = _expand(ground, corners.corner_of, sight, size, count, x, z)
    return _keep_taut(corners.point, corners.walls, sight, count, x, z)


@njit(**SMALL)
def _keep_taut(points: np.ndarray, walls: np.ndarray, sight: Sight, count: int, x: float, z: float) -> int:
    kept = 0
    for k in range(count):
        corner = to_int64(sight.seen[k])
        if is_taut(points, walls, corner, x, z):
            sight.seen[kept] = corner
            kept += 1
    return kept


@njit(**ENTRY)
def _taut_graph(
    ground: Ground,
    sight: Sight,
    points: np.ndarray,
    walls: np.ndarray,
    corner_of: np.ndarray,
    fan_start: np.ndarray,
    fan: np.ndarray,
    most_edges: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the pairs of corners that see each other along a line that is taut at both.

    The arrays are those of ``Corners``. The search stops as soon as it has found more than ``most_edges``.

    Returns:
        The arrays edge_start [C + 1] int32 and edges [E] int32 of ``Corners``.
    """
    num_corners = len(points)
    edge_start = np.zeros(num_corners + 1, np.int32)
    edges = np.empty(16 * num_corners + 16, np.int32)
    total = to_int64(0)
    for c in range(num_corners):
        x = points[c, 0]
        z = points[c, 2]
        sight.stamp[-1] += 1
        count = to_int64(0)
        for k in range(fan_start[c], fan_start[c + 1]):
            polygon = to_int64(fan[k, 0])
            for i in range(ground.num_vertices[polygon]):
                if corner_of[polygon, i] >= 0:
                    count = _note(sight, to_int64(corner_of[polygon, i]), count)
            size = open_cones(ground, sight, to_int64(0), polygon, to_int64(fan[k, 1]), x, z)
            count = _expand(ground, corner_of, sight, size, count, x, z)
        count = _keep_taut(points, walls, sight, count, x, z)
        if total + count > len(edges):
            edges = grown(edges, total, 2 * total + count)
        for k in range(count):
            other = sight.seen[k]
            if other != c and is_taut(points, walls, c, points[other, 0], points[other, 2]):
                edges[total] = other
                total += 1
        edge_start[c + 1] = total
        if total > most_edges:
            break
    return edge_start, edges[:total].copy()


@njit(**ENTRY)
def _all_shortest_paths(lengths: np.ndarray, edge_start: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Compute the shortest paths between all corners [C, C] float32 by Dijkstra's algorithm."""
    num_corners = len(edge_start) - 1
    between = np.empty((num_corners, num_corners), np.float32)
    distance = np.empty(num_corners, np.float64)
    heap = np.empty(num_corners, np.int32)
    place = np.empty(num_corners, np.int32)
    for source in range(num_corners):
        distance[:] = np.inf
        distance[source] = 0.0
        heap[0] = source
        size = to_int64(1)
        while size > 0:
            corner = pop(heap, place, distance, size)
            size -= 1
            for k in range(edge_start[corner], edge_start[corner + 1]):
                other = to_int64(edges[k])
                further = distance[corner] + lengths[k]
                if further < distance[other]:
                    is_new = distance[other] == np.inf
                    distance[other] = further
                    rise(heap, place, distance, size if is_new else to_int64(place[other]), other)
                    size += is_new
        for c in range(num_corners):
            between[source, c] = distance[c]
    for a in range(num_corners):  # sums in the opposite order may differ in the last bit
        for b in range(a):
            between[a, b] = between[b, a] = min(between[a, b], between[b, a])
    return between
