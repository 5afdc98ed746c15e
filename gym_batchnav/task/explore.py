"""Explore: see as much of a home as there is time for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gym_batchnav.task.api import Measure, Task, TaskState
from gym_batchnav.task.measures import CollisionsCount, PathLength
from gym_batchnav.task.sensors import GPS, Compass

_SIDE = 128  # cells along an axis that are told apart: more than 500 steps of 0.25 m lead across


@dataclass(frozen=True, slots=True)
class CellsVisited(Measure):
    """How many cells [N] int32 of a grid, seen from above, each agent has been in; the first is where it started.

    The grid's lines are those of whole multiples of ``cell_size`` along x and z. Cells that lie 128 apart count as one.

    Attributes:
        cell_size: Metres.
    """

    cell_size: float = 1.0

    name = "cells_visited"

    def __post_init__(self) -> None:
        """Raise ValueError unless cells have a positive size."""
        if not 0 < self.cell_size < np.inf:
            raise ValueError(f"cell_size={self.cell_size!r}: pass a positive number of metres")

    def memory(self, num_envs: int) -> dict[str, np.ndarray]:
        """The cells that each agent has visited, their number, and the number that the last step added."""
        return {
            "visited": np.zeros((num_envs, _SIDE, _SIDE), bool),
            "cells_visited": np.zeros(num_envs, np.int32),
            "cells_found": np.zeros(num_envs, np.int32),
        }

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """The cell of the start is visited, and was not found by a step."""
        self._visit(state, indices)
        state.memory["cells_found"][indices] = 0

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Visit the cells that the agents are in now."""
        self._visit(state, np.nonzero(active)[0])

    def measure(self, state: TaskState) -> np.ndarray:
        """The counts [N]."""
        return state.memory["cells_visited"]

    def _visit(self, state: TaskState, indices: np.ndarray) -> None:
        """Enter the cells of agents ``indices`` [M] into their memory."""
        visited = state.memory["visited"]
        # Rounded down, not towards zero, where the cells at the origin would be of double size.
        cell = np.floor(state.agents.position[indices] / self.cell_size).astype(np.int64) % _SIDE
        place = (indices, cell[:, 0], cell[:, 2])
        state.memory["cells_found"][indices] = ~visited[place]
        state.memory["cells_visited"][indices] += ~visited[place]
        visited[place] = True


@dataclass(frozen=True, slots=True)
class Explore(Task):
    """The paper's Explore: visit many cells of a grid within ``max_episode_steps``. STOP does nothing.

    Attributes:
        cell_size: Metres along a side of a cell.
        cell_reward: Reward of every cell that is visited for the first time.
    """

    cell_size: float = 1.0
    cell_reward: float = 0.25

    sensors = (GPS(), Compass())

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The measures ``cells_visited``, ``path_length`` and ``collisions_count``."""
        return CellsVisited(self.cell_size), PathLength(), CollisionsCount()

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Reward [N] float64 of the step."""
        return self.cell_reward * state.memory["cells_found"]

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Never: time ends an episode."""
        return np.zeros(state.num_envs, bool)
