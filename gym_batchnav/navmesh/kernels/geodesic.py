"""Shortest paths: distances to goals by look-up, exact distances between pairs of points, and polylines."""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.cells import piece_at
from gym_batchnav.navmesh.kernels.layout import (
    Cells,
    Corners,
    Ground,
    Point,
    Spot,
    cells_at,
    corners_at,
    goals_at,
    ground_at,
)
from gym_batchnav.navmesh.kernels.motion import walk_straight
from gym_batchnav.navmesh.kernels.visibility import Sight, grown, inward, look_around, make_sight
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

AT_CORNER = 1e-3  # metres: a walk that ends this close to a corner reaches it


@njit(**SMALL)
def sees(ground: Ground, spot: Spot, goal: Spot) -> bool:
    """Return whether a straight line joins two points."""
    goal_x, goal_z = inward(ground, goal.polygon, goal.x, goal.z)
    return walk_straight(ground, spot.polygon, spot.x, spot.z, goal_x, goal_z, goal.polygon)[1] == goal.polygon


@njit(**SMALL)
def point_at(points: np.ndarray, row: int) -> Point:
    """Return a row of points [n, 3] in float64."""
    return Point(np.float64(points[row, 0]), np.float64(points[row, 1]), np.float64(points[row, 2]))


@njit(**SMALL)
def spot_at(polygons: np.ndarray, points: np.ndarray, row: int) -> Spot:
    """Return a row of polygons [n] and points [n, 3] in int64 and float64."""
    x = np.float64(points[row, 0])
    y = np.float64(points[row, 1])
    z = np.float64(points[row, 2])
    return Spot(to_int64(polygons[row]), x, y, z)


@njit(**SMALL)
def distance_3d(points: np.ndarray, row: int, to: Point | Spot) -> float:
    """Straight distance of a row of ``points`` [n, 3] to a point, metres."""
    dx = points[row, 0] - to.x
    dy = points[row, 1] - to.y
    dz = points[row, 2] - to.z
    return np.sqrt(dx * dx + dy * dy + dz * dz)


@njit(**ENTRY)
def fill_goal_fields(
    ground: Ground,
    corners: Corners,
    polygons: np.ndarray,
    points: np.ndarray,
    first: np.ndarray,
    aim: np.ndarray,
    field: np.ndarray,
    seen: np.ndarray,
    look_start: np.ndarray,
) -> tuple[int, np.ndarray]:
    """Compute the distance of every corner to the nearest goal of every set, and the polygons that the goals see.

    ``polygons`` [G] and ``points`` [G, 3] are the goals and ``first`` [H + 1] the first goal of every set. Written are
    ``aim``, ``field``, ``seen`` and ``look_start``, which are declared in ``layout.Goals``.

    Returns:
        The number of cones of sight that could not be followed, and the corners [V] int32 that the goals see.
    """
    sight = make_sight(len(ground.num_vertices), len(corners.point))
    looks = np.empty(len(points), np.int32)
    look_start[0] = 0
    field[:] = np.inf
    for h in range(len(field)):
        for goal in range(first[h], first[h + 1]):
            spot = spot_at(polygons, points, goal)
            aim[goal, 0], aim[goal, 1] = inward(ground, spot.polygon, spot.x, spot.z)
            count = look_around(ground, corners, sight, spot.polygon, spot.x, spot.z)
            for p in range(seen.shape[1]):
                seen[goal, p] = sight.entered_at[p] == sight.stamp[-1]
            begin = to_int64(look_start[goal])
            look_start[goal + 1] = begin + count
            if begin + count > len(looks):
                looks = grown(looks, begin, 2 * (begin + count))
            looks[begin : begin + count] = sight.seen[:count]
            for k in range(count):
                corner = to_int64(sight.seen[k])
                start = distance_3d(corners.point, corner, spot)
                for c in range(field.shape[1]):
                    length = start + corners.between[corner, c]
                    if length < field[h, c]:
                        field[h, c] = length
    return sight.dropped[0], looks[: look_start[-1]].copy()


