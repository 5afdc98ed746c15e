"""The height detail of polygons: triangulations that follow ramps and stairs.

This re-creates Recast's rcBuildPolyMeshDetail: ``_floor_near`` its getHeight, ``_edge_samples`` and ``_inner_samples``
the sampling in buildPolyDetail, ``_insert`` and ``_flip`` its delaunayHull, here by Lawson's flips (1977).

Shared arguments: ``points`` [n, 3] float64 are a polygon's vertices and those added to it, ``triangles`` [.., 3] int64
are rows of them.

Lengths are cells in x and z and voxels in y throughout, so that corners of polygons have integer coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY, INNER, SMALL

MAX_ADDED = 120  # vertices per polygon, so that Detour's 8-bit counts of vertices and triangles suffice
MAX_TRIANGLES = 2 * MAX_ADDED + 4
SEARCH_RINGS = 2  # rings of cells searched for the floor of a place: simplified outlines deviate by no more
ON_EDGE = 1e-6  # square cells


class Floors(NamedTuple):
    """The open spans of all regions, column by column."""

    start: np.ndarray  # [columns + 1] int32, first span of every column
    height: np.ndarray  # [S] int16, voxels
    region: np.ndarray  # [S] int32
    width: int  # columns along x


@njit(**SMALL)
def _area(points: np.ndarray, a: int, b: int, c: int) -> float:
    """Return twice the area of a triangle seen from above, positive for triangles that wind as polygons do."""
    return (points[c, 0] - points[a, 0]) * (points[b, 2] - points[a, 2]) - (points[b, 0] - points[a, 0]) * (
        points[c, 2] - points[a, 2]
    )


@njit(**INNER)
def _floor_near(floors: Floors, x: float, z: float, own: int, other: int, expected: float) -> float:
    """Return the floor of two regions at (x, z) or in the nearest cells that have one, else ``expected``.

    If there are several floors, the one nearest to the expected height is returned.
    """
    start, height, region, width = floors
    depth = (len(start) - 1) // width
    cx = min(max(int(np.floor(x + 0.01)), 0), width - 1)
    cz = min(max(int(np.floor(z + 0.01)), 0), depth - 1)
    for ring in range(SEARCH_RINGS + 1):
        found = expected
        error = np.inf
        for nz in range(max(cz - ring, 0), min(cz + ring, depth - 1) + 1):
            for nx in range(max(cx - ring, 0), min(cx + ring, width - 1) + 1):
                if abs(nx - cx) != ring and abs(nz - cz) != ring:
                    continue
                for span in range(start[nz * width + nx], start[nz * width + nx + 1]):
                    difference = abs(height[span] - expected)
                    if difference < error and (region[span] == own or region[span] == other):
                        found = float(height[span])
                        error = difference
        if error < np.inf:
            return found
    return expected


@njit(**INNER)
def _locate(points: np.ndarray, triangles: np.ndarray, count: int, x: float, z: float) -> tuple[int, float]:
    """Return the triangle that contains (x, z), or the nearest one, and the height there."""
    best = 0
    slack = -np.inf
    height = 0.0
    for row in range(count):
        a, b, c = triangles[row]
        total = _area(points, a, b, c)
        u = (points[b, 0] - points[c, 0]) * (z - points[c, 2]) - (points[b, 2] - points[c, 2]) * (x - points[c, 0])
        v = (points[c, 0] - points[a, 0]) * (z - points[a, 2]) - (points[c, 2] - points[a, 2]) * (x - points[a, 0])
        u = u / total
        v = v / total
        w = 1.0 - u - v
        least = min(u, v, w)
        if least > slack:
            best = row
            slack = least
            height = u * points[a, 1] + v * points[b, 1] + w * points[c, 1]
    return best, height


@njit(**INNER)
def _across(triangles: np.ndarray, count: int, start: int, end: int) -> tuple[int, int]:
    """Return the triangle with an edge from ``start`` to ``end`` and the corner opposite to it; -1 twice for none."""
    for row in range(count):
        for k in range(3):
            if triangles[row, k] == start and triangles[row, (k + 1) % 3] == end:
                return row, (k + 2) % 3
    return -1, -1


@njit(**SMALL)
def _set_triangle(triangles: np.ndarray, row: int, a: int, b: int, c: int) -> None:
    """Write the corners of a triangle."""
    triangles[row, 0] = a
    triangles[row, 1] = b
    triangles[row, 2] = c


@njit(**INNER)
def _insert(points: np.ndarray, triangles: np.ndarray, count: int, new: int) -> int:
    """Add vertex ``new`` to a triangulation and restore the Delaunay property; return the number of triangles."""
    row, _ = _locate(points, triangles, count, points[new, 0], points[new, 2])
    a, b, c = triangles[row]
    edge = -1
    for k in range(3):
        if abs(_area(points, triangles[row, k], triangles[row, (k + 1) % 3], new)) < ON_EDGE:
            edge = k
    if edge < 0:
        _set_triangle(triangles, row, a, b, new)
        _set_triangle(triangles, count, b, c, new)
        _set_triangle(triangles, count + 1, c, a, new)
        count += 2
    else:
        start = triangles[row, edge]
        end = triangles[row, (edge + 1) % 3]
        tip = triangles[row, (edge + 2) % 3]
        other, k = _across(triangles, count, end, start)
        _set_triangle(triangles, row, tip, start, new)
        _set_triangle(triangles, count, tip, new, end)
        count += 1
        if other >= 0:
            tip = triangles[other, k]
            _set_triangle(triangles, other, tip, end, new)
            _set_triangle(triangles, count, tip, new, start)
            count += 1
    _flip(points, triangles, count)
    return count


@njit(**SMALL)
def _opening(points: np.ndarray, tip: int, a: int, b: int) -> tuple[float, float]:
    """Return the cosine and the sine of the angle at ``tip`` between a and b, both times the lengths of its sides."""
    ax = points[a, 0] - points[tip, 0]
    az = points[a, 2] - points[tip, 2]
    bx = points[b, 0] - points[tip, 0]
    bz = points[b, 2] - points[tip, 2]
    return ax * bx + az * bz, abs(ax * bz - az * bx)


@njit(**INNER)
def _flip(points: np.ndarray, triangles: np.ndarray, count: int) -> None:
    """Flip inner edges until every triangle's circumcircle is empty."""
    for _ in range(4 * count):
        flipped = False
        for row in range(count):
            for k in range(3):
                a = triangles[row, k]
                b = triangles[row, (k + 1) % 3]
                c = triangles[row, (k + 2) % 3]
                other, m = _across(triangles, count, b, a)
                if other < 0:
                    continue
                d = triangles[other, m]
                if _area(points, a, d, c) <= ON_EDGE or _area(points, d, b, c) <= ON_EDGE:
                    continue
                # The flipped edge is better if the angles opposite to the edge add up to more than 180 degrees.
                cos_c, sin_c = _opening(points, c, a, b)
                cos_d, sin_d = _opening(points, d, a, b)
                if sin_c * cos_d + cos_c * sin_d < -1e-9 * (sin_c + sin_d):
                    _set_triangle(triangles, row, a, d, c)
                    _set_triangle(triangles, other, d, b, c)
                    flipped = True
                    break
        if not flipped:
            return


