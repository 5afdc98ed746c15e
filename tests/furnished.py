"""A room with named objects, whose view points are known."""

from __future__ import annotations

from dataclasses import replace

from rooms import box, named, scene_of

from gym_batchnav.scene.scene import Scene

CATEGORIES = ("table", "crate", "lamp")
CRATES = {"crate_1": ((1.5, 0, -1.0), (2.5, 0.7, 0.0)), "crate_2": ((0.2, 0, -2.0), (0.7, 0.7, -1.5))}
TABLE = ((-3.0, 0, 1.0), (-2.0, 0.7, 2.0))


def furnished(**boxes: tuple[tuple[float, ...], tuple[float, ...]]) -> Scene:
    """A room of 8 m by 6 m around the origin with a wall along x = 0 that ends at z = 1.5, and boxes in it."""
    parts = {
        "room_1": box((-4, 0, -3), (4, 2.6, 3), inward=True),
        "wall_1": box((-0.1, 0, -3), (0.1, 2.6, 1.5)),
        **{name: box(*ends) for name, ends in {**CRATES, "table": TABLE, **boxes}.items()},
    }
    return replace(scene_of("furnished", *parts.values()), objects=named(*parts))
