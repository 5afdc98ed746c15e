"""Procedural furnished homes: textured Scenes generated from a seed, with rooms, doors and stairs."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from gym_batchnav.homes.build import Builder, Detail, Solid, transform
from gym_batchnav.homes.daylight import draw_sun
from gym_batchnav.homes.detail_search import largest_within
from gym_batchnav.homes.finishes import Finish, choose_finishes, make_materials
from gym_batchnav.homes.free_space import free_space
from gym_batchnav.homes.furnish import furnish
from gym_batchnav.homes.layout import Catalogue, Piece, RoomLayout
from gym_batchnav.homes.plan import Plan, make_plan
from gym_batchnav.homes.programme import (
    LARGEST_AREA,
    MIN_AREA,
    MIN_AREA_OF_TWO,
    choose_area,
    choose_storeys,
)
from gym_batchnav.homes.shell import Shading, build_shell, num_cells
from gym_batchnav.homes.style import Style
from gym_batchnav.scene.objects import SEMANTIC_CLASSES, SceneObject, semantic_class
from gym_batchnav.scene.scene import Scene

__all__ = ["SEMANTIC_CLASSES", "generate_apartment", "semantic_class"]

MIN_TRIANGLES = 5_000
MAX_TRIANGLES = 1_000_000
_INDOORS = 0.92  # share of light on furniture
_SHELL_SHARE = 0.25  # of the triangles go to walls, floors and ceilings
_COARSEST = 0.1  # level of detail
_COARSEST_GRID = 4.0  # metres
# Left out first where the budget is too small for the coarsest furniture, in this order.
_ORNAMENTS = (
    *("shoes", "roll_holder", "coat_rack", "kitchen_things", "clock", "curtain_rod", "towel_rail", "radiator"),
    *("tableware", "toys", "books", "bag", "bin", "bottles", "boxes", "clothes"),
    *("laundry_basket", "side_table", "plant", "palm", "mirror", "picture", "curtain", "chest", "sideboard"),
    *("dresser", "door", "armchair", "ceiling_lamp", "floor_lamp", "wall_cupboard", "bookshelf", "bedside_table"),
    *("office_chair", "desk", "coffee_table", "washing_machine"),
)
_DARKER = 0.32  # strength of the contact shadow of a piece on the floor


def generate_apartment(
    seed: int,
    *,
    area: float | None = None,
    storeys: int | None = None,
    closed_doors: int | None = None,
    triangles: int = 40_000,
    name: str | None = None,
) -> Scene:
    """Generate a furnished home.

    On one machine, with the same versions of the package and of NumPy, equal arguments give equal bytes. Elsewhere the
    last digits of sines and logarithms may differ, and so may the home.

    Args:
        seed: Seed of the home, not negative.
        area: Floor area of all rooms between their walls, 25 to 400 square metres; the result is within 2% of it. An
            agent of radius 0.1 m can walk on about half of a small home and 70% of the largest. None draws an area,
            mostly from 45 to 120.
        storeys: 1, or 2 from 120 square metres, connected by stairs with steps of at most 0.2 m; None draws the number.
        closed_doors: Number of rooms with a single door whose door is closed, if there are such rooms; each becomes an
            island. None draws 0, 1 or 2.
        triangles: Approximate number of triangles, 5,000 to 1,000,000. The level of detail is chosen to match it, and
            ornaments are left out if that is not enough. Homes over 100 square metres have at least about 50 triangles
            per square metre.
        name: Name of the scene; ``apartment_<seed>`` by default.

    Returns:
        A Scene whose objects are pieces of furniture and parts of the shell, with one of ``SEMANTIC_CLASSES`` as the
        category. ``metadata`` holds ``area`` (the actual area, square metres), ``rooms`` (``type``, ``name``,
        ``bounds`` [x0, z0, x1, z1] in metres, ``storey`` and ``floor``, the height of the floor), ``doors`` (``rooms``,
        ``center`` [x, z], ``axis``, ``width``, ``height``, ``storey``, ``closed``), ``ceiling`` (metres above each
        floor), ``free_space`` (see ``free_space``) and ``instances``: semantic id -> (prototype, [4, 4] transform).
        Pieces of one prototype share their geometry.

    Raises:
        ValueError: If an argument is out of its range.
    """
    _check(seed, area, storeys, closed_doors, triangles)

    def stream(key: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([seed, zlib.crc32(key.encode())]))

    size = choose_area(stream("area")) if area is None else float(area)
    levels = choose_storeys(stream("storeys"), size) if storeys is None else storeys
    plan = make_plan(stream("plan"), size, levels, closed_doors)
    finishes = choose_finishes(stream("finishes"))
    catalogue = Catalogue(finishes, stream)
    pieces = _furnish(plan, catalogue, Style(stream("style")), stream)
    accents = _accents(pieces, stream("accents"))
    sun = draw_sun(stream("sun"))

    def shell(cell: float, level: float) -> list[tuple[str, Solid]]:
        shading = [_floor_shading([p for p in pieces if p.room == i]) for i in range(len(plan.rooms))]
        return build_shell(plan, lambda: Builder(finishes, Detail(level), stream("shell")), cell, sun, shading, accents)

    bare = _count(shell(_COARSEST_GRID, _COARSEST))
    budget = min(round(triangles * (1 - _SHELL_SHARE)), triangles - bare)
    pieces = _without_ornaments(catalogue, pieces, budget)
    level = _choose_level(catalogue, pieces, budget)
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
    return _assemble(name or f"apartment_{seed}", objects, finishes, seed, metadata)


def _check(seed: int, area: float | None, storeys: int | None, closed_doors: int | None, triangles: int) -> None:
    """Raise ValueError unless all arguments are in their range."""
    if seed < 0:
        raise ValueError(f"seed={seed}: pass a seed that is not negative")
    if area is not None and not MIN_AREA <= area <= LARGEST_AREA:
        raise ValueError(f"area={area}: pass {MIN_AREA:g} to {LARGEST_AREA:g} square metres")
    if storeys not in (None, 1, 2):
        raise ValueError(f"storeys={storeys}: pass 1 or 2")
    if storeys == 2 and (area is None or area < MIN_AREA_OF_TWO):
        raise ValueError(f"storeys=2 needs an area of at least {MIN_AREA_OF_TWO:g} square metres: pass one")
    if closed_doors is not None and closed_doors < 0:
        raise ValueError(f"closed_doors={closed_doors}: pass a number that is not negative")
    if not MIN_TRIANGLES <= triangles <= MAX_TRIANGLES:
        raise ValueError(f"triangles={triangles}: pass {MIN_TRIANGLES:,} to {MAX_TRIANGLES:,}")


def _furnish(
    plan: Plan, catalogue: Catalogue, style: Style, stream: Callable[[str], np.random.Generator]
) -> list[Piece]:
    """Return the pieces of all rooms, relative to the floor of their storey; living rooms come last."""
    pieces: list[Piece] = []
    for i in sorted(range(len(plan.rooms)), key=lambda i: plan.rooms[i].kind == "living"):
        layout = RoomLayout(plan, i, catalogue, stream(f"room {plan.rooms[i].name}"))
        pieces += furnish(layout, style, dined=any(piece.kind == "dining_table" for piece in pieces))
    return pieces


def _accents(pieces: list[Piece], rng: np.random.Generator) -> dict[int, int]:
    """Return the accent walls of living rooms and bedrooms, those behind the sofa or the bed."""
    accents = {}
    for piece in pieces:
        if piece.kind in ("tv", "bed") and rng.random() < 0.75:
            accents[piece.room] = round(float(np.arctan2(piece.matrix[0, 2], piece.matrix[2, 2])) / (np.pi / 2)) % 4
    return accents


def _floor_shading(pieces: list[Piece]) -> Shading:
    """Return the share of light that the pieces of a room leave on its floor, less under and next to them."""
    rects = [(piece.rect, piece.low) for piece in pieces if piece.low < 0.5 and piece.high > 0.05]

    def shading(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        light = np.ones_like(x)
        for (x0, z0, x1, z1), _ in rects:
            distance = np.hypot(np.maximum(0, np.maximum(x0 - x, x - x1)), np.maximum(0, np.maximum(z0 - z, z - z1)))
            light = np.minimum(light, 1 - _DARKER * np.exp(-distance / 0.16))
        return light

    return shading


def _count(objects: list[tuple[str, Solid]]) -> int:
    """Count the triangles of named solids."""
    return sum(len(solid.triangles) for _, solid in objects)


def _count_pieces(catalogue: Catalogue, pieces: list[Piece], level: float) -> int:
    """Count the triangles of pieces at a level of detail."""
    return sum(len(catalogue.solid(piece.prototype, level).triangles) for piece in pieces)


def _without_ornaments(catalogue: Catalogue, pieces: list[Piece], budget: int) -> list[Piece]:
    """Return the pieces without the kinds of ornaments that exceed a number of triangles."""
    kept = pieces
    for kind in _ORNAMENTS:
        if _count_pieces(catalogue, kept, _COARSEST) <= budget:
            break
        kept = [piece for piece in kept if piece.kind != kind]
    return kept


def _choose_level(catalogue: Catalogue, pieces: list[Piece], budget: int) -> float:
    """Return the finest detail found at which the furniture stays within a number of triangles."""
    return largest_within(lambda level: _count_pieces(catalogue, pieces, level), budget, _COARSEST, 0.5)


def _choose_cell(plan: Plan, coarse: int, budget: int) -> float:
    """Return the smallest cell found, in metres, that keeps the shell within a number of triangles, or the coarsest.

    Args:
        plan: Floor plan.
        coarse: Triangles of the shell with the coarsest cell.
        budget: Triangles it may have.
    """
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
    solids = [solid for _, solid in objects]
    starts = np.cumsum([0] + [len(solid.vertices) for solid in solids])
    finish = np.concatenate([solid.finish for solid in solids])
    used, material = np.unique(finish, return_inverse=True)
    materials, textures = make_materials([list(finishes.values())[k] for k in used], seed)
    shade = np.concatenate([solid.shade for solid in solids])
    colors = np.full((len(shade), 4), 255, np.uint8)
    colors[:, :3] = np.rint(255 * np.clip(shade, 0, 1))[:, None]
    vertices = np.concatenate([solid.vertices for solid in solids]).astype(np.float32)
    triangles = np.concatenate([s.triangles + k for s, k in zip(solids, starts[:-1], strict=True)]).astype(np.int32)
    return Scene(
        name=name,
        vertices=vertices,
        triangles=triangles,
        triangle_material=material.astype(np.int32),
        triangle_object=np.repeat(np.arange(1, len(solids) + 1), [len(s.triangles) for s in solids]).astype(np.int32),
        materials=materials,
        uvs=np.concatenate([solid.uvs for solid in solids]).astype(np.float32),
        colors=colors,
        textures=textures,
        objects=tuple(SceneObject.named(name) for name, _ in objects),
        metadata=metadata,
    )
