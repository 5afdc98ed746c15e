"""Solids and sheets as small triangle meshes, with texture coordinates in metres.

Every function returns a ``Shape`` with counter-clockwise fronts that face outwards. Texture coordinates are in metres
(the builder divides by the size of the texture); v grows downwards, as in the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Normal, tangent and bitangent (normal = tangent x bitangent) of the faces +x, -x, +y, -y, +z, -z of a box.
_FACES = np.array(
    [
        [[1, 0, 0], [0, 0, -1], [0, 1, 0]],
        [[-1, 0, 0], [0, 0, 1], [0, 1, 0]],
        [[0, 1, 0], [1, 0, 0], [0, 0, -1]],
        [[0, -1, 0], [1, 0, 0], [0, 0, 1]],
        [[0, 0, 1], [1, 0, 0], [0, 1, 0]],
        [[0, 0, -1], [-1, 0, 0], [0, 1, 0]],
    ],
    np.float64,
)
_CORNERS = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], np.float64)


class Shape(NamedTuple):
    """A triangle mesh without a material."""

    vertices: np.ndarray  # [V, 3] float64, metres
    uvs: np.ndarray  # [V, 2] float64, metres
    triangles: np.ndarray  # [T, 3] int64


def _chamfer_seams() -> np.ndarray:
    """Return the triangles [32, 3] that join the six face patches of a chamfered box along its edges and corners."""
    signs = _FACES[:, None, 0] + _CORNERS[:, :1] * _FACES[:, None, 1] + _CORNERS[:, 1:] * _FACES[:, None, 2]
    index = {(face, tuple(sign)): 4 * face + i for face in range(6) for i, sign in enumerate(signs[face].astype(int))}
    face_of = {(axis, sign): 2 * axis + (sign < 0) for axis in range(3) for sign in (-1, 1)}
    polygons = []
    for axis in range(3):  # the edge's direction
        first = (axis + 1) % 3
        second = (axis + 2) % 3
        for i in (-1, 1):
            for j in (-1, 1):
                ends = np.zeros((2, 3), int)
                ends[:, first] = i
                ends[:, second] = j
                ends[:, axis] = (-1, 1)
                a, b = (tuple(end) for end in ends)
                p = face_of[first, i]
                q = face_of[second, j]
                quad = [index[p, a], index[q, a], index[q, b], index[p, b]]
                polygons.append(quad if i * j > 0 else quad[::-1])
    for corner in np.ndindex(2, 2, 2):
        sign = tuple(2 * np.array(corner) - 1)
        triple = [index[face_of[axis, int(sign[axis])], sign] for axis in range(3)]
        polygons.append(triple if np.prod(sign) > 0 else triple[::-1])
    return np.array([[p[0], p[k], p[k + 1]] for p in polygons for k in range(1, len(p) - 1)])


_FACE_TRIANGLES = (np.arange(6)[:, None, None] * 4 + np.array([[0, 1, 2], [0, 2, 3]])).reshape(-1, 3)
_SEAMS = _chamfer_seams()


def _grid_triangles(rows: int, columns: int) -> np.ndarray:
    """Return the triangles of a grid of points; the front is where columns run right and rows run up."""
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1, 1)
    return (corner[:, None] + np.array([[0, 1, columns + 1], [0, columns + 1, columns]])).reshape(-1, 3)


def box(size: Sequence[float], bevel: float = 0.0) -> Shape:
    """Return a box that stands centred on the origin, with 12 triangles, or 44 with a ``bevel`` (metres)."""
    half = np.asarray(size, np.float64) / 2
    normal, tangent, bitangent = (_FACES[:, None, k] for k in range(3))
    inner = half - bevel
    vertices = normal * half + (_CORNERS[:, :1] * tangent + _CORNERS[:, 1:] * bitangent) * inner
    uvs = np.stack([(vertices * tangent).sum(-1), -(vertices * bitangent).sum(-1)], axis=-1).reshape(-1, 2)
    triangles = np.concatenate([_FACE_TRIANGLES, _SEAMS]) if bevel > 0 else _FACE_TRIANGLES
    return Shape(vertices.reshape(-1, 3) + np.array([0, half[1], 0]), uvs, triangles)


def rounded_box(size: Sequence[float], radius: float, arc: int, flat: int = 1, bulge: float = 0.0) -> Shape:
    """Return a box with round edges, standing centred on the origin.

    Args:
        size: Width, height and depth, metres.
        radius: Radius of the edges, metres, at most half the smallest side.
        arc: Segments of the eighth of a circle on either side of an edge.
        flat: Segments across the flat of a face.
        bulge: Height of the bulge of top and bottom, metres, included in ``size``.
    """
    half = np.asarray(size, np.float64) / 2
    half = half - np.array([0, bulge, 0])
    radius = min(radius, 0.999 * float(half.min()))
    slope = np.tan(np.linspace(-np.pi / 4, 0, arc + 1))
    slopes = np.concatenate([slope, np.zeros(flat - 1), -slope[::-1]])
    place = np.concatenate([np.full(arc, -1.0), np.linspace(-1, 1, flat + 1), np.full(arc, 1.0)])
    count = len(place)
    normal, tangent, bitangent = (_FACES[:, None, None, k] for k in range(3))
    direction = normal + slopes[None, :, None] * tangent + slopes[:, None, None] * bitangent
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    centre = normal + place[None, :, None] * tangent + place[:, None, None] * bitangent
    points = centre * (half - radius) + radius * direction
    uvs = np.stack([(points * tangent).sum(axis=-1), -(points * bitangent).sum(axis=-1)], axis=-1)
    vertices = points.reshape(-1, 3)
    share = vertices / half
    vertices[:, 1] += bulge * share[:, 1] * (1 - share[:, 0] ** 2) * (1 - share[:, 2] ** 2)
    triangles = (_grid_triangles(count, count) + np.arange(6)[:, None, None] * count**2).reshape(-1, 3)
    return Shape(vertices + np.array([0, half[1] + bulge, 0]), uvs.reshape(-1, 2), triangles)


def lathe(profile: Sequence[tuple[float, float]], segments: int, scale: tuple[float, float] = (1.0, 1.0)) -> Shape:
    """Return a profile turned about the y axis.

    Args:
        profile: (radius, y) pairs, metres, from the bottom up for a front that faces outwards; a radius of 0 closes it.
        segments: Around the axis.
        scale: Factors of x and z, for ovals.
    """
    radius, height = np.array(profile, np.float64).T
    angle = np.linspace(0, 2 * np.pi, segments + 1)
    angle[-1] = 0.0  # The seam closes exactly.
    vertices = np.stack(
        [
            scale[0] * radius[:, None] * np.cos(angle),
            np.repeat(height[:, None], segments + 1, axis=1),
            -scale[1] * radius[:, None] * np.sin(angle),
        ],
        axis=-1,
    )
    along = np.concatenate([[0], np.cumsum(np.hypot(np.diff(radius), np.diff(height)))])
    around = np.linspace(0, 2 * np.pi * radius.max(), segments + 1)
    uvs = np.stack(np.broadcast_arrays(around, -along[:, None]), axis=-1)
    triangles = _grid_triangles(len(radius), segments + 1).reshape(len(radius) - 1, segments, 2, 3)
    keep = np.ones(triangles.shape[:3], bool)
    keep[radius[:-1] < 1e-9, :, 0] = False  # The lower edge of the row is one point,
    keep[radius[1:] < 1e-9, :, 1] = False  # or the upper one.
    return without_loose(Shape(vertices.reshape(-1, 3), uvs.reshape(-1, 2), triangles[keep]))


def tube(path: Sequence[Sequence[float]], radius: float | Sequence[float], segments: int, caps: bool = False) -> Shape:
    """Return a round bar along points [P, 3], with one radius or one per point; four segments give a square bar."""
    points = np.asarray(path, np.float64)
    radii = np.broadcast_to(np.asarray(radius, np.float64), (len(points),))
    forward = np.gradient(points, axis=0)
    forward /= np.linalg.norm(forward, axis=1, keepdims=True)
    side = np.zeros_like(points)
    first = np.array([1.0, 0, 0]) if abs(forward[0, 0]) < 0.9 else np.array([0, 0, 1.0])
    for i in range(len(points)):  # Carry the frame along, so that the tube does not twist.
        first = first - forward[i] * (first @ forward[i])
        first = first / np.linalg.norm(first)
        side[i] = first
    other = np.cross(forward, side)
    angle = np.linspace(0, 2 * np.pi, segments + 1) + np.pi / segments
    angle[-1] = angle[0]
    ring = np.cos(angle)[:, None] * side[:, None] + np.sin(angle)[:, None] * other[:, None]
    vertices = points[:, None] + radii[:, None, None] * ring
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    around = np.linspace(0, 2 * np.pi * radii.max(), segments + 1)
    uvs = np.stack(np.broadcast_arrays(along[:, None], around), axis=-1).reshape(-1, 2)
    triangles = _grid_triangles(len(points), segments + 1)
    shape = Shape(vertices.reshape(-1, 3), uvs, triangles)
    if not caps:
        return shape
    fan = np.stack([np.zeros(segments - 2, int), np.arange(1, segments - 1), np.arange(2, segments)], axis=1)
    last = (len(points) - 1) * (segments + 1)
    return shape._replace(triangles=np.concatenate([triangles, fan[:, ::-1], fan + last]))


def sheet(points: np.ndarray) -> Shape:
    """Return a surface through a grid of points [R, C, 3]; its front is where columns run right and rows run up."""
    rows, columns = points.shape[:2]
    across = np.linalg.norm(np.diff(points, axis=1), axis=2).mean(axis=0)
    up = np.linalg.norm(np.diff(points, axis=0), axis=2).mean(axis=1)
    u = np.concatenate([[0], np.cumsum(across)])
    v = -np.concatenate([[0], np.cumsum(up)])
    uvs = np.stack(np.broadcast_arrays(u, v[:, None]), axis=-1).reshape(-1, 2)
    return Shape(points.reshape(-1, 3).astype(np.float64), uvs, _grid_triangles(rows, columns))


def fan(corners: np.ndarray) -> Shape:
    """Return a convex polygon [K, 3]; its front is where the corners run counter-clockwise."""
    count = len(corners)
    steps = np.arange(1, count - 1)
    triangles = np.stack([np.zeros_like(steps), steps, steps + 1], axis=1)
    return Shape(np.asarray(corners, np.float64), np.zeros((count, 2)), triangles)


def without_loose(shape: Shape) -> Shape:
    """Return the shape without the vertices that no triangle uses."""
    used = np.zeros(len(shape.vertices), bool)
    used[shape.triangles] = True
    row = np.cumsum(used) - 1
    return Shape(shape.vertices[used], shape.uvs[used], row[shape.triangles])
