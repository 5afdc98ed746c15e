"""Recipes: descriptions from which this or another process can make a scene again, optionally through the cache.

Each class describes one kind of scene. It computes the key of its cache entry (``key``), checks whether a stored scene
is up to date (``is_current``), makes the scene (``make``), adds the fields that are not stored (``complete``) and
returns longer names to distinguish scenes that share a short one (``aliases``).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.homes import generate_scene, undamaged_scene
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.packing import pack_scene, unpack_scene
from gym_batchnav.scene.habitat.dataset import load_habitat_scene
from gym_batchnav.scene.load import SUFFIXES, load_scene
from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.semantics.annotate import semantics_beside
from gym_batchnav.scene.textures import AUTO
from gym_batchnav.system.code import code_digest
from gym_batchnav.system.progress import report_stage

# The builder and the kernels do not affect a stored scene, which holds its navmesh as it was read.
_LOADER = partial(
    code_digest,
    "scene/load.py",
    "scene/habitat/dataset.py",
    "library/packing.py",
    without=("navmesh/build/", "navmesh/kernels/"),
    packages=(
        "numpy",
        "pillow",
        "trimesh",
        "DracoPy",
        "opengl-basisu",
        "meshopt",
        "scipy",
        "mujoco",
        "fast-simplification",
    ),
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
    options: dict[str, Any] = field(default_factory=dict)  # keywords of load_scene

    def key(self) -> str:
        """Return the cache key: the file's bytes and name, the options and the loader's code."""
        return self._key(digest_of(Path(self.path)))

    def is_current(self, scene: Scene, key: str) -> bool:
        """Return whether every file that the scene was made from is unchanged."""
        path = Path(self.path)
        files = files_of(scene)
        same = self._key(files.get(path.name, "")) == key and files_are(path.parent, files, known=(path.name,))
        return same and not (self.options.get("semantics", True) and has_new_semantics(path, scene))

    def make(self) -> Scene:
        """Load the scene with ``load_scene``."""
        return load_scene(self.path, **self.options)

    def complete(self, scene: Scene) -> Scene:
        """Return the scene with its name, and with its path in the metadata so that episodes beside it are found."""
        metadata = {**scene.metadata, "path": self.path}
        return replace(scene, name=self.name, metadata=metadata, unsimplified=_whole(self, scene))

    def aliases(self) -> tuple[str, ...]:
        """Return longer names: folder and name, then the whole path."""
        path = Path(self.path)
        return f"{path.parent.name}/{path.stem}", path.as_posix()

    def _key(self, digest: str) -> str:
        return f"file {_LOADER()} {digest} {Path(self.path).name} {_plain(self.options)}"


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
        """Return a longer name, with the options."""
        options = "&".join(f"{key}={value}" for key, value in self.options.items())
        return (f"{self.name}?{options}",)


@dataclass(frozen=True, slots=True)
class HabitatScene:
    """A scene of a Habitat scene dataset."""

    dataset: str  # absolute path of the .scene_dataset_config.json
    handle: str  # path of its scene instance or stage in the dataset's folder
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keywords of load_habitat_scene

    def key(self) -> str:
        """Return the cache key: the bytes of the dataset's and the scene's file, the options and the loader's code."""
        dataset = Path(self.dataset)
        return self._key(digest_of(dataset), digest_of(dataset.parent / self.handle))

    def is_current(self, scene: Scene, key: str) -> bool:
        """Return whether every file that the scene was made from is unchanged."""
        dataset = Path(self.dataset)
        files = files_of(scene)
        main = (dataset.name, self.handle)
        same = self._key(*(files.get(name, "") for name in main)) == key and files_are(dataset.parent, files, main)
        return same and not has_new_semantics(dataset.parent / str(scene.metadata.get("stage", "")), scene)

    def make(self) -> Scene:
        """Load the scene with ``load_habitat_scene``."""
        return load_habitat_scene(self.dataset, self.handle, **self.options)

    def complete(self, scene: Scene) -> Scene:
        """Return the scene with its name, and with its path in the metadata so that episodes beside it are found."""
        metadata = {**scene.metadata, "path": str(Path(self.dataset).parent / self.handle)}
        return replace(scene, name=self.name, metadata=metadata, unsimplified=_whole(self, scene))

    def aliases(self) -> tuple[str, ...]:
        """Return longer names: the path in the dataset's folder, then the whole path."""
        path = (Path(self.dataset).parent / self.handle).as_posix()
        return f"{Path(self.handle).parent.as_posix()}/{self.name}", path

    def _key(self, *digests: str) -> str:
        return f"habitat {_LOADER()} {' '.join(digests)} {Path(self.dataset).name} {self.handle} {_plain(self.options)}"


