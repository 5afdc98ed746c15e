"""Overviews of a scene or a navmesh in one image, and the viewpoints from which they show it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.geometry import Camera, look_at, view_matrices
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.scene.scene import Scene
from gym_batchnav.viz.floors import LEVEL, storeys
from gym_batchnav.viz.maps import draw_outline, draw_trajectories, draw_viewpoints, navmesh_map, storey_map
from gym_batchnav.viz.sheets import BACKGROUND, INK, captioned, mosaic, numbered, side_by_side, titled
from gym_batchnav.viz.views import draw_for_people

_PLACES = 64  # candidates; all headings at each place
_HEADINGS = 8
_PIXELS = 24  # per side of the images of candidates
_CELL = 0.5  # metres; side of the cubes in which visible surface is counted, larger in large scenes
_REACH = 12  # cubes; surfaces farther away do not count
_SEEN = 0.1  # weight of a cube that an earlier viewpoint shows
_OVERLOOK = (0.6, 0.39)  # up and back to the place that overlooks a scene, in lengths of its diagonal
_ISLAND = 0.05  # minimum share of the walkable area: includes rooms, excludes tops of tables
NUM_VIEWS = 8
PERSON = 1.7  # metres; height of the figure that shows the scale
_COLUMNS = 4
_PERSON_DISTANCE = (1.2, 3.0)  # metres in front of the viewer, minimum and maximum
_PERSON_COLOR = (225, 161, 41)


def best_viewpoints(
    renderer: Renderer, navmesh: NavMesh, camera: Camera, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Choose viewpoints on the navmesh that together show the most of the scene in slot 0, the best first.

    The choice is greedy: each is the one of 512 random candidates that adds the most visible surface. Return positions
    [count, 3] float32, metres, and headings [count] float64, radians.
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
    return position[chosen], heading[chosen]


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
    slots = np.zeros(_HEADINGS, int)
    with closing(renderer.target(small, ("depth",), num_views=_HEADINGS, buffers=1)) as target:
        batches = [target.render(slots, batch)["depth"].copy() for batch in views.reshape(-1, _HEADINGS, 4, 4)]
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
    """Return an eye [3] and the point [3] that it looks at, metres, so that a scene is seen obliquely from above.

    The longer side of its bounds [2, 3], metres, is across the picture. ``aside`` is the share of its width by which
    the scene is left of the middle.
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


def scene_overview(
    renderer: Renderer, scene: Scene, navmesh: NavMesh | None, camera: Camera, rng: np.random.Generator
) -> np.ndarray:
    """Draw a scene as one image [H, W, 3] uint8: maps of its storeys and numbered views from eye level.

    One view shows a figure of a person, 1.7 m tall, where there is room for it.

    Args:
        renderer: Draws the scene, in slot 0.
        scene: The scene.
        navmesh: Its navmesh; without one, or with an empty one, the scene is drawn from outside.
        camera: The camera of the views from eye level.
        rng: Draws the candidate viewpoints.
    """
    slots = np.zeros(NUM_VIEWS, int)
    if navmesh is None or not navmesh.num_polygons:
        return mosaic(draw_for_people(renderer, camera, slots, views_around(scene, NUM_VIEWS)), columns=_COLUMNS)
    position, heading = best_viewpoints(renderer, navmesh, camera, NUM_VIEWS, rng)
    floor = navmesh.visible_floor(position, navmesh.drops(scene.vertices, scene.triangles))
    pictures = list(draw_for_people(renderer, camera, slots, view_matrices(floor, heading, camera.eye_height)))
    room = _room_ahead(navmesh, position, heading)
    best = int(np.argmax(room))
    if room[best] >= _PERSON_DISTANCE[0]:
        pictures[best] = draw_person(pictures[best], camera, float(room[best]))
    tiles = [numbered(picture, 1 + index) for index, picture in enumerate(pictures)]
    maps = _numbered_maps(renderer, scene, navmesh, position, heading, 2 * camera.width)
    return side_by_side([*maps, mosaic(np.stack(tiles), columns=_COLUMNS)])


def navmesh_overview(navmesh: NavMesh, size: int) -> np.ndarray:
    """Draw the maps of a navmesh's storeys side by side, each with a scale bar, [H, W, 3] uint8.

    Each has ``size`` pixels along its longer side.
    """
    floors = storeys(navmesh)
    maps = [draw_trajectories(navmesh_map(navmesh, size, height=floor), []) for floor in floors or [0.0]]
    return storeys_beside(maps, floors)


def storeys_beside(maps: Sequence[np.ndarray], floors: Sequence[float]) -> np.ndarray:
    """Join the maps of floors in a row; if there are several, captions state their heights in metres."""
    if len(maps) == 1:
        return maps[0]
    return side_by_side([captioned(one, f"floor at {floor:.1f} m") for one, floor in zip(maps, floors, strict=True)])


def draw_person(picture: np.ndarray, camera: Camera, distance: float) -> np.ndarray:
    """Draw the outline of a person, 1.7 m tall, on a level view [H, W, 3]: straight ahead, ``distance`` metres away.

    The camera's ``eye_height`` is above the floor on which the person stands.
    """
    height, width = picture.shape[:2]
    scale = width / (2 * camera.tan_half_width * distance)  # pixels per metre
    middle = width / 2
    feet = height / 2 + camera.eye_height * scale
    head = feet - PERSON * scale
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    radius = 0.11 * scale
    shoulder = head + 0.27 * scale
    draw.ellipse((middle - radius, head, middle + radius, head + 2 * radius), outline=_PERSON_COLOR, width=2)
    outline = [(-0.22, shoulder), (0.22, shoulder), (0.13, feet), (-0.13, feet), (-0.22, shoulder)]
    draw.line([(middle + across * scale, y) for across, y in outline], fill=_PERSON_COLOR, width=2)
    place = middle + 0.26 * scale, (head + feet) / 2
    style: dict[str, Any] = {"font": ImageFont.load_default(13), "stroke_width": 2, "stroke_fill": BACKGROUND}
    draw.text(place, f"{PERSON:g} m", anchor="lm", fill=INK, **style)
    return np.asarray(image)


def _room_ahead(navmesh: NavMesh, position: np.ndarray, heading: np.ndarray) -> np.ndarray:
    """Return the distance [M] that is free straight ahead, at most 3 m; 0 where the floor rises or falls."""
    farthest = _PERSON_DISTANCE[1]
    ahead = np.stack([-np.sin(heading), np.zeros(len(heading)), -np.cos(heading)], axis=1)
    reached, _ = navmesh.move(position, position + farthest * ahead, sliding=False)
    shift = reached - position
    return np.where(np.abs(shift[:, 1]) < 0.05, np.hypot(shift[:, 0], shift[:, 2]), 0.0)


def _numbered_maps(
    renderer: Renderer, scene: Scene, navmesh: NavMesh, position: np.ndarray, heading: np.ndarray, size: int
) -> list[np.ndarray]:
    """Draw a map of each storey, or of a whole landscape, with the walkable area and the viewpoints."""
    floors = storeys(navmesh)
    maps = []
    for floor in floors or [0.0]:
        above = draw_outline(storey_map(renderer, scene, 0, navmesh, size, floor), navmesh)
        here = np.flatnonzero(above.shows(position))
        picture = draw_viewpoints(above, position[here], heading[here], (1 + here).tolist())
        maps.append(titled(picture, f"floor at {floor:.1f} m") if len(floors) > 1 else picture)
    return maps
