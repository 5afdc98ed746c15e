"""Flee: move as far as possible from the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gym_batchnav.system.numbers import check_flags
from gym_batchnav.task.api import Measure, Task, TaskState
from gym_batchnav.task.measures import CollisionsCount, PathLength
from gym_batchnav.task.sensors import GPS, Compass


@dataclass(frozen=True, slots=True)
class DistanceFromStart(Measure):
    """Distance [N] float64, metres, from each agent's start; inf if there is no path, for example after ``set_pose``.

    Attributes:
        geodesic: Measure along the shortest path; False for the straight line, which is faster to compute.
    """

    geodesic: bool = True

    name = "distance_from_start"

    def __post_init__(self) -> None:
        """Raise ValueError unless ``geodesic`` is a bool."""
        check_flags(geodesic=self.geodesic)

    def memory(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return memory for the distance and its change in the last step."""
        return {"distance_from_start": np.zeros(num_envs), "distance_gained": np.zeros(num_envs)}

    def placed(self, state: TaskState, indices: np.ndarray) -> None:
        """Measure the distances from the starts."""
        state.memory["distance_from_start"][indices] = self._distances(state)[indices]

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Measure the distances from the starts."""
        before = state.memory["distance_from_start"].copy()
        now = self._distances(state)
        known = np.isfinite(before) & np.isfinite(now)
        state.memory["distance_from_start"][:] = now
        state.memory["distance_gained"][:] = np.subtract(now, before, out=np.zeros_like(now), where=known)

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the distances [N]."""
        return state.memory["distance_from_start"]

    def _distances(self, state: TaskState) -> np.ndarray:
        """Return the distances [N] from start to agent, metres."""
        start = state.episodes.start
        position = state.agents.position
        if not self.geodesic:
            return np.linalg.norm(position.astype(np.float64) - start, axis=1)
        distance = np.empty(state.num_envs)
        for navmesh, rows in state.by_scene():
            distance[rows] = navmesh.geodesic_distance(start[rows], position[rows], state.geodesic)
        return distance


@dataclass(frozen=True, slots=True)
class Flee(Task):
    """The paper's Flee task: move as far as possible from the start within ``max_episode_steps``. STOP does nothing.

    The reward of a step is the increase of the distance from the start, in metres.

    Attributes:
        geodesic: Measure along shortest paths; False for straight lines.
    """

    geodesic: bool = True

    sensors = (GPS(), Compass())
    has_goal = False

    def __post_init__(self) -> None:
        """Raise ValueError unless ``geodesic`` is a bool."""
        check_flags(geodesic=self.geodesic)

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The measures ``distance_from_start``, ``path_length`` and ``collisions_count``."""
        return DistanceFromStart(self.geodesic), PathLength(), CollisionsCount()

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        return state.memory["distance_gained"]

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return False everywhere: only the time limit ends an episode."""
        return np.zeros(state.num_envs, bool)
