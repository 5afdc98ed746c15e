"""The scenes that ``scenes=`` names, and recipes by which this or another process makes them again, maybe from a cache.

The three classes of recipes describe one kind of scene each. They compute the key of its cache entry (``key``), check
whether a stored scene is up to date (``is_current``), make the scene (``make``), add the fields that are not stored
(``complete``) and return longer names to distinguish scenes that share a short one (``aliases``).
"""

from __future__ import annotations

import glob
import inspect
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from gym_batchnav.homes import ALL_KINDS, generate_scene, undamaged_scene
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.packing import pack_scene, unpack_scene
from gym_batchnav.scene.files import SceneNotFoundError
from gym_batchnav.scene.formats.mjcf_document import MJCF_PARTS, MJCF_SUFFIX, is_mjcf
from gym_batchnav.scene.habitat.dataset import DATASET_ENDING, list_scenes, load_habitat_scene, scene_name
from gym_batchnav.scene.load import SUFFIXES, check_load_options, load_scene
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.semantics.annotate import semantics_beside
from gym_batchnav.scene.textures import AUTO
from gym_batchnav.system.code import code_digest
from gym_batchnav.system.progress import report_stage
from gym_batchnav.system.storage import sha256_of

_PACKAGE = Path(__file__).parents[1]
MAX_SEEDS = 100_000
_PROCEDURAL = "write 'procedural:SEED' or 'procedural:FIRST-LAST', with options as in 'procedural:0-99?triangles=20000'"


# The builder and the kernels do not affect a stored scene, which holds its navmesh as it was read.
_LOADER = partial(
    code_digest,
    "scene/load.py",
    "scene/habitat/dataset.py",
    "library/packing.py",
    without=("navmesh/build/", "navmesh/kernels/"),
    packages=("numpy", "pillow", "trimesh", "DracoPy", "opengl-basisu", "meshopt", "scipy", "mujoco"),
)
_GENERATOR = partial(
    code_digest,
    "homes/__init__.py",
    "library/packing.py",
    without=("navmesh/build/", "navmesh/kernels/"),
    packages=("numpy",),
)
_SETTLED = 2.0  # seconds after which a further change of a file certainly changes its times
_COMPANIONS = (".navmesh", ".stage_config.json")  # suffixes of files with the scene's name that affect loading


@dataclass(frozen=True, slots=True)
class SceneFile:
    """A scene file and its loading options; its cache entry is checked against all files that it was made from."""

    path: str  # absolute
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keywords of load_scene or load_habitat_scene

    def _main_files(self) -> tuple[Path, tuple[str, ...]]:
        """Return a folder and the files in it whose bytes are part of the cache key, the scene's own last."""
        path = Path(self.path)
        return path.parent, (path.name,)

    def key(self) -> str:
        """Return the cache key: the bytes and names of the main files, the options and the loader's code."""
        folder, names = self._main_files()
        return self._key(*(digest_of(folder / name) for name in names))

    def is_current(self, scene: Scene, key: str) -> bool:
        """Return whether every file that the scene was made from is unchanged."""
        folder, names = self._main_files()
        files = files_of(scene)
        same = self._key(*(files.get(name, "") for name in names)) == key and files_are(folder, files, names)
        drawn = folder / str(scene.metadata.get("stage", names[-1]))
        return same and not (self.options.get("semantics", True) and has_new_semantics(drawn, scene))

    def make(self) -> Scene:
        """Load the scene with ``load_scene``."""
        return load_scene(self.path, **self.options)

    def complete(self, scene: Scene) -> Scene:
        """Return the scene with its name, and with its path in the metadata so that episodes next to it are found."""
        folder, names = self._main_files()
        metadata = {**scene.metadata, "path": str(folder / names[-1])}
        whole = replace(self, options={**self.options, "max_triangles": None, "texture_size": 1})
        again = whole.make if "whole_geometry" in scene.metadata else None
        return replace(scene, name=self.name, metadata=metadata, unsimplified=again)

    def aliases(self) -> tuple[str, ...]:
        """Return longer names: folder and name, then the whole path."""
        path = Path(self.path)
        return f"{path.parent.name}/{path.stem}", path.as_posix()

    def _key(self, *digests: str) -> str:
        names = " ".join(self._main_files()[1])
        return f"{type(self).__name__} {_LOADER()} {' '.join(digests)} {names} {_plain(self.options)}"


