"""Corridors: the sequences of polygons that Detour's A* search finds between two points.

Re-creates dtNavMeshQuery::findPath of Detour 1.6 with dtNodePool and dtNodeQueue, in float32 and with the same order of
ties, since another order may find another corridor. A node is a polygon. Its position is the midpoint of the edge over
which the search first reached it, so corridors are not always those of the shortest paths.

The limits are those of Habitat, whose findPath reports no path where Detour exceeds one: habitat-sim, PathFinder.cpp
(initNavQuery and findPathInternal).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.layout import Ground
from gym_batchnav.system.jit import INNER, SMALL, to_int64

MAX_NODES = 2048  # polygons that one search may reach
MAX_CORRIDOR = 256  # polygons of a corridor, and points of a path
_MAX_VISITS = 16 * MAX_NODES  # of nodes; a node is visited again only if its total was rounded differently
HEURISTIC_SCALE = np.float32(0.999)  # Detour's H_SCALE
_HALF = np.float32(0.5)
_NEW = 0
_OPEN = 1
_CLOSED = 2
_NODES = 0  # item of Search.counts
_OPENED = 1  # item of Search.counts


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
    heap: np.ndarray  # [MAX_NODES] int32, open nodes as a binary heap with the smallest total first
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
        node = _pop(search)
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
    here = _position(search, node)
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
        there = _position(search, other)
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
            place = to_int64(0)
            while search.heap[place] != other:
                place += 1
            _rise(search, place, other)
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
def _position(search: Search, node: int) -> Vertex:
    """Return the position of a node."""
    return Vertex(search.position[node, 0], search.position[node, 1], search.position[node, 2])


@njit(**INNER)
def _open(search: Search, node: int) -> None:
    """Put a node into the heap."""
    search.state[node] = _OPEN
    place = to_int64(search.counts[_OPENED])
    search.counts[_OPENED] += 1
    _rise(search, place, node)


@njit(**INNER)
def _pop(search: Search) -> int:
    """Take the node with the smallest total out of the heap.

    The hole at the top sinks to the bottom along the smaller children, and the last node rises from there. The order of
    nodes with equal totals depends on this.
    """
    heap = search.heap
    total = search.total
    top = to_int64(heap[0])
    search.counts[_OPENED] -= 1
    size = search.counts[_OPENED]
    last = to_int64(heap[size])
    place = to_int64(0)
    child = to_int64(1)
    while child < size:
        if child + 1 < size and total[heap[child]] > total[heap[child + 1]]:
            child += 1
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    _rise(search, place, last)
    return top


@njit(**INNER)
def _rise(search: Search, place: int, node: int) -> None:
    """Put a node into the heap at a place or, while its total is smaller than that of the parent, above it."""
    heap = search.heap
    total = search.total
    while place > 0:
        above = (place - 1) // 2
        if not total[heap[above]] > total[node]:
            break
        heap[place] = heap[above]
        place = above
    heap[place] = node
