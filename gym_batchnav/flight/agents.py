"""FlightAgents: motion, distances and paths of N flying agents in the air of K slots.

It has the interface of ``navmesh.agents.NavMeshAgents``, so that a batch can take either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gym_batchnav.flight.air import Air
from gym_batchnav.flight.kernels.fly import Bodies, Body, Dynamics, Targets, course_blocks, fly_blocks
from gym_batchnav.navmesh.agents import expect_array, run_blocks
from gym_batchnav.state import AgentState, StepOutcome

BLOCK = 4  # agents that a thread takes at a time
PARALLEL_FROM = 16  # agents in a scene, which take about 10 us each
VELOCITY = "flight_velocity"  # name of the velocities in the buffers of a batch


class FlightCommands(NamedTuple):
    """The motion of every flying agent in a step: its velocity approaches the one given here.

    Velocities are those in the frame of the body, which turns at a constant rate in the step.
    """

    turn: np.ndarray  # [N] float64, radians, left positive
    forward: np.ndarray  # [N] float64, metres per second
    up: np.ndarray  # [N] float64, metres per second
    side: np.ndarray  # [N] float64, metres per second to the right
    stop: np.ndarray  # [N] bool, whether STOP is called
    look: np.ndarray | None = None  # [N] float64, radians by which the cameras tilt up; None if they cannot tilt

    @property
    def targets(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Forward, up, side and turn."""
        return self.forward, self.up, self.side, self.turn


class FlightAgents:
    """N agents in the air of K slots.

    Agents are rows of arrays that the caller owns: ``slots`` [N] int32, ``position`` [N, 3] float32 in metres, the
    centre of the agent, ``heading`` [N] float32 in radians. An agent whose slot is empty stands still and is infinitely
    far from any goal. ``polygon`` has no meaning.

    Args:
        num_slots: K.
        dynamics: The agents' dynamics.
        velocity: [N, 3] float32, metres per second; written in place.

    Attributes:
        dynamics: The agents' dynamics.
        velocity: [N, 3] float32, metres per second.
    """

    def __init__(self, num_slots: int, dynamics: Dynamics, velocity: np.ndarray) -> None:
        self.dynamics = dynamics
        self.velocity = velocity
        self._air: list[Air | None] = [None] * num_slots

    def set_slot(self, slot: int, tables: Air) -> None:
        """Install the air of a scene in a slot."""
        self._air[slot] = tables

    def clear_slot(self, slot: int) -> None:
        """Empty a slot."""
        self._air[slot] = None

    def step(
        self, commands: FlightCommands, agents: AgentState, active: np.ndarray, outcome: StepOutcome, *, sliding: bool
    ) -> None:
        """Turn and move every active agent; see ``NavMeshAgents.step``.

        Args:
            commands: The velocities that agents approach.
            agents: All agents; ``position`` and ``heading`` are written in place.
            active: [N] bool; inactive agents keep their pose and velocity.
            outcome: Written; an agent collides if it touches a surface against which it flies.
            sliding: Slide along surfaces; False stops at them.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        position = agents.position
        size = len(agents.slot)
        expect_array("slot", agents.slot, np.int32, (size,))
        expect_array("position", position, np.float32, (size, 3))
        expect_array("heading", agents.heading, np.float32, (size,))
        expect_array("active", active, np.bool_, (size,))
        expect_array("moved", outcome.moved, np.float32, (size,))
        expect_array("collided", outcome.collided, np.bool_, (size,))
        expect_array("velocity", self.velocity, np.float32, (size, 3))
        outcome.moved[:] = 0
        outcome.collided[:] = False
        targets = Targets(*(np.ascontiguousarray(one, np.float64) for one in commands.targets))
        for name, target in targets._asdict().items():
            expect_array(name, target, np.float64, (size,))
        bodies = Bodies(position, self.velocity, agents.heading, outcome.moved, outcome.collided)
        for air, rows in self._groups(agents.slot):
            body = Body(float(air.radius), self.dynamics, bool(sliding))
            arguments = (rows, air.surfaces, air.voxels, targets, body, active, bodies)
            run_blocks(fly_blocks, BLOCK, len(rows), len(rows) >= PARALLEL_FROM, *arguments)

    def distance(
        self,
        slots: np.ndarray,
        polygon: np.ndarray,
        position: np.ndarray,
        goal_index: np.ndarray,
        out: np.ndarray,
        method: str = "exact",
    ) -> None:
        """Compute the length of the shortest path of every agent to its goal.

        Args:
            slots: [N] int32.
            polygon: [N] int32, not used.
            position: [N, 3] float32, metres.
            goal_index: [N] int32, row of the goals of the slot's air.
            out: [N] float32, written: metres, inf without a path.
            method: ``"exact"``, the only one.
        """
        self.courses(slots, position, goal_index, out)

    def courses(
        self, slots: np.ndarray, position: np.ndarray, goal_index: np.ndarray, distance_out: np.ndarray
    ) -> np.ndarray:
        """Return the points [N, 3] float64, metres, at which the agents' shortest paths turn first.

        The arguments are those of ``distance``. Where there is no path, it is the agent's position.

        Raises:
            TypeError: If an array has another dtype, shape or memory layout than stated.
        """
        size = len(slots)
        expect_array("slots", slots, np.int32, (size,))
        expect_array("position", position, np.float32, (size, 3))
        expect_array("goal_index", goal_index, np.int32, (size,))
        expect_array("distance_out", distance_out, np.float32, (size,))
        turns = position.astype(np.float64)
        distance_out[:] = np.inf
        for air, rows in self._groups(slots):
            arguments = (
                rows, air.voxels, air.fields, float(air.radius), position, goal_index, distance_out, turns,
            )  # fmt: skip
            run_blocks(course_blocks, BLOCK, len(rows), len(rows) >= PARALLEL_FROM, *arguments)
        return turns

    def visible_floor(self, slots: np.ndarray, polygon: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Return the points [N, 3] float32 to which cameras are fixed: the centres of the agents."""
        return position.copy()

    def _groups(self, slots: np.ndarray) -> list[tuple[Air, np.ndarray]]:
        """Return the air of every slot with agents in it, and their rows [M] int64."""
        groups = []
        for slot in np.unique(slots).tolist():
            air = self._air[slot] if 0 <= slot < len(self._air) else None
            if air is not None:
                groups.append((air, np.nonzero(slots == slot)[0]))
        return groups
