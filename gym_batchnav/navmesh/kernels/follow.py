"""The greedy shortest-path followers: the action, or the straight walk, that brings an agent nearer to its goal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.geodesic import distance_3d, distance_and_corner, point_at
from gym_batchnav.navmesh.kernels.layout import Point, Spot, corners_at, goals_at, ground_at
from gym_batchnav.navmesh.kernels.motion import try_step, walk_straight
from gym_batchnav.system.jit import INNER, SMALL, to_int64

AT_CORNER = 0.1  # metres: an agent this close to a corner heads for the next one
MIN_MOVE = 0.1  # fraction of a step's length; an agent that moves less counts as standing
TURN_COST = 1e-4  # metres per turn; breaks ties
SHORT_WALK = 0.1  # metres: the walk of an agent that finds its way blocked
CLEARANCE = 0.02  # metres from a corner to the point next to it
NUM_DIRECTIONS = 36  # that an agent tries if its way is blocked
MIN_PROGRESS = 0.2  # fraction of a step's length; if a step gains less, every heading is tried


class Stride(NamedTuple):
    """The motion of an agent's actions."""

    forward_step: float  # metres
    turn_angle: float  # radians
    sliding: bool


@njit(**SMALL)
def _next_corner(row: np.ndarray, goal_set: int, corner: int, goal: int, spot: Spot) -> tuple[int, int]:
    """Return what to head for: the path's first corner, or the one behind it if the agent stands at the first.

    Returns:
        The corner, -1 if the path leads straight to a goal; and that goal.
    """
    corners = corners_at(row)
    goals = goals_at(row)
    if corner >= 0 and distance_3d(corners.point, corner, spot) < AT_CORNER:
        field = goals.field[goal_set]
        points = corners.point
        best = np.inf
        behind = -1
        for k in range(corners.edge_start[corner], corners.edge_start[corner + 1]):
            other = corners.edges[k]
            length = field[other] + distance_3d(points, other, point_at(points, corner))
            if length < best:
                best = length
                behind = to_int64(other)
        if best > field[corner] + 1e-3:  # a goal is seen from the corner
            return -1, _goal_from_corner(row, goal_set, corner)
        return behind, goal
    return corner, goal


@njit(**SMALL)
def _goal_from_corner(row: np.ndarray, goal_set: int, corner: int) -> int:
    """Return the goal of a set whose straight distance from a corner is that of the shortest path."""
    goals = goals_at(row)
    corners = corners_at(row)
    nearest = to_int64(goals.first[goal_set])
    least = np.inf
    for goal in range(goals.first[goal_set], goals.first[goal_set + 1]):
        length = distance_3d(goals.point, goal, point_at(corners.point, corner))
        deviation = abs(length - goals.field[goal_set, corner])
        if deviation < least:
            least = deviation
            nearest = to_int64(goal)
    return nearest


@njit(**INNER)
def _best_turn(
    row: np.ndarray, goal_set: int, queue: np.ndarray, spot: Spot, heading: float, stride: Stride
) -> tuple[float, float, int]:
    """Try a step along the three headings nearest to the path's next corner.

    Returns:
        The distance to the goal now, the distance after the best of these steps (inf if all are blocked), and the
        number of turns to the left before that step.
    """
    distance, corner, goal = distance_and_corner(row, goal_set, spot)
    if distance == np.inf:
        return distance, np.inf, 0
    following, last = _next_corner(row, goal_set, corner, goal, spot)
    to_x, to_z = _beside(row, following, last, 0.0)
    off = np.arctan2(spot.x - to_x, spot.z - to_z) - heading
    off -= 2.0 * np.pi * np.floor((off + np.pi) / (2.0 * np.pi))
    nearest = int(np.round(off / stride.turn_angle))
    best = np.inf
    best_turns = nearest
    for turns in (nearest, nearest + 1, nearest - 1):
        ahead = _stride_along(row, queue, spot, heading + turns * stride.turn_angle, stride)
        if ahead.polygon >= 0:
            after = distance_and_corner(row, goal_set, ahead)[0]
            after += TURN_COST * abs(turns)
            if after < best:
                best = after
                best_turns = turns
    return distance, best, best_turns


@njit(**SMALL)
def _stride_along(row: np.ndarray, queue: np.ndarray, spot: Spot, heading: float, stride: Stride) -> Spot:
    """Return the spot that a step along a heading leads to; its polygon is -1 if the agent would hardly move."""
    length = stride.forward_step
    end = Point(spot.x - np.sin(heading) * length, spot.y, spot.z - np.cos(heading) * length)
    ahead = try_step(row, queue, spot, end, stride.sliding)
    # Steps that hardly move are rejected, or an agent wedged at a corner would choose one forever.
    if (ahead.x - spot.x) ** 2 + (ahead.z - spot.z) ** 2 < (MIN_MOVE * length) ** 2:
        return Spot(to_int64(-1), ahead.x, ahead.y, ahead.z)
    return ahead


