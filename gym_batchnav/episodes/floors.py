"""The islands of a navmesh on which sampled episodes begin and end: floors, not roofs or tops of furniture."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gym_batchnav.episodes.sampling import SamplingRules
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.scene import Scene

FLOORS = ("main", "habitat")
"""The rules of ``floors=``: the largest island of each storey, or as Habitat all islands with a radius of 1.5 m."""

_CELL = 0.5  # metres, the grid on which islands are compared
_POINTS_PER_CELL = 8  # random points; a cell without any is rare
_MAX_POINTS = 200_000
_SKY_POINTS = 16  # points of an island from which the sky is searched
_HEADROOM = 0.5  # metres above an island, from where geometry counts as above it
_STOREY = 1.5  # metres, the least height between two storeys
_MOST = 0.5  # share of an island
_LEAST_SHARE = 0.1  # of the largest island's area; smaller islands are not storeys
_SAME_FLOOR = 0.5  # metres between the heights of two parts of one storey


def floor_islands(scene: Scene, navmesh: NavMesh, floors: str = "main") -> np.ndarray:
    """Return whether each island [I] bool is one on which episodes begin and end.

    ``"habitat"`` gives all islands with a radius of 1.5 m or more, as Habitat's generator does: also roofs, tops of
    walls and of furniture where an agent could stand. ``"main"`` gives the largest island of each storey among them:

    - An island is a roof if most of it lies above lower islands and under the open sky. Roofs are left out.
    - Of the others the largest is a storey. Each further one, by size, is another storey if it has at least a tenth of
      the largest island's area, most of it lies above or below the storeys found so far, and none of these has floor
      within 1.5 m of its mean height.

    Tops of walls and wardrobes have no floor below, so that they are not storeys. A storey that lies under the open sky
    above another one, without stairs between them, cannot be told from a roof.

    Args:
        scene: The scene.
        navmesh: Its navmesh.
        floors: ``"main"`` or ``"habitat"``.
    """
    large = navmesh.island_radius >= SamplingRules().min_island_radius
    return large if floors == "habitat" else _floors_and_roofs(scene, navmesh, large)[0]


def _floors_and_roofs(scene: Scene, navmesh: NavMesh, large: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the masks [I] bool of the floors and roofs among the ``large`` islands [I] bool, see ``floor_islands``."""
    if large.sum() < 2:
        return large, np.zeros_like(large)
    area = np.bincount(navmesh.polygon_island, navmesh.polygon_area, navmesh.num_islands)
    candidates = large & (area >= _LEAST_SHARE * area[large].max())
    by_size = [island for island in np.argsort(-area, kind="stable").tolist() if candidates[island]]
    columns = _Columns(navmesh, by_size)
    roofs = [island for island in by_size if columns.is_high(island) and _is_open(scene, navmesh, island)]
    storeys: list[int] = []
    for island in by_size:
        if island not in roofs and (not storeys or columns.is_another_storey(island, storeys)):
            storeys.append(island)
    numbers = np.arange(navmesh.num_islands)
    return np.isin(numbers, storeys), np.isin(numbers, roofs)


def island_kinds(scene: Scene, navmesh: NavMesh) -> list[str]:
    """Return the kind of each island.

    ``"floor"`` is where episodes begin and end unless ``floors="habitat"``, ``"roof"`` a large island above others
    under the open sky. The rest lies ``"above the floor"`` (tops of furniture and walls) or ``"below the floor"`` by
    more than the agent climbs, or is ``"cut off"``. All are ``"too small"`` if no episodes can be sampled.
    """
    floors, roofs = _floors_and_roofs(scene, navmesh, navmesh.island_radius >= SamplingRules().min_island_radius)
    if not floors.any():
        return ["too small"] * navmesh.num_islands
    polygons = [navmesh.polygons[island.polygons] for island in navmesh.islands]
    corners = [navmesh.vertices[rows[rows >= 0]] for rows in polygons]
    ground = np.concatenate([corners[number] for number in np.flatnonzero(floors)])
    kinds = []
    for number, own in enumerate(corners):
        center = own.mean(axis=0)
        height = center[1] - ground[np.linalg.norm(ground - center, axis=1).argmin(), 1]
        rest = "cut off" if abs(height) <= navmesh.settings.agent_max_climb else "above the floor"
        rest = "below the floor" if height < -navmesh.settings.agent_max_climb else rest
        kinds.append("floor" if floors[number] else "roof" if roofs[number] else rest)
    return kinds


