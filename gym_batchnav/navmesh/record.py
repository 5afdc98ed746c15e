"""The NavMesh record: where an agent can stand, as convex polygons with neighbours, heights and islands.

This module lies at the bottom of the package: whoever makes a navmesh (``build``, ``detour``) makes this record, and
``mesh.NavMesh`` is the same record with the questions one can ask it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

MAX_VERTICES = 6  # of a polygon


@dataclass(frozen=True, slots=True)
class NavMeshSettings:
    """How a navmesh is built from triangles; the defaults are Habitat's (lengths in metres unless said)."""

    cell_size: float = 0.05
    cell_height: float = 0.2
    agent_height: float = 1.5
    agent_radius: float = 0.1
    agent_max_climb: float = 0.2
    agent_max_slope_deg: float = 45.0
    region_min_size: float = 20.0  # cells, the side of a square
    region_merge_size: float = 20.0  # cells, the side of a square
    edge_max_len: float = 12.0
    edge_max_error: float = 1.3  # cells
    verts_per_poly: int = 6
    detail_sample_dist: float = 6.0  # cells
    detail_sample_max_error: float = 1.0  # cell heights
    filter_low_hanging_obstacles: bool = True
    filter_ledge_spans: bool = True
    filter_walkable_low_height_spans: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class NavMesh:
    """Convex polygons of up to six vertices, joined across their edges.

    Polygons wind as in Detour's files. Row ``p`` of ``polygons`` and of ``neighbours`` is padded with -1 behind its
    last vertex; ``neighbours[p, i]`` lies across the edge from vertex ``i`` to the next, -1 is a wall. The floor's
    height inside polygon ``p`` is that of ``detail_triangles[detail_start[p]:detail_start[p + 1]]``, whose indices
    count through ``vertices`` first and ``detail_vertices`` after them.

    Raises:
        ValueError: If an array has the wrong shape or type, or an index points nowhere.
    """

    vertices: np.ndarray  # [V, 3] float32, metres
    polygons: np.ndarray  # [P, 6] int32
    neighbours: np.ndarray  # [P, 6] int32
    detail_vertices: np.ndarray  # [D, 3] float32, metres
    detail_triangles: np.ndarray  # [T, 3] int32
    detail_start: np.ndarray  # [P + 1] int32
    polygon_island: np.ndarray  # [P] int32, island of every polygon, numbered by their first polygon
    settings: NavMeshSettings

    def __post_init__(self) -> None:
        """Refuse arrays that the kernels could not walk safely."""
        num_polygons = len(self.polygons)
        _expect("vertices", self.vertices, np.float32, (-1, 3))
        _expect("polygons", self.polygons, np.int32, (num_polygons, MAX_VERTICES))
        _expect("neighbours", self.neighbours, np.int32, (num_polygons, MAX_VERTICES))
        _expect("detail_vertices", self.detail_vertices, np.float32, (-1, 3))
        _expect("detail_triangles", self.detail_triangles, np.int32, (-1, 3))
        _expect("detail_start", self.detail_start, np.int32, (num_polygons + 1,))
        _expect("polygon_island", self.polygon_island, np.int32, (num_polygons,))
        if not (np.isfinite(self.vertices).all() and np.isfinite(self.detail_vertices).all()):
            raise ValueError("navmesh vertices: some coordinates are not finite")
        _expect_range("polygons", self.polygons, -1, len(self.vertices))
        _expect_range("neighbours", self.neighbours, -1, num_polygons)
        _expect_range("detail_triangles", self.detail_triangles, 0, len(self.vertices) + len(self.detail_vertices))
        _expect_range("polygon_island", self.polygon_island, 0, max(num_polygons, 1))
        used = self.polygons >= 0
        if (used[:, 1:] & ~used[:, :-1]).any() or (used.sum(axis=1) < 3).any():
            raise ValueError("navmesh polygons: every row needs 3 to 6 vertices, then only -1")
        if ((self.neighbours >= 0) & ~used).any():
            raise ValueError("navmesh neighbours: an edge that does not exist has a neighbour")
        near, edge = np.nonzero(self.neighbours >= 0)
        far = self.neighbours[near, edge]
        if not (self.neighbours[far] == near[:, None]).any(axis=1).all():
            raise ValueError("navmesh neighbours: a polygon's neighbour does not share its edge")
        steps = np.diff(self.detail_start)
        if self.detail_start[0] != 0 or self.detail_start[-1] != len(self.detail_triangles) or (steps < 1).any():
            raise ValueError("navmesh detail_start: it must rise from 0 to the number of detail triangles")

    @property
    def num_polygons(self) -> int:
        """The number of polygons, P."""
        return len(self.polygons)

    @property
    def num_islands(self) -> int:
        """The number of islands: sets of polygons between which one can walk."""
        return int(self.polygon_island.max()) + 1 if len(self.polygon_island) else 0


NAVMESH_ARRAYS = tuple(field.name for field in fields(NavMesh) if field.name != "settings")


def _expect(name: str, array: np.ndarray, dtype: type, shape: tuple[int, ...]) -> None:
    fits = array.ndim == len(shape) and all(want in (-1, have) for have, want in zip(array.shape, shape, strict=True))
    if array.dtype != dtype or not fits:
        wanted = ", ".join("n" if size < 0 else str(size) for size in shape)
        raise ValueError(f"navmesh {name}: {array.dtype} {array.shape} where {np.dtype(dtype)} ({wanted}) is wanted")


def _expect_range(name: str, indices: np.ndarray, low: int, end: int) -> None:
    if indices.size and not (indices.min() >= low and indices.max() < end):
        raise ValueError(f"navmesh {name}: indices must lie in [{low}, {end})")
