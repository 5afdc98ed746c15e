"""Parts of Habitat's configurations: the frame of an asset, stages, patterns of paths, and the categories of objects.

Categories are, in order of priority:

1. the ``main_category`` of the object's name in ``semantics/objects.csv``, the table of HSSD;
2. the class with the number ``semantic_id`` of the object's configuration, in the lexicon (JSON, ``classes``) that the
   scene's ``semantic_scene_instance`` names among the dataset's ``semantic_scene_descriptor_instances``;
3. what the object's name suggests.
"""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator, Mapping
from fnmatch import translate
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from gym_batchnav.scene.files import SceneFiles, naming_part
from gym_batchnav.scene.frame import Frame, rotation_matrix
from gym_batchnav.scene.json_values import MAX_JSON_BYTES, numbers, parse_json
from gym_batchnav.scene.semantics.descriptors import read_lexicon, read_object_table

LARGEST = 1e9  # magnitude of any number, exclusive
MAX_VISITED = 1_000_000  # folder entries that all patterns of a dataset may visit
MAX_PATTERNS = 10_000
MAX_PATTERN_CHARACTERS = 4096
MAX_PATTERN_PARTS = 64
_TABLE = "semantics/objects.csv"


def asset_frame(attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the frame of a stage's or an object's asset.

    Args:
        attributes: The attributes; ``up``, ``front``, ``scale`` and ``units_to_meters`` count.

    Returns:
        The rotation [3, 3] float64 that takes ``up`` to +y and ``front`` to -z, and the metres in a unit [3] float64
        along the axes after it.

    Raises:
        ValueError: If they do not define a frame.
    """
    up = numbers(attributes, "up", (0.0, 1.0, 0.0), LARGEST)
    front = numbers(attributes, "front", (0.0, 0.0, -1.0) if abs(up[2]) < abs(up[1]) else (0.0, 1.0, 0.0), LARGEST)
    lengths = float(np.linalg.norm(up)), float(np.linalg.norm(front))
    if min(lengths) == 0 or abs(up @ front) > 1e-3 * lengths[0] * lengths[1]:
        raise ValueError(
            f"its up {up.tolist()} and front {front.tolist()} are not two directions at right angles: correct one"
        )
    up = up / lengths[0]
    front = front / lengths[1]
    rotation = np.stack([np.cross(front, up), up, -front]) + 0.0  # adding 0.0 turns -0.0 into 0.0
    factors = numbers(attributes, "scale", (1.0, 1.0, 1.0), LARGEST)  # Habitat turns the asset before it scales it
    factors = factors * numbers(attributes, "units_to_meters", (1.0,), LARGEST)
    if not (factors > 0).all():
        raise ValueError("its scale or units_to_meters is not positive: mirror the asset itself")
    return rotation, factors


def semantic_frame(attributes: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the frame of a stage's annotated mesh; see ``asset_frame``.

    ``semantic_up`` and ``semantic_front`` count, and otherwise the frame is that of the stage itself.

    Raises:
        ValueError: If they do not define a frame.
    """
    own = {key: attributes[f"semantic_{key}"] for key in ("up", "front") if f"semantic_{key}" in attributes}
    others = {key: value for key, value in attributes.items() if key not in ("up", "front")}
    return asset_frame({**others, **own} if own else attributes)


def rotation_of(attributes: Mapping[str, Any]) -> np.ndarray:
    """Return the ``rotation`` of an object, a quaternion [w, x, y, z] of any length, as a matrix [3, 3] float64.

    Raises:
        ValueError: If it is zero, or not four numbers.
    """
    w, x, y, z = numbers(attributes, "rotation", (1.0, 0.0, 0.0, 0.0), LARGEST).tolist()
    if w * w + x * x + y * y + z * z == 0:
        raise ValueError("its rotation is zero: pass a quaternion [w, x, y, z]")
    return rotation_matrix(w, x, y, z)


def read_stage_config(files: SceneFiles) -> Frame | None:
    """Read the configuration with a scene's name; return None if there is none or it refers to another file.

    Raises:
        ValueError: If it is damaged.
    """
    name = f"{files.path.stem}.stage_config.json"
    if not files.path.with_name(name).is_file():
        return None
    with naming_part(name):
        config = parse_json(files.beside(name, max_bytes=MAX_JSON_BYTES))
        if PurePosixPath(str(config.get("render_asset", files.path.name))).name != files.path.name:
            return None
        rotation, factors = asset_frame(config)
    return Frame(rotation, factors, np.zeros(3), name)


class PatternSearch:
    """A finder of the files in a folder that match glob patterns.

    ``*``, ``?`` and ``[...]`` match within a name, ``**`` matches any number of folders. Names that begin with a dot
    are matched only by patterns that do. A search keeps the set of positions in the pattern that a folder may be at, so
    that it visits each folder once per pattern, however many ``**`` the pattern has.

    Args:
        folder: The folder of the dataset.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._num_visited = 0
        self._num_patterns = 0
        self._listed: dict[str, list[tuple[str, bool]]] = {}

    def files(self, pattern: str) -> Iterator[str]:
        """Yield the files that match a pattern, and those directly in the folders that match it.

        Args:
            pattern: Normalised, relative to the folder, parts separated by slashes.

        Yields:
            Paths relative to the folder, in no particular order and possibly more than once.

        Raises:
            ValueError: If the pattern, or all patterns together, exceed the limits above.
        """
        self._num_patterns += 1
        if self._num_patterns > MAX_PATTERNS:
            raise ValueError(f"its paths have more than {MAX_PATTERNS:,} patterns: list folders instead of files")
        if len(pattern) > MAX_PATTERN_CHARACTERS or pattern.count("/") >= MAX_PATTERN_PARTS:
            limits = f"{MAX_PATTERN_CHARACTERS:,} characters and {MAX_PATTERN_PARTS} parts"
            raise ValueError(f"its path {reprlib.repr(pattern)} has more than {limits}: shorten it")
        parts = [part for part in pattern.split("/") if part != "."]
        names = ["" if part == "**" else translate(part) for part in parts]
        hides = ["" if part.startswith(".") else r"(?!\.)" for part in parts]
        matches = [re.compile(hidden + name).match for hidden, name in zip(hides, names, strict=True)]
        end = len(parts)

        def reached(positions: set[int]) -> frozenset[int]:
            """Add the positions that are reached by skipping ``**``."""
            found = set(positions)
            for position in sorted(positions):
                while position < end and parts[position] == "**":
                    position += 1
                    found.add(position)
            return frozenset(found)

        waiting: list[tuple[str, frozenset[int], frozenset[str]]] = [
            ("", reached({0}), frozenset({os.path.realpath(self._folder)}))
        ]
        while waiting:
            path, positions, above = waiting.pop()
            names_folder = end in positions
            for name, is_folder in self._entries(path):
                reaches = reached({at + (parts[at] != "**") for at in positions if at < end and matches[at](name)})
                inner = f"{path}/{name}" if path else name
                if not is_folder:
                    if names_folder or end in reaches:
                        yield inner
                elif reaches:
                    real = os.path.realpath(self._folder / inner)
                    if real not in above:  # otherwise a link leads back to a folder above it
                        waiting.append((inner, reaches, above | {real}))

    def _entries(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a folder and whether each is a folder itself, and count them as visited."""
        if path not in self._listed:
            try:
                with os.scandir(self._folder / path) as entries:
                    self._listed[path] = [(entry.name, entry.is_dir()) for entry in entries]
            except OSError:  # as in glob, a folder that cannot be read matches nothing
                self._listed[path] = []
        self._num_visited += 1 + len(self._listed[path])
        if self._num_visited > MAX_VISITED:
            raise ValueError(f"the patterns of its paths visit more than {MAX_VISITED:,} files: list fewer folders")
        return self._listed[path]


class ObjectCategories:
    """The categories that a dataset states.

    Args:
        files: The dataset's files.
        config: The dataset's configuration.
        lexicon: The ``semantic_scene_instance`` of a scene, None for none.

    Raises:
        ValueError: If a file is damaged.
    """

    def __init__(self, files: SceneFiles, config: Mapping[str, Any], lexicon: object) -> None:
        table = _read(files, _TABLE)
        self._by_name = read_object_table(_TABLE, table) if table is not None else {}
        named = config.get("semantic_scene_descriptor_instances", {})
        path = named.get(str(lexicon)) if isinstance(named, Mapping) else None
        data = _read(files, path) if isinstance(path, str) else None
        self._by_number = read_lexicon(str(path), data) if data is not None else {}

    def of(self, name: str, attributes: Mapping[str, Any]) -> str:
        """Return the category of an object; "" if the dataset states none.

        Args:
            name: The name of its template.
            attributes: Its configuration.
        """
        number = attributes.get("semantic_id")
        return self._by_name.get(name) or (self._by_number.get(number, "") if isinstance(number, int) else "")


def _read(files: SceneFiles, path: str) -> bytes | None:
    """Return the bytes of a file, None if there is none; a later one is noticed, since the digest is recorded."""
    try:
        return files.beside(path, max_bytes=MAX_JSON_BYTES)
    except FileNotFoundError:
        return None
