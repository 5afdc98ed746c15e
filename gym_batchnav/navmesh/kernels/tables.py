"""NavigationTables: all that kernels need of one scene, prepared once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.navmesh.kernels.cells import Cells
from gym_batchnav.navmesh.kernels.geodesic import GOALS, Goals, fill_goal_fields
from gym_batchnav.navmesh.kernels.ground import Ground, snap_points
from gym_batchnav.navmesh.kernels.views import COLUMNS, table_row
from gym_batchnav.navmesh.kernels.visibility import Corners

ROW_LENGTH = COLUMNS * (GOALS + len(Goals._fields))
GEODESICS_VERSION = 1  # goes up with every change of the corner graph or the cell lists; keys caches


@dataclass(frozen=True, slots=True, eq=False)
class NavigationTables:
    """A navmesh and its goals as the kernels of ``NavMeshAgents`` want them."""

    ground: Ground
    corners: Corners
    cells: Cells
    goals: Goals

    def with_goals(self, goals: np.ndarray) -> NavigationTables:
        """The same navmesh with other goals [G, 3], metres; only the goals' distances are computed.

        Raises:
            ValueError: If a goal lies nowhere near the navmesh.
        """
        return NavigationTables(self.ground, self.corners, self.cells, make_goals(self.ground, self.corners, goals))

    @property
    def nbytes(self) -> int:
        """Bytes that the tables hold."""
        return sum(array.nbytes for part in (self.ground, self.corners, self.cells, self.goals) for array in part)

    def row(self) -> np.ndarray:
        """Addresses and sizes of all arrays, for ``ground_at``, ``corners_at``, ``cells_at`` and ``goals_at``."""
        return table_row([*self.ground, *self.corners, *self.cells, *self.goals])


def make_goals(ground: Ground, corners: Corners, goals: np.ndarray) -> Goals:
    """Snap goals [G, 3] and compute every corner's distance to them.

    Raises:
        ValueError: If a goal lies nowhere near the navmesh.
    """
    points, polygons = snap_points(ground, goals)
    if (polygons < 0).any():
        lost = int(np.flatnonzero(polygons < 0)[0])
        raise ValueError(f"goal {lost} at {np.asarray(goals)[lost]} is not near the navmesh: snap or drop it")
    aim, field = np.empty((len(points), 2)), np.empty((len(points), len(corners.point)), np.float32)
    seen = np.empty((len(points), len(ground.num_vertices)), np.bool_)
    fill_goal_fields(ground, corners, polygons, points, aim, field, seen)
    return Goals(points, polygons, aim, field, seen)
