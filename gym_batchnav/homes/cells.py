"""Division of rectangles into cells for rooms, with good proportions and connections.

Small storeys are split in two recursively at random; larger ones have rooms along both sides of a corridor, and, if
they have one, a stairwell at its end. Candidates are drawn until some are joined the way homes are: every room off the
hall (or the living room), the kitchen open to the living room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gym_batchnav.homes.programme import LARGEST_CUT, Rooms
from gym_batchnav.homes.stairs import STAIRWELL

DOOR_WIDTH = 0.90  # metres, clear
INNER_WALL = 0.12  # metres
_DOOR_SIDE = DOOR_WIDTH + 0.5  # metres of shared wall that a door takes
_LEAST = {"living": 3.4, "kitchen": 2.4, "bedroom": 2.7, "bath": 1.8, "hall": 1.3, "study": 2.3}  # metres, shorter side
_SLIMMEST = {"living": 1.9, "kitchen": 2.3, "bedroom": 1.9, "bath": 2.6, "hall": 5.5, "study": 2.2}  # longer / shorter
_JOINED_TO = {  # by preference
    "kitchen": ("living", "hall"),
    "bedroom": ("hall", "living"),
    "bath": ("hall", "living", "bedroom"),
    "living": ("hall",),
    "study": ("hall", "living"),
    "stairs": ("hall",),
}
_GOOD_ENOUGH = 5  # candidates, after which the best of them is taken
_PATIENCE = 2_000  # tries, after which the best is taken even of fewer candidates
_TRIES = 20_000  # until the search for a first candidate ends

Cell = tuple[float, float, float, float]  # x0, z0, x1, z1


class Division(NamedTuple):
    """One storey divided into cells; walls run along their sides."""

    kinds: tuple[str, ...]
    cells: tuple[Cell, ...]
    links: tuple[tuple[int, int], ...]  # pairs to join by doors
    extent: tuple[float, float]  # metres, from (0, 0)


def divide(rng: np.random.Generator, storeys: tuple[Rooms, ...]) -> tuple[Division, ...] | None:
    """Divide the rectangles of all storeys among their rooms; None if no good division was found.

    A stairwell has the same cell on each storey.
    """
    single = len(storeys) == 1 and sum(area for _, area in storeys[0]) <= LARGEST_CUT
    best: tuple[float, tuple[Division, ...]] | None = None
    found = 0
    for k in range(_TRIES):
        if found == _GOOD_ENOUGH or (found and k > _PATIENCE):
            break
        divisions = _cut_freely(rng, storeys[0]) if single else _along_corridor(rng, storeys)
        if divisions is None:
            continue
        cost = sum(_cost(division) for division in divisions)
        if cost < np.inf:
            found += 1
            if best is None or cost < best[0]:
                best = (cost, divisions)
    return None if best is None else best[1]


def _cut_freely(rng: np.random.Generator, rooms: Rooms) -> tuple[Division, ...] | None:
    """Split a rectangle at random; return None if the rooms have bad proportions."""
    kinds = tuple(kind for kind, _ in rooms)
    draws = rng.random(40).tolist()  # Enough for six areas and five cuts.
    areas = [area * (0.85 + 0.3 * draws.pop()) for _, area in rooms]
    total = sum(area for _, area in rooms) * (1.005 + 0.006 * len(rooms))  # including inner walls
    areas = [area * total / sum(areas) for area in areas]
    width = round((total * (1.0 + 0.9 * draws.pop())) ** 0.5, 2)
    extent = (width, round(total / width, 2))
    cells: list[Cell] = [(0.0, 0.0, 0.0, 0.0)] * len(kinds)
    if not _cut(draws, (0.0, 0.0, *extent), list(range(len(kinds))), areas, kinds, cells):
        return None
    links = find_links(kinds, cells)
    return None if links is None else (Division(kinds, tuple(cells), links, extent),)


def _cut(
    draws: list[float], cell: Cell, members: list[int], areas: list[float], kinds: tuple[str, ...], out: list[Cell]
) -> bool:
    """Cut a cell among its members, in proportion to their areas; False once a room has bad proportions."""
    x0, z0, x1, z1 = cell
    short = min(x1 - x0, z1 - z0)
    if len(members) == 1:
        out[members[0]] = cell
        return _well_shaped(kinds[members[0]], cell)
    if short < min(_LEAST[kinds[i]] for i in members) + INNER_WALL:
        return False
    order = sorted(members, key=lambda _: draws.pop())
    first = order[: 1 + int(draws.pop() * (len(order) - 1))]
    second = order[len(first) :]
    share = sum(areas[i] for i in first) / sum(areas[i] for i in members)
    if (x1 - x0 > z1 - z0) == (draws.pop() < 0.85):
        cut = round(x0 + share * (x1 - x0), 2)
        parts = ((x0, z0, cut, z1), (cut, z0, x1, z1))
    else:
        cut = round(z0 + share * (z1 - z0), 2)
        parts = ((x0, z0, x1, cut), (x0, cut, x1, z1))
    return _cut(draws, parts[0], first, areas, kinds, out) and _cut(draws, parts[1], second, areas, kinds, out)


def _well_shaped(kind: str, cell: Cell) -> bool:
    """Return whether a cell is wide enough for its room and not too slim."""
    short, long = sorted((cell[2] - cell[0], cell[3] - cell[1]))
    return short >= _LEAST[kind] + INNER_WALL and long <= _SLIMMEST[kind] * short


def _along_corridor(rng: np.random.Generator, storeys: tuple[Rooms, ...]) -> tuple[Division, ...] | None:
    """Lay out two rows of rooms along a corridor on every storey, mirrored and rotated at random."""
    stairs = len(storeys) > 1
    sizes = [area for rooms in storeys for kind, area in rooms if kind != "hall"]
    usual = float(np.mean(sizes)) ** 0.5
    depths = np.clip(usual * rng.uniform(0.85, 1.25, 2), 2.9, 6.8)
    corridor = float(rng.uniform(1.55, 1.95))
    if stairs:
        depths[1] = max(depths[1], STAIRWELL[1] + INNER_WALL / 2)
    near = round(float(depths[0]), 2)
    far = round(float(depths[0]) + corridor, 2)
    deep = round(far + float(depths[1]), 2)
    gross = max(sum(area for _, area in rooms) for rooms in storeys) * 1.045 + (
        STAIRWELL[0] * depths[1] if stairs else 0
    )
    wide = round(float(gross) / deep, 2)
    if wide > 2.6 * deep or wide < 0.6 * deep:
        return None
    reserve = round(STAIRWELL[0] + INNER_WALL / 2, 2) if stairs else 0.0
    flips = rng.random(2) < 0.5
    turned = rng.random() < 0.5
    divisions = []
    for level, rooms in enumerate(storeys):
        named = _rows(rng, rooms, (wide, near, far, deep), reserve, level == 0 and bool(rng.random() < 0.4))
        if named is None:
            return None
        kinds = tuple(kind for kind, _ in named)
        cells = tuple(rotated(cell, (wide, deep), flips, turned) for _, cell in named)
        links = find_links(kinds, list(cells))
        if links is None:
            return None
        divisions.append(Division(kinds, cells, links, (deep, wide) if turned else (wide, deep)))
    return tuple(divisions)


def _rows(
    rng: np.random.Generator, rooms: Rooms, lines: tuple[float, float, float, float], reserve: float, open_end: bool
) -> list[tuple[str, Cell]] | None:
    """Return the kinds and cells of one storey, or None if the rooms have bad proportions.

    Args:
        rng: Random stream.
        rooms: Kinds and areas.
        lines: The far side along x, both sides of the corridor and the far side along z; all start from 0.
        reserve: Width of the stairwell at the end of the second row, metres; 0 for none.
        open_end: The corridor ends at the living room, with the kitchen next to it.
    """
    wide, near, far, deep = lines
    left = [(kind, area) for kind, area in rooms if kind != "hall"]
    start = 0.0
    placed: list[tuple[str, Cell]] = []
    if open_end:
        ends = (left[0], left[1])  # The living room and the kitchen come first.
        start = round((ends[0][1] + ends[1][1]) * 1.07 / deep, 2)
        placed += [("living", (0.0, 0.0, start, far)), ("kitchen", (0.0, far, start, deep))]
        left = left[2:]
    spans = ((0.0, near, wide), (far, deep, round(wide - reserve, 2)))
    order = [left[i] for i in rng.permutation(len(left))]
    total = sum(area for _, area in left)
    first: list[tuple[str, float]] = []
    share = near * (wide - start) / (near * (wide - start) + (deep - far) * (spans[1][2] - start))
    while order and sum(area for _, area in first) + order[-1][1] / 2 < share * total:
        first.append(order.pop())
    for (z0, z1, end), row in zip(spans, (first, order), strict=True):
        if not row:
            return None
        asked = np.array([max(area / (z1 - z0), _LEAST[kind] + INNER_WALL) for kind, area in row])
        scale = (end - start) / asked.sum()
        if not 0.8 < scale < 1.3:
            return None
        stops = np.round(start + np.concatenate([[0], np.cumsum(asked * scale)]), 2).tolist()
        stops[-1] = end
        placed += [(row[k][0], (stops[k], z0, stops[k + 1], z1)) for k in range(len(row))]
    if not all(_well_shaped(kind, cell) for kind, cell in placed):
        return None
    placed.append(("hall", (start, near, wide, far)))
    if reserve:
        placed.append(("stairs", (round(wide - reserve, 2), far, wide, deep)))
    return placed


def rotated(cell: Cell, extent: tuple[float, float], flips: np.ndarray, turned: bool) -> Cell:
    """Mirror a cell of a rectangle along x and z, then swap x and z."""
    x0, z0, x1, z1 = cell
    if flips[0]:
        x0, x1 = round(extent[0] - x1, 2), round(extent[0] - x0, 2)
    if flips[1]:
        z0, z1 = round(extent[1] - z1, 2), round(extent[1] - z0, 2)
    return (z0, x0, z1, x1) if turned else (x0, z0, x1, z1)


def shared_line(a: Cell, b: Cell) -> tuple[int, float, float, float]:
    """Return the shared line of two cells: its axis (0: x is constant), position and interval, or an empty interval."""
    for axis in (0, 1):
        other = 1 - axis
        low = max(a[other], b[other])
        high = min(a[other + 2], b[other + 2])
        for line, facing in ((a[axis + 2], b[axis]), (a[axis], b[axis + 2])):
            if line == facing and high > low:
                return axis, line, low, high
    return 0, 0.0, 0.0, 0.0


def find_links(kinds: tuple[str, ...], cells: list[Cell]) -> tuple[tuple[int, int], ...] | None:
    """Return pairs of rooms to connect by doors so that all can be reached, or None."""
    links = []
    hub = kinds.index("hall") if "hall" in kinds else kinds.index("living")
    for i, kind in enumerate(kinds):
        if i == hub:
            continue
        near = []
        for j in range(len(kinds)):
            if j != i and kinds[j] in _JOINED_TO[kind]:
                _, _, low, high = shared_line(cells[i], cells[j])
                if high - low >= _DOOR_SIDE:
                    near.append((_JOINED_TO[kind].index(kinds[j]), j))
        if not near:
            return None
        links.append((min(near)[1], i))
        if kind == "kitchen" and len(near) > 1:
            links.append((max(near)[1], i))  # A second door closes a loop.
    return tuple(links)


def _outer_length(cell: Cell, extent: tuple[float, float]) -> float:
    """Return the longest outer side of a cell, in metres."""
    x0, z0, x1, z1 = cell
    along_x = (x1 - x0) if z0 == 0 or z1 == extent[1] else 0.0
    return max(along_x, (z1 - z0) if x0 == 0 or x1 == extent[0] else 0.0)


def _cost(division: Division) -> float:
    """Return the penalty of a plan, inf if a room that needs a window has no outer wall."""
    kinds, cells, links, extent = division
    cost = 0.0
    for kind, cell in zip(kinds, cells, strict=True):
        outer = _outer_length(cell, extent)
        if kind in ("living", "bedroom", "kitchen", "study") and outer < 2.0:
            return np.inf
        if kind == "hall" and outer < 1.35:
            return np.inf
        short, long = sorted((cell[2] - cell[0], cell[3] - cell[1]))
        cost += (long / short - 1) * (0.15 if kind in ("hall", "stairs") else 1.0)
    for a, b in links:
        if "bath" in (kinds[a], kinds[b]) and "bedroom" in (kinds[a], kinds[b]):
            cost += 2.0
    joined = {frozenset((kinds[a], kinds[b])) for a, b in links}
    return cost if frozenset(("living", "kitchen")) in joined or "kitchen" not in kinds else cost + 3.0
