"""Recipes: descriptions from which this or another process can make a scene again, optionally through the cache.

Each class describes one kind of scene. It computes the key of its cache entry (``key``), checks whether a stored scene
is up to date (``is_current``), makes the scene (``make``), adds the fields that are not stored (``complete``) and
returns longer names to distinguish scenes that share a short one (``aliases``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gym_batchnav.homes import generate_apartment
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.packing import pack_scene, unpack_scene
from gym_batchnav.scene.habitat.dataset import load_habitat_scene
from gym_batchnav.scene.load import SUFFIXES, load_scene
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.code import code_digest

# A stored scene holds a navmesh as it was read, which kernels neither build nor change.
_LOADER = partial(
    code_digest,
    "scene/load.py",
    "scene/habitat/dataset.py",
    "library/packing.py",
    without=("navmesh/build/", "navmesh/kernels/"),
    packages=("numpy", "pillow", "trimesh", "DracoPy"),
)
_GENERATOR = partial(
    code_digest,
    "homes/__init__.py",
    "library/packing.py",
    without=("navmesh/build/", "navmesh/kernels/"),
    packages=("numpy",),
)
_BESIDE = (".navmesh", ".stage_config.json")  # files with the scene's name and these suffixes affect loading


@dataclass(frozen=True, slots=True)
class SceneFile:
    """A scene file and its loading options; its cache entry is checked against all files that it was made from."""

    path: str  # absolute
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keywords of load_scene

    def key(self) -> str:
        """The cache key: the file's bytes and name, the options and the loader's code."""
        return self._key(digest_of(Path(self.path)))

    def is_current(self, scene: Scene, key: str) -> bool:
        """Whether every file that the scene was made of is as it was."""
        path, files = Path(self.path), files_of(scene)
        return self._key(files.get(path.name, "")) == key and files_are(path.parent, files, known=(path.name,))

    def make(self) -> Scene:
        """The scene as ``load_scene`` gives it."""
        return load_scene(self.path, **self.options)

    def complete(self, scene: Scene) -> Scene:
        """Return the scene with its name, and with its path in the metadata so that episodes beside it are found."""
        return replace(scene, name=self.name, metadata={**scene.metadata, "path": self.path})

    def aliases(self) -> tuple[str, ...]:
        """Longer names: folder and name, then the whole path."""
        path = Path(self.path)
        return f"{path.parent.name}/{path.stem}", path.as_posix()

    def _key(self, digest: str) -> str:
        return f"file {_LOADER()} {digest} {Path(self.path).name} {_plain(self.options)}"


@dataclass(frozen=True, slots=True)
class ProceduralScene:
    """A generated apartment."""

    seed: int
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keywords of generate_apartment

    def key(self) -> str:
        """The cache key: the seed, the options and the generator's code."""
        return f"procedural {_GENERATOR()} {self.seed} {_plain(self.options)}"

    def is_current(self, scene: Scene, key: str) -> bool:
        """Always: the key holds all it depends on."""
        return True

    def make(self) -> Scene:
        """The apartment as ``generate_apartment`` gives it."""
        return generate_apartment(self.seed, **self.options)

    def complete(self, scene: Scene) -> Scene:
        """Return the scene with its name."""
        return replace(scene, name=self.name)

    def aliases(self) -> tuple[str, ...]:
        """A longer name: with the options."""
        options = "&".join(f"{key}={value}" for key, value in self.options.items())
        return (f"{self.name}?{options}",)


