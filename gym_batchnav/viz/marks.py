"""Colours, and marks that are drawn on pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import ImageDraw, ImageFont

BACKGROUND = (246, 245, 242)
INK = (38, 40, 44)
# Distinguishable with all kinds of colour vision.
PATH_COLORS = (
    (166, 17, 5), (31, 96, 222), (225, 161, 41), (0, 134, 104), (129, 25, 128), (92, 174, 230), (236, 152, 178),
    (65, 39, 38),
)  # fmt: skip
BADGE = 9  # radius of a numbered disc, pixels


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
