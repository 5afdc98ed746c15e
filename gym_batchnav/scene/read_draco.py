"""Meshes that glTF files hold compressed by Draco, decoded by DracoPy."""

from __future__ import annotations

import importlib

import numpy as np


def decode_draco(data: bytes) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Decode the data of ``KHR_draco_mesh_compression``.

    Args:
        data: One compressed mesh.

    Returns:
        The triangles [T, 3] uint32, and by their numbers in the data the attributes [V, width].

    Raises:
        ValueError: DracoPy is not installed, or the data is damaged.
    """
    try:
        dracopy = importlib.import_module("DracoPy")
    except ImportError:
        remedy = "install the extra for it (pip install 'gym-batchnav[draco]') or re-export it without mesh compression"
        raise ValueError(f"it uses KHR_draco_mesh_compression, which needs DracoPy: {remedy}") from None
    try:
        mesh = dracopy.decode(data)
        triangles = np.asarray(mesh.faces, np.uint32).reshape(-1, 3)
        attributes = {int(entry["unique_id"]): np.asarray(entry["data"]) for entry in mesh.attributes}
    except Exception as error:  # DracoPy raises several kinds of its own, and point clouds have no faces
        raise ValueError(f"its Draco data cannot be decoded ({error}): re-export it") from error
    return triangles, attributes
