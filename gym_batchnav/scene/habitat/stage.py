"""Habitat's stage configurations: which way up, and how large, the stage beside them is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from gym_batchnav.scene.files import MAX_JSON_BYTES, SceneFiles, parse_json
from gym_batchnav.scene.habitat.attributes import asset_frame


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
        config = parse_json(files.beside(name, max_bytes=MAX_JSON_BYTES))
        if PurePosixPath(str(config.get("render_asset", files.path.name))).name != files.path.name:
            return None
        rotation, factors = asset_frame(config)
    except ValueError as error:
        raise ValueError(f"'{name}' beside it cannot be used ({error}): mend or remove it") from error
    return StageConfig(name, rotation, factors)
