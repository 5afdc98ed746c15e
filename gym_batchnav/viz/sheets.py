"""Pictures of observations, and sheets of pictures: combined, compared, framed and captioned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gym_batchnav.viz.marks import BACKGROUND, BADGE, INK, draw_badge

CAPTION = 26  # height of a line of text below a picture, pixels


def depth_picture(depth: np.ndarray) -> np.ndarray:
    """Depth [..., H, W, 1] in [0, 1] as grey [..., H, W, 3] uint8, near bright and far dark."""
    grey = np.clip(255 * (1 - np.clip(depth, 0, 1) ** 0.6), 0, 255).astype(np.uint8)
    return np.repeat(grey, 3, axis=-1)


def semantic_picture(semantic: np.ndarray) -> np.ndarray:
    """Semantic ids [..., H, W, 1] as colours [..., H, W, 3] uint8, one per id, 0 black."""
    ids = semantic[..., 0].astype(np.uint32)
    hashed = (ids * np.uint32(2654435761))[..., None] >> np.array([8, 16, 24], np.uint32)
    return np.where(ids[..., None] == 0, 0, 64 + (hashed % 192)).astype(np.uint8)


def sensor_picture(sensor: str, image: np.ndarray) -> np.ndarray:
    """A sensor's image [..., H, W, channels] as a new picture [..., H, W, 3] uint8; depth lies in [0, 1]."""
    if sensor == "depth":
        return depth_picture(image)
    return semantic_picture(image) if sensor == "semantic" else image.copy()


def mosaic(pictures: np.ndarray, columns: int | None = None, gap: int = 2) -> np.ndarray:
    """Pictures [N, H, W, 3] side by side in a grid, nearly square unless ``columns`` is given."""
    count, height, width, _ = pictures.shape
    columns = columns or int(np.ceil(np.sqrt(count * height / width)))
    rows = -(-count // columns)
    sheet = np.empty((rows * (height + gap) + gap, columns * (width + gap) + gap, 3), np.uint8)
    sheet[:] = BACKGROUND
    for index, picture in enumerate(pictures):
        top, left = gap + (index // columns) * (height + gap), gap + (index % columns) * (width + gap)
        sheet[top : top + height, left : left + width] = picture
    return sheet


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


def difference_picture(one: np.ndarray, other: np.ndarray, gain: float = 8.0) -> np.ndarray:
    """The difference of two pictures [..., H, W, 3] uint8 as a picture, white where they are equal."""
    return 255 - np.clip(gain * np.abs(one.astype(float) - other), 0, 255).astype(np.uint8)


def comparison(one: np.ndarray, other: np.ndarray, gain: float = 8.0) -> np.ndarray:
    """Two rows of pictures [N, H, W, 3] and below them their difference, ``gain`` times amplified."""
    return mosaic(np.concatenate([one, other, difference_picture(one, other, gain)]), columns=len(one))


def framed(picture: np.ndarray, color: tuple[int, int, int], width: int = 4) -> np.ndarray:
    """A picture with a border of a colour drawn over its edge."""
    result = picture.copy()
    for edge in (np.s_[:width], np.s_[-width:], np.s_[:, :width], np.s_[:, -width:]):
        result[edge] = color
    return result


def numbered(picture: np.ndarray, number: int) -> np.ndarray:
    """A picture [H, W, 3] with a number from 1 in its upper left corner."""
    image = Image.fromarray(picture)
    draw_badge(ImageDraw.Draw(image), (BADGE + 4, BADGE + 4), number)
    return np.asarray(image)


def titled(picture: np.ndarray, title: str) -> np.ndarray:
    """A picture [H, W, 3] with text in its upper left corner."""
    image = Image.fromarray(picture)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(13)
    left, top, right, bottom = draw.textbbox((8, 6), title, font=font)
    draw.rectangle((left - 4, top - 3, right + 4, bottom + 3), fill=BACKGROUND)
    draw.text((8, 6), title, fill=INK, font=font)
    return np.asarray(image)


def captioned(picture: np.ndarray, text: str) -> np.ndarray:
    """A picture [H, W, 3] with a line of text below it."""
    height, width = picture.shape[:2]
    image = Image.new("RGB", (width, height + CAPTION), BACKGROUND)
    image.paste(Image.fromarray(picture))
    ImageDraw.Draw(image).text((8, height + 4), text, fill=INK, font=ImageFont.load_default(15))
    return np.asarray(image)
