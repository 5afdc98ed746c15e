"""NavMeshAgents: movement, distances and path following for thousands of agents on the navmeshes of K slots.

The kernels read one table of addresses with one row per slot, so swapping a slot writes one row and leaves the others'
data in place. Every kernel processes a block of agents; its parallel variant distributes blocks to threads. Agents do
not interact, so the results are bit-identical to those of the serial kernel.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.floor import drop_at
from gym_batchnav.navmesh.kernels.follow import Stride, follow
from gym_batchnav.navmesh.kernels.geodesic import distance_and_corner, spot_at
from gym_batchnav.navmesh.kernels.ground import to_int64
from gym_batchnav.navmesh.kernels.layout import NUM_POLYGONS, ROW_LENGTH, Point, drops_at, goals_at, ground_at
from gym_batchnav.navmesh.kernels.motion import QUEUE, has_collided, try_step
from gym_batchnav.navmesh.kernels.tables import NavigationTables
from gym_batchnav.state import Action
from gym_batchnav.system.jit import ENTRY, INNER
from gym_batchnav.system.parallel import for_each
from gym_batchnav.system.process import PARALLEL_KERNELS

STOP, FORWARD, LEFT, RIGHT = (int(action) for action in Action)  # kernels compile faster with plain ints
BLOCK = 64  # agents that a thread takes at a time
PARALLEL_FROM = 512  # agents; with fewer, starting threads costs more time than it saves


class Places(NamedTuple):
    """The positions of agents, for kernels."""

    slots: np.ndarray  # [N] int32
    polygon: np.ndarray  # [N] int32
    position: np.ndarray  # [N, 3] float32, metres


class Outcome(NamedTuple):
    """The results of a step, written by kernels."""

    moved: np.ndarray  # [N] float32, metres walked, in 3-D
    collided: np.ndarray  # [N] bool


class NavMeshAgents:
    """N agents on K slots, each with its own navmesh, goals and tables.

    Agents are rows of arrays that the caller owns: ``slots`` [N] int32, ``polygon`` [N] int32, ``position`` [N, 3]
    float32 in metres, ``heading`` [N] float32 in radians. An agent whose slot is empty or whose polygon is -1 stands
    still and is infinitely far from any goal.

    Args:
        num_slots: K.
    """

    def __init__(self, num_slots: int) -> None:
        if num_slots < 1:
            raise ValueError(f"num_slots={num_slots}: pass 1 or more")
        self._table = np.zeros((num_slots, ROW_LENGTH), np.int64)
        self._tables: list[NavigationTables | None] = [None] * num_slots  # keep alive what the addresses point to

    @property
    def num_slots(self) -> int:
        """The number of slots, K."""
        return len(self._tables)

    def set_slot(self, slot: int, tables: NavigationTables) -> None:
        """Install prepared tables in a slot; from now on its polygon and goal numbers refer to them."""
        self._table[slot] = tables.row()
        self._tables[slot] = tables

    def clear_slot(self, slot: int) -> None:
        """Empty a slot and release its tables."""
        self._table[slot] = 0
        self._tables[slot] = None

    def tables(self, slot: int) -> NavigationTables | None:
        """Return the tables of a slot, or None if it is empty."""
        return self._tables[slot]

    def step(
        self,
        actions: np.ndarray,
        slots: np.ndarray,
        polygon: np.ndarray,
        position: np.ndarray,
        heading: np.ndarray,
        *,
        forward_step: float,
        turn_angle: float,
        sliding: bool,
        active: np.ndarray,
        moved_out: np.ndarray,
        collided_out: np.ndarray,
    ) -> None:
        """Turn or move every active agent; ``polygon``, ``position`` and ``heading`` are written in place.

        Args:
            actions: [N] int, 0 stop, 1 forward, 2 left, 3 right.
            slots: [N] int32.
            polygon: [N] int32.
            position: [N, 3] float32, metres.
            heading: [N] float32, radians; kept in [-pi, pi).
            forward_step: Metres.
            turn_angle: Radians.
            sliding: Slide along walls; False stops at them.
            active: [N] bool; inactive agents keep their pose.
            moved_out: [N] float32, written: metres walked, in 3-D.
            collided_out: [N] bool, written: collisions as Habitat counts them.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        size = _check(slots, polygon, position)
        _expect("heading", heading, np.float32, (size,))
        _expect("active", active, np.bool_, (size,))
        _expect("moved_out", moved_out, np.float32, (size,))
        _expect("collided_out", collided_out, np.bool_, (size,))
        actions = np.ascontiguousarray(actions, np.int64)
        _expect("actions", actions, np.int64, (size,))
        arguments = (
            self._table,
            actions,
            Places(slots, polygon, position),
            heading,
            Stride(float(forward_step), float(turn_angle), bool(sliding)),
            active,
            Outcome(moved_out, collided_out),
        )
        if _is_parallel(size):
            with PARALLEL_KERNELS:
                _step_parallel(BLOCK, *arguments)
        else:
            _step_block(0, size, *arguments)

    def distance(
        self, slots: np.ndarray, polygon: np.ndarray, position: np.ndarray, goal_index: np.ndarray, out: np.ndarray
    ) -> None:
        """Compute the geodesic distance of every agent to the nearest goal of a set of its slot.

        Args:
            slots: [N] int32.
            polygon: [N] int32.
            position: [N, 3] float32, metres.
            goal_index: [N] int32, row of the sets of goals that the slot's tables were prepared for.
            out: [N] float32, written: metres, inf across islands.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        size = _check(slots, polygon, position)
        _expect("goal_index", goal_index, np.int32, (size,))
        _expect("out", out, np.float32, (size,))
        arguments = (self._table, Places(slots, polygon, position), goal_index, out)
        if _is_parallel(size):
            with PARALLEL_KERNELS:
                _distance_parallel(BLOCK, *arguments)
        else:
            _distance_block(0, size, *arguments)

    def visible_floor(self, slots: np.ndarray, polygon: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the points of the visible floor under all agents: [N, 3] float32, metres.

        Agents stand on the navmesh, which is up to a few voxels higher. The arguments are those of ``step``.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        _check(slots, polygon, position)
        out = position.copy()
        _lower(self._table, Places(slots, polygon, position), out)
        return out

    def next_action(
        self,
        slots: np.ndarray,
        polygon: np.ndarray,
        position: np.ndarray,
        heading: np.ndarray,
        goal_index: np.ndarray,
        *,
        forward_step: float,
        turn_angle: float,
        goal_radius: float,
        sliding: bool = True,
    ) -> np.ndarray:
        """Return the actions of the greedy shortest-path follower.

        Args:
            slots: [N] int32.
            polygon: [N] int32.
            position: [N, 3] float32, metres.
            heading: [N] float32, radians.
            goal_index: [N] int32, row of the sets of goals that the slot's tables were prepared for.
            forward_step: Metres.
            turn_angle: Radians.
            goal_radius: Metres; the action is STOP within this distance.
            sliding: Whether the agents slide along walls.

        Returns:
            [N] int64, 0 stop (also if there is no path), 1 forward, 2 left, 3 right.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        size = _check(slots, polygon, position)
        _expect("heading", heading, np.float32, (size,))
        _expect("goal_index", goal_index, np.int32, (size,))
        actions = np.empty(size, np.int64)
        arguments = (
            self._table,
            Places(slots, polygon, position),
            heading,
            goal_index,
            Stride(float(forward_step), float(turn_angle), bool(sliding)),
            float(goal_radius),
            actions,
        )
        if _is_parallel(size):
            with PARALLEL_KERNELS:
                _follow_parallel(BLOCK, *arguments)
        else:
            _follow_block(0, size, *arguments)
        return actions


