"""Measures of navigation, as functions of arrays with one row per environment and as Measure classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from gym_batchnav.state import check_values
from gym_batchnav.system.numbers import check_length, is_number
from gym_batchnav.task.api import Measure, TaskState

MAIN_MEASURES = ("spl", "success")
_MAX_POINTS = 128  # of a reference path


def main_measures(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the measures that sum up a task: SPL and success, or else its first measure."""
    known = tuple(names)
    return tuple(name for name in MAIN_MEASURES if name in known) or known[:1]


def success(stopped: np.ndarray, distance_to_goal: np.ndarray, success_distance: float) -> np.ndarray:
    """Return whether each agent [N] called STOP with its geodesic distance (metres) below ``success_distance``."""
    # Success needs STOP: standing on the goal at the time limit is failure.
    return stopped & (distance_to_goal < success_distance)


def efficiency(start_distance: np.ndarray, path_length: np.ndarray) -> np.ndarray:
    """Return d0 / max(d0, path) [N], the ratio of the shortest to the walked path; 1 where both are zero."""
    longest = np.maximum(start_distance, path_length)
    return np.divide(start_distance, longest, out=np.ones_like(longest), where=longest > 0)


def spl(succeeded: np.ndarray, start_distance: np.ndarray, path_length: np.ndarray) -> np.ndarray:
    """Return SPL, success weighted by path length [N] (Anderson et al. 2018, arXiv 1807.06757)."""
    return succeeded * efficiency(start_distance, path_length)


def soft_spl(distance_to_goal: np.ndarray, start_distance: np.ndarray, path_length: np.ndarray) -> np.ndarray:
    """Return SPL [N] with progress, max(0, 1 - d/d0), instead of success (Datta et al. 2020)."""
    remaining = np.divide(
        distance_to_goal, start_distance, out=np.ones_like(distance_to_goal), where=start_distance > 0
    )
    return np.maximum(0, 1 - remaining) * efficiency(start_distance, path_length)


class KeptMeasure(Measure):
    """The base of measures that keep their values in the buffer of their name; each is a dataclass."""

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the values [N]."""
        return state.buffers[self.name]


@dataclass(frozen=True, slots=True)
class DistanceToGoal(Measure):
    """Geodesic distance [N] float32 from agent to goal, metres."""

    name = "distance_to_goal"

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the distances [N]; inf where there is no path."""
        return state.episodes.distance


@dataclass(frozen=True, slots=True)
class PathLength(Measure):
    """Length of the walked path [N] float64, metres."""

    name = "path_length"

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the lengths [N]."""
        return state.episodes.path_length


@dataclass(frozen=True, slots=True)
class CollisionsCount(Measure):
    """Number of moves [N] int32 that an obstacle stopped."""

    name = "collisions_count"

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the counts [N]."""
        return state.episodes.num_collisions


@dataclass(frozen=True, slots=True)
class Success(Measure):
    """Whether each agent [N] bool called STOP within the task's ``success_distance`` of its goal."""

    name = "success"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return success [N]; see the function ``success``."""
        return success(state.episodes.stopped, state.episodes.distance, state.success_distance)


@dataclass(frozen=True, slots=True)
class SPL(Measure):
    """Success weighted by path length [N] float64.

    Attributes:
        success: The measure of success.
    """

    success: Measure = field(default=Success())

    name = "spl"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return SPL [N]; see the function ``spl``."""
        return spl(self.success.measure(state), state.episodes.start_distance, state.episodes.path_length)


@dataclass(frozen=True, slots=True)
class SoftSPL(Measure):
    """SPL with progress instead of success [N] float64."""

    name = "soft_spl"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return SoftSPL [N]; see the function ``soft_spl``."""
        episodes = state.episodes
        return soft_spl(episodes.distance, episodes.start_distance, episodes.path_length)


@dataclass(frozen=True, slots=True)
class CollisionRate(Measure):
    """Collisions per metre walked [N] float64; a path shorter than a metre counts as one, to keep the rate finite."""

    name = "collisions_per_metre"

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the rates [N]."""
        return state.episodes.num_collisions / np.maximum(1.0, state.episodes.path_length)