@dataclass(frozen=True, slots=True)
class HabitatScene:
    """A scene of a Habitat scene dataset."""

    dataset: str  # absolute path of the .scene_dataset_config.json
    handle: str  # path of its scene instance or stage in the dataset's folder
    name: str

    def key(self) -> str:
        """The cache key: the bytes of the dataset's and the scene's file, and the loader's code."""
        dataset = Path(self.dataset)
        return self._key(digest_of(dataset), digest_of(dataset.parent / self.handle))

    def is_current(self, scene: Scene, key: str) -> bool:
        """Whether every file that the scene was made of is as it was."""
        dataset, files = Path(self.dataset), files_of(scene)
        main = (dataset.name, self.handle)
        return self._key(*(files.get(name, "") for name in main)) == key and files_are(dataset.parent, files, main)

    def make(self) -> Scene:
        """The scene as ``load_habitat_scene`` gives it."""
        return load_habitat_scene(self.dataset, self.handle)

    def complete(self, scene: Scene) -> Scene:
        """Return the scene with its name, and with its path in the metadata so that episodes beside it are found."""
        path = Path(self.dataset).parent / self.handle
        return replace(scene, name=self.name, metadata={**scene.metadata, "path": str(path)})

    def aliases(self) -> tuple[str, ...]:
        """Longer names: the path in the dataset's folder, then the whole path."""
        path = (Path(self.dataset).parent / self.handle).as_posix()
        return f"{Path(self.handle).parent.as_posix()}/{self.name}", path

    def _key(self, *digests: str) -> str:
        return f"habitat {_LOADER()} {' '.join(digests)} {Path(self.dataset).name} {self.handle}"


Recipe = SceneFile | ProceduralScene | HabitatScene
_KINDS: dict[str, type[Recipe]] = {"file": SceneFile, "procedural": ProceduralScene, "habitat": HabitatScene}


def describe(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain JSON values, for ``recipe_from``."""
    (kind,) = (kind for kind, one in _KINDS.items() if isinstance(recipe, one))
    return {"kind": kind, **asdict(recipe)}


def key_of(recipe: Mapping[str, Any]) -> str:
    """Return the cache key of a scene; for a file, the whole main file is read.

    Raises:
        ValueError: ``recipe`` is not a recipe.
        OSError: Its file cannot be read.
    """
    return recipe_from(recipe).key()


def recipe_from(recipe: Mapping[str, Any]) -> Recipe:
    """Return the recipe for the plain values of ``describe``.

    Raises:
        ValueError: The values are not a recipe.
    """
    try:
        fields = dict(recipe)
        return _KINDS[fields.pop("kind")](**fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{recipe!r} is no recipe of a scene: pass SceneSource.recipe") from error


def load_recipe(recipe: Recipe, disk: DiskCache | None) -> Scene:
    """Return the scene of a recipe from the cache if the entry is current; otherwise make and store it.

    Raises:
        ValueError: The scene cannot be made; the message gives the reason.
    """
    try:
        key = recipe.key() if disk is not None else ""
    except OSError:
        disk = None  # making it says what is wrong with the file
    if disk is None:
        return recipe.complete(recipe.make())
    arrays = disk.load(key)
    if arrays is not None:
        try:
            scene = unpack_scene(arrays)
            if recipe.is_current(scene, key):
                return recipe.complete(scene)
        except (ValueError, KeyError, TypeError):
            pass  # of another layout, or damaged: made again
    scene = recipe.make()
    disk.store(key, pack_scene(scene))
    return recipe.complete(scene)


def files_of(scene: Scene) -> Mapping[str, str]:
    """SHA-256 of the files that a scene was made of, "" for one that was missing, by path, as the loader noted them."""
    files = scene.metadata.get("files")
    return files if isinstance(files, Mapping) else {}


def files_are(folder: Path, files: Mapping[str, str], known: Iterable[str] = ()) -> bool:
    """Return whether files are unchanged since a scene was made from them.

    Args:
        folder: Where they lie.
        files: Their SHA-256, "" for those that did not exist, by path in the folder.
        known: Those that need not be read again.

    Returns:
        False also if a navmesh or a configuration has come to lie beside one of them.
    """

    def digest_now(path: Path) -> str:
        return digest_of(path) if path.is_file() else ""

    assets = [Path(name) for name, digest in files.items() if digest and Path(name).suffix.lower() in SUFFIXES]
    beside = {asset.with_suffix(ending).as_posix() for asset in assets for ending in _BESIDE}
    try:
        return all(digest_now(folder / name) == files.get(name, "") for name in (files.keys() | beside) - set(known))
    except OSError:
        return False


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _plain(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True)
