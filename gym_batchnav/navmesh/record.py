"""NavMeshData: the walkable area as convex polygons with neighbours, heights and islands.

``build`` and ``detour`` return this record, and ``mesh.NavMesh`` answers queries on it. Kernels do not check bounds, so
a record that would make one read outside its arrays cannot be constructed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from gym_batchnav.system.numbers import (
    check_between,
    check_choice,
    check_length,
    check_not_negative,
    check_whole,
    is_number,
    unwrap_numpy,
)

GEODESICS = ("exact", "detour")  # methods that measure distances: the shortest paths, and those of Habitat
MAX_VERTICES = 6  # per polygon
MAX_POLYGONS = 1 << 17
MAX_POINTS = 1 << 22  # limit of vertices, of detail vertices and of detail triangles
LARGEST = 1e15  # of any setting; kernels hold it as int64 or float32
MAX_COORDINATE = 1e6  # metres; float32 resolves 6 cm there
# Since float32 rounds coordinates, a corner may lie this far inside the line between its neighbours. In 16 navmeshes
# (8 of Recast, 8 of this package) all corners lie at least 1.4 mm outside it.
ROUNDING = 4 * float(np.finfo(np.float32).eps)  # relative to the largest coordinate
MAX_DENT = 1e-5  # metres, in addition to ROUNDING


@dataclass(frozen=True, slots=True)
class NavMeshSettings:
    """Settings for building a navmesh from triangles; lengths are in metres if no unit is given.

    The defaults are Habitat's.
    """

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
    detail_sample_dist: float = 6.0  # cells; below 0.9 heights are not sampled between corners
    detail_sample_max_error: float = 1.0  # cell heights
    filter_low_hanging_obstacles: bool = True
    filter_ledge_spans: bool = True
    filter_walkable_low_height_spans: bool = True

    def __post_init__(self) -> None:
        """Check the values, and convert those of NumPy, so that JSON holds them and equal settings look the same.

        Raises:
            ValueError: If a setting is not a number or a flag, or is out of its range.
        """
        for setting in fields(self):
            value = getattr(self, setting.name)
            is_flag = isinstance(value, (bool, np.bool_))
            if isinstance(setting.default, bool) and not is_flag:
                raise ValueError(f"{setting.name}={value!r:.100}: pass True or False")
            if not isinstance(setting.default, bool) and not (is_number(value) and value <= LARGEST):
                raise ValueError(f"{setting.name}={value!r:.100}: pass a number of at most {LARGEST:g}")
            if setting.name in ("cell_size", "cell_height", "agent_height"):
                check_length(**{setting.name: value})
            elif not is_flag:
                check_not_negative(**{setting.name: value})
        if self.agent_max_slope_deg >= 90:
            raise ValueError(f"agent_max_slope_deg={self.agent_max_slope_deg}: pass a slope from 0 to below 90 degrees")
        check_whole(verts_per_poly=self.verts_per_poly)
        check_between(3, MAX_VERTICES, verts_per_poly=self.verts_per_poly)
        unwrap_numpy(self)


@dataclass(frozen=True, slots=True, eq=False)
class NavMeshData:
    """Convex polygons of up to six vertices, connected across shared edges.

    Polygons wind as in Detour's files: the cross product (x, z) of successive edges is negative. Row ``p`` of
    ``polygons`` and of ``neighbours`` is padded with -1 after its last vertex. ``neighbours[p, i]`` is the polygon
    across the edge from vertex ``i`` to the next, or -1 for a wall. The height of the floor inside polygon ``p`` is
    that of ``detail_triangles[detail_start[p]:detail_start[p + 1]]``; their indices refer to ``vertices`` followed by
    ``detail_vertices``.

    Raises:
        ValueError: If an array has a wrong shape or type, an index is out of range, a polygon is not convex or winds
            the wrong way, or there are too many polygons.
    """

    vertices: np.ndarray  # [V, 3] float32, metres
    polygons: np.ndarray  # [P, 6] int32
    neighbours: np.ndarray  # [P, 6] int32
    detail_vertices: np.ndarray  # [D, 3] float32, metres
    detail_triangles: np.ndarray  # [T, 3] int32
    detail_start: np.ndarray  # [P + 1] int32
    polygon_island: np.ndarray  # [P] int32, island of every polygon; islands are numbered by their first polygon
    settings: NavMeshSettings
    # [2, 3] float32, metres, the box that a file states, usually that of the scene; [0, 3] for none
    bounds: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.float32))

    def __post_init__(self) -> None:
        """Check everything that kernels rely on."""
        self._check_arrays()
        self._check_indices()
        self._check_neighbours()
        self._check_convexity()

    def _check_arrays(self) -> None:
        """Check dtypes, shapes, sizes and coordinates."""
        num_polygons = len(self.polygons)
        _expect("vertices", self.vertices, np.float32, (-1, 3))
        _expect("polygons", self.polygons, np.int32, (num_polygons, MAX_VERTICES))
        _expect("neighbours", self.neighbours, np.int32, (num_polygons, MAX_VERTICES))
        _expect("detail_vertices", self.detail_vertices, np.float32, (-1, 3))
        _expect("detail_triangles", self.detail_triangles, np.int32, (-1, 3))
        _expect("detail_start", self.detail_start, np.int32, (num_polygons + 1,))
        _expect("polygon_island", self.polygon_island, np.int32, (num_polygons,))
        _expect("bounds", self.bounds, np.float32, (2 if len(self.bounds) else 0, 3))
        if not np.isfinite(self.bounds).all() or (self.bounds[:1] > self.bounds[1:]).any():
            raise ValueError("navmesh bounds: they must be finite, and the lower ones not greater than the upper ones")
        if num_polygons > MAX_POLYGONS:
            raise ValueError(
                f"navmesh polygons: there are {num_polygons:,}, the limit is {MAX_POLYGONS:,}: build with a larger "
                "cell_size or split the scene"
            )
        for name in ("vertices", "detail_vertices", "detail_triangles"):
            array = getattr(self, name)
            if len(array) > MAX_POINTS:
                raise ValueError(
                    f"navmesh {name}: there are {len(array):,}, the limit is {MAX_POINTS:,}: build with a larger "
                    "cell_size or detail_sample_dist"
                )
            if array.dtype == np.float32 and not np.isfinite(array).all():
                raise ValueError(f"navmesh {name}: some coordinates are not finite")
            if array.dtype == np.float32 and array.size and np.abs(array).max() > MAX_COORDINATE:
                raise ValueError(
                    f"navmesh {name}: a coordinate is {np.abs(array).max():g} m, the limit is {MAX_COORDINATE:g} m: "
                    "check that the unit is the metre, and move the scene nearer to the origin"
                )

    def _check_indices(self) -> None:
        """Check that every index is within its array."""
        num_polygons = len(self.polygons)
        _expect_range("polygons", self.polygons, -1, len(self.vertices))
        _expect_range("neighbours", self.neighbours, -1, num_polygons)
        _expect_range("detail_triangles", self.detail_triangles, 0, len(self.vertices) + len(self.detail_vertices))
        _expect_range("polygon_island", self.polygon_island, 0, max(num_polygons, 1))
        used = self.polygons >= 0
        if (used[:, 1:] & ~used[:, :-1]).any() or (used.sum(axis=1) < 3).any():
            raise ValueError("navmesh polygons: every row must hold 3 to 6 vertices followed by -1")
        if ((self.neighbours >= 0) & ~used).any():
            raise ValueError("navmesh neighbours: an edge that does not exist has a neighbour")
        steps = np.diff(self.detail_start)
        if self.detail_start[0] != 0 or self.detail_start[-1] != len(self.detail_triangles) or (steps < 1).any():
            raise ValueError("navmesh detail_start: values must rise from 0 to the number of detail triangles")

    def _check_neighbours(self) -> None:
        """Check that neighbours share an edge, traverse it in opposite directions and belong to one island."""
        owner, edge, start, end = polygon_edges(self.polygons)
        across = self.neighbours[owner, edge].astype(np.int64)
        inner = across >= 0
        factors = np.array([MAX_POLYGONS * len(self.vertices), len(self.vertices), 1])  # rows become unique numbers
        forth = np.stack([owner, across, start], axis=1)[inner]
        back = np.stack([across, owner, end], axis=1)[inner]
        unmatched = ~np.isin(forth @ factors, back @ factors)
        if unmatched.any():
            polygon = owner[inner][np.flatnonzero(unmatched)[0]]
            raise ValueError(f"navmesh neighbours: polygon {polygon} has a neighbour that does not share its edge")
        if (self.polygon_island[owner[inner]] != self.polygon_island[across[inner]]).any():
            raise ValueError("navmesh polygon_island: two neighbours lie on different islands")

    def _check_convexity(self) -> None:
        """Check that every polygon is convex seen from above, winds the right way and has an area.

        An outline whose corners all turn the same way, by one full turn in total, does not cross itself.
        """
        if not len(self.polygons):
            return
        before, after = _corner_edges(self.vertices[:, ::2].astype(np.float64), self.polygons)
        used = self.polygons >= 0
        cross = before[..., 0] * after[..., 1] - before[..., 1] * after[..., 0]
        dot = (before * after).sum(axis=-1)
        longest = np.maximum(np.linalg.norm(before, axis=-1), np.linalg.norm(after, axis=-1))
        slack = longest * (MAX_DENT + ROUNDING * np.abs(self.vertices[:, ::2]).max())
        turned = np.where(used, np.arctan2(cross, dot), 0.0).sum(axis=1)
        dented = (used & ~(cross <= slack)).any(axis=1)
        crossing = np.abs(turned + 2 * np.pi) > 1.0
        flat = (used & (longest <= 0)).any(axis=1)
        wrong = dented | crossing | flat
        if wrong.any():
            polygon = int(np.flatnonzero(wrong)[0])
            reason = "is not convex"
            if turned[polygon] > 0:
                reason = "winds the wrong way"
            elif flat[polygon] or not (cross[polygon][used[polygon]] < 0).any():
                reason = "has no area"
            elif not dented[polygon]:
                reason = "crosses itself"
            raise ValueError(
                f"navmesh polygons: polygon {polygon} {reason} seen from above ({int(wrong.sum())} of {len(wrong)} are "
                "wrong); polygons must be convex and wind as Recast's do: build the navmesh again"
            )

    @property
    def num_polygons(self) -> int:
        """The number of polygons, P."""
        return len(self.polygons)

    @property
    def num_islands(self) -> int:
        """The number of islands: sets of polygons between which one can walk."""
        return int(self.polygon_island.max()) + 1 if len(self.polygon_island) else 0


NAVMESH_ARRAYS = tuple(one.name for one in fields(NavMeshData) if one.name != "settings")


def _corner_edges(points: np.ndarray, polygons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges [P, 6, 2] to and from every corner of polygons with vertices [V, 2], padded with 0."""
    used = polygons >= 0
    size = used.sum(axis=1)[:, None]
    corner = np.arange(MAX_VERTICES)
    rows = np.arange(len(polygons))[:, None]
    here = points[np.where(used, polygons, polygons[:, :1])]
    after = here[rows, np.where(corner + 1 < size, corner + 1, 0)] - here
    before = here - here[rows, np.where(corner == 0, size - 1, corner - 1)]
    return np.where(used[..., None], before, 0.0), np.where(used[..., None], after, 0.0)


