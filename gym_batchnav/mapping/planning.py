"""Kernels that plan shortest paths on maps, where what was never seen counts as free, and follow them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.mapping.drawing import BLOCKED, BUMPED, Maps, Poses, cell_of
from gym_batchnav.navmesh.kernels.heap import pop, rise
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64
from gym_batchnav.system.parallel import for_each

# Costs in tenths of a cell.
STRAIGHT = 10
DIAGONAL = 14
BESIDE_BLOCKED = 15  # more for a cell next to a blocked one
THROUGH_BLOCKED = 2000  # more for a blocked cell, which may hide a gap: with no other way, agents try it
THROUGH_BUMPED = 20000  # more for a blocked cell that has been tried
_UNREACHED = 2**30
MOST_CELLS = 1024  # along a side of a map
_CELL_BITS = (MOST_CELLS**2 - 1).bit_length()
_REST_BITS = (DIAGONAL * (MOST_CELLS - 1)).bit_length()  # of the cost between two cells of an empty map
_ESTIMATE_SHIFT = _CELL_BITS + _REST_BITS  # leaves 29 bits for estimates, which stay below 2**25
_ON_PATH = 2.0  # cells; an agent farther from its path plans another one
_PASSED_AT_ONCE = 12  # cells


class Paths(NamedTuple):
    """The paths of N agents on their maps.

    Attributes:
        cells: [N, L, 2] int16, columns and rows of the next cells of each path, not counting the agent's own.
        counts: [N] int32, the number of these cells; 0 where a path has to be planned.
        costs: [N] int32, the cost from the agent's place on the path to the goal.
        goals: [N, 2] float64, x and z of the goal for which the path was planned, metres.
        reach: Metres along the path to the farthest place to walk to straight.
    """

    cells: np.ndarray
    counts: np.ndarray
    costs: np.ndarray
    goals: np.ndarray
    reach: float


@njit(**SMALL)
def least_cost(x: int, z: int, to_x: int, to_z: int) -> Any:
    """Return the cost between two cells on an empty map."""
    across = abs(x - to_x)
    along = abs(z - to_z)
    return STRAIGHT * max(across, along) + (DIAGONAL - STRAIGHT) * min(across, along)


@njit(**SMALL)
def key_of(cost: int, least: int, cell: int) -> Any:
    """Return a cell's key in the heap.

    From the highest bits: the least cost of a path through the cell, the part of it between the cell and the agent,
    and the cell's number.
    """
    return ((cost + least) << _ESTIMATE_SHIFT) | (least << _CELL_BITS) | cell


@njit(**INNER)
def cost_of(cells: np.ndarray, x: int, z: int) -> Any:
    """Return what a step onto a cell costs beyond its length."""
    side = cells.shape[0]
    if cells[z, x] & BLOCKED:
        return THROUGH_BUMPED if cells[z, x] & BUMPED else THROUGH_BLOCKED
    for along in range(max(z - 1, 0), min(z + 2, side)):
        for across in range(max(x - 1, 0), min(x + 2, side)):
            if cells[along, across] & BLOCKED:
                return BESIDE_BLOCKED
    return 0


@njit(**INNER)
def plan(cells: np.ndarray, x: int, z: int, goal_x: int, goal_z: int, path: np.ndarray) -> Any:
    """Write the first cells of a cheapest path into ``path`` [L, 2]; return their number and the cost of all of it.

    It is A* (Hart, Nilsson and Raphael 1968), from the goal, so that the parents of cells lead forward. Among cells of
    equal estimates, of which grids have many, the one nearest to the agent comes first.
    """
    side = to_int64(cells.shape[0])
    costs = np.full(side * side, _UNREACHED, np.int32)
    parents = np.empty(side * side, np.int32)
    keys = np.empty(side * side, np.int64)
    heap = np.empty(side * side, np.int32)
    place = np.empty(side * side, np.int32)
    agent = z * side + x
    goal = goal_z * side + goal_x
    costs[goal] = 0
    heap[0] = goal
    size = to_int64(1)
    while size > 0:
        node = pop(heap, place, keys, size)
        size -= 1
        if node == agent:
            break
        node_z = node // side
        node_x = node % side
        entering = cost_of(cells, node_x, node_z)  # on the way from the agent
        for other_z in range(max(node_z - 1, 0), min(node_z + 2, side)):
            for other_x in range(max(node_x - 1, 0), min(node_x + 2, side)):
                other = other_z * side + other_x
                step = STRAIGHT if other_x == node_x or other_z == node_z else DIAGONAL
                cost = costs[node] + step + entering
                if cost < costs[other]:  # never for a cell that was taken out: least_cost is consistent
                    is_new = costs[other] == _UNREACHED
                    costs[other] = cost
                    parents[other] = node
                    keys[other] = key_of(cost, least_cost(other_x, other_z, x, z), other)
                    rise(heap, place, keys, size if is_new else to_int64(place[other]), other)
                    size += is_new
    count = 0
    node = agent
    while node != goal and count < len(path):
        node = to_int64(parents[node])
        path[count, 0] = node % side
        path[count, 1] = node // side
        count += 1
    return count, to_int64(costs[agent])


@njit(**INNER)
def is_clear(cells: np.ndarray, x: float, z: float, to_x: float, to_z: float) -> Any:
    """Return whether no cell on the line between two points, in units of cells, is blocked."""
    steps = to_int64(math.ceil(2 * math.hypot(to_x - x, to_z - z)))
    for step in range(1, steps + 1):
        across = to_int64(math.floor(x + (to_x - x) * step / steps + 0.5))
        along = to_int64(math.floor(z + (to_z - z) * step / steps + 0.5))
        if cells[along, across] & BLOCKED:
            return False
    return True


@njit(**INNER)
def pass_cells(cells: np.ndarray, paths: Paths, row: int, x: float, z: float, ends_at: int) -> Any:
    """Drop the cells of a path that the agent has passed; return whether the rest can still be followed.

    Args:
        cells: [S, S], the agent's map.
        paths: The paths.
        row: The agent.
        x: Column of the agent's place, in cells.
        z: Row of it.
        ends_at: The goal's cell, row * S + column.
    """
    path = paths.cells[row]
    count = to_int64(paths.counts[row])
    passed = -1
    nearest = _ON_PATH
    for index in range(min(count, _PASSED_AT_ONCE)):
        distance = math.hypot(path[index, 0] - x, path[index, 1] - z)
        if distance <= nearest:
            nearest = distance
            passed = index
    if passed < 0:
        return False
    for index in range(passed):
        step = to_int64(abs(path[index, 0] - path[index + 1, 0]) + abs(path[index, 1] - path[index + 1, 1]))
        paths.costs[row] -= STRAIGHT if step == 1 else DIAGONAL
        paths.costs[row] -= cost_of(cells, to_int64(path[index + 1, 0]), to_int64(path[index + 1, 1]))
    for index in range(passed, count):
        if cells[path[index, 1], path[index, 0]] & BLOCKED:
            return False
        path[index - passed, 0] = path[index, 0]
        path[index - passed, 1] = path[index, 1]
    count -= passed
    paths.counts[row] = count
    last = path[count - 1, 1] * to_int64(cells.shape[0]) + path[count - 1, 0]
    return last == ends_at or count > len(path) // 2


@njit(**INNER)
def follow_one(
    item: int,
    maps: Maps,
    paths: Paths,
    rows: np.ndarray,
    poses: Poses,
    goal: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the way of an agent along its path; see ``follow_all``."""
    row = to_int64(rows[item])
    cells = maps.cells[row]
    path = paths.cells[row]
    size = maps.cell_size
    side = to_int64(cells.shape[0])
    place = maps.places[row]
    position = poses.position
    heading = poses.heading[item]
    x = (position[item, 0] - place[0]) / size + side // 2
    z = (position[item, 2] - place[1]) / size + side // 2
    own_x = cell_of(position[item, 0], place[0], size, side)
    own_z = cell_of(position[item, 2], place[1], size, side)
    # A goal outside the map is looked for at its border.
    goal_x = min(max(cell_of(goal[item, 0], place[0], size, side), 0), side - 1)
    goal_z = min(max(cell_of(goal[item, 2], place[1], size, side), 0), side - 1)
    is_same = paths.goals[row, 0] == goal[item, 0] and paths.goals[row, 1] == goal[item, 2]
    if not is_same or paths.counts[row] == 0 or not pass_cells(cells, paths, row, x, z, goal_z * side + goal_x):
        paths.counts[row], paths.costs[row] = plan(cells, own_x, own_z, goal_x, goal_z, path)
        paths.goals[row, 0] = goal[item, 0]
        paths.goals[row, 1] = goal[item, 2]
    count = to_int64(paths.counts[row])
    to_x = (goal[item, 0] - place[0]) / size + side // 2
    to_z = (goal[item, 2] - place[1]) / size + side // 2
    if count > 0:
        index = min(count - 1, max(to_int64(paths.reach / size) - 1, 0))
        while index > 0 and not is_clear(cells, x, z, float(path[index, 0]), float(path[index, 1])):
            index -= 1
        if path[index, 0] != goal_x or path[index, 1] != goal_z:
            to_x = float(path[index, 0])
            to_z = float(path[index, 1])
    across = (to_x - x) * math.cos(heading) - (to_z - z) * math.sin(heading)
    ahead = -(to_x - x) * math.sin(heading) - (to_z - z) * math.cos(heading)
    distance = math.hypot(across, ahead)
    out[row, 0] = max(to_int64(paths.costs[row]), 0) * size / STRAIGHT
    out[row, 1] = distance * size
    out[row, 2] = ahead / distance if distance > 0 else 1.0
    out[row, 3] = -across / distance if distance > 0 else 0.0


@njit(**ENTRY)
def follow_all(
    maps: Maps,
    paths: Paths,
    rows: np.ndarray,
    poses: Poses,
    goal: np.ndarray,
    out: np.ndarray,
) -> None:
    """Plan the paths of M agents where the old ones are blocked or lost, and write the way along them.

    Args:
        maps: The maps.
        paths: The paths, written.
        rows: [M] int64, the agents.
        poses: The agents' poses, inside the maps.
        goal: [M, 3] float64, metres.
        out: [N, 4] float32, the rows of these agents are written: cost to the goal in metres; metres to the farthest
            place on the path that can be walked to straight; cosine and sine of its direction, left positive.
    """
    for_each(follow_one, len(rows), (maps, paths, rows, poses, goal, out))
