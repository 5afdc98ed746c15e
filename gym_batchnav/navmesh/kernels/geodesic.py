"""Shortest paths: distances to goals by look-up, exact distances between pairs of points, and polylines."""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.cells import piece_at
from gym_batchnav.navmesh.kernels.ground import to_int64
from gym_batchnav.navmesh.kernels.layout import Cells, Corners, Ground, cells_at, corners_at, goals_at, ground_at
from gym_batchnav.navmesh.kernels.motion import walk_straight
from gym_batchnav.navmesh.kernels.visibility import Sight, inward, look_around, make_sight
from gym_batchnav.system.jit import ENTRY, INNER

AT_CORNER = 1e-3  # metres: a walk that ends this close to a corner reaches it


@njit(**INNER)
def sees(ground: Ground, polygon: int, x: float, z: float, goal_polygon: int, goal_x: float, goal_z: float) -> bool:
    """Return whether the straight line between two points of known polygons is free."""
    goal_x, goal_z = inward(ground, goal_polygon, goal_x, goal_z)
    return walk_straight(ground, polygon, x, z, goal_x, goal_z, goal_polygon)[1] == goal_polygon


@njit(**INNER)
def distance_3d(points: np.ndarray, row: int, x: float, y: float, z: float) -> float:
    """Return the straight distance in metres from a row of ``points`` [n, 3] to a point."""
    dx, dy, dz = points[row, 0] - x, points[row, 1] - y, points[row, 2] - z
    return np.sqrt(dx * dx + dy * dy + dz * dz)


@njit(**ENTRY)
def fill_goal_fields(
    ground: Ground,
    corners: Corners,
    polygons: np.ndarray,
    points: np.ndarray,
    aim: np.ndarray,
    field: np.ndarray,
    seen: np.ndarray,
) -> None:
    """Compute the distance of every corner to every goal, and the polygons that the goals see.

    Args:
        ground: The ground.
        corners: Its corners.
        polygons: [G] int32, polygons of the goals.
        points: [G, 3] float32, the goals, metres.
        aim: [G, 2] float64, written; the goals' x and z moved slightly inward.
        field: [G, C] float32, written; metres, inf across islands.
        seen: [G, P] bool, written; whether the goal sees some part of a polygon.
    """
    sight = make_sight(len(ground.num_vertices), len(corners.point))
    field[:] = np.inf
    for goal in range(len(points)):
        x, y, z = np.float64(points[goal, 0]), np.float64(points[goal, 1]), np.float64(points[goal, 2])
        aim[goal, 0], aim[goal, 1] = inward(ground, to_int64(polygons[goal]), x, z)
        count = look_around(ground, corners, sight, to_int64(polygons[goal]), x, z)
        for p in range(seen.shape[1]):
            seen[goal, p] = sight.entered_at[p] == sight.stamp[-1]
        for k in range(count):
            corner = to_int64(sight.seen[k])
            first = distance_3d(corners.point, corner, x, y, z)
            for c in range(field.shape[1]):
                length = first + corners.between[corner, c]
                if length < field[goal, c]:
                    field[goal, c] = length


@njit(**INNER)
def distance_and_corner(row: np.ndarray, goal: int, polygon: int, x: float, y: float, z: float) -> tuple[float, int]:
    """Look up the distance from a point of ``polygon`` to a goal.

    The scene is given as a row of addresses, since passing two dozen arrays would cost as much as the look-up.

    Returns:
        The distance in metres, inf if there is no path, and the first corner of the path, -1 if the goal is visible.
    """
    ground, goals = ground_at(row), goals_at(row)
    goal_polygon = to_int64(goals.polygon[goal])
    if ground.islands[polygon] != ground.islands[goal_polygon]:
        return np.inf, -1
    if goals.seen[goal, polygon]:  # else the walk would end at a wall
        aim_x, aim_z = goals.aim[goal, 0], goals.aim[goal, 1]
        if walk_straight(ground, polygon, x, z, aim_x, aim_z, goal_polygon)[1] == goal_polygon:
            return distance_3d(goals.point, goal, x, y, z), -1
    corners, cells, field = corners_at(row), cells_at(row), goals.field[goal]
    piece = piece_at(cells, polygon, x, z)
    if piece >= 0:
        refuted = -np.inf  # length through the last corner that turned out to be hidden
        for _ in range(cells.pieces[piece, 1], cells.pieces[piece + 1, 1]):
            best, listed = _best_listed(corners.point, cells, field, piece, x, y, z, refuted)
            if best == np.inf:
                break
            if listed >= 0 or _reaches(ground, corners.point, ~listed, polygon, x, z):
                return best, max(listed, ~listed)
            refuted = best
    return _look_for_corner(ground, corners, field, polygon, x, y, z)


