"""Composition of a scene from a plan and its pieces, at the level of detail that a number of triangles allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gym_batchnav.geometry import convex_hull
from gym_batchnav.homes.build import Builder, Solid, joined, transform
from gym_batchnav.homes.cells import INNER_WALL
from gym_batchnav.homes.finishes import Finish, make_materials
from gym_batchnav.homes.layout import Catalogue, Piece
from gym_batchnav.homes.plan import Door, Plan, Wall
from gym_batchnav.homes.shell import Shading, build_shell, num_cells
from gym_batchnav.homes.stairs import Stairs
from gym_batchnav.scene.categories import SceneObject
from gym_batchnav.scene.scene import Scene

_INDOORS = 0.92  # share of light on furniture
_SHELL_SHARE = 0.25  # of the triangles go to walls, floors and ceilings
_COARSEST = 0.1  # level of detail
_COARSEST_GRID = 4.0  # metres
_DARKER = 0.32  # strength of the contact shadow of a piece on the floor
_STEPS = 6  # counting builds the whole home, so that few must do
_AIM = 0.985  # share of the limit that a step aims at: estimates that fall a little below are of use, others are not
_NEAR = 0.97  # shares of the limit that are near enough
_NEAR_MANY = 0.9
_MANY = 100_000  # triangles that are slow to build, so that ``_NEAR_MANY`` will do
_LEAST_POWER = 0.3  # assumed lower bound of p in count ~ x^p; a smaller one would make the next step overshoot
_MARGIN = 0.1  # of a bracket, by which a step stays off its ends, so that the bracket shrinks each time
_FARTHEST = 4.0  # times the last x, how far up a step goes where no upper end is known
_STEPPED_OVER = 0.2  # metres: nothing between these heights leaves its floor free
_WALKED_UNDER = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Furnished:
    """A furnished plan.

    Attributes:
        plan: Rooms, walls and doors.
        pieces: The furniture, relative to the floor of its storey.
        catalogue: Builds the pieces.
        sun: [3], the way of the sunlight.
        accents: The side of the accent wall by room.
        ornaments: Kinds of pieces to leave out first where the triangles are few, in this order.
    """

    plan: Plan
    pieces: list[Piece]
    catalogue: Catalogue
    sun: np.ndarray
    accents: dict[int, int]
    ornaments: Sequence[str]


def compose(name: str, seed: int, furnished: Furnished, triangles: int) -> Scene:
    """Return the scene of a furnished plan, with approximately ``triangles`` triangles."""
    plan = furnished.plan
    catalogue = furnished.catalogue
    pieces = furnished.pieces
    finishes = catalogue.finishes

    def shell(cell: float, level: float) -> list[tuple[str, Solid]]:
        shading = [_floor_shading([p for p in pieces if p.room == i]) for i in range(len(plan.rooms))]

        def builder() -> Builder:
            return Builder(finishes, level, catalogue.stream("shell"))

        return build_shell(plan, builder, cell, furnished.sun, shading, furnished.accents)

    bare = _count(shell(_COARSEST_GRID, _COARSEST))
    budget = min(round(triangles * (1 - _SHELL_SHARE)), triangles - bare)
    pieces = _without_ornaments(catalogue, pieces, budget, furnished.ornaments)
    level = largest_within(lambda level: _count_pieces(catalogue, pieces, level), budget, _COARSEST, 0.5)
    solids = [catalogue.solid(piece.prototype, level) for piece in pieces]
    matrices = [transform((0, plan.floor(plan.rooms[piece.room].storey), 0)) @ piece.matrix for piece in pieces]
    furniture = _name_pieces(pieces, solids, matrices)
    cell = _choose_cell(plan, _count(shell(_COARSEST_GRID, min(level, 2.0))), triangles - _count(furniture))
    objects = shell(cell, min(level, 2.0)) + furniture
    first = len(objects) - len(pieces)
    metadata: dict[str, object] = {
        "area": sum(room.area for room in plan.rooms),
        "rooms": [
            {
                "type": room.kind,
                "name": room.name,
                "bounds": list(room.bounds),
                "storey": room.storey,
                "floor": plan.floor(room.storey),
            }
            for room in plan.rooms
        ],
        "doors": [door._asdict() for door in plan.doors],
        "ceiling": plan.height,
        "free_space": free_space(plan, pieces, solids),
        "instances": {first + k + 1: (pieces[k].prototype.key, matrices[k]) for k in range(len(pieces))},
    }
    return _assemble(name, objects, finishes, seed, metadata)


def _floor_shading(pieces: list[Piece]) -> Shading:
    """Return the share of light that the pieces of a room leave on its floor, less under and next to them."""
    rects = [piece.rect for piece in pieces if piece.low < 0.5 and piece.high > 0.05]

    def shading(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        light = np.ones_like(x)
        for x0, z0, x1, z1 in rects:
            distance = np.hypot(np.maximum(0, np.maximum(x0 - x, x - x1)), np.maximum(0, np.maximum(z0 - z, z - z1)))
            light = np.minimum(light, 1 - _DARKER * np.exp(-distance / 0.16))
        return light

    return shading


def _count(objects: list[tuple[str, Solid]]) -> int:
    return sum(len(solid.triangles) for _, solid in objects)


def _count_pieces(catalogue: Catalogue, pieces: list[Piece], level: float) -> int:
    return sum(len(catalogue.solid(piece.prototype, level).triangles) for piece in pieces)


def _without_ornaments(catalogue: Catalogue, pieces: list[Piece], budget: int, ornaments: Sequence[str]) -> list[Piece]:
    """Leave out kinds of ornaments, in order, until the pieces have at most ``budget`` triangles."""
    kept = pieces
    for kind in ornaments:
        if _count_pieces(catalogue, kept, _COARSEST) <= budget:
            break
        kept = [piece for piece in kept if piece.kind != kind]
    return kept


def _choose_cell(plan: Plan, coarse: int, budget: int) -> float:
    """Return the smallest cell found, metres, whose shell fits the budget; with the coarsest it has ``coarse``."""
    besides = coarse - 2 * num_cells(plan, _COARSEST_GRID)
    return 1 / largest_within(lambda fine: besides + 2 * num_cells(plan, 1 / fine), budget, 1 / _COARSEST_GRID, 2.0)


def _name_pieces(pieces: list[Piece], solids: list[Solid], matrices: list[np.ndarray]) -> list[tuple[str, Solid]]:
    """Return the pieces' names, numbered within each kind, and their solids in the world."""
    counts: dict[str, int] = {}
    objects = []
    for piece, solid, matrix in zip(pieces, solids, matrices, strict=True):
        counts[piece.kind] = counts.get(piece.kind, 0) + 1
        placed = solid.placed(matrix)
        objects.append((f"{piece.kind}_{counts[piece.kind]}", placed._replace(shade=_INDOORS * placed.shade)))
    return objects


