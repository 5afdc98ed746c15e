"""Attributes of Habitat's JSON configurations: the frame of an asset and the rotation of an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gym_batchnav.scene.frame import rotation_matrix
from gym_batchnav.scene.json_values import numbers

LARGEST = 1e9  # magnitude of any number, exclusive


def asset_frame(attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the frame of a stage's or an object's asset.

    Args:
        attributes: The attributes; ``up``, ``front``, ``scale`` and ``units_to_meters`` count.

    Returns:
        The rotation [3, 3] float64 that takes ``up`` to +y and ``front`` to -z, and the metres in a unit [3] float64
        along the axes after it.

    Raises:
        ValueError: If they do not define a frame.
    """
    up = numbers(attributes, "up", (0.0, 1.0, 0.0), LARGEST)
    front = numbers(attributes, "front", (0.0, 0.0, -1.0) if abs(up[2]) < abs(up[1]) else (0.0, 1.0, 0.0), LARGEST)
    lengths = float(np.linalg.norm(up)), float(np.linalg.norm(front))
    if min(lengths) == 0 or abs(up @ front) > 1e-3 * lengths[0] * lengths[1]:
        raise ValueError("its up and front are not at right angles")
    up = up / lengths[0]
    front = front / lengths[1]
    rotation = np.stack([np.cross(front, up), up, -front]) + 0.0  # adding 0.0 turns -0.0 into 0.0
    factors = numbers(attributes, "scale", (1.0, 1.0, 1.0), LARGEST)  # Habitat turns the asset before it scales it
    factors = factors * numbers(attributes, "units_to_meters", (1.0,), LARGEST)
    if not (factors > 0).all():
        raise ValueError("its scale is not positive: mirror the asset itself")
    return rotation, factors


def semantic_frame(attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the frame of a stage's annotated mesh; see ``asset_frame``.

    ``semantic_up`` and ``semantic_front`` count, and otherwise the frame is that of the stage itself.

    Raises:
        ValueError: If they do not define a frame.
    """
    own = {key: attributes[f"semantic_{key}"] for key in ("up", "front") if f"semantic_{key}" in attributes}
    others = {key: value for key, value in attributes.items() if key not in ("up", "front")}
    return asset_frame({**others, **own} if own else attributes)


def rotation_of(attributes: Mapping[str, Any]) -> np.ndarray:
    """Return the ``rotation`` of an object, a quaternion [w, x, y, z] of any length, as a matrix [3, 3] float64.

    Raises:
        ValueError: If it is zero, or not four numbers.
    """
    w, x, y, z = numbers(attributes, "rotation", (1.0, 0.0, 0.0, 0.0), LARGEST).tolist()
    if w * w + x * x + y * y + z * z == 0:
        raise ValueError("its rotation is zero: pass a quaternion [w, x, y, z]")
    return rotation_matrix(w, x, y, z)
