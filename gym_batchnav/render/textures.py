"""Texture pools: the mip chains of a scene's textures, computed once on the CPU and shared by all renderers.

Averages are computed in linear light: one table decodes texels, and another encodes the averages.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit

from gym_batchnav.geometry import Camera
from gym_batchnav.scene.color import linear_to_srgb, srgb_to_linear
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.jit import ENTRY

_ENCODE_STEPS = 8191  # enough that decoding and encoding restores each of the 256 values
# Linear light of every sRGB byte (IEC 61966-2-1), and the bytes of evenly spaced linear light from 0 to 1.
SRGB_DECODE = srgb_to_linear(np.arange(256) / 255).astype(np.float32)
SRGB_ENCODE = np.rint(linear_to_srgb(np.arange(_ENCODE_STEPS + 1) / _ENCODE_STEPS) * 255).astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class TexturePool:
    """Square mip chains of L textures, its length, in one flat array, sorted by level and then by texture."""

    size: int  # texels per side of level 0, a power of two
    levels: tuple[np.ndarray, ...]  # level k: [L, size >> k, size >> k, 4] uint8 view into flat, down to 1x1
    flat: np.ndarray  # [bytes] uint8, RGBA: sRGB colour, linear alpha

    def __len__(self) -> int:
        return len(self.levels[0])

    @property
    def nbytes(self) -> int:
        """The size of all levels in bytes."""
        return self.flat.nbytes


def texture_coordinates(uvs: np.ndarray) -> np.ndarray:
    """Return a scene's texture coordinates [V, 2], bounded since files may hold any value and kernels make integers."""
    return np.clip(np.nan_to_num(uvs), -1e6, 1e6)


def level_starts(size: int) -> np.ndarray:
    """Return the number of texels that one texture has before each level [levels] int64; a pool has L times as many."""
    sides = size >> np.arange(size.bit_length())
    return np.cumsum(sides * sides) - sides * sides


def texture_size(camera: Camera) -> int:
    """Return the side of level 0 for a camera's pictures: 256 up to 64x64 pixels, 512 above."""
    return 256 if max(camera.width, camera.height) <= 64 else 512


def build_texture_pool(scene: Scene, size: int) -> TexturePool:
    """Resize a scene's textures to squares by area averages in linear light, and compute all smaller mip levels.

    The pool is in the order of ``scene.textures``; level 0 has ``size`` texels per side, a power of two.

    Raises:
        ValueError: If ``size`` is not a power of two, or a texture is not [H, W, 4] uint8.
    """
    if size < 1 or size & (size - 1):
        raise ValueError(f"texture size {size}: pass a power of two")
    count = len(scene.textures)
    sides = [size >> k for k in range(size.bit_length())]
    flat = np.empty(4 * count * sum(side * side for side in sides), np.uint8)
    levels = []
    start = 0
    for side in sides:
        levels.append(flat[start : start + 4 * count * side * side].reshape(count, side, side, 4))
        start += levels[-1].size
    for index, texture in enumerate(scene.textures):
        if texture.dtype != np.uint8 or texture.ndim != 3 or texture.shape[2] != 4 or texture.size == 0:
            raise ValueError(
                f"texture {index} of scene {scene.name!r} is {texture.dtype} {texture.shape}: pass uint8 [H, W, 4]"
            )
        _resize(np.ascontiguousarray(texture), SRGB_DECODE, SRGB_ENCODE, levels[0][index])
        for fine, coarse in pairwise(levels):
            _halve(fine[index], SRGB_DECODE, SRGB_ENCODE, coarse[index])
    return TexturePool(size, tuple(levels), flat)


@njit(**ENTRY)
def _resize(texture: np.ndarray, decode: np.ndarray, encode: np.ndarray, out: np.ndarray) -> None:
    """Write the area averages of ``texture`` [H, W, 4] to ``out`` [S, S, 4]; magnified texels keep sharp edges.

    Colours are not weighted by alpha, since the alpha of opaque materials has no meaning.
    """
    height = texture.shape[0]
    width = texture.shape[1]
    size = out.shape[0]
    steps = np.float32(len(encode) - 1)
    row = np.empty((width, 4), np.float32)  # one output row before it is averaged along x
    for y in range(size):
        # Stage 1: average down the columns. Source row r covers [r, r + 1], the output row [top, bottom].
        top = y * height / size
        bottom = (y + 1) * height / size
        row[:] = 0.0
        for r in range(int(top), min(int(np.ceil(bottom)), height)):
            weight = np.float32((min(bottom, r + 1.0) - max(top, float(r))) / (bottom - top))
            for x in range(width):
                row[x, 0] += weight * decode[texture[r, x, 0]]
                row[x, 1] += weight * decode[texture[r, x, 1]]
                row[x, 2] += weight * decode[texture[r, x, 2]]
                row[x, 3] += weight * np.float32(texture[r, x, 3])
        # Stage 2: average along the row.
        for x in range(size):
            left = x * width / size
            right = (x + 1) * width / size
            red = green = blue = alpha = np.float32(0.0)
            for c in range(int(left), min(int(np.ceil(right)), width)):
                weight = np.float32((min(right, c + 1.0) - max(left, float(c))) / (right - left))
                red += weight * row[c, 0]
                green += weight * row[c, 1]
                blue += weight * row[c, 2]
                alpha += weight * row[c, 3]
            half = np.float32(0.5)
            out[y, x, 0] = encode[int(min(red * steps, steps) + half)]
            out[y, x, 1] = encode[int(min(green * steps, steps) + half)]
            out[y, x, 2] = encode[int(min(blue * steps, steps) + half)]
            out[y, x, 3] = int(alpha + half)


@njit(**ENTRY)
def _halve(fine: np.ndarray, decode: np.ndarray, encode: np.ndarray, out: np.ndarray) -> None:
    """Write the averages of 2x2 texels of ``fine`` [2S, 2S, 4] to ``out`` [S, S, 4]."""
    scale = np.float32(0.25 * (len(encode) - 1))
    for y in range(out.shape[0]):
        for x in range(out.shape[1]):
            for channel in range(3):
                light = decode[fine[2 * y, 2 * x, channel]] + decode[fine[2 * y, 2 * x + 1, channel]]
                light += decode[fine[2 * y + 1, 2 * x, channel]] + decode[fine[2 * y + 1, 2 * x + 1, channel]]
                out[y, x, channel] = encode[int(light * scale + np.float32(0.5))]
            alpha = np.int64(fine[2 * y, 2 * x, 3]) + fine[2 * y, 2 * x + 1, 3]
            alpha += np.int64(fine[2 * y + 1, 2 * x, 3]) + fine[2 * y + 1, 2 * x + 1, 3]
            out[y, x, 3] = (alpha + 2) // 4
