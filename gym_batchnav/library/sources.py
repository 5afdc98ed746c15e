"""The scenes that ``scenes=`` names: shipped apartments, files, folders, patterns, procedural seeds, Scene records."""

from __future__ import annotations

import glob
import inspect
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from gym_batchnav.homes import ALL_KINDS, generate_scene
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.recipes import (
    HabitatScene,
    ProceduralScene,
    Recipe,
    SceneFile,
    describe,
    load_recipe,
    recipe_from,
    with_options,
)
from gym_batchnav.scene.files import SceneNotFoundError
from gym_batchnav.scene.formats.mjcf_xml import MJCF_PARTS, MJCF_SUFFIX, is_mjcf
from gym_batchnav.scene.habitat.dataset import DATASET_ENDING, list_scenes, scene_name
from gym_batchnav.scene.load import SUFFIXES, check_load_options
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.semantics.annotate import semantics_beside

_PACKAGE = Path(__file__).parents[1]
MAX_SEEDS = 100_000
_PROCEDURAL = "write 'procedural:SEED' or 'procedural:FIRST-LAST', with options as in 'procedural:0-99?triangles=20000'"


@dataclass(frozen=True, slots=True)
class SceneSource:
    """A scene that can be loaded: its name, a function that loads it, and its recipe (None if only in memory)."""

    name: str
    load: Callable[[], Scene]
    recipe: Mapping[str, Any] | None = None


SceneSpec = str | Path | Scene | Iterable[str | Path | Scene] | Sequence[SceneSource]


def assets_dir() -> Path:
    """Return the folder of the shipped apartments: in the installed package, or next to it in a checkout."""
    installed = _PACKAGE / "assets"
    return installed if installed.is_dir() else _PACKAGE.parent / "assets"


def shipped_scenes() -> dict[str, Path]:
    """Return the files of the shipped apartments by name."""
    return {path.stem: path for path in sorted(assets_dir().glob("apartment_*.glb"))}


def shipped_policies() -> dict[str, Path]:
    """Return the files of the shipped policies by name, such as ``pointnav_depth``."""
    return {path.stem: path for path in sorted(assets_dir().glob("*.safetensors"))}


def are_shipped(spec: SceneSpec) -> bool:
    """Return whether a specification names shipped apartments only, which have navmeshes and episodes."""
    if isinstance(spec, (list, tuple)):
        return all(map(are_shipped, spec))
    return isinstance(spec, str) and (spec == "apartments" or spec in shipped_scenes())


def scene_sources(
    spec: SceneSpec, cache: DiskCache | None = None, options: Mapping[str, Any] | None = None
) -> list[SceneSource]:
    """Return the sources of the scenes that a specification names, in order; nothing is loaded yet.

    Scenes that would share a name are distinguished by their folders (``"attic/room"``), so that Habitat's ``scene_id``
    still finds them; a scene that is listed twice keeps its name.

    Args:
        spec: One of the following, or a list or generator of them:

            - ``"apartments"``, all shipped ones, or the name of one of them;
            - the path of a file that ``load_scene`` reads, or a pattern such as ``"~/scenes/**/*.glb"``;
            - a folder: the Habitat scene datasets in it, or else all scene files, by name (where there are MuJoCo's
              models, OBJ and STL files count as their parts);
            - a Habitat scene dataset, ``X.scene_dataset_config.json``: its scene instances, or else its stages;
            - ``"procedural:SEED"`` or ``"procedural:FIRST-LAST"`` of at most ``MAX_SEEDS``, made when they are needed;
              keywords of ``generate_scene`` follow as in ``"procedural:0-99?kind=office&triangles=20000"``;
            - a Scene;
            - sources that this function returned, alone in their list: they keep their names.
        cache: Stores scenes once they are parsed or generated; None stores none.
        options: ``texture_size`` and ``max_triangles`` of ``load_scene`` for all files and scenes of datasets.

    Raises:
        ValueError: If an option is wrong, there is no scene of a name, or a pattern or folder has no scene.
        SceneNotFoundError: If the specification looks like a path, and there is no such file.
    """
    if isinstance(spec, (list, tuple)) and spec and all(isinstance(part, SceneSource) for part in spec):
        return list(spec)
    parts = [spec] if isinstance(spec, (str, Path, Scene)) else spec
    if not isinstance(parts, Iterable):
        raise ValueError(f"scenes={spec!r}: pass a name, a path, a Scene, or a list of these")
    shipped = shipped_scenes()
    found = [recipe for part in parts for recipe in _named(part, shipped)]
    if not found:
        raise ValueError("scenes=[]: pass at least one scene")
    if options:
        check_load_options(**options)
        found = [item if isinstance(item, (Scene, ProceduralScene)) else with_options(item, options) for item in found]
    names = _distinct_names(found)
    return [_source(item, name, cache) for item, name in zip(found, names, strict=True)]


def with_absolute_paths(spec: Any) -> Any:
    """Return a specification that names the same scenes in any working folder, such as that of another process."""
    if isinstance(spec, (str, Path)):
        is_name = isinstance(spec, str) and (are_shipped(spec) or spec.startswith("procedural:") or not spec)
        return spec if is_name else os.path.abspath(os.path.expanduser(spec))
    if isinstance(spec, (list, tuple)):
        return [with_absolute_paths(part) for part in spec]
    return spec


def _named(part: object, shipped: dict[str, Path]) -> Iterator[Recipe | Scene]:
    """Yield the scenes of one part of a specification."""
    if isinstance(part, Scene):
        yield part
    elif not isinstance(part, (str, Path)):
        raise ValueError(f"scenes with {part!r} in it: pass names, paths and Scenes")
    elif part == "apartments":
        yield from map(_file, shipped.values())
    elif part in shipped:
        yield _file(shipped[str(part)])
    elif isinstance(part, str) and part.startswith("procedural:"):
        yield from _procedural(part)
    else:
        yield from _on_disk(part, shipped)


