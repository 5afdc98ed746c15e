"""Images of observations, sheets of images with captions and marks, and the files that they are written to."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.numbers import check_positive
from gym_batchnav.system.storage import check_destination, write_atomically

BACKGROUND = (246, 245, 242)
INK = (38, 40, 44)
# Distinguishable with all kinds of colour vision.
PATH_COLORS = (
    (166, 17, 5), (31, 96, 222), (225, 161, 41), (0, 134, 104), (129, 25, 128), (92, 174, 230), (236, 152, 178),
    (65, 39, 38),
)  # fmt: skip
BADGE = 9  # radius of a numbered disc, pixels
CAPTION = 26  # pixels; height of a line of text below an image
# Codec and quality options by suffix.
_CODECS = {
    ".mp4": ("libx264", ["-crf", "20", "-preset", "medium"]),
    ".webm": ("libvpx-vp9", ["-crf", "30", "-b:v", "0"]),
}


def evenly_spread(values: np.ndarray, count: int) -> np.ndarray:
    """Return up to ``count`` of some values [M], evenly spread from the first to the last."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(count, len(values))).astype(int))]


def color_of(number: int) -> tuple[int, int, int]:
    """Return the colour of a number from 1; the colours repeat."""
    return PATH_COLORS[(number - 1) % len(PATH_COLORS)]


def draw_disc(
    draw: ImageDraw.ImageDraw, centre: Sequence[float] | np.ndarray, radius: float, color: tuple[int, int, int]
) -> None:
    """Draw a filled disc with a white rim."""
    x, y = centre
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color, outline=(255, 255, 255), width=2)


def draw_badge(draw: ImageDraw.ImageDraw, centre: Sequence[float], number: int) -> None:
    """Draw a number on a disc of its colour."""
    draw_disc(draw, centre, BADGE, color_of(number))
    x, y = centre
    draw.text((x, y), str(number), fill=(255, 255, 255), font=ImageFont.load_default(13), anchor="mm")


def draw_star(
    draw: ImageDraw.ImageDraw, centre: np.ndarray, radius: float, color: tuple[int, int, int], label: str = ""
) -> None:
    """Draw a five-pointed star with a white rim, and a label at its upper right."""
    angles = np.arange(10) * np.pi / 5
    reach = radius * np.where(np.arange(10) % 2, 0.45, 1.0)
    points = centre + np.stack([np.sin(angles) * reach, -np.cos(angles) * reach], axis=1)
    draw.polygon([tuple(point) for point in points], fill=color, outline=(255, 255, 255), width=1 + (radius > 8))
    if label:
        x, y = centre + np.array([1.2, -1.2]) * radius
        font = ImageFont.load_default(13)
        draw.text((x, y), label, fill=INK, font=font, anchor="mm", stroke_width=2, stroke_fill=BACKGROUND)


def depth_picture(depth: np.ndarray) -> np.ndarray:
    """Convert depth [..., H, W, 1] in [0, 1] to grey [..., H, W, 3] uint8, near bright and far dark."""
    grey = np.clip(255 * (1 - np.clip(depth, 0, 1) ** 0.6), 0, 255).astype(np.uint8)
    return np.repeat(grey, 3, axis=-1)


def semantic_picture(semantic: np.ndarray) -> np.ndarray:
    """Convert semantic ids [..., H, W, 1] to colours [..., H, W, 3] uint8, one per id; 0 is black."""
    ids = semantic[..., 0].astype(np.uint32)
    hashed = (ids * np.uint32(2654435761))[..., None] >> np.array([8, 16, 24], np.uint32)
    return np.where(ids[..., None] == 0, 0, 64 + (hashed % 192)).astype(np.uint8)


def sensor_picture(sensor: str, image: np.ndarray) -> np.ndarray:
    """Convert a sensor's image [..., H, W, channels] to a new image [..., H, W, 3] uint8.

    Depth lies in [0, 1]. Each axis of normals becomes a colour, and so does the place of points within their metre.
    """
    if sensor == "depth":
        return depth_picture(image)
    if sensor in ("normals", "points"):
        share = (image + 1) / 2 if sensor == "normals" else np.mod(image, 1)
        return np.round(255 * share).astype(np.uint8)
    return semantic_picture(image) if sensor == "semantic" else image.copy()