def _whole(recipe: SceneFile | HabitatScene, scene: Scene) -> Callable[[], Scene] | None:
    """Return a function that loads the geometry of a simplified scene as it was before; None for any other scene."""
    if "whole_geometry" not in scene.metadata:
        return None
    return replace(recipe, options={**recipe.options, "max_triangles": None, "texture_size": 1}).make


Recipe = SceneFile | ProceduralScene | HabitatScene
_KINDS: dict[str, type[Recipe]] = {"file": SceneFile, "procedural": ProceduralScene, "habitat": HabitatScene}


def with_options(recipe: SceneFile | HabitatScene, options: Mapping[str, Any]) -> SceneFile | HabitatScene:
    """Return a recipe with further options; those with their default value do not change its key."""
    default = {"texture_size": AUTO, "max_triangles": None}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}
    changed = {name: value for name, value in plain.items() if value != default.get(name)}
    return replace(recipe, options={**recipe.options, **changed})


def describe(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain JSON values, for ``recipe_from``."""
    (kind,) = (kind for kind, one in _KINDS.items() if isinstance(recipe, one))
    return {"kind": kind, **asdict(recipe)}


def key_of(recipe: Mapping[str, Any]) -> str:
    """Return the cache key of a scene; for a file, the whole main file is read.

    Raises:
        ValueError: If ``recipe`` is not a recipe.
        OSError: If its file cannot be read.
    """
    return recipe_from(recipe).key()


def recipe_from(recipe: Mapping[str, Any]) -> Recipe:
    """Return the recipe for the plain values of ``describe``.

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
    report_stage(f"{recipe.name}: reading from the cache")
    arrays = disk.load(key)
    if arrays is not None:
        try:
            scene = unpack_scene(arrays)
            if recipe.is_current(scene, key):
                return recipe.complete(scene)
        except (ValueError, KeyError, TypeError):
            pass  # an entry of another layout or a damaged one is replaced
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

    assets = _assets(files)
    beside = {asset.with_suffix(ending).as_posix() for asset in assets for ending in _COMPANIONS}
    try:
        return all(digest_now(folder / name) == files.get(name, "") for name in (files.keys() | beside) - set(known))
    except OSError:
        return False


def has_new_semantics(file: Path, scene: Scene) -> bool:
    """Return whether a scene without annotations has got some, beside its file or that of its stage."""
    return "semantics" not in scene.metadata and semantics_beside(file) is not None


def _assets(files: Mapping[str, str]) -> list[Path]:
    """Return the scene files among some files, which are given with their SHA-256."""
    return [Path(name) for name, digest in files.items() if digest and Path(name).suffix.lower() in SUFFIXES]


def digest_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file; one that has not changed for a while is read once per process."""
    status = path.stat()
    settled = time.time() - max(status.st_mtime, status.st_ctime) > _SETTLED
    state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _digest_once(path, state) if settled else _digest_now(path)


@lru_cache(maxsize=1024)
def _digest_once(path: Path, state: tuple[int, ...]) -> str:
    """Return the SHA-256 of a file in a state."""
    return _digest_now(path)


def _digest_now(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _plain(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True)
