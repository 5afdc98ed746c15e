"""Habitat's stage configurations, which state the up axis and the scale of a stage."""

from __future__ import annotations

from pathlib import PurePosixPath

from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.frame import StatedFrame
from gym_batchnav.scene.habitat.attributes import asset_frame
from gym_batchnav.scene.json_values import MAX_JSON_BYTES, parse_json


def read_stage_config(files: SceneFiles) -> StatedFrame | None:
    """Read the configuration with a scene's name; return None if there is none or it refers to another file.

    Raises:
        ValueError: If it is damaged.
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
        raise ValueError(f"'{name}' cannot be used ({error}): fix or remove it") from error
    return StatedFrame(name, rotation, factors)
