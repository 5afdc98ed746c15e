"""Find the storeys of a scene from its navmesh, and the heights at which maps cut them to show one storey."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.scene import Scene

_MIN_SHARE = 0.1  # of the walkable area on a storey
_MAX_STOREYS = 4
_BIN = 0.1  # metres; width of the bins of heights
LEVEL = 0.4  # metres; a floor is level within this height
_HEADROOM = 1.8  # metres; minimum distance between storeys
_BELOW = 0.5  # metres below a floor that belong to its storey: the last steps of its stairs
CUT = 2.0  # metres above the visible floor at which a map cuts, unless the ceiling is lower
_MAX_DROP = 0.4  # metres from the navmesh down to the visible floor; voxels round up
_LOWEST_CEILING = 1.2  # metres above the floor
_CLEAR = 0.05  # metres between the cut and the ceiling
_CEILING_SHARE = 0.3  # minimum area of a ceiling, relative to its floor
_CEILING_DEPTH = 0.15  # metres; that area lies within this height
_LEVEL_NORMAL = 0.9  # minimum y of a level triangle's normal
EVERYWHERE = (-np.inf, np.inf)  # metres: the span of a map that shows more than one storey


def storeys(navmesh: NavMesh) -> list[float]:
    """Return the heights of a building's floors, in metres, the lowest first; empty without level floors."""
    if not navmesh.num_polygons:
        return []
    heights = polygon_heights(navmesh)
    area = navmesh.polygon_area
    corners = navmesh.vertices[navmesh.polygons, 1]
    steep = np.ptp(np.where(navmesh.polygons >= 0, corners, corners[:, :1]), axis=1) > 2 * LEVEL
    left = np.where(steep, 0.0, area)  # area that may still belong to another floor
    bins = np.round((heights - heights.min()) / _BIN).astype(int)
    width = round(LEVEL / _BIN)
    floors: list[float] = []
    level = 0.0
    while len(floors) < _MAX_STOREYS:
        around_bin = np.convolve(np.bincount(bins, left), np.ones(2 * width + 1))[width:-width]
        best = int(around_bin.argmax())
        if around_bin[best] < _MIN_SHARE * area.sum():
            break
        at = np.abs(bins - best) <= width
        floors.append(float(np.average(heights[at], weights=left[at])))
        level += around_bin[best]
        left[np.abs(heights - floors[-1]) <= _HEADROOM] = 0
    return sorted(floors) if level > 0.6 * area.sum() else []


def storey_spans(floors: list[float]) -> list[tuple[float, float]]:
    """Return the lower and upper bound of each floor's storey, in metres; one infinite span without floors."""
    bounds = [-np.inf, *(floor - _BELOW for floor in floors[1:]), np.inf]
    return list(pairwise(bounds))


def storey_at(navmesh: NavMesh, heights: np.ndarray | float) -> tuple[float | None, tuple[float, float]]:
    """Return floor and span, in metres, of the storey that contains most heights; the floor is None in a landscape."""
    floors = storeys(navmesh)
    spans = storey_spans(floors)
    most = max(range(len(spans)), key=lambda index: int(inside(spans[index], heights).sum()))
    return (floors[most] if floors else None), spans[most]


def inside(span: tuple[float, float], heights: np.ndarray | float) -> np.ndarray:
    """Return whether heights [...] lie in a span, [...] bool."""
    return (np.asarray(heights) >= span[0]) & (np.asarray(heights) < span[1])


def polygon_heights(navmesh: NavMesh) -> np.ndarray:
    """Return the mean height [P] float64 of every polygon's corners, in metres."""
    used = navmesh.polygons >= 0
    corners = navmesh.vertices[navmesh.polygons, 1].astype(np.float64)
    return np.where(used, corners, 0).sum(axis=1) / np.maximum(used.sum(axis=1), 1)


def visible_floor_and_cut(scene: Scene, floor: float) -> tuple[float, float]:
    """Return the height of a storey's visible floor, and the height of the cut through which a map shows the storey.

    Heights are in metres. The visible floor lies at ``floor``, that of the navmesh, or up to 0.4 m below it. The cut
    lies 2 m above it, or just below a lower ceiling: the lowest level surface more than 1.2 m above the floor that has
    at least 30% of the floor's area.
    """
    heights, areas = _level_triangles(scene)
    near = (heights > floor - _MAX_DROP) & (heights < floor + _CLEAR)
    floor_area = float(areas[near].sum())
    if floor_area == 0:
        return floor, floor + CUT
    order = np.argsort(heights[near])
    upper = int(np.searchsorted(np.cumsum(areas[near][order]), 0.75 * floor_area))  # a slab has an underside as well
    visible = float(heights[near][order][min(upper, len(order) - 1)])
    above = (heights > visible + _LOWEST_CEILING) & (heights < visible + CUT + _CLEAR + _CEILING_DEPTH)
    order = np.argsort(heights[above])
    levels = heights[above][order]
    sums = np.concatenate([[0.0], np.cumsum(areas[above][order])])
    within = sums[np.searchsorted(levels, levels + _CEILING_DEPTH, side="right")] - sums[:-1]
    ceilings = levels[within >= _CEILING_SHARE * floor_area]
    return visible, min(visible + CUT, float(ceilings[0]) - _CLEAR if len(ceilings) else np.inf)


def _level_triangles(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Return mean heights [L] (metres) and areas [L] (square metres) of all level triangles, facing up or down."""
    corners = scene.vertices[scene.triangles].astype(np.float64)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    doubled = np.linalg.norm(normals, axis=1)
    level = (np.abs(normals[:, 1]) >= _LEVEL_NORMAL * doubled) & (doubled > 0)
    return corners[level, :, 1].mean(axis=1), doubled[level] / 2
