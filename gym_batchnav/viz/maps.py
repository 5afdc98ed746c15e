"""Maps from above, and agents and their paths drawn on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.viz.floors import CUT, EVERYWHERE, inside, polygon_heights, storey_at, visible_floor_and_cut
from gym_batchnav.viz.sheets import BACKGROUND, BADGE, INK, PATH_COLORS, color_of, draw_badge, draw_disc, draw_star
from gym_batchnav.viz.views import draw_for_people

WALKABLE = (222, 232, 226)
OUTLINE = (46, 150, 100)
Axis = tuple[float, float, float]
FROM_ABOVE: tuple[Axis, Axis] = ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
_FROM_SOUTH: tuple[Axis, Axis] = ((1.0, 0.0, 0.0), (0.0, -1.0, 0.0))
_FROM_EAST: tuple[Axis, Axis] = ((0.0, 0.0, -1.0), (0.0, -1.0, 0.0))
Goals = np.ndarray | Sequence[np.ndarray]  # [M, 3], or M tours [n, 3]; metres
_PALE = 0.35  # opacity of marks on another storey than the map's
_LENS_DEG = 1.0  # field of view of maps: rays are nearly parallel, but depth is still precise enough to find edges
_AROUND = 0.4  # metres around a scene or a navmesh
_BEFORE = 0.3  # metres between a vertical cut and the path that is nearest to it
_MIN_BAR = 40  # pixels; length of the scale bar


@dataclass(frozen=True, slots=True, eq=False)
class TopDownMap:
    """A picture of a scene from above, north (-z) up, or from the side, and the position of its pixels in the world.

    Paths, goals and agents on another storey than the map's are drawn pale.
    """

    picture: np.ndarray  # [H, W, 3] uint8
    origin: tuple[float, float]  # of the top left corner along both axes, metres; from above its x and z
    pixels_per_metre: float
    span: tuple[float, float] = EVERYWHERE  # heights between which its storey lies, metres
    axes: tuple[Axis, Axis] = FROM_ABOVE  # unit vectors in the world: to the right and down in the picture

    def pixels(self, positions: np.ndarray) -> np.ndarray:
        """Return the pixel coordinates [..., 2] (x, y) of positions [..., 3] in metres."""
        return (np.asarray(positions) @ np.array(self.axes).T - np.array(self.origin)) * self.pixels_per_metre

    def shows(self, positions: np.ndarray) -> np.ndarray:
        """Return whether positions [..., 3] lie on the map's storey, [...] bool."""
        return inside(self.span, np.asarray(positions)[..., 1])


def navmesh_map(navmesh: NavMesh, size: int = 768, *, height: np.ndarray | float | None = None) -> TopDownMap:
    """Draw the polygons of a navmesh from above, one shade per island.

    Args:
        navmesh: The navmesh.
        size: Pixels along the longer side.
        height: A height on the storey to show, in metres, or heights [M], most of which lie on it; all storeys on top
            of each other if not given.
    """
    canvas = _canvas(navmesh.vertices, size)
    span = EVERYWHERE if height is None else storey_at(navmesh, height)[1]
    shown = inside(span, polygon_heights(navmesh))
    image = Image.fromarray(canvas.picture)
    draw = ImageDraw.Draw(image)
    for polygon, island in zip(navmesh.polygons[shown], navmesh.polygon_island[shown], strict=True):
        outline = canvas.pixels(navmesh.vertices[polygon[polygon >= 0]])
        shade = tuple(int(c * (1 - 0.12 * (island and 1 + (island - 1) % 3))) for c in WALKABLE)
        draw.polygon([tuple(point) for point in outline], fill=shade, outline=(150, 172, 160))
    return replace(canvas, picture=np.asarray(image), span=span)


def scene_map(
    renderer: Renderer,
    scene: Scene,
    slot: int,
    size: int = 768,
    floor: float = 0.0,
    cut: float = CUT,
    axes: tuple[Axis, Axis] = FROM_ABOVE,
) -> TopDownMap:
    """Draw a scene from above, as ``draw_for_people`` does, cut at ``cut`` metres above the floor.

    Args:
        renderer: Draws the scene.
        scene: The scene in the slot.
        slot: Its slot in the renderer's library.
        size: Pixels along the longer side.
        floor: Height of the floor, metres.
        cut: Metres above the floor; a lower ceiling would hide the room, see ``visible_floor_and_cut``.
        axes: Those of the map, for other views than from above; ``floor`` and ``cut`` are then measured towards the
            viewer.
    """
    right, down = np.array(axes)
    back = np.cross(right, -down)  # towards the viewer
    canvas = _canvas(scene.vertices, size, axes)
    height, width = canvas.picture.shape[:2]
    middle = np.array(canvas.origin) + np.array([width, height]) / 2 / canvas.pixels_per_metre
    # A narrow lens far away makes nearly parallel rays; its near plane cuts away what would hide the rest.
    distance = width / canvas.pixels_per_metre / 2 / np.tan(np.radians(_LENS_DEG) / 2)
    near = max(distance - cut, distance / 10)
    camera = Camera(width=width, height=height, hfov_deg=_LENS_DEG, near=near, max_depth=2 * distance)
    view = np.eye(4)
    view[:3, :3] = right, -down, back
    view[:3, 3] = -view[:3, :3] @ (middle[0] * right + middle[1] * down + (floor + distance) * back)
    (picture,) = draw_for_people(renderer, camera, np.array([slot]), view[None].astype(np.float32), sky=BACKGROUND)
    return replace(canvas, picture=picture)