@njit(**INNER)
def _best_listed(
    points: np.ndarray, cells: Cells, field: np.ndarray, piece: int, x: float, y: float, z: float, above: float
) -> tuple[float, int]:
    """Return the shortest length above a limit through a corner that a piece lists, and the list's entry for it."""
    best, best_listed = np.inf, 0
    for k in range(cells.pieces[piece, 1], cells.pieces[piece + 1, 1]):
        listed = cells.listed[k]
        corner = max(listed, ~listed)
        length = distance_3d(points, corner, x, y, z) + field[corner]
        if length <= above:
            length = np.inf
        if length < best:
            best, best_listed = length, listed
    return best, best_listed


@njit(**INNER)
def _reaches(ground: Ground, points: np.ndarray, corner: int, polygon: int, x: float, z: float) -> bool:
    """Return whether a straight walk to a corner ends within a millimetre of it."""
    dx, dz = points[corner, 0] - x, points[corner, 2] - z
    free = walk_straight(ground, polygon, x, z, x + dx, z + dz, to_int64(-1))[0]
    return (1.0 - free) ** 2 * (dx * dx + dz * dz) <= AT_CORNER * AT_CORNER


@njit(**INNER)
def _look_for_corner(
    ground: Ground, corners: Corners, field: np.ndarray, polygon: int, x: float, y: float, z: float
) -> tuple[float, int]:
    """Compute the result of ``distance_and_corner`` where the look-up finds nothing: slow, exact and rarely needed."""
    sight = make_sight(len(ground.num_vertices), len(corners.point))
    count = look_around(ground, corners, sight, polygon, x, z)
    best, best_corner = np.inf, -1
    for k in range(count):
        corner = to_int64(sight.seen[k])
        length = distance_3d(corners.point, corner, x, y, z) + field[corner]
        if length < best:
            best, best_corner = length, corner
    return best, best_corner


@njit(**INNER)
def _pair(
    ground: Ground,
    corners: Corners,
    sight: Sight,
    mine: np.ndarray,
    polygon: int,
    point: np.ndarray,
    goal_polygon: int,
    goal: np.ndarray,
) -> tuple[float, int, int]:
    """Return the length of the shortest path between two points [3], its first corner and its last (-1 for none)."""
    if polygon < 0 or goal_polygon < 0 or ground.islands[polygon] != ground.islands[goal_polygon]:
        return np.inf, -1, -1
    x, y, z = np.float64(point[0]), np.float64(point[1]), np.float64(point[2])
    goal_x, goal_y, goal_z = np.float64(goal[0]), np.float64(goal[1]), np.float64(goal[2])
    if sees(ground, polygon, x, z, goal_polygon, goal_x, goal_z):
        return np.sqrt((goal_x - x) ** 2 + (goal_y - y) ** 2 + (goal_z - z) ** 2), -1, -1
    count = look_around(ground, corners, sight, polygon, x, z)
    for k in range(count):
        mine[k] = sight.seen[k]
    others = look_around(ground, corners, sight, goal_polygon, goal_x, goal_z)
    best, first, last = np.inf, -1, -1
    for k in range(others):
        b = to_int64(sight.seen[k])
        behind = distance_3d(corners.point, b, goal_x, goal_y, goal_z)
        for m in range(count):
            a = to_int64(mine[m])
            length = distance_3d(corners.point, a, x, y, z) + (behind + corners.between[a, b])
            if length < best:
                best, first, last = length, a, b
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

    Args:
        ground: The ground.
        corners: Its corners.
        polygons: [N] int32, polygons of the points, -1 for none.
        points: [N, 3] float32, metres.
        goal_polygons: [N] int32.
        goals: [N, 3] float32, metres.
        out: [N] float64, written; metres, inf if there is no path.
    """
    sight = make_sight(len(ground.num_vertices), len(corners.point))
    mine = np.empty(len(corners.point), np.int32)
    for i in range(len(points)):
        out[i] = _pair(
            ground, corners, sight, mine, to_int64(polygons[i]), points[i], to_int64(goal_polygons[i]), goals[i]
        )[0]


@njit(**ENTRY)
def corners_on_path(
    ground: Ground, corners: Corners, polygon: int, point: np.ndarray, goal_polygon: int, goal: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the length of the shortest path between two points [3] float32, and the corners [n] int32 it bends at.

    The length is inf if there is no path.
    """
    num_corners = len(corners.point)
    sight, mine = make_sight(len(ground.num_vertices), num_corners), np.empty(num_corners, np.int32)
    length, corner, last = _pair(ground, corners, sight, mine, to_int64(polygon), point, to_int64(goal_polygon), goal)
    path = np.empty(num_corners, np.int32)
    size = 0
    while corner >= 0 and size < num_corners:
        path[size] = corner
        size += 1
        best, following = np.inf, -1
        if corner != last:
            x, y, z = corners.point[corner, 0], corners.point[corner, 1], corners.point[corner, 2]
            for k in range(corners.edge_start[corner], corners.edge_start[corner + 1]):
                other = to_int64(corners.edges[k])
                rest = distance_3d(corners.point, other, x, y, z) + corners.between[other, last]
                if rest < best:
                    best, following = rest, other
        corner = following
    return length, path[:size].copy()
