"""Walls and their openings: window panes, frames, doors, and the grids for shading."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.homes.build import COARSEST, Builder, transform
from gym_batchnav.homes.daylight import Daylight
from gym_batchnav.homes.plan import JAMB, Opening, Wall

CASING = 0.07  # metres, width of the boards around a door
_SKIRTING = (0.07, 0.012)  # metres, height and thickness
DOORSTEP_LIGHT = 0.68  # share of light on floors inside walls
_VIEW = 3.6  # metres that the picture behind the windows is high; its horizon is at eye level


def grid_lines(low: float, high: float, cell: float, marks: Sequence[float] = ()) -> np.ndarray:
    """Return grid lines from low to high at most ``cell`` apart, closer near the ends, through all ``marks``."""
    stops = sorted({low, high, *marks})
    near = [d for d, coarsest in ((0.35, 2.5), (0.10, 1.2)) if 2.5 * d < high - low and cell < coarsest]
    shaded = [low + d for d in near] + [high - d for d in near]
    stops = sorted(stops + [s for s in shaded if min(abs(s - other) for other in stops) > 0.03])
    parts = [np.linspace(a, b, max(1, int(np.ceil((b - a) / cell - 1e-9))) + 1)[:-1] for a, b in pairwise(stops)]
    return np.append(np.concatenate(parts), high)


def corner_shade(distances: Sequence[np.ndarray]) -> np.ndarray:
    """Return the share of light near edges at the given distances (metres)."""
    light = np.ones(())
    for distance in distances:
        light = light * (1 - 0.16 * np.exp(-distance / 0.22))
    return light


def _hole(opening: Opening) -> tuple[float, float, float, float]:
    """Return u0, u1, y0, y1 of the hole of an opening; a door's lining lies outside its clear width."""
    jamb = 0.0 if opening.kind == "window" else JAMB
    return opening.u0 - jamb, opening.u1 + jamb, opening.y0, opening.y1 + jamb


