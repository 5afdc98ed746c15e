"""Meshes that glTF files hold compressed by Draco, decoded by DracoPy."""

from __future__ import annotations

import numpy as np

from gym_batchnav.system.extras import OptionalPackage

_DRACO = OptionalPackage("DracoPy", "DracoPy", "draco")
_MAGIC = b"DRACO"
_MESH = 1
_SEQUENTIAL = 0
_EDGEBREAKER = 1
_VERSION = (2, 2)  # of the bitstream, the one that glTF allows


def draco_counts(data: bytes) -> tuple[int, int]:
    """Return the numbers of vertices and triangles that the header of Draco data declares.

    Vertices may still be split where attributes have seams.

    Raises:
        ValueError: If it is not a mesh in the version of Draco that glTF allows.
    """
    if len(data) < 12 or not data.startswith(_MAGIC) or data[7] != _MESH or data[8] > _EDGEBREAKER:
        raise ValueError("its Draco data is not a mesh: the file is damaged, re-export it")
    if (data[5], data[6]) != _VERSION:
        raise ValueError(f"its Draco data has version {data[5]}.{data[6]}, not 2.2: re-export it")
    first, at = _varint(data, 11 if data[8] == _SEQUENTIAL else 12)  # edgebreaker stores its kind of traversal first
    second, _ = _varint(data, at)
    return (second, first) if data[8] == _SEQUENTIAL else (first, second)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a little-endian number of seven bits per byte; return it and the offset after it."""
    value = shift = 0
    for place in range(at, min(at + 5, len(data))):
        value |= (data[place] & 0x7F) << shift
        shift += 7
        if data[place] < 0x80:
            return value, place + 1
    raise ValueError("its Draco data is cut short: copy or download the file again")


def decode_draco(data: bytes) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Decode the data of ``KHR_draco_mesh_compression``.

    Args:
        data: One compressed mesh.

    Returns:
        The triangles [T, 3] uint32, and by their numbers in the data the attributes [V, width].

    Raises:
        ValueError: If DracoPy is not installed, or the data is damaged.
    """
    dracopy = _DRACO.load("it uses KHR_draco_mesh_compression, which", "re-export it without mesh compression")
    try:
        mesh = dracopy.decode(data)
        triangles = np.asarray(mesh.faces, np.uint32).reshape(-1, 3)
        attributes = {int(entry["unique_id"]): np.asarray(entry["data"]) for entry in mesh.attributes}
    except Exception as error:  # DracoPy raises errors of its own, and point clouds have no faces
        raise ValueError(f"its Draco data cannot be decoded ({error}): re-export it") from error
    return triangles, attributes
