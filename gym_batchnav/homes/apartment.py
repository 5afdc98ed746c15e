"""The generator of furnished homes."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from gym_batchnav.homes.compose import Furnished, compose
from gym_batchnav.homes.daylight import draw_sun
from gym_batchnav.homes.finishes import choose_finishes
from gym_batchnav.homes.furnish import furnish
from gym_batchnav.homes.layout import Catalogue, Piece, RoomLayout
from gym_batchnav.homes.pieces import Style
from gym_batchnav.homes.plan import Plan, make_plan
from gym_batchnav.homes.programme import (
    LARGEST_AREA,
    MIN_AREA,
    MIN_AREA_OF_TWO,
    choose_area,
    choose_storeys,
)
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.numbers import check_between, check_whole

MIN_TRIANGLES = 5_000
MAX_TRIANGLES = 1_000_000
# Left out first where the budget is too small for the coarsest furniture, in this order.
_ORNAMENTS = (
    *("shoes", "roll_holder", "coat_rack", "kitchen_things", "clock", "curtain_rod", "towel_rail", "radiator"),
    *("tableware", "toys", "books", "bag", "bin", "bottles", "boxes", "clothes"),
    *("laundry_basket", "side_table", "plant", "palm", "mirror", "picture", "curtain", "chest", "sideboard"),
    *("dresser", "door", "armchair", "ceiling_lamp", "floor_lamp", "wall_cupboard", "bookshelf", "bedside_table"),
    *("office_chair", "desk", "coffee_table", "washing_machine"),
)


def generate_apartment(
    seed: int,
    *,
    area: float | None = None,
    storeys: int | None = None,
    closed_doors: int | None = None,
    triangles: int = 40_000,
    name: str | None = None,
) -> Scene:
    """Generate a furnished home.

    On one machine, with the same versions of the package and of NumPy, equal arguments give equal bytes. Elsewhere the
    last digits of sines and logarithms may differ, and so may the home.

    Args:
        seed: Seed of the home, not negative.
        area: Floor area of all rooms between their walls, 25 to 400 square metres; the result is within 2% of it. An
            agent of radius 0.1 m can walk on about half of a small home and 70% of the largest. None draws an area,
            mostly from 45 to 120.
        storeys: 1, or 2 from 120 square metres, connected by stairs with steps of at most 0.2 m; None draws the number.
        closed_doors: Number of rooms with a single door whose door is closed, if there are such rooms; each becomes an
            island. None draws 0, 1 or 2.
        triangles: Approximate number of triangles, 5,000 to 1,000,000. The level of detail is chosen to match it, and
            ornaments are left out if that is not enough. Homes over 100 square metres have at least about 50 triangles
            per square metre.
        name: Name of the scene; ``apartment_<seed>`` by default.

    Returns:
        A Scene whose objects are pieces of furniture and parts of the shell, with one of ``SEMANTIC_CLASSES`` as the
        category. ``metadata`` holds ``area`` (the actual area, square metres), ``rooms`` (``type``, ``name``,
        ``bounds`` [x0, z0, x1, z1] in metres, ``storey`` and ``floor``, the height of the floor), ``doors`` (``rooms``,
        ``center`` [x, z], ``axis``, ``width``, ``height``, ``storey``, ``closed``), ``ceiling`` (metres above each
        floor), ``free_space`` (see ``free_space``) and ``instances``: semantic id -> (prototype, [4, 4] transform).
        Pieces of one prototype share their geometry.

    Raises:
        ValueError: If an argument is out of its range.
    """
    _check(seed, area, storeys, closed_doors, triangles)

    def stream(key: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([seed, zlib.crc32(key.encode())]))

    size = choose_area(stream("area")) if area is None else float(area)
    levels = choose_storeys(stream("storeys"), size) if storeys is None else storeys
    plan = make_plan(stream("plan"), size, levels, closed_doors)
    finishes = choose_finishes(stream("finishes"))
    catalogue = Catalogue(finishes, stream)
    pieces = _furnish(plan, catalogue, Style(stream("style")), stream)
    accents = _accents(pieces, stream("accents"))
    furnished = Furnished(plan, pieces, catalogue, draw_sun(stream("sun")), accents, _ORNAMENTS)
    return compose(name or f"apartment_{seed}", seed, furnished, triangles)


def _check(seed: int, area: float | None, storeys: int | None, closed_doors: int | None, triangles: int) -> None:
    check_whole(seed=seed, closed_doors=0 if closed_doors is None else closed_doors)
    check_between(MIN_TRIANGLES, MAX_TRIANGLES, triangles=triangles)
    if area is not None:
        check_between(MIN_AREA, LARGEST_AREA, area=area)
    if storeys not in (None, 1, 2) or isinstance(storeys, float):
        raise ValueError(f"storeys={storeys!r}: pass 1 or 2")
    if storeys == 2 and (area is None or area < MIN_AREA_OF_TWO):
        raise ValueError(f"storeys=2 needs at least {MIN_AREA_OF_TWO:g} square metres: pass area={MIN_AREA_OF_TWO:g}")


def _furnish(
    plan: Plan, catalogue: Catalogue, style: Style, stream: Callable[[str], np.random.Generator]
) -> list[Piece]:
    """Return the pieces of all rooms, relative to the floor of their storey; living rooms come last."""
    pieces: list[Piece] = []
    for i in sorted(range(len(plan.rooms)), key=lambda i: plan.rooms[i].kind == "living"):
        layout = RoomLayout(plan, i, catalogue, stream(f"room {plan.rooms[i].name}"))
        pieces += furnish(layout, style, dined=any(piece.kind == "dining_table" for piece in pieces))
    return pieces


def _accents(pieces: list[Piece], rng: np.random.Generator) -> dict[int, int]:
    """Return the accent walls of living rooms and bedrooms, those behind the television or the bed."""
    accents = {}
    for piece in pieces:
        if piece.kind in ("tv", "bed") and rng.random() < 0.75:
            accents[piece.room] = round(float(np.arctan2(piece.matrix[0, 2], piece.matrix[2, 2])) / (np.pi / 2)) % 4
    return accents
