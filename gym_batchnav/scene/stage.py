"""Habitat's stage configurations: which way up, and how large, the stage beside them is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from gym_batchnav.scene.files import SceneFiles

_MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class StageConfig:
    """What a ``NAME.stage_config.json`` says of the frame of its stage."""

    name: str  # of the file
    rotation: np.ndarray  # [3, 3] float64, to y up with the front at -z
    factors: np.ndarray  # [3] float64, metres in a unit along the axes after the rotation


def read_stage_config(files: SceneFiles) -> StageConfig | None:
    """The configuration of the scene's name beside it; None if there is none or it is of another file.

    Raises:
        ValueError: it is damaged.
    """
    name = f"{files.path.stem}.stage_config.json"
    if not files.path.with_name(name).is_file():
        return None
    try:
        if files.path.with_name(name).stat().st_size > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES:,} bytes")
        config = json.loads(files.beside(name))
        if not isinstance(config, dict):
            raise ValueError("it is not a JSON object")
        if PurePosixPath(str(config.get("render_asset", files.path.name))).name != files.path.name:
            return None
        rotation = _rotation(config)
        unit = _numbers({"units_to_meters": [config.get("units_to_meters", 1.0)]}, "units_to_meters", (1.0,))
        factors = np.abs(rotation @ _numbers(config, "scale", (1.0, 1.0, 1.0))) * unit
        if not (factors > 0).all():
            raise ValueError("its scale is zero")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{name}' beside it cannot be used ({error}): mend or remove it") from error
    return StageConfig(name, rotation, factors)


def _rotation(config: Mapping[str, Any]) -> np.ndarray:
    """The rotation [3, 3] that takes ``up`` to +y and ``front`` to -z."""
    up = _numbers(config, "up", (0.0, 1.0, 0.0))
    front = _numbers(config, "front", (0.0, 0.0, -1.0) if abs(up[2]) < abs(up[1]) else (0.0, 1.0, 0.0))
    sizes = float(np.linalg.norm(up)), float(np.linalg.norm(front))
    if min(sizes) == 0 or abs(up @ front) > 1e-3 * sizes[0] * sizes[1]:
        raise ValueError("its up and front are not at right angles")
    up, front = up / sizes[0], front / sizes[1]
    return np.stack([np.cross(front, up), up, -front]) + 0.0  # the sum turns -0.0 into 0.0


def _numbers(config: Mapping[str, Any], key: str, default: tuple[float, ...]) -> np.ndarray:
    """As many numbers as in ``default``, float64."""
    value = config.get(key, default)
    if not isinstance(value, (list, tuple)) or any(type(part) not in (int, float) for part in value):
        raise ValueError(f"its {key} is not made of numbers")
    array = np.array(value, np.float64)
    if array.shape != (len(default),) or not (np.abs(array) < 1e9).all():
        raise ValueError(f"its {key} is not {len(default)} finite numbers")
    return array
