"""Placement of clutter on the floor near walls and on tables."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes.furniture import clutter
from gym_batchnav.homes.layout import Prototype, RoomLayout, upright
from gym_batchnav.homes.style import prototype

_TRIES = 12
_AREA_EACH = 9.0  # square metres of a room for each thing on its floor, at most
_TABLES_LAID = 0.5  # share


def scatter(layout: RoomLayout) -> None:
    """Let a few things lie on the floor of a room and lay its dining table, or not."""
    things = _things(layout)
    count = int(layout.rng.integers(1 + min(4, round(layout.room.area / _AREA_EACH)), endpoint=True))
    for k in layout.rng.permutation(len(things))[:count]:
        _drop(layout, *things[int(k)])
    tables = [piece for piece in layout.pieces if piece.kind == "dining_table"]
    if tables and layout.rng.random() < _TABLES_LAID:
        setting = prototype(clutter.tableware)
        for chair in [piece for piece in layout.pieces if piece.kind == "chair"]:
            layout.stand_on(setting, "tableware", chair.matrix @ upright((0, 0.29), np.pi))


def _things(layout: RoomLayout) -> list[tuple[Prototype, str]]:
    """Return the clutter of a kind of room, with its names."""
    toys = [(prototype(clutter.toys, kind=kind), "toys") for kind in (0, 1)]
    books = (prototype(clutter.books), "books")
    bag = (prototype(clutter.bag), "bag")
    boxes = (prototype(clutter.boxes), "boxes")
    clothes = (prototype(clutter.clothes), "clothes")
    basket = (prototype(clutter.waste_bin), "bin")
    return {
        "living": [*toys, books, bag, boxes],
        "bedroom": [clothes, books, bag, toys[0], boxes],
        "study": [basket, boxes, books, bag],
        "kitchen": [basket, (prototype(clutter.bottles), "bottles"), boxes],
        "bath": [basket, clothes],
        "hall": [bag, boxes, toys[0]],
    }[layout.room.kind]


def _drop(layout: RoomLayout, thing: Prototype, kind: str) -> None:
    """Put a thing down near a wall where it is in nobody's way; leave it out if there is no such place."""
    for _ in range(_TRIES):
        wall = layout.room.walls[int(layout.rng.integers(4))]
        along, out, turn = layout.rng.uniform((-0.5, 0.15, -0.6), (0.5, 0.5, 0.6)).tolist()
        matrix = wall.matrix(along * wall.length, out) @ upright((0, 0), turn)
        if layout.fits(thing, matrix) and layout.place(thing, kind, matrix):
            return