@njit(**SMALL)
def follow(
    row: np.ndarray, goal_set: int, queue: np.ndarray, spot: Spot, heading: float, stride: Stride, goal_radius: float
) -> int:
    """Return the greedy action of one agent: 0 stop, 1 forward, 2 left, 3 right.

    The reachable headings are a whole number of turns away. The agent tries a step along the three of them nearest to
    the path's next corner and turns towards the best. If no step brings it nearer to the goal, it tries every heading
    and compares them by the best second step. The result depends on the agent's position and on the set of headings,
    not on the present one, so the agent cannot oscillate between left and right.

    The agent heads for the nearest goal of the set and stops within ``goal_radius`` metres. ``queue`` [QUEUE] int32 is
    scratch.
    """
    distance, after, turns_needed = _best_turn(row, goal_set, queue, spot, heading, stride)
    if not goal_radius < distance < np.inf:
        return 0
    if after > distance - MIN_PROGRESS * stride.forward_step:
        best = np.inf
        most = int(np.ceil(np.pi / stride.turn_angle))
        for turns in range(1 - most, most + 1):
            ahead = _stride_along(row, queue, spot, heading + turns * stride.turn_angle, stride)
            if ahead.polygon >= 0:
                now, later, _ = _best_turn(row, goal_set, queue, ahead, heading, stride)
                later = (now if now <= goal_radius else later) + TURN_COST * abs(turns)
                if later < best:
                    best = later
                    turns_needed = turns
    if turns_needed == 0:
        return 1
    return 2 if turns_needed > 0 else 3


@njit(**INNER)
def _beside(row: np.ndarray, corner: int, goal: int, clearance: float) -> tuple[float, float]:
    """Return the x and z of a point ``clearance`` from a corner, on the side away from its walls; for -1 the goal's."""
    if corner < 0:
        goals = goals_at(row)
        return np.float64(goals.point[goal, 0]), np.float64(goals.point[goal, 2])
    corners = corners_at(row)
    along_x = corners.walls[corner, 0, 0] + corners.walls[corner, 1, 0]
    along_z = corners.walls[corner, 0, 1] + corners.walls[corner, 1, 1]
    scale = clearance / max(np.sqrt(along_x * along_x + along_z * along_z), 1e-6)
    return corners.point[corner, 0] - scale * along_x, corners.point[corner, 2] - scale * along_z


@njit(**SMALL)
def _walk_to(row: np.ndarray, spot: Spot, x: float, z: float) -> tuple[float, float, bool]:
    """Return the direction and the length of a straight walk, and whether it is free."""
    length = np.sqrt((x - spot.x) ** 2 + (z - spot.z) ** 2)
    free = walk_straight(ground_at(row), spot.polygon, spot.x, spot.z, x, z, to_int64(-1))[0]
    return np.arctan2(spot.x - x, spot.z - z), length, free >= 1.0


@njit(**INNER)
def walk_to_follow(
    row: np.ndarray, goal_set: int, queue: np.ndarray, spot: Spot, longest: float, sliding: bool
) -> tuple[float, float, float]:
    """Return the distance to the nearest goal, and the direction and length of the next straight walk to it.

    The walk leads to a point next to the path's next corner, because an agent that touches walls is easily stopped by
    them. If an obstacle is in the way, it leads to a point near the corner at which the agent stands, or else it is a
    short walk in the best of ``NUM_DIRECTIONS`` directions.

    The walk has at most ``longest`` metres. ``queue`` [QUEUE] int32 is scratch.

    Returns:
        Metres, inf if there is no path; radians as for headings; metres.
    """
    distance, corner, goal = distance_and_corner(row, goal_set, spot)
    if distance == np.inf:
        return distance, 0.0, 0.0
    following, last = _next_corner(row, goal_set, corner, goal, spot)
    to_x, to_z = _beside(row, following, last, CLEARANCE)
    direction, length, is_free = _walk_to(row, spot, to_x, to_z)
    if not is_free and following != corner:
        to_x, to_z = _beside(row, corner, goal, CLEARANCE)
        direction, length, is_free = _walk_to(row, spot, to_x, to_z)
        is_free = is_free and length > 0.5 * CLEARANCE
    if is_free:
        return distance, direction, min(length, longest)
    short = min(SHORT_WALK, longest)
    stride = Stride(short, 0.0, sliding)
    best = np.inf
    for k in range(NUM_DIRECTIONS):
        tried = 2.0 * np.pi * k / NUM_DIRECTIONS
        ahead = _stride_along(row, queue, spot, tried, stride)
        if ahead.polygon >= 0:
            after = distance_and_corner(row, goal_set, ahead)[0]
            if after < best:
                best = after
                direction = tried
    return distance, direction, short
