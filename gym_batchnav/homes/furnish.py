"""Furnishing of rooms: doors, curtains, furniture by kind of room, pictures and lamps."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes.layout import Piece, Prototype, RoomLayout, overlap, placed_rect, upright
from gym_batchnav.homes.pieces import Style, prototype
from gym_batchnav.homes.plan import Wall
from gym_batchnav.homes.rooms import (
    complete_kitchen,
    complete_living,
    dining,
    furnish_bath,
    furnish_bedroom,
    furnish_hall,
    furnish_kitchen,
    furnish_lounge,
    furnish_sleeping_place,
    furnish_study,
)

_TRIES = 12
_AREA_EACH = 9.0  # square metres of a room for each thing on its floor, at most
_TABLES_LAID = 0.5  # share


def furnish(layout: RoomLayout, style: Style, dined: bool) -> list[Piece]:
    """Furnish a room by its kind and return its pieces.

    Args:
        layout: Layout of the empty room.
        style: Style of the apartment.
        dined: Whether another room has a dining table; otherwise the living room gets one.
    """
    kind = layout.room.kind
    if kind == "stairs":
        return [_hang_lamp(layout, "pendant")]
    _hang_doors(layout)
    _dress_windows(layout)
    kinds = [room.kind for room in layout.plan.rooms]
    start = len(layout.pieces)
    accesses = len(layout.access)
    if kind == "living":
        _furnish_living(layout, style, kinds, dined)
    elif kind == "kitchen":
        for longest in (3.8, 3.0, 2.4):
            furnish_kitchen(layout, style, longest)
            if dining(layout, style) or longest == 2.4:
                break
            del layout.pieces[start:], layout.access[accesses:]  # A shorter row may leave room for a table.
        complete_kitchen(layout)
    elif kind == "bedroom":
        furnish_bedroom(layout)
    elif kind == "study":
        furnish_study(layout)
    elif kind == "bath":
        furnish_bath(layout)
    else:
        furnish_hall(layout)
    if kind != "bath":
        _pictures(layout, 1 if kind == "kitchen" else 3)
    scatter(layout)
    _hang_lamp(layout, "disc" if kind in ("bath", "hall") or layout.room.height < 2.52 else style.lamp)
    return layout.pieces


def _furnish_living(layout: RoomLayout, style: Style, kinds: list[str], dined: bool) -> None:
    """Place a sofa and a television, and what no other room has: a bed, a kitchen, a dining table."""
    start = len(layout.pieces)
    accesses = len(layout.access)
    if "bedroom" not in kinds:
        furnish_kitchen(layout, style, 2.9)
        furnish_sleeping_place(layout)
        furnish_lounge(layout, style)
    else:
        furnish_lounge(layout, style)
        if "kitchen" not in kinds and not furnish_kitchen(layout, style, 2.9):
            del layout.pieces[start:], layout.access[accesses:]
            furnish_kitchen(layout, style, 2.9)
            furnish_lounge(layout, style)
    complete_living(layout, style, not dined or layout.room.area > 25.0)


def _hang_lamp(layout: RoomLayout, style: str) -> Piece:
    """Hang a lamp in the middle of the ceiling."""
    x0, z0, x1, z1 = layout.room.bounds
    lamp = prototype("ceiling_lamp", height=layout.room.height, style=style)
    return layout.stand_on(lamp, "ceiling_lamp", upright(((x0 + x1) / 2, (z0 + z1) / 2), 0.0))


def _hang_doors(layout: RoomLayout) -> None:
    """Place the leaves of this room's doors, closed or open along the nearer wall."""
    for wall in layout.room.walls:
        for opening in wall.openings:
            if opening.kind != "door" or not opening.owner:
                continue
            leaf = prototype("door_leaf")
            if opening.closed:
                layout.stand_on(leaf, "closed_door", wall.matrix(opening.u0 + 0.01, -opening.depth / 2))
                continue
            corner = wall.length / 2 - max(abs(opening.u0), abs(opening.u1))
            if not 0.1 < corner < 0.5 or layout.rng.random() < 0.2:
                continue
            u = (opening.u1 + 0.035) if opening.hinge > 0 else (opening.u0 - 0.035)
            x, _, z = wall.point(u, 0.045)
            matrix = upright((float(x), float(z)), wall.yaw - np.pi / 2)
            rect = placed_rect(layout.catalogue.bounds(leaf), matrix)
            r = layout.room.bounds
            if rect[0] < r[0] or rect[1] < r[1] or rect[2] > r[2] or rect[3] > r[3]:
                continue
            others = [p.rect for p in layout.pieces] + [zone for zone in layout.clear if not _own_zone(zone, wall, u)]
            if any(overlap(rect, other) for other in others):
                continue
            layout.place(leaf, "door", matrix)


