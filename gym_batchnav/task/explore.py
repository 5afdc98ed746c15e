"""Explore and Flee: see as much of a home as possible, or go as far from the start; and measures of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.system.numbers import check_between, check_finite, check_flags, check_length, check_positive
from gym_batchnav.task.api import Measure, Task, TaskState
from gym_batchnav.task.measures import CollisionsCount, KeptMeasure, PathLength
from gym_batchnav.task.sensors import GPS, Compass

_SIDE = 128  # distinct cells along an axis; 500 steps of 0.25 m cross fewer
_LEAST_CELL = 0.01  # metres; the walkable cells of a home are counted in seconds, smaller ones in minutes


@dataclass(frozen=True, slots=True)
class CellsVisited(KeptMeasure):
    """Number of cells [N] int32 of a horizontal grid that each agent has visited, including the cell of its start.

    Grid lines lie at integer multiples of ``cell_size`` along x and z. Cells that are 128 apart count as the same cell.

    Attributes:
        cell_size: Metres.
    """

    cell_size: float = 1.0

    name = "cells_visited"

    def __post_init__(self) -> None:
        check_between(_LEAST_CELL, 1000, cell_size=self.cell_size)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the visited cells, their number, and the number that the last step added."""
        return {
            "visited": np.zeros((num_envs, _SIDE, _SIDE), bool),
            "cells_visited": np.zeros(num_envs, np.int32),
            "cells_found": np.zeros(num_envs, np.int32),
        }

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Mark the cell of the start as visited. It is counted, but not as found by a step."""
        self._visit(state, indices)
        state.buffers["cells_found"][indices] = 0

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Mark the agents' current cells as visited."""
        self._visit(state, np.nonzero(active)[0])

    def _visit(self, state: TaskState, indices: np.ndarray) -> None:
        """Mark the cells of agents ``indices`` [M] in their buffers."""
        state.buffers["cells_found"][indices] = _visit_cells(state, "visited", "cells_visited", self.cell_size, indices)


