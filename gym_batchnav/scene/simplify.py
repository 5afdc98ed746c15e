"""Simplification of scenes with more triangles than wanted.

Points move onto neighbours, which removes the triangles between them; the points of the whole scene that cause the
smallest errors move first. Errors are the quadrics of Garland and Heckbert, "Surface simplification using quadric error
metrics" (1997), and the surface that is lost, without which thin legs and boards would vanish early. No point moves
elsewhere, so that those which are left keep their texture coordinates and colours.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.jit import ENTRY, INNER

_FIRST_LIMIT = 1e-14  # cubic metres, of the errors in the first round
_LAST_LIMIT = 1e30
_FEW = 0.02  # share of the triangles; after a round that removes fewer the limit is doubled
_FOLD = 0.1  # cosine of the angle by which a triangle turns, below which it counts as folded
_HUB = 64  # triangles at a point; one with more does not move, so that the time is bounded


def with_source(scene: Scene, again: Callable[[], Scene]) -> Scene:
    """Return a scene that is about to be simplified, with the way to load its whole geometry again."""
    return replace(scene, unsimplified=again, metadata={**scene.metadata, "whole_geometry": digest_of_geometry(scene)})


def digest_of_geometry(scene: Scene) -> str:
    """Return the SHA-256 of the vertices and triangles of a scene, and of those that are solid unless all are."""
    content = hashlib.sha256()
    solid = scene.solid_triangles
    for array in (scene.vertices, scene.triangles, *([] if solid is scene.triangles else [solid])):
        content.update(f"{array.dtype.str} {array.shape} ".encode())
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def digest_of_whole_geometry(scene: Scene) -> str:
    """Return the ``digest_of_geometry`` of a scene as it was before it was simplified."""
    known = scene.metadata.get("whole_geometry")
    return known if isinstance(known, str) else digest_of_geometry(scene)


def simplify_scene(scene: Scene, max_triangles: int) -> Scene:
    """Return a scene with at most ``max_triangles``, simplified only if it has more.

    The vertices that are left have their positions, texture coordinates and colours; objects smaller than the errors
    vanish. The navmesh and the metadata are kept; a sentence is added to the warnings.

    Raises:
        ValueError: If the scene cannot have so few triangles.
    """
    before = len(scene.triangles)
    if before <= max_triangles:
        return scene
    rows, looks = _joined_corners(scene)
    first, point = _unique_rows(scene.vertices[rows] + np.float32(0))  # -0.0 becomes 0.0
    points = scene.vertices[rows[first]].astype(np.float64)
    points -= (points.min(axis=0) + points.max(axis=0)) / 2  # quadrics are more accurate near 0
    corners = point[looks]
    kept = collapse_edges(points, corners, looks, _quadrics(points, corners, _borders(looks)), max_triangles)
    after = int(kept.sum())
    if after > max_triangles:
        least = f"{after:,} are the fewest that it can be simplified to"
        raise ValueError(f"it has {before:,} triangles, and {least}: pass max_triangles={after} or more")
    pairs, triangles = np.unique(corners[kept] * len(rows) + looks[kept], return_inverse=True)
    look = rows[pairs % len(rows)]
    return replace(
        scene,
        vertices=scene.vertices[rows[first[pairs // len(rows)]]],
        triangles=triangles.reshape(-1, 3).astype(np.int32),
        triangle_material=scene.triangle_material[kept],
        triangle_object=scene.triangle_object[kept],
        uvs=None if scene.uvs is None else scene.uvs[look],
        colors=None if scene.colors is None else scene.colors[look],
        warnings=(*scene.warnings, f"It was simplified from {before:,} to {after:,} triangles"),
    )


def _joined_corners(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices [L] that differ, and for each corner [T, 3] which of them it has.

    Vertices of several objects or materials are repeated for each.
    """
    part = scene.triangle_object.astype(np.int64) * len(scene.materials) + scene.triangle_material
    used, pair = np.unique(part[:, None] * len(scene.vertices) + scene.triangles, return_inverse=True)
    part, vertex = np.divmod(used, len(scene.vertices))
    looks = [array[vertex] for array in (scene.uvs, scene.colors) if array is not None]
    first, number = _unique_rows(part, scene.vertices[vertex] + np.float32(0), *looks)
    return vertex[first], number[pair.ravel()].reshape(-1, 3)


