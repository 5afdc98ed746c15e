"""The storeys of a scene, as its navmesh tells them: maps show one at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh

_SHARE = 0.1  # of the walkable area that lies on a storey at least
_MOST = 4  # storeys
_BIN = 0.1  # metres: of heights that are counted
LEVEL, _HEADROOM = 0.4, 1.8  # metres within which a floor counts as level, and between storeys at least
_BELOW = 0.5  # metres under a floor that still belong to its storey: the last steps to it
EVERYWHERE = (-np.inf, np.inf)  # metres: the span of a map that shows more than one storey


def storeys(navmesh: NavMesh) -> list[float]:
    """Heights of a building's floors, metres, lowest first; none for a landscape, which has no level floors."""
    if not navmesh.num_polygons:
        return []
    heights, area = polygon_heights(navmesh), navmesh.polygon_area
    corners = navmesh.vertices[navmesh.polygons, 1]
    steep = np.ptp(np.where(navmesh.polygons >= 0, corners, corners[:, :1]), axis=1) > 2 * LEVEL
    left = np.where(steep, 0.0, area)  # what may still be part of a floor
    bins = np.round((heights - heights.min()) / _BIN).astype(int)
    width = round(LEVEL / _BIN)
    floors: list[float] = []
    level = 0.0
    while len(floors) < _MOST:
        around_bin = np.convolve(np.bincount(bins, left), np.ones(2 * width + 1))[width:-width]
        best = int(around_bin.argmax())
        if around_bin[best] < _SHARE * area.sum():
            break
        at = np.abs(bins - best) <= width
        floors.append(float(np.average(heights[at], weights=left[at])))
        level += around_bin[best]
        left[np.abs(heights - floors[-1]) <= _HEADROOM] = 0
    return sorted(floors) if level > 0.6 * area.sum() else []


def storey_spans(floors: list[float]) -> list[tuple[float, float]]:
    """Between which heights, metres, each of some floors' storeys lies; one without bounds if there is no floor."""
    bounds = [-np.inf, *(floor - _BELOW for floor in floors[1:]), np.inf]
    return list(pairwise(bounds))


def storey_at(navmesh: NavMesh, heights: np.ndarray | float) -> tuple[float | None, tuple[float, float]]:
    """The storey that most of some heights, metres, lie in: its floor (None in a landscape) and its span."""
    floors = storeys(navmesh)
    spans = storey_spans(floors)
    most = max(range(len(spans)), key=lambda index: int(inside(spans[index], heights).sum()))
    return (floors[most] if floors else None), spans[most]


def inside(span: tuple[float, float], heights: np.ndarray | float) -> np.ndarray:
    """Which heights lie in a span: [...] bool."""
    return (np.asarray(heights) >= span[0]) & (np.asarray(heights) < span[1])


def polygon_heights(navmesh: NavMesh) -> np.ndarray:
    """The mean height [P] float64 of every polygon's corners, metres."""
    used = navmesh.polygons >= 0
    corners = navmesh.vertices[navmesh.polygons, 1].astype(np.float64)
    return np.where(used, corners, 0).sum(axis=1) / np.maximum(used.sum(axis=1), 1)