def _assemble(
    name: str,
    objects: list[tuple[str, Solid]],
    finishes: dict[str, Finish],
    seed: int,
    metadata: dict[str, object],
) -> Scene:
    """Return one Scene of all objects, with the materials that they use."""
    whole = joined([solid for _, solid in objects])
    counts = [len(solid.triangles) for _, solid in objects]
    used, material = np.unique(whole.finish, return_inverse=True)
    materials, textures = make_materials([list(finishes.values())[k] for k in used], seed)
    colors = np.full((len(whole.shade), 4), 255, np.uint8)
    colors[:, :3] = np.rint(255 * np.clip(whole.shade, 0, 1))[:, None]
    return Scene(
        name=name,
        vertices=whole.vertices.astype(np.float32),
        triangles=whole.triangles.astype(np.int32),
        triangle_material=material.astype(np.int32),
        triangle_object=np.repeat(np.arange(1, len(objects) + 1), counts).astype(np.int32),
        materials=materials,
        uvs=whole.uvs.astype(np.float32),
        colors=colors,
        textures=textures,
        objects=tuple(SceneObject.generated(name) for name, _ in objects),
        metadata=metadata,
    )


def largest_within(count: Callable[[float], int], limit: int, least: float, usual: float) -> float:
    """Return the largest x found with ``count(x) <= limit``, or ``least``.

    This is the method of false position (regula falsi) on log(count) against log(x), since the triangles of a curve
    grow about like a power of its level of detail.

    Args:
        count: Grows with x.
        limit: The largest count allowed.
        least: The smallest x that may be chosen.
        usual: A first guess, larger than ``least``.
    """
    low = (least, count(least))
    high = (usual, count(usual))
    if low[1] >= limit or not high[1]:  # nothing is left to count
        return least
    near = _NEAR if limit < _MANY else _NEAR_MANY
    for _ in range(_STEPS):
        (x0, n0) = low
        (x1, n1) = high
        power = max(float(np.log(n1 / n0) / np.log(x1 / x0)), _LEAST_POWER)
        x = float(x0 * (_AIM * limit / n0) ** (1 / power)) if n1 > n0 else 2 * x1
        if n1 <= limit:  # no upper end is known yet
            x = min(x, _FARTHEST * x1)
        else:
            x = float(np.clip(x, (1 - _MARGIN) * x0 + _MARGIN * x1, _MARGIN * x0 + (1 - _MARGIN) * x1))
        found = (x, count(x))
        if n1 <= limit:
            low, high = (high, found) if x > x1 else (found, high)
        elif found[1] <= limit:
            low = found
        else:
            high = found
        if low[1] > near * limit:
            break
    return max((point for point in (low, high) if point[1] <= limit), default=low)[0]


