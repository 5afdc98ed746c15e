"""Walls, doors and windows of offices, shops and halls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gym_batchnav.homes.buildings.divide import divide_building
from gym_batchnav.homes.cells import DOOR_WIDTH, INNER_WALL, shared_line
from gym_batchnav.homes.plan import DOOR_HEIGHT, OUTER_WALL, Door, Opening, Plan, Room, add_rooms

_HEIGHTS = {"office": (2.6, 3.2), "shop": (2.8, 4.5), "hall": (4.5, 8.0)}  # metres
_LOW = 3.0  # metres, height of the small rooms of a high building
_SMALL = ("office", "meeting", "store", "corridor")
_WINDOWS = {  # width, sill and top of windows, and the pitch between them, metres
    "office": (1.5, 0.85, 2.3, 2.4),
    "meeting": (1.8, 0.6, 2.3, 2.6),
    "openplan": (2.0, 0.85, 2.3, 2.8),
    "sales": (2.4, 0.35, 2.5, 4.5),
    "space": (2.4, 2.6, 3.8, 6.0),
    "corridor": (1.0, 0.85, 2.3, 9.0),
}


def make_building_plan(rng: np.random.Generator, kind: str, area: float) -> Plan:
    """Draw the floor plan of a building of one storey.

    Args:
        rng: Random stream.
        kind: ``"office"``, ``"shop"`` or ``"hall"``.
        area: Square metres, without the yard.
    """
    division = divide_building(rng, kind, area)
    height = round(float(rng.uniform(*_HEIGHTS[kind])), 2)
    rooms: list[Room] = []
    add_rooms(rooms, division, 0, height, 1)
    rooms = [replace(room, height=min(_LOW, height)) if room.kind in _SMALL else room for room in rooms]
    doors = [_add_door(rng, rooms, link, division.cells) for link in division.links]
    for room in rooms:
        _add_windows(rng, room)
    return Plan(tuple(rooms), height, 1, division.extent, tuple(doors))


def _add_door(rng: np.random.Generator, rooms: list[Room], pair: tuple[int, int], cells: tuple) -> Door:
    """Open a door or a wide opening along the line that two rooms share."""
    axis, line, low, high = shared_line(cells[pair[0]], cells[pair[1]])
    wide = _wide_opening(rng, {rooms[i].kind for i in pair}, high - low)
    width = wide or DOOR_WIDTH
    top = min(DOOR_HEIGHT if not wide else 2.4, *(rooms[i].height - 0.15 for i in pair))
    reach = (high - low - width) / 2 - 0.25
    place = (low + high) / 2 + float(rng.uniform(-reach, reach)) * (not wide or rng.random() < 0.5)
    x, z = (line, place) if axis == 0 else (place, line)
    # The first room is the one that a door leaf swings into.
    order = sorted(pair, key=lambda i: rooms[i].kind in ("corridor", "sales", "space", "yard"))
    for i in order:
        wall = min(rooms[i].walls, key=lambda w: abs(w.middle[axis] - line) + 100 * (w.side % 2 == axis))
        u = wall.along(x, z)
        hinge = 1 if rng.random() < 0.5 else -1
        ends = (u - width / 2, u + width / 2, 0.0, top)
        wall.openings.append(Opening("wide" if wide else "door", *ends, INNER_WALL, i == order[0], hinge))
    return Door(tuple(order), (x, z), "xz"[axis], width, top, 0, False)


def _wide_opening(rng: np.random.Generator, kinds: set[str], shared: float) -> float:
    """Return the width of an opening without a door, metres; 0 for a door."""
    room = shared - 0.5
    if kinds == {"corridor"}:
        return room
    if kinds == {"sales"}:
        return min(room, float(rng.uniform(2.0, 7.0)))
    if "yard" in kinds:
        return min(room, float(rng.uniform(1.0, 3.5)))
    if "openplan" in kinds and rng.random() < 0.6:
        return min(room, float(rng.uniform(1.4, 5.0)))
    if rng.random() < 0.12:
        return min(room, 1.5)
    return 0.0


def _add_windows(rng: np.random.Generator, room: Room) -> None:
    """Open windows in the outer walls of a room, by its kind."""
    if room.kind not in _WINDOWS:
        return
    width, sill, top, pitch = _WINDOWS[room.kind]
    top = min(top, room.height - 0.2)
    for wall in room.walls:
        if not wall.outer or wall.length < width + 0.6 or rng.random() < 0.25:
            continue
        count = max(1, int(wall.length / pitch))
        for k in range(count):
            u = (k - (count - 1) / 2) * wall.length / count
            wall.openings.append(Opening("window", u - width / 2, u + width / 2, sill, top, OUTER_WALL - 0.07, True, 1))
