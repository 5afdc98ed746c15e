"""Small homes that tests of several files look at, generated once."""

from __future__ import annotations

from functools import cache

from gym_batchnav.homes import generate_scene
from gym_batchnav.scene.scene import Scene

HOME = {"area": 30, "closed_doors": 0, "triangles": 5000}


def home(seed: int = 1, damage: float = 0.0, random_materials: float = 0.0) -> Scene:
    return _generated(seed, damage, random_materials)


@cache
def _generated(seed: int, damage: float, random_materials: float) -> Scene:
    return generate_scene(seed, damage=damage, random_materials=random_materials, **HOME)
