"""NavMesh: the queries of Habitat's PathFinder for arrays of points."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.navmesh.build import build_navmesh
from gym_batchnav.navmesh.detour import read_navmesh, write_navmesh
from gym_batchnav.navmesh.kernels.cells import make_cells
from gym_batchnav.navmesh.kernels.detour_path import detour_distances, detour_points
from gym_batchnav.navmesh.kernels.floor import check_drops, lower_points, make_drops, no_drops
from gym_batchnav.navmesh.kernels.geodesic import corners_on_path, pair_distances, sight_distances
from gym_batchnav.navmesh.kernels.ground import cover_map, fan_areas, fill_heights, make_ground, snap_points
from gym_batchnav.navmesh.kernels.layout import Cells, Corners, Drops, Goals, Ground, check_parts, make_row
from gym_batchnav.navmesh.kernels.motion import move_points, wall_distances
from gym_batchnav.navmesh.kernels.tables import NavigationTables, make_goals
from gym_batchnav.navmesh.kernels.visibility import make_corners
from gym_batchnav.navmesh.record import NavMeshData, NavMeshSettings, is_detour
from gym_batchnav.system.numbers import check_finite, check_length, check_not_negative
from gym_batchnav.system.wording import counted

__all__ = ["Island", "NavMesh", "NavMeshData", "NavMeshSettings"]

NAVIGABLE_SHIFT = 1e-2  # metres: the largest horizontal distance at which a point near the navmesh is navigable
SUFFIX = ".navmesh"  # of the files that are written
MAX_RANDOM_POINTS = 1 << 24  # per call
_FAR = 1e12  # metres, beyond all navmeshes; kernels compute with ends that are no farther away
MAX_MAP_SAMPLES = 1 << 26  # of a top-down map, one byte each


@dataclass(frozen=True, slots=True, eq=False)
class Island:
    """A maximal set of polygons connected by walkable paths."""

    polygons: np.ndarray  # [n] int32, rows of the navmesh
    area: float  # square metres, measured along slopes
    radius: float  # metres: the largest distance of a vertex from the mean of the polygons' vertices


class NavMesh:
    """Convex polygons of up to six vertices on which agents walk.

    Points are arrays [N, 3] in metres; methods that need a point's polygon snap the point first. Tables are computed
    when a query first needs them, and then kept.

    Args:
        data: The polygons; see ``NavMeshData`` for shapes and conventions.
    """

    def __init__(self, data: NavMeshData) -> None:
        self.data = data

    @classmethod
    def build(
        cls,
        vertices: np.ndarray,
        triangles: np.ndarray,
        settings: NavMeshSettings | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> NavMesh:
        """Build the navmesh of a triangle soup; see ``build.build_navmesh``."""
        return cls(build_navmesh(vertices, triangles, settings, progress))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NavMesh:
        """Read a Habitat or Recast ``.navmesh`` file; see ``detour.read_navmesh``."""
        return cls(read_navmesh(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ``.navmesh`` file that Habitat loads.

        Raises:
            ValueError: If the path does not end in ``.navmesh``, or the navmesh is empty or too large for the format.
        """
        if Path(path).suffix.lower() != SUFFIX:
            raise ValueError(f"navmesh file '{os.fspath(path)}': the name must end in {SUFFIX}")
        write_navmesh(self.data, path)

    def __reduce__(self) -> tuple[type[NavMesh], tuple[NavMeshData]]:
        """Return the polygons; tables computed by queries are not pickled."""
        return NavMesh, (self.data,)

    @property
    def vertices(self) -> np.ndarray:
        """Vertices of the polygons [V, 3] float32, metres."""
        return self.data.vertices

    @property
    def polygons(self) -> np.ndarray:
        """Rows of ``vertices`` [P, 6] int32, padded with -1."""
        return self.data.polygons

    @property
    def neighbours(self) -> np.ndarray:
        """Polygon across every edge [P, 6] int32, -1 for a wall."""
        return self.data.neighbours

    @property
    def polygon_island(self) -> np.ndarray:
        """Island of every polygon [P] int32."""
        return self.data.polygon_island

    @property
    def settings(self) -> NavMeshSettings:
        """The settings that the navmesh was built with."""
        return self.data.settings

    @property
    def num_polygons(self) -> int:
        """The number of polygons, P."""
        return self.data.num_polygons

    @property
    def num_islands(self) -> int:
        """The number of islands, the sets of polygons connected by walkable paths."""
        return self.data.num_islands

    def __repr__(self) -> str:
        """Return the area and the counts in one line."""
        area = f"{self.navigable_area:.1f} m2 on {counted(self.num_islands, 'island')}"
        num_polygons = counted(self.num_polygons, "polygon")
        return f"NavMesh({area}, {num_polygons}, agent radius {self.settings.agent_radius:g} m)"

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Show the navmesh in notebooks, as a map with its counts."""
        from gym_batchnav.viz.notebook import navmesh_bundle

        return navmesh_bundle(self, include, exclude)

    @cached_property
    def _ground(self) -> Ground:
        return make_ground(self.data)

    @cached_property
    def _row(self) -> np.ndarray:
        return make_row([self._ground])

    @cached_property
    def _corners(self) -> Corners:
        return make_corners(self._ground)

    @cached_property
    def _cells(self) -> Cells:
        return make_cells(self._ground, self._corners)

    def tables(
        self, goals: np.ndarray | Goals, drops: Drops | None = None, first_goal: np.ndarray | None = None
    ) -> NavigationTables:
        """Prepare this navmesh and goals [G, 3] (metres, snapped first; or prepared before) for ``NavMeshAgents``.

        Any thread may call this: the kernels are serial and release the GIL. Without ``drops`` the visible floor is
        assumed to be at the height of the navmesh. ``first_goal`` [H + 1] int is the first goal of every set of goals;
        by default every goal is a separate set.

        Raises:
            ValueError: If a goal lies nowhere near the navmesh, or the tables would take too much memory.
        """
        goal_tables = goals if isinstance(goals, Goals) else make_goals(self._ground, self._corners, goals, first_goal)
        drops = no_drops(self.num_polygons) if drops is None else drops
        return NavigationTables(self._ground, self._corners, self._cells, goal_tables, drops)

    def drops(self, vertices: np.ndarray, triangles: np.ndarray) -> Drops:
        """Measure the distance of a scene's visible floor below this navmesh; see ``kernels.floor.make_drops``.

        Args:
            vertices: [V, 3] float32, metres.
            triangles: [T, 3] int32, rows of ``vertices``.
        """
        return make_drops(self._ground, self.settings, vertices, triangles)

    def check_drops(self, drops: Drops) -> None:
        """Raise ValueError unless drops, such as those from a cache, are safe to use with this navmesh."""
        check_parts(self._ground, drops)
        check_drops(drops)

    def visible_floor(self, points: np.ndarray, drops: Drops) -> np.ndarray:
        """Return the points [N, 3] float32 of the visible floor at points [N, 3], snapped first; NaN for none.

        Raises:
            ValueError: If the drops are those of another navmesh.
        """
        self.check_drops(drops)
        snapped, polygons = self.snap_with_polygon(points)
        lower_points(self._ground, drops, polygons, snapped)
        return snapped

    def geodesic_arrays(self) -> dict[str, np.ndarray]:
        """Return what distances need in addition to the polygons, for a cache and ``use_geodesic_arrays``."""
        return {**self._corners._asdict(), **self._cells._asdict()}

    def use_geodesic_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Use the result of ``geodesic_arrays`` of the same navmesh instead of computing it.

        Raises:
            ValueError: If an array is missing, has a wrong dtype or shape, or holds an index out of range, because the
                arrays are damaged or those of another navmesh or version. The navmesh is then unchanged.
        """
        missing = {*Corners._fields, *Cells._fields} - set(arrays)
        if missing:
            raise ValueError(f"geodesic arrays: {', '.join(sorted(missing))} are missing")
        corners = Corners(*(arrays[name] for name in Corners._fields))
        cells = Cells(*(arrays[name] for name in Cells._fields))
        check_parts(self._ground, corners, cells)
        self.__dict__["_corners"] = corners
        self.__dict__["_cells"] = cells

    @property
    def bounds(self) -> np.ndarray:
        """[2, 3] float32, metres: the box that the navmesh's file states, as in Habitat; else ``floor_bounds``."""
        return self.data.bounds if len(self.data.bounds) else self.floor_bounds

    @property
    def floor_bounds(self) -> np.ndarray:
        """[2, 3] float32, metres: the box around the polygons; zeros if there are none."""
        if not self.num_polygons:
            return np.zeros((2, 3), np.float32)
        boxes = self._ground.boxes
        return np.stack([boxes[:, 0].min(axis=0), boxes[:, 1].max(axis=0)])

    @cached_property
    def polygon_area(self) -> np.ndarray:
        """[P] float64, square metres: area of every polygon's floor, measured along its slopes."""
        a, b, c = np.moveaxis(self._ground.surface, 1, 0)
        areas = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
        return np.add.reduceat(areas, self.data.detail_start[:-1]) if self.num_polygons else np.zeros(0)

    @cached_property
    def polygon_area_xz(self) -> np.ndarray:
        """[P] float64, square metres: area of every polygon seen from above."""
        return fan_areas(self._ground.outline).sum(axis=1)

    @property
    def navigable_area(self) -> float:
        """The area that an agent's centre can reach, in square metres, measured along slopes."""
        return float(self.polygon_area.sum())

    @cached_property
    def islands(self) -> tuple[Island, ...]:
        """The islands, the sets of polygons connected by walkable paths, in the order of their numbers."""
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
        """Return the nearest points [N, 3] float32 on the navmesh, NaN if none lies within (2, 4, 2) m in x, y, z."""
        return self.snap_with_polygon(points)[0]

    def snap_with_polygon(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest points [N, 3] float32 on the navmesh, NaN for none, and their polygons [N] int32, or -1.

        The distance of a polygon above or below a point counts as ``max(0, |dy| - agent_max_climb)``.
        """
        return snap_points(self._ground, points)

    def is_navigable(self, points: np.ndarray, max_y_delta: float = 0.5) -> np.ndarray:
        """Return whether points lie on the navmesh: [N] bool.

        Args:
            points: [N, 3], metres.
            max_y_delta: Largest distance of a point above or below the floor, metres.
        """
        points = np.asarray(points, np.float64)
        shift = np.abs(self.snap(points) - points)
        return (np.hypot(shift[:, 0], shift[:, 2]) <= NAVIGABLE_SHIFT) & (shift[:, 1] <= max_y_delta)

    def move(self, starts: np.ndarray, ends: np.ndarray, sliding: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Walk straight from starts towards ends: Habitat's ``try_step``.

        Args:
            starts: [N, 3], metres; snapped first. A start that is not near the navmesh is returned as it is.
            ends: [N, 3], metres. An agent does not move if its end is not near the navmesh, or if the polygon nearest
                to its end is on another island.
            sliding: Slide along walls; False stops at them.

        Returns:
            The positions reached [N, 3] float32, and whether Habitat counts a collision [N] bool.
        """
        snapped, polygons = self.snap_with_polygon(starts)
        snapped = np.where(polygons[:, None] >= 0, snapped, starts).astype(np.float64)
        ends = np.where(np.isnan(ends), np.inf, ends)  # NaN is as far away as inf
        ends = np.ascontiguousarray(np.clip(ends, -_FAR, _FAR), np.float64)
        if ends.shape != snapped.shape:
            raise ValueError(f"ends have the shape {ends.shape} and starts {snapped.shape}: pass equal shapes")
        nearest = self.snap_with_polygon(ends)[1]
        moves = (polygons >= 0) & (nearest >= 0)
        moves[moves] = self.polygon_island[polygons[moves]] == self.polygon_island[nearest[moves]]
        polygons = np.where(moves, polygons, np.int32(-1))
        out = np.empty(snapped.shape, np.float32)
        collided = np.empty(len(snapped), bool)
        move_points(self._row, polygons, snapped, ends, sliding, out, collided)
        return out, collided

    def geodesic_distance(self, starts: np.ndarray, goals: np.ndarray, method: str = "exact") -> np.ndarray:
        """Return the length of the shortest path from every start to the goal in the same row.

        Args:
            starts: [N, 3], metres.
            goals: [N, 3], metres.
            method: ``"exact"``, or ``"detour"`` for the lengths of the paths that Habitat finds, which may be longer.

        Returns:
            [N] float64, metres; inf across islands and for points that are not near the navmesh.
        """
        (starts, polygons), (goals, goal_polygons) = self.snap_with_polygon(starts), self.snap_with_polygon(goals)
        if starts.shape != goals.shape:
            raise ValueError(f"goals have the shape {goals.shape} and starts {starts.shape}: pass equal shapes")
        out = np.empty(len(starts))
        if is_detour(method):
            detour_distances(self._ground, polygons, starts, goal_polygons, goals, out)
        else:
            pair_distances(self._ground, self._corners, polygons, starts, goal_polygons, goals, out)
        return out

    def shortest_path(self, start: np.ndarray, goal: np.ndarray, method: str = "exact") -> np.ndarray:
        """Return the points [M, 3] float32 of the path from start [3] to goal [3]; none if unreachable.

        ``method`` is that of ``geodesic_distance``.
        """
        ends, polygons = self.snap_with_polygon(np.stack([start, goal]))
        if is_detour(method):
            return detour_points(self._ground, polygons, ends)
        length, bends = corners_on_path(self._ground, self._corners, polygons, ends)
        if not np.isfinite(length):
            return np.zeros((0, 3), np.float32)
        return np.concatenate([ends[:1], self._corners.point[bends].astype(np.float32), ends[1:]])

    def random_points(self, n: int, rng: np.random.Generator, island: int | np.ndarray | None = None) -> np.ndarray:
        """Return points [n, 3] float32, uniform seen from above, on one island, those of a mask [I] bool, or all."""
        return self.random_points_and_polygons(n, rng, island)[0]

    def random_points_and_polygons(
        self, n: int, rng: np.random.Generator, island: int | np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return points as ``random_points`` does, and the polygons [n] int32 that they lie in.

        Raises:
            TypeError: If ``rng`` is not a NumPy generator or ``n`` not an integer.
            ValueError: If ``n`` is out of range or there is no polygon to choose from.
        """
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng={rng!r}: pass a NumPy generator, such as np.random.default_rng(0)")
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)):
            raise TypeError(f"n={n!r}: pass the number of points as an integer")
        if not 0 <= n <= MAX_RANDOM_POINTS:
            raise ValueError(f"n={n}: pass a number of points from 0 to {MAX_RANDOM_POINTS:,}")
        area = self.polygon_area_xz
        if island is not None:
            mask = island if isinstance(island, np.ndarray) else np.arange(self.num_islands) == island
            if mask.shape != (self.num_islands,) or mask.dtype != bool:
                raise ValueError(f"island={island!r}: pass a number, or a mask of {self.num_islands} bools")
            area = np.where(mask[self.polygon_island], area, 0.0)
        if not area.sum() > 0:
            if island is None:
                raise ValueError("the navmesh is empty: build it for a smaller agent_radius")
            islands = f"0 to {self.num_islands - 1}, or a mask with a True"
            raise ValueError(f"island={island!r} names no island: pass {islands}")
        draws = rng.random((n, 4))
        polygons = np.searchsorted(np.cumsum(area) / area.sum(), draws[:, 0], side="right").astype(np.int32)
        polygons = np.minimum(polygons, np.flatnonzero(area)[-1], dtype=np.int32)
        outline = self._ground.outline[polygons]
        fan = outline[:, 1:] - outline[:, :1]
        sizes = fan_areas(outline).cumsum(axis=1)
        triangle = (draws[:, 1:2] * sizes[:, -1:] >= sizes[:, :-1]).sum(axis=1)
        rows = np.arange(n)
        root = np.sqrt(draws[:, 2:3])
        edge = fan[rows, triangle]
        far_edge = fan[rows, triangle + 1]
        spot = outline[:, 0] + root * (edge + draws[:, 3:] * (far_edge - edge))
        points = np.empty((n, 3), np.float32)
        points[:, 0], points[:, 2] = spot.T
        fill_heights(self._ground, polygons, points)
        return points, polygons

    def distance_to_obstacle(self, points: np.ndarray, max_distance: float = 2.0) -> np.ndarray:
        """Return the horizontal distance of points [N, 3] to the nearest wall.

        Returns:
            [N] float64, metres, at most ``max_distance``; NaN for points that are not near the navmesh.

        Raises:
            ValueError: If a coordinate is not finite, or ``max_distance`` is negative or NaN.
        """
        if not max_distance >= 0:
            raise ValueError(f"max_distance={max_distance}: pass a length in metres that is not negative")
        if not np.isfinite(np.asarray(points, np.float64)).all():
            raise ValueError("points: some coordinates are not finite: leave those points out")
        snapped, polygons = self.snap_with_polygon(points)
        out = np.empty(len(snapped))
        wall_distances(self._ground, polygons, snapped, max_distance, out)
        return out

    def sight_distance(self, points: np.ndarray, headings: np.ndarray, reach: float) -> np.ndarray:
        """Return how far one can walk straight ahead from points [N, 3] in directions [N, R], radians.

        Returns:
            [N, R] float64, metres, at most ``reach``; 0 for points that are not near the navmesh.

        Raises:
            ValueError: If a heading is not finite, or ``reach`` is negative or not finite.
        """
        check_not_negative(reach=reach)
        snapped, polygons = self.snap_with_polygon(points)
        headings = np.ascontiguousarray(headings, np.float64)
        if headings.ndim != 2 or len(headings) != len(snapped) or not np.isfinite(headings).all():
            raise ValueError(f"headings have the shape {headings.shape}: pass finite numbers, one row per point")
        out = np.empty(headings.shape)
        sight_distances(self._ground, polygons, snapped, headings, float(reach), out)
        return out

    def top_down_map(self, cell: float = 0.05, height: float | None = None) -> np.ndarray:
        """Return a map of the walkable area, seen from above.

        Args:
            cell: Distance between samples, metres.
            height: Include only floors within 0.5 m of this height, metres; None includes every floor.

        Returns:
            [Z, X] bool; item (j, i) is the point at x = bounds[0, 0] + i * cell, z = bounds[0, 2] + j * cell.

        Raises:
            ValueError: If the cell is not positive, or so small that the map would exceed its limit, or the height is
                not finite.
        """
        check_length(cell=cell)
        check_finite(height=0.0 if height is None else height)
        low, high = self.bounds.astype(np.float64)
        size = (high - low)[::2]
        samples = float(np.prod(size / cell + 1))
        if samples > MAX_MAP_SAMPLES:
            smallest = np.sqrt(size.prod() / MAX_MAP_SAMPLES) + size.sum() / MAX_MAP_SAMPLES
            raise ValueError(
                f"cell={cell}: a map of {size[0]:.4g} x {size[1]:.4g} m would have {samples:.3g} samples, the limit is "
                f"{MAX_MAP_SAMPLES:,}: pass a cell of {1.05 * smallest:.2g} m or more"
            )
        nx, nz = (int(n) for n in np.floor(size / cell) + 1)
        if height is None:
            covered = np.zeros((nz, nx), bool)
            cover_map(self._ground, low[0], low[2], cell, NAVIGABLE_SHIFT, covered)
            return covered
        x = low[0] + np.arange(nx) * cell
        rows = np.empty((nz, nx), bool)
        for row, z in enumerate(low[2] + np.arange(nz) * cell):
            rows[row] = self.is_navigable(np.stack([x, np.full(nx, height), np.full(nx, z)], axis=-1))
        return rows
