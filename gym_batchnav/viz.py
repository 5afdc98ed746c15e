"""Pictures of what happens, as arrays [H, W, 3] uint8: mosaics, maps from above, trajectories, clips."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.scene.mesh import Scene
from gym_batchnav.storage import write_atomically

BACKGROUND = (246, 245, 242)
INK = (38, 40, 44)
WALKABLE = (222, 232, 226)
PATH_COLORS = (
    (214, 69, 65), (52, 120, 190), (230, 146, 40), (46, 150, 100), (142, 84, 170), (30, 160, 170), (190, 80, 130),
    (120, 110, 40),
)  # fmt: skip


def depth_picture(depth: np.ndarray) -> np.ndarray:
    """Depth [..., H, W, 1] in [0, 1] as grey [..., H, W, 3] uint8, near bright and far dark."""
    grey = np.clip(255 * (1 - np.clip(depth, 0, 1) ** 0.6), 0, 255).astype(np.uint8)
    return np.repeat(grey, 3, axis=-1)


def semantic_picture(semantic: np.ndarray) -> np.ndarray:
    """Semantic ids [..., H, W, 1] as colours [..., H, W, 3] uint8, one an id, 0 black."""
    ids = semantic[..., 0].astype(np.uint32)
    hashed = (ids * np.uint32(2654435761))[..., None] >> np.array([8, 16, 24], np.uint32)
    return np.where(ids[..., None] == 0, 0, 64 + (hashed % 192)).astype(np.uint8)


def mosaic(pictures: np.ndarray, columns: int | None = None, gap: int = 2) -> np.ndarray:
    """Pictures [N, H, W, 3] side by side in a grid, as square as may be unless ``columns`` is given."""
    count, height, width, _ = pictures.shape
    columns = columns or int(np.ceil(np.sqrt(count * height / width)))
    rows = -(-count // columns)
    sheet = np.empty((rows * (height + gap) + gap, columns * (width + gap) + gap, 3), np.uint8)
    sheet[:] = BACKGROUND
    for index, picture in enumerate(pictures):
        top, left = gap + (index // columns) * (height + gap), gap + (index % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def difference_picture(one: np.ndarray, other: np.ndarray, gain: float = 8.0) -> np.ndarray:
    """How two pictures [..., H, W, 3] uint8 differ, as [..., H, W, 3] uint8: white where they do not."""
    return 255 - np.clip(gain * np.abs(one.astype(float) - other), 0, 255).astype(np.uint8)


def comparison(one: np.ndarray, other: np.ndarray, gain: float = 8.0) -> np.ndarray:
    """Two rows of pictures [N, H, W, 3] and below them how they differ, ``gain`` times as strong."""
    return mosaic(np.concatenate([one, other, difference_picture(one, other, gain)]), columns=len(one))


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
    """A scene drawn from above with everything higher than ``cut`` metres over the floor taken off.

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
    camera = Camera(width=width, height=height, hfov_deg=hfov_deg, near=distance - cut, max_depth=2 * distance)
    centre_x, centre_z = np.array(canvas.origin) + np.array([width, height]) / 2 / canvas.pixels_per_metre
    view = np.array(
        [[1, 0, 0, -centre_x], [0, 0, -1, centre_z], [0, 1, 0, -(floor + distance)], [0, 0, 0, 1]], np.float32
    )
    target = renderer.target(camera, ("rgb", "semantic"), num_views=1, buffers=1)
    images = target.render(np.array([slot]), view[None])
    picture = np.where(images["semantic"][0] > 0, images["rgb"][0], np.array(BACKGROUND, np.uint8))
    target.close()
    return TopDownMap(picture.astype(np.uint8), canvas.origin, canvas.pixels_per_metre)


def _canvas(vertices: np.ndarray, size: int, margin: float) -> TopDownMap:
    """An empty map that holds all vertices [V, 3] and a margin in metres."""
    low, high = vertices.min(axis=0) - margin, vertices.max(axis=0) + margin
    extent = (high - low)[[0, 2]]
    scale = size / float(extent.max())
    width, height = (max(1, round(float(length) * scale)) for length in extent)
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = BACKGROUND
    return TopDownMap(picture, (float(low[0]), float(low[2])), scale)


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
        _disc(draw, points[0], 2 * width, color)
        if goals is not None:
            _star(draw, top_down.pixels(np.asarray(goals)[index]), 3 * width, color)
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


def _disc(draw: ImageDraw.ImageDraw, centre: Sequence[float], radius: float, color: tuple[int, int, int]) -> None:
    """A filled disc with a white rim."""
    x, y = centre
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color, outline=(255, 255, 255), width=2)


def _star(draw: ImageDraw.ImageDraw, centre: np.ndarray, radius: float, color: tuple[int, int, int]) -> None:
    """A five-pointed star with a white rim."""
    angles = np.arange(10) * np.pi / 5
    reach = radius * np.where(np.arange(10) % 2, 0.45, 1.0)
    points = centre + np.stack([np.sin(angles) * reach, -np.cos(angles) * reach], axis=1)
    draw.polygon([tuple(point) for point in points], fill=color, outline=(255, 255, 255), width=1 + (radius > 8))


def _scale_bar(draw: ImageDraw.ImageDraw, top_down: TopDownMap) -> None:
    """A bar of one metre in the lower left corner."""
    bottom, length = top_down.picture.shape[0] - 14, top_down.pixels_per_metre
    draw.line((14, bottom, 14 + length, bottom), fill=INK, width=3)
    draw.text((14, bottom - 18), "1 m", fill=INK, font=ImageFont.load_default(13))


def framed(picture: np.ndarray, color: tuple[int, int, int], width: int = 4) -> np.ndarray:
    """A picture with a border of a colour drawn over its edge."""
    result = picture.copy()
    for edge in (np.s_[:width], np.s_[-width:], np.s_[:, :width], np.s_[:, -width:]):
        result[edge] = color
    return result


def side_by_side(pictures: Sequence[np.ndarray], gap: int = 8) -> np.ndarray:
    """Pictures of any size in a row, aligned at the top."""
    height = max(picture.shape[0] for picture in pictures)
    width = sum(picture.shape[1] for picture in pictures) + gap * (len(pictures) - 1)
    sheet = np.empty((height, width, 3), np.uint8)
    sheet[:] = BACKGROUND
    left = 0
    for picture in pictures:
        sheet[: picture.shape[0], left : left + picture.shape[1]] = picture
        left += picture.shape[1] + gap
    return sheet


def save_picture(picture: np.ndarray, path: str | Path) -> None:
    """Write a picture [H, W, 3] in the format of the path's suffix; the file appears whole or not at all."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=Image.registered_extensions()[Path(path).suffix.lower()])
    write_atomically(Path(path), buffer.getvalue())


def save_clip(frames: Sequence[np.ndarray], path: str | Path, fps: float = 10.0) -> None:
    """Write frames [H, W, 3] as an animated GIF or PNG, by the path's suffix; the file appears whole or not at all."""
    path = Path(path)
    images = [Image.fromarray(frame) for frame in frames]
    if path.suffix.lower() == ".gif":
        # One palette for all frames, or colours flicker.
        some = np.unique(np.linspace(0, len(frames) - 1, 5).astype(int))
        palette = Image.fromarray(np.concatenate([frames[index] for index in some])).quantize(256)
        images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    buffer = io.BytesIO()
    images[0].save(
        buffer,
        format=Image.registered_extensions()[path.suffix.lower()],
        save_all=True,
        append_images=images[1:],
        duration=round(1000 / fps),
        loop=0,
    )
    write_atomically(path, buffer.getvalue())
