"""Images of observations, and sheets of images: combined, compared, framed and captioned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.viz.marks import BACKGROUND, BADGE, INK, draw_badge

CAPTION = 26  # pixels; height of a line of text below an image


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
    count, height, width, _ = pictures.shape
    columns = columns or int(np.ceil(np.sqrt(count * height / width)))
    rows = -(-count // columns)
    sheet = np.empty((rows * (height + gap) + gap, columns * (width + gap) + gap, 3), np.uint8)
    sheet[:] = BACKGROUND
    for index, picture in enumerate(pictures):
        top = gap + (index // columns) * (height + gap)
        left = gap + (index % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def side_by_side(pictures: Sequence[np.ndarray], gap: int = 8) -> np.ndarray:
    """Arrange images of any size in a row, aligned at the top."""
    height = max(picture.shape[0] for picture in pictures)
    width = sum(picture.shape[1] for picture in pictures) + gap * (len(pictures) - 1)
    sheet = np.empty((height, width, 3), np.uint8)
    sheet[:] = BACKGROUND
    left = 0
    for picture in pictures:
        sheet[: picture.shape[0], left : left + picture.shape[1]] = picture
        left += picture.shape[1] + gap
    return sheet


def stacked(pictures: Sequence[np.ndarray], gap: int = 8) -> np.ndarray:
    """Arrange images of any size in a column, aligned at the left."""
    return side_by_side([picture.swapaxes(0, 1) for picture in pictures], gap).swapaxes(0, 1)


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
