"""Procedural furnished apartments: from a seed to a textured Scene in which every room can be walked."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable

import numpy as np

from gym_batchnav.scene.generate.build import Builder, Detail, Solid
from gym_batchnav.scene.generate.finishes import Finish, choose_finishes, make_materials
from gym_batchnav.scene.generate.furnish import furnish
from gym_batchnav.scene.generate.layout import Catalogue, Piece, RoomLayout
from gym_batchnav.scene.generate.plan import make_plan
from gym_batchnav.scene.generate.style import Style
from gym_batchnav.scene.generate.walls import Shading, build_shell
from gym_batchnav.scene.mesh import Scene

__all__ = ["generate_apartment"]

_SHELL_SHARE = 0.25  # of the triangles go to walls, floors and ceilings
_COARSEST = 0.1  # level of detail
_COARSEST_GRID = 4.0  # metres
# Left out first where the budget is too small for the coarsest furniture, in this order.
_ORNAMENTS = (
    *("shoes", "roll_holder", "coat_rack", "kitchen_things", "clock", "curtain_rod", "towel_rail", "radiator"),
    *("laundry_basket", "side_table", "plant", "palm", "mirror", "picture", "curtain", "chest", "sideboard"),
    *("dresser", "door", "armchair", "ceiling_lamp", "floor_lamp", "wall_cupboard", "bookshelf", "bedside_table"),
)
_DARKER = 0.32  # share of light that a piece takes from the floor under it


def generate_apartment(
    seed: int, *, rooms: int | None = None, triangles: int = 40_000, name: str | None = None
) -> Scene:
    """Generate a furnished apartment; the same arguments give the same bytes.

    Args:
        seed: Not negative.
        rooms: 3 to 6; None draws a number from 4 to 6.
        triangles: About how many the scene shall have, from 5,000 up: curves are cut finer or coarser to come near it,
            and where even that is too much, ornaments are left out.
        name: Of the scene; ``apartment_<seed>`` by default.

    Returns:
        A Scene whose objects are pieces of furniture and parts of the shell. ``metadata`` holds ``rooms`` (``type``,
        ``name`` and ``bounds`` [x0, z0, x1, z1] in metres), ``doors`` (``rooms``, ``center`` [x, z], ``axis``,
        ``width``, ``height``), ``ceiling`` (metres) and ``instances``: semantic id -> (prototype, [4, 4] transform);
        pieces of one prototype share their geometry.

    Raises:
        ValueError: For a negative seed, fewer than 5,000 triangles or another number of rooms.
    """
    if seed < 0:
        raise ValueError(f"seed={seed}: give a seed of 0 or more")
    if triangles < 5_000:
        raise ValueError(f"triangles={triangles}: an apartment needs at least 5,000")

    def stream(key: str) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64([seed, zlib.crc32(key.encode())]))

    plan = make_plan(stream("plan"), rooms)
    finishes = choose_finishes(stream("finishes"))
    catalogue = Catalogue(finishes, stream)
    style = Style(stream("style"))
    pieces: list[Piece] = []
    for i in sorted(range(len(plan.rooms)), key=lambda i: plan.rooms[i].kind == "living"):  # The living room last.
        layout = RoomLayout(plan, i, catalogue, stream(f"room {plan.rooms[i].name}"))
        pieces += furnish(layout, style, dined=any(piece.kind == "dining_table" for piece in pieces))
    accents = _accents(pieces, stream("accents"))

    def shell(cell: float, level: float) -> list[tuple[str, Solid]]:
        shading = [_floor_shading([p for p in pieces if p.room == i]) for i in range(len(plan.rooms))]
        return build_shell(plan, lambda: Builder(finishes, Detail(level), stream("shell")), cell, shading, accents)

    bare = _count(shell(_COARSEST_GRID, _COARSEST))
    budget = min(round(triangles * (1 - _SHELL_SHARE)), triangles - bare)
    pieces = _without_ornaments(catalogue, pieces, budget)
    level = _choose_level(catalogue, pieces, budget)
    furniture = _name_pieces(pieces, catalogue, level)
    objects = _choose_shell(lambda cell: shell(cell, min(level, 2.0)), triangles - _count(furniture)) + furniture
    first = len(objects) - len(pieces)
    instances = {first + k + 1: (piece.prototype.key, piece.matrix) for k, piece in enumerate(pieces)}
    metadata: dict[str, object] = {
        "rooms": [{"type": room.kind, "name": room.name, "bounds": list(room.bounds)} for room in plan.rooms],
        "doors": list(plan.doors),
        "ceiling": plan.height,
        "instances": instances,
    }
    return _assemble(name or f"apartment_{seed}", objects, finishes, seed, (seed, rooms, triangles), metadata)


def _accents(pieces: list[Piece], rng: np.random.Generator) -> dict[int, int]:
    """The accent wall of living room and bedrooms: the one behind the sofa or the bed."""
    accents = {}
    for piece in pieces:
        if piece.kind in ("tv", "bed") and rng.random() < 0.75:
            accents[piece.room] = round(float(np.arctan2(piece.matrix[0, 2], piece.matrix[2, 2])) / (np.pi / 2)) % 4
    return accents


def _floor_shading(pieces: list[Piece]) -> Shading:
    """How much light the pieces of a room leave on its floor: less under and beside them."""
    rects = [(piece.rect, piece.low) for piece in pieces if piece.low < 0.5 and piece.high > 0.05]

    def shading(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        light = np.ones_like(x)
        for (x0, z0, x1, z1), _ in rects:
            distance = np.hypot(np.maximum(0, np.maximum(x0 - x, x - x1)), np.maximum(0, np.maximum(z0 - z, z - z1)))
            light = np.minimum(light, 1 - _DARKER * np.exp(-distance / 0.16))
        return light

    return shading


def _count(objects: list[tuple[str, Solid]]) -> int:
    """Triangles of named solids."""
    return sum(len(solid.triangles) for _, solid in objects)


def _count_pieces(catalogue: Catalogue, pieces: list[Piece], level: float) -> int:
    """Triangles of pieces at a level of detail."""
    return sum(len(catalogue.solid(piece.prototype, level).triangles) for piece in pieces)


def _without_ornaments(catalogue: Catalogue, pieces: list[Piece], budget: int) -> list[Piece]:
    """The pieces, less as many kinds of ornaments as it takes to stay within a number of triangles."""
    kept = pieces
    for kind in _ORNAMENTS:
        if _count_pieces(catalogue, kept, _COARSEST) <= budget:
            break
        kept = [piece for piece in kept if piece.kind != kind]
    return kept


def _choose_level(catalogue: Catalogue, pieces: list[Piece], budget: int) -> float:
    """The finest detail at which the furniture stays within a number of triangles."""
    low, high = _COARSEST, 0.05 * budget**0.5
    for _ in range(8):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if _count_pieces(catalogue, pieces, middle) <= budget else (low, middle)
    return low


def _choose_shell(shell: Callable[[float], list[tuple[str, Solid]]], budget: int) -> list[tuple[str, Solid]]:
    """The shell with the finest grid within a number of triangles, or the coarsest."""
    low, high = 0.02, _COARSEST_GRID
    best = shell(high)
    for _ in range(8):
        middle = (low * high) ** 0.5
        candidate = shell(middle)
        if _count(candidate) <= budget:
            best, high = candidate, middle
        else:
            low = middle
    return best


def _name_pieces(pieces: list[Piece], catalogue: Catalogue, level: float) -> list[tuple[str, Solid]]:
    """Names with a number for each kind, and solids in the world."""
    counts: dict[str, int] = {}
    objects = []
    for piece in pieces:
        counts[piece.kind] = counts.get(piece.kind, 0) + 1
        solid = catalogue.solid(piece.prototype, level)
        objects.append((f"{piece.kind}_{counts[piece.kind]}", solid.placed(piece.matrix)))
    return objects


def _assemble(
    name: str,
    objects: list[tuple[str, Solid]],
    finishes: dict[str, Finish],
    seed: int,
    options: tuple[object, ...],
    metadata: dict[str, object],
) -> Scene:
    """One Scene of all objects, with the materials that they use."""
    solids = [solid for _, solid in objects]
    starts = np.cumsum([0] + [len(solid.vertices) for solid in solids])
    finish = np.concatenate([solid.finish for solid in solids])
    used, material = np.unique(finish, return_inverse=True)
    materials, textures = make_materials([list(finishes.values())[k] for k in used], seed)
    shade = np.concatenate([solid.shade for solid in solids])
    colors = np.full((len(shade), 4), 255, np.uint8)
    colors[:, :3] = np.rint(255 * np.clip(shade, 0, 1))[:, None]
    return Scene(
        name=name,
        vertices=np.concatenate([solid.vertices for solid in solids]).astype(np.float32),
        triangles=np.concatenate([s.triangles + k for s, k in zip(solids, starts[:-1], strict=True)]).astype(np.int32),
        triangle_material=material.astype(np.int32),
        triangle_object=np.repeat(np.arange(1, len(solids) + 1), [len(s.triangles) for s in solids]).astype(np.int32),
        materials=materials,
        uvs=np.concatenate([solid.uvs for solid in solids]).astype(np.float32),
        colors=colors,
        textures=textures,
        objects=tuple(name for name, _ in objects),
        content_hash=hashlib.sha256(repr(("apartment", 1, *options)).encode()).hexdigest(),
        metadata=metadata,
    )