@njit(**INNER)
def distance_and_corner(row: np.ndarray, goal_set: int, spot: Spot) -> tuple[float, int, int]:
    """Look up the distance of a spot to the nearest goal of a set.

    The scene is given as a row of addresses, since passing two dozen arrays would cost as much as the look-up.

    Returns:
        The distance in metres, inf if there is no path; the first corner of the path, -1 if it is straight; and the
        goal that a straight path leads to.
    """
    goals = goals_at(row)
    first = to_int64(goals.first[goal_set])
    end = to_int64(goals.first[goal_set + 1])
    straight, goal = _nearest_in_sight(row, first, end, spot)
    if goal < 0 or (straight < np.inf and end - first == 1):
        return straight, -1, goal
    around, corner = _around_corners(row, goal_set, spot)
    return (around, corner, goal) if around < straight else (straight, -1, goal)


@njit(**SMALL)
def _nearest_in_sight(row: np.ndarray, first: int, end: int, spot: Spot) -> tuple[float, int]:
    """Return the distance and the number of the nearest visible goal from ``first`` to ``end - 1``.

    The distance is inf if none is visible, and the number is -1 if none lies on the island of the spot.
    """
    ground = ground_at(row)
    goals = goals_at(row)
    best = np.inf
    nearest = to_int64(-1)
    for goal in range(first, end):
        polygon = to_int64(goals.polygon[goal])
        if nearest < 0 and ground.islands[polygon] == ground.islands[spot.polygon]:
            nearest = goal
        if goals.seen[goal, spot.polygon]:  # else the walk would end at a wall
            length = distance_3d(goals.point, goal, spot)
            if length < best:
                aim_x = goals.aim[goal, 0]
                aim_z = goals.aim[goal, 1]
                if walk_straight(ground, spot.polygon, spot.x, spot.z, aim_x, aim_z, polygon)[1] == polygon:
                    best = length
                    nearest = goal
    return best, nearest


@njit(**INNER)
def _around_corners(row: np.ndarray, goal_set: int, spot: Spot) -> tuple[float, int]:
    """Return the length and the first corner of the shortest path that is not straight; inf if there is none."""
    ground = ground_at(row)
    corners = corners_at(row)
    cells = cells_at(row)
    field = goals_at(row).field[goal_set]
    piece = piece_at(cells, spot.polygon, spot.x, spot.z)
    if piece >= 0:
        excluded_up_to = -np.inf  # candidates up to this length are known to be hidden
        for _ in range(cells.pieces[piece, 1], cells.pieces[piece + 1, 1]):
            best, listed = _best_listed(corners.point, cells, field, piece, spot, excluded_up_to)
            if best == np.inf:
                break
            if listed >= 0 or _reaches(ground, corners.point, ~listed, spot):
                return best, max(listed, ~listed)
            excluded_up_to = best
    return _look_for_corner(ground, corners, field, spot)


@njit(**SMALL)
def _best_listed(
    points: np.ndarray, cells: Cells, field: np.ndarray, piece: int, spot: Spot, above: float
) -> tuple[float, int]:
    """Return the shortest length above a limit through a corner that a piece lists, and the list's entry for it."""
    best = np.inf
    best_listed = 0
    for k in range(cells.pieces[piece, 1], cells.pieces[piece + 1, 1]):
        listed = cells.listed[k]
        corner = max(listed, ~listed)
        length = distance_3d(points, corner, spot) + field[corner]
        if length <= above:
            length = np.inf
        if length < best:
            best = length
            best_listed = listed
    return best, best_listed


@njit(**SMALL)
def _reaches(ground: Ground, points: np.ndarray, corner: int, spot: Spot) -> bool:
    """Return whether a straight walk to a corner ends within a millimetre of it."""
    dx = points[corner, 0] - spot.x
    dz = points[corner, 2] - spot.z
    free = walk_straight(ground, spot.polygon, spot.x, spot.z, spot.x + dx, spot.z + dz, to_int64(-1))[0]
    return (1.0 - free) ** 2 * (dx * dx + dz * dz) <= AT_CORNER * AT_CORNER


@njit(**INNER)
def _look_for_corner(ground: Ground, corners: Corners, field: np.ndarray, spot: Spot) -> tuple[float, int]:
    """Find the distance and the corner by a full visibility query: exact but slow, for spots missing in the look-up."""
    sight = make_sight(len(ground.num_vertices), len(corners.point))
    count = look_around(ground, corners, sight, spot.polygon, spot.x, spot.z)
    best = np.inf
    best_corner = -1
    for k in range(count):
        corner = to_int64(sight.seen[k])
        length = distance_3d(corners.point, corner, spot) + field[corner]
        if length < best:
            best = length
            best_corner = corner
    return best, best_corner


