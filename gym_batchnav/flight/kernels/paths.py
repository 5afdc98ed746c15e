"""Shortest paths in the air: from every voxel to a goal, and from any point.

The paths are those of Lazy Theta* (Nash, Koenig and Tovey 2010), run from the goal over all voxels: a search among 26
neighbours whose paths turn only at voxels that do not see each other, so that they are straight in open space.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gym_batchnav.flight.kernels.layout import Fields, Voxels
from gym_batchnav.flight.kernels.space import NUM_NEIGHBOURS, sees
from gym_batchnav.navmesh.kernels.geodesic import point_at
from gym_batchnav.navmesh.kernels.heap import pop, rise
from gym_batchnav.navmesh.kernels.layout import Point
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

_ARRIVED = 0.1  # of a voxel's side, the distance from its centre at which a path goes on to the next turn
_NEAR = 2  # voxels around a point among which its path begins, where none of the nearest eight are in the air


@njit(**SMALL)
def _distance(a: Point, b: Point) -> float:
    return math.sqrt((a.x - b.x) ** 2 + (a.y - b.y) ** 2 + (a.z - b.z) ** 2)


@njit(**SMALL)
def _origin(centers: np.ndarray, goal: Point, parent: int) -> Point:
    """Return the point of a parent, which is the goal for -1."""
    if parent < 0:
        return goal
    return point_at(centers, parent)


@njit(**INNER)
def _first_voxels(voxels: Voxels, p: Point, reach: int) -> tuple[int, int, int, int, int, int]:
    """Return the range of voxels around a point: the nearest eight, and ``reach`` - 1 more on all sides."""
    frame = voxels.frame
    shape = voxels.number.shape
    low = np.empty(3, np.int64)
    end = np.empty(3, np.int64)
    for axis, value in enumerate((p.x, p.y, p.z)):
        place = (value - frame[axis]) / frame[3] - 0.5
        place = min(max(place, -1.0), np.float64(shape[axis])) if place == place else 0.0  # NaN
        nearest = to_int64(math.floor(place))
        low[axis] = max(nearest - reach + 1, 0)
        end[axis] = min(nearest + reach + 1, shape[axis])
    return low[0], end[0], low[1], end[1], low[2], end[2]


@njit(**ENTRY)
def find_field(
    voxels: Voxels,
    centers: np.ndarray,
    neighbours: np.ndarray,
    target: np.ndarray,
    radius: float,
    distance: np.ndarray,
    parent: np.ndarray,
) -> None:
    """Find the shortest paths from all voxels of the air to a goal.

    Args:
        voxels: The voxels.
        centers: [F, 3] float32, metres.
        neighbours: [F, 26] int32, see ``write_neighbours``.
        target: [3] float32, metres, the goal.
        radius: Metres.
        distance: [F] float32, written: metres, inf without a path.
        parent: [F] int32, written: the voxel at which the path turns next, -1 for the goal.
    """
    count = len(centers)
    cost = np.full(count, np.inf)
    closed = np.zeros(count, np.bool_)
    heap = np.empty(count, np.int32)
    place = np.empty(count, np.int32)
    size = to_int64(0)
    goal = Point(np.float64(target[0]), np.float64(target[1]), np.float64(target[2]))
    parent[:] = -1
    x0, x1, y0, y1, z0, z1 = _first_voxels(voxels, goal, to_int64(_NEAR))
    for x in range(x0, x1):
        for y in range(y0, y1):
            for z in range(z0, z1):
                row = to_int64(voxels.number[x, y, z])
                if row >= 0 and sees(voxels, goal, point_at(centers, row), radius):
                    cost[row] = _distance(goal, point_at(centers, row))
                    rise(heap, place, cost, size, row)
                    size += 1
    while size > 0:
        here = pop(heap, place, cost, size)
        size -= 1
        at = point_at(centers, here)
        before = to_int64(parent[here])
        if not sees(voxels, _origin(centers, goal, before), at, radius):
            cost[here] = np.inf
            parent[here] = -1
            for edge in range(NUM_NEIGHBOURS):
                other = to_int64(neighbours[here, edge])
                if other >= 0 and closed[other]:
                    through = cost[other] + _distance(point_at(centers, other), at)
                    if through < cost[here]:
                        cost[here] = through
                        parent[here] = other
        closed[here] = True
        before = to_int64(parent[here])
        origin = _origin(centers, goal, before)
        base = 0.0 if before < 0 else cost[before]
        for edge in range(NUM_NEIGHBOURS):
            other = to_int64(neighbours[here, edge])
            if other < 0 or closed[other]:
                continue
            through = base + _distance(origin, point_at(centers, other))
            if through < cost[other]:
                is_new = cost[other] == np.inf
                cost[other] = through
                parent[other] = before
                rise(heap, place, cost, size if is_new else to_int64(place[other]), other)
                size += is_new
    for row in range(count):
        distance[row] = cost[row]


@njit(**INNER)
def path_from(voxels: Voxels, fields: Fields, goal: int, p: Point, radius: float) -> tuple[float, Point]:
    """Return the length of the shortest path from a point to a goal, and the point at which it turns first.

    The length is inf where there is no path, and the point is then the point itself.
    """
    target = point_at(fields.goals, goal)
    if sees(voxels, p, target, radius):
        return _distance(p, target), target
    best = np.inf
    turn = p
    arrived = _ARRIVED * voxels.frame[3]
    for reach in range(1, _NEAR + 1):
        x0, x1, y0, y1, z0, z1 = _first_voxels(voxels, p, to_int64(reach))
        for x in range(x0, x1):
            for y in range(y0, y1):
                for z in range(z0, z1):
                    row = to_int64(voxels.number[x, y, z])
                    if row < 0 or not fields.distance[goal, row] < np.inf:
                        continue
                    center = point_at(fields.centers, row)
                    if reach > 1 and not sees(voxels, p, center, radius):
                        continue
                    bend = to_int64(fields.parent[goal, row])
                    origin = _origin(fields.centers, target, bend)
                    base = 0.0 if bend < 0 else np.float64(fields.distance[goal, bend])
                    length = base + _distance(p, origin)
                    if length >= best:
                        continue
                    if _distance(p, origin) > arrived and sees(voxels, p, origin, radius):
                        best = length
                        turn = origin
                        continue
                    length = np.float64(fields.distance[goal, row]) + _distance(p, center)
                    if length < best:
                        best = length
                        # A voxel does not always quite see its parent, but their distance is known.
                        turn = center if _distance(p, center) > arrived else origin
        if best < np.inf:
            break
    return best, turn


@njit(**ENTRY)
def lengths(
    voxels: Voxels, fields: Fields, radius: float, points: np.ndarray, goals: np.ndarray, out: np.ndarray
) -> None:
    """Write the lengths ``out`` [M] float32 of the shortest paths from points [M, 3] float32 to goals [M] int32."""
    for row in range(len(points)):
        out[row] = path_from(voxels, fields, to_int64(goals[row]), point_at(points, row), radius)[0]


@njit(**ENTRY)
def write_turns(voxels: Voxels, fields: Fields, radius: float, start: np.ndarray, goal: int, out: np.ndarray) -> int:
    """Write the points ``out`` [M, 3] float64 at which the shortest path from ``start`` [3] turns, and the goal.

    Returns:
        Their number: 0 without a path, M if there is no room for all of them.
    """
    here = Point(np.float64(start[0]), np.float64(start[1]), np.float64(start[2]))
    for row in range(len(out)):
        length, turn = path_from(voxels, fields, goal, here, radius)
        if length == np.inf:
            return row
        out[row, 0] = turn.x
        out[row, 1] = turn.y
        out[row, 2] = turn.z
        here = turn
        if _distance(here, point_at(fields.goals, goal)) == 0:
            return row + 1
    return len(out)