def mosaic(pictures: np.ndarray, columns: int | None = None, gap: int = 2) -> np.ndarray:
    """Arrange images [N, H, W, 3] in a grid, which is nearly square unless ``columns`` is given."""
    if pictures.ndim != 4:
        raise ValueError(f"pictures of shape {pictures.shape}: pass images [N, H, W, 3]")
    count, height, width, _ = pictures.shape
    columns = columns or int(np.ceil(np.sqrt(count * height / width)))
    rows = -(-count // columns)
    sheet = np.full((rows * (height + gap) + gap, columns * (width + gap) + gap, 3), BACKGROUND, np.uint8)
    for index, picture in enumerate(pictures):
        top = gap + (index // columns) * (height + gap)
        left = gap + (index % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def side_by_side(pictures: Sequence[np.ndarray], gap: int = 8) -> np.ndarray:
    """Arrange images of any size in a row, aligned at the top."""
    height = max(picture.shape[0] for picture in pictures)
    width = sum(picture.shape[1] for picture in pictures) + gap * (len(pictures) - 1)
    sheet = np.full((height, width, 3), BACKGROUND, np.uint8)
    left = 0
    for picture in pictures:
        sheet[: picture.shape[0], left : left + picture.shape[1]] = picture
        left += picture.shape[1] + gap
    return sheet


def stacked(pictures: Sequence[np.ndarray], gap: int = 8) -> np.ndarray:
    """Arrange images of any size in a column, aligned at the left."""
    return side_by_side([picture.swapaxes(0, 1) for picture in pictures], gap).swapaxes(0, 1)


def on_square(picture: np.ndarray, side: int) -> np.ndarray:
    """Centre an image on a square of the background colour; what reaches beyond is cut off."""
    height, width = (min(side, length) for length in picture.shape[:2])
    square = np.full((side, side, 3), BACKGROUND, np.uint8)
    top = (side - height) // 2
    left = (side - width) // 2
    square[top : top + height, left : left + width] = picture[:height, :width]
    return square


def difference_picture(one: np.ndarray, other: np.ndarray, gain: float = 8.0) -> np.ndarray:
    """Return the amplified difference of two images [..., H, W, 3] uint8 as an image, white where they are equal."""
    return 255 - np.clip(gain * np.abs(one.astype(float) - other), 0, 255).astype(np.uint8)


def comparison(one: np.ndarray, other: np.ndarray, gain: float = 8.0) -> np.ndarray:
    """Arrange two rows of images [N, H, W, 3] above their difference, which is amplified ``gain`` times."""
    return mosaic(np.concatenate([one, other, difference_picture(one, other, gain)]), columns=len(one))


def framed(picture: np.ndarray, color: tuple[int, int, int], width: int = 4) -> np.ndarray:
    """Return a copy of an image with a border of a colour drawn over its edge."""
    result = picture.copy()
    for edge in (np.s_[:width], np.s_[-width:], np.s_[:, :width], np.s_[:, -width:]):
        result[edge] = color
    return result


def numbered(picture: np.ndarray, number: int) -> np.ndarray:
    """Draw a number from 1 in the upper left corner of an image [H, W, 3]."""
    image = Image.fromarray(picture)
    draw_badge(ImageDraw.Draw(image), (BADGE + 4, BADGE + 4), number)
    return np.asarray(image)


def titled(picture: np.ndarray, title: str) -> np.ndarray:
    """Draw text in the upper left corner of an image [H, W, 3]."""
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(13)
    left, top, right, bottom = draw.textbbox((8, 6), title, font=font)
    draw.rectangle((left - 4, top - 3, right + 4, bottom + 3), fill=BACKGROUND)
    draw.text((8, 6), title, fill=INK, font=font)
    return np.asarray(image)


def captioned(picture: np.ndarray, text: str) -> np.ndarray:
    """Add a line of text below an image [H, W, 3]."""
    height, width = picture.shape[:2]
    image = Image.new("RGB", (width, height + CAPTION), BACKGROUND)
    image.paste(Image.fromarray(picture))
    ImageDraw.Draw(image).text((8, height + 4), text, fill=INK, font=ImageFont.load_default(15))
    return np.asarray(image)


def save_picture(picture: np.ndarray, path: str | Path) -> None:
    """Write a picture [H, W, 3] uint8 in the format of the path's suffix; the file appears whole or not at all.

    Raises:
        ValueError: The suffix is not that of an image format, or the picture has another shape or type.
        OSError: The file cannot be written.
    """
    picture = _checked(picture)
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format=_format_of(Path(path)))
    write_atomically(Path(path), buffer.getvalue())


def _checked(picture: np.ndarray) -> np.ndarray:
    """Return a picture; ValueError unless it is uint8 [H, W, 3]."""
    picture = np.asarray(picture)
    if picture.dtype != np.uint8 or picture.shape[2:] != (3,):
        raise ValueError(
            f"picture {picture.dtype} {picture.shape}: pass uint8 [H, W, 3]; depth_picture and semantic_picture convert"
        )
    return picture


def save_clip(frames: Sequence[np.ndarray], path: str | Path, fps: float = 10.0) -> None:
    """Write frames [H, W, 3] uint8 as a clip; the file appears whole or not at all.

    Args:
        frames: One or more, all of the same size.
        path: The suffix chooses the format: ``.gif``, ``.png`` (animated), or ``.mp4`` and ``.webm``, which need the
            extra ``[viz]``. Videos have even sizes: an odd one is padded by a row or a column of the background.
        fps: Frames per second.

    Raises:
        ValueError: ``frames`` is empty, sizes differ, a frame has another shape or type, ``fps`` is not positive, or
            the suffix is not that of a known format.
        MissingExtraError: The extra is not installed.
        OSError: The file cannot be written.
    """
    path = Path(path)
    check_positive(fps=fps)
    check_destination(path)
    frames = [_checked(frame) for frame in frames]
    sizes = {frame.shape for frame in frames}
    if len(sizes) != 1:
        raise ValueError(
            f"cannot write '{path}': frames of sizes {sorted(sizes)}; pass one or more frames of the same size"
        )
    video = path.suffix.lower() in _CODECS
    write_atomically(path, _video(frames, path.suffix.lower(), fps) if video else _animation(frames, path, fps))


def _video(frames: Sequence[np.ndarray], suffix: str, fps: float) -> bytes:
    height, width = frames[0].shape[:2]
    padding = ((0, height % 2), (0, width % 2), (0, 0))
    even = np.stack([np.pad(frame, padding, constant_values=BACKGROUND[0]) for frame in frames])
    codec, quality = _CODECS[suffix]
    with tempfile.TemporaryDirectory() as folder, needs_extra("viz", f"a clip in {suffix}"):
        import imageio.v3 as iio

        film = Path(folder) / f"film{suffix}"
        iio.imwrite(
            film, even, plugin="FFMPEG", fps=fps, codec=codec, quality=None, macro_block_size=2, output_params=quality
        )
        return film.read_bytes()


def _animation(frames: Sequence[np.ndarray], path: Path, fps: float) -> bytes:
    name = _format_of(path, animated=True)
    images = [Image.fromarray(frame) for frame in frames]
    if name == "GIF":
        # All frames share one palette, since colours would flicker otherwise.
        samples = evenly_spread(np.arange(len(frames)), 5)
        palette = Image.fromarray(np.concatenate([frames[index] for index in samples])).quantize(256)
        images = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    buffer = io.BytesIO()
    images[0].save(buffer, format=name, save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0)
    return buffer.getvalue()


def _format_of(path: Path, animated: bool = False) -> str:
    found = Image.registered_extensions().get(path.suffix.lower())
    if found not in (Image.SAVE_ALL if animated else Image.SAVE):
        ask = "a clip; use .gif, .png, .mp4 or .webm" if animated else "an image format; use .png, .jpg or .gif"
        raise ValueError(f"cannot write '{path}': {path.suffix!r} is not the suffix of {ask}")
    return found
