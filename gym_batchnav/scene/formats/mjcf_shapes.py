"""Triangles of MuJoCo's geometric shapes, in the frame of the geom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)  # mjtGeom
_SIDES = 32  # of round shapes, around the axis
_RINGS = 16  # of a sphere, from pole to pole


class Shape(NamedTuple):
    """Triangles, with texture coordinates if the shape has its own.

    Those of MuJoCo's primitives go from 0 to 1 over a side and are repeated as a material says; those of meshes are
    used as they are.
    """

    vertices: np.ndarray  # [V, 3] float64, metres
    triangles: np.ndarray  # [T, 3] int32, counter-clockwise from outside
    uvs: np.ndarray | None = None  # [V, 2] float, v = 0 at the top
    is_mesh: bool = False


def shape_of(model: Mapping[str, np.ndarray], geom: int) -> Shape | None:
    """Return the triangles of a geom of a compiled model; None for infinite planes and signed distance fields.

    Raises:
        ValueError: If the geom's mesh refers to vertices that do not exist.
    """
    kind = int(model["geom_type"][geom])
    x, y, z = model["geom_size"][geom].tolist()
    data = int(model["geom_dataid"][geom])
    if kind == PLANE:
        if not (x > 0 and y > 0):
            return None
        return plane([-x, -y], [x, y])._replace(uvs=np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]))
    if kind == BOX:
        return _box(x, y, z)
    if kind == MESH and data >= 0:
        return mesh_of(model, data)
    if kind == HFIELD and data >= 0:
        return _height_field(model, data)
    if kind in (SPHERE, ELLIPSOID):
        radii = (x, x, x) if kind == SPHERE else (x, y, z)
        return _turned(_arc(-np.pi / 2, np.pi / 2, _RINGS), np.linspace(1.0, 0.0, _RINGS + 1), radii)
    if kind == CYLINDER:
        return _cylinder(x, y)
    if kind == CAPSULE:
        half = _RINGS // 2
        cap = np.linspace(0.5, 0.0, half + 1)
        profile = np.concatenate([_arc(-np.pi / 2, 0, half), _arc(0, np.pi / 2, half)], axis=1) * x
        profile[1] += np.repeat([-y, y], half + 1)
        parts = (profile[:, : half + 1], profile[:, half : half + 2], profile[:, half + 1 :])
        # MuJoCo gives the lower cap the upper half of a picture, and the upper cap the lower half.
        ends = (cap, np.array([1.0, 0.0]), cap + 0.5)
        return _joined([_turned(part, v) for part, v in zip(parts, ends, strict=True)])
    return None


def plane(low: np.ndarray | list[float], high: np.ndarray | list[float]) -> Shape:
    """Return the rectangle from ``low`` [2] to ``high`` [2] at z = 0, which faces +z, without texture coordinates."""
    corners = [[low[0], low[1], 0.0], [high[0], low[1], 0.0], [high[0], high[1], 0.0], [low[0], high[1], 0.0]]
    return Shape(np.array(corners), np.array([[0, 1, 2], [0, 2, 3]], np.int32))


def _joined(shapes: list[Shape]) -> Shape:
    starts = np.cumsum([0, *(len(shape.vertices) for shape in shapes)])
    triangles = [shape.triangles + np.int32(start) for shape, start in zip(shapes, starts, strict=False)]
    uvs = [shape.uvs for shape in shapes if shape.uvs is not None]
    return Shape(np.concatenate([shape.vertices for shape in shapes]), np.concatenate(triangles), np.concatenate(uvs))


def _box(x: float, y: float, z: float) -> Shape:
    """Return a box; every side shows a picture projected along its axis, with y or z up."""
    corners = []
    uvs = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            first, second = (axis + 1) % 3, (axis + 2) % 3
            side = np.zeros((4, 3))
            side[:, axis] = sign
            side[:, first] = np.array([-1.0, 1.0, 1.0, -1.0]) * sign
            side[:, second] = [-1.0, -1.0, 1.0, 1.0]
            corners.append(side)
            across, up = ((1, 2), (0, 2), (0, 1))[axis]
            uvs.append(np.stack([0.5 + 0.5 * side[:, across], 0.5 - 0.5 * side[:, up]], axis=1))
    quads = 4 * np.arange(6)[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]])
    return Shape(np.concatenate(corners) * [x, y, z], quads.reshape(-1, 3).astype(np.int32), np.concatenate(uvs))


def _arc(start: float, end: float, steps: int) -> np.ndarray:
    """Return radius and height [2, steps + 1] of points on a unit circle."""
    angles = np.linspace(start, end, steps + 1)
    radius = np.cos(angles)
    radius[np.abs(radius) < 1e-12] = 0.0
    return np.stack([radius, np.sin(angles)])


def _turned(profile: np.ndarray, v: np.ndarray, factors: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> Shape:
    """Return the surface of a profile of radii and heights [2, R] turned about z, then scaled by ``factors``.

    ``v`` [R] is the texture coordinate of every ring; u goes once around.
    """
    radius, height = profile
    around = 2 * np.pi * np.arange(_SIDES + 1) / _SIDES  # the first column once more, where u is 1
    rings = np.empty((len(radius), _SIDES + 1, 3))
    rings[..., 0] = radius[:, None] * np.cos(around)
    rings[..., 1] = radius[:, None] * np.sin(around)
    rings[..., 2] = height[:, None]
    rings[:, -1] = rings[:, 0]
    uvs = np.stack(np.broadcast_arrays(around / (2 * np.pi), v[:, None]), axis=-1)
    width = _SIDES + 1
    below = np.arange(len(radius) - 1)[:, None] * width + np.arange(_SIDES)
    first = np.stack([below, below + 1, below + 1 + width], -1)
    second = np.stack([below, below + 1 + width, below + width], -1)
    flat = np.zeros((len(radius) - 1, _SIDES, 2), bool)
    flat[..., 0] = (radius[:-1] == 0)[:, None]
    flat[..., 1] = (radius[1:] == 0)[:, None]
    triangles = np.stack([first, second], 2)[~flat]
    return Shape(rings.reshape(-1, 3) * factors, triangles.astype(np.int32), uvs.reshape(-1, 2))


def _cylinder(radius: float, half: float) -> Shape:
    """Return a cylinder; its lids have separate vertices."""
    wall = _turned(np.array([[radius, radius], [-half, half]]), np.array([1.0, 0.0]))
    ring = wall.vertices[:_SIDES] * [1, 1, 0]
    up = np.array([0.0, 0.0, half])
    fan = np.stack([np.zeros(_SIDES - 2, int), np.arange(1, _SIDES - 1), np.arange(2, _SIDES)], 1).astype(np.int32)
    uvs = ring[:, :2] / (2 * radius) + 0.5
    return _joined([wall, Shape(ring + up, fan, uvs), Shape(ring - up, fan[:, ::-1], uvs)])


def mesh_of(model: Mapping[str, np.ndarray], mesh: int) -> Shape:
    """Return a mesh of a compiled model; corners that differ in texture coordinates become separate vertices."""
    start, count = int(model["mesh_vertadr"][mesh]), int(model["mesh_vertnum"][mesh])
    vertices = model["mesh_vert"][start : start + count].astype(np.float64)
    first, num_faces = int(model["mesh_faceadr"][mesh]), int(model["mesh_facenum"][mesh])
    faces = model["mesh_face"][first : first + num_faces]
    if faces.size and not 0 <= faces.min() <= faces.max() < len(vertices):
        raise ValueError("a mesh refers to vertices that do not exist: the file is damaged, re-export it")
    start, count = int(model["mesh_texcoordadr"][mesh]), int(model["mesh_texcoordnum"][mesh])
    if start < 0 or count < 1:
        return Shape(vertices, faces, is_mesh=True)
    uvs = model["mesh_texcoord"][start : start + count]
    uv_faces = model["mesh_facetexcoord"][first : first + num_faces]
    if uv_faces.size and not 0 <= uv_faces.min() <= uv_faces.max() < len(uvs):
        raise ValueError("a mesh refers to texture coordinates that do not exist: the file is damaged, re-export it")
    pairs = faces.astype(np.int64) * len(uvs) + uv_faces
    used, corners = np.unique(pairs, return_inverse=True)
    triangles = corners.reshape(-1, 3).astype(np.int32)
    return Shape(vertices[used // len(uvs)], triangles, uvs[used % len(uvs)], is_mesh=True)


def _height_field(model: Mapping[str, np.ndarray], field: int) -> Shape:
    """Return a height field: its surface, and the sides and the bottom of the base below it."""
    rows, columns = int(model["hfield_nrow"][field]), int(model["hfield_ncol"][field])
    if rows < 2 or columns < 2:
        raise ValueError("a height field has fewer than two rows or columns: enlarge it")
    start = int(model["hfield_adr"][field])
    x, y, z, depth = model["hfield_size"][field].tolist()
    heights = model["hfield_data"][start : start + rows * columns].reshape(rows, columns)
    across, along = np.meshgrid(np.linspace(-x, x, columns), np.linspace(-y, y, rows))
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).ravel()
    triangles = [[corner, corner + 1, corner + columns + 1], [corner, corner + columns + 1, corner + columns]]
    vertices = np.stack([across, along, heights * z], axis=-1).reshape(-1, 3)
    surface = np.stack(triangles).transpose(2, 0, 1).reshape(-1, 3)
    number = np.arange(rows * columns).reshape(rows, columns)
    rim = np.concatenate([number[0, :-1], number[:-1, -1], number[-1, :0:-1], number[:0:-1, 0]])  # once around
    top = len(vertices) + np.arange(len(rim))  # the sides have separate vertices
    after = np.roll(top, -1)
    below = top + len(rim)
    sides = np.stack([[top, below, after + len(rim)], [top, after + len(rim), after]]).transpose(2, 0, 1).reshape(-1, 3)
    first = len(vertices) + 2 * len(rim)
    bottom = np.array([[first, first + 2, first + 1], [first, first + 3, first + 2]])
    edge = vertices[rim]
    under = plane([-x, -y], [x, y]).vertices - [0, 0, depth]
    points = np.concatenate([vertices, edge, edge * [1, 1, 0] - [0, 0, depth], under])
    return Shape(points, np.concatenate([surface, sides, bottom]).astype(np.int32))