def _unique_rows(*columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of each kind of equal rows of arrays [R, ...], and for each row [R] the number of its kind."""
    content = [np.ascontiguousarray(column).view(np.uint8).reshape(len(column), -1) for column in columns]
    joined = np.concatenate(content, axis=1)
    _, first, kind = np.unique(joined.view((np.void, joined.shape[1])), return_index=True, return_inverse=True)
    return first, kind.ravel()


def _borders(corners: np.ndarray) -> np.ndarray:
    """Return the numbers [E] of the corners, see ``_Mesh``, at which edges begin that only one triangle [T, 3] has."""
    ends = np.stack([corners, np.roll(corners, -1, axis=1)], axis=2).reshape(-1, 2)
    keys = ends.min(axis=1) * (corners.max() + 1) + ends.max(axis=1)
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    return first[counts == 1]


def _quadrics(points: np.ndarray, corners: np.ndarray, borders: np.ndarray) -> np.ndarray:
    """Return for each point a symmetric matrix [P, 10] that gives the squared distances from the planes around it.

    Those of triangles are weighted by the roots of their areas: by areas, thin legs of chairs would cost nothing.
    Planes through borders, perpendicular to the triangles, are weighted by the lengths of the edges.
    """
    a, b, c = (points[corners[:, corner]] for corner in range(3))
    normals = np.cross(b - a, c - a)
    areas = np.linalg.norm(normals, axis=1) / 2
    triangle, corner = np.divmod(borders, 3)
    start = corners[triangle, corner]
    end = corners[triangle, (corner + 1) % 3]
    edges = points[end] - points[start]
    total = np.zeros((len(points), 10))
    for normal, weight, origin, at in (
        (normals, np.sqrt(areas), a, corners.T),
        (np.cross(edges, normals[triangle]), np.linalg.norm(edges, axis=1), points[start], (start, end)),
    ):
        unit = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), np.finfo(float).tiny)
        plane = np.column_stack([unit, -np.einsum("px,px->p", unit, origin)])
        for column, (i, j) in enumerate(zip(*np.triu_indices(4), strict=True)):
            values = weight * plane[:, i] * plane[:, j]
            for rows in at:
                total[:, column] += np.bincount(rows, values, len(points))
    return total


class _Mesh(NamedTuple):
    """The triangles while they are removed; a corner's number is three times its triangle's, plus 0 to 2."""

    points: Any  # [P, 3] float64, metres
    corners: Any  # [T, 3] int64, rows of points; meaningless for triangles that are removed
    looks: Any  # [T, 3] int64, numbers of texture coordinates and colours
    quadrics: Any  # [P, 10] float64
    kept: Any  # [T] bool, which triangles are left
    first: Any  # [P] int64, each point's first corner
    following: Any  # [3 T] int64, the next corner of the same point; -1 after the last
    changed: Any  # [P] int64, the round in which a point's triangles changed; -1 if its error is known


@njit(**ENTRY)
def collapse_edges(points: Any, corners: Any, looks: Any, quadrics: Any, max_triangles: int) -> Any:
    """Move points to neighbours until few enough triangles are left, or none can move.

    In each round every point moves whose error is at most a limit and whose triangles have not changed in this round.

    Args:
        points: [P, 3] float64, metres.
        corners: [T, 3] int64, rows of points. Written.
        looks: [T, 3] int64, numbers of texture coordinates and colours. Written: a corner takes over the number at the
            point to which it moves, on the surface on which it moves.
        quadrics: [P, 10] float64. Written.
        max_triangles: How many triangles are few enough.

    Returns:
        [T] bool, which triangles are left.
    """
    kept = np.ones(len(corners), np.bool_)
    first = np.full(len(points), -1, np.int64)
    following = np.empty(3 * len(corners), np.int64)
    count = len(corners)
    for triangle in range(len(corners)):
        a, b, c = corners[triangle, 0], corners[triangle, 1], corners[triangle, 2]
        kept[triangle] = a != b and b != c and c != a
        count -= not kept[triangle]
        for corner in range(3):
            following[3 * triangle + corner] = first[corners[triangle, corner]]
            first[corners[triangle, corner]] = 3 * triangle + corner
    mesh = _Mesh(points, corners, looks, quadrics, kept, first, following, np.zeros(len(points), np.int64))
    errors = np.full(len(points), np.inf)
    target = np.full(len(points), -1, np.int64)
    star = np.empty(_HUB + 1, np.int64)
    limit = _FIRST_LIMIT
    current = 0
    while count > max_triangles and limit < _LAST_LIMIT:
        current += 1
        before = count
        for point in range(len(points)):
            changed = mesh.changed[point]
            if changed == current or (changed < 0 and errors[point] > limit):
                continue
            size = _star(mesh, point, star)
            if changed >= 0:
                mesh.changed[point] = -1
                errors[point], target[point] = _best(mesh, point, star, size)
            if target[point] < 0 or errors[point] > limit or size >= count:  # something must be left
                continue
            count -= _move(mesh, point, target[point], star, size, current)
            errors[point] = np.inf
            if count <= max_triangles:
                break
        if before - count < _FEW * before:
            limit *= 2
    return kept


@njit(**INNER)
def _star(mesh: _Mesh, point: int, star: Any) -> int:
    """Write the corners at a point into ``star`` until it is full and count them; forget those of removed triangles."""
    count = 0
    last = -1
    corner = mesh.first[point]
    while corner >= 0 and count < len(star):
        after = mesh.following[corner]
        if mesh.kept[corner // 3]:
            star[count] = corner
            count += 1
            last = corner
        elif last < 0:
            mesh.first[point] = after
        else:
            mesh.following[last] = after
        corner = after
    return count


@njit(**INNER)
def _best(mesh: _Mesh, point: int, star: Any, size: int) -> tuple[float, int]:
    """Return the least error of moving a point to a neighbour, and that neighbour, -1 if there is none."""
    least = np.inf
    best = -1
    if size > _HUB:
        return least, best
    for row in star[:size]:
        for step in range(1, 3):
            other = mesh.corners[row // 3, (row + step) % 3]
            error = _squared_distance(mesh.quadrics[point], mesh.points[other])
            if error < least:
                error += _losses(mesh, point, other, star, size)
            if error < least:
                least = error
                best = other
    return least, best


@njit(**INNER)
def _squared_distance(q: Any, point: Any) -> float:
    """Return the weighted sum of a point's squared distances from the planes of a quadric."""
    x, y, z = point[0], point[1], point[2]
    return (
        x * (q[0] * x + 2 * (q[1] * y + q[2] * z + q[3]))
        + y * (q[4] * y + 2 * (q[5] * z + q[6]))
        + z * (q[7] * z + 2 * q[8])
        + q[9]
    )


@njit(**INNER)
def _losses(mesh: _Mesh, point: int, other: int, star: Any, size: int) -> float:
    """Return the error of surface that is lost, and of triangles that fold over, if a point moves to another."""
    points = mesh.points
    total = 0.0
    lost = 0.0
    for row in star[:size]:
        second = mesh.corners[row // 3, (row + 1) % 3]
        third = mesh.corners[row // 3, (row + 2) % 3]
        x0, y0, z0, old = _normal(points[point], points[second], points[third])
        x1, y1, z1, new = _normal(points[other], points[second], points[third])
        lost += old - new
        if second != other and third != other and x0 * x1 + y0 * y1 + z0 * z1 <= _FOLD * old * new:
            total += (old + new) ** 1.5  # cubic metres, like the errors
    return total + abs(lost) ** 1.5


@njit(**INNER)
def _normal(a: Any, b: Any, c: Any) -> tuple[float, float, float, float]:
    """Return the normal of a triangle, as long as twice its area, and its length."""
    x1, y1, z1 = b[0] - a[0], b[1] - a[1], b[2] - a[2]
    x2, y2, z2 = c[0] - a[0], c[1] - a[1], c[2] - a[2]
    x, y, z = y1 * z2 - z1 * y2, z1 * x2 - x1 * z2, x1 * y2 - y1 * x2
    return x, y, z, math.sqrt(x * x + y * y + z * z)


@njit(**INNER)
def _move(mesh: _Mesh, point: int, other: int, star: Any, size: int, current: int) -> int:
    """Move a point, whose ``size`` corners are in ``star``, to a neighbour; return how many triangles that removes."""
    corners = mesh.corners
    looks = mesh.looks
    removed = 0
    for row in star[:size]:
        for step in range(1, 3):
            neighbour = corners[row // 3, (row + step) % 3]
            mesh.changed[neighbour] = current
            if neighbour == other:
                mesh.kept[row // 3] = False
                removed += 1
                old = looks[row // 3, row % 3]
                for one in star[:size]:  # the same surface on other triangles
                    if looks[one // 3, one % 3] == old:
                        looks[one // 3, one % 3] = looks[row // 3, (row + step) % 3]
    for row in star[:size]:
        if mesh.kept[row // 3]:
            corners[row // 3, row % 3] = other
            mesh.following[row] = mesh.first[other]
            mesh.first[other] = row
    mesh.first[point] = -1
    for column in range(10):
        mesh.quadrics[other, column] += mesh.quadrics[point, column]
    return removed
