"""Find the storeys of a scene from its navmesh, and the heights at which maps cut them to show one storey."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.scene import Scene

_SHARE = 0.1  # of the walkable area that lies on a storey at least
_MOST = 4  # storeys
_BIN = 0.1  # metres: of heights that are counted
LEVEL, _HEADROOM = 0.4, 1.8  # metres within which a floor counts as level, and between storeys at least
_BELOW = 0.5  # metres under a floor that still belong to its storey: the last steps to it
CUT = 2.0  # metres over the visible floor at which a map cuts, unless the ceiling is lower
_UNDER = 0.4  # metres that the visible floor lies below the navmesh at most: voxels round up
_LOWEST_CEILING = 1.2  # metres over the floor
_CLEAR = 0.05  # metres between the cut and the ceiling
_CEILING_SHARE = 0.3  # of the floor's area that a ceiling has at least
_CEILING_DEPTH = 0.15  # metres within which that area lies
_LEVEL_NORMAL = 0.9  # the y of a level triangle's normal at least
EVERYWHERE = (-np.inf, np.inf)  # metres: the span of a map that shows more than one storey


def storeys(navmesh: NavMesh) -> list[float]:
    """Heights of a building's floors in metres, lowest first; empty for a landscape, which has no level floors."""
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
    """Lower and upper bound in metres of each floor's storey; one span without bounds if there is no floor."""
    bounds = [-np.inf, *(floor - _BELOW for floor in floors[1:]), np.inf]
    return list(pairwise(bounds))


def storey_at(navmesh: NavMesh, heights: np.ndarray | float) -> tuple[float | None, tuple[float, float]]:
    """Floor and span in metres of the storey that most of some heights lie in; the floor is None in a landscape."""
    floors = storeys(navmesh)
    spans = storey_spans(floors)
    most = max(range(len(spans)), key=lambda index: int(inside(spans[index], heights).sum()))
    return (floors[most] if floors else None), spans[most]


def inside(span: tuple[float, float], heights: np.ndarray | float) -> np.ndarray:
    """Whether heights [...] lie in a span: [...] bool."""
    return (np.asarray(heights) >= span[0]) & (np.asarray(heights) < span[1])


def polygon_heights(navmesh: NavMesh) -> np.ndarray:
    """The mean height [P] float64 of every polygon's corners, metres."""
    used = navmesh.polygons >= 0
    corners = navmesh.vertices[navmesh.polygons, 1].astype(np.float64)
    return np.where(used, corners, 0).sum(axis=1) / np.maximum(used.sum(axis=1), 1)


def visible_floor_and_cut(scene: Scene, floor: float) -> tuple[float, float]:
    """The visible floor of a storey, and the height at which a map has to cut the storey to look below its ceiling.

    Args:
        scene: The scene.
        floor: Height of the navmesh on the storey, metres; the visible floor lies at it or up to 0.4 m below it.

    Returns:
        Both heights, metres. The cut lies 2 m above the visible floor, or just below a lower ceiling: the lowest level
        surface more than 1.2 m above the floor that has at least 30% of the floor's area.
    """
    heights, areas = _level_triangles(scene)
    near = (heights > floor - _UNDER) & (heights < floor + _CLEAR)
    floor_area = float(areas[near].sum())
    if floor_area == 0:
        return floor, floor + CUT
    order = np.argsort(heights[near])
    upper = int(np.searchsorted(np.cumsum(areas[near][order]), 0.75 * floor_area))  # a slab has an underside as well
    visible = float(heights[near][order][min(upper, len(order) - 1)])
    above = (heights > visible + _LOWEST_CEILING) & (heights < visible + CUT + _CLEAR + _CEILING_DEPTH)
    order = np.argsort(heights[above])
    levels, sums = heights[above][order], np.concatenate([[0.0], np.cumsum(areas[above][order])])
    within = sums[np.searchsorted(levels, levels + _CEILING_DEPTH, side="right")] - sums[:-1]
    ceilings = levels[within >= _CEILING_SHARE * floor_area]
    return visible, min(visible + CUT, float(ceilings[0]) - _CLEAR if len(ceilings) else np.inf)


def _level_triangles(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Mean heights [L] (metres) and areas [L] (square metres) of the scene's level triangles, whichever way up."""
    corners = scene.vertices[scene.triangles].astype(np.float64)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    doubled = np.linalg.norm(normals, axis=1)
    level = (np.abs(normals[:, 1]) >= _LEVEL_NORMAL * doubled) & (doubled > 0)
    return corners[level, :, 1].mean(axis=1), doubled[level] / 2
