"""The categories of the objects that a scene dataset's instances place.

These are, in order of priority:

1. the ``main_category`` of the object's name in ``semantics/objects.csv``, the table of HSSD;
2. the class with the number ``semantic_id`` of the object's configuration, in the lexicon (JSON, ``classes``) that the
   scene's ``semantic_scene_instance`` names among the dataset's ``semantic_scene_descriptor_instances``;
3. what the object's name suggests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.json_values import MAX_JSON_BYTES
from gym_batchnav.scene.semantics.descriptors import read_lexicon, read_object_table

_TABLE = "semantics/objects.csv"


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
