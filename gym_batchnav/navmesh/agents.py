"""NavMeshAgents: movement, distances and path following for thousands of agents on the navmeshes of K slots.

The kernels read one table of addresses with one row per slot, so swapping a slot writes one row and leaves the others'
data in place. Blocks of many agents are distributed to threads, which does not affect the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from gym_batchnav.navmesh.kernels import blocks
from gym_batchnav.navmesh.kernels.blocks import Moves, Places, Walks
from gym_batchnav.navmesh.kernels.follow import Stride
from gym_batchnav.navmesh.kernels.layout import ROW_LENGTH
from gym_batchnav.navmesh.kernels.tables import NavigationTables
from gym_batchnav.navmesh.record import is_detour
from gym_batchnav.state import AgentState, Commands, StepOutcome
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.system.process import PARALLEL_KERNELS

BLOCK = 64  # agents that a thread takes at a time
PARALLEL_FROM = 512  # agents; with fewer, starting threads costs more time than it saves
DETOUR_PARALLEL_FROM = 16  # agents, for Detour's distances, which take about 20 us each
DETOUR_TURNS = 4  # blocks of agents that a thread takes; each allocates the memory of a search


class NavMeshAgents:
    """N agents on K slots, each with its own navmesh, goals and tables.

    Agents are rows of arrays that the caller owns: ``slots`` [N] int32, ``polygon`` [N] int32, ``position`` [N, 3]
    float32 in metres, ``heading`` [N] float32 in radians. An agent whose slot is empty or whose polygon is -1 stands
    still and is infinitely far from any goal.

    Args:
        num_slots: K.

    Attributes:
        table: [K, ROW_LENGTH] int64, the addresses of every slot's arrays, for kernels.
    """

    def __init__(self, num_slots: int) -> None:
        check_counts(num_slots=num_slots)
        self.table = np.zeros((num_slots, ROW_LENGTH), np.int64)
        self._tables: list[NavigationTables | None] = [None] * num_slots  # keep alive what the addresses point to

    def set_slot(self, slot: int, tables: NavigationTables) -> None:
        """Install prepared tables in a slot; from now on its polygon and goal numbers refer to them."""
        self.table[slot] = tables.row()
        self._tables[slot] = tables

    def clear_slot(self, slot: int) -> None:
        """Empty a slot and release its tables."""
        self.table[slot] = 0
        self._tables[slot] = None

    def step(
        self, commands: Commands, agents: AgentState, active: np.ndarray, outcome: StepOutcome, *, sliding: bool
    ) -> None:
        """Turn and move every active agent.

        Args:
            commands: The motion of every agent; ``stop`` and ``look`` have no effect here.
            agents: All agents; ``polygon``, ``position`` and ``heading`` are written in place, headings in [-pi, pi).
            active: [N] bool; inactive agents keep their pose.
            outcome: Written; collisions are counted as Habitat does, in any part of a walk.
            sliding: Slide along walls; False stops at them.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
            ValueError: If ``longest_part`` of the commands is not positive.
        """
        size = _check(agents.slot, agents.polygon, agents.position)
        expect_array("heading", agents.heading, np.float32, (size,))
        expect_array("active", active, np.bool_, (size,))
        expect_array("moved", outcome.moved, np.float32, (size,))
        expect_array("collided", outcome.collided, np.bool_, (size,))
        expect_array("turn", commands.turn, np.float64, (size,))
        expect_array("forward", commands.forward, np.float64, (size,))
        expect_array("side", commands.side, np.float64, (size,))
        longest_part = float(commands.longest_part)
        if not longest_part > 0:
            raise ValueError(f"longest_part={longest_part}: pass a positive number of metres")
        moves = Moves(commands.turn, commands.forward, commands.side, bool(commands.is_arc), longest_part)
        places = Places(agents.slot, agents.polygon, agents.position)
        arguments = (self.table, moves, places, agents.heading, bool(sliding), active, outcome)
        run_blocks(blocks.step_blocks, BLOCK, size, size >= PARALLEL_FROM, size, arguments)

    def distance(
        self,
        slots: np.ndarray,
        polygon: np.ndarray,
        position: np.ndarray,
        goal_index: np.ndarray,
        out: np.ndarray,
        method: str = "exact",
    ) -> None:
        """Compute the geodesic distance of every agent to the nearest goal of a set of its slot.

        ``goal_index`` [N] int32 is the row of the sets of goals that the slot's tables were prepared for. ``out`` [N]
        float32 is written: metres, inf across islands. The method is ``"exact"``, or ``"detour"`` for the lengths of
        the paths that Habitat finds, which may be longer.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
            ValueError: If the method is unknown.
        """
        size = _check(slots, polygon, position)
        expect_array("goal_index", goal_index, np.int32, (size,))
        expect_array("out", out, np.float32, (size,))
        arguments = (self.table, Places(slots, polygon, position), goal_index, out)
        if method != "exact" and is_detour(method):
            block = -(-size // (DETOUR_TURNS * numba.get_num_threads()))
            run_blocks(blocks.detour_blocks, block, size, size >= DETOUR_PARALLEL_FROM, size, arguments)
        else:
            run_blocks(blocks.distance_blocks, BLOCK, size, size >= PARALLEL_FROM, size, arguments)

    def visible_floor(self, slots: np.ndarray, polygon: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the points of the visible floor under all agents: [N, 3] float32, metres.

        Agents stand on the navmesh, which is up to a few voxels higher. See the class for the arguments.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        _check(slots, polygon, position)
        out = position.copy()
        blocks.lower(self.table, Places(slots, polygon, position), out)
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

        ``goal_index`` is that of ``distance``. A step is ``forward_step`` metres, a turn ``turn_angle`` radians. The
        action is STOP within ``goal_radius`` metres. ``sliding`` says whether the agents slide along walls.

        Returns:
            [N] int64, 0 stop (also if there is no path), 1 forward, 2 left, 3 right.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        size = _check(slots, polygon, position)
        expect_array("heading", heading, np.float32, (size,))
        expect_array("goal_index", goal_index, np.int32, (size,))
        actions = np.empty(size, np.int64)
        places = Places(slots, polygon, position)
        stride = Stride(float(forward_step), float(turn_angle), bool(sliding))
        arguments = (self.table, places, heading, goal_index, stride, float(goal_radius), actions)
        run_blocks(blocks.follow_blocks, BLOCK, size, size >= PARALLEL_FROM, size, arguments)
        return actions

    def next_walk(
        self,
        slots: np.ndarray,
        polygon: np.ndarray,
        position: np.ndarray,
        goal_index: np.ndarray,
        *,
        longest: float,
        sliding: bool = True,
    ) -> Walks:
        """Return the next straight walks on the agents' shortest paths, for agents that can walk in any direction.

        ``goal_index`` and ``sliding`` are those of ``next_action``; no walk is longer than ``longest`` metres.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        size = _check(slots, polygon, position)
        expect_array("goal_index", goal_index, np.int32, (size,))
        walks = Walks(*np.empty((3, size)))
        arguments = (self.table, Places(slots, polygon, position), goal_index, float(longest), bool(sliding), walks)
        run_blocks(blocks.walk_blocks, BLOCK, size, size >= PARALLEL_FROM, size, arguments)
        return walks


def run_blocks(kernel: Callable[..., None], block: int, size: int, many: bool, *arguments: Any) -> None:
    """Run a kernel on all threads, in blocks of rows, or all ``size`` rows on this thread unless they are many."""
    if many and numba.get_num_threads() > 1:
        with PARALLEL_KERNELS:
            kernel(block, *arguments)
    elif size:
        kernel(size, *arguments)


def _check(slots: np.ndarray, polygon: np.ndarray, position: np.ndarray) -> int:
    """Return N; raise TypeError unless the kernels can read and write these arrays."""
    size = len(slots)
    expect_array("slots", slots, np.int32, (size,))
    expect_array("polygon", polygon, np.int32, (size,))
    expect_array("position", position, np.float32, (size, 3))
    return size


def expect_array(name: str, array: np.ndarray, dtype: type, shape: tuple[int, ...]) -> None:
    """Raise TypeError unless an array is contiguous and has this dtype and shape."""
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise TypeError(f"{name} is {array.dtype} {array.shape}: pass a contiguous {np.dtype(dtype)} array of {shape}")