def free_space(plan: Plan, pieces: Sequence[Piece], solids: Sequence[Solid]) -> list[dict[str, object]]:
    """Return the free floor of every storey, for an agent 1.5 m tall that climbs 0.2 m.

    Args:
        plan: Floor plan.
        pieces: The furniture.
        solids: The solid of each piece, in its own frame.

    Returns:
        For every storey ``floor`` (its height, metres), ``areas``: rectangles [x0, z0, x1, z1] of rooms and open
        doorways, which may touch but do not overlap, and ``obstacles``: convex polygons [[x, z], ...] that are taken
        from them. Flights of stairs are not part of it.
    """
    storeys: list[dict[str, object]] = []
    for storey in range(plan.storeys):
        areas = [list(room.bounds) for room in plan.rooms if room.storey == storey and room.kind != "stairs"]
        areas += [_doorway(door) for door in plan.doors if door.storey == storey and not door.closed]
        areas += [_landing(*plan.stairs)] if plan.stairs else []
        obstacles = [
            outline.tolist()
            for piece, solid in zip(pieces, solids, strict=True)
            if plan.rooms[piece.room].storey == storey and len(outline := _footprint(solid, piece.matrix)) > 2
        ]
        storeys.append({"floor": plan.floor(storey), "areas": areas, "obstacles": obstacles})
    return storeys


def _doorway(door: Door) -> list[float]:
    """Return the floor between the faces of the wall in an open door."""
    (x, z) = door.center
    half = door.width / 2
    across, along = (INNER_WALL / 2, half) if door.axis == "x" else (half, INNER_WALL / 2)
    return [x - across, z - along, x + across, z + along]


def _landing(wall: Wall, stairs: Stairs) -> list[float]:
    """Return the landing before the flights, which is the same on both storeys."""
    a = wall.point(-stairs.width / 2)
    b = wall.point(stairs.width / 2, stairs.landing)
    low = np.minimum(a, b)
    high = np.maximum(a, b)
    return [float(low[0]), float(low[2]), float(high[0]), float(high[2])]


def _footprint(solid: Solid, matrix: np.ndarray) -> np.ndarray:
    """Return the convex outline [K, 2] of the part of a solid that blocks an agent; empty for none."""
    height = solid.vertices[:, 1][solid.triangles]
    stops = (height.max(axis=1) > _STEPPED_OVER) & (height.min(axis=1) < _WALKED_UNDER)
    used = np.zeros(len(solid.vertices), bool)
    used[solid.triangles[stops]] = True
    placed = solid.vertices[used] @ matrix[:3, :3].T + matrix[:3, 3]
    return convex_hull(placed[:, [0, 2]])
