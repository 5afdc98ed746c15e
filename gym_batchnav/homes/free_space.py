"""The free floor, computed from the plan and the furniture: the ground truth for tests of navmeshes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gym_batchnav.geometry import convex_hull
from gym_batchnav.homes.build import Solid
from gym_batchnav.homes.cells import INNER_WALL
from gym_batchnav.homes.layout import Piece
from gym_batchnav.homes.plan import Door, Plan, Wall
from gym_batchnav.homes.stairs import Stairs

_STEPPED_OVER = 0.2  # metres: nothing between these heights leaves its floor free
_WALKED_UNDER = 1.5


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
