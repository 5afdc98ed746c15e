"""Categories as numbers: those of Matterport3D, those of a user, and the ids that the sensor "semantic" draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gym_batchnav.scene.scene import Scene
from gym_batchnav.scene.synonyms import common_name

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
    """What the sensor ``"semantic"`` draws.

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
        numbers = dict(self.numbers)
        by_category = {one.category: number_of(one.category, numbers) or 0 for one in scene.objects}
        table = np.array([0, *(by_category[one.category] for one in scene.objects)], np.int32)
        return table[scene.triangle_object]


def _is_id(value: object) -> bool:
    """Return whether a value is a whole number that fits into a pixel."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and 0 <= int(value) <= _LARGEST