@dataclass(frozen=True, slots=True)
class Coverage(Measure):
    """The fraction [N] float64 of the walkable cells around its start that each agent has visited.

    Cells are those of ``CellsVisited``. A cell is walkable if it touches the island of the navmesh that the agent
    started on. Storeys above each other share their cells.

    Attributes:
        cell_size: Metres.
    """

    cell_size: float = 1.0

    name = "coverage"

    def __post_init__(self) -> None:
        check_between(_LEAST_CELL, 1000, cell_size=self.cell_size)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the covered cells, their number, and the number of walkable cells."""
        return {
            "covered": np.zeros((num_envs, _SIDE, _SIDE), bool),
            "cells_covered": np.zeros(num_envs, np.int64),
            "cells_walkable": np.zeros(num_envs, np.int64),
        }

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Count the walkable cells and mark the cell of the start."""
        for navmesh, rows in state.by_scene():
            rows = np.intersect1d(rows, indices)
            if len(rows):
                counts = walkable_cells(navmesh, self.cell_size)
                state.buffers["cells_walkable"][rows] = counts[navmesh.polygon_island[state.agents.polygon[rows]]]
        _visit_cells(state, "covered", "cells_covered", self.cell_size, indices)

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Mark the agents' current cells."""
        _visit_cells(state, "covered", "cells_covered", self.cell_size, np.nonzero(active)[0])

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the fractions [N]; at most 1, even if ``set_pose`` has moved an agent to another island."""
        return np.minimum(1.0, state.buffers["cells_covered"] / np.maximum(1, state.buffers["cells_walkable"]))


@dataclass(frozen=True, slots=True)
class AreaSeen(Measure):
    """The walkable area [N] float64, square metres, that each agent has seen.

    An agent sees the floor in a horizontal fan around its heading, up to ``reach`` metres and as far as it could walk
    straight. The area is that of the cells that the lines of the fan pass, so it is larger than the exact area by up to
    a cell at its border. Cells that are 128 apart count as the same cell, and storeys above each other share cells.

    Attributes:
        cell_size: Metres.
        reach: Metres.
        fan_deg: Angle of the fan, degrees.
    """

    cell_size: float = 0.5
    reach: float = 3.0
    fan_deg: float = 90.0

    name = "area_seen"

    def __post_init__(self) -> None:
        check_between(_LEAST_CELL, 1000, cell_size=self.cell_size)
        check_length(reach=self.reach)
        check_positive(fan_deg=self.fan_deg)
        check_between(0, 360, fan_deg=self.fan_deg)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the cells that were seen and their number."""
        return {"seen": np.zeros((num_envs, _SIDE, _SIDE), bool), "cells_seen": np.zeros(num_envs, np.int64)}

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Look around from the start."""
        self._look(state, np.isin(np.arange(state.num_envs), indices))

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Look from the current places."""
        self._look(state, active)

    def measure(self, state: TaskState) -> np.ndarray:
        """Return the areas [N]."""
        return state.buffers["cells_seen"] * self.cell_size**2

    def _look(self, state: TaskState, looking: np.ndarray) -> None:
        """Mark the cells that the agents of a mask [N] bool see."""
        # Neighbouring lines and neighbouring points of a line are at most half a cell apart.
        fan = np.radians(self.fan_deg)
        offsets = np.linspace(-fan / 2, fan / 2, int(np.ceil(2 * fan * self.reach / self.cell_size)) + 1)
        along = np.linspace(0, self.reach, int(np.ceil(2 * self.reach / self.cell_size)) + 1)
        for navmesh, rows in state.by_scene():
            rows = rows[looking[rows]]
            if not len(rows):
                continue
            position = state.agents.position[rows]
            angles = state.agents.heading[rows].astype(np.float64)[:, None] + offsets
            free = navmesh.sight_distance(position, angles, self.reach)
            metres = np.minimum(along, free[:, :, None])  # [M, R, S]
            x = np.floor((position[:, 0, None, None] - np.sin(angles)[:, :, None] * metres) / self.cell_size)
            z = np.floor((position[:, 2, None, None] - np.cos(angles)[:, :, None] * metres) / self.cell_size)
            seen = state.buffers["seen"]
            seen[rows[:, None, None], x.astype(np.int64) % _SIDE, z.astype(np.int64) % _SIDE] = True
            state.buffers["cells_seen"][rows] = seen[rows].sum(axis=(1, 2))


def _visit_cells(state: TaskState, visited: str, counts: str, cell_size: float, indices: np.ndarray) -> np.ndarray:
    """Mark and count the cells of agents ``indices`` [M] in two buffers, and return which [M] bool are new."""
    # Rounded down, since rounding towards zero would make the cells at the origin twice as wide.
    cell = np.floor(state.agents.position[indices] / cell_size).astype(np.int64) % _SIDE
    place = (indices, cell[:, 0], cell[:, 2])
    found = ~state.buffers[visited][place]
    state.buffers[visited][place] = True
    state.buffers[counts][indices] += found
    return found


_WALKABLE: WeakKeyDictionary[NavMesh, dict[float, np.ndarray]] = WeakKeyDictionary()  # by cell size


def walkable_cells(navmesh: NavMesh, cell_size: float) -> np.ndarray:
    """Return the number of cells [I] int64 that every island of a navmesh touches, as ``CellsVisited`` counts cells.

    A convex polygon and a cell touch unless an edge of one of them separates them (the separating axis theorem).
    """
    known = _WALKABLE.setdefault(navmesh, {})
    if cell_size not in known:
        cells: list[set[tuple[int, int]]] = [set() for _ in range(navmesh.num_islands)]
        for polygon, island in zip(navmesh.polygons, navmesh.polygon_island.tolist(), strict=True):
            outline = navmesh.vertices[polygon[polygon >= 0]][:, [0, 2]].astype(np.float64) / cell_size
            touched = _cells_of_polygon(outline) % _SIDE
            cells[island].update(map(tuple, touched.tolist()))
        known[cell_size] = np.array([len(each) for each in cells], np.int64)
    return known[cell_size]


