"""Tiles of a Detour mesh become one mesh: polygons are joined where edges at the borders of tiles overlap.

Detour links an edge to all edges across the border that it overlaps (dtNavMesh::connectExtLinks). Here an edge has one
neighbour, so edges are split where an overlap begins or ends, and polygons are divided there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gym_batchnav.navmesh.record import MAX_VERTICES, NavMeshData
from gym_batchnav.navmesh.topology import label_islands

MAX_OVERLAPS = (
    1 << 18
)  # pieces of edges, pairs of them, and triangles to clip: hostile files could have them without end
OVERLAPS_PER_EDGE = 64  # on borders; fewer than ten in files that Recast writes
MAX_CORNERS = 64  # of a polygon with all its splits; dividing it takes the cube of these
_FREE_EDGES = 64  # as if a mesh had as many more
_ALONG = 1e-3  # metres between ends of edges that count as one
_ACROSS = 0.01  # metres between edges that touch, as in Detour
_SIDES = {0: (2, 1), 2: (0, 1), 4: (2, 0), 6: (0, 0)}  # axis along the border; 1 for the side of larger coordinates


@dataclass(frozen=True, slots=True)
class Portal:
    """An edge on the border of a tile."""

    polygon: int
    edge: int
    side: int  # Detour's: 0 for +x, 2 for +z, 4 for -x, 6 for -z; odd ones never have edges
    tile: tuple[int, int]  # place in the grid, along x and z


@dataclass(slots=True)
class _Edge:
    """A portal with its place on the border."""

    portal: Portal
    ends: tuple[int, int]  # vertices with the smaller and the larger coordinate
    first: int = 0  # place of the first end among the border's stops
    last: int = 0


@dataclass(slots=True)
class _Mesh:
    """The mesh of all tiles; ``detail`` holds for each polygon its triangles as rows of ``points``."""

    points: np.ndarray  # [V + D, 3] float64, corners of polygons and points of details
    polygons: list[list[int]]
    links: list[list[int]]  # polygon across every edge, -1 for none
    details: list[np.ndarray]  # each [T, 3] int


def link_tiles(mesh: NavMeshData, portals: list[Portal], climb: float) -> NavMeshData:
    """Connect the tiles of a mesh across their borders.

    Args:
        mesh: The polygons of all tiles.
        portals: Their edges on borders.
        climb: The agent's, in metres; edges up to twice as far apart in height are connected, as in Detour.

    Raises:
        ValueError: If edges overlap far more often than in any real mesh.
    """
    sizes = (mesh.polygons >= 0).sum(axis=1).tolist()
    joined = _join(
        _Mesh(
            points=np.concatenate([mesh.vertices, mesh.detail_vertices]).astype(np.float64),
            polygons=[row[:size] for row, size in zip(mesh.polygons.tolist(), sizes, strict=True)],
            links=[row[:size] for row, size in zip(mesh.neighbours.tolist(), sizes, strict=True)],
            details=np.split(mesh.detail_triangles, mesh.detail_start[1:-1]),
        ),
        portals,
        climb if 0 <= climb < np.inf else 0.0,
    )
    polygons = np.full((len(joined.polygons), 6), -1)
    neighbours = np.full((len(joined.polygons), 6), -1)
    for row, (corners, links) in enumerate(zip(joined.polygons, joined.links, strict=True)):
        polygons[row, : len(corners)] = corners
        neighbours[row, : len(links)] = links
    triangles = np.concatenate(joined.details)
    used = np.unique(polygons[polygons >= 0])
    others = np.setdiff1d(triangles, used)
    rows = np.full(len(joined.points) + 1, -1)  # the last is for the padding
    rows[used] = np.arange(len(used))
    rows[others] = len(used) + np.arange(len(others))
    return NavMeshData(
        vertices=joined.points[used].astype(np.float32),
        polygons=rows[polygons].astype(np.int32),
        neighbours=neighbours.astype(np.int32),
        detail_vertices=joined.points[others].astype(np.float32),
        detail_triangles=rows[triangles].astype(np.int32),
        detail_start=np.cumsum([0, *map(len, joined.details)]).astype(np.int32),
        polygon_island=label_islands(neighbours),
        settings=mesh.settings,
        bounds=mesh.bounds,
    )


def _join(mesh: _Mesh, portals: list[Portal], climb: float) -> _Mesh:
    """Connect the polygons of neighbouring tiles; see ``link_tiles``."""
    joining = _Joining(mesh, climb, len(portals))
    borders: dict[tuple[int, int, int], tuple[list[_Edge], list[_Edge]]] = defaultdict(lambda: ([], []))
    for portal in portals:
        if portal.side not in _SIDES:
            continue
        axis, is_larger = _SIDES[portal.side]
        x, z = portal.tile
        if not is_larger:  # the border is named after the tile before it
            x, z = (x - 1, z) if axis == 2 else (x, z - 1)
        corners = mesh.polygons[portal.polygon]
        ends = corners[portal.edge], corners[(portal.edge + 1) % len(corners)]
        if mesh.points[ends[0], axis] > mesh.points[ends[1], axis]:
            ends = ends[1], ends[0]
        borders[axis, x, z][1 - is_larger].append(_Edge(portal, ends))
    for (axis, _, _), (ones, others) in borders.items():
        if ones and others:
            joining.join(axis, ones, others)
    return joining.result()


class _Joining:
    """The state of joining: vertices that became one, and where edges are split."""

    def __init__(self, mesh: _Mesh, climb: float, num_edges: int) -> None:
        self._mesh = mesh
        self._climb = climb
        self._points: list[np.ndarray] = list(mesh.points)
        self._root = list(range(len(self._points)))
        # By polygon and edge: by the share of the way along it, the vertex there and the polygon across from there on.
        self._splits: dict[tuple[int, int], list[tuple[float, int, int]]] = defaultdict(list)
        self._made: dict[tuple[int, int, int], int] = {}  # vertices by polygon, edge and stop
        self._num_overlaps = 0
        self._max_overlaps = min(MAX_OVERLAPS, OVERLAPS_PER_EDGE * (_FREE_EDGES + num_edges))

    def join(self, axis: int, ones: list[_Edge], others: list[_Edge]) -> None:
        """Connect the edges on both sides of a border, which runs along an axis."""
        edges = ones + others
        along = np.array([[self._points[end][axis] for end in edge.ends] for edge in edges])
        order = np.sort(along.ravel())
        stops = order[np.concatenate([[True], np.diff(order) > _ALONG])]
        places = np.searchsorted(stops, along, side="right") - 1
        for edge, (first, last) in zip(edges, places.tolist(), strict=True):
            edge.first, edge.last = first, last
        self._count(int((places[:, 1] - places[:, 0]).sum()))
        runs: dict[tuple[int, int], list[int]] = defaultdict(list)
        at_one, at_other = self._pieces(ones), self._pieces(others)
        for piece in sorted(at_one.keys() & at_other.keys()):
            for one, other in self._matches(axis, stops, piece, at_one[piece], at_other[piece], ones, others):
                runs[one, other].append(piece)
        for (one, other), pieces in runs.items():
            for start, end in _consecutive(pieces):
                self._connect(axis, stops, ones[one], others[other], start, end)

    def _count(self, number: int) -> None:
        self._num_overlaps += number
        if self._num_overlaps > self._max_overlaps:
            most = f"{self._max_overlaps:,}"
            raise ValueError(f"edges of its tiles overlap more than {most} times: build it as a single tile")

    @staticmethod
    def _pieces(edges: list[_Edge]) -> dict[int, list[int]]:
        """Return the edges that cover each piece between two stops."""
        found: dict[int, list[int]] = defaultdict(list)
        for number, edge in enumerate(edges):
            for piece in range(edge.first, edge.last):
                found[piece].append(number)
        return found

    def _matches(
        self,
        axis: int,
        stops: np.ndarray,
        piece: int,
        here: list[int],
        there: list[int],
        ones: list[_Edge],
        others: list[_Edge],
    ) -> Iterator[tuple[int, int]]:
        """Pair the edges at a piece of the border, those nearest in height first."""
        self._count(len(here) * len(there))
        found = []
        for one in here:
            for other in there:
                low, high = (
                    self._at(axis, others[other], stop) - self._at(axis, ones[one], stop)
                    for stop in (stops[piece], stops[piece + 1])
                )
                nearest = 0.0 if low[1] * high[1] < 0 else min(abs(low[1]), abs(high[1]))
                if nearest <= 2 * self._climb and abs(low[2 - axis]) <= _ACROSS:
                    found.append((nearest, one, other))
        taken: set[tuple[str, int]] = set()
        for _, one, other in sorted(found):
            if ("one", one) not in taken and ("other", other) not in taken:
                taken |= {("one", one), ("other", other)}
                yield one, other

    def _at(self, axis: int, edge: _Edge, stop: float) -> np.ndarray:
        """Return the point [3] of an edge at a coordinate along the border."""
        start, end = (self._points[vertex] for vertex in edge.ends)
        share = np.clip((stop - start[axis]) / max(end[axis] - start[axis], 1e-12), 0.0, 1.0)
        return start + share * (end - start)

    def _connect(self, axis: int, stops: np.ndarray, one: _Edge, other: _Edge, start: int, end: int) -> None:
        """Make two edges share the part of the border between two stops."""
        for mine, across in ((one, other), (other, one)):
            corners = self._mesh.polygons[mine.portal.polygon]
            is_forward = corners[mine.portal.edge] == mine.ends[0]
            vertices = [self._vertex(axis, stops, mine, stop) for stop in (start, end)]
            if mine is one:
                shared = vertices
            else:
                for first, second in zip(shared, vertices, strict=True):
                    self._unite(first, second)
            low, high = (self._share(axis, mine, vertex) for vertex in vertices)
            splits = self._splits[mine.portal.polygon, mine.portal.edge]
            begin, stop_at = (vertices[0], vertices[1]) if is_forward else (vertices[1], vertices[0])
            ways = (low, high) if is_forward else (1 - high, 1 - low)
            splits += [(ways[0], begin, across.portal.polygon), (ways[1], stop_at, -1)]

    def _share(self, axis: int, edge: _Edge, vertex: int) -> float:
        if vertex in edge.ends:
            return float(edge.ends.index(vertex))
        start, end = (self._points[one][axis] for one in edge.ends)
        return float((self._points[vertex][axis] - start) / (end - start))

    def _vertex(self, axis: int, stops: np.ndarray, edge: _Edge, stop: int) -> int:
        """Return the vertex of an edge at a stop, which is new unless the edge ends there."""
        if stop in (edge.first, edge.last):
            return edge.ends[int(stop == edge.last)]
        key = edge.portal.polygon, edge.portal.edge, stop
        if key not in self._made:
            self._made[key] = len(self._points)
            self._points.append(self._at(axis, edge, float(stops[stop])))
            self._root.append(len(self._root))
        return self._made[key]

    def _find(self, vertex: int) -> int:
        while self._root[vertex] != vertex:
            self._root[vertex] = self._root[self._root[vertex]]
            vertex = self._root[vertex]
        return vertex

    def _unite(self, first: int, second: int) -> None:
        first, second = sorted((self._find(first), self._find(second)))
        self._root[second] = first  # the older one, which a tile has

    def result(self) -> _Mesh:
        """Return the mesh with its edges split and its polygons divided; a vertex lies where its oldest part lay."""
        mesh = self._mesh
        rings: list[list[tuple[int, int]]] = []
        origins: list[int] = []
        details: list[np.ndarray] = []
        for polygon in range(len(mesh.polygons)):
            ring = self._ring(polygon)
            if len(ring) > MAX_CORNERS:
                raise ValueError(
                    f"a polygon touches more than {MAX_CORNERS} others of another tile: build a single tile"
                )
            straight = {vertex for vertex, _ in ring} - {self._find(corner) for corner in mesh.polygons[polygon]}
            parts = _divided(ring, np.array([self._points[vertex][::2] for vertex, _ in ring]), polygon, straight)
            rings += parts
            origins += [polygon] * len(parts)
            if len(parts) == 1:
                details.append(mesh.details[polygon])
            else:
                details += [self._clipped(mesh.details[polygon], part) for part in parts]
        owners = {
            (origin, vertex, ring[(k + 1) % len(ring)][0]): number
            for number, (origin, ring) in enumerate(zip(origins, rings, strict=True))
            for k, (vertex, _) in enumerate(ring)
        }
        links = [
            [owners.get((link, ring[(k + 1) % len(ring)][0], vertex), -1) for k, (vertex, link) in enumerate(ring)]
            for ring in rings
        ]
        return _Mesh(np.array(self._points), [[vertex for vertex, _ in ring] for ring in rings], links, details)

    def _ring(self, polygon: int) -> list[tuple[int, int]]:
        """Return the corners of a polygon with all splits, and the polygon across the edge after each."""
        ring: list[tuple[int, int]] = []
        corners = self._mesh.polygons[polygon]
        for edge, (corner, link) in enumerate(zip(corners, self._mesh.links[polygon], strict=True)):
            splits = self._splits.get((polygon, edge), [])
            stops = {self._find(corner): link}
            for _, vertex, across in sorted(splits, key=lambda split: (split[0], split[2] >= 0)):
                stops[self._find(vertex)] = across
            stops.pop(self._find(corners[(edge + 1) % len(corners)]), None)
            ring += stops.items()
        if len({vertex for vertex, _ in ring}) != len(ring):
            raise ValueError(f"polygon {polygon} has a border shorter than a millimetre: build it as a single tile")
        return ring

    def _clipped(self, triangles: np.ndarray, ring: list[tuple[int, int]]) -> np.ndarray:
        """Return the triangles [T, 3] of a detail mesh that lie in a part of its polygon."""
        self._count(len(triangles))
        outline = np.array([self._points[vertex] for vertex, _ in ring])
        found = []
        for triangle in triangles.tolist():
            piece = _clip(np.array([self._points[vertex] for vertex in triangle]), outline)
            if len(piece) >= 3:
                first = len(self._points)
                self._points += list(piece)
                self._root += range(first, len(self._points))
                found += [[first, first + k, first + k + 1] for k in range(1, len(piece) - 1)]
        vertices = [vertex for vertex, _ in ring]
        fan = [[vertices[0], vertices[k], vertices[k + 1]] for k in range(1, len(vertices) - 1)]
        return np.array(found or fan)


def _consecutive(pieces: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the first stop and the last of each run of pieces, which are sorted."""
    start = previous = pieces[0]
    for piece in [*pieces[1:], -1]:
        if piece != previous + 1:
            yield start, previous + 1
            start = piece
        previous = piece


