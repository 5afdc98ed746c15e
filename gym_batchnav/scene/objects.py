"""The objects of a scene, and their categories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gym_batchnav.scene.synonyms import semantic_class

GENERATOR = "gym_batchnav"  # in glTF files that this package writes, whose names state semantic classes
MAX_LABEL = 256  # characters of a name or a category that are kept
_EXTRAS = ("category", "semantic_category", "semantic", "class")  # keys of a glTF node's extras, in order of priority


@dataclass(frozen=True, slots=True)
class SceneObject:
    """An object of a scene: one row of ``Scene.objects``, whose number plus 1 is the object's semantic id.

    ``Scene.object_boxes`` has the bounding boxes.
    """

    name: str  # of the node, or the category and a number
    category: str  # lower case; "" if unknown
    solid: bool = True  # False for one that agents walk through: navmeshes are built without it

    @classmethod
    def named(cls, name: str, category: str = "") -> SceneObject:
        """Return an object of a name, with the category that a file states or else that of the name."""
        stated = category.strip().lower()[:MAX_LABEL]
        return cls(name[:MAX_LABEL], stated or category_of_name(name))

    @classmethod
    def generated(cls, name: str) -> SceneObject:
        """Return an object of a generated home, whose category is its semantic class; see ``named`` for other names."""
        try:
            return cls.named(name, semantic_class(name))
        except ValueError:
            return cls.named(name)


def category_of_name(name: str) -> str:
    """Return the category that a name suggests: ``"chair"`` for ``"Chair.012"``.

    Other names of a category remain; ``synonyms.common_name`` knows them where categories are compared.
    """
    return re.sub(r"[\s_.\-]*\d*$", "", name[:MAX_LABEL]).lower()


def category_in_extras(node: Mapping[str, Any]) -> str:
    """Return the category that the ``extras`` of a glTF node state, "" if they state none.

    It is the first text under the keys ``category``, ``semantic_category``, ``semantic`` and ``class``.
    """
    extras = node.get("extras")
    if not isinstance(extras, Mapping):
        return ""
    return next((extras[key] for key in _EXTRAS if isinstance(extras.get(key), str) and extras[key].strip()), "")
