"""How a scene is made again, here or in another process, through the cache if one is given.

Each class knows one kind of scene: what its entry in the cache is found by (``key``), whether a scene that was stored
under that key is still what would be made (``is_current``), how to make it (``make``), what to add that is not stored
(``dress``) and which longer names it may go by (``aliases``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from gym_batchnav.homes import generate_apartment
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneSource
from gym_batchnav.library.packing import pack_scene, unpack_scene
from gym_batchnav.scene.habitat.dataset import load_habitat_scene
from gym_batchnav.scene.load import SUFFIXES, load_scene
from gym_batchnav.scene.scene import Scene

_PACKAGE = Path(__file__).parents[1]
# What a stored scene depends on besides its content. It counts by its bytes, so that no version needs to be raised.
_CODE = {
    "loader": ("scene/**/*.py", "library/packing.py", "navmesh/record.py", "navmesh/detour.py", "navmesh/topology.py"),
    "generator": ("homes/**/*.py", "scene/scene.py", "library/packing.py", "scene/color.py"),
}
_BESIDE = (".navmesh", ".stage_config.json")  # a file of the scene's name that ends so changes what is loaded


@dataclass(frozen=True, slots=True)
class SceneFile:
    """A scene file and how to load it; its entry in the cache is checked against all files it was made of."""

    path: str  # absolute
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keywords of load_scene

    def key(self) -> str:
        """By the file's bytes and name, the options and the loader."""
        return self._key(digest_of(Path(self.path)))

    def is_current(self, scene: Scene, key: str) -> bool:
        """Whether every file that the scene was made of is as it was."""
        path, files = Path(self.path), files_of(scene)
        return self._key(files.get(path.name, "")) == key and files_are(path.parent, files, known=(path.name,))

    def make(self) -> Scene:
        """The scene as ``load_scene`` gives it."""
        return load_scene(self.path, **self.options)

    def dress(self, scene: Scene) -> Scene:
        """With its name, and its path among the metadata, so that its episodes can be found beside it."""
        return replace(scene, name=self.name, metadata={**scene.metadata, "path": self.path})

    def aliases(self) -> tuple[str, ...]:
        """With the folder, then the whole path."""
        path = Path(self.path)
        return f"{path.parent.name}/{path.stem}", path.as_posix()

    def _key(self, digest: str) -> str:
        return f"file {code_digest('loader')} {digest} {Path(self.path).name} {_plain(self.options)}"


@dataclass(frozen=True, slots=True)
class ProceduralScene:
    """A generated apartment."""

    seed: int
    name: str
    options: dict[str, Any] = field(default_factory=dict)  # keywords of generate_apartment

    def key(self) -> str:
        """By the seed, the options and the generator."""
        return f"procedural {code_digest('generator')} {self.seed} {_plain(self.options)}"

    def is_current(self, scene: Scene, key: str) -> bool:
        """Always: the key holds all it depends on."""
        return True

    def make(self) -> Scene:
        """The apartment as ``generate_apartment`` gives it."""
        return generate_apartment(self.seed, **self.options)

    def dress(self, scene: Scene) -> Scene:
        """With its name."""
        return replace(scene, name=self.name)

    def aliases(self) -> tuple[str, ...]:
        """With the options."""
        options = "&".join(f"{key}={value}" for key, value in self.options.items())
        return (f"{self.name}?{options}",)


@dataclass(frozen=True, slots=True)
class HabitatScene:
    """A scene of a Habitat scene dataset."""

    dataset: str  # absolute path of the .scene_dataset_config.json
    handle: str  # path of its scene instance or stage in the dataset's folder
    name: str

    def key(self) -> str:
        """By the bytes of the dataset's and the scene's file, and the loader."""
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

    def dress(self, scene: Scene) -> Scene:
        """With its name, and its path among the metadata, so that its episodes can be found beside it."""
        path = Path(self.dataset).parent / self.handle
        return replace(scene, name=self.name, metadata={**scene.metadata, "path": str(path)})

    def aliases(self) -> tuple[str, ...]:
        """With the path in the dataset's folder, then the whole path."""
        path = (Path(self.dataset).parent / self.handle).as_posix()
        return f"{Path(self.handle).parent.as_posix()}/{self.name}", path

    def _key(self, *digests: str) -> str:
        return f"habitat {code_digest('loader')} {' '.join(digests)} {Path(self.dataset).name} {self.handle}"


Recipe = SceneFile | ProceduralScene | HabitatScene
_KINDS: dict[str, type[Recipe]] = {"file": SceneFile, "procedural": ProceduralScene, "habitat": HabitatScene}


def source_of(recipe: Recipe, disk: DiskCache | None) -> SceneSource:
    """The source that makes the scene of a recipe, through the cache if there is one."""
    (kind,) = (kind for kind, one in _KINDS.items() if isinstance(recipe, one))
    return SceneSource(recipe.name, partial(load_recipe, recipe, disk), {"kind": kind, **asdict(recipe)})


def source_from_recipe(recipe: Mapping[str, Any], cache: DiskCache | None = None) -> SceneSource:
    """The source that a SceneSource's ``recipe`` describes.

    Args:
        recipe: As of ``SceneSource.recipe``, perhaps read from JSON.
        cache: Where prepared scenes are kept; None keeps none.

    Raises:
        ValueError: it is no recipe.
    """
    return source_of(_recipe_of(recipe), cache)


def key_of(recipe: Mapping[str, Any]) -> str:
    """What the entry of a scene in the cache is found by; of files, all of the main file is read.

    Raises:
        ValueError: it is no recipe.
        OSError: its file cannot be read.
    """
    return _recipe_of(recipe).key()


def _recipe_of(recipe: Mapping[str, Any]) -> Recipe:
    try:
        fields = dict(recipe)
        return _KINDS[fields.pop("kind")](**fields)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{recipe!r} is no recipe of a scene: give SceneSource.recipe") from error


def load_recipe(recipe: Recipe, disk: DiskCache | None) -> Scene:
    """The scene of a recipe: from the cache where it is current there, else made and kept there.

    Raises:
        ValueError: it cannot be made; the message says why.
    """
    try:
        key = recipe.key() if disk is not None else ""
    except OSError:
        disk = None  # making it says what is wrong with the file
    if disk is None:
        return recipe.dress(recipe.make())
    arrays = disk.load(key)
    if arrays is not None:
        try:
            scene = unpack_scene(arrays)
            if recipe.is_current(scene, key):
                return recipe.dress(scene)
        except ValueError:
            pass  # of another layout: made anew
    scene = recipe.make()
    disk.store(key, pack_scene(scene))
    return recipe.dress(scene)


def files_of(scene: Scene) -> Mapping[str, str]:
    """What the loader noted of the files that a scene was made of: SHA-256, "" for one that was missing, by path."""
    files = scene.metadata.get("files")
    return files if isinstance(files, Mapping) else {}


def files_are(folder: Path, files: Mapping[str, str], known: Iterable[str] = ()) -> bool:
    """Whether files are as they were when a scene was made of them.

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


@cache
def code_digest(what: str) -> str:
    """SHA-256 of the source files that ``"loader"`` or ``"generator"`` is made of, in hexadecimal."""
    digest = hashlib.sha256()
    for pattern in _CODE[what]:
        for path in sorted(_PACKAGE.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _plain(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True)
