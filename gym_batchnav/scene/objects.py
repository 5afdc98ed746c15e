"""The objects of a scene, and their categories."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_LABEL = 256  # characters of a name or a category that are kept
_EXTRAS = ("category", "semantic_category", "semantic", "class")  # keys of a glTF node's extras, in order of priority
_CLASSES = {
    "wall": ("wall", "outside", "tiles"),
    "floor": ("floor",),
    "ceiling": ("ceiling",),
    "stairs": ("stairs",),
    "window": ("window",),
    "door": ("door", "closed_door", "door_frame"),
    "chair": ("chair", "office_chair"),
    "armchair": ("armchair",),
    "sofa": ("sofa",),
    "bed": ("bed",),
    "table": ("dining_table", "coffee_table", "side_table", "bedside_table"),
    "desk": ("desk",),
    "cabinet": ("sideboard", "dresser", "shoe_cabinet", "kitchen_unit", "wall_cupboard", "chest", "wardrobe"),
    "shelf": ("bookshelf", "kitchen_shelf"),
    "sink": ("kitchen_sink", "basin"),
    "stove": ("kitchen_hob", "hood"),
    "refrigerator": ("fridge",),
    "washing_machine": ("washing_machine",),
    "toilet": ("toilet",),
    "bathtub": ("bath_tub",),
    "shower": ("shower",),
    "tv": ("tv",),
    "lamp": ("ceiling_lamp", "floor_lamp"),
    "plant": ("plant", "palm"),
    "picture": ("picture",),
    "mirror": ("mirror",),
    "clock": ("clock",),
    "curtain": ("curtain", "curtain_rod"),
    "rug": ("rug", "bath_mat"),
    "radiator": ("radiator",),
    "towel": ("towel_rail",),
    "clothes": ("coat_rack", "shoes", "laundry_basket", "clothes"),
    "clutter": ("kitchen_things", "roll_holder", "toys", "boxes", "books", "bag", "bin", "tableware", "bottles"),
}
_SURFACES = ("wall", "floor", "ceiling")  # followed by the kind of their room
_ROOMS = ("bath", "bedroom", "hall", "kitchen", "living", "stairs", "study")
_CLASS_OF = {kind: name for name, kinds in _CLASSES.items() for kind in kinds}
SEMANTIC_CLASSES = tuple(_CLASSES)
"""The categories of the objects of generated scenes."""


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


def semantic_class(name: str) -> str:
    """Return the class of an object of a generated scene, such as ``"chair"`` for ``"office_chair_2"``.

    Args:
        name: The name of one of ``Scene.objects``, also of a scene that was saved and loaded again.

    Raises:
        ValueError: If no object of a generated scene has such a name.
    """
    kind = re.sub(r"_\d+$", "", name)
    part, _, room = kind.partition("_")
    found = _CLASS_OF.get(kind) or (part if part in _SURFACES and room in _ROOMS else None)
    if found is None:
        raise ValueError(f"no object of a generated scene is called {name!r}: pass the name of one of Scene.objects")
    return found


def category_of_name(name: str) -> str:
    """Return the category that an object's name suggests.

    It is the semantic class of the objects of generated scenes (see ``semantic_class``), and otherwise the name in
    lower case without a number at its end: ``"chair"`` for ``"Chair.012"``.
    """
    plain = re.sub(r"[\s_.\-]*\d*$", "", name[:MAX_LABEL]).lower()
    try:
        return semantic_class(plain)
    except ValueError:
        return plain


def category_in_extras(node: Mapping[str, Any]) -> str:
    """Return the category that the ``extras`` of a glTF node state, "" if they state none.

    It is the first text under the keys ``category``, ``semantic_category``, ``semantic`` and ``class``.
    """
    extras = node.get("extras")
    if not isinstance(extras, Mapping):
        return ""
    return next((extras[key] for key in _EXTRAS if isinstance(extras.get(key), str) and extras[key].strip()), "")
