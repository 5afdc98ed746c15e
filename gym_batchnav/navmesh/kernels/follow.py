"""The greedy shortest-path follower: chooses the action that brings an agent nearer to its goal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.geodesic import distance_3d, distance_and_corner, point_at
from gym_batchnav.navmesh.kernels.ground import to_int64
from gym_batchnav.navmesh.kernels.layout import Point, Spot, corners_at, goals_at
from gym_batchnav.navmesh.kernels.motion import try_step
from gym_batchnav.system.jit import INNER

AT_CORNER = 0.1  # metres: an agent this close to a corner heads for the next one
MIN_MOVE = 0.1  # fraction of a step's length; an agent that moves less counts as standing
TURN_COST = 1e-4  # metres per turn; breaks ties
MIN_PROGRESS = 0.2  # fraction of a step's length; if a step gains less, every heading is tried


class Stride(NamedTuple):
    """The motion of an agent's actions."""

    forward_step: float  # metres
    turn_angle: float  # radians
    sliding: bool


@njit(**INNER)
def _waypoint(row: np.ndarray, goal_set: int, corner: int, goal: int, spot: Spot) -> tuple[float, float]:
    """Return the x and z to head for: the path's first corner, or the next one if the agent stands at the first."""
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
                behind = other
        if best > field[corner] + 1e-3:  # a goal is seen from the corner
            goal = _goal_from_corner(row, goal_set, corner)
            behind = -1
        corner = behind
    if corner < 0:
        return np.float64(goals.point[goal, 0]), np.float64(goals.point[goal, 2])
    return corners.point[corner, 0], corners.point[corner, 2]


@njit(**INNER)
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
    to_x, to_z = _waypoint(row, goal_set, corner, goal, spot)
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


@njit(**INNER)
def _stride_along(row: np.ndarray, queue: np.ndarray, spot: Spot, heading: float, stride: Stride) -> Spot:
    """Return the spot that a step along a heading leads to; its polygon is -1 if the agent would hardly move."""
    length = stride.forward_step
    end = Point(spot.x - np.sin(heading) * length, spot.y, spot.z - np.cos(heading) * length)
    ahead = try_step(row, queue, spot, end, stride.sliding)
    # A blocked step must not win, or an agent at a corner that every step passes would stand still forever.
    if (ahead.x - spot.x) ** 2 + (ahead.z - spot.z) ** 2 < (MIN_MOVE * length) ** 2:
        return Spot(to_int64(-1), ahead.x, ahead.y, ahead.z)
    return ahead


@njit(**INNER)
def follow(
    row: np.ndarray, goal_set: int, queue: np.ndarray, spot: Spot, heading: float, stride: Stride, goal_radius: float
) -> int:
    """Return the greedy action of one agent: 0 stop, 1 forward, 2 left, 3 right.

    The reachable headings are a whole number of turns away. The agent tries a step along the three of them nearest to
    the path's next corner and turns towards the best. If no step brings it nearer to the goal, it tries every heading
    and compares them by the best second step. The result depends on the agent's position and on the set of headings,
    not on the present one, so the agent cannot oscillate between left and right.

    Args:
        row: The slot's arrays, see ``layout``.
        goal_set: Row of the slot's sets of goals; the agent heads for the nearest goal of the set.
        queue: [QUEUE] int32, scratch.
        spot: Position of the agent.
        heading: Radians.
        stride: The motion of the agent.
        goal_radius: Metres; the action is STOP within this distance.
    """
    distance, after, turns_needed = _best_turn(row, goal_set, queue, spot, heading, stride)
    if not goal_radius < distance < np.inf:
        return 0
    if after > distance - MIN_PROGRESS * stride.forward_step:
        turns_needed = _best_of_all_turns(row, goal_set, queue, spot, heading, stride, goal_radius, turns_needed)
    if turns_needed == 0:
        return 1
    return 2 if turns_needed > 0 else 3


@njit(**INNER)
def _best_of_all_turns(
    row: np.ndarray,
    goal_set: int,
    queue: np.ndarray,
    spot: Spot,
    heading: float,
    stride: Stride,
    goal_radius: float,
    otherwise: int,
) -> int:
    """Return the turns to the left before the best first of two steps; ``otherwise`` if all headings are blocked."""
    best = np.inf
    best_turns = otherwise
    most = int(np.ceil(np.pi / stride.turn_angle))
    for turns in range(1 - most, most + 1):
        ahead = _stride_along(row, queue, spot, heading + turns * stride.turn_angle, stride)
        if ahead.polygon >= 0:
            now, after, _ = _best_turn(row, goal_set, queue, ahead, heading, stride)
            after = (now if now <= goal_radius else after) + TURN_COST * abs(turns)
            if after < best:
                best = after
                best_turns = turns
    return best_turns
