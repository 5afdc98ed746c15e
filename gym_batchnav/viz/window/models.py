"""Parts of a scene that the window draws: its textured surface, its navmesh, and distances on its floors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gym_batchnav.episodes.floors import floor_islands
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.save import glb_bytes
from gym_batchnav.scene.scene import Scene
from gym_batchnav.viz.fields import distances_to, farthest, field_colors
from gym_batchnav.viz.floors import LEVEL, polygon_heights, storey_spans, storeys, visible_floor_and_cut

LIFT = 0.02  # metres by which the navmesh is drawn above itself, so that the floor does not hide it
_CELL = 0.2  # metres between points of a field of distances, if these are not too many
_MAX_POINTS = 1 << 15  # of a field of distances
_NEAR = 0.05  # metres from such a point to the navmesh, horizontally


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """Geodesic distances to a goal from points on the floors."""

    points: np.ndarray  # [M, 3] float32, metres
    metres: np.ndarray  # [M] float32, inf where no path leads to the goal
    spacing: float  # metres between points

    @property
    def colors(self) -> np.ndarray:
        """The colours [M, 3] uint8 of the points."""
        return np.round(field_colors(self.metres, farthest(self.metres))).astype(np.uint8)


def scene_model(scene: Scene, navmesh: NavMesh) -> tuple[bytes | None, bytes | None]:
    """Return two glTF files: a scene without what is over its agents' heads, and that; None for an empty one."""
    over = is_overhead(scene, navmesh)
    return _part(scene, ~over), _part(scene, over)


def is_overhead(scene: Scene, navmesh: NavMesh) -> np.ndarray:
    """Return the triangles [T] bool that lie wholly above the cut of ``visible_floor_and_cut`` through their storey.

    Roofs, which are the upper faces of thick ceilings, do not count as storeys.
    """
    lowest = scene.vertices[scene.triangles, 1].min(axis=1)
    over = np.zeros(len(lowest), bool)
    levels = polygon_heights(navmesh)[floor_islands(scene, navmesh)[navmesh.polygon_island]]
    found = storeys(navmesh)
    floors = [floor for floor in found if (np.abs(levels - floor) <= LEVEL).any()] or found
    for floor, (_, top) in zip(floors, storey_spans(floors), strict=False):  # one span without a floor in a landscape
        cut = visible_floor_and_cut(scene, floor)[1]
        over |= (lowest >= cut) & (lowest < top)
    return over


def navmesh_triangles(navmesh: NavMesh) -> tuple[np.ndarray, np.ndarray]:
    """Return the surface of a navmesh: vertices [V, 3] float32 in metres, triangles [T, 3] int32."""
    data = navmesh.data
    return np.concatenate([data.vertices, data.detail_vertices]), data.detail_triangles


def first_hit(vertices: np.ndarray, triangles: np.ndarray, origin: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return the first point [3] float64 at which a ray meets a surface, from either side; NaN if it meets nothing.

    Vertices [V, 3] and the origin [3] are in metres; the direction [3] has any length but 0.
    """
    first, second, third = vertices[triangles].astype(np.float64).swapaxes(0, 1)
    direction = np.asarray(direction, np.float64)
    along, across = second - first, third - first
    normal = np.cross(direction, across)
    scale = (along * normal).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        offset = np.asarray(origin, np.float64) - first
        u = (offset * normal).sum(axis=1) / scale
        turned = np.cross(offset, along)
        v = turned @ direction / scale
        distance = (turned * across).sum(axis=1) / scale
        hit = (u >= 0) & (v >= 0) & (u + v <= 1) & (distance > 0)
    if not hit.any():
        return np.full(3, np.nan)
    return np.asarray(origin, np.float64) + distance[hit].min() * direction


def distance_field(navmesh: NavMesh, goal: np.ndarray) -> Field:
    """Return geodesic metres to a goal [3] from a grid of points on every floor; ValueError if it is not on a floor."""
    low, high = navmesh.floor_bounds.astype(np.float64)
    floors = storeys(navmesh) or [float(goal[1])]
    area = float(np.prod((high - low)[[0, 2]])) * len(floors)
    spacing = max(_CELL, float(np.sqrt(area / _MAX_POINTS)))
    x, z = np.meshgrid(np.arange(low[0], high[0], spacing), np.arange(low[2], high[2], spacing))
    grid = np.concatenate([np.stack([x.ravel(), np.full(x.size, floor), z.ravel()], axis=1) for floor in floors])
    snapped, polygon = navmesh.snap_with_polygon(grid)
    with np.errstate(invalid="ignore"):
        near = np.hypot(*(snapped - grid)[:, [0, 2]].T) <= _NEAR
    points = np.ascontiguousarray(snapped[near], np.float32)
    tables = navmesh.tables(np.asarray(goal, np.float64).reshape(1, 3))
    return Field(points, distances_to(tables, polygon[near], points), spacing)


def _part(scene: Scene, kept: np.ndarray) -> bytes | None:
    """Return some triangles [T] bool of a scene as one glTF node with a primitive per material."""
    if not kept.any():
        return None
    count = int(kept.sum())
    return glb_bytes(
        replace(
            scene,
            triangles=scene.triangles[kept],
            triangle_material=scene.triangle_material[kept],
            triangle_object=np.ones(count, np.int32),
            objects=(SceneObject("scene", ""),),
            navmesh=None,
            metadata={},
        )
    )
