"""Pictures of what happens, as arrays [H, W, 3] uint8: mosaics, maps from above, trajectories, clips."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.render.api import Renderer
from gym_batchnav.scene.mesh import Scene
from gym_batchnav.storage import check_destination, write_atomically

BACKGROUND = (246, 245, 242)
INK = (38, 40, 44)
WALKABLE = (222, 232, 226)
OUTLINE = (46, 150, 100)
SKY = (201, 219, 235)
PATH_COLORS = (
    (214, 69, 65), (52, 120, 190), (230, 146, 40), (46, 150, 100), (142, 84, 170), (30, 160, 170), (190, 80, 130),
    (120, 110, 40),
)  # fmt: skip
_FAR = 1e6  # metres
_LIGHT = np.array([-0.35, 0.55, 0.76])  # unit vector towards it: left, up and behind the viewer
_SIDE_LIGHT = 0.3  # how much darker it is where that light does not fall
_EDGE = (0.25, 1.0)  # steps of slope at which a line begins to show, and is drawn in full
_LINE = 0.55  # how dark it is
_BADGE = 9  # radius of a numbered disc, pixels


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


def drawn(
    renderer: Renderer,
    camera: Camera,
    slots: np.ndarray,
    views: np.ndarray,
    sky: tuple[int, int, int] = SKY,
) -> np.ndarray:
    """Views as pictures for people: what cameras see, with lines along edges and light from the upper left.

    Shapes can be told apart in them even where a scene is all of one colour.

    Args:
        renderer: Draws the scenes.
        camera: Its size, field of view and near plane count.
        slots: [N] int, the library's slot that each view looks into.
        views: [N, 4, 4] float32, world-to-camera.
        sky: The colour where nothing is hit.

    Returns:
        Pictures [N, H, W, 3] uint8.
    """
    fine = 2 if max(camera.width, camera.height) <= 2048 else 1  # rays a pixel's side
    camera = replace(
        camera, width=fine * camera.width, height=fine * camera.height, max_depth=_FAR, normalize_depth=False,
        depth_miss="zero",
    )  # fmt: skip
    target = renderer.target(camera, ("rgb", "depth"), num_views=1, buffers=1)
    pictures = []
    for slot, view in zip(slots, views, strict=True):  # one at a time, which bounds the memory
        images = target.render(np.array([slot]), view[None])
        depth = images["depth"][0, ..., 0]
        shade = _shade(depth, camera)[..., None]
        picture = np.where(depth[..., None] > 0, images["rgb"][0] * shade, sky)
        height, width = depth.shape
        picture = picture.reshape(height // fine, fine, width // fine, fine, 3).mean(axis=(1, 3))
        pictures.append(np.round(picture).astype(np.uint8))
    target.close()
    return np.stack(pictures)


def _shade(depth: np.ndarray, camera: Camera) -> np.ndarray:
    """How bright each pixel is drawn, [H, W] in (0, 1], by metric depth [H, W] with 0 where nothing is hit.

    The inverse of depth is linear in the picture along a plane: its slope gives the plane's normal, and where its
    second difference is not zero there is an edge.
    """
    height, width = depth.shape
    pixel = 2 * camera.tan_half_width / width  # size of a pixel at unit distance
    inverse = np.divide(1, depth, where=depth > 0, out=np.zeros(depth.shape))
    slopes, bends = [], np.zeros(depth.shape)
    for axis in (1, 0):
        step = np.diff(inverse, axis=axis)
        padding = [(0, 0), (0, 0)]
        padding[axis] = (1, 1)
        step = np.pad(step, padding, mode="edge")
        before, after = (np.take(step, range(start, start + depth.shape[axis]), axis) for start in (0, 1))
        bends = np.maximum(bends, np.abs(after - before))
        slopes.append(np.where(np.abs(before) < np.abs(after), before, after) / pixel)  # across no edge
    x = ((np.arange(width) + 0.5) / width * 2 - 1) * camera.tan_half_width
    y = ((np.arange(height) + 0.5) / height * 2 - 1)[:, None] * camera.tan_half_height
    normal = np.stack([-slopes[0], slopes[1], inverse - x * slopes[0] - y * slopes[1]])
    lit = np.tensordot(_LIGHT, normal, 1) / np.maximum(np.linalg.norm(normal, axis=0), 1e-12)
    edge = np.divide(bends, inverse * pixel, where=inverse > 0, out=np.zeros(depth.shape))
    line = np.clip((edge - _EDGE[0]) / (_EDGE[1] - _EDGE[0]), 0, 1)
    light = np.clip(lit / _LIGHT[2], 0, 1)  # what faces the viewer counts as fully lit
    return (1 - _SIDE_LIGHT * (1 - light)) * (1 - _LINE * line)


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
    for centre, heading, number in zip(top_down.pixels(positions), headings, numbers, strict=True):
        angles = heading + np.array([0, 0.75, -0.75])
        reach = _BADGE * np.array([2.0, 1.0, 1.0])
        corners = centre + np.stack([-np.sin(angles) * reach, -np.cos(angles) * reach], axis=1)
        draw.polygon([tuple(corner) for corner in corners], fill=_color(number), outline=(255, 255, 255))
        _badge(draw, centre, number)
    _scale_bar(draw, top_down)
    return np.asarray(image)


def numbered(picture: np.ndarray, number: int) -> np.ndarray:
    """A picture [H, W, 3] with a number from 1 in its upper left corner."""
    image = Image.fromarray(picture)
    _badge(ImageDraw.Draw(image), (_BADGE + 4, _BADGE + 4), number)
    return np.asarray(image)


def titled(picture: np.ndarray, title: str) -> np.ndarray:
    """A picture [H, W, 3] with words in its upper left corner."""
    image = Image.fromarray(picture)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(13)
    left, top, right, bottom = draw.textbbox((8, 6), title, font=font)
    draw.rectangle((left - 4, top - 3, right + 4, bottom + 3), fill=BACKGROUND)
    draw.text((8, 6), title, fill=INK, font=font)
    return np.asarray(image)


def _badge(draw: ImageDraw.ImageDraw, centre: Sequence[float], number: int) -> None:
    """A number on a disc of its colour."""
    _disc(draw, centre, _BADGE, _color(number))
    x, y = centre
    draw.text((x, y), str(number), fill=(255, 255, 255), font=ImageFont.load_default(13), anchor="mm")


def _color(number: int) -> tuple[int, int, int]:
    return PATH_COLORS[(number - 1) % len(PATH_COLORS)]


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
    draw.rectangle((8, bottom - 22, 20 + max(length, 24), bottom + 7), fill=BACKGROUND)
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


def check_picture_path(path: str | Path) -> None:
    """Refuse a path that ``save_picture`` could not write, before the picture is drawn.

    Raises:
        ValueError: its ending names no format of pictures.
        OSError: no file can be written there.
    """
    check_destination(Path(path))
    _format_of(Path(path))


def save_picture(picture: np.ndarray, path: str | Path) -> None:
    """Write a picture [H, W, 3] in the format of the path's suffix; the file appears whole or not at all.

    Raises:
        ValueError: the suffix names no format of pictures.
        OSError: no file can be written there.
    """
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=_format_of(Path(path)))
    write_atomically(Path(path), buffer.getvalue())


def _format_of(path: Path) -> str:
    """The name of the format that a path ends in."""
    known = Image.registered_extensions()
    found = known.get(path.suffix.lower())
    if found not in Image.SAVE:
        raise ValueError(f"cannot write '{path}': pictures do not end in {path.suffix!r}: name it .png, .jpg or .gif")
    return found


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
        format=_format_of(path),
        save_all=True,
        append_images=images[1:],
        duration=round(1000 / fps),
        loop=0,
    )
    write_atomically(path, buffer.getvalue())
