"""Decoration of rooms: lamps, plants, pictures, rugs, books and curtains."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.homes.build import Builder

Spot = tuple[float, float, float]


def vase(b: Builder, at: Spot, height: float) -> None:
    """Build a vase with a few stalks."""
    r = 0.23 * height
    profile = [(0.6 * r, 0), (r, 0.25 * height), (0.95 * r, 0.45 * height), (0.4 * r, 0.8 * height), (0.55 * r, height)]
    b.lathe("pot", [(0, 0), *profile], at, fine=12)
    for k in range(3):
        angle = 2.1 * k + float(b.rng.random())
        tip = (at[0] + 0.10 * np.cos(angle), at[1] + 1.9 * height, at[2] + 0.10 * np.sin(angle))
        _leaf(b, "leaf2", (at[0], at[1] + 0.8 * height, at[2]), tip, 0.045, 0.03)


def _leaf(b: Builder, finish: str, root: Spot, tip: Spot, width: float, sag: float) -> None:
    """Build a leaf from its root to its tip, bent downwards by ``sag`` metres."""
    steps = b.detail.segments(3, 2)
    t = np.linspace(0, 1, steps + 1)
    start = np.array(root)
    end = np.array(tip)
    line = start + t[:, None] * (end - start)
    line[:, 1] += sag * 4 * t * (1 - t)
    aside = np.cross(end - start, [0, 1.0, 0])
    aside /= max(float(np.linalg.norm(aside)), 1e-6)
    half = width / 2 * np.maximum(np.sin(np.pi * t**0.75), 0.06)
    edges = np.stack([line + half[:, None] * aside, line - half[:, None] * aside])
    edges[:, :, 1] -= 0.25 * half
    points = np.stack([edges[0], line, edges[1]])
    shape = shapes.sheet(points)
    uvs = np.stack([np.tile(t, 3), np.repeat([0.98, 0.5, 0.02], steps + 1)], axis=1)
    b.add(finish, shape._replace(uvs=uvs), shade=np.tile(0.6 + 0.4 * t, 3))


def pot_plant(b: Builder, at: Spot, height: float, leaves: int = 9) -> None:
    """Build a pot with leaves that arch out of it; the whole is about ``height`` tall."""
    pot = 0.32 * height if height < 0.5 else 0.28
    r = 0.55 * pot
    b.lathe("pot", [(0.7 * r, 0), (r, 0.9 * pot), (1.06 * r, 0.9 * pot), (1.06 * r, pot), (0.92 * r, pot)], at, fine=16)
    b.lathe("soil", [(0.93 * r, 0.93 * pot), (0, 0.95 * pot)], at, fine=16)
    finish = "leaf" if b.rng.random() < 0.6 else "leaf2"
    for k in range(leaves):
        angle = 2.4 * k + float(b.rng.uniform(-0.2, 0.2))
        reach = (0.16 + 0.22 * (k % 3)) * height * 0.8
        rise = height * (1.0 - 0.20 * (k % 3)) - pot
        tip = (at[0] + reach * np.cos(angle), at[1] + pot + rise * 0.9, at[2] + reach * np.sin(angle))
        _leaf(b, finish, (at[0], at[1] + 0.9 * pot, at[2]), tip, 0.20 * height, 0.10 * height)


def plant(b: Builder, height: float = 1.3) -> None:
    """Build a large plant in a pot on the floor."""
    pot_plant(b, (0, 0, 0), height, 14)


def palm(b: Builder) -> None:
    """Build a small tree: a stem with a crown of long leaves."""
    b.lathe("pot", [(0.13, 0), (0.18, 0.30), (0.19, 0.30), (0.19, 0.34), (0.165, 0.34)], fine=18)
    b.lathe("soil", [(0.167, 0.31), (0, 0.32)], fine=12)
    for lean, top in ((0.05, 1.15), (-0.06, 0.9)):
        b.bar("soil", [(lean / 2, 0.3, 0), (lean, 0.7, 0.02), (lean * 1.3, top, 0)], (0.02, 0.016, 0.012), 6)
        for k in range(9):
            angle = 2.4 * k + float(b.rng.uniform(-0.2, 0.2)) + lean * 10
            reach = 0.36 - 0.07 * (k % 3)
            rise = -0.02 + 0.22 * (k % 3)
            tip = (lean * 1.3 + reach * np.cos(angle), top + rise, reach * np.sin(angle))
            _leaf(b, "leaf", (lean * 1.3, top, 0), tip, 0.09, 0.10)


def fill_shelf(b: Builder, width: float, height: float, at: Spot) -> None:
    """Build groups of books along one shelf, sometimes with a pot or a box between them."""
    x = -width / 2
    end = width / 2
    coarse = b.detail.level < 0.45
    while x < end - 0.10:
        kind = float(b.rng.random())
        if kind < 0.72:
            count = int(b.rng.integers(4, 12))
            x = _books(b, x, min(end, x + 0.6), height, count, at, coarse)
        elif kind < 0.82:
            vase(b, (at[0] + x + 0.08, at[1], at[2]), min(0.17, 0.5 * height))
            x += 0.18
        elif kind < 0.92:
            finish = ("bright", "bright2", "wood2")[int(b.rng.integers(3))]
            b.box(finish, (0.20, 0.16, 0.22), (at[0] + x + 0.12, at[1], at[2] + 0.01), 0.004)
            x += 0.25
        else:
            x += 0.12


def _books(b: Builder, x: float, end: float, height: float, count: int, at: Spot, coarse: bool) -> float:
    """Build a group of standing books from x on and return its end; coarse books are one block per group."""
    start = x
    tallest = 0.0
    sizes = []
    for _ in range(count):
        thick, tall, deep = b.rng.uniform((0.018, 0.60, 0.15), (0.045, 0.92, 0.21)).tolist()
        spine = int(b.rng.integers(32))
        offset = b.rng.random(2)
        if x + thick > end:
            break
        tallest = max(tallest, tall)
        sizes.append((x, thick, tall * height, deep, spine, offset[0]))
        x += thick
    if coarse and sizes:
        wide = x - start
        shape = shapes.box((wide, 0.9 * tallest * height, 0.17))
        across = (shape.uvs[:, :1] + wide / 2) / 0.9 + start
        down = np.clip(1 + shape.uvs[:, 1:] / (0.9 * tallest * height), 0.02, 0.98)
        spot = (at[0] + start + wide / 2, at[1], at[2] + 0.015)
        b.add("books", shape._replace(uvs=np.concatenate([across, down], axis=1)), spot)
    elif sizes:
        b.add("books", _standing(np.array(sizes), at))
    return x


def _standing(books: np.ndarray, at: Spot) -> shapes.Shape:
    """Make books side by side, without undersides and backs, which are never visible.

    Args:
        books: [N, 6], for each where it starts along x, its thickness, height and depth, metres, which of 32 spines it
            shows, and by how much, 0 to 1, it stands forward.
        at: Middle of the shelf.
    """
    start, thick, tall, deep, spine, forward = books[:, :, None].transpose(1, 0, 2)
    unit = shapes.box((1, 1, 1))
    seen = np.isin(np.arange(24) // 4, [0, 1, 2, 4])  # vertices of both sides, the top and the spine
    foot = np.stack([at[0] + start + thick / 2, 0 * start + at[1], at[2] + 0.10 - deep / 2 + 0.01 * forward], axis=-1)
    vertices = unit.vertices[seen] * np.stack([thick - 0.001, tall, deep], axis=-1) + foot
    wide = np.concatenate([deep, deep, thick - 0.001, thick - 0.001], axis=1).repeat(4, axis=1)
    high = np.concatenate([tall, tall, deep, tall], axis=1).repeat(4, axis=1)
    across = (spine + 0.02 + 0.96 * (wide * unit.uvs[seen, 0] / thick + 0.5)) / 32
    down = np.clip(1 + high * unit.uvs[seen, 1] / tall, 0.02, 0.98)
    corner = 4 * np.arange(4 * len(books))[:, None, None] + np.array([[0, 1, 2], [0, 2, 3]])
    uvs = np.stack([across, down], axis=-1)
    return shapes.Shape(vertices.reshape(-1, 3), uvs.reshape(-1, 2), corner.reshape(-1, 3))


def picture(b: Builder, width: float = 0.8, height: float = 0.6, quarter: int = 0, middle: float = 1.55) -> None:
    """Build a framed picture on the wall; ``quarter`` selects one of four, ``middle`` is its height."""
    low = middle - height / 2
    frame = 0.03
    finish = ("black", "wood", "trim", "wood2")[int(b.rng.integers(4))]
    b.box("paper", (width - 0.01, height - 0.01, 0.012), (0, low + 0.005, -0.006))
    for side in (-1, 1):
        b.box(finish, (frame, height, 0.024), (side * (width - frame) / 2, low, 0), 0.004)
        b.box(
            finish, (width - 2 * frame, frame, 0.024), (0, middle + side * (height - frame) / 2 - frame / 2, 0), 0.004
        )
    mat = 0.06 if min(width, height) > 0.45 else 0.0
    u = 0.5 * (quarter % 2)
    v = 0.5 * (quarter // 2)
    inner = (width - 2 * frame - 2 * mat, height - 2 * frame - 2 * mat)
    cut = 0.5 * (1 - min(1.0, inner[1] / inner[0])) / 2
    crop = (u + 0.01, v + 0.01 + cut, u + 0.49, v + 0.49 - cut)
    b.panel("picture", inner, (0, low + frame + mat, 0.0015), crop)


def mirror(b: Builder, width: float = 0.6, height: float = 0.8, middle: float = 1.5, frame: str = "wood") -> None:
    """Build a framed mirror on the wall (a pale pane that does not reflect)."""
    b.box(frame, (width, height, 0.025), (0, middle - height / 2, 0), 0.006)
    b.panel("mirror", (width - 0.06, height - 0.06), (0, middle - height / 2 + 0.03, 0.0135))


def wall_clock(b: Builder) -> None:
    """Build a round clock on the wall."""
    b.lathe("black", [(0.15, -0.02), (0.155, 0.0), (0.145, 0.015), (0.135, 0.015)], (0, 1.9, 0), 24, pitch=np.pi / 2)
    b.lathe("trim", [(0.14, 0.008), (0, 0.008)], (0, 1.9, 0), 24, pitch=np.pi / 2)
    b.box("black", (0.012, 0.09, 0.004), (0, 1.9, 0.010))
    b.box("black", (0.075, 0.012, 0.004), (0.034, 1.894, 0.010))


def rug(b: Builder, width: float = 2.0, depth: float = 1.4, finish: str = "rug") -> None:
    """Build a rug 4 mm thick with a plain border."""
    b.box("paper", (width, 0.003, depth), (0, 0, 0))
    b.mat(finish, (width - 0.14, depth - 0.14), (0, 0.0045, 0))


def round_rug(b: Builder, radius: float = 0.9, finish: str = "rug") -> None:
    """Build a round rug 4 mm thick."""
    shape = shapes.lathe([(radius, 0), (radius - 0.01, 0.004), (0, 0.004)], b.detail.around(36))
    b.add(finish, shape._replace(uvs=shape.vertices[:, [0, 2]]))


def floor_lamp(b: Builder) -> None:
    """Build a standing lamp with a cloth shade."""
    b.lathe("black", [(0.14, 0), (0.14, 0.015), (0.012, 0.03), (0.011, 1.35)], fine=16)
    b.lathe("lamp", [(0.21, 1.25), (0.15, 1.55)], fine=20)
    b.lathe("lamp", [(0.15, 1.55), (0, 1.55)], fine=20, shade=0.9)
    b.lathe("lamp", [(0, 1.30), (0.045, 1.34), (0.04, 1.40), (0, 1.42)], fine=10)


def arc_lamp(b: Builder) -> None:
    """Build a lamp that hangs from a long bow."""
    steps = b.detail.segments(9, 5)
    angle = np.linspace(0, np.pi * 0.86, steps + 1)
    path = np.stack([-0.32 + 0.30 * (1 - np.cos(angle)), 1.15 + 0.68 * np.sin(angle), 0 * angle], axis=1)
    b.lathe("stone", [(0.15, 0), (0.15, 0.05), (0, 0.05)], (-0.32, 0, 0), fine=18)
    b.bar("chrome", [(-0.32, 0.04, 0), *path], 0.012, 6, 3)
    tip = path[-1]
    b.lathe("brass", [(0.15, -0.13), (0.14, -0.06), (0.09, 0.0), (0.0, 0.02)], (tip[0], tip[1], 0), fine=18)


def table_lamp(b: Builder, at: Spot) -> None:
    """Build a small lamp on something."""
    b.lathe("pot", [(0.06, 0), (0.075, 0.06), (0.05, 0.14), (0.012, 0.17), (0.012, 0.22)], at, fine=12)
    b.lathe("lamp", [(0.13, 0.20), (0.085, 0.38)], at, fine=16)
    b.lathe("lamp", [(0.085, 0.38), (0, 0.38)], at, fine=16)


def ceiling_lamp(b: Builder, height: float, style: str = "pendant") -> None:
    """Build a lamp below a ceiling of the given height: a ``"pendant"`` or a ``"disc"``."""
    if style == "disc":
        b.lathe(
            "lamp", [(0, height - 0.10), (0.14, height - 0.09), (0.19, height - 0.05), (0.20, height - 0.001)], fine=24
        )
        return
    b.lathe("trim", [(0.0, height - 0.04), (0.05, height - 0.03), (0.05, height - 0.001)], fine=10)
    b.bar("black", [(0, height - 0.45, 0), (0, height - 0.03, 0)], 0.005, 3, 3)
    bell = [
        (0.20, height - 0.62),
        (0.17, height - 0.55),
        (0.08, height - 0.48),
        (0.02, height - 0.44),
        (0, height - 0.44),
    ]
    b.lathe("bright", bell, fine=24)
    b.lathe("lamp", [(0, height - 0.63), (0.05, height - 0.60), (0.05, height - 0.54), (0, height - 0.50)], fine=10)


def curtain(b: Builder, width: float = 0.4, height: float = 2.3) -> None:
    """Build one wing of a curtain in folds, from 3 cm above the floor."""
    folds = width / 0.11
    columns = b.detail.segments(int(5 * folds), int(2 * folds) + 1)
    s = np.linspace(0, 1, columns + 1)
    rows = np.array([0.03, 0.55 * height, height])
    spread = np.array([1.0, 0.92, 0.9])
    wave = np.sin(2 * np.pi * folds * s)
    x = (s - 0.5) * width * spread[:, None]
    z = 0.035 * wave * np.array([1.0, 0.9, 0.7])[:, None]
    points = np.stack(np.broadcast_arrays(x, rows[:, None], z), axis=-1)
    shade = 0.86 + 0.14 * np.tile(wave, 3)
    b.add("curtain", shapes.sheet(points), shade=shade)


def curtain_rod(b: Builder, width: float, height: float) -> None:
    """Build a rod with knobs at its ends."""
    b.bar("brass", [(-width / 2, height, 0), (width / 2, height, 0)], 0.011, 8)
    for side in (-1, 1):
        knob = [(0, -0.022), (0.02, -0.01), (0.02, 0.01), (0, 0.022)]
        b.lathe("brass", knob, (side * width / 2, height, 0), fine=8)


def radiator(b: Builder, width: float = 0.9) -> None:
    """Build a ribbed radiator below a window."""
    ribs = max(3, round(width / 0.1))
    b.box("trim", (width, 0.46, 0.03), (0, 0.14, 0.0), 0.006, shade=0.85)
    for k in range(ribs):
        b.box("trim", (width / ribs - 0.03, 0.50, 0.035), ((k - (ribs - 1) / 2) * width / ribs, 0.12, 0.025), 0.008)
    b.bar("trim", [(width / 2 - 0.05, 0, 0), (width / 2 - 0.05, 0.14, 0)], 0.009, 5)
