"""The textures of a scene that is being read, scaled down as they arrive so that together they fit into memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gym_batchnav.scene.images import MAX_TEXTURE_SIDE, shrunk, size_within
from gym_batchnav.system.numbers import is_number

AUTO = "auto"
AUTO_BYTES = 2**28  # of all textures of a scene with ``texture_size="auto"``
SMALLEST_SIDE = 64  # with "auto"
LARGEST_SIDE = 2**13


class Textures:
    """A list of textures of at most a size, which with ``"auto"`` is halved whenever they exceed ``AUTO_BYTES``.

    The size with ``"auto"`` is therefore the largest of 2,048, 1,024, 512, ... with which all textures fit. Each is
    added as soon as it is decoded, so that there are never two of full size in memory.

    Args:
        size: Longest side of a texture in pixels, or ``"auto"``.
        filtered: Whether pixels are averaged; colours that stand for numbers must not be.

    Attributes:
        size: Longest side of a texture in pixels, so far.
        filtered: See above.
        nbytes: Their size in bytes.
    """

    def __init__(self, size: int | str = AUTO, filtered: bool = True) -> None:
        self.filtered = filtered
        self._is_auto = size == AUTO
        self.size = MAX_TEXTURE_SIDE if isinstance(size, str) else size
        self.nbytes = 0
        self._pixels: list[np.ndarray] = []

    def __len__(self) -> int:
        """Return the number of textures."""
        return len(self._pixels)

    def add(self, pixels: np.ndarray) -> None:
        """Add a texture [H, W, 4] uint8."""
        self._pixels.append(shrunk(pixels, self.size, self.filtered))
        self.nbytes += self._pixels[-1].nbytes
        while self._is_auto and self.nbytes > AUTO_BYTES and self.size > SMALLEST_SIDE:
            self.size //= 2
            for index, texture in enumerate(self._pixels):
                self._pixels[index] = shrunk(texture, self.size, self.filtered)
            self.nbytes = sum(texture.nbytes for texture in self._pixels)

    def all(self) -> tuple[np.ndarray, ...]:
        """Return all textures, in order."""
        return tuple(self._pixels)


def size_for(sides: Sequence[tuple[int, int]], size: int | str = AUTO) -> tuple[int, int]:
    """Return the size at which textures are kept that have these widths and heights, and their bytes together."""
    chosen = MAX_TEXTURE_SIDE if isinstance(size, str) else size
    while True:
        kept = [size_within(side, min(chosen, max(side))) for side in sides]
        num_bytes = sum(4 * width * height for width, height in kept)
        if size != AUTO or num_bytes <= AUTO_BYTES or chosen <= SMALLEST_SIDE:
            return chosen, num_bytes
        chosen //= 2


def check_texture_size(size: object) -> None:
    """Raise ValueError unless a value is a valid ``texture_size``."""
    whole = is_number(size) and not isinstance(size, float) and 1 <= size <= LARGEST_SIDE
    if size != AUTO and not whole:
        raise ValueError(f"texture_size={size!r}: pass the longest side in pixels, 1 to {LARGEST_SIDE:,}, or 'auto'")
