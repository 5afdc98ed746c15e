"""Furnishing of the rooms of offices, shops and halls: rows with aisles, pieces along walls and alone, free paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gym_batchnav.homes.layout import Piece, Prototype, RoomLayout, flood, upright
from gym_batchnav.homes.pieces import prototype

_CELL = 0.15  # metres, of the check that all of the floor can be reached
_HALF_PATH = 0.32  # metres, half the width of paths
_ENOUGH = 0.97  # share of the free floor that can be reached
_APART = 0.8  # metres between pieces that stand alone
_TRIES = 6
_LIGHTS = {"space": 9.0, "sales": 5.0}  # metres between lights, by the kind of the room
_USUAL_LIGHTS = 4.0  # in other rooms
_CLUTTER_AREA = 16.0  # square metres of a room for each thing on its floor
_MOST_CLUTTER = 14


def furnish_building_room(layout: RoomLayout) -> list[Piece]:
    """Furnish a room by its kind and return its pieces."""
    kind = layout.room.kind
    makers: dict[str, Callable[[RoomLayout], None]] = {
        "office": _office,
        "meeting": _meeting,
        "openplan": _openplan,
        "corridor": _corridor,
        "store": _store,
        "sales": _sales,
        "space": _space,
        "yard": _yard,
    }
    makers[kind](layout)
    things = _things(kind)
    most = min(_MOST_CLUTTER, round(layout.room.area / _CLUTTER_AREA))
    count = int(layout.rng.integers(most + 1))
    drop_at_walls(layout, things, count - count // 3)
    if kind != "corridor":
        stand_apart(layout, things, count // 3)
    keep_open(layout)
    hang_doors(layout)
    if kind != "yard":
        _lights(layout)
    return layout.pieces


def _things(kind: str) -> list[tuple[Prototype, str]]:
    """Return what may lie on the floor of a kind of room."""
    boxes = (prototype("boxes"), "boxes")
    bag = (prototype("bag"), "bag")
    basket = (prototype("waste_bin"), "bin")
    plant = (prototype("plant", height=1.0), "plant")
    pallet = (prototype("pallet", layers=1), "pallet")
    if kind in ("office", "meeting", "openplan", "corridor"):
        return [boxes, bag, basket, plant]
    return [boxes, bag, basket, pallet] if kind != "sales" else [boxes, basket, plant]


def _lights(layout: RoomLayout) -> None:
    x0, z0, x1, z1 = layout.room.bounds
    pitch = _LIGHTS.get(layout.room.kind, _USUAL_LIGHTS)
    drop = round(max(0.0, layout.room.height - 3.6), 1)
    lamp = prototype("light", height=layout.room.height, drop=drop)
    for x in np.linspace(x0, x1, max(2, round((x1 - x0) / pitch) + 1))[:-1]:
        for z in np.linspace(z0, z1, max(2, round((z1 - z0) / pitch) + 1))[:-1]:
            half = ((x1 - x0) / max(1, round((x1 - x0) / pitch)) / 2, (z1 - z0) / max(1, round((z1 - z0) / pitch)) / 2)
            layout.stand_on(lamp, "ceiling_lamp", upright((float(x) + half[0], float(z) + half[1]), 0.0))


def _seat(layout: RoomLayout, desk: np.ndarray, out: float = 0.75) -> None:
    """Put a chair before a desk, turned to it more or less."""
    turn = np.pi + float(layout.rng.uniform(-0.6, 0.6))
    layout.stand_on(prototype("task_chair"), "office_chair", desk @ upright((0, out), turn))


def _office(layout: RoomLayout) -> None:
    for _ in range(1 + int(layout.room.area > 18)):
        desk = layout.along_walls(prototype("plain_desk", width=1.4), "desk", access=1.0)
        if desk is not None:
            _seat(layout, desk.matrix, 0.62)
    for _ in range(int(layout.rng.integers(1, 3))):
        layout.along_walls(prototype("filing_cabinet"), "filing_cabinet", prefer="corner", access=0.5)
    if layout.rng.random() < 0.5:
        layout.along_walls(prototype("bookshelf", width=0.9, height=2.0), "bookshelf", access=0.5)
    if layout.rng.random() < 0.4:
        layout.along_walls(prototype("plant", height=1.0), "plant", prefer="nook", access=0.0)


def _meeting(layout: RoomLayout) -> None:
    x0, z0, x1, z1 = layout.room.bounds
    along_z = z1 - z0 > x1 - x0
    length = round(min(max(z1 - z0, x1 - x0) - 2.6, 5.0), 1)
    middle = upright(((x0 + x1) / 2, (z0 + z1) / 2), np.pi / 2 if along_z else 0.0)
    if length >= 1.2 and layout.try_stand(prototype("meeting_table", length=length), "table", middle):
        for x in np.arange(-length / 2 + 0.45, length / 2 - 0.3, 0.75):
            for side in (-1, 1):
                if layout.rng.random() < 0.85:
                    turn = (np.pi if side > 0 else 0.0) + float(layout.rng.uniform(-0.3, 0.3))
                    seat = middle @ upright((float(x), side * 0.72), turn)
                    layout.stand_on(prototype("task_chair"), "office_chair", seat)
    for wall in layout.room.walls:
        if layout.hang(prototype("whiteboard"), "whiteboard", wall, 0.0) is not None:
            break


def _openplan(layout: RoomLayout) -> None:
    """Place rows of desks back to back, some with screens between or next to them."""
    rng = layout.rng
    turned = bool(rng.random() < 0.5)
    length = int(rng.integers(1, 4))  # desks in a row
    wide = 1.6 * length
    block = (wide, 3.6)
    aisles = float(rng.uniform(1.0, 1.6))
    screen = prototype("partition", length=round(wide, 1), height=float(rng.choice([1.2, 1.5])))
    screened = rng.random() < 0.6
    apart = 0.62 if screened else 0.43  # from the middle of a block to the middle of a desk
    desk = prototype("plain_desk", width=1.55)
    for x, z in grid(layout, block[::-1] if turned else block, (aisles, aisles)):
        if rng.random() < 0.08:
            continue
        middle = upright((x, z), np.pi / 2 if turned else 0.0)
        if screened:
            layout.try_stand(screen, "partition", middle, 0.0)
        for k in range(length):
            for side in (0.0, np.pi):
                at = middle @ upright((0, 0), side) @ upright((1.6 * (k - (length - 1) / 2), apart), 0.0)
                if layout.try_stand(desk, "desk", at, 0.0) and rng.random() < 0.9:
                    _seat(layout, at, 0.72)
    line_walls(layout, prototype("filing_cabinet", width=0.9, height=1.2), "filing_cabinet", 0.15)


def _corridor(layout: RoomLayout) -> None:
    if min(layout.room.size) < 1.9:
        return
    for _ in range(int(layout.rng.integers(0, 4))):
        width = round(float(layout.rng.uniform(0.8, 1.2)), 1)
        layout.along_walls(prototype("filing_cabinet", width=width, height=1.0), "filing_cabinet", access=0.0)
    if layout.rng.random() < 0.5:
        layout.along_walls(prototype("bench", length=1.6), "bench", access=0.0)


def _store(layout: RoomLayout) -> None:
    shelf = prototype("rack", length=1.8, height=2.0, double=False, variant=int(layout.rng.integers(4)))
    for _ in range(int(layout.rng.integers(1, 6))):
        layout.along_walls(shelf, "rack", access=0.7)
    for _ in range(int(layout.rng.integers(0, 3))):
        layout.along_walls(prototype("pallet", layers=2), "pallet", prefer="corner", access=0.5)


def _sales(layout: RoomLayout) -> None:
    """Place rows of shelves, or tables and rails, and a counter."""
    rng = layout.rng
    height = float(rng.choice([1.4, 1.8, 2.2]))
    for wall in [layout.room.walls[i] for i in rng.permutation(4)]:  # the counter, with room behind it
        till = prototype("counter", length=round(float(rng.uniform(1.8, 3.6)), 1))
        u = float(rng.uniform(-0.3, 0.3)) * wall.length
        if layout.try_stand(till, "counter", layout.at_wall(till, wall, u, gap=1.2)):
            break
    if rng.random() < 0.75:
        wall_shelf = prototype("rack", length=2.0, height=max(height, 1.8), double=False, variant=4)
        line_walls(layout, wall_shelf, "rack", float(rng.uniform(0.3, 0.9)))
    if rng.random() < 0.55:
        _shelf_rows(layout, height)
    else:
        _boutique(layout)


def _shelf_rows(layout: RoomLayout, height: float) -> None:
    rng = layout.rng
    turned = bool(rng.random() < 0.5)
    length = round(float(rng.uniform(2.0, 6.0)), 1)
    aisles = (float(rng.uniform(1.3, 2.2)), float(rng.uniform(1.2, 2.0)))
    racks = [prototype("rack", length=length, height=height, double=True, variant=k) for k in range(4)]
    block = (length, 0.9)
    for x, z in grid(layout, block[::-1] if turned else block, aisles[::-1] if turned else aisles):
        if rng.random() < 0.9:
            rack = racks[int(rng.integers(4))]
            layout.try_stand(rack, "rack", upright((x, z), np.pi / 2 if turned else 0.0), 0.6)


def _boutique(layout: RoomLayout) -> None:
    """Place tables with goods, rails of clothes, free shelves and long tables with stools."""
    rng = layout.rng
    kinds: list[tuple[Prototype, str]] = [
        (prototype("display_table", length=1.8, solid=0), "table"),
        (prototype("display_table", length=1.0, solid=1), "table"),
        (prototype("display_table", length=2.4, solid=1), "table"),
        (prototype("clothes_rail"), "clothes"),
        (prototype("rack", length=2.0, height=1.5, double=True, variant=6), "rack"),
        (prototype("partition", length=1.6, height=1.9, finish="wall_sales"), "partition"),
    ]
    bar = prototype("display_table", length=4.0, width=0.7, height=0.9, solid=0)
    for x, z in grid(layout, (2.4, 2.4), (0.9, 0.9)):
        if rng.random() < 0.2:
            continue
        turn = np.pi / 2 * int(rng.integers(4)) + (float(rng.uniform(-0.4, 0.4)) if rng.random() < 0.15 else 0.0)
        at = upright((x + float(rng.uniform(-0.2, 0.2)), z + float(rng.uniform(-0.2, 0.2))), turn)
        if rng.random() < 0.12 and layout.try_stand(bar, "table", at, 0.7):
            for k in (-1.5, -0.5, 0.5, 1.5):
                for side in (-1, 1):
                    layout.try_stand(prototype("stool"), "stool", at @ upright((k, side * 0.62), 0.0), 0.0)
            continue
        thing, kind = kinds[int(rng.integers(len(kinds)))]
        layout.try_stand(thing, kind, at, 0.5)


def _space(layout: RoomLayout) -> None:
    """Place columns, platforms with ramps, rows of stalls, screens, pallets and benches."""
    rng = layout.rng
    height = round(layout.room.height, 2)
    if rng.random() < 0.8:
        pitch = float(rng.uniform(5.0, 9.0))
        pillar = prototype("column", size=0.5, height=height, rounded=bool(rng.random() < 0.5))
        for x, z in grid(layout, (0.6, 0.6), (pitch, pitch)):
            layout.try_stand(pillar, "column", upright((x, z), 0.0))
    for _ in range(int(rng.integers(0, 4))):
        rise = round(float(rng.uniform(0.3, 0.9)), 2)
        stage = prototype(
            "platform",
            width=round(float(rng.uniform(3.0, 8.0)), 1),
            depth=round(float(rng.uniform(3.0, 6.0)), 1),
            height=rise,
            ramp=round(rise / np.tan(np.radians(float(rng.uniform(8, 16)))), 1),
        )
        stand_apart(layout, [(stage, "platform")], 1)
    style = float(rng.random())
    if style < 0.45:
        booth = prototype("stall", width=2.5, roof=bool(rng.random() < 0.7))
        for x, z in grid(layout, (2.9, 2.0), (float(rng.uniform(1.0, 3.0)), float(rng.uniform(1.6, 3.0)))):
            if rng.random() < 0.7:
                layout.try_stand(booth, "stall", upright((x, z), np.pi * int(rng.integers(2))), 0.5)
    elif style < 0.8:
        wall = prototype("partition", length=3.0, height=2.4, finish="wall_space")
        for x, z in grid(layout, (3.0, 3.0), (0.9, 0.9)):
            if rng.random() < 0.6:
                layout.try_stand(wall, "partition", upright((x, z), np.pi / 2 * int(rng.integers(2))), 0.6)
    stacks = [(prototype("pallet", layers=k), "pallet") for k in (1, 3, 5)]
    things = [*stacks, (prototype("bench"), "bench"), (prototype("display_table", length=2.4), "table")]
    stand_apart(layout, things, round(layout.room.area / float(rng.uniform(14, 45))))


def _yard(layout: RoomLayout) -> None:
    things = [
        (prototype("bench"), "bench"),
        (prototype("pallet", layers=2), "pallet"),
        (prototype("plant", height=1.4), "plant"),
    ]
    stand_apart(layout, things, round(layout.room.area / 25))


def grid(layout: RoomLayout, block: tuple[float, float], aisles: tuple[float, float]) -> Iterator[tuple[float, float]]:
    """Yield the centres (x, z) of a grid of blocks with aisles between and around them, metres.

    Args:
        layout: The room.
        block: Extent of a block along x and z.
        aisles: Least width of the aisles between blocks along x and z.
    """
    x0, z0, x1, z1 = layout.room.bounds
    lines = []
    for low, high, size, aisle in ((x0, x1, block[0], aisles[0]), (z0, z1, block[1], aisles[1])):
        count = int((high - low - aisle) / (size + aisle))
        pitch = (high - low) / max(count, 1)
        lines.append([low + (k + 0.5) * pitch for k in range(count)])
    for z in lines[1]:
        for x in lines[0]:
            yield x, z


def line_walls(layout: RoomLayout, thing: Prototype, kind: str, share: float) -> None:
    """Put pieces side by side along all walls, each with the probability ``share``."""
    pitch = float(np.ptp(layout.catalogue.bounds(thing)[:, 0])) + 0.02
    for wall in layout.room.walls:
        count = int((wall.length - 0.1) / pitch)
        for k in range(count):
            if layout.rng.random() < share:
                layout.try_stand(thing, kind, layout.at_wall(thing, wall, (k - (count - 1) / 2) * pitch))


def stand_apart(layout: RoomLayout, things: Sequence[tuple[Prototype, str]], count: int) -> None:
    """Put pieces down at random places, apart from all others so that paths lead round them."""
    x0, z0, x1, z1 = layout.room.bounds
    for _ in range(count):
        thing, kind = things[int(layout.rng.integers(len(things)))]
        for _ in range(_TRIES):
            x, z, turn = layout.rng.uniform((x0, z0, -np.pi), (x1, z1, np.pi)).tolist()
            turn = turn if layout.rng.random() < 0.3 else round(turn / (np.pi / 2)) * np.pi / 2
            near_wall = min(x - x0, x1 - x, z - z0, z1 - z) < 1.0
            if not near_wall and layout.try_stand(thing, kind, upright((x, z), turn), _APART):
                break


def drop_at_walls(layout: RoomLayout, things: Sequence[tuple[Prototype, str]], count: int) -> None:
    """Put small things down near walls, apart from all other pieces."""
    for _ in range(count):
        thing, kind = things[int(layout.rng.integers(len(things)))]
        for _ in range(_TRIES):
            wall = layout.room.walls[int(layout.rng.integers(4))]
            along, turn = layout.rng.uniform((-0.48, -0.5), (0.48, 0.5)).tolist()
            reach = float(np.abs(layout.catalogue.bounds(thing)[:, [0, 2]]).max())
            matrix = wall.matrix(along * wall.length, reach + 0.08) @ upright((0, 0), turn)
            if layout.try_stand(thing, kind, matrix, _APART):
                break


def hang_doors(layout: RoomLayout) -> None:
    """Hang the leaves of this room's doors: open at various angles, or absent."""
    for wall in layout.room.walls:
        for opening in wall.openings:
            state = float(layout.rng.random())
            angle = float(np.radians(layout.rng.uniform(50, 80) if state < 0.35 else layout.rng.uniform(84, 100)))
            if opening.kind != "door" or not opening.owner or state > 0.75:
                continue
            u, yaw = (opening.u0 + 0.01, -angle) if opening.hinge < 0 else (opening.u1 - 0.01, np.pi + angle)
            leaf = prototype("door_leaf")
            layout.stand_on(leaf, "door", wall.matrix(u, 0.04) @ upright((0, 0), yaw))


