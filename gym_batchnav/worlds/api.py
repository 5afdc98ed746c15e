"""The interface of bodies that no policy moves, and the agents of a world.

Pass objects such as ``People(6)`` to an environment as ``bodies=``; every world has all of them. Write your own as a
frozen dataclass: batches may share it, so it must not store anything about a run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.state import AgentState, Commands, StepOutcome, WorldState
from gym_batchnav.system.numbers import check_between, check_choice, check_counts

SHAPES = ("robot", "person", "dog", "door")
"""The shapes of bodies, which are also their categories."""

HIDDEN = "hidden"  # the shape of bodies that are in the way but not seen, such as parts of a door
OF_DOORS = ("door", HIDDEN)  # shapes that need not stand on the navmesh

NUM_VARIANTS = 4  # of every shape, with other colours

BODY_PARTS = ("num", "shape", "radius", "is_fixed", "needs_start", "begin", "move")
"""Attributes of a group of bodies."""

MAX_BODIES = 64  # of a world
BODY_HEIGHT = 1.5  # metres; bodies whose feet differ by more are on different floors and do not collide
STEP_SECONDS = 0.25  # of actions without a ``time_step``: a MOVE_FORWARD of 0.25 m at 1 m/s


@dataclass(frozen=True, slots=True)
class Team:
    """The agents of a world.

    Attributes:
        num_agents: Number of agents, or the least and the greatest number, of which every episode draws one.
        shape: What the others see of an agent: ``"robot"``, ``"person"`` or ``"dog"``.
        radius: Of the disc that blocks others, metres.

    Raises:
        ValueError: A value is out of its range.
    """

    num_agents: int | tuple[int, int] = 1
    shape: str = "robot"
    radius: float = 0.18

    def __post_init__(self) -> None:
        given = self.num_agents if isinstance(self.num_agents, tuple) else (self.num_agents,) * 2
        for count in given:
            check_counts(num_agents=count)
        if len(given) != 2 or given[0] > given[1]:
            raise ValueError(f"num_agents={given}: pass a number, or a tuple (least, greatest)")
        check_body(self.shape, self.radius)

    @property
    def least(self) -> int:
        """The least number of agents in a world."""
        return int(self.num_agents[0] if isinstance(self.num_agents, tuple) else self.num_agents)

    @property
    def most(self) -> int:
        """M, the greatest number of agents in a world: its rows in the batch."""
        return int(self.num_agents[1] if isinstance(self.num_agents, tuple) else self.num_agents)

    @classmethod
    def of(cls, given: int | tuple[int, int] | Team) -> Team:
        """Return the team for the keyword ``agents_per_world``.

        Raises:
            ValueError: It is neither a number, nor the least and the greatest number, nor a Team.
        """
        if isinstance(given, Team):
            return given
        try:
            return cls(given)
        except ValueError as error:
            raise ValueError(
                f"agents_per_world={given!r}: pass a number of at least 1, a tuple (least, greatest), or a Team"
            ) from error


@dataclass(frozen=True, slots=True, eq=False)
class BodyMotion:
    """The state that moving bodies read and write: W worlds and the columns of these bodies in them.

    Attributes:
        columns: The bodies' columns in ``state``.
        state: The state of all worlds; a group writes ``polygon``, ``position``, ``heading`` and ``present`` of its own
            columns only. ``previous`` has the positions before the step.
        slots: [W] int32, the slots of the worlds' scenes.
        worlds: [K] int, the worlds that move; the others keep their state.
        navmeshes: The navmeshes of the slots, for kernels.
        navmesh: Returns the navmesh of the scene in a slot.
        scene_name: Returns the name of the scene in a slot.
        radius: [B] float64, metres, of all bodies of a world.
        doors: [B] bool, which of these bodies are parts of doors.
        seconds: Duration of a step.
        keys: [W] uint64, the keys of the worlds' episodes, for draws: see ``episodes.draws.step_uniform``.
        new_goals: Returns goals on the island of a body, as rows of the scene's sets of goals, for the worlds and
            columns [G] and uniform numbers [G] from 0 to 1.
    """

    columns: slice
    state: WorldState
    slots: np.ndarray
    worlds: np.ndarray
    navmeshes: NavMeshAgents
    navmesh: Callable[[int], NavMesh]
    scene_name: Callable[[int], str]
    radius: np.ndarray
    doors: np.ndarray
    seconds: float
    keys: np.ndarray
    new_goals: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

    def walk(self, world: np.ndarray, column: np.ndarray, turn: np.ndarray, forward: np.ndarray) -> None:
        """Turn bodies and let them walk straight ahead as if they were alone, sliding along walls.

        Args:
            world: [G] int, the worlds of the bodies.
            column: [G] int, their columns.
            turn: [G] float64, radians, left positive.
            forward: [G] float64, metres.
        """
        bodies = world, column
        state = self.state
        count = len(world)
        walkers = AgentState(
            np.ascontiguousarray(self.slots[world], np.int32),
            state.polygon[bodies],
            state.position[bodies],
            state.heading[bodies],
            np.zeros(count, np.float32),
        )
        commands = Commands(turn, forward, np.zeros(count), np.zeros(count, bool))
        outcome = StepOutcome(np.empty(count, np.float32), np.empty(count, bool))
        self.navmeshes.step(commands, walkers, state.present[bodies], outcome, sliding=True)
        state.polygon[bodies] = walkers.polygon
        state.position[bodies] = walkers.position
        state.heading[bodies] = walkers.heading


class MovingBodies(Protocol):
    """Bodies that no policy moves, the same number in every world.

    Attributes:
        num: Number of bodies per world.
        shape: ``"robot"``, ``"person"`` or ``"dog"``; or one for each body.
        radius: Of the disc that blocks others, metres; or one for each body.
        is_fixed: Whether the bodies never yield, so that agents stop at them; or one for each body.
        needs_start: Whether they begin at starts of episodes; False if ``begin`` puts them elsewhere.
    """

    num: int
    shape: str | tuple[str, ...]
    radius: float | tuple[float, ...]
    is_fixed: bool | tuple[bool, ...] = False
    needs_start: bool = True

    def begin(self, motion: BodyMotion) -> None:
        """Change the bodies at the start of the episodes of ``motion.worlds``.

        With ``needs_start`` they stand at starts of the scene's episodes, apart from all others that do, and on the
        island of the agents if it has room.
        """
        return None

    @abstractmethod
    def move(self, motion: BodyMotion) -> None:
        """Move the bodies of ``motion.worlds`` as if they were alone; afterwards those that collide are stopped."""


def shape_number(name: str, index: int) -> int:
    """Return the number of a shape for the body of an index, which chooses its colours."""
    return SHAPES.index(name) * NUM_VARIANTS + index % NUM_VARIANTS


def check_body(shape: str, radius: float) -> None:
    """Raise ValueError unless the shape is known and the radius is from 0.05 to 1 m."""
    if shape != HIDDEN:
        check_choice("shape", shape, SHAPES)
    check_between(0.05, 1.0, radius=radius)


ALONE = Team()
"""A world of one agent."""
