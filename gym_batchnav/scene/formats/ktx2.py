"""Textures in KTX2 files with Basis Universal (KHR_texture_basisu), decoded by opengl-basisu."""

from __future__ import annotations

import struct

import numpy as np

from gym_batchnav.system.extras import OptionalPackage

KTX2_MAGIC = b"\xabKTX 20\xbb\r\n\x1a\n"
BASISU = OptionalPackage("opengl_basisu", "opengl-basisu", "formats")
NO_KTX2 = "convert it to PNG or JPEG"  # the remedy where it is not installed
_LEVELS_AT = 80  # where the index of levels begins
_ETC1S = 163
_UASTC = 166
_UASTC_BLOCK = 16  # bytes for 4 x 4 pixels
_SCHEMES = {_ETC1S: (1,), _UASTC: (0, 2)}  # BasisLZ; none or Zstandard


class Ktx2Image:
    """One mip level of a KTX2 file: the largest that fits a limit, else the largest.

    The constructor checks every size that the header declares; only ``decode`` takes memory for pixels.

    Args:
        data: The bytes of the file.
        max_side: Longest side of the level in pixels, if the file has one so small.

    Attributes:
        width: Width of the level in pixels.
        height: Height of the level in pixels.

    Raises:
        ValueError: If it is not a two-dimensional texture in ETC1S or UASTC, or its header is damaged.
    """

    def __init__(self, data: bytes, max_side: int) -> None:
        if len(data) < _LEVELS_AT or not data.startswith(KTX2_MAGIC):
            raise ValueError("it is cut short within its header")
        width, height, depth, layers, faces, levels, scheme = struct.unpack_from("<7I", data, 20)
        if depth or layers > 1 or faces != 1 or not width or not height:
            raise ValueError(f"it is not one picture: {width}x{height}x{depth}, {layers} layers, {faces} faces")
        levels = max(levels, 1)
        if levels > max(width, height).bit_length() or _LEVELS_AT + 24 * levels > len(data):
            raise ValueError(f"its header declares {levels} levels for {width}x{height} pixels")
        self._data = data
        self._model = _color_model(data)
        if scheme not in _SCHEMES[self._model]:
            raise ValueError(f"its supercompression scheme {scheme} does not belong to Basis Universal")
        for level in range(levels):
            self._check_level(level, max(width >> level, 1), max(height >> level, 1))
        fitting = (level for level in range(levels) if max(width, height) >> level <= max_side)
        self._level = next(fitting, 0)
        self.width: int = max(width >> self._level, 1)
        self.height: int = max(height >> self._level, 1)

    def _check_level(self, level: int, width: int, height: int) -> None:
        offset, length, unpacked = struct.unpack_from("<3Q", self._data, _LEVELS_AT + 24 * level)
        if not length or offset + length > len(self._data):
            raise ValueError(f"its level {level} exceeds the file of {len(self._data)} bytes")
        size = -(-width // 4) * -(-height // 4) * _UASTC_BLOCK
        if self._model == _UASTC and unpacked != size:
            raise ValueError(f"its level {level} declares {unpacked} bytes, not {size}")

    def decode(self) -> np.ndarray:
        """Return the pixels [H, W, 4] uint8, row 0 at the top.

        Raises:
            ValueError: If opengl-basisu is not installed, or the data is damaged.
        """
        basisu = BASISU.load("KTX2", NO_KTX2)
        pixels = basisu.open(self._data).transcode("rgba8", self._level).data
        if pixels.shape != (self.height, self.width, 4):
            raise ValueError(f"it was decoded as {pixels.shape}")
        return pixels


def _color_model(data: bytes) -> int:
    """Return the color model of a KTX2 file's data format descriptor: ETC1S or UASTC."""
    vulkan_format = struct.unpack_from("<I", data, 12)[0]
    if vulkan_format:
        raise ValueError(f"it is in Vulkan's format {vulkan_format}, not in Basis Universal")
    offset, length = struct.unpack_from("<2I", data, 48)
    if length < 44 or offset + length > len(data):
        raise ValueError("its data format descriptor is damaged")
    model = data[offset + 12]
    if model not in _SCHEMES:
        raise ValueError(f"its color model {model} is neither ETC1S nor UASTC")
    return model
