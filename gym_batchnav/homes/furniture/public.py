"""Furniture of offices, shops and halls: shelves, counters, screens, columns, stalls, platforms with ramps."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.homes.build import COARSEST, Builder

_GOODS = ("bright", "bright2", "paper", "cushion", "cushion2", "towel", "blanket", "wood2", "front")
STEP = 0.18  # metres, the highest step of a platform


def rack(b: Builder, length: float = 3.0, height: float = 1.8, double: bool = True, variant: int = 0) -> None:
    """Build a shelf with goods, open on both long sides or with its back to a wall; variants have other goods."""
    depth = 0.9 if double else 0.45
    b.box("grey", (length, 0.12, depth), (0, 0, 0))
    back = 0 if double else -depth / 2 + 0.02
    b.box("trim", (length, height - 0.12, 0.03), (0, 0.12, back), shade=0.85)
    for end in (-1, 1):
        b.box("grey", (0.04, height, depth if variant % 2 else 0.1), (end * (length / 2 - 0.02), 0, 0))
    shelves = max(2, round((height - 0.2) / 0.42))
    rise = (height - 0.12) / shelves
    for k in range(shelves):
        y = 0.12 + k * rise
        if k:
            b.box("trim", (length - 0.06, 0.025, depth - 0.04), (0, y - 0.025, 0), shade=0.9)
        for side in (-1, 1) if double else (1,):
            _goods(b, length - 0.12, rise - 0.06, (y, side * (depth / 4 + 0.02) if double else 0.02))


def _goods(b: Builder, length: float, height: float, at: tuple[float, float]) -> None:
    """Build the goods of one shelf, blocks with gaps between them."""
    x = -length / 2
    while x < length / 2 - 0.15:
        width, tall, gap, kind = b.rng.random(4).tolist()
        width = min(0.22 + 0.5 * width, length / 2 - x)
        if gap < 0.85:
            finish = _GOODS[int(kind * len(_GOODS))]
            b.box(finish, (width - 0.03, height * (0.45 + 0.5 * tall), 0.30), (x + width / 2, at[0], at[1]))
        x += width


def counter(b: Builder, length: float = 2.4, height: float = 0.95) -> None:
    """Build a counter with a till."""
    b.box("wood", (length, height - 0.04, 0.60), (0, 0, 0), 0.006)
    b.box("stone", (length + 0.06, 0.04, 0.70), (0, height - 0.04, 0), 0.006)
    b.box("black", (0.34, 0.12, 0.30), (0.2 * length, height, 0.0), 0.006)
    b.box("screen", (0.30, 0.22, 0.03), (0.2 * length, height + 0.16, -0.05), pitch=-0.2)


def display_table(b: Builder, length: float = 1.8, width: float = 0.9, height: float = 0.85, solid: int = 0) -> None:
    """Build a table, or a ``solid`` block, with heaps of goods."""
    if solid:
        b.box("wood", (length, height - 0.03, width), (0, 0, 0), 0.006)
    else:
        for x in (-1, 1):
            for z in (-1, 1):
                b.box("wood", (0.06, height - 0.03, 0.06), (x * (length / 2 - 0.08), 0, z * (width / 2 - 0.08)))
    b.box("wood2", (length, 0.03, width), (0, height - 0.03, 0), 0.006)
    for row in (-0.24 * width, 0.24 * width):
        _goods(b, length - 0.2, 0.22, (height, row))


def clothes_rail(b: Builder, length: float = 1.6) -> None:
    """Build a rail with clothes on hangers."""
    for side in (-1, 1):
        b.bar("chrome", [(side * length / 2, 0, 0), (side * length / 2, 1.45, 0)], 0.018, 6)
        b.box("chrome", (0.05, 0.03, 0.5), (side * length / 2, 0, 0))
    b.bar("chrome", [(-length / 2, 1.45, 0), (length / 2, 1.45, 0)], 0.015, 6)
    x = -length / 2 + 0.12
    while x < length / 2 - 0.1:
        long, kind, step = b.rng.random(3).tolist()
        tall = 0.65 + 0.4 * long
        b.box(_GOODS[int(kind * len(_GOODS))], (0.05, tall, 0.42), (x, 1.42 - tall, 0), 0.01)
        x += 0.09 + 0.14 * step


def stool(b: Builder, height: float = 0.75) -> None:
    """Build a high stool."""
    b.lathe("wood", [(0, height - 0.05), (0.17, height - 0.05), (0.17, height), (0, height)], fine=16)
    for k in range(4):
        angle = np.pi / 4 + k * np.pi / 2
        foot = (0.19 * np.cos(angle), 0, 0.19 * np.sin(angle))
        b.leg("black", foot, (0.11 * np.cos(angle), height - 0.05, 0.11 * np.sin(angle)), (0.015, 0.015))


def partition(b: Builder, length: float = 1.6, height: float = 1.3, finish: str = "chair") -> None:
    """Build a screen that stands on the floor."""
    b.box(finish, (length, height - 0.08, 0.05), (0, 0.08, 0), 0.01)
    for side in (-1, 1):
        b.box("grey", (0.05, 0.08, 0.36), (side * (length / 2 - 0.1), 0, 0))


def whiteboard(b: Builder, width: float = 2.0) -> None:
    """Build a board on a wall."""
    b.box("metal", (width, 1.15, 0.02), (0, 0.9, 0))
    b.panel("trim", (width - 0.06, 1.09), (0, 0.93, 0.012))


def meeting_table(b: Builder, length: float = 2.4) -> None:
    """Build a long table on two feet."""
    b.box("wood", (length, 0.04, 1.1), (0, 0.70, 0), 0.01)
    for side in (-1, 1):
        b.box("grey", (0.08, 0.70, 0.7), (side * 0.34 * length, 0, 0))


def plain_desk(b: Builder, width: float = 1.6) -> None:
    """Build a desk with a screen."""
    b.box("wood", (width, 0.03, 0.8), (0, 0.71, 0), 0.006)
    for side in (-1, 1):
        b.box("trim", (0.05, 0.71, 0.6), (side * (width / 2 - 0.06), 0, 0))
    at = float(b.rng.uniform(-0.2, 0.2))
    b.box("screen", (0.56, 0.34, 0.03), (at, 0.86, -0.18), 0.004)
    b.box("black", (0.20, 0.12, 0.16), (at, 0.74, -0.20))
    if b.detail.level > COARSEST:
        b.box("black", (0.42, 0.02, 0.14), (at, 0.74, 0.12))
        b.box("paper", (0.22, 0.03, 0.30), (-0.6 * at + 0.4, 0.74, 0.1))


def task_chair(b: Builder) -> None:
    """Build an office chair of few parts."""
    for k in range(5):
        angle = 2 * np.pi * k / 5
        end = (0.28 * np.cos(angle), 0.04, 0.28 * np.sin(angle))
        b.leg("black", end, (0.03 * np.cos(angle), 0.10, 0.03 * np.sin(angle)), (0.02, 0.025), square=True)
    b.box("grey", (0.05, 0.34, 0.05), (0, 0.08, 0))
    b.box("chair", (0.48, 0.08, 0.46), (0, 0.42, 0), 0.02)
    b.box("chair", (0.44, 0.52, 0.06), (0, 0.52, -0.22), 0.02, pitch=-0.12)


def filing_cabinet(b: Builder, width: float = 0.8, height: float = 1.3) -> None:
    """Build a cabinet of steel."""
    b.box("metal", (width, height, 0.45), (0, 0, 0), 0.006)
    for k in range(max(1, round(height / 0.4))):
        b.box("black", (0.14, 0.02, 0.02), (0, 0.3 + 0.4 * k, 0.23))


def column(b: Builder, size: float = 0.5, height: float = 5.0, rounded: bool = False) -> None:
    """Build a column from the floor to the ceiling."""
    if rounded:
        b.lathe("wall_space", [(size / 2, 0), (size / 2, height)], fine=24)
    else:
        b.box("wall_space", (size, height, size), (0, 0, 0))


def light(b: Builder, height: float, length: float = 1.5, drop: float = 0.0) -> None:
    """Build a light at the ceiling, or ``drop`` metres below it."""
    b.box("lamp", (length, 0.06, 0.3), (0, height - 0.07 - drop, 0))
    if drop:
        for side in (-0.4, 0.4):
            b.box("grey", (0.01, drop, 0.01), (side * length, height - drop, 0))


def stall(b: Builder, width: float = 2.5, roof: bool = True) -> None:
    """Build a market stall: a table with goods between posts, under a sloping roof."""
    b.box("wood", (width - 0.2, 0.75, 0.8), (0, 0, 0.2), 0.006)
    for z in (0.02, 0.38):
        _goods(b, width - 0.4, 0.28, (0.75, z))
    if not roof:
        return
    for x in (-1, 1):
        for z, tall in ((-0.75, 2.1), (0.75, 2.5)):
            b.box("wood2", (0.07, tall, 0.07), (x * (width / 2 - 0.04), 0, z))
    pitch = -float(np.arctan2(0.4, 1.5))
    b.box("cushion", (width + 0.2, 0.03, 1.9), (0, 2.28, 0), pitch=pitch)


def pallet(b: Builder, layers: int = 3) -> None:
    """Build a pallet with boxes, some layers high."""
    b.box("wood2", (1.2, 0.14, 0.8), (0, 0, 0), shade=0.85)
    for layer in range(layers):
        for x in (-0.3, 0.3):
            for z in (-0.2, 0.2):
                if layer == layers - 1 and b.rng.random() < 0.4:
                    continue
                b.box("wood", (0.56, 0.34, 0.37), (x, 0.14 + 0.35 * layer, z), 0.004)


def bench(b: Builder, length: float = 1.8) -> None:
    """Build a bench without a back."""
    b.box("wood", (length, 0.06, 0.42), (0, 0.40, 0), 0.008)
    for side in (-1, 1):
        b.box("grey", (0.06, 0.40, 0.36), (side * 0.4 * length, 0, 0))


def platform(b: Builder, width: float = 5.0, depth: float = 4.0, height: float = 0.5, ramp: float = 3.0) -> None:
    """Build a platform with steps on its front and a ramp of that length on its right side."""
    b.box("floor_store", (width, height, depth), (0, 0, 0))
    steps = int(np.ceil(height / STEP)) - 1
    for k in range(steps):
        tall = height * (k + 1) / (steps + 1)
        out = depth / 2 + 0.32 * (steps - k - 0.5)
        b.box("floor_store", (0.6 * width, tall, 0.32), (0, 0, out), shade=0.9)
    broad = min(1.6, 0.5 * depth)
    back = -depth / 2
    left = width / 2
    right = left + ramp
    corners = np.array([[left, 0, 0], [right, 0, 0], [right, 0.01, 0], [left, height, 0]], np.float64)
    near = corners + np.array([0, 0, back + broad])
    far = corners + np.array([0, 0, back])
    quads = [(near[0], near[1], near[2], near[3]), (far[1], far[0], far[3], far[2]), (near[3], near[2], far[2], far[3])]
    for quad in quads:
        a, c, d, e = quad
        b.add("floor_store", shapes.sheet(np.array([[a, c], [e, d]])))
