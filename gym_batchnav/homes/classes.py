"""Semantic classes of generated scenes, derived from the names of objects."""

from __future__ import annotations

import re

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
_CLASS_OF = {kind: name for name, kinds in _CLASSES.items() for kind in kinds}
SEMANTIC_CLASSES = tuple(_CLASSES)
"""The names of all classes."""


def semantic_class(name: str) -> str:
    """Return the class of an object of a generated scene, such as ``"chair"`` for ``"office_chair_2"``.

    Args:
        name: One of ``Scene.objects``, also of a scene that was saved and loaded again.

    Raises:
        ValueError: If no object of a generated scene has such a name.
    """
    kind = re.sub(r"_\d+$", "", name)
    part = kind.split("_")[0]
    found = _CLASS_OF.get(kind) or (part if part in ("wall", "floor", "ceiling") else None)
    if found is None:
        raise ValueError(f"no object of a generated scene is called {name!r}: pass one of Scene.objects")
    return found
