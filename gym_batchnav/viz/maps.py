"""Maps from above, and what agents do drawn on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.scene.mesh import Scene
from gym_batchnav.viz.marks import BACKGROUND, BADGE, INK, PATH_COLORS, color_of, draw_badge, draw_disc, draw_star
from gym_batchnav.viz.views import drawn

WALKABLE = (222, 232, 226)
OUTLINE = (46, 150, 100)


@dataclass(frozen=True, slots=True, eq=False)
class TopDownMap:
    """A picture of a scene from above, north (-z) up, and where in the world its pixels lie."""

    picture: np.ndarray  # [H, W, 3] uint8
    origin: tuple[float, float]  # x, z of the top left corner, metres
    pixels_per_metre: float

    def pixels(self, positions: np.ndarray) -> np.ndarray:
        """Pixel coordinates [..., 2] (x, y) of positions [..., 3] in metres."""
        return (positions[..., [0, 2]] - np.array(self.origin)) * self.pixels_per_metre


def navmesh_map(navmesh: NavMesh, size: int = 768, margin: float = 0.4) -> TopDownMap:
    """The polygons of a navmesh from above, one shade an island; ``size`` pixels along the longer side."""
    canvas = _canvas(navmesh.vertices, size, margin)
    image = Image.fromarray(canvas.picture)
    draw = ImageDraw.Draw(image)
    for polygon, island in zip(navmesh.polygons, navmesh.polygon_island, strict=True):
        outline = canvas.pixels(navmesh.vertices[polygon[polygon >= 0]])
        shade = tuple(int(c * (1 - 0.12 * (island % 4))) for c in WALKABLE)
        draw.polygon([tuple(point) for point in outline], fill=shade, outline=(150, 172, 160))
    return TopDownMap(np.asarray(image), canvas.origin, canvas.pixels_per_metre)


def scene_map(
    renderer: Renderer, scene: Scene, slot: int, size: int = 768, floor: float = 0.0, cut: float = 2.0
) -> TopDownMap:
    """A scene drawn from above, as by ``drawn``, with all that is higher than ``cut`` metres over the floor taken off.

    Args:
        renderer: Draws the scene.
        scene: The scene in the slot, for its bounds.
        slot: Its slot in the renderer's library.
        size: Pixels along the longer side.
        floor: Height of the floor, metres.
        cut: Metres over the floor; the ceiling must lie higher.
    """
    canvas = _canvas(scene.vertices, size, margin=0.4)
    height, width = canvas.picture.shape[:2]
    extent = width / canvas.pixels_per_metre
    # Nearly parallel rays: a narrow lens from far above, whose near plane cuts the ceiling away.
    hfov_deg = 4.0
    distance = extent / 2 / np.tan(np.radians(hfov_deg) / 2)
    near = max(distance - cut, distance / 10)
    camera = Camera(width=width, height=height, hfov_deg=hfov_deg, near=near, max_depth=2 * distance)
    centre_x, centre_z = np.array(canvas.origin) + np.array([width, height]) / 2 / canvas.pixels_per_metre
    view = np.array(
        [[1, 0, 0, -centre_x], [0, 0, -1, centre_z], [0, 1, 0, -(floor + distance)], [0, 0, 0, 1]], np.float32
    )
    (picture,) = drawn(renderer, camera, np.array([slot]), view[None], sky=BACKGROUND)
    return TopDownMap(picture, canvas.origin, canvas.pixels_per_metre)


def draw_outline(top_down: TopDownMap, navmesh: NavMesh, low: float = -np.inf, high: float = np.inf) -> TopDownMap:
    """A map with the edges of the walkable area drawn on it, where their heights lie between two, metres."""
    image = Image.fromarray(top_down.picture)
    draw = ImageDraw.Draw(image)
    used = navmesh.polygons >= 0
    walls = used & (navmesh.neighbours < 0)
    following = np.roll(navmesh.polygons, -1, axis=1)
    last = np.arange(len(used)), used.sum(axis=1) - 1
    following[last] = navmesh.polygons[:, 0]
    ends = navmesh.vertices[np.stack([navmesh.polygons[walls], following[walls]], axis=1)]
    heights = ends[..., 1].mean(axis=1)
    lines = top_down.pixels(ends[(heights >= low) & (heights < high)])
    coarse = top_down.pixels_per_metre < 10  # short lines would cover such a map
    for line in lines:
        if not coarse or np.linalg.norm(line[1] - line[0]) >= 4:
            draw.line([tuple(point) for point in line], fill=OUTLINE, width=1 if coarse else 2)
    return replace(top_down, picture=np.asarray(image))


def draw_trajectories(
    top_down: TopDownMap,
    paths: Sequence[np.ndarray],
    goals: np.ndarray | None = None,
    colors: Sequence[tuple[int, int, int]] | None = None,
    width: int = 3,
) -> np.ndarray:
    """A map with the ways agents took.

    Args:
        top_down: The map.
        paths: One array [T, 3] an agent, metres; a disc marks its beginning.
        goals: [len(paths), 3], metres; a star marks each.
        colors: One an agent; a fixed sequence is repeated if not given.
        width: Of a line, pixels.

    Returns:
        The picture [H, W, 3] uint8.
    """
    image = Image.fromarray(top_down.picture)
    draw = ImageDraw.Draw(image)
    for index, path in enumerate(paths):
        color = (colors or PATH_COLORS)[index % len(colors or PATH_COLORS)]
        points = [tuple(point) for point in top_down.pixels(np.asarray(path))]
        if len(points) > 1:
            draw.line(points, fill=(255, 255, 255), width=width + 2, joint="curve")
            draw.line(points, fill=color, width=width, joint="curve")
        draw_disc(draw, points[0], 2 * width, color)
        if goals is not None:
            draw_star(draw, top_down.pixels(np.asarray(goals)[index]), 3 * width, color)
    _scale_bar(draw, top_down)
    return np.asarray(image)


def draw_agents(
    picture: np.ndarray, top_down: TopDownMap, positions: np.ndarray, headings: np.ndarray, radius: int = 7
) -> np.ndarray:
    """A picture of the map with agents as arrow heads at positions [N, 3] (metres) and headings [N] (radians)."""
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for index, (centre, heading) in enumerate(zip(top_down.pixels(positions), headings, strict=True)):
        angles = heading + np.array([0, 2.5, np.pi, -2.5])
        reach = radius * np.array([1.5, 1.2, 0.4, 1.2])
        corners = centre + np.stack([-np.sin(angles) * reach, -np.cos(angles) * reach], axis=1)
        color = PATH_COLORS[index % len(PATH_COLORS)]
        draw.polygon([tuple(corner) for corner in corners], fill=color, outline=(255, 255, 255))
    return np.asarray(image)


def draw_viewpoints(
    top_down: TopDownMap, positions: np.ndarray, headings: np.ndarray, numbers: Sequence[int]
) -> np.ndarray:
    """A map with numbered discs that point where somebody looks.

    Args:
        top_down: The map.
        positions: [N, 3], metres.
        headings: [N], radians.
        numbers: One each, from 1; each has its colour, that of ``numbered``.

    Returns:
        The picture [H, W, 3] uint8.
    """
    image = Image.fromarray(top_down.picture)
    draw = ImageDraw.Draw(image)
    places = top_down.pixels(positions)
    centres = _apart(places, 2.2 * BADGE)
    for place, centre in zip(places, centres, strict=True):
        if np.linalg.norm(centre - place) > 1:
            draw.line([tuple(place), tuple(centre)], fill=INK, width=2)
            draw_disc(draw, place, 3, INK)
    for centre, heading, number in zip(centres, headings, numbers, strict=True):
        angles = heading + np.array([0, 0.75, -0.75])
        reach = BADGE * np.array([2.0, 1.0, 1.0])
        corners = centre + np.stack([-np.sin(angles) * reach, -np.cos(angles) * reach], axis=1)
        draw.polygon([tuple(corner) for corner in corners], fill=color_of(number), outline=(255, 255, 255))
        draw_badge(draw, centre, number)
    _scale_bar(draw, top_down)
    return np.asarray(image)


def _apart(places: np.ndarray, distance: float) -> np.ndarray:
    """Places [N, 2] moved until no two are nearer than a distance, pixels; those that stand clear stay."""
    centres = np.array(places, np.float64)
    away = np.arange(len(centres)) * 2.4  # radians: where those of one place go
    for _ in range(64):
        gap = centres[:, None] - centres[None]
        length = np.linalg.norm(gap, axis=2)
        np.fill_diagonal(length, np.inf)
        near = length < distance - 0.1
        if not near.any():
            break
        side = away[:, None] * np.ones(len(away))
        side = np.where(np.arange(len(away))[:, None] < np.arange(len(away)), side, side.T + np.pi)
        apart = np.stack([np.cos(side), np.sin(side)], axis=2)
        direction = np.where(length[..., None] > 1e-3, gap / np.maximum(length, 1e-3)[..., None], apart)
        centres += (np.where(near, distance - length, 0)[..., None] * direction / 2).sum(axis=1)
    return centres


def _canvas(vertices: np.ndarray, size: int, margin: float) -> TopDownMap:
    """An empty map that holds all vertices [V, 3] and a margin in metres."""
    low, high = vertices.min(axis=0) - margin, vertices.max(axis=0) + margin
    extent = (high - low)[[0, 2]]
    scale = size / float(extent.max())
    width, height = (max(1, round(float(length) * scale)) for length in extent)
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = BACKGROUND
    return TopDownMap(picture, (float(low[0]), float(low[2])), scale)


def _scale_bar(draw: ImageDraw.ImageDraw, top_down: TopDownMap) -> None:
    """A bar of one metre in the lower left corner; only its rim covers the map."""
    bottom, length = top_down.picture.shape[0] - 8, top_down.pixels_per_metre
    draw.line((6, bottom, 10 + length, bottom), fill=BACKGROUND, width=7)
    font = ImageFont.load_default(13)
    draw.text((8, bottom - 20), "1 m", fill=INK, font=font, stroke_width=2, stroke_fill=BACKGROUND)
    draw.line((8, bottom, 8 + length, bottom), fill=INK, width=3)
