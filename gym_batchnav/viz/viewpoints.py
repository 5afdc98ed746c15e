"""Choose viewpoints that together show most of a scene, or one that overlooks it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gym_batchnav.geometry import Camera, look_at, view_matrices
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.scene.scene import Scene
from gym_batchnav.viz.floors import LEVEL, storeys

_PLACES = 64  # candidates; all headings at each place
_HEADINGS = 8
_PIXELS = 24  # per side of the images of candidates
_CELL = 0.5  # metres; side of the cubes in which visible surface is counted, larger in large scenes
_REACH = 12  # cubes; surfaces farther away do not count
_SEEN = 0.1  # weight of a cube that an earlier viewpoint shows
_OVERLOOK = (0.6, 0.39)  # up and back to the place that overlooks a scene, in lengths of its diagonal
_ISLAND = 0.05  # minimum share of the walkable area: includes rooms, excludes tops of tables


class Viewpoints(NamedTuple):
    """Positions and headings of M viewpoints."""

    position: np.ndarray  # [M, 3] float32, metres
    heading: np.ndarray  # [M] float64, radians


def best_viewpoints(
    renderer: Renderer, navmesh: NavMesh, camera: Camera, count: int, rng: np.random.Generator
) -> Viewpoints:
    """Choose viewpoints on the navmesh that together show the most of the scene, the best first.

    The choice is greedy: each is the one of 512 random candidates that adds the most visible surface.

    Args:
        renderer: Draws the scene, in slot 0.
        navmesh: The surface on which viewpoints stand.
        camera: The camera of the views.
        count: M, the number of viewpoints.
        rng: Draws the places.
    """
    places = _places(navmesh, rng)
    position = np.repeat(places, _HEADINGS, axis=0)
    heading = (rng.uniform(-np.pi, np.pi, (len(places), 1)) + np.arange(_HEADINGS) * 2 * np.pi / _HEADINGS).ravel()
    seen = _visible_cubes(renderer, view_matrices(position, heading, camera.eye_height), camera, navmesh)
    worth = np.ones(seen.shape[1])
    chosen = []
    for _ in range(count):
        best = int(np.argmax(seen @ worth))
        chosen.append(best)
        worth[seen[best]] *= _SEEN
    return Viewpoints(position[chosen], heading[chosen])


def _places(navmesh: NavMesh, rng: np.random.Generator) -> np.ndarray:
    """Return random places [P, 3] float32 on the floors of larger islands, the half that is farther from walls."""
    floors = storeys(navmesh)
    areas = np.array([island.area for island in navmesh.islands])
    large = np.flatnonzero(areas >= _ISLAND * areas.sum())
    large = large if len(large) else np.array([areas.argmax()])
    shares = np.ceil(2 * _PLACES * areas[large] / areas[large].sum()).astype(int)
    places = []
    for island, share in zip(large, shares, strict=True):
        drawn = navmesh.random_points(int(share), rng, int(island))
        clear = navmesh.distance_to_obstacle(drawn)
        places.append(drawn[np.argsort(-clear)[: -(-share // 2)]])
    found = np.concatenate(places)
    if not floors:
        return found
    level = np.abs(found[:, 1:2] - floors).min(axis=1) <= LEVEL  # not on a bed
    return found[level] if level.any() else found


def _visible_cubes(renderer: Renderer, views: np.ndarray, camera: Camera, navmesh: NavMesh) -> np.ndarray:
    """Return which of the C cubes of the scene each view [V, 4, 4] shows, [V, C] bool."""
    cell = max(_CELL, float(np.ptp(navmesh.floor_bounds, axis=0).max()) / 64)
    reach = _REACH * cell
    small = Camera(_PIXELS, _PIXELS, camera.hfov_deg, max_depth=reach, normalize_depth=False, depth_miss="zero")
    target = renderer.target(small, ("depth",), num_views=_HEADINGS, buffers=1)
    slots = np.zeros(_HEADINGS, int)
    batches = [target.render(slots, batch)["depth"].copy() for batch in views.reshape(-1, _HEADINGS, 4, 4)]
    target.close()
    depth = np.concatenate(batches).reshape(len(views), -1).astype(np.float64)
    axis = ((np.arange(_PIXELS) + 0.5) / _PIXELS * 2 - 1) * small.tan_half_width
    rays = np.stack([*(grid.ravel() for grid in np.meshgrid(axis, -axis)), -np.ones(_PIXELS**2)], axis=1)
    points = depth[..., None] * rays - views[:, None, :3, 3]
    points = points @ views[:, :3, :3]  # row vectors, so that this applies the inverse rotation
    hit = (depth > 0) & (depth < reach)
    cubes, index = np.unique(np.floor(points[hit] / cell).astype(np.int64), axis=0, return_inverse=True)
    seen = np.zeros((len(views), len(cubes)), bool)
    seen[np.nonzero(hit)[0], index.ravel()] = True
    return seen


def views_around(scene: Scene, count: int) -> np.ndarray:
    """Return views [count, 4, 4] float32 of a scene from all sides and slightly above."""
    low, high = scene.bounds.astype(np.float64)
    middle = (low + high) / 2
    reach = max(float(np.linalg.norm(high - low)), 1e-3)
    angle = np.arange(count) * 2 * np.pi / count
    steps = np.stack([np.sin(angle), np.full(count, 0.5), np.cos(angle)], axis=1)
    return np.stack([look_at(middle + 0.8 * reach * step, middle) for step in steps])


def overlook(bounds: np.ndarray, aside: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return a place from which a whole scene is seen obliquely from above, its longer side across the picture.

    Args:
        bounds: [2, 3], metres.
        aside: By how much of its width the scene is left of the middle of the picture.

    Returns:
        The eye [3] and the point [3] that it looks at, metres.
    """
    low, high = np.asarray(bounds, np.float64)
    size = high - low
    across, away = (2, 0) if size[2] > size[0] else (0, 2)
    right = 1 if across == 0 else -1
    target = (low + high) / 2
    target[across] += right * aside * size[across]
    eye = target.copy()
    eye[[1, away]] += np.array(_OVERLOOK) * np.linalg.norm(size)
    return eye, target