@dataclass(frozen=True, slots=True)
class NavigationError(Measure):
    """Geodesic distance [N] float32 from agent to goal at the end of an episode, metres (Anderson et al. 2018)."""

    name = "navigation_error"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the distances [N]; inf where there is no path."""
        return state.episodes.distance


@dataclass(frozen=True, slots=True)
class OracleSuccess(KeptMeasure):
    """Whether each agent [N] bool was ever within the task's ``success_distance`` of its goal, with or without STOP.

    In a tour of several goals, it is whether this holds for any of them.
    """

    name = "oracle_success"
    at_end = True

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the result so far."""
        return {self.name: np.zeros(num_envs, bool)}

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Compare the distance of the start."""
        state.buffers[self.name][indices] = state.episodes.distance[indices] < state.success_distance

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Compare the current distances."""
        state.buffers[self.name][:] |= active & (state.episodes.distance < state.success_distance)


@dataclass(frozen=True, slots=True)
class TimedOut(Measure):
    """Whether each episode [N] bool ran out of steps before the agent called STOP.

    ``gymnasium.make`` truncates episodes with a wrapper, which this measure does not see without ``protocol=``.
    """

    name = "timed_out"
    at_end = True

    def measure(self, state: TaskState) -> np.ndarray:
        """Return whether each episode timed out [N]."""
        return state.timed_out & ~state.episodes.stopped


@dataclass(frozen=True, slots=True)
class DistanceBin(Measure):
    """The bin [N] int64 of each episode by the geodesic distance from start to goal: 0 is the easiest.

    The default limits are those of easy (1.5 to 3 m), medium (3 to 5 m) and hard (5 to 10 m) episodes in image-goal
    navigation (Hahn et al. 2021, arXiv 2110.09470).

    Attributes:
        limits: Metres, rising. Bin k begins at ``limits[k - 1]``.
    """

    limits: tuple[float, ...] = (3.0, 5.0)

    name = "distance_bin"
    at_end = True

    def __post_init__(self) -> None:
        limits = self.limits if isinstance(self.limits, (tuple, list)) else ()
        if not limits or not all(map(is_number, limits)) or not (np.diff((0.0, *limits)) > 0).all():
            raise ValueError(f"limits={self.limits!r}: pass rising, positive numbers of metres")

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the bins [N]."""
        return np.digitize(state.episodes.start_distance, self.limits)


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
        check_length(threshold=self.threshold, spacing=self.spacing)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the reference path, its number of points, the costs so far and the last position."""
        return {
            "reference_path": np.zeros((num_envs, _MAX_POINTS, 3), np.float32),
            "reference_size": np.zeros(num_envs, np.int64),
            "warping_cost": np.zeros((num_envs, _MAX_POINTS)),
            "warping_position": np.zeros((num_envs, 3), np.float32),
        }

    def check_buffers(self, buffers: Mapping[str, np.ndarray]) -> None:
        """Raise ValueError unless the reference paths have as many points as they can."""
        check_values("reference_size", buffers["reference_size"], 0, _MAX_POINTS)

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Compute the reference paths and align their points with the start."""
        buffers = state.buffers
        for index in indices.tolist():
            navmesh = state.navmesh(int(state.agents.slot[index]))
            path = navmesh.shortest_path(state.agents.position[index], state.episodes.goal[index], state.geodesic)
            points = _resampled(path if len(path) else state.agents.position[[index]], self.spacing)
            buffers["reference_size"][index] = len(points)
            buffers["reference_path"][index, : len(points)] = points
        buffers["warping_position"][indices] = state.agents.position[indices]
        buffers["warping_cost"][indices] = np.cumsum(_distances(state, indices), axis=1)

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Align the positions of the agents that have moved."""
        buffers = state.buffers
        moved = active & (state.agents.position != buffers["warping_position"]).any(axis=1)
        rows = np.nonzero(moved)[0]
        buffers["warping_position"][rows] = state.agents.position[rows]
        buffers["warping_cost"][rows] = next_costs(buffers["warping_cost"][rows], _distances(state, rows))

    def measure(self, state: TaskState) -> np.ndarray:
        """Return nDTW [N]; 1 before the first episode."""
        size = state.buffers["reference_size"]
        cost = state.buffers["warping_cost"][np.arange(len(size)), np.maximum(size - 1, 0)]
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
    offset = state.buffers["reference_path"][rows] - state.agents.position[rows][:, None].astype(np.float64)
    return np.linalg.norm(offset, axis=2)


def _resampled(path: np.ndarray, spacing: float) -> np.ndarray:
    """Return evenly spaced points [n, 3] along a polyline [m, 3], with both ends; n is at most 128."""
    lengths = np.linalg.norm(np.diff(path.astype(np.float64), axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    count = min(_MAX_POINTS, int(np.ceil(along[-1] / spacing)) + 1)
    where = np.linspace(0.0, along[-1], count)
    return np.stack([np.interp(where, along, axis) for axis in path.T.astype(np.float64)], axis=1)
