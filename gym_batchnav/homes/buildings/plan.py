"""Floor plans of offices, shops and halls: cells along corridors, sales rooms, one large space, doors and windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gym_batchnav.homes.cells import DOOR_WIDTH, INNER_WALL, Cell, Division, rotated, shared_line
from gym_batchnav.homes.plan import DOOR_HEIGHT, OUTER_WALL, Door, Opening, Plan, Room, add_rooms

LIMITS = {"office": (150.0, 1200.0), "shop": (80.0, 900.0), "hall": (300.0, 2400.0)}  # square metres
_USUAL = {"office": (170.0, 700.0), "shop": (90.0, 600.0), "hall": (350.0, 1500.0)}
LONGEST = 60.0  # metres
DOOR_SIDE = 1.5  # metres of shared wall that a door takes
_YARD = {"office": 0.3, "shop": 0.5, "hall": 0.45}  # share of buildings with a yard
_SECOND_DOOR = 0.25  # share of neighbouring rooms with a door between them, in addition to those to the corridor
_WIDTHS = {"office": (2.8, 4.6), "meeting": (4.2, 7.5), "openplan": (8.0, 17.0), "store": (2.4, 4.0)}
_SHARES = {"office": (0.5, 0.2, 0.22, 0.08), "shop": (0.25, 0.0, 0.0, 0.75), "hall": (0.35, 0.2, 0.0, 0.45)}
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


def choose_area(rng: np.random.Generator, kind: str) -> float:
    """Draw the floor area of a building, square metres, small ones more often."""
    low, high = _USUAL[kind]
    return float(low * (high / low) ** rng.random())


def divide_building(rng: np.random.Generator, kind: str, area: float) -> Division:
    """Divide a building into cells, with the pairs of rooms to join by doors.

    Args:
        rng: Random stream.
        kind: ``"office"``, ``"shop"`` or ``"hall"``.
        area: Square metres, without the yard.
    """
    rooms, extent = {"office": _office, "shop": _shop, "hall": _hall}[kind](rng, area)
    if rng.random() < _YARD[kind]:
        rooms, extent = _with_yard(rng, rooms, extent)
    kinds = tuple(room for room, _ in rooms)
    cells = tuple(cell for _, cell in rooms)
    flips = rng.random(2) < 0.5
    turned = bool(rng.random() < 0.5)
    cells = tuple(rotated(cell, extent, flips, turned) for cell in cells)
    links = _links(rng, kinds, cells)
    return Division(kinds, cells, links, extent[::-1] if turned else extent)


def _office(rng: np.random.Generator, area: float) -> tuple[list[tuple[str, Cell]], tuple[float, float]]:
    """Lay rooms along both sides of a corridor, which others cross in long buildings."""
    near = float(rng.uniform(4.2, 8.0))
    wide = float(rng.uniform(1.7, 2.8))
    far = float(rng.uniform(4.2, 8.0)) if rng.random() < 0.85 or area > 500 else 0.0
    longer = area / ((near + wide + far) * (LONGEST - 10))
    if longer > 1:  # deeper rooms instead
        near *= 1.1 * longer
        far *= 1.1 * longer
    lines = [round(line, 2) for line in (near, near + wide, near + wide + far)]
    length = round(min(area / lines[2], LONGEST - 8), 2)
    rooms: list[tuple[str, Cell]] = [("corridor", (0.0, lines[0], length, lines[1]))]
    for low, high in ((0.0, lines[0]), (lines[1], lines[2])):
        if high - low < 1:
            continue
        stops = [0.0, length]
        if length > 24 and rng.random() < 0.6:
            cross = round(float(rng.uniform(0.3, 0.7)) * length, 2)
            broad = round(float(rng.uniform(1.7, 2.4)), 2)
            rooms.append(("corridor", (cross, low, round(cross + broad, 2), high)))
            stops = [0.0, cross, round(cross + broad, 2), length]
        for start, stop in zip(stops[::2], stops[1::2], strict=True):
            rooms += _strip(rng, "office", (start, stop), (low, high))
    return rooms, (length, lines[2])


def _shop(rng: np.random.Generator, area: float) -> tuple[list[tuple[str, Cell]], tuple[float, float]]:
    """Lay one or two sales rooms before a strip of back rooms."""
    back = round(float(rng.uniform(2.8, 4.5)), 2) if rng.random() < 0.65 and area > 120 else 0.0
    length = round(min((area * float(rng.uniform(0.9, 2.2))) ** 0.5, LONGEST - 8), 2)
    deep = round(area / length, 2)
    front = round(deep - back, 2)
    rooms: list[tuple[str, Cell]] = []
    if length > 16 and rng.random() < 0.5:
        wall = round(float(rng.uniform(0.35, 0.65)) * length, 2)
        rooms += [("sales", (0.0, 0.0, wall, front)), ("sales", (wall, 0.0, length, front))]
    else:
        rooms.append(("sales", (0.0, 0.0, length, front)))
    if back:
        rooms += _strip(rng, "shop", (0.0, length), (front, deep))
    return rooms, (length, deep)


def _hall(rng: np.random.Generator, area: float) -> tuple[list[tuple[str, Cell]], tuple[float, float]]:
    """Lay one large space, with a strip of small rooms at one side or none."""
    side = round(float(rng.uniform(3.5, 6.0)), 2) if rng.random() < 0.6 else 0.0
    length = round(min((area * float(rng.uniform(1.0, 2.2))) ** 0.5, LONGEST - 8), 2)
    deep = round(area / length, 2)
    front = round(deep - side, 2)
    rooms: list[tuple[str, Cell]] = [("space", (0.0, 0.0, length, front))]
    if side:
        start = round(float(rng.uniform(0.0, 0.3)) * length, 2) if rng.random() < 0.3 else 0.0
        if start > 4:
            rooms.append(("store", (0.0, front, start, deep)))
        else:
            start = 0.0
        rooms += _strip(rng, "hall", (start, length), (front, deep))
    return rooms, (length, deep)


def _strip(
    rng: np.random.Generator, building: str, xs: tuple[float, float], zs: tuple[float, float]
) -> list[tuple[str, Cell]]:
    rooms: list[tuple[str, Cell]] = []
    x = xs[0]
    while x < xs[1]:
        kind = str(rng.choice(list(_WIDTHS), p=_SHARES[building]))
        low, high = _WIDTHS[kind]
        stop = round(x + float(rng.uniform(low, high)), 2)
        if xs[1] - stop < 2.6:
            stop = xs[1]
            kind = "openplan" if stop - x > 9 else kind
        rooms.append((kind, (x, zs[0], stop, zs[1])))
        x = stop
    return rooms


def _with_yard(
    rng: np.random.Generator, rooms: list[tuple[str, Cell]], extent: tuple[float, float]
) -> tuple[list[tuple[str, Cell]], tuple[float, float]]:
    """Add a yard, along the whole side where x is largest."""
    end = round(extent[0] + float(rng.uniform(4.0, 8.0)), 2)
    return [*rooms, ("yard", (extent[0], 0.0, end, extent[1]))], (end, extent[1])


def _links(rng: np.random.Generator, kinds: tuple[str, ...], cells: tuple[Cell, ...]) -> tuple[tuple[int, int], ...]:
    """Join every room to the corridor or the large space, some neighbours, and the yard to what is next to it."""
    hubs = [i for i, kind in enumerate(kinds) if kind in ("corridor", "sales", "space")]
    joined = {hubs[0]}
    links = []
    pairs = []
    for i in range(len(kinds)):
        for j in range(i):
            _, _, low, high = shared_line(cells[i], cells[j])
            if high - low >= DOOR_SIDE:
                pairs.append((i, j))
    for _ in range(len(kinds)):  # grow from the first hub, through hubs where possible
        open_ends = [(i, j) for pair in pairs for i, j in (pair, pair[::-1]) if i not in joined and j in joined]
        if not open_ends:
            break
        i, j = min(open_ends, key=lambda pair: (pair[1] not in hubs, pair[0] not in hubs, pair))
        joined.add(i)
        links.append((i, j))
    if len(joined) < len(kinds):
        raise RuntimeError("a room of the plan shares no wall long enough for a door: try another seed or area")
    for i, j in pairs:
        if (i, j) not in links and (j, i) not in links and rng.random() < _SECOND_DOOR:
            links.append((i, j))
    return tuple(links)