def keep_open(layout: RoomLayout) -> None:
    """Take pieces away until paths lead from every door to nearly all of the free floor."""
    while layout.pieces and not _open(layout):
        kept = layout.rng.random(len(layout.pieces)) < 0.75
        kept[int(layout.rng.integers(len(kept)))] = False
        layout.pieces[:] = [piece for piece, keep in zip(layout.pieces, kept, strict=True) if keep]


def _open(layout: RoomLayout) -> bool:
    """Return whether paths lead from every door to nearly all of the free floor."""
    free = _free(layout)
    x0, z0 = layout.room.bounds[:2]
    cells = [(int((z - z0) / _CELL), int((x - x0) / _CELL)) for x, z in layout.doorsteps]
    if not cells or not free.any():
        return bool(free.any())
    reached = flood(free, cells[0])
    return all(reached[cell] for cell in cells) and reached.sum() > _ENOUGH * free.sum()


def _free(layout: RoomLayout) -> np.ndarray:
    """Return the cells [Z, X] of the room that are far enough from walls and pieces."""
    x0, z0, x1, z1 = layout.room.bounds
    free = np.zeros((int((z1 - z0) / _CELL), int((x1 - x0) / _CELL)), bool)
    edge = int(_HALF_PATH / _CELL)
    free[edge:-edge, edge:-edge] = True
    for piece in layout.pieces:
        if piece.low < 1.6 and piece.high > 0.05:
            a, b, c, d = piece.rect
            rows = slice(max(0, int((b - _HALF_PATH - z0) / _CELL)), max(0, int((d + _HALF_PATH - z0) / _CELL) + 1))
            columns = slice(max(0, int((a - _HALF_PATH - x0) / _CELL)), max(0, int((c + _HALF_PATH - x0) / _CELL) + 1))
            free[rows, columns] = False
    return free