def storey_map(
    renderer: Renderer, scene: Scene, slot: int, navmesh: NavMesh, size: int, heights: np.ndarray | float
) -> TopDownMap:
    """Draw the storey that contains most of the heights, one or [M], metres; a landscape is drawn as a whole.

    It is cut below its ceiling. See ``scene_map`` for the other arguments.
    """
    floor, span = storey_at(navmesh, heights)
    bottom, top = scene.bounds[:, 1].tolist()
    if floor is None:
        above = scene_map(renderer, scene, slot, size, bottom, cut=top - bottom + 1)
    else:
        visible, cut = visible_floor_and_cut(scene, floor)
        above = scene_map(renderer, scene, slot, size, visible, cut - visible)
    return replace(above, span=span)


def section_map(
    renderer: Renderer, scene: Scene, slot: int, paths: Sequence[np.ndarray], size: int = 768
) -> TopDownMap:
    """Draw a scene from the side, cut by a vertical plane just in front of some paths.

    The view is to the north (-z) or, if the paths [T, 3], metres, reach farther along z than along x, to the west (-x).
    """
    points = np.concatenate([np.asarray(path, np.float64) for path in paths])
    axes = _FROM_SOUTH if np.ptp(points[:, 0]) >= np.ptp(points[:, 2]) else _FROM_EAST
    plane = (points @ np.cross(axes[0], np.negative(axes[1]))).max() + _BEFORE
    return scene_map(renderer, scene, slot, size, plane, 0.0, axes)


def draw_outline(top_down: TopDownMap, navmesh: NavMesh) -> TopDownMap:
    """Draw the outline of the walkable area on a map of its storey."""
    image = Image.fromarray(top_down.picture)
    draw = ImageDraw.Draw(image)
    used = navmesh.polygons >= 0
    walls = used & (navmesh.neighbours < 0)
    following = np.roll(navmesh.polygons, -1, axis=1)
    last = np.arange(len(used)), used.sum(axis=1) - 1
    following[last] = navmesh.polygons[:, 0]
    ends = navmesh.vertices[np.stack([navmesh.polygons[walls], following[walls]], axis=1)]
    lines = top_down.pixels(ends[top_down.shows(ends.mean(axis=1))])
    coarse = top_down.pixels_per_metre < 10  # short lines would cover such a map
    for line in lines:
        if not coarse or np.linalg.norm(line[1] - line[0]) >= 4:
            draw.line([tuple(point) for point in line], fill=OUTLINE, width=1 if coarse else 2)
    return replace(top_down, picture=np.asarray(image))


def draw_trajectories(
    top_down: TopDownMap,
    paths: Sequence[np.ndarray],
    goals: Goals | None = None,
    colors: Sequence[tuple[int, int, int]] | None = None,
    width: int = 3,
) -> np.ndarray:
    """Draw the paths of agents on a map.

    Args:
        top_down: The map.
        paths: One array [T, 3] per agent, metres, of which T may be 0; a disc marks its start.
        goals: [len(paths), 3], metres, or one tour [n, 3] per path; a star marks each goal. The goals of a tour
            are numbered from 1.
        colors: One per agent, repeated if there are too few; PATH_COLORS if not given.
        width: Width of the lines, pixels.

    Returns:
        The picture [H, W, 3] uint8.
    """
    chosen = colors or PATH_COLORS
    lines = [np.asarray(path) for path in paths]
    tours = [np.empty((0, 3))] * len(lines) if goals is None else [np.atleast_2d(one) for one in goals]
    heights = [points[:, 1] for points in (*lines, *tours)]

    def mark(draw: ImageDraw.ImageDraw, span: tuple[float, float]) -> None:
        for index, (line, tour) in enumerate(zip(lines, tours, strict=True)):
            color = chosen[index % len(chosen)]
            shown = inside(span, line[:, 1])
            for run in _runs(shown):
                points = [tuple(point) for point in top_down.pixels(line[run])]
                draw.line(points, fill=(255, 255, 255), width=width + 2, joint="curve")
                draw.line(points, fill=color, width=width, joint="curve")
            if shown[:1].any():
                draw_disc(draw, top_down.pixels(line[0]), 2 * width, color)
            for number, goal in enumerate(tour, 1):
                if inside(span, goal[1]):
                    draw_star(draw, top_down.pixels(goal), 3 * width, color, str(number) if len(tour) > 1 else "")

    image = _marked(top_down.picture, top_down.span, heights, mark)
    _scale_bar(ImageDraw.Draw(image), top_down)
    return np.asarray(image)