@njit(**INNER)
def _edge_samples(
    points: np.ndarray,
    a: int,
    b: int,
    floors: Floors,
    own: int,
    other: int,
    spacing: float,
    max_error: float,
    samples: np.ndarray,
) -> int:
    """Write the places [.., 3] at which the edge ab must bend to follow the floor; return their number.

    The result is the same from both sides of the edge, so that neighbours meet without a step.
    """
    if points[a, 0] > points[b, 0] or (points[a, 0] == points[b, 0] and points[a, 2] > points[b, 2]):
        a, b = b, a
    dx = points[b, 0] - points[a, 0]
    dz = points[b, 2] - points[a, 2]
    pieces = min(1 + int(np.sqrt(dx * dx + dz * dz) / spacing), 63)
    height = np.empty(pieces + 1)
    fixed = np.zeros(pieces + 1, np.bool_)
    fixed[0] = fixed[pieces] = True
    for k in range(pieces + 1):
        share = k / pieces
        straight = points[a, 1] * (1 - share) + points[b, 1] * share
        height[k] = straight
        if 0 < k < pieces:
            x = points[a, 0] + share * dx
            z = points[a, 2] + share * dz
            height[k] = _floor_near(floors, x, z, own, other, straight)
    first = 0
    while first < pieces:
        last = first + 1
        while not fixed[last]:
            last += 1
        worst = -1
        error = max_error
        for k in range(first + 1, last):
            straight = height[first] + (height[last] - height[first]) * (k - first) / (last - first)
            if abs(height[k] - straight) > error:
                worst = k
                error = abs(height[k] - straight)
        if worst >= 0:
            fixed[worst] = True
        else:
            first = last
    count = 0
    for k in range(1, pieces):
        if fixed[k]:
            samples[count, 0] = points[a, 0] + k / pieces * dx
            samples[count, 1] = height[k]
            samples[count, 2] = points[a, 2] + k / pieces * dz
            count += 1
    return count