def _cells_of_polygon(outline: np.ndarray) -> np.ndarray:
    """Return the unit cells [M, 2] int64 that a convex polygon [n, 2] touches."""
    low = np.floor(outline.min(axis=0)).astype(np.int64)
    high = np.floor(outline.max(axis=0)).astype(np.int64)
    axes = [np.arange(first, last + 1) for first, last in zip(low, high, strict=True)]
    cells = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    edges = np.roll(outline, -1, axis=0) - outline
    normals = np.stack([edges[:, 1], -edges[:, 0]], axis=1)  # [n, 2]
    of_polygon = outline @ normals.T  # [n vertices, n normals]
    corners = cells[:, None] + np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    of_cells = corners @ normals.T  # [M, 4, n]
    apart = (of_cells.max(axis=1) < of_polygon.min(axis=0)) | (of_cells.min(axis=1) > of_polygon.max(axis=0))
    return cells[~apart.any(axis=1)]


@dataclass(frozen=True, slots=True)
class Explore(Task):
    """Visit as many grid cells as possible within ``max_episode_steps``; STOP does nothing.

    It is a task of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021).

    Attributes:
        cell_size: Side of a cell, metres.
        cell_reward: Reward for each cell that is visited for the first time.
    """

    cell_size: float = 1.0
    cell_reward: float = 0.25

    sensors = (GPS(), Compass())
    has_goal = False

    def __post_init__(self) -> None:
        check_between(_LEAST_CELL, 1000, cell_size=self.cell_size)
        check_finite(cell_reward=self.cell_reward)

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The measures ``cells_visited``, ``path_length`` and ``collisions_count``."""
        return CellsVisited(self.cell_size), PathLength(), CollisionsCount()

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        return self.cell_reward * state.buffers["cells_found"]

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return False everywhere: only the time limit ends an episode."""
        return np.zeros(state.num_envs, bool)


@dataclass(frozen=True, slots=True)
class DistanceFromStart(KeptMeasure):
    """Distance [N] float64, metres, from each agent's start; inf if there is no path, for example after ``set_pose``.

    Attributes:
        geodesic: Measure along the shortest path; False for the straight line, which is faster to compute.
    """

    geodesic: bool = True

    name = "distance_from_start"

    def __post_init__(self) -> None:
        check_flags(geodesic=self.geodesic)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the distance and its change in the last step."""
        return {"distance_from_start": np.zeros(num_envs), "distance_gained": np.zeros(num_envs)}

    def placed(self, state: TaskState, indices: np.ndarray) -> None:
        """Measure the distances from the starts."""
        state.buffers["distance_from_start"][indices] = self._distances(state)[indices]

    def update(self, state: TaskState, actions: np.ndarray, active: np.ndarray) -> None:
        """Measure the distances from the starts."""
        before = state.buffers["distance_from_start"].copy()
        now = self._distances(state)
        known = np.isfinite(before) & np.isfinite(now)
        state.buffers["distance_from_start"][:] = now
        state.buffers["distance_gained"][:] = np.subtract(now, before, out=np.zeros_like(now), where=known)

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
    """Move as far as possible from the start within ``max_episode_steps``; STOP does nothing.

    It is a task of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021). The reward
    of a step is the increase of the distance from the start, in metres.

    Attributes:
        geodesic: Measure along shortest paths; False for straight lines.
    """

    geodesic: bool = True

    sensors = (GPS(), Compass())
    has_goal = False

    def __post_init__(self) -> None:
        check_flags(geodesic=self.geodesic)

    @property
    def measures(self) -> tuple[Measure, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The measures ``distance_from_start``, ``path_length`` and ``collisions_count``."""
        return DistanceFromStart(self.geodesic), PathLength(), CollisionsCount()

    def reward(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the reward [N] float64 of the step."""
        return state.buffers["distance_gained"]

    def terminated(self, state: TaskState, measures: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return False everywhere: only the time limit ends an episode."""
        return np.zeros(state.num_envs, bool)
