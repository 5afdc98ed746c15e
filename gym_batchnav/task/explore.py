"""Explore: visit as much of a home as possible within the time limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gym_batchnav.task.api import Measure, Task, TaskState
from gym_batchnav.task.measures import CollisionsCount, PathLength
from gym_batchnav.task.sensors import GPS, Compass

_SIDE = 128  # distinct cells along an axis; 500 steps of 0.25 m cross fewer


@dataclass(frozen=True, slots=True)
class CellsVisited(Measure):
    """Number of cells [N] int32 of a horizontal grid that each agent has visited, including the cell of its start.

    Grid lines lie at integer multiples of ``cell_size`` along x and z. Cells that are 128 apart count as the same cell.

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
        """Return memory for the visited cells, their number, and the number that the last step added."""
        return {
            "visited": np.zeros((num_envs, _SIDE, _SIDE), bool),
            "cells_visited": np.zeros(num_envs, np.int32),
            "cells_found": np.zeros(num_envs, np.int32),
        }

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Mark the cell of the start as visited. It is counted, but not as found by a step."""
        self._visit(state, indices)
        state.memory["cells_found"][indices] = 0

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Mark the agents' current cells as visited."""
        self._visit(state, np.nonzero(active)[0])

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the counts [N]."""
        return state.memory["cells_visited"]

    def _visit(self, state: TaskState, indices: np.ndarray) -> None:
        """Mark the cells of agents ``indices`` [M] in their memory."""
        visited = state.memory["visited"]
        # Rounded down, since rounding towards zero would make the cells at the origin twice as wide.
        cell = np.floor(state.agents.position[indices] / self.cell_size).astype(np.int64) % _SIDE
        place = (indices, cell[:, 0], cell[:, 2])
        state.memory["cells_found"][indices] = ~visited[place]
        state.memory["cells_visited"][indices] += ~visited[place]
        visited[place] = True


@dataclass(frozen=True, slots=True)
class Explore(Task):
    """The paper's Explore task: visit as many grid cells as possible within ``max_episode_steps``. STOP does nothing.

    Attributes:
        cell_size: Side of a cell, metres.
        cell_reward: Reward for each cell that is visited for the first time.
    """

    cell_size: float = 1.0
    cell_reward: float = 0.25

    sensors = (GPS(), Compass())

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The measures ``cells_visited``, ``path_length`` and ``collisions_count``."""
        return CellsVisited(self.cell_size), PathLength(), CollisionsCount()

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        return self.cell_reward * state.memory["cells_found"]

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return False everywhere: only the time limit ends an episode."""
        return np.zeros(state.num_envs, bool)
