"""The generator of offices, shops and halls."""

from __future__ import annotations

import zlib

import numpy as np

from gym_batchnav.homes.apartment import MAX_TRIANGLES, MIN_TRIANGLES
from gym_batchnav.homes.buildings.furnish import furnish_building_room
from gym_batchnav.homes.buildings.plan import LIMITS, choose_area, make_building_plan
from gym_batchnav.homes.compose import Furnished, compose
from gym_batchnav.homes.daylight import draw_sun
from gym_batchnav.homes.finishes import Finish, choose_finishes
from gym_batchnav.homes.layout import Catalogue, Piece, RoomLayout
from gym_batchnav.homes.textures import carpet, checker_tiles, floor_tiles, plaster
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.numbers import check_between, check_choice, check_whole

KINDS = tuple(LIMITS)
# Left out first where the triangles are few, in this order.
_ORNAMENTS = ("plant", "bag", "bin", "boxes", "ceiling_lamp", "stool", "office_chair", "clothes", "bookshelf", "door")
_FLOORS = {
    "office": (Finish("#8a93a0", carpet, 0.9), Finish("#7d8a7c", carpet, 0.9), Finish("#ffffff", floor_tiles, 1.2)),
    "shop": (Finish("#ffffff", floor_tiles, 1.2), Finish("#c8c4bc", plaster, 2.5), Finish("#f6f2ea", checker_tiles)),
    "hall": (Finish("#a9a7a2", plaster, 2.5), Finish("#ffffff", floor_tiles, 1.2), Finish("#8f8f8c", plaster, 2.5)),
}
_WALLS = ("#f2efe8", "#e4e7e6", "#dfe4ea", "#efe7da", "#cfd4d2", "#e6ddd2")


def generate_building(
    seed: int, kind: str, *, area: float | None = None, triangles: int = 40_000, name: str | None = None
) -> Scene:
    """Generate an office, a shop or a hall on one floor, up to 60 m long.

    Every room can be reached from every other: doors stand open, half open, or are absent. A yard without a ceiling,
    behind a low wall, belongs to some buildings.

    Args:
        seed: Seed of the building, not negative.
        kind: ``"office"``, ``"shop"`` or ``"hall"``.
        area: Floor area without the yard, square metres: 150 to 1,200 for an office, 80 to 900 for a shop, 300 to
            2,400 for a hall. None draws an area.
        triangles: Approximate number of triangles, 5,000 to 1,000,000. Large buildings have at least about 15
            triangles per square metre.
        name: Name of the scene; the kind and the seed by default.

    Returns:
        A Scene as ``generate_apartment`` returns it. In ``metadata["free_space"]`` platforms are obstacles.

    Raises:
        ValueError: If an argument is out of its range.
    """
    check_whole(seed=seed)
    check_choice("kind", kind, KINDS)
    check_between(MIN_TRIANGLES, MAX_TRIANGLES, triangles=triangles)
    if area is not None:
        check_between(*LIMITS[kind], area=area)

    def stream(key: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([seed, zlib.crc32(f"{kind} {key}".encode())]))

    size = choose_area(stream("area"), kind) if area is None else float(area)
    plan = make_building_plan(stream("plan"), kind, size)
    catalogue = Catalogue(_finishes(stream("finishes"), kind), stream)
    pieces: list[Piece] = []
    for i, room in enumerate(plan.rooms):
        pieces += furnish_building_room(RoomLayout(plan, i, catalogue, stream(f"room {room.name}")))
    furnished = Furnished(plan, pieces, catalogue, draw_sun(stream("sun")), {}, _ORNAMENTS)
    return compose(name or f"{kind}_{seed}", seed, furnished, triangles)


def _finishes(rng: np.random.Generator, kind: str) -> dict[str, Finish]:
    """Return the finishes of a building: those of homes, with its own floors and walls."""
    finishes = choose_finishes(rng)
    floors = _FLOORS[kind]
    floor = finishes["floor"] if rng.random() < 0.2 else floors[int(rng.integers(len(floors)))]
    main = Finish(_WALLS[int(rng.integers(len(_WALLS)))], plaster, 2.5)
    other = Finish(_WALLS[int(rng.integers(len(_WALLS)))], plaster, 2.5)
    bare = finishes["wall_accent"] if rng.random() < 0.3 else main
    walls = {f"wall_{room}": main for room in ("corridor", "office", "sales", "space")}
    walls |= {"wall_meeting": other, "wall_openplan": bare, "wall_store": other, "wall_yard": finishes["outside"]}
    return {
        **finishes,
        **walls,
        "floor": floor,
        "floor_corridor": floor if rng.random() < 0.5 else floors[int(rng.integers(len(floors)))],
        "floor_store": Finish("#a9a7a2", plaster, 2.5),
        "floor_yard": Finish("#8b9384", plaster, 1.6),
    }
