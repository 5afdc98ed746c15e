"""Hand-made scenes of textured rectangles, and views into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rooms import named
from scipy.spatial.transform import Rotation

from gym_batchnav.scene.scene import LINEAR, MASK, OPAQUE, REPEAT, Materials, Scene


@dataclass
class Quad:
    """A rectangle with its own object id and material; its front is on the side of cross(right, up).

    Its texture's lower left corner lies at ``origin`` and is repeated ``repeats`` times along both edges.
    """

    origin: Sequence[float]
    right: Sequence[float]
    up: Sequence[float]
    texture: np.ndarray | None = None  # [H, W, 4] uint8
    repeats: tuple[float, float] = (1, 1)
    base_color: Sequence[float] = (1, 1, 1, 1)
    colors: Sequence[Sequence[int]] | None = None  # of the corners, linear RGBA bytes
    masked: bool = False
    double_sided: bool = True
    wrap: tuple[int, int] = (REPEAT, REPEAT)
    filter: int = LINEAR


def wall(distance: float, half: float = 50.0, **keywords: object) -> Quad:
    """A wall ``distance`` ahead of the origin, looking back at it; twice ``half`` wide and high."""
    return Quad((-half, -half, -distance), (2 * half, 0, 0), (0, 2 * half, 0), **keywords)


def scene_of(*quads: Quad) -> Scene:
    """The scene of some quads; object k + 1 and material k are those of quad k."""
    corners = []
    uvs = []
    colors = []
    for quad in quads:
        origin, right, up = (np.array(v, np.float64) for v in (quad.origin, quad.right, quad.up))
        corners += [origin, origin + right, origin + right + up, origin + up]
        u, v = quad.repeats
        uvs += [[0, v], [u, v], [u, 0], [0, 0]]
        colors += [[255] * 4] * 4 if quad.colors is None else quad.colors
    count = len(quads)
    textured = [quad.texture is not None for quad in quads]
    first = 4 * np.arange(count)[:, None]
    return Scene(
        name="quads",
        vertices=np.array(corners, np.float32),
        triangles=(first[:, None] + np.array([[0, 1, 2], [0, 2, 3]])).reshape(-1, 3).astype(np.int32),
        triangle_material=np.repeat(np.arange(count, dtype=np.int32), 2),
        triangle_object=np.repeat(np.arange(1, count + 1, dtype=np.int32), 2),
        materials=Materials(
            base_color=np.array([quad.base_color for quad in quads], np.float32),
            texture=np.where(textured, np.cumsum(textured) - 1, -1).astype(np.int32),
            alpha_mode=np.array([MASK if quad.masked else OPAQUE for quad in quads], np.uint8),
            alpha_cutoff=np.full(count, 0.5, np.float32),
            double_sided=np.array([quad.double_sided for quad in quads]),
            wrap=np.array([quad.wrap for quad in quads], np.uint8),
            filter=np.array([quad.filter for quad in quads], np.uint8),
        ),
        uvs=np.array(uvs, np.float32),
        colors=np.array(colors, np.uint8),
        textures=tuple(quad.texture for quad in quads if quad.texture is not None),
        objects=named(*(f"quad_{k}" for k in range(count))),
    )


def checkerboard(cells: int, side: int = 64) -> np.ndarray:
    """A texture [side, side, 4] of black and white cells, white at its upper left."""
    cell = np.arange(side) * cells // side
    white = (cell[:, None] + cell[None, :]) % 2 == 0
    return np.where(white[..., None], [255, 255, 255, 255], [0, 0, 0, 255]).astype(np.uint8)


def rotations(rng: np.random.Generator, count: int) -> np.ndarray:
    """Evenly distributed rotations [count, 3, 3]."""
    quaternions = rng.normal(size=(4, count))[[1, 2, 3, 0]].T  # drawn with the real part first
    return Rotation.from_quat(quaternions).as_matrix()


def views_at(positions: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """World-to-camera matrices [N, 4, 4] float32 of cameras at ``positions`` [N, 3], axes the rows of ``rotation``."""
    views = np.zeros((len(positions), 4, 4), np.float32)
    views[:, :3, :3] = rotation
    views[:, :3, 3] = -np.einsum("nij,nj->ni", rotation, positions)
    views[:, 3, 3] = 1
    return views
