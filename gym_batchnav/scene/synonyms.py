"""The names that files have for categories: one table for generated homes and for everybody's scenes."""

from __future__ import annotations

import re
from typing import NamedTuple


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