def wall_grid(wall: Wall, height: float, cell: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the grid on a wall.

    Args:
        wall: With its openings.
        height: Height of the room, metres.
        cell: Largest side of a cell, metres.

    Returns:
        Lines u [C + 1] and y [R + 1], metres, and which cells [R, C] are wall rather than opening.
    """
    half = wall.length / 2
    holes = [_hole(opening) for opening in wall.openings]
    us = grid_lines(-half, half, cell, [u for hole in holes for u in hole[:2]])
    ys = grid_lines(0.0, height, cell, [y for hole in holes for y in hole[2:] if y > 0])
    middle_u = (us[1:] + us[:-1]) / 2
    middle_y = (ys[1:, None] + ys[:-1, None]) / 2
    solid = np.ones((len(ys) - 1, len(us) - 1), bool)
    for u0, u1, y0, y1 in holes:
        solid &= ~((middle_u > u0) & (middle_u < u1) & (middle_y > y0) & (middle_y < y1))
    return us, ys, solid


def wall_face(b: Builder, wall: Wall, height: float, cell: float, finish: str, daylight: Daylight) -> None:
    """Build the face of a wall as a grid without its holes; lengths in metres."""
    us, ys, solid = wall_grid(wall, height, cell)
    u, y = np.meshgrid(us, ys)
    shape = shapes.sheet(np.stack([u, y, 0 * u], axis=-1))
    keep = np.repeat(solid.ravel(), 2)
    matrix = wall.matrix()
    half = wall.length / 2
    light = daylight.at(shape.vertices @ matrix[:3, :3].T + matrix[:3, 3])
    shade = light * corner_shade([half - u, half + u, y, height - y]).ravel()
    used = np.unique(shape.triangles[keep])
    b.add(finish, shapes.without_loose(shape._replace(triangles=shape.triangles[keep])), shade=shade[used])


def skirting(b: Builder, wall: Wall) -> None:
    """Build skirting boards along a wall, between its doors."""
    gaps = sorted((o.u0 - CASING, o.u1 + CASING) for o in wall.openings if o.kind != "window")
    ends = [-wall.length / 2, *(u for gap in gaps for u in gap), wall.length / 2]
    for start, stop in zip(ends[::2], ends[1::2], strict=True):
        if stop - start > 0.02:
            b.box("trim", (stop - start, *_SKIRTING), ((start + stop) / 2, 0, _SKIRTING[1] / 2))


def window(b: Builder, opening: Opening, finish: str) -> None:
    """Build reveal, frame, pane and sill of a window."""
    _, u0, u1, y0, y1, depth, *_ = opening
    corners = [(u0, y0), (u1, y0), (u1, y1), (u0, y1)]
    for (ua, ya), (ub, yb) in zip(corners, corners[1:] + corners[:1], strict=True):
        face = np.array([[[ua, ya, 0], [ub, yb, 0]], [[ua, ya, -depth], [ub, yb, -depth]]])
        b.add(finish, shapes.sheet(face), shade=np.array([1.0, 1.0, 0.85, 0.85]))
    width = u1 - u0
    height = y1 - y0
    middle = (u0 + u1) / 2
    crop = (u0 / _VIEW, 1 - y1 / _VIEW, u1 / _VIEW, 1 - y0 / _VIEW)
    b.panel("view", (width, height), (middle, y0, -depth), crop)
    if b.level <= COARSEST:
        return
    bar = 0.055
    z = -depth + 0.03
    for y in (y0, y1 - bar):
        b.box("trim", (width, bar, 0.05), (middle, y, z), 0.006)
    uprights = [u0 + bar / 2, u1 - bar / 2] + ([middle] if width > 0.9 else [])
    for u in uprights:
        b.box("trim", (bar, height - 2 * bar, 0.05), (u, y0 + bar, z), 0.006)
    if width > 0.9:
        b.box("chrome", (0.02, 0.11, 0.03), (middle, (y0 + y1) / 2, z + 0.04), 0.005)
    b.box("trim", (width + 0.10, 0.03, 0.05), (middle, y0 - 0.03, 0.025), 0.006)
    b.mat("trim", (width, depth - 0.05), (middle, y0 + 0.001, -(depth - 0.05) / 2))


def frame(b: Builder, opening: Opening, both: bool) -> None:
    """Build lining and casings of a doorway, on ``both`` sides of the wall or one, and the strip of floor in it."""
    width = opening.u1 - opening.u0
    height = opening.y1
    depth = opening.depth
    middle = (opening.u0 + opening.u1) / 2
    reach = 0.006
    long = depth + reach * (2 if both else 1)
    z = reach - long / 2
    for side in (-1, 1):
        b.box("trim", (JAMB, height + JAMB, long), (middle + side * (width + JAMB) / 2, 0, z), 0.0)
    b.box("trim", (width, JAMB, long), (middle, height, z), shade=0.9)
    thick = 0.016
    faces = (thick / 2, -depth - thick / 2)[: 2 if both else 1]
    for face in faces if b.level > COARSEST else ():
        for side in (-1, 1):
            at = (middle + side * (width / 2 + 0.004 + CASING / 2), 0, face)
            b.box("trim", (CASING, height + 0.004, thick), at, 0.004)
        b.box("trim", (width + 0.008 + 2 * CASING, CASING, thick), (middle, height + 0.004, face), 0.004)
    b.mat("floor", (width + 2 * JAMB, depth), (middle, 0, -depth / 2), DOORSTEP_LIGHT)


def door_leaf(b: Builder, width: float = 0.88, height: float = 2.07) -> None:
    """Build a panelled door leaf from its hinge at x = 0 towards +x, 4 cm thick, with handles on both sides."""
    b.box("door", (width, height, 0.04), (width / 2, 0.01, 0), 0.003)
    for face in (-1, 1):
        for low, high in ((0.15, 0.80), (0.98, 1.95)):
            for x in (0.27 * width, 0.73 * width):
                b.box("door", (0.33 * width, high - low, 0.008), (x, low, face * 0.022), 0.006, shade=0.95)
        handle = [
            (width - 0.07, 1.03, face * 0.02),
            (width - 0.07, 1.03, face * 0.06),
            (width - 0.18, 1.03, face * 0.06),
        ]
        b.bar("chrome", handle, 0.009, 6)
        b.box("chrome", (0.035, 0.16, 0.006), (width - 0.07, 0.96, face * 0.022))


def front_door(b: Builder, opening: Opening) -> None:
    """Build the closed entrance door."""
    leaf = b.empty()
    door_leaf(leaf, opening.u1 - opening.u0, opening.y1)
    b.merge(leaf.solid().placed(transform((opening.u0, -0.01, -opening.depth + 0.05))))
    middle = (opening.u0 + opening.u1) / 2
    b.lathe("brass", [(0.015, 0), (0.012, 0.006), (0, 0.007)], (middle, 1.5, -opening.depth + 0.07), 8, pitch=np.pi / 2)
