"""nDTW: how closely an agent follows the shortest path to its goal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gym_batchnav.state import check_values
from gym_batchnav.task.api import Measure, TaskState

_MAX_POINTS = 128  # of a reference path


@dataclass(frozen=True, slots=True)
class NDTW(Measure):
    """Normalised dynamic time warping [N] float64, 1 on the shortest path and towards 0 away from it.

    nDTW is ``exp(-DTW / (n * threshold))`` for a reference path of n points (Ilharco et al. 2019, arXiv 1907.05446).
    DTW is the smallest sum of distances between the points of both paths over all monotonic alignments. The reference
    is the shortest path from start to goal, sampled evenly. The other path consists of the start and the position after
    every step in which the agent moved. In a tour of several goals, the reference leads to the first of them.

    Attributes:
        threshold: Metres. Habitat's instruction following uses its success distance, 3 m.
        spacing: Distance between the points of the reference path, metres; larger if the path would have more than 128.
    """

    threshold: float = 3.0
    spacing: float = 0.25

    name = "ndtw"
    at_end = True

    def __post_init__(self) -> None:
        """Raise ValueError unless both lengths are positive."""
        for name in ("threshold", "spacing"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name}={getattr(self, name)!r}: pass a positive number of metres")

    def memory(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return memory for the reference path, its number of points, the costs so far and the last position."""
        return {
            "reference_path": np.zeros((num_envs, _MAX_POINTS, 3), np.float32),
            "reference_size": np.zeros(num_envs, np.int64),
            "warping_cost": np.zeros((num_envs, _MAX_POINTS)),
            "warping_position": np.zeros((num_envs, 3), np.float32),
        }

    def check_memory(self, memory: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless the reference paths have as many points as they can."""
        check_values("reference_size", memory["reference_size"], 0, _MAX_POINTS)

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Compute the reference paths and align their points with the start."""
        memory = state.memory
        for index in indices.tolist():
            navmesh = state.navmesh(int(state.agents.slot[index]))
            path = navmesh.shortest_path(state.agents.position[index], state.episodes.goal[index], state.geodesic)
            points = _resampled(path if len(path) else state.agents.position[[index]], self.spacing)
            memory["reference_size"][index] = len(points)
            memory["reference_path"][index, : len(points)] = points
        memory["warping_position"][indices] = state.agents.position[indices]
        memory["warping_cost"][indices] = np.cumsum(_distances(state, indices), axis=1)

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Align the positions of the agents that have moved."""
        memory = state.memory
        moved = active & (state.agents.position != memory["warping_position"]).any(axis=1)
        rows = np.nonzero(moved)[0]
        memory["warping_position"][rows] = state.agents.position[rows]
        memory["warping_cost"][rows] = next_costs(memory["warping_cost"][rows], _distances(state, rows))

    def measure(self, state: TaskState) -> np.ndarray:
        """Return nDTW [N]; 1 before the first episode."""
        size = state.memory["reference_size"]
        cost = state.memory["warping_cost"][np.arange(len(size)), np.maximum(size - 1, 0)]
        return np.exp(-cost / (np.maximum(size, 1) * self.threshold))


def next_costs(costs: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Return the costs of warping after one more point of the path.

    The recurrence ``D[i] = d[i] + min(D[i - 1], E[i - 1], E[i])`` with the costs E before the point is solved for all i
    at once: with the sums ``S[i] = d[0] + ... + d[i]``, ``D[i] - S[i]`` is the running minimum of
    ``min(E[k - 1], E[k]) - S[k - 1]``.

    Args:
        costs: [M, n] float64, the costs of aligning all points of the path so far with the first i + 1 of the
            reference.
        distances: [M, n] float64, metres, from the new point to every point of the reference.
    """
    least = costs.copy()
    np.minimum(costs[:, :-1], costs[:, 1:], out=least[:, 1:])
    sums = np.cumsum(distances, axis=1)
    return np.minimum.accumulate(least - (sums - distances), axis=1) + sums


def _distances(state: TaskState, rows: np.ndarray) -> np.ndarray:
    """Return the distances [M, 128] float64, metres, from agents to the points of their references."""
    offset = state.memory["reference_path"][rows] - state.agents.position[rows][:, None].astype(np.float64)
    return np.linalg.norm(offset, axis=2)


def _resampled(path: np.ndarray, spacing: float) -> np.ndarray:
    """Return evenly spaced points [n, 3] along a polyline [m, 3], with both ends; n is at most 128."""
    lengths = np.linalg.norm(np.diff(path.astype(np.float64), axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    count = min(_MAX_POINTS, int(np.ceil(along[-1] / spacing)) + 1)
    where = np.linspace(0.0, along[-1], count)
    return np.stack([np.interp(where, along, axis) for axis in path.T.astype(np.float64)], axis=1)
