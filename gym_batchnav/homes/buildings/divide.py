"""Floor plans of offices, shops and halls: cells along corridors, sales rooms, one large space; some with a yard."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes.cells import Cell, Division, shared_line

LIMITS = {"office": (150.0, 1200.0), "shop": (80.0, 900.0), "hall": (300.0, 2400.0)}  # square metres
_USUAL = {"office": (170.0, 700.0), "shop": (90.0, 600.0), "hall": (350.0, 1500.0)}
LONGEST = 60.0  # metres
DOOR_SIDE = 1.5  # metres of shared wall that a door takes
_YARD = {"office": 0.3, "shop": 0.5, "hall": 0.45}  # share of buildings with a yard
_SECOND_DOOR = 0.25  # share of neighbouring rooms with a door between them, besides those to the corridor
_WIDTHS = {"office": (2.8, 4.6), "meeting": (4.2, 7.5), "openplan": (8.0, 17.0), "store": (2.4, 4.0)}
_SHARES = {"office": (0.5, 0.2, 0.22, 0.08), "shop": (0.25, 0.0, 0.0, 0.75), "hall": (0.35, 0.2, 0.0, 0.45)}


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
    cells = tuple(_placed(cell, extent, flips, turned) for cell in cells)
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
    lines = _rounded(near, near + wide, near + wide + far)
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
    """Fill a strip with rooms of random kinds and widths."""
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
        raise RuntimeError("a room of the plan has no neighbour to be joined to")
    for i, j in pairs:
        if (i, j) not in links and (j, i) not in links and rng.random() < _SECOND_DOOR:
            links.append((i, j))
    return tuple(links)


def _placed(cell: Cell, extent: tuple[float, float], flips: np.ndarray, turned: bool) -> Cell:
    """Mirror a cell along x and z, then swap x and z."""
    x0, z0, x1, z1 = cell
    if flips[0]:
        x0, x1 = round(extent[0] - x1, 2), round(extent[0] - x0, 2)
    if flips[1]:
        z0, z1 = round(extent[1] - z1, 2), round(extent[1] - z0, 2)
    return (z0, x0, z1, x1) if turned else (x0, z0, x1, z1)


def _rounded(*lengths: float) -> list[float]:
    """Round lengths to centimetres."""
    return [round(length, 2) for length in lengths]
