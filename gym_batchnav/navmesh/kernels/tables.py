"""NavigationTables: all arrays that the kernels need for one scene, computed once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.navmesh.kernels.floor import check_drops
from gym_batchnav.navmesh.kernels.geodesic import fill_goal_fields
from gym_batchnav.navmesh.kernels.ground import snap_points
from gym_batchnav.navmesh.kernels.layout import Cells, Corners, Drops, Goals, Ground, check_parts, make_row
from gym_batchnav.navmesh.kernels.visibility import check_sight

MAX_GOAL_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class NavigationTables:
    """A navmesh and its goals in the form that the kernels of ``NavMeshAgents`` read.

    The largest arrays are the distances: ``4 C^2`` bytes between C corners, and ``4 C`` bytes per set of goals. A goal
    takes P bytes on P polygons, and 4 bytes for each corner that it sees.

    Raises:
        ValueError: If the arrays do not match each other, so that a kernel would read outside of one.
    """

    ground: Ground
    corners: Corners
    cells: Cells
    goals: Goals
    drops: Drops

    def __post_init__(self) -> None:
        """Check every array against its declaration."""
        check_parts(*self._parts)
        check_drops(self.drops)

    @property
    def _parts(self) -> tuple[Ground, Corners, Cells, Goals, Drops]:
        return self.ground, self.corners, self.cells, self.goals, self.drops

    @property
    def nbytes(self) -> int:
        """The number of bytes that the tables hold."""
        return sum(array.nbytes for part in self._parts for array in part)

    def row(self) -> np.ndarray:
        """Return the addresses and sizes of all arrays, for ``ground_at`` and the other readers."""
        return make_row(self._parts)


def make_goals(ground: Ground, corners: Corners, goals: np.ndarray, first: np.ndarray | None = None) -> Goals:
    """Snap goals and compute every corner's distance to the nearest goal of every set.

    Args:
        ground: The ground.
        corners: Its corners.
        goals: [G, 3], metres.
        first: [H + 1] int, the first goal of every set, from 0 to G; by default every goal is a separate set.

    Raises:
        ValueError: If a goal lies nowhere near the navmesh, the distances would take too much memory, or ``first`` does
            not rise from 0 to G, or lines of sight cannot be followed.
    """
    goals = np.asarray(goals)
    first = np.arange(len(goals) + 1, dtype=np.int32) if first is None else np.ascontiguousarray(first, np.int32)
    if first.ndim != 1 or not len(first) or first[0] != 0 or first[-1] != len(goals) or (np.diff(first) < 0).any():
        raise ValueError(f"first={first}: pass the first goal of every set, rising from 0 to {len(goals)}")
    size = (len(first) - 1) * 4 * len(corners.point) + len(goals) * len(ground.num_vertices)
    if size > MAX_GOAL_BYTES:
        raise ValueError(
            f"the distances of {len(corners.point):,} corners to {len(goals):,} goals would take "
            f"{size / 2**30:.1f} GiB, more than {MAX_GOAL_BYTES / 2**30:g}: use fewer episodes per scene"
        )
    points, polygons = snap_points(ground, goals)
    if (polygons < 0).any():
        lost = int(np.flatnonzero(polygons < 0)[0])
        raise ValueError(f"goal {lost} at {goals[lost]} is not near the navmesh: snap or drop it")
    aim = np.empty((len(points), 2))
    field = np.empty((len(first) - 1, len(corners.point)), np.float32)
    seen = np.empty((len(points), len(ground.num_vertices)), np.bool_)
    look_start = np.zeros(len(points) + 1, np.int32)
    dropped, looks = fill_goal_fields(ground, corners, polygons, points, first, aim, field, seen, look_start)
    check_sight(dropped)
    return Goals(points, polygons, aim, first, field, seen, look_start, looks)
