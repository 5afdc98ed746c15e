"""Surfaces: the triangles that flying agents collide with, in a uniform grid."""

from __future__ import annotations

import numpy as np

from gym_batchnav.flight.kernels.cells import MARGIN, count_boxes, fill_cells
from gym_batchnav.flight.kernels.layout import Surfaces

_SIDE = 0.25  # metres, of a cell; larger where there would be too many cells, or too many triangles in them
_MAX_CELLS = 4_000_000
_MAX_PAIRS = 20_000_000  # of a triangle and a cell that its bounding box touches
_QUADS = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


def make_surfaces(corners: np.ndarray, low: np.ndarray, high: np.ndarray) -> Surfaces:
    """Return the triangles that lie in a box, together with the box's own faces, which no agent leaves.

    Args:
        corners: [T, 3, 3] float32, metres.
        low: [3], metres, the smallest corner of the box.
        high: [3], metres, its largest corner.
    """
    inside = ((corners.max(axis=1) >= low) & (corners.min(axis=1) <= high)).all(axis=1)
    corners = np.ascontiguousarray(np.concatenate([corners[inside], box_faces(low, high)]), np.float32)
    side = _SIDE
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
    return np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


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
