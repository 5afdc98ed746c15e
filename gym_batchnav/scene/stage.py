"""Habitat's stage configurations: which way up, and how large, the stage beside them is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from gym_batchnav.scene.attributes import asset_frame
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
        rotation, factors = asset_frame(config)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{name}' beside it cannot be used ({error}): mend or remove it") from error
    return StageConfig(name, rotation, factors)
