"""Furnishing of kitchens and bathrooms."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes.layout import Piece, Prototype, RoomLayout, placed_rect, upright
from gym_batchnav.homes.pieces import Style, prototype
from gym_batchnav.homes.plan import Wall

_ATTEMPTS = 9  # to place the units of a bathroom


def furnish_kitchen(layout: RoomLayout, style: Style, longest: float = 3.8) -> bool:
    """Place a row of kitchen units of at most ``longest`` metres along a wall; return False if none fits."""
    runs = _free_runs(layout)
    for length in np.arange(longest, 1.99, -0.3):
        for wall, start, stop in runs:
            if stop - start < length:
                continue
            for u, backwards in ((start, False), (stop - length, True), (start, True), (stop - length, False)):
                if _place_row(layout, style, wall, float(u), float(length), backwards):
                    return True
    return False


def complete_kitchen(layout: RoomLayout) -> None:
    """Place a dresser or an open shelf, and a plant, on the free walls of a kitchen."""
    if layout.rng.random() < 0.5:
        layout.along_walls(prototype("sideboard", width=1.2, height=0.86), "dresser", prefer="middle", access=0.5)
    else:
        shelf = prototype("bookshelf", width=0.8, height=1.6)
        layout.along_walls(shelf, "kitchen_shelf", prefer="corner", access=0.5)
    layout.along_walls(prototype("plant", height=1.0), "plant", prefer="nook", access=0.0, gap=0.03)


def _free_runs(layout: RoomLayout) -> list[tuple[Wall, float, float]]:
    """Return the stretches of wall where base units fit, as (wall, u0, u1), longest first."""
    probe = prototype("cupboard", width=0.2, drawers=0)
    runs = []
    for wall in layout.room.walls:
        us = np.arange(-wall.length / 2 + 0.11, wall.length / 2 - 0.10, 0.05)
        free = np.array([layout.fits(probe, layout.at_wall(probe, wall, float(u))) for u in us])
        edges = np.flatnonzero(np.diff(np.concatenate([[0], free, [0]])))
        runs += [(wall, float(us[a] - 0.10), float(us[b - 1] + 0.10)) for a, b in edges.reshape(-1, 2)]
    return sorted(runs, key=lambda run: run[1] - run[2])


def _units(length: float, backwards: bool) -> list[tuple[Prototype, str, float]]:
    """Return the prototype, kind and width of the units that fill a length."""
    spare = length - 0.62 - 0.8 - 0.6
    count = max(1, round(spare / 0.55)) if spare > 0.2 else 0
    wide = round(spare / max(count, 1), 3)
    boxes = [(prototype("cupboard", width=wide, drawers=(3, 1)[k % 2]), "kitchen_unit", wide) for k in range(count)]
    units = [
        (prototype("fridge"), "fridge", 0.62),
        *boxes[:1],
        (prototype("sink_unit", width=0.8), "kitchen_sink", 0.8),
        *boxes[1:2],
        (prototype("hob_unit"), "kitchen_hob", 0.6),
        *boxes[2:],
    ]
    return units[::-1] if backwards else units


def _place_row(layout: RoomLayout, style: Style, wall: Wall, u: float, length: float, backwards: bool) -> bool:
    """Place the units of a row, all or none, with the units over them."""
    row = []
    for unit, kind, width in _units(length, backwards):
        matrix = wall.matrix(u + width / 2, 0.012 - float(layout.catalogue.bounds(unit)[0, 2]))
        if not layout.fits(unit, matrix, margin=0.0):
            return False
        row.append((unit, kind, width, u + width / 2, matrix))
        u += width
    start = len(layout.pieces)
    for unit, kind, _, _, matrix in row:
        layout.stand_on(unit, kind, matrix)
    if not layout.walkable():
        del layout.pieces[start:]
        return False
    for _, kind, width, middle, matrix in row:
        layout.keep_access(placed_rect(np.array([[-width / 2, 0, 0.3], [width / 2, 0, 0.95]]), matrix))
        if kind != "fridge":
            _above_worktop(layout, style, wall, middle, width, kind)
    return True


def _above_worktop(layout: RoomLayout, style: Style, wall: Wall, u: float, width: float, kind: str) -> None:
    """Place tiles, and a cupboard, a shelf or a hood over one unit, where no window is; things on the worktop."""
    tiles = prototype("splash_back", width=width)
    matrix = wall.matrix(u, 0.006)
    layout.try_stand(tiles, "tiles", matrix, margin=-0.02)
    if kind == "kitchen_hob":
        over = prototype("hood", width=0.6, ceiling=layout.room.height)
        name = "hood"
    else:
        over = prototype("wall_cupboard", width=width, shelf=style.open_shelf)
        name = "wall_cupboard"
    matrix = wall.matrix(u, 0.006 - float(layout.catalogue.bounds(over)[0, 2]))
    layout.try_stand(over, name, matrix, margin=-0.02)
    if kind == "kitchen_unit":
        things = prototype("worktop_things", kind=int(layout.rng.integers(3)))
        matrix = wall.matrix(u, 0.32)
        layout.try_stand(things, "kitchen_things", matrix, margin=-0.03, ignore_access=True)


def furnish_bath(layout: RoomLayout) -> None:
    """Place tub or shower, basin with mirror, toilet and accessories."""
    start = len(layout.pieces)
    accesses = len(layout.access)
    bathe = layout.rng.random() < 0.65
    for attempt in range(_ATTEMPTS):
        washing = _place_tub(layout) if bathe and attempt < 3 else None
        if washing is None:
            shower = prototype("shower", side=0.9 if attempt < 5 else 0.8)
            washing = layout.along_walls(shower, "shower", prefer="corner", access=0.4, gap=0.004)
        vanity = prototype("basin", width=0.75 if attempt < 3 else 0.6)
        basin = layout.along_walls(vanity, "basin", prefer="middle", access=0.5, gap=0.004)
        toilet = layout.along_walls(prototype("toilet"), "toilet", access=0.45, gap=0.004)
        if (washing and basin and toilet) or attempt == _ATTEMPTS - 1:
            break
        del layout.pieces[start:], layout.access[accesses:]
    if basin is not None:
        _complete_basin(layout, basin)
    if toilet is not None:
        holder = prototype("roll_holder")
        matrix = toilet.matrix @ upright((0.42, -0.28), 0.0)
        layout.try_stand(holder, "roll_holder", matrix)
    layout.along_walls(prototype("washing_machine"), "washing_machine", prefer="corner", access=0.5)
    layout.along_walls(prototype("laundry_basket"), "laundry_basket", prefer="nook", access=0.0, gap=0.03)
    layout.along_walls(prototype("towel_rail"), "towel_rail", access=0.0, gap=0.04)


def _place_tub(layout: RoomLayout) -> Piece | None:
    """Place a bath tub along a wall."""
    return layout.along_walls(prototype("bath_tub"), "bath_tub", prefer="corner", access=0.5, gap=0.004)


def _complete_basin(layout: RoomLayout, basin: Piece) -> None:
    """Place a mirror over the basin, unless a window is there, and a mat before it."""
    glass = prototype("mirror", width=0.6, height=0.85, middle=1.55, frame="chrome")
    matrix = basin.matrix @ upright((0, -0.21), 0.0)
    layout.try_stand(glass, "mirror", matrix)
    mat = prototype("rug", width=0.7, depth=0.45, finish="towel")
    matrix = basin.matrix @ upright((0, 0.55), 0.0)
    layout.try_stand(mat, "bath_mat", matrix)
