"""Options of commands about scenes: how files are read, and the size of the agent that walks there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

if TYPE_CHECKING:
    from gym_batchnav.library.cache import DiskCache
    from gym_batchnav.library.sources import SceneSource
    from gym_batchnav.navmesh.mesh import NavMeshSettings
    from gym_batchnav.scene.scene import Scene

FrameUp = Annotated[
    str | None, typer.Option("--up", help="Axis of the file that points up, y or z, if the guess is wrong.")
]
FrameScale = Annotated[
    float | None,
    typer.Option("--scale", help="Metres per unit of the file, if the guess is wrong: 0.01 for centimetres."),
]

TextureSize = Annotated[
    str, typer.Option(help="Longest side of textures in pixels; auto fits those of a scene into 256 MiB.")
]
MaxTriangles = Annotated[
    int | None, typer.Option(help="Simplify files with more triangles (extra formats); navmeshes are built before.")
]

Radius = Annotated[float | None, typer.Option(help="Agent radius in metres (default: 0.1).", min=0)]
Height = Annotated[float | None, typer.Option(help="Agent height in metres (default: 1.5).", min=0)]
Climb = Annotated[float | None, typer.Option(help="Highest step in metres (default: 0.2).", min=0)]
Slope = Annotated[float | None, typer.Option(help="Steepest slope in degrees (default: 45).", min=0, max=90)]

# Rotations that bring up to y.
_UP = {"y": np.eye(3), "z": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])}


def load_options(texture_size: str, max_triangles: int | None) -> dict[str, Any]:
    """Return the keywords of ``load_scene`` for the flags of a command."""
    size = int(texture_size) if texture_size.isdecimal() else texture_size
    return {"texture_size": size, "max_triangles": max_triangles}


def agent_settings(
    radius: float | None, height: float | None, climb: float | None, slope: float | None
) -> NavMeshSettings | None:
    """Return the navmesh settings for the flags of a command; None if none of them was given."""
    from gym_batchnav.navmesh.mesh import NavMeshSettings

    given: dict[str, Any] = {
        "agent_radius": radius,
        "agent_height": height,
        "agent_max_climb": climb,
        "agent_max_slope_deg": slope,
    }
    agent = {name: value for name, value in given.items() if value is not None}
    return NavMeshSettings(**agent) if agent else None


def with_frame(source: SceneSource, cache: DiskCache, up: str | None, scale: float | None) -> SceneSource:
    """Return a source whose file is read with the given up and scale; the loader guesses those that are None.

    Raises:
        ValueError: The scene is not a file.
    """
    from gym_batchnav.library.sources import source_from_recipe

    options: dict[str, Any] = {key: value for key, value in (("up", up), ("scale", scale)) if value is not None}
    if not options:
        return source
    if source.recipe is None or source.recipe["kind"] != "file":
        raise ValueError(f"--up and --scale apply to scene files, but '{source.name}' is not a file: leave them out")
    return source_from_recipe({**source.recipe, "options": {**source.recipe["options"], **options}}, cache)


def stage_config_hint(scene: Scene) -> str:
    """Return a sentence that explains how to make environments read the file with the same up and scale."""
    from gym_batchnav.scene.files import SceneFiles
    from gym_batchnav.scene.habitat.config import read_stage_config

    path = Path(str(scene.metadata["path"]))
    up = str(scene.metadata["up"])
    # If a configuration rotates the file in another way, the metadata contains the name of the configuration.
    config = None if up in _UP else read_stage_config(SceneFiles(path))
    rotation = _UP[up] if config is None else config.rotation
    kept = json.dumps(frame_attributes(rotation, np.broadcast_to(np.asarray(scene.metadata["scale"]), 3)))
    file = f"'{path.stem}.stage_config.json'"
    return f"to make environments read the file in the same way, put this into {file} beside it: {kept}"


def frame_attributes(rotation: np.ndarray, factors: np.ndarray) -> dict[str, Any]:
    """Return the attributes of a stage configuration for a frame; the inverse of ``asset_frame``.

    Args:
        rotation: [3, 3], maps the asset's up to +y and its front to -z.
        factors: [3], metres per unit along the axes after the rotation.

    Returns:
        All four attributes of a frame, so that they fully replace those of an older configuration.
    """
    uniform = bool((factors == factors[0]).all())
    scale = [1.0] * 3 if uniform else factors.tolist()
    unit = float(factors[0]) if uniform else 1.0
    up = (rotation[1] + 0.0).tolist()  # adding 0.0 turns -0.0 into 0.0
    front = (-rotation[2] + 0.0).tolist()
    return {"up": up, "front": front, "scale": scale, "units_to_meters": unit}
