"""Furnishing of rooms by their kind."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes.layout import Piece, Prototype, RoomLayout, placed_rect, upright
from gym_batchnav.homes.pieces import Style, prototype
from gym_batchnav.homes.plan import Wall

_ATTEMPTS = 9  # to place the units of a bathroom


def _facing(layout: RoomLayout, distance: float, depth: float) -> list[tuple[float, Wall, float, float]]:
    """Return places for a group that faces a wall: (cost, wall, u, distance), best first."""
    options = []
    for wall in layout.room.walls:
        across = layout.room.size[wall.side % 2 == 0]
        for u in np.arange(-wall.length / 2 + 0.6, wall.length / 2 - 0.59, 0.15):
            for gap in (across - depth - 0.05, distance, distance - 0.35, distance - 0.7):
                if distance - 0.8 <= gap <= distance + 0.7 and gap + depth < across:
                    cost = abs(gap - distance) + 0.25 * abs(u) + float(layout.rng.random()) * 1.2
                    options.append((cost, wall, float(u), float(gap)))
    return sorted(options, key=lambda option: option[0])


def furnish_lounge(layout: RoomLayout, style: Style) -> None:
    """Place sofa and television, as large as the room allows."""
    room = layout.room
    widths = (2.1, 1.75, 1.5) if min(room.size) > 3.9 else (1.75, 1.5)
    if not any(_lounge(layout, style, width) for width in widths):
        layout.along_walls(prototype("sofa", width=1.75, arms=style.arms), "sofa", access=0.5)
        layout.along_walls(prototype("tv_bench", width=1.4), "tv", access=0.5)


def complete_living(layout: RoomLayout, style: Style, dine: bool) -> None:
    """Place shelves, plants, chairs, and with ``dine`` a dining table."""
    if dine:
        dining(layout, style)
    shelf = prototype("bookshelf", width=float(layout.rng.choice([0.9, 1.2, 1.6])), height=2.0)
    if not layout.along_walls(shelf, "bookshelf", prefer="corner"):
        layout.along_walls(prototype("bookshelf", width=0.8, height=1.95), "bookshelf", prefer="corner")
    layout.along_walls(prototype("sideboard", width=1.4), "sideboard", prefer="middle", access=0.6)
    layout.along_walls(prototype("plant", height=1.3), "plant", prefer="nook", access=0.0, gap=0.03)
    layout.along_walls(prototype("palm"), "palm", prefer="nook", access=0.0, gap=0.03)
    if not layout.along_walls(prototype("armchair"), "armchair", prefer="corner", gap=0.10):
        layout.along_walls(prototype("side_table"), "side_table", prefer="corner", access=0.0, gap=0.05)
    if layout.room.area > 32.0:  # A large room takes more.
        _place_desk(layout)
        layout.along_walls(prototype("bookshelf", width=1.2, height=2.0), "bookshelf", prefer="middle")
        layout.along_walls(prototype("armchair"), "armchair", gap=0.10)
        layout.along_walls(prototype("sideboard", width=1.8), "sideboard", prefer="middle", access=0.6)


def _lounge(layout: RoomLayout, style: Style, width: float) -> bool:
    """Place a television at one wall and a sofa that faces it; return False if there is no place for them."""
    bench = prototype("tv_bench", width={2.1: 1.8, 1.75: 1.4}.get(width, 1.1))
    sofa = prototype("sofa", width=width, arms=style.arms)
    for _, wall, u, gap in _facing(layout, 2.9, 0.95):
        tv = layout.at_wall(bench, wall, u)
        seat = wall.matrix(u, gap + 0.45) @ upright((0, 0), np.pi)
        table = prototype("coffee_table", style=style.coffee)
        middle = wall.matrix(u, gap - 0.72)
        if not all(layout.fits(p, m) for p, m in ((bench, tv), (sofa, seat), (table, middle))):
            continue
        if layout.place(bench, "tv", tv) is None:
            continue
        if layout.place(sofa, "sofa", seat) is None:
            layout.pieces.pop()
            continue
        layout.place(table, "coffee_table", middle)
        oblong = prototype("rug", width=2.3, depth=1.7)
        carpet = prototype("round_rug", radius=1.1) if style.coffee == "round" else oblong
        layout.try_stand(carpet, "rug", wall.matrix(u, gap - 0.60))
        lamp = prototype("arc_lamp" if style.lamp == "disc" else "floor_lamp")
        for side in (-1, 1):
            spot = wall.matrix(u + side * (width / 2 + 0.28), gap + 0.5)
            if layout.fits(lamp, spot) and layout.place(lamp, "floor_lamp", spot):
                break
        for side in (-1, 1):
            chair_at = wall.matrix(u + side * (width / 2 + 0.20), gap - 0.85) @ upright((0, 0), -side * 1.95)
            chair = prototype("armchair")
            if layout.fits(chair, chair_at) and layout.place(chair, "armchair", chair_at):
                break
        return True
    return False


def dining(layout: RoomLayout, style: Style) -> bool:
    """Place a table with two to six chairs around it, as large as the room allows; return False if none fits."""
    x0, z0, x1, z1 = layout.room.bounds
    for length, count in ((1.8, 6), (1.5, 4), (1.2, 4), (0.9, 2)):
        round_top = style.table == "round" and length < 1.7
        size = min(length, 1.3) if round_top else length
        table = prototype("dining_table", style="round" if round_top else "oblong", length=size)
        spots = []
        for turn in (0.0, np.pi / 2):
            for x in np.arange(x0 + 0.6, x1 - 0.6, 0.15):
                for z in np.arange(z0 + 0.6, z1 - 0.6, 0.15):
                    edge = min(x - x0, x1 - x, z - z0, z1 - z)
                    spots.append((abs(edge - 1.2) + 0.8 * float(layout.rng.random()), float(x), float(z), turn))
        for _, x, z, turn in sorted(spots)[:60]:
            if _set_table(layout, style, table, count, upright((x, z), turn), round_top):
                return True
    return False


def _set_table(
    layout: RoomLayout, style: Style, table: Prototype, count: int, matrix: np.ndarray, round_top: bool
) -> bool:
    """Place a table and its chairs, all or none."""
    chair = prototype("dining_chair", style=style.chair)
    half = np.ptp(layout.catalogue.bounds(table), axis=0) / 2
    seats = []
    if round_top:
        for k in (0, 2, 1, 3)[:count]:
            seats.append(upright((0, 0), np.pi / 2 * k) @ upright((0, -half[2] - 0.08), 0.0))
    else:
        per_side = max(1, (count - (2 if count == 6 else 0)) // 2)
        for k in range(per_side):
            x = (k - (per_side - 1) / 2) * (2 * half[0] - 0.3) / per_side
            seats += [upright((x, -half[2] - 0.10), 0.0), upright((x, half[2] + 0.10), np.pi)]
        if count == 6:
            seats += [upright((-half[0] - 0.12, 0), np.pi / 2), upright((half[0] + 0.12, 0), -np.pi / 2)]
    if not layout.fits(table, matrix) or not all(layout.fits(chair, matrix @ seat) for seat in seats):
        return False
    start = len(layout.pieces)
    layout.stand_on(table, "dining_table", matrix)
    for seat in seats:
        nudge = upright(tuple(layout.rng.uniform(-0.03, 0.03, 2)), float(layout.rng.uniform(-0.14, 0.14)))
        moved = matrix @ seat @ nudge
        layout.stand_on(chair, "chair", moved if layout.fits(chair, moved, margin=-0.4) else matrix @ seat)
    if layout.walkable():
        return True
    del layout.pieces[start:]
    return False


def furnish_bedroom(layout: RoomLayout) -> None:
    """Place a bed with its tables, a wardrobe, a desk or a chest."""
    first = layout.room.name == "bedroom_1"
    blanket = ("blanket", "bright", "bright2", "towel")[0 if first else int(layout.rng.integers(1, 4))]
    attempts = ((1.6, 1.4), (1.4, 1.2), (1.2, 0.9)) if first else ((1.2, 0.9), (0.9,), (0.9,))
    start = len(layout.pieces)
    accesses = len(layout.access)
    for k, widths in enumerate(attempts):
        bed = _place_bed(layout, widths, blanket)
        wardrobe = _place_wardrobe(layout)
        if (bed and wardrobe) or k == len(attempts) - 1:
            break
        del layout.pieces[start:], layout.access[accesses:]  # Try again with a smaller bed.
    table = prototype("bedside_table")
    if bed is not None:
        half = float(np.ptp(layout.catalogue.bounds(bed.prototype)[:, 0])) / 2
        for side in (-1, 1):
            matrix = bed.matrix @ upright((side * (half + 0.26), -0.85), 0.0)
            if layout.fits(table, matrix):
                layout.place(table, "bedside_table", matrix)
        finish = ("rug", "rug2", "rug3")[int(layout.rng.integers(3))]
        carpet = prototype("rug", width=round(2 * half + 0.8, 1), depth=1.3, finish=finish)
        layout.try_stand(carpet, "rug", bed.matrix @ upright((0, 0.62), 0.0))
    _place_desk(layout)
    layout.along_walls(prototype("chest"), "chest", access=0.6)
    if layout.room.area > 18.0:
        layout.along_walls(prototype("bookshelf", width=0.8, height=1.6), "bookshelf", prefer="corner")
        layout.along_walls(prototype("armchair"), "armchair", prefer="corner", gap=0.10)
    layout.along_walls(prototype("plant", height=1.1), "plant", prefer="nook", access=0.0, gap=0.03)


def furnish_sleeping_place(layout: RoomLayout) -> None:
    """Place a bed in a corner and a wardrobe, in a home without a bedroom."""
    for width in (1.4, 1.2, 0.9):
        bed = prototype("bed", width=width, blanket="blanket")
        if layout.along_walls(bed, "bed", prefer="corner", access=0.4):
            break
    for wide in (1.0, 0.8):
        if layout.along_walls(prototype("wardrobe", width=wide), "wardrobe", prefer="corner", access=0.5):
            return


def furnish_study(layout: RoomLayout) -> None:
    """Place a desk, bookshelves and an easy chair."""
    _place_desk(layout)
    for width in (1.6, 1.2):
        layout.along_walls(prototype("bookshelf", width=width, height=2.0), "bookshelf", prefer="corner")
    centre = ((layout.room.bounds[0] + layout.room.bounds[2]) / 2, (layout.room.bounds[1] + layout.room.bounds[3]) / 2)
    carpet = prototype("round_rug", radius=0.9, finish="rug3")
    layout.try_stand(carpet, "rug", upright(centre, 0.0))
    layout.along_walls(prototype("armchair"), "armchair", prefer="corner", gap=0.10)
    layout.along_walls(prototype("sideboard", width=1.2, height=0.86), "sideboard", prefer="middle", access=0.5)
    layout.along_walls(prototype("plant", height=1.1), "plant", prefer="nook", access=0.0, gap=0.03)


def _place_desk(layout: RoomLayout) -> None:
    """Place a desk at a wall with a swivel chair before it."""
    placed = layout.along_walls(prototype("desk", width=1.2), "desk", prefer="any", access=0.75)
    if placed is None:
        return
    layout.access.pop()
    seat = placed.matrix @ upright((-0.12, 0.42), np.pi + float(layout.rng.uniform(-0.4, 0.4)))
    chair = prototype("office_chair")
    if layout.fits(chair, seat, margin=-0.35):
        layout.place(chair, "office_chair", seat)


def _place_bed(layout: RoomLayout, widths: tuple[float, ...], blanket: str) -> Piece | None:
    """Place the widest bed that fits, its head at a wall without openings if there is one."""
    walls = [wall for wall in layout.room.walls if not wall.openings] or list(layout.room.walls)
    placed = None
    for width in widths:
        bed = prototype("bed", width=width, blanket=blanket)
        prefer = "middle" if width > 1.0 else "corner"
        placed = placed or layout.along_walls(bed, "bed", walls, prefer=prefer, access=0.4)
        placed = placed or layout.along_walls(bed, "bed", prefer="corner", access=0.4)
    return placed


def _place_wardrobe(layout: RoomLayout) -> Piece | None:
    placed = None
    for width in (2.0, 1.5, 1.0, 0.8):
        wardrobe = prototype("wardrobe", width=width)
        placed = placed or layout.along_walls(wardrobe, "wardrobe", prefer="corner", access=0.5)
    return placed


def furnish_hall(layout: RoomLayout) -> None:
    """Place coats, shoes, a mirror and a runner."""
    layout.along_walls(prototype("coat_rack"), "coat_rack", access=0.3, gap=0.004)
    layout.along_walls(prototype("shoe_cabinet"), "shoe_cabinet", access=0.5)
    layout.along_walls(prototype("shoes"), "shoes", access=0.0, gap=0.05)
    wide, deep = layout.room.size
    r = layout.room.bounds
    runner = prototype("rug", width=round(min(3.0, max(wide, deep) - 1.2), 1), depth=0.75, finish="rug2")
    centre = ((r[0] + r[2]) / 2, (r[1] + r[3]) / 2)
    layout.try_stand(runner, "rug", upright(centre, 0.0 if wide > deep else np.pi / 2))
    layout.along_walls(prototype("plant", height=1.0), "plant", prefer="nook", access=0.0, gap=0.03)
    glass = prototype("mirror", width=0.55, height=1.3, middle=1.35, frame="wood")
    for wall in layout.room.walls:
        if any(
            layout.hang(glass, "mirror", wall, float(u))
            for u in np.arange(-wall.length / 2 + 0.5, wall.length / 2 - 0.5, 0.25)
        ):
            break


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
        layout.access.append(placed_rect(np.array([[-width / 2, 0, 0.3], [width / 2, 0, 0.95]]), matrix))
        if kind != "fridge":
            _above_worktop(layout, style, wall, middle, width, kind)
    return True


def _above_worktop(layout: RoomLayout, style: Style, wall: Wall, u: float, width: float, kind: str) -> None:
    """Place tiles, and a cupboard, a shelf or a hood over one unit, where no window is; things on the worktop."""
    tiles = prototype("splash_back", width=width)
    layout.try_stand(tiles, "tiles", wall.matrix(u, 0.006), margin=-0.02)
    if kind == "kitchen_hob":
        over = prototype("hood", width=0.6, ceiling=layout.room.height)
        name = "hood"
    else:
        over = prototype("wall_cupboard", width=width, shelf=style.open_shelf)
        name = "wall_cupboard"
    layout.try_stand(over, name, wall.matrix(u, 0.006 - float(layout.catalogue.bounds(over)[0, 2])), margin=-0.02)
    if kind == "kitchen_unit":
        things = prototype("worktop_things", kind=int(layout.rng.integers(3)))
        layout.try_stand(things, "kitchen_things", wall.matrix(u, 0.32), margin=-0.03, ignore_access=True)


def furnish_bath(layout: RoomLayout) -> None:
    """Place tub or shower, basin with mirror, toilet and accessories."""
    start = len(layout.pieces)
    accesses = len(layout.access)
    bathe = layout.rng.random() < 0.65
    for attempt in range(_ATTEMPTS):
        washing = None
        if bathe and attempt < 3:
            tub = prototype("bath_tub")
            washing = layout.along_walls(tub, "bath_tub", prefer="corner", access=0.5, gap=0.004)
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
        layout.try_stand(holder, "roll_holder", toilet.matrix @ upright((0.42, -0.28), 0.0))
    layout.along_walls(prototype("washing_machine"), "washing_machine", prefer="corner", access=0.5)
    layout.along_walls(prototype("laundry_basket"), "laundry_basket", prefer="nook", access=0.0, gap=0.03)
    layout.along_walls(prototype("towel_rail"), "towel_rail", access=0.0, gap=0.04)


def _complete_basin(layout: RoomLayout, basin: Piece) -> None:
    """Place a mirror over the basin, unless a window is there, and a mat before it."""
    glass = prototype("mirror", width=0.6, height=0.85, middle=1.55, frame="chrome")
    layout.try_stand(glass, "mirror", basin.matrix @ upright((0, -0.21), 0.0))
    mat = prototype("rug", width=0.7, depth=0.45, finish="towel")
    layout.try_stand(mat, "bath_mat", basin.matrix @ upright((0, 0.55), 0.0))