def _expect(name: str, array: np.ndarray, dtype: type, shape: tuple[int, ...]) -> None:
    fits = array.ndim == len(shape) and all(want in (-1, have) for have, want in zip(array.shape, shape, strict=True))
    if array.dtype != dtype or not fits:
        expected = ", ".join("n" if size < 0 else str(size) for size in shape)
        raise ValueError(f"navmesh {name}: {array.dtype} {array.shape}, expected {np.dtype(dtype)} ({expected})")


def _expect_range(name: str, indices: np.ndarray, low: int, end: int) -> None:
    if indices.size and not (indices.min() >= low and indices.max() < end):
        raise ValueError(f"navmesh {name}: indices must lie in [{low}, {end})")


def shared_edge_neighbours(polygons: np.ndarray) -> np.ndarray:
    """Return the neighbours [P, 6] int32 of polygons [P, 6]: -1 for a wall and after the last vertex.

    Two polygons are neighbours if one traverses an edge from a to b and the other from b to a. If more than two
    polygons share an edge, the first polygon in each direction is used, so the relation is always symmetric.
    """
    neighbours = np.full(polygons.shape, -1, np.int32)
    owner, edge, start, end = polygon_edges(polygons)
    if len(owner) == 0:
        return neighbours
    width = np.int64(polygons.max()) + 1
    key, first = np.unique(start * width + end, return_index=True)
    reverse = end[first] * width + start[first]
    place = np.minimum(np.searchsorted(key, reverse), len(key) - 1)
    found = key[place] == reverse
    here = first[found]
    there = first[place[found]]
    neighbours[owner[here], edge[here]] = owner[there]
    return neighbours


def polygon_edges(polygons: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """List the edges of padded polygons [P, 6]: polygon, index in it, first and second vertex, each [E] int64."""
    owner, edge = np.nonzero(polygons >= 0)
    size = (polygons >= 0).sum(axis=1)
    start = polygons[owner, edge].astype(np.int64)
    end = polygons[owner, (edge + 1) % size[owner]].astype(np.int64)
    return owner, edge, start, end


def label_islands(neighbours: np.ndarray) -> np.ndarray:
    """Return the islands [P] int32 of polygons with neighbours [P, 6], numbered by their first polygons."""
    islands = np.full(len(neighbours), -1, np.int32)
    rows = neighbours.tolist()
    count = 0
    for seed in range(len(rows)):
        if islands[seed] >= 0:
            continue
        islands[seed] = count
        stack = [seed]
        while stack:
            for other in rows[stack.pop()]:
                if other >= 0 and islands[other] < 0:
                    islands[other] = count
                    stack.append(other)
        count += 1
    return islands


def is_detour(method: str) -> bool:
    """Return whether a method is Detour's, the one that Habitat uses, instead of the exact one.

    Raises:
        ValueError: If the method is unknown.
    """
    check_choice("method", method, GEODESICS)
    return method == "detour"
