"""Kernels over blocks of agents: moves, distances and the shortest-path follower.

Blocks are distributed to threads; a single block of all agents runs on the calling thread. Agents do not interact, so
the results are bit-identical.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.detour_path import detour_to_nearest, make_search
from gym_batchnav.navmesh.kernels.floor import drop_at
from gym_batchnav.navmesh.kernels.follow import Stride, follow, walk_to_follow
from gym_batchnav.navmesh.kernels.geodesic import distance_and_corner, spot_at
from gym_batchnav.navmesh.kernels.layout import NUM_POLYGONS, drops_at, goals_at, ground_at
from gym_batchnav.navmesh.kernels.motion import QUEUE, arc_walk, straight_walk, walk_along, wrap_angle
from gym_batchnav.state import StepOutcome
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64
from gym_batchnav.system.parallel import for_each


class Places(NamedTuple):
    """The positions of agents, for kernels."""

    slots: np.ndarray  # [N] int32
    polygon: np.ndarray  # [N] int32
    position: np.ndarray  # [N, 3] float32, metres


class Walks(NamedTuple):
    """The next straight walks on shortest paths, written by kernels."""

    distance: np.ndarray  # [N] float64, metres to the goal, inf if there is no path
    direction: np.ndarray  # [N] float64, radians, as headings
    length: np.ndarray  # [N] float64, metres


class Moves(NamedTuple):
    """The fields of ``Commands`` that move agents, for kernels."""

    turn: np.ndarray  # [N] float64, radians, left positive
    forward: np.ndarray  # [N] float64, metres
    side: np.ndarray  # [N] float64, metres to the right
    is_arc: bool
    longest_part: float  # metres


@njit(**SMALL)
def _is_placed(table: np.ndarray, slot: int, polygon: int) -> bool:
    """Return whether an agent stands on a polygon of a slot that is not empty."""
    return 0 <= slot < len(table) and 0 <= polygon < table[slot, NUM_POLYGONS]


@njit(**INNER)
def _step_block(
    block: int,
    block_size: int,
    table: np.ndarray,
    moves: Moves,
    places: Places,
    heading: np.ndarray,
    sliding: bool,
    active: np.ndarray,
    outcome: StepOutcome,
) -> None:
    """Turn or move one block of agents."""
    slots, polygon, position = places
    queue = np.empty(QUEUE, np.int32)
    for i in range(block * block_size, min((block + 1) * block_size, len(slots))):
        outcome.moved[i] = 0.0
        outcome.collided[i] = False
        if not active[i] or not _is_placed(table, slots[i], polygon[i]):
            continue
        turn = moves.turn[i]
        forward = moves.forward[i]
        side = moves.side[i]
        if turn != 0.0 and (not moves.is_arc or (forward == 0.0 and side == 0.0)):
            heading[i] = wrap_angle(heading[i] + turn)
            turn = 0.0
        if forward == 0.0 and side == 0.0:
            continue
        if turn == 0.0:
            walk = straight_walk(forward, side, moves.longest_part)
        else:
            walk = arc_walk(turn, forward, side, moves.longest_part)
        start = spot_at(polygon, position, i)
        at, heading[i], moved, collided = walk_along(table[slots[i]], queue, start, heading[i], walk, sliding)
        polygon[i] = at.polygon
        position[i, 0] = at.x
        position[i, 1] = at.y
        position[i, 2] = at.z
        outcome.moved[i] = moved
        outcome.collided[i] = collided


@njit(**INNER)
def _distance_block(
    block: int, block_size: int, table: np.ndarray, places: Places, goal_index: np.ndarray, out: np.ndarray
) -> None:
    """Measure the distances of one block of agents."""
    slots, polygon, position = places
    for i in range(block * block_size, min((block + 1) * block_size, len(slots))):
        out[i] = np.inf
        if _is_placed(table, slots[i], polygon[i]):
            row = table[slots[i]]
            if 0 <= goal_index[i] < len(goals_at(row).field):
                out[i] = distance_and_corner(row, to_int64(goal_index[i]), spot_at(polygon, position, i))[0]


@njit(**INNER)
def _detour_block(
    block: int, block_size: int, table: np.ndarray, places: Places, goal_index: np.ndarray, out: np.ndarray
) -> None:
    """Measure the distances of one block of agents as Detour does."""
    slots, polygon, position = places
    most = to_int64(0)
    for slot in range(len(table)):
        most = max(most, table[slot, NUM_POLYGONS])
    search = make_search(most)
    for i in range(block * block_size, min((block + 1) * block_size, len(slots))):
        out[i] = np.inf
        if _is_placed(table, slots[i], polygon[i]):
            row = table[slots[i]]
            if 0 <= goal_index[i] < len(goals_at(row).field):
                out[i] = detour_to_nearest(row, search, to_int64(goal_index[i]), spot_at(polygon, position, i))


@njit(**ENTRY)
def lower(table: np.ndarray, places: Places, out: np.ndarray) -> None:
    """Lower positions ``out`` [N, 3] to the visible floor; serial, since it takes about 20 ns per agent."""
    slots, polygon, position = places
    for i in range(len(out)):
        if _is_placed(table, slots[i], polygon[i]):
            row = table[slots[i]]
            x = np.float64(position[i, 0])
            z = np.float64(position[i, 2])
            out[i, 1] -= drop_at(ground_at(row), drops_at(row), to_int64(polygon[i]), x, z)


@njit(**INNER)
def _follow_block(
    block: int,
    block_size: int,
    table: np.ndarray,
    places: Places,
    heading: np.ndarray,
    goal_index: np.ndarray,
    stride: Stride,
    goal_radius: float,
    actions: np.ndarray,
) -> None:
    """Choose the actions of one block of agents."""
    slots, polygon, position = places
    queue = np.empty(QUEUE, np.int32)
    for i in range(block * block_size, min((block + 1) * block_size, len(slots))):
        actions[i] = 0
        if _is_placed(table, slots[i], polygon[i]):
            row = table[slots[i]]
            if 0 <= goal_index[i] < len(goals_at(row).field):
                spot = spot_at(polygon, position, i)
                actions[i] = follow(
                    row, to_int64(goal_index[i]), queue, spot, np.float64(heading[i]), stride, goal_radius
                )


@njit(**INNER)
def _walk_block(
    block: int,
    block_size: int,
    table: np.ndarray,
    places: Places,
    goal_index: np.ndarray,
    longest: float,
    sliding: bool,
    walks: Walks,
) -> None:
    """Find the next straight walks of one block of agents."""
    slots, polygon, position = places
    queue = np.empty(QUEUE, np.int32)
    for i in range(block * block_size, min((block + 1) * block_size, len(slots))):
        walks.distance[i] = np.inf
        walks.direction[i] = 0.0
        walks.length[i] = 0.0
        if _is_placed(table, slots[i], polygon[i]):
            row = table[slots[i]]
            if 0 <= goal_index[i] < len(goals_at(row).field):
                found = walk_to_follow(
                    row, to_int64(goal_index[i]), queue, spot_at(polygon, position, i), longest, sliding
                )
                walks.distance[i], walks.direction[i], walks.length[i] = found


# The kernels that Python calls take the size of a block, the number of agents, and the further arguments of the kernel
# of one block.


@njit(**ENTRY)
def step_blocks(block_size: int, size: int, arguments: tuple) -> None:
    """Turn or move all agents, in blocks; shapes as in ``NavMeshAgents.step``."""
    for_each(_step_block, (size + block_size - 1) // block_size, (block_size, *arguments))


@njit(**ENTRY)
def distance_blocks(block_size: int, size: int, arguments: tuple) -> None:
    """Measure the distances of all agents, in blocks; shapes as in ``NavMeshAgents.distance``."""
    for_each(_distance_block, (size + block_size - 1) // block_size, (block_size, *arguments))


@njit(**ENTRY)
def detour_blocks(block_size: int, size: int, arguments: tuple) -> None:
    """Measure the distances of all agents as Detour does, in blocks; shapes as in ``NavMeshAgents.distance``."""
    for_each(_detour_block, (size + block_size - 1) // block_size, (block_size, *arguments))


@njit(**ENTRY)
def follow_blocks(block_size: int, size: int, arguments: tuple) -> None:
    """Choose the actions of all agents, in blocks; shapes as in ``NavMeshAgents.next_action``."""
    for_each(_follow_block, (size + block_size - 1) // block_size, (block_size, *arguments))


@njit(**ENTRY)
def walk_blocks(block_size: int, size: int, arguments: tuple) -> None:
    """Find the next straight walks of all agents, in blocks; shapes as in ``NavMeshAgents.next_walk``."""
    for_each(_walk_block, (size + block_size - 1) // block_size, (block_size, *arguments))