@dataclass(frozen=True, slots=True)
class HabitatScene(SceneFile):
    """A scene of a Habitat scene dataset; ``path`` is that of the .scene_dataset_config.json."""

    handle: str = ""  # path of its scene instance or stage in the dataset's folder

    def _main_files(self) -> tuple[Path, tuple[str, ...]]:
        dataset = Path(self.path)
        return dataset.parent, (dataset.name, self.handle)

    def make(self) -> Scene:
        """Load the scene with ``load_habitat_scene``."""
        return load_habitat_scene(self.path, self.handle, **self.options)

    def aliases(self) -> tuple[str, ...]:
        """Return longer names: the path in the dataset's folder, then the whole path."""
        path = (Path(self.path).parent / self.handle).as_posix()
        return f"{Path(self.handle).parent.as_posix()}/{self.name}", path


@dataclass(frozen=True, slots=True)
class ProceduralScene:
    """A generated scene."""

    seed: int
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keywords of generate_scene

    def key(self) -> str:
        """Return the cache key: the seed, the options and the generator's code."""
        return f"procedural {_GENERATOR()} {self.seed} {_plain(self.options)}"

    def is_current(self, scene: Scene, key: str) -> bool:
        """Return True, since the key includes all that the scene depends on."""
        return True

    def make(self) -> Scene:
        """Generate the scene with ``generate_scene``."""
        return generate_scene(self.seed, **self.options)

    def complete(self, scene: Scene) -> Scene:
        """Return the scene with its name, and with the way to its geometry without damage."""
        again = partial(undamaged_scene, self.seed, **self.options) if "whole_geometry" in scene.metadata else None
        return replace(scene, name=self.name, unsimplified=again)

    def aliases(self) -> tuple[str, ...]:
        """Return a longer name, with the options, if there are any."""
        options = "&".join(f"{key}={value}" for key, value in self.options.items())
        return (f"{self.name}?{options}",) if options else ()


Recipe = SceneFile | ProceduralScene
_KINDS: dict[str, type[Recipe]] = {"file": SceneFile, "procedural": ProceduralScene, "habitat": HabitatScene}


def with_options(recipe: SceneFile, options: Mapping[str, Any]) -> SceneFile:
    """Return a recipe with further options; those with their default value do not change its key."""
    default = {"texture_size": AUTO, "max_triangles": None}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    changed = {name: value for name, value in plain.items() if value != default.get(name)}
    return replace(recipe, options={**recipe.options, **changed})