def _area(points: np.ndarray) -> float:
    """Return twice the area of a polygon [K, 2], positive for Recast's winding."""
    after = np.roll(points, -1, axis=0)
    return float((points[:, 1] * after[:, 0] - points[:, 0] * after[:, 1]).sum())


def _divided(
    ring: list[tuple[int, int]], flat: np.ndarray, polygon: int, straight: set[int]
) -> list[list[tuple[int, int]]]:
    """Divide a convex polygon until no part has straight corners, or more corners than ``MAX_VERTICES``.

    Args:
        ring: The corners, each with the polygon across the edge after it.
        flat: [K, 2] float64, the corners seen from above.
        polygon: Its number, for the edges along which it is divided.
        straight: Vertices inside edges. Kernels could not tell through which of two edges in a line a ray leaves.
    """
    ends = np.array([vertex in straight for vertex, _ in ring])
    if not ends.any() and len(ring) <= MAX_VERTICES:
        return [ring]
    cross = flat[:, None, 1] * flat[None, :, 0] - flat[:, None, 0] * flat[None, :, 1]  # [K, K]
    up_to = np.concatenate([[0.0], np.cumsum(cross[np.arange(len(ring)), np.arange(1, len(ring) + 1) % len(ring)])])
    inside = up_to[None, :-1] - up_to[:-1, None] + cross.T  # twice the area that the line between two corners cuts off
    least = np.triu(np.minimum(inside, up_to[-1] - inside), 2)
    least[0, -1] = 0.0
    if ends.any():
        least = np.where(ends[:, None] | ends, least, 0.0)
    first, second = (int(at) for at in np.unravel_index(least.argmax(), least.shape))
    if least[first, second] <= 0:
        raise ValueError(f"polygon {polygon} has no area: build the navmesh again")
    one = [*ring[first:second], (ring[second][0], polygon)]
    other = [*ring[second:], *ring[:first], (ring[first][0], polygon)]
    rest = np.concatenate([flat[second:], flat[: first + 1]])
    left = straight - {ring[first][0], ring[second][0]}
    return _divided(one, flat[first : second + 1], polygon, left) + _divided(other, rest, polygon, left)


def _clip(piece: np.ndarray, outline: np.ndarray) -> np.ndarray:
    """Return the part [K, 3] of a polygon [N, 3] that lies in a convex one [M, 3] of Recast's winding, from above."""
    for start, end in zip(outline, np.roll(outline, -1, axis=0), strict=True):
        if not len(piece):
            break
        along = end - start
        inside = along[2] * (piece[:, 0] - start[0]) - along[0] * (piece[:, 2] - start[2])
        kept: list[np.ndarray] = []
        for k, point in enumerate(piece):
            after = (k + 1) % len(piece)
            if inside[k] >= 0:
                kept.append(point)
            if inside[k] * inside[after] < 0:
                kept.append(point + inside[k] / (inside[k] - inside[after]) * (piece[after] - point))
        piece = np.array(kept).reshape(-1, 3)
    return piece if len(piece) >= 3 and abs(_area(piece[:, ::2])) > 1e-9 else piece[:0]