def _on_disk(part: str | Path, shipped: dict[str, Path]) -> Iterator[Recipe]:
    """Return the scene files of a path, a folder or a pattern."""
    if str(part) == "":
        raise ValueError("scenes='': name at least one scene")
    path = Path(part).expanduser()
    if path.is_dir():
        datasets = sorted(path.glob(f"*{DATASET_ENDING}"))
        inside = datasets or _scene_files(path.iterdir())
        if not inside:
            raise ValueError(f"folder '{path}' has no scene in it: pass one with files ending in {', '.join(SUFFIXES)}")
        for file in inside:
            yield from _scenes_in(file)
    elif path.is_file():
        yield from _scenes_in(path)
    elif glob.has_magic(str(path)):
        matches = _scene_files(map(Path, glob.iglob(str(path), recursive=True)))
        if not matches:
            raise ValueError(
                f"pattern '{part}' matches no scene: no such file exists that ends in {', '.join(SUFFIXES)}"
            )
        for file in matches:
            yield from _scenes_in(file)
    elif path.suffix or len(path.parts) > 1:
        raise SceneNotFoundError(path)
    else:
        known = ", ".join(["apartments", *shipped, "procedural:SEED"])
        raise ValueError(f"unknown scene '{part}': pass the path of a file, or one of {known}")


def _scene_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that can be loaded, sorted, without the annotated meshes of others.

    Beside MuJoCo's models, OBJ and STL files are their parts.
    """
    endings = (*SUFFIXES, DATASET_ENDING)
    found = [path for path in paths if path.name.lower().endswith(endings) and path.is_file()]
    found = [path for path in found if path.suffix.lower() != MJCF_SUFFIX or is_mjcf(path)]
    homes = {path.parent for path in found if path.suffix.lower() == MJCF_SUFFIX}
    found = [path for path in found if path.parent not in homes or path.suffix.lower() not in MJCF_PARTS]
    pairs = {path: semantics_beside(path) for path in found}
    annotated = {path.parent / pair.mesh for path, pair in pairs.items() if pair and path.name != pair.mesh}
    return sorted(path for path in found if path not in annotated)


def _scenes_in(path: Path) -> Iterator[Recipe]:
    """Yield the scene of a file, or the scenes of a dataset."""
    if path.name.endswith(DATASET_ENDING):
        for handle in list_scenes(path):
            yield HabitatScene(os.path.abspath(path), handle, scene_name(handle))
    else:
        yield _file(path)


def _file(path: Path) -> SceneFile:
    return SceneFile(os.path.abspath(path), path.stem)


def _procedural(part: str) -> Iterator[ProceduralScene]:
    """Yield the apartments of ``procedural:FIRST-LAST?OPTIONS``."""
    match = re.fullmatch(r"procedural:(\d+)(?:-(\d+))?(?:\?(.+))?", part)
    if not match:
        raise ValueError(f"scenes={part!r}: {_PROCEDURAL}")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if last < first:
        raise ValueError(f"scenes={part!r}: the last seed is smaller than the first: exchange them")
    if last - first >= MAX_SEEDS:
        raise ValueError(f"scenes={part!r}: that is more than {MAX_SEEDS:,} scenes: narrow the range")
    options = _options(part, match[3]) if match[3] else {}
    for seed in range(first, last + 1):
        yield ProceduralScene(seed, f"procedural_{seed}", options)


def _options(part: str, text: str) -> dict[str, Any]:
    """Parse the options after the question mark, keywords of ``generate_scene``: all are numbers but ``kind``."""
    keywords = inspect.signature(generate_scene).parameters.values()
    known = [word.name for word in keywords if word.kind is word.KEYWORD_ONLY and word.name != "name"]
    options: dict[str, Any] = {}
    try:
        for key, value in parse_qsl(text, keep_blank_values=True, strict_parsing=True):
            if key not in known:
                raise ValueError(f"{key} is not one of {', '.join(known)}")
            if key == "kind" and value not in ALL_KINDS:
                raise ValueError(f"kind={value} is not one of {', '.join(ALL_KINDS)}")
            options[key] = value if key == "kind" else float(value) if "." in value else int(value)
    except ValueError as error:
        raise ValueError(f"scenes={part!r}: {error}: {_PROCEDURAL}") from error
    return options


def _distinct_names(found: list[Recipe | Scene]) -> list[str]:
    """Return a unique name for each scene: its own, or else the first of its aliases that no other scene has."""
    names = [item.name for item in found]
    aliases = [() if isinstance(item, Scene) else item.aliases() for item in found]
    for level in range(max(map(len, aliases))):
        counts = Counter(names)
        names = [
            other[level] if counts[name] > 1 and level < len(other) else name
            for name, other in zip(names, aliases, strict=True)
        ]
    return names


def _source(item: Recipe | Scene, name: str, cache: DiskCache | None) -> SceneSource:
    if isinstance(item, Scene):
        return SceneSource(name, lambda: item)
    return source_of(replace(item, name=name), cache)


def source_of(recipe: Recipe, cache: DiskCache | None) -> SceneSource:
    """Return the source of a recipe's scene, which uses the cache if there is one."""
    return SceneSource(recipe.name, partial(load_recipe, recipe, cache), describe(recipe))


def source_from_recipe(recipe: Mapping[str, Any], cache: DiskCache | None = None) -> SceneSource:
    """Return the source with a ``SceneSource.recipe``.

    Args:
        recipe: Plain values, for example from JSON.
        cache: Stores prepared scenes; None stores none.

    Raises:
        ValueError: If it is not a recipe.
    """
    return source_of(recipe_from(recipe), cache)