def recipe_from(recipe: Mapping[str, Any]) -> Recipe:
    """Return the recipe for the plain values of ``SceneSource.recipe``, for example from JSON.

    Raises:
        ValueError: If the values are not a recipe.
    """
    try:
        fields = dict(recipe)
        return _KINDS[fields.pop("kind")](**fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{recipe!r} is not a recipe of a scene: pass SceneSource.recipe") from error


def load_recipe(recipe: Recipe, disk: DiskCache | None) -> Scene:
    """Return the scene of a recipe from the cache if the entry is current; otherwise make and store it.

    Raises:
        ValueError: If the scene cannot be made; the message gives the reason.
    """
    try:
        key = recipe.key() if disk is not None else ""
    except OSError:
        disk = None  # making the scene raises an error with the details
    if disk is None:
        return recipe.complete(recipe.make())
    report_stage(f"{recipe.name}: looking in the cache")
    arrays = disk.load(key)
    if arrays is not None:
        with suppress(ValueError, KeyError, TypeError):  # an entry of another layout or a damaged one is replaced
            scene = unpack_scene(arrays)
            if recipe.is_current(scene, key):
                return recipe.complete(scene)
    report_stage(f"{recipe.name}: making the scene")
    scene = recipe.make()
    disk.store(key, pack_scene(scene))
    return recipe.complete(scene)


def files_of(scene: Scene) -> Mapping[str, str]:
    """Return the SHA-256 of the files that a scene was made from, "" for missing ones, by path."""
    files = scene.metadata.get("files")
    return files if isinstance(files, Mapping) else {}


def files_are(folder: Path, files: Mapping[str, str], known: Iterable[str] = ()) -> bool:
    """Return whether files are unchanged since a scene was made from them.

    Args:
        folder: Folder of the files.
        files: Their SHA-256 by path in the folder, "" for files that did not exist.
        known: Files that need not be read again.

    Returns:
        Whether they are unchanged; False also if a navmesh or a configuration of one of them has been added.
    """

    def digest_now(path: Path) -> str:
        return digest_of(path) if path.is_file() else ""

    assets = [Path(name) for name, digest in files.items() if digest and Path(name).suffix.lower() in SUFFIXES]
    beside = {asset.with_suffix(ending).as_posix() for asset in assets for ending in _COMPANIONS}
    try:
        return all(digest_now(folder / name) == files.get(name, "") for name in (files.keys() | beside) - set(known))
    except OSError:
        return False


def has_new_semantics(file: Path, scene: Scene) -> bool:
    """Return whether annotations have been added, next to its file or that of its stage, to a scene without any."""
    return "semantics" not in scene.metadata and semantics_beside(file) is not None


def digest_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file; one that has not changed for a while is read once per process."""
    status = path.stat()
    settled = time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED
    state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _digest_once(path, state) if settled else sha256_of(path)


@lru_cache(maxsize=1024)
def _digest_once(path: Path, state: tuple[int, ...]) -> str:
    """Return the SHA-256 of a file in a state."""
    return sha256_of(path)


def _plain(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True)


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
        ValueError: If an option is wrong, a name is unknown, or a pattern or folder has no scene.
        SceneNotFoundError: If the specification looks like the path of a file that does not exist.
    """
    if isinstance(spec, (list, tuple)) and spec and all(isinstance(part, SceneSource) for part in spec):
        return list(spec)
    parts = [spec] if isinstance(spec, (str, Path, Scene)) else spec
    if not isinstance(parts, Iterable) or isinstance(parts, (bytes, Mapping)):
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
    path = Path(os.path.expanduser(part))  # unlike Path.expanduser, it leaves an unknown user as it is
    if os.path.isdir(path):
        datasets = sorted(path.glob(f"*{DATASET_ENDING}"))
        inside = datasets or _scene_files(path.iterdir())
        if not inside:
            raise ValueError(f"folder '{path}' has no scene in it: pass one with files ending in {', '.join(SUFFIXES)}")
        for file in inside:
            yield from _scenes_in(file)
    elif os.path.isfile(path):
        yield from _scenes_in(path)
    elif glob.has_magic(str(path)):
        matches = _scene_files(map(Path, glob.iglob(str(path), recursive=True)))
        if not matches:
            raise ValueError(f"pattern '{part}' matches no file that ends in {', '.join(SUFFIXES)}: check the path")
        for file in matches:
            yield from _scenes_in(file)
    elif path.suffix or len(path.parts) > 1:
        raise SceneNotFoundError(path)
    else:
        known = ", ".join(["apartments", *shipped, "procedural:SEED"])
        raise ValueError(f"unknown scene '{part}': pass the path of a file, or one of {known}")


def _scene_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files that can be loaded, sorted, without the annotated meshes of others.

    In folders with MuJoCo's models, OBJ and STL files are their parts.
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
            yield HabitatScene(os.path.abspath(path), scene_name(handle), handle=handle)
    else:
        yield _file(path)


def _file(path: Path) -> SceneFile:
    return SceneFile(os.path.abspath(path), path.stem)


def _procedural(part: str) -> Iterator[ProceduralScene]:
    """Yield the scenes of ``procedural:FIRST-LAST?OPTIONS``."""
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
    """Return a name for each scene that no other has: its own, or else the first of its aliases that no other has."""
    names = [item.name for item in found]
    aliases = [() if isinstance(item, Scene) else item.aliases() for item in found]
    for level in range(max(map(len, aliases))):
        counts = Counter(name for name, _ in set(zip(names, aliases, strict=True)))
        names = [
            other[level] if counts[name] > 1 and level < len(other) else name
            for name, other in zip(names, aliases, strict=True)
        ]
    return names


def _source(item: Recipe | Scene, name: str, cache: DiskCache | None) -> SceneSource:
    if isinstance(item, Scene):
        return SceneSource(name, lambda: item)
    (kind,) = (kind for kind, one in _KINDS.items() if type(item) is one)
    return source_from_recipe({"kind": kind, **asdict(item), "name": name}, cache)


def source_from_recipe(values: Mapping[str, Any], cache: DiskCache | None = None) -> SceneSource:
    """Return the source with a ``SceneSource.recipe``, which uses the cache if there is one.

    Raises:
        ValueError: If it is not a recipe.
    """
    recipe = recipe_from(values)
    return SceneSource(recipe.name, partial(load_recipe, recipe, cache), values)
