"""Images as uncompressed TIFF files: exact, read by every image library, and written as fast as memory is copied."""

from __future__ import annotations

import struct

import numpy as np

_UNSIGNED, _SIGNED, _FLOAT = 1, 2, 3  # of the tag SampleFormat
_SAMPLES = {np.dtype(np.uint8): _UNSIGNED, np.dtype(np.uint16): _UNSIGNED}
_SAMPLES |= {np.dtype(np.int32): _SIGNED, np.dtype(np.float32): _FLOAT}
_SHORT, _LONG = 3, 4  # types of entries
_GREY, _RGB = 1, 2  # of the tag PhotometricInterpretation


def tiff_header(height: int, width: int, channels: int, dtype: np.dtype) -> bytes:
    """Return what comes before the pixels [H, W, C] of a little-endian TIFF file.

    Args:
        height: Rows.
        width: Columns.
        channels: 1, or 3 of uint8.
        dtype: uint8, uint16, int32 or float32.
    """
    bits = dtype.itemsize * 8
    entries = [
        (256, _LONG, width),
        (257, _LONG, height),
        (258, _SHORT, bits),  # bits per sample
        (259, _SHORT, 1),  # no compression
        (262, _SHORT, _RGB if channels == 3 else _GREY),
        (273, _LONG, 0),  # where the pixels begin
        (277, _SHORT, channels),
        (278, _LONG, height),  # rows per strip: one strip
        (279, _LONG, height * width * channels * dtype.itemsize),
        (339, _SHORT, _SAMPLES[dtype]),
    ]
    behind = 8 + 2 + 12 * len(entries) + 4
    extra = struct.pack("<3H", bits, bits, bits) + bytes(2) if channels == 3 else b""
    begin = behind + len(extra)
    packed = b""
    for tag, kind, value in entries:
        value = begin if tag == 273 else value
        count = 1
        if tag == 258 and channels == 3:  # three values do not fit in an entry: it has their place
            count = 3
            packed += struct.pack("<HHII", tag, kind, count, behind)
            continue
        packed += struct.pack("<HHII", tag, kind, count, value)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + packed + bytes(4) + extra


def tiff_files(images: np.ndarray) -> np.ndarray:
    """Return images [T, H, W, C] as the bytes [T, size] uint8 of one TIFF file each; see ``tiff_header``."""
    count, height, width, channels = images.shape
    header = np.frombuffer(tiff_header(height, width, channels, images.dtype), np.uint8)
    little = np.ascontiguousarray(images, images.dtype.newbyteorder("<"))
    pixels = little.reshape(count, -1).view(np.uint8).reshape(count, -1)
    return np.concatenate((np.broadcast_to(header, (count, len(header))), pixels), axis=1)
