"""Arrangements of furniture in large rooms: rows with aisles, pieces along walls and alone, doors, and free paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gym_batchnav.homes.layout import Piece, Prototype, RoomLayout, flood, upright
from gym_batchnav.homes.pieces import prototype

_CELL = 0.15  # metres, of the check that all of the floor can be reached
_HALF_PATH = 0.32  # metres, half the width of paths
_ENOUGH = 0.97  # share of the free floor that can be reached
_APART = 0.8  # metres between pieces that stand alone
_TRIES = 6


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


def line_walls(
    layout: RoomLayout, thing: Prototype, kind: str, share: float, gap: float = 0.02, margin: float = 0.02
) -> None:
    """Put pieces side by side along all walls, each with the probability ``share``."""
    bounds = layout.catalogue.bounds(thing)
    width = float(np.ptp(bounds[:, 0]))
    for wall in layout.room.walls:
        count = int((wall.length - 0.1) / (width + gap))
        for k in range(count):
            if layout.rng.random() < share:
                u = (k - (count - 1) / 2) * (width + gap)
                layout.try_stand(thing, kind, layout.at_wall(thing, wall, u), margin)


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
        if _stops(piece):
            a, b, c, d = piece.rect
            rows = slice(max(0, int((b - _HALF_PATH - z0) / _CELL)), max(0, int((d + _HALF_PATH - z0) / _CELL) + 1))
            columns = slice(max(0, int((a - _HALF_PATH - x0) / _CELL)), max(0, int((c + _HALF_PATH - x0) / _CELL) + 1))
            free[rows, columns] = False
    return free


def _stops(piece: Piece) -> bool:
    """Return whether a piece stands in the way."""
    return piece.low < 1.6 and piece.high > 0.05
