"""Daylight: the brightness of rooms from their windows, and patches of sun on floors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gym_batchnav.homes.plan import Room

_AMBIENT = 0.68  # share of light where no window reaches
_LAMPLIT = 0.80  # share of light in a room without windows
_ENOUGH = 0.15  # solid angle of sky, steradians, that takes the light most of the way up
_FRAME = 0.06  # metres of a window's edge that the sun does not pass
_FACING = 0.2  # least cosine between the sun's way and a window's


class Daylight:
    """The light in one room, from its windows and the sun.

    Args:
        room: With its windows.
        sun: [3], unit vector along the sunlight.
    """

    def __init__(self, room: Room, sun: np.ndarray) -> None:
        self._room = room
        self._sun = sun
        self._panes = [(wall, opening) for wall in room.walls for opening in wall.openings if opening.kind == "window"]

    def at(self, points: np.ndarray) -> np.ndarray:
        """Return the share of light [...] at points [..., 3] in metres, counted from the floor of the room's storey."""
        if not self._panes:
            return np.full(points.shape[:-1], _LAMPLIT)
        sky = np.zeros(points.shape[:-1])
        for wall, opening in self._panes:
            centre = wall.point((opening.u0 + opening.u1) / 2, 0.0, (opening.y0 + opening.y1) / 2)
            inward = wall.point(0.0, 1.0) - wall.point(0.0)
            way = points - centre
            squared = (way**2).sum(axis=-1) + 0.5
            area = (opening.u1 - opening.u0) * (opening.y1 - opening.y0)
            sky += area * np.maximum(way @ inward, 0.0) / squared**1.5
        return 1 - (1 - _AMBIENT) * np.exp(-sky / _ENOUGH)

    def sun_patches(self) -> list[np.ndarray]:
        """Return the convex polygons [K, 2] (x, z) of sun on the floor, counter-clockwise seen from above."""
        patches = []
        for wall, opening in self._panes:
            inward = wall.point(0.0, 1.0) - wall.point(0.0)
            if self._sun @ inward < _FACING:
                continue
            middle = (opening.u0 + opening.u1) / 2
            stops = [opening.u0, opening.u1] if opening.u1 - opening.u0 < 0.9 else [opening.u0, middle, opening.u1]
            for left, right in pairwise(stops):
                us = (left + _FRAME, right - _FRAME)
                ys = (opening.y0 + _FRAME, opening.y1 - _FRAME)
                corners = np.array(
                    [wall.point(u, 0.0, y) for u, y in zip(us + us[::-1], np.repeat(ys, 2), strict=True)]
                )
                fallen = corners - self._sun * (corners[:, 1:2] / self._sun[1])
                patch = clip(fallen[:, [0, 2]], self._room.bounds)
                if len(patch) > 2:
                    patches.append(_turning_up(patch))
        return patches


def draw_sun(rng: np.random.Generator) -> np.ndarray:
    """Return a random direction of the sunlight [3], 35 to 50 degrees downwards."""
    height = np.radians(rng.uniform(35, 50))
    bearing = rng.uniform(0, 2 * np.pi)
    return np.array([np.cos(height) * np.sin(bearing), -np.sin(height), np.cos(height) * np.cos(bearing)])


def clip(polygon: np.ndarray, rect: Sequence[float]) -> np.ndarray:
    """Clip a convex polygon [K, 2] to a rectangle (x0, z0, x1, z1): [L, 2], empty if nothing is left."""
    for axis, bound, sign in ((0, rect[0], 1), (1, rect[1], 1), (0, rect[2], -1), (1, rect[3], -1)):
        inside = sign * (polygon[:, axis] - bound)
        kept = []
        for k in range(len(polygon)):
            following = (k + 1) % len(polygon)
            if inside[k] >= 0:
                kept.append(polygon[k])
            if inside[k] * inside[following] < 0:
                share = inside[k] / (inside[k] - inside[following])
                kept.append(polygon[k] + share * (polygon[following] - polygon[k]))
        polygon = np.array(kept).reshape(-1, 2)
    return polygon


def _turning_up(polygon: np.ndarray) -> np.ndarray:
    """Return the polygon in the order in which its fan of triangles faces up."""
    x, z = polygon.T
    turn = (x * np.roll(z, -1) - z * np.roll(x, -1)).sum()
    return polygon if turn < 0 else polygon[::-1]
