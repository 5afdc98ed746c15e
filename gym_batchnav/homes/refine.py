"""Refinement of triangle meshes without cracks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_ROUNDS = 8  # each halves the longest edges


class Surface(NamedTuple):
    """The triangles of a scene with all that belongs to their corners."""

    vertices: np.ndarray  # [V, 3] float64, metres
    uvs: np.ndarray  # [V, 2] float64
    colors: np.ndarray  # [V, 4] float64, 0 to 255
    triangles: np.ndarray  # [T, 3] int64
    material: np.ndarray  # [T] int64
    object: np.ndarray  # [T] int64

    def keep(self, kept: np.ndarray) -> Surface:
        """Return the surface with only the triangles of a mask [T]."""
        return self._replace(
            triangles=self.triangles[kept], material=self.material[kept], object=self.object[kept]
        ).compact()

    def compact(self) -> Surface:
        """Return the surface without the vertices that no triangle uses."""
        used = np.zeros(len(self.vertices), bool)
        used[self.triangles] = True
        row = np.cumsum(used) - 1
        return self._replace(
            vertices=self.vertices[used],
            uvs=self.uvs[used],
            colors=self.colors[used],
            triangles=row[self.triangles],
        )

    def joined(self, other: Surface) -> Surface:
        """Return both surfaces as one."""
        moved = other._replace(triangles=other.triangles + len(self.vertices))
        return Surface(*(np.concatenate(pair) for pair in zip(self, moved, strict=True)))

    @property
    def centers(self) -> np.ndarray:
        """[T, 3], the centre of each triangle, metres."""
        return self.vertices[self.triangles].mean(axis=1)

    @property
    def areas(self) -> np.ndarray:
        """[T], square metres."""
        a, b, c = (self.vertices[self.triangles[:, k]] for k in range(3))
        return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


class Spots(NamedTuple):
    """Places where a mesh is to be fine."""

    points: np.ndarray  # [K, 3], metres
    radii: np.ndarray  # [K], metres
    longest: float  # metres, of edges there


def refine(surface: Surface, longest: float, spots: Spots | None = None) -> Surface:
    """Split edges longer than ``longest`` metres in the middle, and near spots shorter ones, for a few rounds.

    Whether an edge is split depends on its ends alone, so triangles that share an edge split it alike.
    """
    for _ in range(_ROUNDS):
        corners = surface.vertices[surface.triangles]
        following = np.roll(corners, -1, axis=1)
        lengths = np.linalg.norm(following - corners, axis=2)
        split = lengths > longest
        if spots is not None:
            split |= _near(spots, (corners + following) / 2, lengths)
        if not split.any():
            break
        surface = _split(surface, split)
    return surface


def _near(spots: Spots, middles: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return which edges [T, 3] with middles [T, 3, 3] are too long for a spot that they may touch."""
    found = np.zeros(lengths.shape, bool)
    rows = np.nonzero(lengths > spots.longest)
    middle = middles[rows]
    reach = lengths[rows] / 2
    touched = np.zeros(len(reach), bool)
    for point, radius in zip(spots.points, spots.radii, strict=True):
        touched |= ((middle - point) ** 2).sum(axis=1) < (reach + radius) ** 2
    found[rows] = touched
    return found


def _split(surface: Surface, split: np.ndarray) -> Surface:
    """Split the marked edges [T, 3] (first to second corner, second to third, third to first) of triangles."""
    corners = surface.triangles
    ends = np.stack([corners, np.roll(corners, -1, axis=1)], axis=-1)[split]  # [E, 2]
    pairs, index = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True)
    middle = np.full(corners.shape, -1, np.int64)
    middle[split] = len(surface.vertices) + index.ravel()
    first, second = pairs.T

    def halved(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values, (values[first] + values[second]) / 2])

    parts = [(corners[~split.any(axis=1)], np.flatnonzero(~split.any(axis=1)))]
    count = split.sum(axis=1)
    for number in (1, 2, 3):
        rows = np.flatnonzero(count == number)
        # Turn the corners so that the pattern of marked edges is always the same.
        turn = np.argmax(split[rows], axis=1) if number == 1 else (np.argmin(split[rows], axis=1) + 1) % 3
        turn = np.zeros(len(rows), np.int64) if number == 3 else turn
        order = (turn[:, None] + np.arange(3)) % 3
        a, b, c = np.take_along_axis(corners[rows], order, axis=1).T
        ab, bc, ca = np.take_along_axis(middle[rows], order, axis=1).T
        patterns = {
            1: ((a, ab, c), (ab, b, c)),
            2: ((a, ab, bc), (ab, b, bc), (a, bc, c)),
            3: ((a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)),
        }
        parts += [(np.stack(one, axis=1), rows) for one in patterns[number]]
    source = np.concatenate([rows for _, rows in parts])
    return Surface(
        halved(surface.vertices),
        halved(surface.uvs),
        halved(surface.colors),
        np.concatenate([triangles for triangles, _ in parts]),
        surface.material[source],
        surface.object[source],
    )
