"""Lumps of debris on floors, and where there is room for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gym_batchnav.homes import shapes

_PATH = 0.55  # metres that stay free round a lump
_TRIES = 6
_RADII = (0.12, 0.32)  # metres


def debris_spots(
    rooms: Sequence[Sequence[float]],
    obstacles: Sequence[Sequence[Sequence[float]]],
    count: int,
    rng: np.random.Generator,
) -> list[tuple[float, float, float]]:
    """Return up to ``count`` places (x, z, radius) on a floor that paths can lead round, metres.

    Args:
        rooms: Rectangles [x0, z0, x1, z1] between walls.
        obstacles: Convex polygons [[x, z], ...].
        count: Number of places wanted.
        rng: Random stream.
    """
    if not rooms:
        return []
    starts = [np.array(polygon) for polygon in obstacles]
    a = np.concatenate([*starts, np.zeros((0, 2))])
    b = np.concatenate([*(np.roll(polygon, -1, axis=0) for polygon in starts), np.zeros((0, 2))])
    boxes = np.array([[*polygon.min(axis=0), *polygon.max(axis=0)] for polygon in starts]).reshape(-1, 4)
    bounds = np.array(rooms)
    areas = (bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1])
    found: list[tuple[float, float, float]] = []
    for _ in range(count):
        radius = float(rng.uniform(*_RADII))
        margin = radius + _PATH
        for _ in range(_TRIES):
            x0, z0, x1, z1 = bounds[int(rng.choice(len(bounds), p=areas / areas.sum()))]
            x, z = rng.uniform((x0, z0), (x1, z1)).tolist()
            if min(x - x0, x1 - x, z - z0, z1 - z) < margin or _covered(boxes, x, z):
                continue
            if _nearest(a, b, np.array([x, z])) < margin:
                continue
            if all(np.hypot(x - u, z - w) > margin + other for u, w, other in found):
                found.append((x, z, radius))
                break
    return found


def _covered(boxes: np.ndarray, x: float, z: float) -> bool:
    """Return whether a point lies in one of the boxes [B, 4]."""
    return bool(((x > boxes[:, 0]) & (z > boxes[:, 1]) & (x < boxes[:, 2]) & (z < boxes[:, 3])).any())


def _nearest(a: np.ndarray, b: np.ndarray, point: np.ndarray) -> float:
    """Return the distance of a point [2] from the nearest of the segments from a [S, 2] to b [S, 2]."""
    if not len(a):
        return np.inf
    along = b - a
    share = np.clip(((point - a) * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-12), 0, 1)
    return float(np.linalg.norm(a + share[:, None] * along - point, axis=1).min())


def lump(radius: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices [V, 3], metres, and triangles [T, 3] of an uneven lump that stands on the origin."""
    height = float(rng.uniform(0.25, 1.6)) * radius
    profile = [(radius, 0.0), (0.95 * radius, 0.5 * height), (0.5 * radius, 0.95 * height), (0.0, height)]
    shape = shapes.lathe(profile, 7)
    x, y, z = shape.vertices.T
    around = np.arctan2(z, x)
    uneven = 1 - 0.25 * (1 + np.sin(3 * around + rng.uniform(0, 6.28)) * np.cos(2 * around + rng.uniform(0, 6.28))) / 2
    vertices = np.stack([x * uneven, y * (0.8 + 0.2 * np.sin(9 * x + rng.uniform(0, 6.28))), z * uneven], axis=1)
    return vertices, shape.triangles