@njit(**INNER)
def _pair(
    ground: Ground, corners: Corners, sight: Sight, mine: np.ndarray, spot: Spot, goal: Spot
) -> tuple[float, int, int]:
    """Return the length of the shortest path of two points, its first and its last corner, -1 for none."""
    if spot.polygon < 0 or goal.polygon < 0 or ground.islands[spot.polygon] != ground.islands[goal.polygon]:
        return np.inf, -1, -1
    if sees(ground, spot, goal):
        return np.sqrt((goal.x - spot.x) ** 2 + (goal.y - spot.y) ** 2 + (goal.z - spot.z) ** 2), -1, -1
    count = look_around(ground, corners, sight, spot.polygon, spot.x, spot.z)
    for k in range(count):
        mine[k] = sight.seen[k]
    others = look_around(ground, corners, sight, goal.polygon, goal.x, goal.z)
    best = np.inf
    first = -1
    last = -1
    for k in range(others):
        b = to_int64(sight.seen[k])
        behind = distance_3d(corners.point, b, goal)
        for m in range(count):
            a = to_int64(mine[m])
            length = distance_3d(corners.point, a, spot) + (behind + corners.between[a, b])
            if length < best:
                best = length
                first = a
                last = b
    return best, first, last


@njit(**ENTRY)
def pair_distances(
    ground: Ground,
    corners: Corners,
    polygons: np.ndarray,
    points: np.ndarray,
    goal_polygons: np.ndarray,
    goals: np.ndarray,
    out: np.ndarray,
) -> None:
    """Compute the exact distances between pairs of points.

    Points and goals [N, 3] lie on polygons [N], -1 for none. ``out`` [N] float64 is written: metres, inf for no path.
    """
    sight = make_sight(len(ground.num_vertices), len(corners.point))
    mine = np.empty(len(corners.point), np.int32)
    for i in range(len(points)):
        spot = spot_at(polygons, points, i)
        goal = spot_at(goal_polygons, goals, i)
        out[i] = _pair(ground, corners, sight, mine, spot, goal)[0]


@njit(**ENTRY)
def corners_on_path(
    ground: Ground, corners: Corners, polygons: np.ndarray, points: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the length of the shortest path between two points [2, 3] on polygons [2], and its corners [n] int32.

    The length is inf if there is no path; a polygon of -1 stands for none.
    """
    num_corners = len(corners.point)
    sight = make_sight(len(ground.num_vertices), num_corners)
    mine = np.empty(num_corners, np.int32)
    spot = spot_at(polygons, points, 0)
    goal = spot_at(polygons, points, 1)
    length, corner, last = _pair(ground, corners, sight, mine, spot, goal)
    path = np.empty(num_corners, np.int32)
    size = 0
    while corner >= 0 and size < num_corners:
        path[size] = corner
        size += 1
        best = np.inf
        following = -1
        if corner != last:
            here = point_at(corners.point, corner)
            for k in range(corners.edge_start[corner], corners.edge_start[corner + 1]):
                other = to_int64(corners.edges[k])
                rest = distance_3d(corners.point, other, here) + corners.between[other, last]
                if rest < best:
                    best = rest
                    following = other
        corner = following
    return length, path[:size].copy()


@njit(**ENTRY)
def sight_distances(
    ground: Ground, polygons: np.ndarray, points: np.ndarray, headings: np.ndarray, reach: float, out: np.ndarray
) -> None:
    """Compute how far one can walk straight ahead from points.

    Points [N, 3] lie on polygons [N], -1 for none. ``headings`` [N, R] are radians. ``out`` [N, R] float64 is written:
    metres, at most ``reach``, 0 for points without a polygon.
    """
    for i in range(len(points)):
        for r in range(headings.shape[1]):
            out[i, r] = 0.0
            if polygons[i] >= 0:
                spot = spot_at(polygons, points, i)
                end_x = spot.x - np.sin(headings[i, r]) * reach
                end_z = spot.z - np.cos(headings[i, r]) * reach
                free = walk_straight(ground, spot.polygon, spot.x, spot.z, end_x, end_z, to_int64(-1))[0]
                out[i, r] = free * reach