def _is_parallel(size: int) -> bool:
    return size >= PARALLEL_FROM and numba.get_num_threads() > 1


def _check(slots: np.ndarray, polygon: np.ndarray, position: np.ndarray) -> int:
    """Return N; raise TypeError unless the kernels can read and write these arrays."""
    size = len(slots)
    _expect("slots", slots, np.int32, (size,))
    _expect("polygon", polygon, np.int32, (size,))
    _expect("position", position, np.float32, (size, 3))
    return size


def _expect(name: str, array: np.ndarray, dtype: type, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise TypeError(f"{name} is {array.dtype} {array.shape}: pass a contiguous {np.dtype(dtype)} array of {shape}")


@njit(**INNER)
def _is_placed(table: np.ndarray, slot: int, polygon: int) -> bool:
    """Return whether an agent stands on a polygon of a slot that is not empty."""
    return 0 <= slot < len(table) and 0 <= polygon < table[slot, NUM_POLYGONS]


@njit(**INNER)
def _wrap(angle: float) -> np.float32:
    """Return an angle in [-pi, pi), even after rounding to float32."""
    wrapped = np.float32(angle - 2.0 * np.pi * np.floor((angle + np.pi) / (2.0 * np.pi)))
    return wrapped if wrapped < np.float32(np.pi) else np.float32(-np.pi)


@njit(**ENTRY)
def _step_block(
    block: int,
    block_size: int,
    table: np.ndarray,
    actions: np.ndarray,
    places: Places,
    heading: np.ndarray,
    stride: Stride,
    active: np.ndarray,
    outcome: Outcome,
) -> None:
    """Turn or move one block of agents; shapes as in ``NavMeshAgents.step``."""
    slots, polygon, position = places
    queue = np.empty(QUEUE, np.int32)
    for i in range(block * block_size, min((block + 1) * block_size, len(slots))):
        outcome.moved[i] = 0.0
        outcome.collided[i] = False
        if not active[i] or not _is_placed(table, slots[i], polygon[i]):
            continue
        if actions[i] == LEFT:
            heading[i] = _wrap(heading[i] + stride.turn_angle)
        elif actions[i] == RIGHT:
            heading[i] = _wrap(heading[i] - stride.turn_angle)
        elif actions[i] == FORWARD:
            start = spot_at(polygon, position, i)
            # The sine of a float32 takes half the time; the position is rounded to float32 anyway.
            end_x = start.x - np.float64(np.sin(heading[i])) * stride.forward_step
            end_z = start.z - np.float64(np.cos(heading[i])) * stride.forward_step
            at = try_step(table[slots[i]], queue, start, Point(end_x, start.y, end_z), stride.sliding)
            moved2 = (at.x - start.x) ** 2 + (at.y - start.y) ** 2 + (at.z - start.z) ** 2
            polygon[i] = at.polygon
            position[i, 0] = at.x
            position[i, 1] = at.y
            position[i, 2] = at.z
            outcome.moved[i] = np.sqrt(moved2)
            outcome.collided[i] = has_collided(moved2, stride.forward_step * stride.forward_step)


@njit(**ENTRY)
def _distance_block(
    block: int, block_size: int, table: np.ndarray, places: Places, goal_index: np.ndarray, out: np.ndarray
) -> None:
    """Measure the distances of one block of agents; shapes as in ``NavMeshAgents.distance``."""
    slots, polygon, position = places
    for i in range(block * block_size, min((block + 1) * block_size, len(slots))):
        out[i] = np.inf
        if _is_placed(table, slots[i], polygon[i]):
            row = table[slots[i]]
            if 0 <= goal_index[i] < len(goals_at(row).field):
                out[i] = distance_and_corner(row, to_int64(goal_index[i]), spot_at(polygon, position, i))[0]


@njit(**ENTRY)
def _lower(table: np.ndarray, places: Places, out: np.ndarray) -> None:
    """Lower positions ``out`` [N, 3] to the visible floor; serial, since it takes about 20 ns per agent."""
    slots, polygon, position = places
    for i in range(len(out)):
        if _is_placed(table, slots[i], polygon[i]):
            row = table[slots[i]]
            x = np.float64(position[i, 0])
            z = np.float64(position[i, 2])
            out[i, 1] -= drop_at(ground_at(row), drops_at(row), to_int64(polygon[i]), x, z)


@njit(**ENTRY)
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
    """Choose the actions of one block of agents; shapes as in ``NavMeshAgents.next_action``."""
    slots, polygon, position = places
    queue = np.empty(QUEUE, np.int32)
    for i in range(block * block_size, min((block + 1) * block_size, len(slots))):
        actions[i] = STOP
        if _is_placed(table, slots[i], polygon[i]):
            row = table[slots[i]]
            if 0 <= goal_index[i] < len(goals_at(row).field):
                spot = spot_at(polygon, position, i)
                actions[i] = follow(
                    row, to_int64(goal_index[i]), queue, spot, np.float64(heading[i]), stride, goal_radius
                )


@njit(**ENTRY)
def _step_parallel(
    block_size: int,
    table: np.ndarray,
    actions: np.ndarray,
    places: Places,
    heading: np.ndarray,
    stride: Stride,
    active: np.ndarray,
    outcome: Outcome,
) -> None:
    arguments = (block_size, table, actions, places, heading, stride, active, outcome)
    for_each(_step_block, _num_blocks(places, block_size), arguments)


@njit(**ENTRY)
def _distance_parallel(
    block_size: int, table: np.ndarray, places: Places, goal_index: np.ndarray, out: np.ndarray
) -> None:
    arguments = (block_size, table, places, goal_index, out)
    for_each(_distance_block, _num_blocks(places, block_size), arguments)


@njit(**ENTRY)
def _follow_parallel(
    block_size: int,
    table: np.ndarray,
    places: Places,
    heading: np.ndarray,
    goal_index: np.ndarray,
    stride: Stride,
    goal_radius: float,
    actions: np.ndarray,
) -> None:
    arguments = (block_size, table, places, heading, goal_index, stride, goal_radius, actions)
    for_each(_follow_block, _num_blocks(places, block_size), arguments)


@njit(**INNER)
def _num_blocks(places: Places, block_size: int) -> int:
    return (len(places.slots) + block_size - 1) // block_size
