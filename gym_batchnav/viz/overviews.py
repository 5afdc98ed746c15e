"""Overviews of a scene or a navmesh in one image: maps of all storeys, and views from eye level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.geometry import Camera, view_matrices
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.scene.scene import Scene
from gym_batchnav.viz.floors import storeys
from gym_batchnav.viz.maps import draw_outline, draw_trajectories, draw_viewpoints, navmesh_map, storey_map
from gym_batchnav.viz.marks import BACKGROUND, INK
from gym_batchnav.viz.sheets import captioned, mosaic, numbered, side_by_side, titled
from gym_batchnav.viz.viewpoints import best_viewpoints, views_around
from gym_batchnav.viz.views import draw_for_people

NUM_VIEWS = 8
PERSON = 1.7  # metres; height of the figure that shows the scale
_COLUMNS = 4
_PERSON_DISTANCE = (1.2, 3.0)  # metres in front of the viewer, minimum and maximum
_PERSON_COLOR = (225, 161, 41)


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

    Args:
        navmesh: The navmesh.
        size: Pixels along the longer side of each map.
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
    """Draw the outline of a person, 1.7 m tall, who stands straight ahead, on a view [H, W, 3].

    Args:
        picture: A level view through the camera.
        camera: The camera; its ``eye_height`` is above the floor on which the person stands.
        distance: Metres to the person.
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
    draw.text(
        (middle + 0.26 * scale, (head + feet) / 2),
        f"{PERSON:g} m",
        anchor="lm",
        fill=INK,
        font=ImageFont.load_default(13),
        stroke_width=2,
        stroke_fill=BACKGROUND,
    )
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
