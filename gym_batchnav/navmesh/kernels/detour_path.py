"""Distances and paths as Habitat computes them with Detour.

A corridor of polygons is searched first: dtNavMeshQuery::findPath of Detour 1.6 with dtNodePool and dtNodeQueue, in the
same order of ties, since another order may find another corridor. A node is a polygon. Its position is the midpoint of
the edge over which the search first reached it, so corridors are not always those of the shortest paths. A string is
then pulled taut inside the corridor by the funnel algorithm: dtNavMeshQuery::findStraightPath without the options that
add crossings. Its points are vertices of polygons, and its length is measured in 3-D between them.

Everything is float32, and thresholds are those of Detour. The limits are those of Habitat, whose findPath reports no
path where Detour exceeds one: habitat-sim, PathFinder.cpp (initNavQuery and findPathInternal).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.cells import piece_at
from gym_batchnav.navmesh.kernels.geodesic import distance_3d, point_at, sees, spot_at
from gym_batchnav.navmesh.kernels.heap import pop, rise
from gym_batchnav.navmesh.kernels.layout import Goals, Ground, Spot, cells_at, corners_at, goals_at, ground_at
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

MAX_NODES = 2048  # polygons that one search may reach
MAX_CORRIDOR = 256  # polygons of a corridor, and points of a path
_MAX_VISITS = 16 * MAX_NODES  # of nodes; a node is visited again only if its total was rounded differently
HEURISTIC_SCALE = np.float32(0.999)  # Detour's H_SCALE
_HALF = np.float32(0.5)
_NEW, _OPEN, _CLOSED = range(3)  # states of nodes
_NODES, _OPENED = range(2)  # items of Search.counts
_SAME2 = np.float32((1 / 16384) ** 2)  # square metres: points that are closer are equal (dtVequal)
_AT_PORTAL2 = np.float32(0.001 * 0.001)  # square metres: a start that is closer to the first portal has passed it
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
_RIGHT = np.float32(1.0)
_LEFT = np.float32(-1.0)
_KEEP, _NARROW, _BEND = range(3)  # changes of the funnel
# Metres. Exact paths touch corners. Where the ground is uneven, a path that bends elsewhere can be shorter: by at most
# 9 mm among 700,000 paths of Detour in the shared and shipped scenes and on rough ground.
_MARGIN = 0.02


class Vertex(NamedTuple):
    """A point in float32, as Detour computes."""

    x: np.float32  # metres
    y: np.float32  # metres
    z: np.float32  # metres


class Search(NamedTuple):
    """Scratch arrays of a search; one set per thread. Nodes are numbered in the order in which they were reached."""

    node_of: np.ndarray  # [P] int32, node of every polygon, -1 for none
    polygon: np.ndarray  # [MAX_NODES] int32
    parent: np.ndarray  # [MAX_NODES] int32, node from which each was reached on the best path so far, -1 for the start
    state: np.ndarray  # [MAX_NODES] int8, _NEW, _OPEN or _CLOSED
    position: np.ndarray  # [MAX_NODES, 3] float32, metres
    cost: np.ndarray  # [MAX_NODES] float32, metres from the start
    total: np.ndarray  # [MAX_NODES] float32, the cost and the estimate of the rest, metres
    heap: np.ndarray  # [MAX_NODES] int32, open nodes with the smallest total first
    place: np.ndarray  # [MAX_NODES] int32, row of every open node in the heap
    counts: np.ndarray  # [2] int64, number of nodes and of open nodes
    corridor: np.ndarray  # [MAX_CORRIDOR] int32, polygons from start to end
    points: np.ndarray  # [MAX_CORRIDOR, 3] float32, metres, the path through the corridor


@njit(**INNER)
def make_search(num_polygons: int) -> Search:
    """Allocate the scratch arrays for grounds of up to the given number of polygons."""
    return Search(
        np.full(num_polygons, -1, np.int32),
        np.empty(MAX_NODES, np.int32),
        np.empty(MAX_NODES, np.int32),
        np.empty(MAX_NODES, np.int8),
        np.empty((MAX_NODES, 3), np.float32),
        np.empty(MAX_NODES, np.float32),
        np.empty(MAX_NODES, np.float32),
        np.empty(MAX_NODES, np.int32),
        np.empty(MAX_NODES, np.int32),
        np.zeros(2, np.int64),
        np.empty(MAX_CORRIDOR, np.int32),
        np.empty((MAX_CORRIDOR, 3), np.float32),
    )


@njit(**SMALL)
def vertex_at(ground: Ground, polygon: int, index: int) -> Vertex:
    """Return a vertex of a polygon."""
    outline = ground.outline
    x = np.float32(outline[polygon, index, 0])
    return Vertex(x, ground.heights[polygon, index], np.float32(outline[polygon, index, 1]))


@njit(**INNER)
def portal(ground: Ground, polygon: int, beyond: int) -> tuple[Vertex, Vertex]:
    """Return the two ends of the edge to a neighbour, of the first one if there are several: getPortalPoints."""
    n = to_int64(ground.num_vertices[polygon])
    edge = to_int64(0)
    while edge < n - 1 and ground.neighbours[polygon, edge] != beyond:
        edge += 1
    return vertex_at(ground, polygon, edge), vertex_at(ground, polygon, (edge + 1) % n)


@njit(**SMALL)
def distance_32(a: Vertex, b: Vertex) -> np.float32:
    """Return the distance between two points, metres."""
    dx = b.x - a.x
    dy = b.y - a.y
    dz = b.z - a.z
    return np.sqrt(dx * dx + dy * dy + dz * dz)


@njit(**INNER)
def find_corridor(
    ground: Ground, search: Search, start_polygon: int, start: Vertex, end_polygon: int, end: Vertex
) -> int:
    """Search a corridor between two points of one island.

    Returns:
        The number of its polygons, which are in ``search.corridor``; 0 if a limit is exceeded.
    """
    if start_polygon == end_polygon:
        search.corridor[0] = start_polygon
        return to_int64(1)
    first = _add_node(search, start_polygon, start)
    search.parent[first] = -1
    search.cost[first] = np.float32(0.0)
    search.total[first] = distance_32(start, end) * HEURISTIC_SCALE
    _open(search, first)
    reached = to_int64(-1)
    for _ in range(_MAX_VISITS):
        if reached >= 0 or search.counts[_OPENED] == 0:
            break
        node = pop(search.heap, search.place, search.total, to_int64(search.counts[_OPENED]))
        search.counts[_OPENED] -= 1
        search.state[node] = _CLOSED
        if search.polygon[node] == end_polygon:
            reached = node
        elif not _expand(ground, search, node, end_polygon, end):
            break
    length = _trace(search, reached)
    for node in range(search.counts[_NODES]):
        search.node_of[search.polygon[node]] = -1
    search.counts[_NODES] = 0
    search.counts[_OPENED] = 0
    return length


@njit(**INNER)
def _expand(ground: Ground, search: Search, node: int, end_polygon: int, end: Vertex) -> bool:
    """Open the neighbours of a node that are reached on a better path than before; False if there are no nodes left."""
    polygon = to_int64(search.polygon[node])
    parent = search.parent[node]
    before = to_int64(search.polygon[parent]) if parent >= 0 else to_int64(-1)
    here = _row(search.position, node)
    for edge in range(ground.num_vertices[polygon]):
        beyond = to_int64(ground.neighbours[polygon, edge])
        if beyond < 0 or beyond == before:
            continue
        other = to_int64(search.node_of[beyond])
        if other < 0:
            if search.counts[_NODES] == MAX_NODES:
                return False
            left, right = portal(ground, polygon, beyond)
            middle = Vertex((left.x + right.x) * _HALF, (left.y + right.y) * _HALF, (left.z + right.z) * _HALF)
            other = _add_node(search, beyond, middle)
        there = _row(search.position, other)
        cost = search.cost[node] + distance_32(here, there)
        rest = distance_32(there, end)
        if beyond == end_polygon:
            cost += rest
            total = cost
        else:
            total = cost + rest * HEURISTIC_SCALE
        if search.state[other] != _NEW and total >= search.total[other]:
            continue
        search.parent[other] = node
        search.cost[other] = cost
        search.total[other] = total
        if search.state[other] == _OPEN:
            rise(search.heap, search.place, search.total, to_int64(search.place[other]), other)
        else:
            _open(search, other)
    return True


@njit(**INNER)
def _trace(search: Search, reached: int) -> int:
    """Write the corridor that leads to a node, and return its length; 0 for no node (-1) or if it is too long."""
    length = to_int64(0)
    node = to_int64(reached)
    while node >= 0:
        length += 1
        node = to_int64(search.parent[node])
    if length > MAX_CORRIDOR:
        return to_int64(0)
    node = to_int64(reached)
    for place in range(length - 1, -1, -1):
        search.corridor[place] = search.polygon[node]
        node = to_int64(search.parent[node])
    return length


@njit(**INNER)
def _add_node(search: Search, polygon: int, at: Vertex) -> int:
    """Make the node of a polygon; its parent and costs are set when it is opened."""
    node = to_int64(search.counts[_NODES])
    search.counts[_NODES] += 1
    search.node_of[polygon] = node
    search.polygon[node] = polygon
    search.state[node] = _NEW
    search.position[node, 0] = at.x
    search.position[node, 1] = at.y
    search.position[node, 2] = at.z
    return node


@njit(**SMALL)
def _row(points: np.ndarray, row: int) -> Vertex:
    """Return a row of points [n, 3] float32."""
    return Vertex(points[row, 0], points[row, 1], points[row, 2])


@njit(**INNER)
def _open(search: Search, node: int) -> None:
    """Put a node into the heap."""
    search.state[node] = _OPEN
    rise(search.heap, search.place, search.total, to_int64(search.counts[_OPENED]), node)
    search.counts[_OPENED] += 1


@njit(**SMALL)
def _area(a: Vertex, b: Vertex, c: Vertex) -> np.float32:
    """Return twice the signed area of a triangle seen from above: dtTriArea2D."""
    return (c.x - a.x) * (b.z - a.z) - (b.x - a.x) * (c.z - a.z)


@njit(**SMALL)
def _is_same(a: Vertex, b: Vertex) -> bool:
    """Return whether two points are so near each other that Detour takes them for one."""
    dx = b.x - a.x
    dy = b.y - a.y
    dz = b.z - a.z
    return bool(dx * dx + dy * dy + dz * dz < _SAME2)


@njit(**INNER)
def _nearest_on_edge(point: Vertex, a: Vertex, b: Vertex) -> tuple[np.float32, np.float32]:
    """Return the squared horizontal distance to the edge from a to b, and where on it the nearest point lies, 0 to 1.

    Re-creates dtDistancePtSegSqr2D.
    """
    along_x = b.x - a.x
    along_z = b.z - a.z
    length2 = along_x * along_x + along_z * along_z
    t = along_x * (point.x - a.x) + along_z * (point.z - a.z)
    if length2 > _ZERO:
        t /= length2
    t = min(max(t, _ZERO), _ONE)
    dx = a.x + t * along_x - point.x
    dz = a.z + t * along_z - point.z
    return dx * dx + dz * dz, t


@njit(**INNER)
def _into_polygon(ground: Ground, polygon: int, point: Vertex) -> Vertex:
    """Return a point, or the nearest one on the outline of a polygon if it lies outside: closestPointOnPolyBoundary."""
    n = to_int64(ground.num_vertices[polygon])
    inside = False
    best = np.float32(np.inf)
    nearest = point
    a = vertex_at(ground, polygon, n - 1)
    for i in range(n):
        b = vertex_at(ground, polygon, i)
        if (b.z > point.z) != (a.z > point.z) and point.x < (a.x - b.x) * (point.z - b.z) / (a.z - b.z) + b.x:
            inside = not inside
        distance2, t = _nearest_on_edge(point, a, b)
        if distance2 < best:
            best = distance2
            nearest = Vertex(a.x + (b.x - a.x) * t, a.y + (b.y - a.y) * t, a.z + (b.z - a.z) * t)
        a = b
    return point if inside else nearest


@njit(**INNER)
def _change(apex: Vertex, own: Vertex, other: Vertex, new: Vertex, side: np.float32) -> int:
    """Decide how the next portal changes one side of the funnel.

    The funnel begins at ``apex``, ``own`` is the end of this side, ``other`` that of the other, and ``new`` that of the
    next portal on this side, which is _RIGHT or _LEFT.

    Returns:
        _KEEP if the funnel would widen, _NARROW, or _BEND if its sides would cross: the path then bends at ``other``.
    """
    if side * _area(apex, own, new) > _ZERO:
        return _KEEP
    if _is_same(apex, own) or side * _area(apex, other, new) > _ZERO:
        return _NARROW
    return _BEND


@njit(**INNER)
def _append(points: np.ndarray, count: int, point: Vertex) -> int:
    """Append a point to those of a path unless it equals the last one, and return their new number."""
    if count > 0 and _is_same(_row(points, count - 1), point):
        return count
    if count < MAX_CORRIDOR:
        points[count, 0] = point.x
        points[count, 1] = point.y
        points[count, 2] = point.z
    return count + 1


@njit(**INNER)
def _pull_string(ground: Ground, search: Search, length: int, start: Vertex, end: Vertex) -> int:
    """Pull a string taut in a corridor of the given number of polygons.

    Every bend restarts the funnel at the portal after the one that it lies on. Each bend lies on a later portal than
    the one before, so the loop ends within its bound.

    Returns:
        The number of points, which are in ``search.points``; at least ``MAX_CORRIDOR`` if there are too many.
    """
    corridor = search.corridor
    apex = _into_polygon(ground, to_int64(corridor[0]), start)
    goal = _into_polygon(ground, to_int64(corridor[length - 1]), end)
    count = _append(search.points, to_int64(0), apex)
    left = apex
    right = apex
    left_portal = to_int64(0)
    right_portal = to_int64(0)
    i = to_int64(0)
    for _ in range(length * (length + 1)):
        if i == length:
            break
        new_left = goal
        new_right = goal
        if i + 1 < length:
            new_left, new_right = portal(ground, to_int64(corridor[i]), to_int64(corridor[i + 1]))
            if i == 0 and _nearest_on_edge(apex, new_left, new_right)[0] < _AT_PORTAL2:
                i += 1
                continue
        change = _change(apex, right, left, new_right, _RIGHT)
        if change == _BEND:
            apex = left
            i = left_portal
        else:
            if change == _NARROW:
                right = new_right
                right_portal = i
            change = _change(apex, left, right, new_left, _LEFT)
            if change == _BEND:
                apex = right
                i = right_portal
            elif change == _NARROW:
                left = new_left
                left_portal = i
        if change == _BEND:
            count = _append(search.points, count, apex)
            left = apex
            right = apex
            left_portal = i
            right_portal = i
        i += 1
    return _append(search.points, count, goal)


@njit(**INNER)
def _path(ground: Ground, search: Search, start: Spot, goal: Spot) -> int:
    """Find the path between two spots; return the number of its points, which are in ``search.points``, 0 for none."""
    if start.polygon < 0 or goal.polygon < 0 or ground.islands[start.polygon] != ground.islands[goal.polygon]:
        return to_int64(0)
    begin = Vertex(np.float32(start.x), np.float32(start.y), np.float32(start.z))
    end = Vertex(np.float32(goal.x), np.float32(goal.y), np.float32(goal.z))
    if not np.isfinite(begin.x + begin.y + begin.z + end.x + end.y + end.z):
        return to_int64(0)
    length = find_corridor(ground, search, start.polygon, begin, goal.polygon, end)
    count = _pull_string(ground, search, length, begin, end) if length > 0 else length
    return count if count < MAX_CORRIDOR else to_int64(0)


@njit(**INNER)
def _path_length(ground: Ground, search: Search, start: Spot, goal: Spot) -> float:
    """Return the length of the path between two spots, metres; inf if there is none."""
    count = _path(ground, search, start, goal)
    if count == 0:
        return np.inf
    length = _ZERO
    for k in range(1, count):
        length += distance_32(_row(search.points, k - 1), _row(search.points, k))
    return np.float64(length)


@njit(**INNER)
def detour_to_nearest(row: np.ndarray, search: Search, goal_set: int, spot: Spot) -> float:
    """Return the length of the shortest of Detour's paths from a spot to the goals of a set, metres; inf for none.

    Paths are searched in the order of their lower bounds, until no bound is below the best length. Habitat does so too,
    but with straight distances as bounds, so that it searches many paths to goals behind walls.
    """
    ground = ground_at(row)
    goals = goals_at(row)
    points = corners_at(row).point
    first = to_int64(goals.first[goal_set])
    size = to_int64(goals.first[goal_set + 1]) - first
    bounds = np.full(size, np.inf)
    hidden = np.zeros(size, np.bool_)  # False if it is unknown
    reach = _reach(row, spot) if size > 1 else np.zeros(len(points), np.float32)
    for k in range(size):
        if ground.islands[goals.polygon[first + k]] == ground.islands[spot.polygon]:
            bounds[k] = distance_3d(goals.point, first + k, spot)
            hidden[k] = not goals.seen[first + k, spot.polygon]
            if hidden[k]:
                bounds[k] = _bound_around(goals, points, reach, first + k, bounds[k])
    best = np.inf
    for _ in range(2 * size):
        k = to_int64(np.argmin(bounds))
        if not bounds[k] <= best or bounds[k] == np.inf:
            break
        goal = spot_at(goals.polygon, goals.point, first + k)
        if hidden[k] or sees(ground, spot, goal):
            bounds[k] = np.inf
            best = min(best, _path_length(ground, search, spot, goal))
        else:
            hidden[k] = True
            bounds[k] = _bound_around(goals, points, reach, first + k, bounds[k])
    return best


@njit(**INNER)
def _bound_around(goals: Goals, points: np.ndarray, reach: np.ndarray, goal: int, straight: float) -> float:
    """Return a lower bound of Detour's path to a goal that is not in sight, metres.

    ``points`` [C, 3] are the corners, and ``reach`` [C] lower bounds of the distances to them.
    """
    there = point_at(goals.point, goal)
    around = np.inf
    for k in range(goals.look_start[goal], goals.look_start[goal + 1]):
        corner = to_int64(goals.looks[k])
        around = min(around, reach[corner] + distance_3d(points, corner, there))
    return max(straight, around - _MARGIN) if around < np.inf else straight


@njit(**INNER)
def _reach(row: np.ndarray, spot: Spot) -> np.ndarray:
    """Return lower bounds [C] float32 of the exact distances of a spot to all corners, metres.

    Corners that are listed for the spot count as seen, even if only other spots nearby see them. Without a list, which
    is rare, the bounds are 0.
    """
    corners = corners_at(row)
    cells = cells_at(row)
    piece = piece_at(cells, spot.polygon, spot.x, spot.z)
    if piece < 0:
        return np.zeros(len(corners.point), np.float32)
    reach = np.full(len(corners.point), np.inf, np.float32)
    for k in range(cells.pieces[piece, 1], cells.pieces[piece + 1, 1]):
        corner = to_int64(max(cells.listed[k], ~cells.listed[k]))
        leg = np.float32(distance_3d(corners.point, corner, spot))
        for c in range(len(reach)):
            length = leg + corners.between[corner, c]
            reach[c] = length if length < reach[c] else reach[c]
    return reach


@njit(**ENTRY)
def detour_distances(
    ground: Ground,
    polygons: np.ndarray,
    points: np.ndarray,
    goal_polygons: np.ndarray,
    goals: np.ndarray,
    out: np.ndarray,
) -> None:
    """Compute Detour's distances between pairs of points; the arguments are those of ``geodesic.pair_distances``."""
    search = make_search(len(ground.num_vertices))
    for i in range(len(points)):
        out[i] = _path_length(ground, search, spot_at(polygons, points, i), spot_at(goal_polygons, goals, i))


@njit(**ENTRY)
def detour_points(ground: Ground, polygons: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the points [M, 3] float32, metres, of Detour's path between two points; none if there is no path."""
    search = make_search(len(ground.num_vertices))
    start = spot_at(polygons, points, to_int64(0))
    count = _path(ground, search, start, spot_at(polygons, points, to_int64(1)))
    return search.points[:count].copy()
