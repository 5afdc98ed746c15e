"""Procedural scenes: textured homes, offices, shops and halls generated from a seed, whole or damaged as scans are."""

from __future__ import annotations

from typing import Any

from gym_batchnav.homes.apartment import MAX_TRIANGLES, MIN_TRIANGLES, generate_apartment
from gym_batchnav.homes.buildings.generate import KINDS, generate_building
from gym_batchnav.homes.damage import damaged
from gym_batchnav.homes.random_materials import with_random_materials
from gym_batchnav.scene.categories import SEMANTIC_CLASSES, semantic_class
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.numbers import check_between, check_whole

__all__ = [
    "ALL_KINDS",
    "MAX_TRIANGLES",
    "MIN_TRIANGLES",
    "SEMANTIC_CLASSES",
    "generate_apartment",
    "generate_scene",
    "semantic_class",
    "undamaged_scene",
]

ALL_KINDS = ("home", *KINDS, "mixed")


def generate_scene(
    seed: int,
    *,
    kind: str = "home",
    area: float | None = None,
    storeys: int | None = None,
    closed_doors: int | None = None,
    triangles: int = 40_000,
    damage: float = 0.0,
    random_materials: float = 0.0,
    name: str | None = None,
) -> Scene:
    """Generate a home or another building.

    Args:
        seed: Seed of the scene, not negative.
        kind: ``"home"``; ``"office"``, with corridors, cells, meeting rooms and open-plan desks; ``"shop"``, with rows
            of shelves, tables and counters; ``"hall"``, one large space with columns, stalls and platforms with ramps;
            ``"mixed"``, one of these four by the seed: home, office, shop, hall, home, ...
        area: Floor area of all rooms, square metres; see ``generate_apartment`` and ``generate_building``.
        storeys: Of a home, see ``generate_apartment``; other buildings have one.
        closed_doors: Of a home, see ``generate_apartment``; other buildings have none.
        triangles: Approximate number of triangles, 5,000 to 1,000,000, before any damage.
        damage: 0 to 1, how much is missing and uneven as in scans and in the levels of games; see ``damaged``.
            Navmeshes and distances are those of the scene without holes.
        random_materials: 0 to 1, share of the materials that get a random colour and texture, so that policies that see
            colours do not rely on those of the generator; see ``with_random_materials``.
        name: Name of the scene; its kind and its seed by default.

    Raises:
        ValueError: If an argument is out of its range.
    """
    if kind not in ALL_KINDS:
        raise ValueError(f"kind={kind!r}: choose one of {', '.join(ALL_KINDS)}")
    check_whole(seed=seed)
    check_between(0, 1, damage=damage, random_materials=random_materials)
    chosen = ("home", *KINDS)[seed % (1 + len(KINDS))] if kind == "mixed" else kind
    if chosen == "home":
        scene = generate_apartment(
            seed, area=area, storeys=storeys, closed_doors=closed_doors, triangles=triangles, name=name
        )
    elif kind != "mixed" and (storeys not in (None, 1) or closed_doors):
        raise ValueError(f"kind={kind!r}: only homes have storeys= and closed_doors=: leave them out")
    else:
        scene = generate_building(seed, chosen, area=area, triangles=triangles, name=name)
    if random_materials:
        scene = with_random_materials(scene, random_materials, seed)
    return damaged(scene, damage, seed) if damage else scene


def undamaged_scene(seed: int, **options: Any) -> Scene:
    """Return the scene of ``generate_scene`` without its damage, but with the debris on its floors."""
    scene = generate_scene(seed, **options)
    return scene if scene.unsimplified is None else scene.unsimplified()
