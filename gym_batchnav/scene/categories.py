"""The objects of scenes, the names and numbers of their categories, and the ids that the sensor "semantic" draws."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gym_batchnav.scene.scene import Scene

GENERATOR = "gym_batchnav"  # in glTF files that this package writes, whose names state semantic classes
MAX_LABEL = 256  # characters of a name or a category that are kept
_EXTRAS = ("category", "semantic_category", "semantic", "class")  # keys of a glTF node's extras, in order of priority
MPCAT40 = (
    "void", "wall", "floor", "chair", "door", "table", "picture", "cabinet", "cushion", "window", "sofa", "bed",
    "curtain", "chest_of_drawers", "plant", "sink", "stairs", "ceiling", "toilet", "stool", "towel", "mirror",
    "tv_monitor", "shower", "column", "bathtub", "counter", "fireplace", "lighting", "beam", "railing", "shelving",
    "blinds", "gym_equipment", "seating", "board_panel", "furniture", "appliances", "clothes", "objects", "misc",
)  # fmt: skip
"""The categories of Matterport3D, by their numbers."""

_MPCAT40_OF = {
    "tv": "tv_monitor", "armchair": "chair", "desk": "table", "shelf": "shelving", "lamp": "lighting", "rug": "floor",
    "refrigerator": "appliances", "washing_machine": "appliances", "stove": "appliances", "oven": "appliances",
    "radiator": "appliances", "clock": "objects", "clutter": "objects", "platform": "floor", "stall": "furniture",
    "screen": "board_panel", "bench": "seating",
}  # fmt: skip
_LARGEST = 2**31 - 1


class _Names(NamedTuple):
    """The other names of a category."""

    synonyms: tuple[str, ...] = ()  # mean the same in any file
    kinds: tuple[str, ...] = ()  # objects of generated homes, which may mean something else in other files


_CATEGORIES = {
    "wall": _Names(kinds=("outside", "tiles")),
    "floor": _Names(),
    "ceiling": _Names(),
    "stairs": _Names(("stair", "staircase")),
    "window": _Names(),
    "door": _Names(kinds=("closed_door", "door_frame")),
    "chair": _Names(("office_chair", "desk_chair", "dining_chair", "computer_chair", "folding_chair", "kitchen_chair")),
    "armchair": _Names(),
    "sofa": _Names(("couch", "loveseat", "sofa_bed")),
    "bed": _Names(("single_bed", "double_bed", "bunk_bed")),
    "table": _Names(("dining_table", "coffee_table", "side_table", "bedside_table", "end_table")),
    "desk": _Names(),
    "cabinet": _Names(
        ("kitchen_cabinet", "cupboard", "wardrobe", "sideboard"),
        ("dresser", "shoe_cabinet", "kitchen_unit", "wall_cupboard", "chest", "filing_cabinet"),
    ),
    "shelf": _Names(("shelving", "shelves", "bookshelf", "bookcase"), ("kitchen_shelf", "rack")),
    "sink": _Names(("basin", "washbasin"), ("kitchen_sink",)),
    "stove": _Names(kinds=("kitchen_hob", "hood")),
    "refrigerator": _Names(("fridge",)),
    "washing_machine": _Names(("washer",)),
    "toilet": _Names(),
    "bathtub": _Names(("bath_tub", "tub")),
    "shower": _Names(),
    "tv": _Names(("tv_monitor", "television", "tv_screen", "flatscreen_tv", "flat_screen_tv")),
    "lamp": _Names(("lighting", "table_lamp", "floor_lamp", "ceiling_lamp", "desk_lamp", "light_fixture")),
    "plant": _Names(("potted_plant", "indoor_plant", "house_plant", "houseplant", "decorative_plant"), ("palm",)),
    "picture": _Names(("painting", "photo", "poster", "picture_frame")),
    "mirror": _Names(),
    "clock": _Names(),
    "curtain": _Names(kinds=("curtain_rod",)),
    "rug": _Names(("carpet", "mat"), ("bath_mat",)),
    "radiator": _Names(),
    "towel": _Names(kinds=("towel_rail",)),
    "clothes": _Names(kinds=("coat_rack", "shoes", "laundry_basket")),
    "counter": _Names(),
    "column": _Names(),
    "platform": _Names(),
    "stall": _Names(),
    "screen": _Names(kinds=("partition", "whiteboard")),
    "bench": _Names(),
    "stool": _Names(),
    "clutter": _Names(
        kinds=(
            *("pallet", "debris"),
            *("kitchen_things", "roll_holder", "toys", "boxes", "books", "bag", "bin", "tableware", "bottles"),
        )
    ),
}
_SURFACES = ("wall", "floor", "ceiling")  # followed by the kind of their room
_ROOMS = (
    *("bath", "bedroom", "hall", "kitchen", "living", "stairs", "study"),
    *("corridor", "meeting", "office", "openplan", "sales", "space", "store", "yard"),
)
_SYNONYMS = {other: name for name, names in _CATEGORIES.items() for other in names.synonyms}
_CLASS_OF = {kind: name for name, names in _CATEGORIES.items() for kind in (name, *names.synonyms, *names.kinds)}
SEMANTIC_CLASSES = tuple(_CATEGORIES)
"""The categories of the objects of generated scenes."""


def common_name(category: str) -> str:
    """Return the name of a category that its other names share: ``"sofa"`` for ``"Couch"``."""
    plain = "_".join(category.lower().replace("_", " ").split())
    return _SYNONYMS.get(plain, plain)


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
        """Return an object; its category is the one its file states, else its name: ``"chair"`` for ``"Chair.012"``.

        Synonyms remain; ``common_name`` resolves them where categories are compared.
        """
        name = name[:MAX_LABEL]
        stated = category.strip().lower()[:MAX_LABEL]
        return cls(name, stated or re.sub(r"[\s_.\-]*\d*$", "", name).lower())

    @classmethod
    def generated(cls, name: str) -> SceneObject:
        """Return an object of a generated home, whose category is its semantic class; see ``named`` for other names."""
        try:
            return cls.named(name, semantic_class(name))
        except ValueError:
            return cls.named(name)


def category_in_extras(node: Mapping[str, Any]) -> str:
    """Return the category that the ``extras`` of a glTF node state, "" if they state none.

    It is the first text under the keys ``category``, ``semantic_category``, ``semantic`` and ``class``.
    """
    extras = node.get("extras")
    if not isinstance(extras, Mapping):
        return ""
    return next((extras[key] for key in _EXTRAS if isinstance(extras.get(key), str) and extras[key].strip()), "")


def number_of(category: str, numbers: Mapping[str, int]) -> int | None:
    """Return the number of a category, or that of its common name; None if neither has one.

    Args:
        category: A category as a dataset calls it.
        numbers: Numbers by category, under any of their names.
    """
    if category in numbers:
        return numbers[category]
    name = common_name(category)
    return next((number for listed, number in numbers.items() if common_name(listed) == name), None) if name else None


@dataclass(frozen=True, slots=True)
class SemanticIds:
    """The ids that the sensor ``"semantic"`` draws.

    Attributes:
        numbers: Pairs of a category and its number; None draws the ids of objects, from 1.
    """

    numbers: tuple[tuple[str, int], ...] | None = None

    @classmethod
    def of(cls, value: str | Mapping[str, int]) -> SemanticIds:
        """Return the ids for the keyword ``semantic_ids``.

        Args:
            value: ``"instance"``, ``"category"`` for the numbers of ``MPCAT40``, or numbers by category.

        Raises:
            ValueError: If it is none of these.
        """
        if isinstance(value, Mapping):
            if not value or not all(isinstance(name, str) and name and _is_id(one) for name, one in value.items()):
                example = "such as {'chair': 1}"
                raise ValueError(f"semantic_ids={value!r}: pass whole numbers from 0 by category, {example}")
            return cls(tuple((name.lower(), int(number)) for name, number in value.items()))
        if value == "instance":
            return cls()
        if value == "category":
            listed = {name: number for number, name in enumerate(MPCAT40)}
            return cls(tuple((listed | {name: listed[other] for name, other in _MPCAT40_OF.items()}).items()))
        raise ValueError(f"semantic_ids={value!r}: choose 'instance', 'category' or numbers by category")

    def of_triangles(self, scene: Scene) -> np.ndarray:
        """Return the number [T] int32 of every triangle; 0 for no object, and for categories without a number."""
        if self.numbers is None:
            return scene.triangle_object
        if not scene.objects:  # ids without a list of objects have no category
            return np.zeros_like(scene.triangle_object)
        return self.of_objects(scene)[scene.triangle_object]

    def of_objects(self, scene: Scene) -> np.ndarray:
        """Return the number [O + 1] int32 of no object, which is 0, and of every object; see ``of_triangles``."""
        if self.numbers is None:
            return np.arange(len(scene.objects) + 1, dtype=np.int32)
        numbers = dict(self.numbers)
        by_category = {one.category: number_of(one.category, numbers) or 0 for one in scene.objects}
        return np.array([0, *(by_category[one.category] for one in scene.objects)], np.int32)


def _is_id(value: object) -> bool:
    """Return whether a value is a whole number that fits into a pixel."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= int(value) <= _LARGEST