def cut_off_islands(scene: Scene, navmesh: NavMesh) -> np.ndarray:
    """Return whether each island [I] bool is a large part of a storey that no path connects to its main island.

    It has a radius of 1.5 m or more, at least a tenth of the largest island's area, and the height of a main island.
    """
    main = floor_islands(scene, navmesh)
    area = np.array([island.area for island in navmesh.islands])
    large = (navmesh.island_radius >= SamplingRules().min_island_radius) & (area >= _LEAST_SHARE * area.max())
    corners = [navmesh.polygons[island.polygons] for island in navmesh.islands]
    heights = [navmesh.vertices[rows[rows >= 0], 1] for rows in corners]
    levels = np.concatenate([heights[number] for number in np.flatnonzero(main)] or [np.zeros(0)])
    gaps = np.array([np.abs(levels - one.mean()).min(initial=np.inf) for one in heights])
    return large & ~main & (gaps < _SAME_FLOOR)


class _Columns:
    """The heights of some islands on a grid seen from above."""

    def __init__(self, navmesh: NavMesh, islands: Iterable[int]) -> None:
        area = np.bincount(navmesh.polygon_island, navmesh.polygon_area_xz, navmesh.num_islands)
        self._heights: dict[int, dict[tuple[int, int], float]] = {}
        self._levels: dict[int, np.ndarray] = {}
        for island in islands:
            count = int(min(_MAX_POINTS, 64 + _POINTS_PER_CELL * area[island] / _CELL**2))
            points = navmesh.random_points(count, np.random.default_rng(0), island)
            cells, row = np.unique(np.floor(points[:, [0, 2]] / _CELL).astype(np.int64), axis=0, return_inverse=True)
            heights = np.bincount(row.reshape(-1), points[:, 1]) / np.bincount(row.reshape(-1))
            self._heights[island] = dict(zip(map(tuple, cells.tolist()), heights.tolist(), strict=True))
            self._levels[island] = np.sort(heights)

    def is_high(self, island: int) -> bool:
        """Return whether most of an island lies above lower islands."""
        others = [heights for other, heights in self._heights.items() if other != island]
        own = self._heights[island]
        above = sum(any(heights.get(cell, np.inf) < height for heights in others) for cell, height in own.items())
        return above > _MOST * len(own)

    def is_another_storey(self, island: int, storeys: Iterable[int]) -> bool:
        """Return whether most of an island lies above or below storeys, all of which have other heights."""
        own = self._heights[island]
        shared = sum(any(cell in self._heights[storey] for storey in storeys) for cell in own)
        mean = self._levels[island].mean()
        gaps = [np.abs(self._levels[storey] - mean).min() for storey in storeys]
        return shared > _MOST * len(own) and min(gaps) >= _STOREY


def _is_open(scene: Scene, navmesh: NavMesh, island: int) -> bool:
    """Return whether most of an island lies under the open sky."""
    corners = scene.vertices[scene.triangles]  # [T, 3, 3]
    low = corners.min(axis=1)
    high = corners.max(axis=1)
    points = navmesh.random_points(_SKY_POINTS, np.random.default_rng(0), island).astype(np.float64)
    num_open = 0
    for point in points:
        overhead = (low[:, 0] <= point[0]) & (high[:, 0] >= point[0]) & (low[:, 2] <= point[2])
        overhead &= (high[:, 2] >= point[2]) & (high[:, 1] > point[1] + _HEADROOM)
        num_open += not _covers(corners[overhead].astype(np.float64), point)
    return num_open > _MOST * len(points)


def _covers(corners: np.ndarray, point: np.ndarray) -> bool:
    """Return whether a triangle of [T, 3, 3] lies more than the headroom straight above a point [3]."""
    a, b, c = (corners[:, corner] - point for corner in range(3))
    weights = np.stack([b[:, 0] * c[:, 2] - b[:, 2] * c[:, 0], c[:, 0] * a[:, 2] - c[:, 2] * a[:, 0],
                        a[:, 0] * b[:, 2] - a[:, 2] * b[:, 0]], axis=1)  # fmt: skip
    total = weights.sum(axis=1)
    inside = ((weights * np.sign(total)[:, None]) >= 0).all(axis=1) & (total != 0)
    height = (weights * np.stack([a[:, 1], b[:, 1], c[:, 1]], axis=1)).sum(axis=1)
    return bool((height[inside] / total[inside] > _HEADROOM).any())
