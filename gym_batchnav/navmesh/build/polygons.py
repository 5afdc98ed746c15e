"""Convex polygons from outlines: rings are triangulated by ear clipping, then triangles are merged.

This re-creates Recast's rcBuildPolyMesh: ``_triangulate`` its triangulate (ear clipping, O'Rourke 1998), ``_join``
getPolyMergeValue and mergePolyVerts, ``weld`` addVertex. Points are integers [.., 3]: cells in x and z, voxels in y.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.navmesh.build.contours import cross_inside, in_cone, same_place, touch, turn
from gym_batchnav.system.jit import ENTRY, INNER


@njit(**INNER)
def _is_diagonal(points: np.ndarray, ring: np.ndarray, count: int, first: int, last: int, loose: bool) -> bool:
    """Return whether the line between two of ``ring[:count]`` runs inside; if ``loose``, it may touch edges."""
    a = points[ring[first]]
    b = points[ring[last]]
    before = points[ring[(first - 1) % count]]
    after = points[ring[(first + 1) % count]]
    inside = in_cone(before, a, after, b)
    if loose and turn(before, a, after) <= 0:
        inside = turn(a, b, before) <= 0 and turn(b, a, after) <= 0
    if not inside:
        return False
    for k in range(count):
        following = (k + 1) % count
        if k == first or k == last or following == first or following == last:
            continue
        c = points[ring[k]]
        d = points[ring[following]]
        if same_place(a, c) or same_place(b, c) or same_place(a, d) or same_place(b, d):
            continue
        if cross_inside(a, b, c, d) or (not loose and touch(a, b, c, d)):
            return False
    return True


@njit(**INNER)
def _triangulate(points: np.ndarray) -> np.ndarray:
    """Triangulate a ring of points [N, 3] int32 by clipping the ear with the shortest cut: [T, 3] int64 rows of points.

    If the ring crosses itself, the triangles may cover only a part of it.
    """
    count = len(points)
    ring = np.arange(count)
    triangles = np.empty((count, 3), np.int64)
    num_triangles = 0
    # ear[k] is True if the vertex after ring[k] can be cut off.
    ear = np.zeros(count, np.bool_)
    for k in range(count):
        ear[k] = _is_diagonal(points, ring, count, k, (k + 2) % count, False)
    while count > 3:
        best = -1
        shortest = np.int64(2**62)
        for loose in range(2):
            for k in range(count):
                after = (k + 2) % count
                if not ear[k] and not (loose and _is_diagonal(points, ring, count, k, after, True)):
                    continue
                dx = np.int64(points[ring[k], 0]) - points[ring[after], 0]
                dz = np.int64(points[ring[k], 2]) - points[ring[after], 2]
                if dx * dx + dz * dz < shortest:
                    best = k
                    shortest = dx * dx + dz * dz
            if best >= 0:
                break
        if best < 0:
            return triangles[:num_triangles]
        tip = (best + 1) % count
        triangles[num_triangles, 0] = ring[best]
        triangles[num_triangles, 1] = ring[tip]
        triangles[num_triangles, 2] = ring[(best + 2) % count]
        num_triangles += 1
        count -= 1
        for k in range(tip, count):
            ring[k], ear[k] = ring[k + 1], ear[k + 1]
        here = (tip - 1) % count
        before = (here - 1) % count
        ear[before] = _is_diagonal(points, ring, count, before, (before + 2) % count, False)
        ear[here] = _is_diagonal(points, ring, count, here, (here + 2) % count, False)
    for k in range(3):
        triangles[num_triangles, k] = ring[k]
    return triangles[: num_triangles + 1]


@njit(**INNER)
def _join(
    points: np.ndarray,
    first: np.ndarray,
    first_size: int,
    second: np.ndarray,
    second_size: int,
    start: int,
    end: int,
    limit: int,
    joined: np.ndarray,
) -> int:
    """Write the union of two polygons that share the edge from ``start`` to ``end`` of the first.

    ``first`` and ``second`` [6] int32, ``start`` and ``end`` are rows of ``points``; those of the union are written to
    ``joined`` [12] int32.

    Returns:
        The number of vertices of the union, 0 if it is not strictly convex or has more than ``limit``.
    """
    size = first_size + second_size - 2
    if size > limit:
        return 0
    here = there = -1
    for k in range(first_size):
        if first[k] == start and first[(k + 1) % first_size] == end:
            here = k
    for k in range(second_size):
        if second[k] == end and second[(k + 1) % second_size] == start:
            there = k
    if here < 0 or there < 0:
        return 0
    for k in range(first_size - 1):
        joined[k] = first[(here + 1 + k) % first_size]
    for k in range(second_size - 1):
        joined[first_size - 1 + k] = second[(there + 1 + k) % second_size]
    for seam in (0, first_size - 1):
        before = joined[(seam - 1) % size]
        after = joined[(seam + 1) % size]
        if turn(points[before], points[joined[seam]], points[after]) >= 0:
            return 0
    return size


@njit(**ENTRY)
def polygonise(points: np.ndarray, ring: np.ndarray, limit: int) -> np.ndarray:
    """Divide the inside of a ring into convex polygons.

    Triangles are merged across the longest edges first. Triangles without area or with a repeated vertex are left out.

    ``ring`` [N] int64 are the rows of ``points`` along the outline; the ends of a bridge to a hole occur twice. A
    polygon has at most ``limit`` vertices, which is at most 6.

    Returns:
        [P, 6] int32, vertices padded with -1.
    """
    corners = _triangulate(points[ring])
    polygons = np.full((len(corners), 6), -1, np.int32)
    sizes = np.zeros(len(corners), np.int64)
    num_polygons = 0
    for row in range(len(corners)):
        a = ring[corners[row, 0]]
        b = ring[corners[row, 1]]
        c = ring[corners[row, 2]]
        if turn(points[a], points[b], points[c]) < 0:
            polygons[num_polygons, 0] = a
            polygons[num_polygons, 1] = b
            polygons[num_polygons, 2] = c
            sizes[num_polygons] = 3
            num_polygons += 1
    # Inner edges [E, 5]: the two polygons, the edge's vertices in the first's order, its squared length.
    edges = np.empty((3 * num_polygons, 5), np.int64)
    num_edges = 0
    for first in range(num_polygons):
        for second in range(first + 1, num_polygons):
            for k in range(3):
                a = polygons[first, k]
                b = polygons[first, (k + 1) % 3]
                for m in range(3):
                    if polygons[second, m] == b and polygons[second, (m + 1) % 3] == a and num_edges < len(edges):
                        dx = np.int64(points[a, 0]) - points[b, 0]
                        dz = np.int64(points[a, 2]) - points[b, 2]
                        edges[num_edges, 0] = first
                        edges[num_edges, 1] = second
                        edges[num_edges, 2] = a
                        edges[num_edges, 3] = b
                        edges[num_edges, 4] = dx * dx + dz * dz
                        num_edges += 1
    joined = np.full(12, -1, np.int32)
    while True:
        best = -1
        longest = 0
        for row in range(num_edges):
            first, second, start, end, squared = edges[row]
            if squared > longest and first != second:
                size = _join(
                    points, polygons[first], sizes[first], polygons[second], sizes[second], start, end, limit, joined
                )
                if size > 0:
                    best = row
                    longest = squared
        if best < 0:
            break
        first, second, start, end, _ = edges[best]
        sizes[first] = _join(
            points, polygons[first], sizes[first], polygons[second], sizes[second], start, end, limit, joined
        )
        for k in range(sizes[first]):
            polygons[first, k] = joined[k]
        sizes[second] = 0
        for row in range(num_edges):
            for side in range(2):
                if edges[row, side] == second:
                    edges[row, side] = first
    return polygons[:num_polygons][sizes[:num_polygons] > 0]


def weld(rings: list[np.ndarray], tolerance: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Merge the corners that rings [N, 3] int32 share.

    Corners are merged if they coincide seen from above and their heights differ by at most ``tolerance`` voxels.

    Returns:
        The vertices [V, 3] int32, and each ring as rows of them [N] int64.
    """
    vertices: list[list[int]] = []
    places: dict[tuple[int, int], list[int]] = {}
    indices = []
    for ring in rings:
        index = np.empty(len(ring), np.int64)
        for row, (x, y, z) in enumerate(ring.tolist()):
            known = places.setdefault((x, z), [])
            near = [vertex for vertex in known if abs(vertices[vertex][1] - y) <= tolerance]
            if not near:
                near = [len(vertices)]
                known.append(len(vertices))
                vertices.append([x, y, z])
            index[row] = near[0]
        indices.append(index)
    return np.array(vertices, np.int32).reshape(-1, 3), indices
