"""The builder, which assembles shapes with finishes into a prototype at a level of detail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.homes.finishes import Finish
from gym_batchnav.homes.shapes import Shape

Vector = Sequence[float]
COARSEST = 0.15  # level of detail up to which only the largest parts are built


class Solid(NamedTuple):
    """A triangle mesh whose triangles have finishes and whose vertices have shade."""

    vertices: np.ndarray  # [V, 3] float64, metres
    uvs: np.ndarray  # [V, 2] float64, repeats of the texture
    shade: np.ndarray  # [V] float64, share of light that reaches the vertex
    triangles: np.ndarray  # [T, 3] int64
    finish: np.ndarray  # [T] int64, position in the builder's finishes

    def placed(self, matrix: np.ndarray) -> Solid:
        """Return the solid moved by a rigid matrix [4, 4]."""
        return self._replace(vertices=self.vertices @ matrix[:3, :3].T + matrix[:3, 3])


def transform(at: Vector = (0, 0, 0), yaw: float = 0.0, pitch: float = 0.0) -> np.ndarray:
    """Return the matrix [4, 4] that turns by ``pitch`` about x, then ``yaw`` about y (radians), and moves to ``at``."""
    cos = np.cos(yaw)
    sin = np.sin(yaw)
    up = np.cos(pitch)
    down = np.sin(pitch)
    matrix = np.eye(4)
    turn = np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])
    tip = np.array([[1, 0, 0], [0, up, -down], [0, down, up]])
    matrix[:3, :3] = turn @ tip
    matrix[:3, 3] = at
    return matrix


class Builder:
    """Collects shapes; ``solid`` returns them as one mesh.

    Args:
        finishes: Finishes of the apartment, by name.
        level: Level of detail: 1 looks good from a step away, 0.1 is the coarsest. Draws from ``rng`` must not depend
            on it.
        rng: Random stream of this prototype.
    """

    def __init__(self, finishes: dict[str, Finish], level: float, rng: np.random.Generator) -> None:
        self.level = level
        self.rng = rng
        self._finishes = finishes
        self._index = {name: i for i, name in enumerate(finishes)}
        self._parts: list[Solid] = []

    def segments(self, fine: float, least: int = 4) -> int:
        """Return the number of segments of a curve that has ``fine`` of them at level 1."""
        return max(least, round(fine * self.level))

    def around(self, fine: int) -> int:
        """Return the number of segments of a circle: a multiple of four, so that its bounds stay, 6 at the coarsest."""
        return max(8 if self.level > COARSEST else 6, 4 * round(fine * self.level / 4))

    def add(
        self,
        finish: str,
        shape: Shape,
        at: Vector = (0, 0, 0),
        yaw: float = 0.0,
        pitch: float = 0.0,
        shade: np.ndarray | float = 1.0,
    ) -> None:
        """Add a shape, moved; ``shade`` [V] or one number darkens its vertices."""
        chosen = self._finishes[finish]
        vertices = shape.vertices
        if yaw or pitch:
            vertices = vertices @ transform(yaw=yaw, pitch=pitch)[:3, :3].T
        if chosen.painter is None:
            uvs = np.zeros((len(vertices), 2))
        else:
            uvs = shape.uvs / chosen.metres
            if chosen.grain:
                uvs = uvs + self.rng.random(2)
        light = np.broadcast_to(np.asarray(shade, np.float64), (len(vertices),))
        index = np.full(len(shape.triangles), self._index[finish])
        self._parts.append(Solid(vertices + np.asarray(at, np.float64), uvs, light, shape.triangles, index))

    def empty(self) -> Builder:
        """Return an empty builder with the same settings."""
        return Builder(self._finishes, self.level, self.rng)

    def merge(self, solid: Solid) -> None:
        """Add the content of another builder of this apartment."""
        self._parts.append(solid)

    def box(
        self,
        finish: str,
        size: Vector,
        at: Vector,
        bevel: float = 0.0,
        yaw: float = 0.0,
        pitch: float = 0.0,
        shade: float = 1.0,
    ) -> None:
        """Add a box whose underside is centred on ``at``; its edges are bevelled if the level of detail allows it."""
        fineness = self.level * (bevel / 0.008) ** 0.5
        arc = int(fineness / 2.2)
        shape = shapes.rounded_box(size, bevel, arc) if arc else shapes.box(size, bevel if fineness > 0.75 else 0.0)
        if self._finishes[finish].grain:
            shape = shape._replace(uvs=_along_the_grain(shape))
        self.add(finish, shape, at, yaw, pitch, shade)

    def cushion(
        self,
        finish: str,
        size: Vector,
        at: Vector,
        radius: float,
        bulge: float = 0.0,
        yaw: float = 0.0,
        pitch: float = 0.0,
    ) -> None:
        """Add a soft box with round edges, its underside centred on ``at``."""
        if self.level < 0.45:
            shape = shapes.box(size, 0.6 * radius if self.level > COARSEST else 0.0)
        else:
            arc = self.segments(1.6 if radius > 0.025 else 1.0, 1)
            flat = self.segments(3, 1) if bulge else 1
            shape = shapes.rounded_box(size, radius, arc, flat, bulge)
        self.add(finish, shape, at, yaw, pitch)

    def lathe(
        self,
        finish: str,
        profile: Sequence[tuple[float, float]],
        at: Vector = (0, 0, 0),
        fine: int = 20,
        scale: tuple[float, float] = (1.0, 1.0),
        pitch: float = 0.0,
        yaw: float = 0.0,
        shade: float = 1.0,
    ) -> None:
        """Add a turned shape; ``fine`` segments at detail 1."""
        self.add(finish, shapes.lathe(profile, self.around(fine), scale), at, yaw, pitch, shade)

    def cylinder(self, finish: str, radius: float, height: float, at: Vector, fine: int = 16) -> None:
        """Add an upright cylinder, closed at the top."""
        self.lathe(finish, [(radius, 0), (radius, height), (0, height)], at, fine)

    def bar(
        self,
        finish: str,
        path: Sequence[Vector],
        radius: float | Sequence[float],
        fine: int = 8,
        least: int = 4,
        caps: bool = False,
    ) -> None:
        """Add a round bar along a path."""
        self.add(finish, shapes.tube(path, radius, self.segments(fine, least), caps))

    def leg(self, finish: str, foot: Vector, top: Vector, radius: tuple[float, float], square: bool = False) -> None:
        """Add a tapered leg from ``foot`` to ``top``, with the radii of both ends."""
        sides = 4 if square else self.segments(10, 4 if self.level > COARSEST else 3)
        self.add(finish, shapes.tube([foot, top], radius, sides))

    def panel(self, finish: str, size: tuple[float, float], at: Vector, crop: Vector | None = None) -> None:
        """Add an upright rectangle that faces +z, its lower edge centred on ``at``.

        Args:
            finish: Name of the finish.
            size: Width and height, metres.
            at: Middle of the lower edge.
            crop: (u0, v0, u1, v1) of the texture to show, v from the top; None lays the texture at its real size.
        """
        x = size[0] / 2
        y = size[1]
        shape = shapes.sheet(np.array([[[-x, 0, 0], [x, 0, 0]], [[-x, y, 0], [x, y, 0]]]))
        if crop is not None:
            u0, v0, u1, v1 = crop
            metres = self._finishes[finish].metres
            shape = shape._replace(uvs=np.array([[u0, v1], [u1, v1], [u0, v0], [u1, v0]]) * metres)
        self.add(finish, shape, at)

    def mat(self, finish: str, size: tuple[float, float], at: Vector, shade: float = 1.0) -> None:
        """Add a level rectangle of the given width and depth, centred on ``at``, that faces up."""
        x = size[0] / 2
        z = size[1] / 2
        shape = shapes.sheet(np.array([[[-x, 0, z], [x, 0, z]], [[-x, 0, -z], [x, 0, -z]]]))
        self.add(finish, shape, at, shade=shade)

    def solid(self) -> Solid:
        """Return everything added so far as one mesh."""
        return joined(self._parts)


def joined(solids: Sequence[Solid]) -> Solid:
    """Return solids as one."""
    starts = np.cumsum([0] + [len(solid.vertices) for solid in solids[:-1]])
    moved = [one._replace(triangles=one.triangles + start) for one, start in zip(solids, starts, strict=True)]
    return Solid(*map(np.concatenate, zip(*moved, strict=True)))


def _along_the_grain(shape: Shape) -> np.ndarray:
    """Return the texture coordinates of a box with u along the longer side of each of its six patches."""
    uvs = shape.uvs.reshape(6, -1, 2)
    extent = np.ptp(uvs, axis=1)
    swap = (extent[:, 1] > extent[:, 0])[:, None, None]
    return np.where(swap, uvs[..., ::-1], uvs).reshape(-1, 2)
