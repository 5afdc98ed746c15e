"""The greedy shortest-path follower: which action brings an agent nearer to its goal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.geodesic import distance_3d, distance_and_corner
from gym_batchnav.navmesh.kernels.layout import corners_at, goals_at
from gym_batchnav.navmesh.kernels.motion import try_step

AT_CORNER = 0.1  # metres: so near to a corner the one behind it is headed for
LEAST_MOVE = 0.1  # of a step's length; less counts as standing
TURN_COST = 1e-4  # metres a turn; decides between equals
LEAST_PROGRESS = 0.2  # of a step's length; with less, every heading is tried


class Stride(NamedTuple):
    """How the agents move."""

    forward_step: float  # metres
    turn_angle: float  # radians
    sliding: bool


@njit(cache=True, nogil=True)
def _waypoint(row: np.ndarray, goal: int, corner: int, x: float, y: float, z: float) -> tuple[float, float]:
    """Where to head for (x, z): the first corner of the path or, standing at it, what comes after it."""
    corners, goals = corners_at(row), goals_at(row)
    if corner >= 0 and distance_3d(corners.point, corner, x, y, z) < AT_CORNER:
        field, points = goals.field[goal], corners.point
        best, behind = np.inf, -1
        for k in range(corners.edge_start[corner], corners.edge_start[corner + 1]):
            other = corners.edges[k]
            length = field[other] + distance_3d(points, other, points[corner, 0], points[corner, 1], points[corner, 2])
            if length < best:
                best, behind = length, other
        corner = behind if best <= field[corner] + 1e-3 else -1  # else the goal is seen from the corner
    if corner < 0:
        return np.float64(goals.point[goal, 0]), np.float64(goals.point[goal, 2])
    return corners.point[corner, 0], corners.point[corner, 2]


@njit(cache=True, nogil=True)
def _best_turn(
    row: np.ndarray,
    goal: int,
    queue: np.ndarray,
    polygon: int,
    x: float,
    y: float,
    z: float,
    heading: float,
    stride: Stride,
) -> tuple[float, float, int]:
    """Try a step along the three headings nearest to the path's next corner.

    Returns:
        Distance to the goal now and after the best of these steps (inf if all are blocked), and how many turns to
        the left that step needs.
    """
    distance, best, best_turns, nearest = np.inf, np.inf, 0, 0
    for trial in range(4):
        turns = nearest + trial // 2 * (1 - 2 * (trial % 2))  # stay; then nearest, one more, one less
        p, px, py, pz = polygon, x, y, z
        if trial > 0:
            angle = heading + turns * stride.turn_angle
            p, px, py, pz = _stride_along(row, queue, polygon, x, y, z, angle, stride)
            if p < 0:
                continue
        after, corner = distance_and_corner(row, goal, p, px, py, pz)
        if trial == 0:
            if after == np.inf:
                break
            distance = after
            to_x, to_z = _waypoint(row, goal, corner, x, y, z)
            off = np.arctan2(x - to_x, z - to_z) - heading
            off -= 2.0 * np.pi * np.floor((off + np.pi) / (2.0 * np.pi))
            nearest = best_turns = int(np.round(off / stride.turn_angle))
        elif after + TURN_COST * abs(turns) < best:
            best, best_turns = after + TURN_COST * abs(turns), turns
    return distance, best, best_turns


@njit(cache=True, nogil=True)
def _stride_along(
    row: np.ndarray,
    queue: np.ndarray,
    polygon: int,
    x: float,
    y: float,
    z: float,
    heading: float,
    stride: Stride,
) -> tuple[int, float, float, float]:
    """Polygon and point that a step along a heading leads to; polygon -1 if the agent would hardly move."""
    length = stride.forward_step
    end_x, end_z = x - np.sin(heading) * length, z - np.cos(heading) * length
    p, px, py, pz = try_step(row, queue, polygon, x, y, z, end_x, y, end_z, stride.sliding)
    # Standing must not count: at a corner that every step passes by, it would seem best for ever.
    if (px - x) ** 2 + (pz - z) ** 2 < (LEAST_MOVE * length) ** 2:
        return -1, x, y, z
    return p, px, py, pz


@njit(cache=True, nogil=True)
def follow(
    row: np.ndarray,
    goal: int,
    queue: np.ndarray,
    polygon: int,
    x: float,
    y: float,
    z: float,
    heading: float,
    stride: Stride,
    goal_radius: float,
) -> int:
    """The greedy action of one agent: 0 stop, 1 forward, 2 left, 3 right.

    The agent can reach headings a whole number of turns away. It tries a step along the three that are nearest to the
    path's next corner and turns to the best. If none brings it nearer to the goal it tries every heading, and judges
    each by the best second step. The choice depends on where the agent stands, not on where it looks: it cannot
    dither between left and right.
    """
    distance, best, best_turns = np.inf, np.inf, 0
    most = int(np.ceil(np.pi / stride.turn_angle))
    for turns in range(-most, most + 1):
        angle = heading + turns * stride.turn_angle
        p, px, py, pz = polygon, x, y, z
        if turns > -most:
            p, px, py, pz = _stride_along(row, queue, polygon, x, y, z, angle, stride)
            if p < 0:
                continue
        now, after, after_turns = _best_turn(row, goal, queue, p, px, py, pz, heading, stride)
        if turns == -most:  # where the agent stands
            distance, best_turns = now, after_turns
            if not goal_radius < distance < np.inf:
                return 0
            if after <= distance - LEAST_PROGRESS * stride.forward_step:
                break
        else:
            after = (now if now <= goal_radius else after) + TURN_COST * abs(turns)
            if after < best:
                best, best_turns = after, turns
    if best_turns == 0:
        return 1
    return 2 if best_turns > 0 else 3
