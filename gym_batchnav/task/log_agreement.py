"""Measures of how far agents depart from recorded ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.task.api import Measure, TaskState


@dataclass(frozen=True, eq=False)
class _Displacement(Measure):
    """Base class of the measures.

    Attributes:
        path: [T + 1, M, 3] float32, metres: where the logged agents were, from their beginning on. Agent m of a world
            is compared with column m; a path [T + 1, 3] is that of an agent alone.
    """

    path: np.ndarray

    def __post_init__(self) -> None:
        path = np.asarray(self.path)
        if path.ndim not in (2, 3) or path.shape[-1] != 3 or path.shape[0] < 2 or path.dtype.kind != "f":
            raise ValueError(f"path is {path.dtype} {path.shape}: pass positions [T + 1, M, 3], such as log.position")
        if not np.isfinite(path).all():
            raise ValueError("path has values that are not finite: pass metres")
        object.__setattr__(self, "path", path)

    def _distance(self, state: TaskState) -> np.ndarray:
        """Return the distances [N] float64, metres, to the logged agents, which stay where their log ends."""
        agents = 1 if state.worlds is None else state.worlds.num_agents
        path = self.path if self.path.ndim == 3 else self.path[:, None]
        if agents > path.shape[1]:
            raise ValueError(f"path of {path.shape[1]} agents for worlds of {agents}: pass one column for each agent")
        rows = np.minimum(state.episodes.num_steps, len(path) - 1)
        logged = path[rows, np.arange(len(rows)) % agents]
        return np.linalg.norm(state.agents.position.astype(np.float64) - logged, axis=1)


@dataclass(frozen=True, eq=False)
class MeanDisplacement(_Displacement):
    """Mean distance [N] float64 from the logged agent at the same step, metres, over the steps of the log so far."""

    name = "mean_displacement"

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return the sums of the distances, metres."""
        return {"sum_of_displacements": np.zeros(num_envs)}

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Add the distances after a step."""
        counts = active & (state.episodes.num_steps < len(self.path))
        state.buffers["sum_of_displacements"] += np.where(counts, self._distance(state), 0.0)

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the means [N]; 0 before the first step."""
        steps = np.minimum(state.episodes.num_steps, len(self.path) - 1)
        return state.buffers["sum_of_displacements"] / np.maximum(steps, 1)


@dataclass(frozen=True, eq=False)
class FinalDisplacement(_Displacement):
    """Distance [N] float64, at the end of an episode, from the logged agent at the same step, metres."""

    name = "final_displacement"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the distances [N]."""
        return self._distance(state)
