"""The attributes of Habitat's JSON configurations: numbers that are checked, and the frame of an asset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def numbers(attributes: Mapping[str, Any], key: str, default: tuple[float, ...]) -> np.ndarray:
    """As many finite numbers as in ``default``, float64; for a single one the value need not be a list.

    Raises:
        ValueError: the value is something else.
    """
    value = attributes.get(key, default)
    if len(default) == 1 and not isinstance(value, (list, tuple)):
        value = [value]
    fits = isinstance(value, (list, tuple)) and len(value) == len(default)
    if not fits or any(type(part) not in (int, float) or not abs(part) < 1e9 for part in value):
        raise ValueError(f"its {key} is not {len(default)} finite numbers")
    return np.array(value, np.float64)


def asset_frame(attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The frame of a stage's or an object's asset.

    Args:
        attributes: Those of a stage or object; ``up``, ``front``, ``scale`` and ``units_to_meters`` are heeded.

    Returns:
        The rotation [3, 3] float64 that takes ``up`` to +y and ``front`` to -z, and the metres in a unit [3] float64
        along the axes after it.

    Raises:
        ValueError: they are no frame.
    """
    up = numbers(attributes, "up", (0.0, 1.0, 0.0))
    front = numbers(attributes, "front", (0.0, 0.0, -1.0) if abs(up[2]) < abs(up[1]) else (0.0, 1.0, 0.0))
    lengths = float(np.linalg.norm(up)), float(np.linalg.norm(front))
    if min(lengths) == 0 or abs(up @ front) > 1e-3 * lengths[0] * lengths[1]:
        raise ValueError("its up and front are not at right angles")
    up, front = up / lengths[0], front / lengths[1]
    rotation = np.stack([np.cross(front, up), up, -front]) + 0.0  # the sum turns -0.0 into 0.0
    factors = np.abs(rotation @ numbers(attributes, "scale", (1.0, 1.0, 1.0)))
    factors *= numbers(attributes, "units_to_meters", (1.0,))
    if not (factors > 0).all():
        raise ValueError("its scale is not positive")
    return rotation, factors


def turn(quaternion: np.ndarray) -> np.ndarray:
    """The rotation [3, 3] of a quaternion [w, x, y, z], which need not have length 1.

    Raises:
        ValueError: it is zero.
    """
    length = float(np.linalg.norm(quaternion))
    if length == 0:
        raise ValueError("its rotation is zero")
    w, x, y, z = quaternion / length
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
