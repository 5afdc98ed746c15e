"""Geodesic distance to a goal as colours on a map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from PIL import Image, ImageDraw

from gym_batchnav.navmesh.agents import NavMeshAgents
from gym_batchnav.navmesh.kernels.ground import fill_heights
from gym_batchnav.navmesh.kernels.tables import NavigationTables
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.viz.floors import EVERYWHERE, inside, polygon_heights, storey_at, storeys
from gym_batchnav.viz.maps import TopDownMap
from gym_batchnav.viz.sheets import INK

FIELD_COLORS = np.array(
    [(250, 236, 170), (247, 197, 110), (236, 146, 92), (206, 96, 104), (156, 66, 124), (98, 48, 122), (46, 32, 86)],
    np.float64,
)  # from near to far
UNREACHABLE = (176, 178, 182)
_MAX_SHIFT = 1e-2  # metres from the centre of a pixel to the navmesh


def geodesic_field(navmesh: NavMesh, goal: np.ndarray, top_down: TopDownMap) -> np.ndarray:
    """Compute the geodesic distance from the centre of every pixel of a map to a goal.

    It is measured on the map's storey, or on the goal's where the map shows all storeys.

    Args:
        navmesh: The navmesh of the map's scene.
        goal: [3], metres; snapped first.
        top_down: The map, see ``navmesh_map`` and ``scene_map``.

    Returns:
        [H, W] float32: geodesic metres, inf where no path leads to the goal, NaN where the floor is not walkable.

    Raises:
        ValueError: The goal is not near the navmesh.
    """
    goal = np.asarray(goal, np.float64).reshape(3)
    tables = navmesh.tables(goal[None])
    covering = _polygons(navmesh, top_down, *_storey(navmesh, top_down, float(goal[1])))
    row, column = np.nonzero(covering >= 0)
    points = np.zeros((len(row), 3), np.float32)
    middle = np.stack([column, row], axis=1) + 0.5
    points[:, [0, 2]] = middle / top_down.pixels_per_metre + np.array(top_down.origin)
    fill_heights(tables.ground, covering[row, column], points)
    snapped, polygon = navmesh.snap_with_polygon(points)
    with np.errstate(invalid="ignore"):
        near = np.hypot(*(snapped - points)[:, [0, 2]].T) <= _MAX_SHIFT
    field = np.full(covering.shape, np.nan, np.float32)
    field[row[near], column[near]] = distances_to(
        tables, polygon[near], np.ascontiguousarray(snapped[near], np.float32)
    )
    return field


def distances_to(tables: NavigationTables, polygon: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the geodesic distances [M] float32, metres, from points on a navmesh to the only goal of its tables.

    Points [M, 3] float32, metres, are on polygons [M] int32.
    """
    distance = np.empty(len(points), np.float32)
    batch = NavMeshAgents(1)
    batch.set_slot(0, tables)
    zeros = np.zeros(len(points), np.int32)
    batch.distance(zeros, polygon, points, zeros, distance)
    return distance


def draw_field(top_down: TopDownMap, field: np.ndarray, contour: float = 1.0, strength: float = 0.8) -> TopDownMap:
    """Draw distances on a map as colours and lines of equal distance.

    Args:
        top_down: The map.
        field: [H, W], metres, from ``geodesic_field``. Infinite values are drawn grey, NaNs are not drawn.
        contour: Metres between lines; 0 for none.
        strength: Opacity of the colours, 0 to 1.
    """
    shown = np.isfinite(field)
    colors = np.where(shown[..., None], field_colors(field, farthest(field)), UNREACHABLE)
    mixed = (1 - strength) * top_down.picture + strength * colors
    picture = np.where(np.isnan(field)[..., None], top_down.picture, mixed)
    if contour > 0:
        band = np.floor(np.where(shown, field, 0) / contour)
        for axis in (0, 1):
            here, there = (np.take(band, np.arange(band.shape[axis] - 1) + k, axis) for k in (0, 1))
            both = np.logical_and(*(np.take(shown, np.arange(band.shape[axis] - 1) + k, axis) for k in (0, 1)))
            line = np.nonzero(both & (here != there))
            picture[line] = 0.45 * picture[line] + 0.55 * np.array(INK)
    return replace(top_down, picture=np.round(picture).astype(np.uint8))


def field_colors(metres: np.ndarray, far: float) -> np.ndarray:
    """Return the colours [..., 3] float64, 0 to 255, of distances [...] from 0 to ``far`` metres."""
    place = np.nan_to_num(np.asarray(metres, np.float64) / far, nan=0.0, posinf=1.0)
    stops = np.linspace(0, 1, len(FIELD_COLORS))
    return np.stack([np.interp(place, stops, channel) for channel in FIELD_COLORS.T], axis=-1)


def farthest(field: np.ndarray) -> float:
    """Return the largest finite distance of a field, in metres; 1 if there is none."""
    found = field[np.isfinite(field)]
    return max(float(found.max()), 1e-3) if len(found) else 1.0


def _storey(navmesh: NavMesh, top_down: TopDownMap, goal: float) -> tuple[float, tuple[float, float]]:
    """Return the height to which the chosen polygons should be closest, and the span in which they must lie, metres."""
    if top_down.span == EVERYWHERE:
        return goal, storey_at(navmesh, goal)[1]
    if inside(top_down.span, goal):
        return goal, top_down.span
    return next(floor for floor in storeys(navmesh) if inside(top_down.span, floor)), top_down.span


def _polygons(navmesh: NavMesh, top_down: TopDownMap, height: float, span: tuple[float, float]) -> np.ndarray:
    """Return the polygon [H, W] int32 at every pixel, -1 for none: that within ``span`` and closest to ``height``."""
    picture_height, picture_width = top_down.picture.shape[:2]
    image = Image.new("I", (picture_width, picture_height), -1)
    draw = ImageDraw.Draw(image)
    used = navmesh.polygons >= 0
    heights = polygon_heights(navmesh)
    order = np.argsort(-np.abs(heights - height), kind="stable")
    for index in order[inside(span, heights[order])].tolist():
        outline = top_down.pixels(navmesh.vertices[navmesh.polygons[index][used[index]]])
        draw.polygon([tuple(point) for point in outline.tolist()], fill=index)
    return np.asarray(image, np.int32)
