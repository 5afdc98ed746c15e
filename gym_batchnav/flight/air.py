"""Air: where a sphere can fly in a scene, the shortest paths there to some goals, and the surfaces around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gym_batchnav.flight.kernels.layout import Fields, Surfaces, Voxels
from gym_batchnav.flight.kernels.paths import find_field, lengths, write_turns
from gym_batchnav.flight.kernels.space import (
    NUM_NEIGHBOURS,
    label_parts,
    write_clearance,
    write_columns,
    write_neighbours,
)
from gym_batchnav.flight.kernels.sweep import distances
from gym_batchnav.flight.kernels.triangles import MARGIN, count_boxes, fill_cells

MAX_VOXELS = 8_000_000
MAX_WORK = 2e10  # pairs of a triangle and a voxel near it, which take a minute
VOXEL_SIDE_PER_RADIUS = 1.15  # the largest; two neighbours then cannot lie on both sides of a surface
OPEN_HEIGHT = 2.5  # metres above the floor to which agents fly where there is no ceiling
TOLERANCE = 1e-3  # metres by which a sphere may touch a surface
_AROUND = 3.0  # metres around the floor, within which there may be air
_ABOVE = 6.0  # metres
_BELOW = 0.5  # metres
_MAX_TURNS = 1000  # of a path
_TRIES = 100  # points for each one that is wanted, after which centres of voxels are taken
_CELL_SIDE = 0.25  # metres, of a cell; larger where there would be too many cells, or too many triangles in them
_MAX_CELLS = 4_000_000
_MAX_PAIRS = 20_000_000  # of a triangle and a cell that its bounding box touches
_QUADS = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))
_GAP = 1.5  # metres; narrower holes in floors and ceilings, and walls without a top, do not divide air
_BAND = 3.0  # voxels beyond the radius, up to which the clearance is known


@dataclass(frozen=True, slots=True, eq=False)
class Air:
    """The connected free space of a scene for a sphere, in voxels.

    Attributes:
        radius: Of the sphere, metres.
        surfaces: What it collides with.
        voxels: The clearance, and which voxels are in the air.
        fields: The shortest paths from every voxel of the air to the goals.
    """

    radius: float
    surfaces: Surfaces
    voxels: Voxels
    fields: Fields

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def distance(self, points: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Return the lengths [M] float32 of the shortest paths from points [M, 3] to goals [M], metres.

        They are inf where there is no path. The paths keep the radius, less a quarter of a voxel, from surfaces as the
        clearance between voxels is interpolated.
        """
        out = np.empty(len(points), np.float32)
        points = np.ascontiguousarray(points, np.float32)
        goals = np.ascontiguousarray(goals, np.int32)
        if len(goals) and not (goals.min() >= 0 and goals.max() < len(self.fields.goals)):
            raise ValueError(f"goals: pass numbers from 0 to {len(self.fields.goals) - 1}")
        lengths(self.voxels, self.fields, self.radius, points, goals, out)
        return out

    def shortest_path(self, point: np.ndarray, goal: int) -> np.ndarray:
        """Return the points [K, 3] float32 of the shortest path from a point [3] to a goal: the point, turns, the goal.

        It is the point alone where there is no path.

        Raises:
            ValueError: The goal does not exist.
        """
        if not 0 <= goal < len(self.fields.goals):
            raise ValueError(f"goal={goal}: pass a number from 0 to {len(self.fields.goals) - 1}")
        start = np.ascontiguousarray(point, np.float32)
        turns = np.empty((_MAX_TURNS, 3))
        count = write_turns(self.voxels, self.fields, self.radius, start, int(goal), turns)
        return np.concatenate([start[None], turns[:count].astype(np.float32)])

    def is_free(self, points: np.ndarray) -> np.ndarray:
        """Return whether a sphere at each of the points [M, 3] touches no surface [M] bool."""
        points = np.ascontiguousarray(points, np.float64)
        low = self.voxels.frame[:3]
        high = low + np.array(self.voxels.number.shape) * self.voxels.frame[3]
        inside = (points >= low).all(axis=1) & (points <= high).all(axis=1)
        found = np.zeros(len(points))
        distances(self.surfaces, np.ascontiguousarray(points[inside]), self.radius, out := np.empty(inside.sum()))
        found[inside] = out
        return found >= self.radius - TOLERANCE

    def random_points(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Return points [count, 3] float32, metres, uniform in the voxels of the air, that touch no surface."""
        found = np.empty((0, 3), np.float32)
        centers = self.fields.centers
        side = self.voxels.frame[3]
        for _ in range(_TRIES):
            if len(found) >= count:
                break
            rows = rng.integers(len(centers), size=count)
            tried = (centers[rows] + rng.uniform(-0.5 * side, 0.5 * side, (count, 3))).astype(np.float32)
            out = np.empty(count)
            distances(self.surfaces, tried.astype(np.float64), self.radius + TOLERANCE, out)
            found = np.concatenate([found, tried[out >= self.radius + 0.5 * TOLERANCE]])
        rest = centers[rng.integers(len(centers), size=max(0, count - len(found)))]
        return np.concatenate([found[:count], rest])

    def with_goals(self, goals: np.ndarray) -> Air:
        """Return the same air with the shortest paths to other goals [G, 3] float32, metres."""
        count = len(self.fields.centers)
        places = np.argwhere(self.voxels.number >= 0).astype(np.int32)
        neighbours = np.empty((count, NUM_NEIGHBOURS), np.int32)
        write_neighbours(self.voxels, places, self.radius, neighbours)
        distance = np.empty((len(goals), count), np.float32)
        parent = np.empty((len(goals), count), np.int32)
        for row, goal in enumerate(goals):
            find_field(self.voxels, self.fields.centers, neighbours, goal, self.radius, distance[row], parent[row])
        fields = Fields(self.fields.centers, np.ascontiguousarray(goals, np.float32), distance, parent)
        return Air(self.radius, self.surfaces, self.voxels, fields)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name, for ``air_from_arrays``."""
        parts: dict[str, Any] = {"surfaces": self.surfaces, "voxels": self.voxels, "fields": self.fields}
        return {f"{name}_{key}": array for name, part in parts.items() for key, array in part._asdict().items()}


def air_from_arrays(arrays: Mapping[str, np.ndarray], radius: float) -> Air:
    """Return the air of ``Air.arrays``.

    Raises:
        ValueError: Kernels could not read these arrays.
        KeyError: An array is missing.
    """
    surfaces = Surfaces(*(arrays[f"surfaces_{name}"] for name in Surfaces._fields))
    voxels = Voxels(*(arrays[f"voxels_{name}"] for name in Voxels._fields))
    fields = Fields(*(arrays[f"fields_{name}"] for name in Fields._fields))
    check_surfaces(surfaces)
    shape = voxels.number.shape
    count = len(fields.centers)
    num_goals = len(fields.goals)
    expected = (
        (voxels.clearance, np.float32, shape), (voxels.number, np.int32, shape), (voxels.frame, np.float64, (4,)),
        (fields.centers, np.float32, (count, 3)), (fields.goals, np.float32, (num_goals, 3)),
        (fields.distance, np.float32, (num_goals, count)), (fields.parent, np.int32, (num_goals, count)),
    )  # fmt: skip
    for array, dtype, wanted in expected:
        if array.dtype != dtype or array.shape != wanted or not array.flags.c_contiguous:
            raise ValueError(f"air: {array.dtype} {array.shape}, expected {np.dtype(dtype)} {wanted}")
    if len(shape) != 3 or min(shape) < 2 or not count or not num_goals:
        raise ValueError("air: there must be voxels and goals")
    for array in (voxels.clearance, voxels.frame, fields.centers, fields.goals):
        if not np.isfinite(array).all():
            raise ValueError("air: numbers must be finite")
    if not voxels.frame[3] > 0 or not (fields.distance >= 0).all():
        raise ValueError("air: the side of a voxel must be positive, and distances not negative")
    numbers = voxels.number[voxels.number >= 0]
    if len(numbers) != count or not (np.sort(numbers) == np.arange(count)).all():
        raise ValueError("air: the numbers of voxels do not fit their paths")
    if not (fields.parent.min() >= -1 and fields.parent.max() < count):
        raise ValueError("air: a path turns at a voxel that does not exist")
    return Air(radius, surfaces, voxels, fields)


def find_air(corners: np.ndarray, floor: np.ndarray, radius: float, cell: float) -> Air:
    """Find the air of a scene for a sphere; it has no goals yet.

    A voxel is in the air if a sphere at its centre touches no triangle, the vertical line through the centre meets
    triangles above and below or lies in a gap of them, and it is connected with the space above the floor. Where most
    of that space has no ceiling, air ends ``OPEN_HEIGHT`` above the floor instead. Of several parts, the largest is
    taken.

    Args:
        corners: [T, 3, 3] float32, metres, the triangles of the scene.
        floor: [S, 3] float32, metres, random points of the floor, evenly distributed.
        radius: Metres.
        cell: Side of a voxel, metres.

    Raises:
        ValueError: There is no free space above the floor, or too many voxels would be needed.
    """
    low, high = _box(corners, floor, radius, cell)
    shape = np.ceil((high - low) / cell).astype(np.int64)
    frame = np.array([*low, cell], np.float64)
    if shape.astype(np.float64).prod() > MAX_VOXELS:
        raise ValueError(
            f"its space of {' x '.join(f'{size:.0f}' for size in high - low)} m has more than {MAX_VOXELS:,} voxels of "
            f"{cell:g} m: pass a larger cell (and radius), or a smaller part of the scene"
        )
    band = radius + _BAND * cell
    if count_boxes(corners, shape, frame, band) > MAX_WORK:
        raise ValueError("its triangles are too large and too many to find free space among them: simplify the scene")
    above = floor + np.array([0, max(3 * radius, 2 * cell), 0])
    indoors = _indoors(corners, shape, frame, floor, above, radius)
    clearance = np.full(indoors.shape, band, np.float32)
    write_clearance(corners, frame, clearance)
    surfaces = make_surfaces(corners, low, low + np.array(indoors.shape) * cell)
    voxels = Voxels(clearance, np.full(indoors.shape, -1, np.int32), frame)
    labels = np.zeros(indoors.shape, np.int32)
    parts = label_parts(voxels, indoors & (clearance >= radius), radius, labels)
    sizes = np.bincount(labels.ravel(), minlength=parts + 1)
    reached = np.unique(labels[_places(indoors.shape, frame, above)])
    reached = reached[reached > 0]
    if not len(reached):
        raise ValueError(
            f"no free space above the floor for a flying agent of radius {radius:g} m: pass a smaller radius"
        )
    largest = reached[np.argmax(sizes[reached])]
    places = np.argwhere(labels == largest)
    voxels.number[tuple(places.T)] = np.arange(len(places), dtype=np.int32)
    centers = np.ascontiguousarray(low + (places + 0.5) * cell, np.float32)
    none = np.zeros((0, len(places)))
    fields = Fields(centers, np.zeros((0, 3), np.float32), none.astype(np.float32), none.astype(np.int32))
    return Air(radius, surfaces, voxels, fields)


def _box(corners: np.ndarray, floor: np.ndarray, radius: float, cell: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and largest corner [3] float64 of the box in which air is searched."""
    margin = 2 * (radius + cell)
    flat = corners.reshape(-1, 3)
    below = np.array([_AROUND, _BELOW, _AROUND])
    above = np.array([_AROUND, _ABOVE, _AROUND])
    low = np.maximum(floor.min(axis=0) - below, flat.min(axis=0) - margin)
    high = np.minimum(floor.max(axis=0) + above, flat.max(axis=0) + margin)
    high[1] = max(high[1], floor[:, 1].max() + OPEN_HEIGHT + margin)
    return low.astype(np.float64), high.astype(np.float64)


def _places(shape: tuple[int, ...], frame: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the voxels of points [M, 3] as three index arrays [M]."""
    cells = np.floor((points - frame[:3]) / frame[3]).astype(np.int64)
    return tuple(np.clip(cells, 0, np.array(shape) - 1).T)


def _indoors(
    corners: np.ndarray, shape: np.ndarray, frame: np.ndarray, floor: np.ndarray, above: np.ndarray, radius: float
) -> np.ndarray:
    """Return which voxels [X, Y, Z] bool have triangles above and below, or are in a gap between such voxels.

    Without ceilings, they are those near the floor instead, and Y is cut so that agents cannot fly higher.
    """
    x, y, z = shape.tolist()
    low = np.full((x, z), np.inf)
    high = np.full((x, z), -np.inf)
    write_columns(corners, frame, low, high)
    low, high = -_without_gaps(-low, frame[3]), _without_gaps(high, frame[3])
    column, _, row = _places((x, y, z), frame, above)
    if (above[:, 1] < high[column, row]).mean() < 0.5:
        top = floor[:, 1].max() + OPEN_HEIGHT
        high = np.full((x, z), top)
        y = int(np.ceil((top + radius - frame[1]) / frame[3]))
    heights = frame[1] + (np.arange(y) + 0.5) * frame[3]
    return (heights[:, None] > low[:, None]) & (heights[:, None] < high[:, None])


def _without_gaps(heights: np.ndarray, cell: float) -> np.ndarray:
    """Return heights [X, Z] in which gaps have the height of what surrounds them: their morphological closing."""
    steps = int(_GAP / cell / 2)
    out = np.pad(heights, steps + 1, constant_values=-np.inf)
    for reduced in (np.maximum, np.minimum):
        for _ in range(steps):
            for axis in (0, 1):
                out = reduced.reduce([out, np.roll(out, 1, axis), np.roll(out, -1, axis)])
    inside = slice(steps + 1, -steps - 1)
    return out[inside, inside]


def make_surfaces(corners: np.ndarray, low: np.ndarray, high: np.ndarray) -> Surfaces:
    """Return the triangles that lie in a box, together with the box's own faces, which no agent leaves.

    Args:
        corners: [T, 3, 3] float32, metres.
        low: [3], metres, the smallest corner of the box.
        high: [3], metres, its largest corner.
    """
    inside = ((corners.max(axis=1) >= low) & (corners.min(axis=1) <= high)).all(axis=1)
    corners = np.ascontiguousarray(np.concatenate([corners[inside], box_faces(low, high)]), np.float32)
    side = _CELL_SIDE
    while True:
        shape = np.maximum(np.ceil((high - low + 2 * MARGIN) / side), 1).astype(np.int64)
        frame = np.array([*(low - MARGIN), side], np.float64)
        if shape.astype(np.float64).prod() <= _MAX_CELLS and (
            shape.prod() == 1 or count_boxes(corners, shape, frame, MARGIN) <= _MAX_PAIRS
        ):
            break
        side *= 2
    start = np.zeros(int(shape.prod()) + 1, np.int64)
    none = np.zeros(0, np.int32)
    fill_cells(corners, shape, frame, start, none, True)
    start = np.cumsum(start)
    items = np.empty(int(start[-1]), np.int32)
    fill_cells(corners, shape, frame, start[:-1].copy(), items, False)
    return Surfaces(corners, start, items, shape, frame)


def box_faces(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the faces of a box as triangles [12, 3, 3] float32."""
    places = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
    quads = np.where(places, high, low).astype(np.float32)[np.array(_QUADS)]
    return np.ascontiguousarray(np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]]))


def check_surfaces(surfaces: Surfaces) -> None:
    """Raise ValueError unless kernels can read these arrays, such as those of a cache."""
    corners, start, items, shape, frame = surfaces
    kinds = ((corners, np.float32, 3), (start, np.int64, 1), (items, np.int32, 1), (shape, np.int64, 1))
    for array, dtype, axes in (*kinds, (frame, np.float64, 1)):
        if array.dtype != dtype or array.ndim != axes or not array.flags.c_contiguous:
            raise ValueError(f"surfaces: {array.dtype} {array.shape}, expected {np.dtype(dtype)} with {axes} axes")
    if corners.shape[1:] != (3, 3) or shape.shape != (3,) or frame.shape != (4,) or not len(corners):
        raise ValueError("surfaces: arrays of wrong shapes")
    if not np.isfinite(corners).all() or not np.isfinite(frame).all() or not frame[3] > 0:
        raise ValueError("surfaces: numbers must be finite, and the side of a cell positive")
    if shape.min() < 1 or shape.astype(np.float64).prod() != len(start) - 1:
        raise ValueError("surfaces: the number of cells differs from the shape of the grid")
    if start[0] != 0 or start[-1] != len(items) or (np.diff(start) < 0).any():
        raise ValueError(f"surfaces: rows of cells must rise from 0 to {len(items)}")
    if len(items) and not (items.min() >= 0 and items.max() < len(corners)):
        raise ValueError("surfaces: a triangle is out of range")
