"""The NavMesh and what one can ask it: Habitat's PathFinder over arrays of points."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from gym_batchnav.navmesh import record
from gym_batchnav.navmesh.build import build_navmesh
from gym_batchnav.navmesh.detour import read_navmesh, write_navmesh
from gym_batchnav.navmesh.kernels.cells import Cells, make_cells
from gym_batchnav.navmesh.kernels.geodesic import corners_on_path, pair_distances
from gym_batchnav.navmesh.kernels.ground import Ground, cover_map, fill_heights, make_ground, snap_points
from gym_batchnav.navmesh.kernels.motion import move_points, wall_distances
from gym_batchnav.navmesh.kernels.tables import NavigationTables, make_goals
from gym_batchnav.navmesh.kernels.views import table_row
from gym_batchnav.navmesh.kernels.visibility import Corners, make_corners
from gym_batchnav.navmesh.record import NavMeshSettings

__all__ = ["Island", "NavMesh", "NavMeshSettings"]

NAVIGABLE_SHIFT = 1e-2  # metres seen from above by which a navigable point may be snapped


@dataclass(frozen=True, slots=True, eq=False)
class Island:
    """A set of polygons between which one can walk."""

    polygons: np.ndarray  # [n] int32, rows of the navmesh
    area: float  # square metres, measured along slopes
    radius: float  # metres: the largest distance of a vertex from the mean of the polygons' vertices


class NavMesh(record.NavMesh):
    """Convex polygons of up to six vertices on which agents walk; see ``record.NavMesh`` for the fields.

    Points are arrays [N, 3] in metres; wherever a method needs a point's polygon it snaps the point first. What
    queries need is computed at the first that needs it and kept.
    """

    @classmethod
    def build(
        cls,
        vertices: np.ndarray,
        triangles: np.ndarray,
        settings: NavMeshSettings | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> NavMesh:
        """Build the navmesh of a triangle soup; see ``build.build_navmesh``."""
        return cls.from_record(build_navmesh(vertices, triangles, settings or NavMeshSettings(), progress))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NavMesh:
        """Read a Habitat or Recast ``.navmesh`` file; see ``detour.read_navmesh``."""
        return cls.from_record(read_navmesh(path))

    @classmethod
    def from_record(cls, mesh: record.NavMesh) -> NavMesh:
        """The same polygons with the questions of this class."""
        return cls(*(getattr(mesh, field.name) for field in fields(record.NavMesh)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.navmesh`` file that Habitat and Recast's tools load."""
        write_navmesh(self, path)

    def __repr__(self) -> str:
        """Its counts, in a line."""
        area = f"{self.navigable_area:.1f} m2 on {self.num_islands} islands"
        return f"NavMesh({area}, {self.num_polygons:,} polygons, agent radius {self.settings.agent_radius:g} m)"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """How notebooks show it: from above, with its counts."""
        from gym_batchnav.viz.portraits import navmesh_bundle

        return navmesh_bundle(self, include, exclude)

    @cached_property
    def _ground(self) -> Ground:
        return make_ground(self)

    @cached_property
    def _row(self) -> np.ndarray:
        return table_row(self._ground)

    @cached_property
    def _corners(self) -> Corners:
        return make_corners(self._ground)

    @cached_property
    def _cells(self) -> Cells:
        return make_cells(self._ground, self._corners)

    def tables(self, goals: np.ndarray) -> NavigationTables:
        """What NavMeshAgents wants of this navmesh and of goals [G, 3] (metres, snapped first).

        Calls serial kernels without the GIL, so any thread may.

        Raises:
            ValueError: a goal lies nowhere near the navmesh.
        """
        goal_tables = make_goals(self._ground, self._corners, goals)
        return NavigationTables(self._ground, self._corners, self._cells, goal_tables)

    def geodesic_arrays(self) -> dict[str, np.ndarray]:
        """All that distances need besides the polygons, to be kept and given to ``use_geodesic_arrays``."""
        return {**self._corners._asdict(), **self._cells._asdict()}

    def use_geodesic_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take what ``geodesic_arrays`` of the same navmesh gave instead of computing it.

        Raises:
            ValueError: an array is missing.
        """
        missing = {*Corners._fields, *Cells._fields} - set(arrays)
        if missing:
            raise ValueError(f"geodesic arrays without {', '.join(sorted(missing))}")
        self.__dict__["_corners"] = Corners(*(arrays[name] for name in Corners._fields))
        self.__dict__["_cells"] = Cells(*(arrays[name] for name in Cells._fields))

    @property
    def bounds(self) -> np.ndarray:
        """[2, 3] float32, metres: the smallest and the largest corner; zeros if there are no polygons."""
        if not self.num_polygons:
            return np.zeros((2, 3), np.float32)
        boxes = self._ground.boxes
        return np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])

    @cached_property
    def polygon_area(self) -> np.ndarray:
        """[P] float64, square metres: area of every polygon's floor, measured along its slopes."""
        a, b, c = np.moveaxis(self._ground.surface, 1, 0)
        areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
        return np.add.reduceat(areas, self.detail_start[:-1]) if self.num_polygons else np.zeros(0)

    @cached_property
    def polygon_area_xz(self) -> np.ndarray:
        """[P] float64, square metres: area of every polygon seen from above."""
        outline = self._ground.outline
        fan = outline[:, 1:] - outline[:, :1]  # rows are padded with their first vertex
        return np.abs(fan[:, :-1, 0] * fan[:, 1:, 1] - fan[:, :-1, 1] * fan[:, 1:, 0]).sum(axis=1) / 2

    @property
    def navigable_area(self) -> float:
        """Square metres of floor on which an agent's middle can stand, measured along its slopes."""
        return float(self.polygon_area.sum())

    @cached_property
    def islands(self) -> tuple[Island, ...]:
        """The islands: sets of polygons between which one can walk, in the order of their numbers."""
        areas = np.bincount(self.polygon_island, self.polygon_area, self.num_islands)
        return tuple(
            Island(np.flatnonzero(self.polygon_island == number).astype(np.int32), float(area), float(radius))
            for number, (area, radius) in enumerate(zip(areas, self.island_radius, strict=True))
        )

    @cached_property
    def island_radius(self) -> np.ndarray:
        """[I] float64, metres: the largest distance of an island's vertex from the mean of its polygons' vertices."""
        used = self.polygons >= 0
        island = np.repeat(self.polygon_island, used.sum(axis=1))
        points = self.vertices[self.polygons[used]].astype(np.float64)
        count = np.bincount(island, minlength=self.num_islands)
        mean = np.stack([np.bincount(island, axis, self.num_islands) for axis in points.T], axis=1) / count[:, None]
        radius = np.zeros(self.num_islands)
        np.maximum.at(radius, island, np.linalg.norm(points - mean[island], axis=1))
        return radius

    def snap(self, points: np.ndarray) -> np.ndarray:
        """The nearest points [N, 3] float32 on the navmesh, NaN where none lies within (2, 4, 2) m along the axes."""
        return self.snap_with_polygon(points)[0]

    def snap_with_polygon(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nearest points [N, 3] float32 on the navmesh (NaN for none) and their polygons [N] int32 (-1 for none).

        A polygon above or below a point counts as near as ``max(0, |dy| - agent_max_climb)``.
        """
        return snap_points(self._ground, points)

    def is_navigable(self, points: np.ndarray, max_y_delta: float = 0.5) -> np.ndarray:
        """Whether points [N, 3] lie on the navmesh: [N] bool.

        Args:
            points: [N, 3], metres.
            max_y_delta: How far above or below the floor a point may lie, metres.
        """
        points = np.asarray(points, np.float64)
        shift = np.abs(self.snap(points) - points)
        return (np.hypot(shift[:, 0], shift[:, 2]) <= NAVIGABLE_SHIFT) & (shift[:, 1] <= max_y_delta)

    def move(self, starts: np.ndarray, ends: np.ndarray, sliding: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Walk straight from starts towards ends: Habitat's ``try_step``.

        Args:
            starts: [N, 3], metres; snapped first. One that is nowhere near the navmesh stays.
            ends: [N, 3], metres. Where the nearest polygon belongs to another island the agent stays.
            sliding: Slide along walls; False stops at them.

        Returns:
            Positions [N, 3] float32 and whether they collided [N] bool, by Habitat's test.
        """
        starts, polygons = self.snap_with_polygon(starts)
        ends = np.ascontiguousarray(ends, np.float64)
        if ends.shape != starts.shape:
            raise ValueError(f"ends of shape {ends.shape} for starts of shape {starts.shape}")
        out, collided = np.empty(starts.shape, np.float32), np.empty(len(starts), bool)
        move_points(self._row, polygons, starts.astype(np.float64), ends, sliding, out, collided)
        return out, collided

    def geodesic_distance(self, starts: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Length of the shortest path of every pair.

        Args:
            starts: [N, 3], metres.
            goals: [N, 3], metres.

        Returns:
            [N] float64, metres; inf across islands and for points nowhere near the navmesh.
        """
        (starts, polygons), (goals, goal_polygons) = self.snap_with_polygon(starts), self.snap_with_polygon(goals)
        if starts.shape != goals.shape:
            raise ValueError(f"goals of shape {goals.shape} for starts of shape {starts.shape}")
        out = np.empty(len(starts))
        pair_distances(self._ground, self._corners, polygons, starts, goal_polygons, goals, out)
        return out

    def shortest_path(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """The shortest path from start [3] to goal [3]: its points [M, 3] float32, none if there is no path."""
        ends, polygons = self.snap_with_polygon(np.stack([start, goal]))
        length, bends = corners_on_path(self._ground, self._corners, polygons[0], ends[0], polygons[1], ends[1])
        if not np.isfinite(length):
            return np.zeros((0, 3), np.float32)
        return np.concatenate([ends[:1], self._corners.point[bends].astype(np.float32), ends[1:]])

    def random_points(self, n: int, rng: np.random.Generator, island: int | None = None) -> np.ndarray:
        """Points [n, 3] float32 on the navmesh, uniform seen from above, on one island or on all."""
        return self.random_points_and_polygons(n, rng, island)[0]

    def random_points_and_polygons(
        self, n: int, rng: np.random.Generator, island: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Points as of ``random_points`` and the polygons [n] int32 they lie in.

        Raises:
            ValueError: If there is no polygon to choose from.
        """
        area = (
            self.polygon_area_xz
            if island is None
            else np.where(self.polygon_island == island, self.polygon_area_xz, 0.0)
        )
        if not area.sum() > 0:
            raise ValueError("the navmesh is empty" if island is None else f"the navmesh has no island {island}")
        draws = rng.random((n, 4))
        polygons = np.searchsorted(np.cumsum(area) / area.sum(), draws[:, 0], side="right").astype(np.int32)
        polygons = np.minimum(polygons, np.flatnonzero(area)[-1], dtype=np.int32)
        outline = self._ground.outline[polygons]
        fan = outline[:, 1:] - outline[:, :1]
        sizes = np.abs(fan[:, :-1, 0] * fan[:, 1:, 1] - fan[:, :-1, 1] * fan[:, 1:, 0]).cumsum(axis=1)
        triangle = (draws[:, 1:2] * sizes[:, -1:] >= sizes[:, :-1]).sum(axis=1)
        rows, root = np.arange(n), np.sqrt(draws[:, 2:3])
        edge, far_edge = fan[rows, triangle], fan[rows, triangle + 1]
        spot = outline[:, 0] + root * (edge + draws[:, 3:] * (far_edge - edge))
        points = np.empty((n, 3), np.float32)
        points[:, 0], points[:, 2] = spot.T
        fill_heights(self._ground, polygons, points)
        return points, polygons

    def distance_to_obstacle(self, points: np.ndarray, max_distance: float = 2.0) -> np.ndarray:
        """Distance of points [N, 3] to the nearest wall, seen from above.

        Returns:
            [N] float64, metres, at most ``max_distance``; NaN for points nowhere near the navmesh.
        """
        snapped, polygons = self.snap_with_polygon(points)
        out = np.empty(len(snapped))
        wall_distances(self._ground, polygons, snapped, max_distance, out)
        return out

    def top_down_map(self, cell: float = 0.05, height: float | None = None) -> np.ndarray:
        """Where one can stand, seen from above.

        Args:
            cell: Distance of the samples, metres.
            height: Only floors within 0.5 m of it; None takes every floor.

        Returns:
            [Z, X] bool; item (j, i) is the point at x = bounds[0, 0] + i * cell, z = bounds[0, 2] + j * cell.

        Raises:
            ValueError: If the cell is not positive.
        """
        if not cell > 0:
            raise ValueError(f"cell={cell}: give a positive length in metres")
        low, high = self.bounds.astype(np.float64)
        nx, nz = (int(n) for n in np.floor((high - low)[[0, 2]] / cell) + 1)
        if height is None:
            covered = np.zeros((nz, nx), bool)
            cover_map(self._ground, low[0], low[2], cell, NAVIGABLE_SHIFT, covered)
            return covered
        x, z = np.meshgrid(low[0] + np.arange(nx) * cell, low[2] + np.arange(nz) * cell)
        points = np.stack([x, np.full_like(x, height), z], axis=-1)
        return self.is_navigable(points.reshape(-1, 3)).reshape(nz, nx)