@njit(**INNER)
def _inner_samples(
    points: np.ndarray, size: int, floors: Floors, own: int, triangles: np.ndarray, spacing: float
) -> np.ndarray:
    """Return places [N, 3] on a regular grid well inside the polygon ``points[:size]``, at the height of the floor."""
    low_x = points[:size, 0].min()
    high_x = points[:size, 0].max()
    low_z = points[:size, 2].min()
    high_z = points[:size, 2].max()
    columns = int(high_x / spacing) - int(low_x / spacing) + 1
    rows = int(high_z / spacing) - int(low_z / spacing) + 1
    samples = np.empty((columns * rows, 3))
    count = 0
    for row in range(rows):
        z = (int(low_z / spacing) + row) * spacing
        for column in range(columns):
            x = (int(low_x / spacing) + column) * spacing
            inside = True
            for k in range(size):
                a = points[k]
                b = points[(k + 1) % size]
                dx = b[0] - a[0]
                dz = b[2] - a[2]
                beyond = dx * (z - a[2]) - dz * (x - a[0])
                if beyond > -0.5 * spacing * np.sqrt(dx * dx + dz * dz):
                    inside = False
                    break
            if inside:
                _, expected = _locate(points, triangles, size - 2, x, z)
                samples[count, 0] = x
                samples[count, 2] = z
                samples[count, 1] = _floor_near(floors, x, z, own, own, expected)
                count += 1
    return samples[:count]


@njit(**ENTRY)
def triangulate_floors(
    vertices: np.ndarray,
    polygons: np.ndarray,
    neighbours: np.ndarray,
    owner: np.ndarray,
    floors: Floors,
    spacing: float,
    max_error: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Triangulate every polygon, with added vertices where its floor is not flat.

    Args:
        vertices: [V, 3] int32.
        polygons: [P, 6] int32, padded with -1.
        neighbours: [P, 6] int32, polygon across every edge, -1 for none.
        owner: [P] int32, region of every polygon.
        floors: The open spans and their regions.
        spacing: Distance between samples of the floor, cells; 0 to use only the polygons' corners.
        max_error: Maximal distance of a triangle from the sampled floor, voxels.

    Returns:
        The added vertices [D, 3] float64, triangles [T, 3] int32 as rows of the vertices followed by the added ones,
        and the first triangle of every polygon [P + 1] int32.
    """
    added = np.empty((256, 3))
    num_added = 0
    faces = np.empty((1024, 3), np.int32)
    num_faces = 0
    first_face = np.zeros(len(polygons) + 1, np.int32)
    points = np.empty((6 + MAX_ADDED, 3))
    triangles = np.empty((MAX_TRIANGLES + 2, 3), np.int64)
    samples = np.empty((64, 3))
    for polygon in range(len(polygons)):
        size = 0
        while size < 6 and polygons[polygon, size] >= 0:
            for k in range(3):
                points[size, k] = vertices[polygons[polygon, size], k]
            size += 1
        for k in range(size - 2):
            triangles[k, 0], triangles[k, 1], triangles[k, 2] = 0, k + 1, k + 2
        count = size - 2
        num_points = size
        if spacing > 0:
            inner = _inner_samples(points, size, floors, owner[polygon], triangles, spacing)
            for k in range(size):
                across = neighbours[polygon, k]
                other = owner[across] if across >= 0 else owner[polygon]
                found = _edge_samples(
                    points, k, (k + 1) % size, floors, owner[polygon], other, spacing, max_error, samples
                )
                for sample in range(min(found, 6 + MAX_ADDED - num_points)):
                    points[num_points] = samples[sample]
                    count = _insert(points, triangles, count, num_points)
                    num_points += 1
            while num_points < 6 + MAX_ADDED:
                worst = -1
                error = max_error
                for sample in range(len(inner)):
                    _, height = _locate(points, triangles, count, inner[sample, 0], inner[sample, 2])
                    if abs(inner[sample, 1] - height) > error:
                        worst = sample
                        error = abs(inner[sample, 1] - height)
                if worst < 0:
                    break
                points[num_points] = inner[worst]
                count = _insert(points, triangles, count, num_points)
                num_points += 1
        while num_added + num_points > len(added):
            added = np.concatenate((added, np.empty_like(added)))
        while num_faces + count > len(faces):
            faces = np.concatenate((faces, np.empty_like(faces)))
        for row in range(count):
            for k in range(3):
                corner = triangles[row, k]
                index = polygons[polygon, corner] if corner < size else len(vertices) + num_added + corner - size
                faces[num_faces, k] = index
            num_faces += 1
        for row in range(size, num_points):
            for k in range(3):
                added[num_added, k] = points[row, k]
            num_added += 1
        first_face[polygon + 1] = num_faces
    return added[:num_added], faces[:num_faces], first_face
