"""What ``scenes=`` may name: shipped apartments, files, procedural seeds, Scene records."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gym_batchnav.scene.generate import generate_apartment
from gym_batchnav.scene.library import SceneSource
from gym_batchnav.scene.load import load_scene
from gym_batchnav.scene.mesh import Scene

SceneSpec = str | Path | Scene | Sequence[str | Path | Scene]

_PACKAGE = Path(__file__).parents[1]


def assets_dir() -> Path:
    """The folder of the shipped apartments: inside the installed package, or beside it in a checkout."""
    installed = _PACKAGE / "assets"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets"


def shipped_scenes() -> dict[str, Path]:
    """The files of the shipped apartments, by name."""
    return {path.stem: path for path in sorted(assets_dir().glob("apartment_*.glb"))}


def scene_sources(spec: SceneSpec) -> list[SceneSource]:
    """The scenes that a specification names, in order; nothing is loaded yet.

    Args:
        spec: ``"apartments"`` (all shipped ones), the name of one of them, ``"procedural:SEED"`` or
            ``"procedural:FIRST-LAST"``, the path of a file that ``load_scene`` reads, a Scene, or a sequence of these.

    Raises:
        ValueError: nothing goes by that name.
        FileNotFoundError: it looks like a path, and there is no such file.
    """
    if isinstance(spec, (str, Path, Scene)):
        return _sources_of(spec)
    if not isinstance(spec, Sequence):
        raise ValueError(f"scenes={spec!r}: give a name, a path, a Scene, or a list of these")
    sources = [source for part in spec for source in _sources_of(part)]
    if not sources:
        raise ValueError("scenes=[]: name at least one scene")
    return sources


def _sources_of(spec: str | Path | Scene) -> list[SceneSource]:
    """The scenes of one part of a specification."""
    if isinstance(spec, Scene):
        return [SceneSource(spec.name, lambda: spec)]
    shipped = shipped_scenes()
    if spec == "apartments":
        return [SceneSource(name, partial(_load_file, path)) for name, path in shipped.items()]
    if spec in shipped:
        return [SceneSource(str(spec), partial(_load_file, shipped[str(spec)]))]
    if isinstance(spec, str) and spec.startswith("procedural:"):
        return [SceneSource(f"procedural_{seed}", partial(generate_apartment, seed)) for seed in _seeds(spec)]
    path = Path(spec).expanduser()
    if not path.exists() and not path.suffix:
        known = ", ".join(["apartments", *shipped, "procedural:SEED"])
        raise ValueError(f"unknown scene {str(spec)!r}: give the path of a file, or one of {known}")
    if not path.is_file():
        raise FileNotFoundError(
            f"scene file {str(path)!r} does not exist" if not path.exists() else f"{path} is no file"
        )
    return [SceneSource(path.stem, partial(_load_file, path))]


def _load_file(path: Path) -> Scene:
    """A scene that remembers its file, so that its episodes can be found beside it."""
    scene = load_scene(path)
    return dataclasses.replace(scene, metadata={**scene.metadata, "path": str(path)})


def _seeds(spec: str) -> range:
    """The seeds that ``procedural:FIRST-LAST`` or ``procedural:SEED`` names."""
    match = re.fullmatch(r"procedural:(\d+)(?:-(\d+))?", spec)
    if not match:
        raise ValueError(f"scenes={spec!r}: write 'procedural:SEED' or 'procedural:FIRST-LAST'")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if last < first:
        raise ValueError(f"scenes={spec!r}: the last seed is smaller than the first")
    return range(first, last + 1)