def draw_agents(
    picture: np.ndarray, top_down: TopDownMap, positions: np.ndarray, headings: np.ndarray, radius: int = 7
) -> np.ndarray:
    """Draw agents on a picture of the map at positions [N, 3] (metres) with headings [N] (radians).

    They are arrow heads, or discs if the map shows the scene from the side.
    """
    positions = np.asarray(positions)

    def mark(draw: ImageDraw.ImageDraw, span: tuple[float, float]) -> None:
        for index in np.flatnonzero(inside(span, positions[:, 1])).tolist():
            if top_down.axes != FROM_ABOVE:
                draw_disc(draw, top_down.pixels(positions[index]), radius, PATH_COLORS[index % len(PATH_COLORS)])
                continue
            angles = headings[index] + np.array([0, 2.5, np.pi, -2.5])
            reach = radius * np.array([1.5, 1.2, 0.4, 1.2])
            away = np.stack([-np.sin(angles) * reach, -np.cos(angles) * reach], axis=1)
            corners = [tuple(corner) for corner in top_down.pixels(positions[index]) + away]
            draw.polygon(corners, fill=PATH_COLORS[index % len(PATH_COLORS)], outline=(255, 255, 255))

    return np.asarray(_marked(picture, top_down.span, [positions[:, 1]], mark))


def draw_viewpoints(
    top_down: TopDownMap, positions: np.ndarray, headings: np.ndarray, numbers: Sequence[int]
) -> np.ndarray:
    """Draw viewpoints at positions [N, 3], metres, on a map as numbered discs that point along headings [N], radians.

    Numbers are from 1, and each has its colour, as in ``numbered``.

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
    """Move places [N, 2] apart until no two are closer than ``distance`` pixels; isolated places do not move."""
    centres = np.array(places, np.float64)
    away = np.arange(len(centres)) * 2.4  # radians: directions in which to separate viewpoints at the same place
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


def _canvas(vertices: np.ndarray, size: int, axes: tuple[Axis, Axis] = FROM_ABOVE) -> TopDownMap:
    """Return an empty map that contains all vertices [V, 3] and a margin."""
    check_counts(size=size)
    placed = vertices @ np.array(axes).T
    low = placed.min(axis=0) - _AROUND
    high = placed.max(axis=0) + _AROUND
    extent = high - low
    scale = size / float(extent.max())
    width, height = (max(1, round(float(length) * scale)) for length in extent)
    picture = np.full((height, width, 3), BACKGROUND, np.uint8)
    return TopDownMap(picture, (float(low[0]), float(low[1])), scale, axes=axes)


def _marked(
    picture: np.ndarray,
    span: tuple[float, float],
    heights: Sequence[np.ndarray],
    mark: Callable[[ImageDraw.ImageDraw, tuple[float, float]], None],
) -> Image.Image:
    """Draw marks on a picture: opaque where they lie in a span of heights, pale elsewhere."""
    image = Image.fromarray(picture)
    if not all(inside(span, some).all() for some in heights):
        everything = image.copy()
        mark(ImageDraw.Draw(everything), EVERYWHERE)
        image = Image.blend(image, everything, _PALE)
    mark(ImageDraw.Draw(image), span)
    return image


def _runs(shown: np.ndarray) -> list[np.ndarray]:
    """Return the runs of at least two consecutive indices where ``shown`` [T] is True."""
    found = np.flatnonzero(shown)
    return [run for run in np.split(found, np.flatnonzero(np.diff(found) > 1) + 1) if len(run) > 1]


def _scale_bar(draw: ImageDraw.ImageDraw, top_down: TopDownMap) -> None:
    """Draw a scale bar of a round length in the lower left corner."""
    shortest = _MIN_BAR / top_down.pixels_per_metre
    power = 10.0 ** np.floor(np.log10(shortest))
    metres = next(float(step * power) for step in (1, 2, 5, 10) if step * power >= shortest)
    bottom = top_down.picture.shape[0] - 8
    length = metres * top_down.pixels_per_metre
    draw.line((6, bottom, 10 + length, bottom), fill=BACKGROUND, width=7)
    font = ImageFont.load_default(13)
    draw.text((8, bottom - 20), f"{metres:g} m", fill=INK, font=font, stroke_width=2, stroke_fill=BACKGROUND)
    draw.line((8, bottom, 8 + length, bottom), fill=INK, width=3)
