"""The kernel that normalises the colours of images; a separate module, so that few changes compile it again."""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY, to_int64

LEAST_VARIANCE = 1e-4  # added to that of an image, so that the noise of a plain wall stays small


@njit(**ENTRY)
def code_colors(pictures: np.ndarray, codes: np.ndarray) -> None:
    """Write the codes [B, P, 4] float32 of images [B, P, 3] uint8, see ``encoder.color_code``, in two passes."""
    num_images, num_pixels, _ = pictures.shape
    for image in range(num_images):
        pixels, code = pictures[image], codes[image]
        reds, greens, blues, squares = 0, 0, 0, 0
        for pixel in range(num_pixels):
            red, green, blue = to_int64(pixels[pixel, 0]), to_int64(pixels[pixel, 1]), to_int64(pixels[pixel, 2])
            reds += red
            greens += green
            blues += blue
            squares += red * red + green * green + blue * blue
        variance = squares - (reds * reds + greens * greens + blues * blues) / num_pixels
        scale = np.float32(1 / np.sqrt(variance / (3 * num_pixels) + 255 * 255 * LEAST_VARIANCE))
        red_mean, green_mean = np.float32(reds / num_pixels), np.float32(greens / num_pixels)
        blue_mean = np.float32(blues / num_pixels)
        for pixel in range(num_pixels):
            red, green, blue = pixels[pixel, 0], pixels[pixel, 1], pixels[pixel, 2]
            code[pixel, 0] = (np.float32(red) - red_mean) * scale
            code[pixel, 1] = (np.float32(green) - green_mean) * scale
            code[pixel, 2] = (np.float32(blue) - blue_mean) * scale
            code[pixel, 3] = np.float32((red | green | blue) == 0)
