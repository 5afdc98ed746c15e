"""The kernel that makes one image of colours, depth and the goal."""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY

NUM_GOAL_VALUES = 3


@njit(**ENTRY)
def interleave(
    rgb: np.ndarray | None, depth: np.ndarray | None, depth_scale: np.float32, levels: np.ndarray, image: np.ndarray
) -> None:
    """Interleave the channels of images.

    The kernel is serial: one thread finishes hundreds of images in less time than it takes to wake others.

    Args:
        rgb: [M, H, W, 3] uint8, or None.
        depth: [M, H, W, 1] float32, or None.
        depth_scale: Levels per unit of depth.
        levels: [M, 3] uint8, the goals' channels.
        image: [M, H, W, C] uint8, written.
    """
    # The compiler removes the branches for None and then knows C, which it needs for vector instructions.
    num_colors = 0 if rgb is None else 3
    first = num_colors if depth is None else num_colors + 1  # of the goal's channels
    channels = first + NUM_GOAL_VALUES
    for n in range(len(image)):
        cos = levels[n, 0]
        sin = levels[n, 1]
        nearness = levels[n, 2]
        pixels = image[n].reshape(-1)
        colors = None if rgb is None else rgb[n].reshape(-1)
        depths = None if depth is None else depth[n].reshape(-1)
        for p in range(len(pixels) // channels):
            at = p * channels
            if colors is not None:
                for k in range(3):
                    pixels[at + k] = colors[3 * p + k]
            if depths is not None:
                # Adding a half rounds, since the conversion to a byte truncates.
                pixels[at + num_colors] = np.uint8(depths[p] * depth_scale + np.float32(0.5))
            pixels[at + first] = cos
            pixels[at + first + 1] = sin
            pixels[at + first + 2] = nearness
