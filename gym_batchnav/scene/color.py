"""The sRGB transfer curve, IEC 61966-2-1."""

from __future__ import annotations

import numpy as np


def srgb_to_linear(value: np.ndarray) -> np.ndarray:
    """Decode sRGB values from 0 to 1, of any shape, to linear light from 0 to 1."""
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(light: np.ndarray) -> np.ndarray:
    """Encode linear light from 0 to 1, of any shape, as sRGB values from 0 to 1."""
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)


def linear_colors(srgb: np.ndarray) -> np.ndarray:
    """Convert vertex colours [V, 3 or 4] in sRGB, from 0 to 1, to linear [V, 4] uint8; alpha is kept."""
    srgb = np.clip(np.nan_to_num(srgb), 0, 1)
    colors = np.full((len(srgb), 4), 255, np.uint8)
    colors[:, :3] = np.round(srgb_to_linear(srgb[:, :3]) * 255)
    colors[:, 3:] = np.round(srgb[:, 3:4] * 255) if srgb.shape[1] == 4 else 255
    return colors