def _own_zone(zone: tuple[float, float, float, float], wall: Wall, u: float) -> bool:
    """Return whether a clear zone is that of the door with its leaf at ``u``."""
    x, _, z = wall.point(u, 0.3)
    return zone[0] - 0.01 <= x <= zone[2] + 0.01 and zone[1] - 0.01 <= z <= zone[3] + 0.01


def _dress_windows(layout: RoomLayout) -> None:
    kind = layout.room.kind
    height = layout.room.height
    if kind not in ("living", "bedroom", "study"):
        return
    for wall in layout.room.walls:
        for opening in wall.openings:
            if opening.kind != "window":
                continue
            middle = (opening.u0 + opening.u1) / 2
            width = opening.u1 - opening.u0
            rod = min(height - 0.08, opening.y1 + 0.12)
            reach = min(width / 2 + 0.24, wall.length / 2 - abs(middle) - 0.05)
            if opening.y0 > 0.6:
                heater = prototype("radiator", width=round(width * 0.7, 1))
                layout.stand_on(heater, "radiator", wall.matrix(middle, 0.045))
            wing = prototype("curtain", width=0.38, height=round(rod - 0.02, 2))
            for side in (-1, 1):
                layout.stand_on(wing, "curtain", wall.matrix(middle + side * (reach - 0.19), 0.13))
            bar = prototype("curtain_rod", width=round(2 * reach + 0.06, 2), height=round(rod, 2))
            layout.stand_on(bar, "curtain_rod", wall.matrix(middle, 0.13))


def _pictures(layout: RoomLayout, count: int) -> None:
    """Place pictures on bare walls: first over a sofa or a bed, then in the middle of walls."""
    spots = []
    for piece in layout.pieces:
        if piece.kind in ("sofa", "bed", "sideboard", "desk"):
            x = piece.matrix[0, 3]
            z = piece.matrix[2, 3]
            wall = min(layout.room.walls, key=lambda w: float(np.hypot(*(w.point(w.along(x, z))[[0, 2]] - [x, z]))))
            spots.append((wall, wall.along(x, z)))
    spots += [(wall, float(u)) for wall in layout.room.walls for u in (0.0, -wall.length / 4, wall.length / 4)]
    hung = 0
    quarters = layout.rng.permutation(4)
    sizes = [(1.1, 0.75, 1.62), (0.75, 0.6, 1.60), (0.5, 0.65, 1.55)]
    if layout.room.kind == "hall":
        del sizes[0]
    for wall, u in spots:
        quarter = int(quarters[hung % 4])
        for width, height, middle in sizes:
            frame = prototype("picture", width=width, height=height, quarter=quarter, middle=middle)
            if layout.hang(frame, "picture", wall, u):
                hung += 1
                break
        if hung == count:
            return
    if layout.room.kind == "kitchen":
        for wall in layout.room.walls:
            if layout.hang(prototype("wall_clock"), "clock", wall, 0.3):
                return


def scatter(layout: RoomLayout) -> None:
    """Put a few things on the floor of a room and, in some rooms, tableware on its dining table."""
    things = _things(layout)
    count = int(layout.rng.integers(1 + min(4, round(layout.room.area / _AREA_EACH)), endpoint=True))
    for k in layout.rng.permutation(len(things))[:count]:
        _drop(layout, *things[int(k)])
    tables = [piece for piece in layout.pieces if piece.kind == "dining_table"]
    if tables and layout.rng.random() < _TABLES_LAID:
        setting = prototype("tableware")
        for chair in [piece for piece in layout.pieces if piece.kind == "chair"]:
            layout.stand_on(setting, "tableware", chair.matrix @ upright((0, 0.29), np.pi))


def _things(layout: RoomLayout) -> list[tuple[Prototype, str]]:
    """Return the clutter of a kind of room, with its names."""
    toys = [(prototype("toys", kind=kind), "toys") for kind in (0, 1)]
    books = (prototype("books"), "books")
    bag = (prototype("bag"), "bag")
    boxes = (prototype("boxes"), "boxes")
    clothes = (prototype("clothes"), "clothes")
    basket = (prototype("waste_bin"), "bin")
    return {
        "living": [*toys, books, bag, boxes],
        "bedroom": [clothes, books, bag, toys[0], boxes],
        "study": [basket, boxes, books, bag],
        "kitchen": [basket, (prototype("bottles"), "bottles"), boxes],
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
