"""Options of commands about scenes: how files are read, and the size of the agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from gym_batchnav.cli.flags import listed

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

AgentSize = Annotated[
    str | None,
    typer.Option(
        "--agent",
        help="The agent's size and abilities, such as radius=0.2,climb=0.1, if different from radius 0.1, height 1.5, "
        "climb 0.2 (the highest step) in metres and slope 45 in degrees.",
    ),
]
_SETTINGS = {
    "radius": "agent_radius", "height": "agent_height", "climb": "agent_max_climb", "slope": "agent_max_slope_deg",
}  # fmt: skip


def agent_settings(text: str | None) -> NavMeshSettings | None:
    """Return the navmesh settings of an option such as ``"radius=0.2,climb=0.3"``; ValueError for a wrong one."""
    if text is None:
        return None
    from gym_batchnav.navmesh.mesh import NavMeshSettings

    try:
        given = dict(part.partition("=")[::2] for part in listed(text))
        settings: dict[str, Any] = {_SETTINGS[name.strip()]: float(value) for name, value in given.items()}
        return NavMeshSettings(**settings)
    except KeyError as error:
        raise ValueError(f"agent={text!r}: unknown name {error}; available: {', '.join(_SETTINGS)}") from error
    except ValueError as error:
        example = "radius=0.2,height=1.5,climb=0.2,slope=45"
        raise ValueError(f"agent={text!r}: {error}; write {example}, or some of these") from error


def with_frame(source: SceneSource, cache: DiskCache, up: str | None, scale: float | None) -> SceneSource:
    """Return a source whose file is read with the given up and scale, or guesses; ValueError unless it is a file."""
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
    from gym_batchnav.scene.frame import UP_ROTATIONS
    from gym_batchnav.scene.habitat.config import read_stage_config

    path = Path(str(scene.metadata["path"]))
    up = str(scene.metadata["up"])
    # If a configuration rotates the file in another way, the metadata contains the name of the configuration.
    config = None if up in UP_ROTATIONS else read_stage_config(SceneFiles(path))
    rotation = UP_ROTATIONS[up] if config is None else config.rotation
    kept = json.dumps(frame_attributes(rotation, np.broadcast_to(np.asarray(scene.metadata["scale"]), 3)))
    file = f"'{path.stem}.stage_config.json'"
    return f"to make environments read the file in the same way, put this into {file} next to it: {kept}"


def frame_attributes(rotation: np.ndarray, factors: np.ndarray) -> dict[str, Any]:
    """Return all four attributes of a stage configuration for a frame; the inverse of ``asset_frame``.

    The rotation [3, 3] maps the asset's up to +y and its front to -z; factors [3] are metres per unit along the axes
    after it.
    """
    uniform = bool((factors == factors[0]).all())
    scale = [1.0] * 3 if uniform else factors.tolist()
    unit = float(factors[0]) if uniform else 1.0
    up = (rotation[1] + 0.0).tolist()  # adding 0.0 turns -0.0 into 0.0
    front = (-rotation[2] + 0.0).tolist()
    return {"up": up, "front": front, "scale": scale, "units_to_meters": unit}
