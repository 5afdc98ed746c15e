"""Living room furniture: sofas, armchairs, tables, shelves and television."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes.build import Builder
from gym_batchnav.homes.furniture.decor import fill_shelf, pot_plant, vase


def sofa(b: Builder, width: float = 2.1, arms: str = "block") -> None:
    """Build a sofa with two or three seats, loose cushions and low legs; ``arms`` are ``"block"`` or ``"slim"``."""
    depth = 0.90
    arm = 0.20 if arms == "block" else 0.11
    seats = 3 if width > 1.9 else 2
    inner = width - 2 * arm
    for x in (-width / 2 + 0.12, width / 2 - 0.12):
        for z in (-depth / 2 + 0.12, depth / 2 - 0.12):
            b.leg("wood", (x, 0, z), (x, 0.13, z), (0.018, 0.028))
    b.box("sofa", (width - 0.02, 0.18, depth - 0.02), (0, 0.12, 0), 0.02, shade=0.8)
    height = 0.60 if arms == "block" else 0.56
    for side in (-1, 1):
        b.cushion("sofa", (arm, height - 0.12, depth), (side * (width - arm) / 2, 0.12, 0), 0.05)
    b.cushion("sofa", (inner, 0.62, 0.22), (0, 0.14, -depth / 2 + 0.11), 0.06)
    for k in range(seats):
        x = (k - (seats - 1) / 2) * inner / seats
        b.cushion("sofa", (inner / seats - 0.01, 0.17, depth - 0.24), (x, 0.29, 0.115), 0.045, 0.02)
        b.cushion("sofa", (inner / seats - 0.03, 0.42, 0.17), (x, 0.44, -0.17), 0.06, 0.015, pitch=-0.16)
    for side, finish in ((-1, "cushion"), (1, "cushion2")):
        lean = float(b.rng.uniform(-0.25, 0.25))
        b.cushion(finish, (0.42, 0.40, 0.13), (side * (inner / 2 - 0.24), 0.455, 0.0), 0.055, 0.0, yaw=lean, pitch=-0.3)


def armchair(b: Builder) -> None:
    """Build an upholstered easy chair on splayed wooden legs."""
    for x in (-1, 1):
        for z in (-1, 1):
            b.leg("wood2", (x * 0.33, 0, z * 0.33), (x * 0.27, 0.25, z * 0.28), (0.014, 0.025))
    b.cushion("chair", (0.62, 0.14, 0.68), (0, 0.22, 0.02), 0.04)
    b.cushion("chair", (0.54, 0.14, 0.58), (0, 0.34, 0.05), 0.05, 0.02)
    b.cushion("chair", (0.64, 0.58, 0.16), (0, 0.30, -0.28), 0.06, pitch=-0.18)
    for side in (-1, 1):
        b.cushion("chair", (0.10, 0.34, 0.62), (side * 0.32, 0.24, 0.0), 0.045)
    b.cushion("cushion", (0.38, 0.30, 0.11), (0.02, 0.475, -0.09), 0.05, pitch=-0.3)


def coffee_table(b: Builder, style: str = "oblong") -> None:
    """Build a low table, ``"oblong"`` with a shelf or ``"round"``, with a few objects on it."""
    if style == "round":
        b.lathe("wood", [(0, 0.37), (0.36, 0.37), (0.39, 0.385), (0.39, 0.40), (0.38, 0.41), (0, 0.41)], fine=28)
        for k in range(3):
            angle = 2 * np.pi * k / 3 + 0.3
            cos = np.cos(angle)
            sin = np.sin(angle)
            b.leg("wood", (0.32 * cos, 0, 0.32 * sin), (0.22 * cos, 0.375, 0.22 * sin), (0.014, 0.022))
        vase(b, (0.06, 0.41, -0.05), 0.16)
    else:
        b.box("wood", (1.10, 0.035, 0.58), (0, 0.385, 0), 0.008)
        b.box("wood", (0.98, 0.02, 0.46), (0, 0.14, 0), 0.005, shade=0.7)
        for x in (-1, 1):
            for z in (-1, 1):
                b.leg("wood", (x * 0.505, 0, z * 0.245), (x * 0.505, 0.39, z * 0.245), (0.026, 0.032), square=True)
        vase(b, (-0.25, 0.42, 0.05), 0.18)
        for k, finish in enumerate(("bright", "paper", "bright2")):
            turn = float(b.rng.uniform(-0.3, 0.3))
            b.box(finish, (0.21, 0.02, 0.28), (0.25, 0.42 + 0.02 * k, 0), yaw=turn)


def side_table(b: Builder) -> None:
    """Build a small round table on one foot."""
    b.lathe("wood2", [(0.17, 0), (0.17, 0.015), (0.02, 0.03), (0.018, 0.50), (0.05, 0.515), (0.22, 0.52), (0.23, 0.53)])
    b.lathe("wood2", [(0.23, 0.53), (0.225, 0.545), (0, 0.545)])


def tv_bench(b: Builder, width: float = 1.8) -> None:
    """Build a low board with doors and an open shelf, a television and its stand."""
    b.box("wood", (width, 0.03, 0.42), (0, 0.47, 0), 0.006)
    b.box("wood2", (width - 0.02, 0.37, 0.38), (0, 0.10, -0.01), 0.0, shade=0.8)
    for x in (-1, 1):
        for z in (-0.15, 0.15):
            b.leg("wood", (x * (width / 2 - 0.08), 0, z), (x * (width / 2 - 0.1), 0.10, z), (0.014, 0.02))
    door = width / 3
    for k in (-1, 0, 1):
        b.box("wood2", (door - 0.012, 0.345, 0.018), (k * door * 0.99, 0.113, 0.185), 0.004)
        b.box("brass", (0.10, 0.012, 0.014), (k * door * 0.99, 0.40, 0.197))
    screen = min(1.25, width - 0.35)
    height = screen * 9 / 16
    b.box("black", (0.5, 0.012, 0.22), (0, 0.50, -0.03), 0.003)
    b.box("black", (0.10, 0.08, 0.04), (0, 0.51, -0.05))
    b.box("black", (screen + 0.02, height + 0.02, 0.035), (0, 0.57, -0.05), 0.006)
    b.panel("screen", (screen, height), (0, 0.58, -0.0315))
    b.box("grey", (0.5, 0.05, 0.08), (0, 0.50, 0.13), 0.01)
    vase(b, (width / 2 - 0.15, 0.50, 0), 0.24)


def bookshelf(b: Builder, width: float = 0.9, height: float = 2.0) -> None:
    """Build an open shelf filled with books and a few other objects."""
    depth = 0.30
    board = 0.025
    for side in (-1, 1):
        b.box("wood", (board, height, depth), (side * (width - board) / 2, 0, 0), 0.004)
    b.box("wood", (width - 2 * board, height - 0.02, 0.012), (0, 0.01, -depth / 2 + 0.006), shade=0.62)
    levels = round((height - 0.08) / 0.37)
    pitch = (height - 0.08 - board) / levels
    for k in range(levels + 1):
        b.box("wood", (width - 2 * board, board, depth - 0.015), (0, 0.07 + k * pitch, 0.006), 0.004, shade=0.9)
    b.box("wood", (width - 2 * board, 0.07, 0.02), (0, 0, depth / 2 - 0.04), shade=0.7)
    for k in range(levels):
        fill_shelf(b, width - 2 * board - 0.02, pitch - board, (0, 0.07 + board + k * pitch, 0.0))


def sideboard(b: Builder, width: float = 1.4, height: float = 0.80) -> None:
    """Build a chest with doors and drawers on slender legs."""
    b.box("wood", (width, height - 0.16, 0.42), (0, 0.16, 0), 0.008)
    for x in (-1, 1):
        for z in (-0.15, 0.15):
            b.leg("wood", (x * (width / 2 - 0.06), 0, z * 1.1), (x * (width / 2 - 0.1), 0.17, z), (0.012, 0.022))
    parts = max(2, round(width / 0.45))
    part = (width - 0.04) / parts
    for k in range(parts):
        middle = (k - (parts - 1) / 2) * part
        rows = 3 if k == parts - 1 else 1
        for row in range(rows):
            size = (height - 0.20) / rows
            b.box("wood2", (part - 0.01, size - 0.008, 0.016), (middle, 0.18 + row * size, 0.212), 0.004)
            b.box(
                "brass", (0.11, 0.012, 0.018), (middle, 0.18 + row * size + size * (0.5 if rows > 1 else 0.75), 0.226)
            )
    vase(b, (-width / 2 + 0.22, height, 0), 0.26)
    if width > 1.2:
        pot_plant(b, (width / 2 - 0.25, height, 0.0), 0.30)


def dining_table(b: Builder, style: str = "oblong", length: float = 1.6) -> None:
    """Build a dining table, ``"oblong"`` or ``"round"``, with a bowl on it."""
    if style == "round":
        top = length / 2
        b.lathe(
            "wood",
            [(0, 0.715), (top - 0.03, 0.715), (top, 0.73), (top, 0.745), (top - 0.008, 0.752), (0, 0.752)],
            fine=32,
        )
        b.lathe("wood", [(0.30, 0), (0.30, 0.02), (0.09, 0.06), (0.05, 0.20), (0.05, 0.58), (0.16, 0.716)], fine=20)
    else:
        b.box("wood", (length, 0.036, 0.88), (0, 0.716, 0), 0.009)
        b.box("wood", (length - 0.20, 0.07, 0.70), (0, 0.648, 0), shade=0.6)
        for x in (-1, 1):
            for z in (-1, 1):
                foot = (x * (length / 2 - 0.07), 0, z * 0.37)
                b.leg("wood", foot, (foot[0], 0.718, foot[2]), (0.026, 0.042), square=True)
    b.lathe(
        "ceramic", [(0.05, 0), (0.10, 0.03), (0.15, 0.085), (0.135, 0.08), (0.08, 0.03), (0, 0.02)], (0.02, 0.752, 0)
    )
    for k in range(4 if b.detail.level > 0.15 else 0):
        angle = 1.7 * k
        finish = ("bright", "cushion", "bright2", "leaf2")[k]
        spot = (0.02 + 0.05 * np.cos(angle), 0.775, 0.05 * np.sin(angle))
        b.lathe(finish, [(0, 0), (0.028, 0.012), (0.036, 0.036), (0.024, 0.062), (0, 0.068)], spot, fine=8)


def dining_chair(b: Builder, style: str = "slats") -> None:
    """Build a chair: ``"slats"`` of wood, ``"padded"`` cloth, or a ``"shell"``; its back is towards -z."""
    finish = "wood" if style == "slats" else "wood2"
    for x in (-1, 1):
        b.leg(finish, (x * 0.20, 0, 0.21), (x * 0.19, 0.44, 0.19), (0.014, 0.020), square=style == "slats")
        if style == "slats":
            b.bar(
                finish,
                [(x * 0.19, 0, -0.215), (x * 0.19, 0.45, -0.19), (x * 0.18, 0.88, -0.235)],
                (0.015, 0.02, 0.014),
                4,
            )
        else:
            b.leg(finish, (x * 0.20, 0, -0.22), (x * 0.17, 0.44, -0.17), (0.014, 0.020))
    if style == "slats":
        b.cushion(finish, (0.44, 0.035, 0.43), (0, 0.43, 0.005), 0.014)
        for k in range(3):
            b.box(finish, (0.35, 0.06, 0.018), (0, 0.56 + 0.11 * k, -0.205 - 0.011 * k), 0.006, pitch=-0.10)
        b.cushion("chair", (0.40, 0.035, 0.39), (0, 0.463, 0.01), 0.015)
    elif style == "padded":
        b.cushion("chair", (0.46, 0.09, 0.46), (0, 0.41, 0.0), 0.035, 0.012)
        b.cushion("chair", (0.44, 0.44, 0.07), (0, 0.47, -0.195), 0.03, 0.0, pitch=-0.12)
    else:
        b.cushion("front", (0.46, 0.05, 0.44), (0, 0.41, 0.01), 0.024)
        b.cushion("front", (0.44, 0.40, 0.04), (0, 0.43, -0.19), 0.019, pitch=-0.2)
        b.cushion("chair", (0.38, 0.03, 0.36), (0, 0.455, 0.02), 0.014)


def desk(b: Builder, width: float = 1.2) -> None:
    """Build a writing desk with drawers, a monitor, a keyboard and a lamp."""
    b.box("wood", (width, 0.03, 0.62), (0, 0.71, 0), 0.007)
    for z in (-0.27, 0.27):
        b.leg("black", (-width / 2 + 0.05, 0, z), (-width / 2 + 0.05, 0.712, z), (0.018, 0.022), square=True)
    b.box("wood2", (0.38, 0.70, 0.56), (width / 2 - 0.21, 0.012, -0.01), 0.005, shade=0.85)
    for k in range(3):
        b.box("wood2", (0.365, 0.215, 0.016), (width / 2 - 0.21, 0.035 + 0.224 * k, 0.276), 0.004)
        b.box("brass", (0.10, 0.012, 0.016), (width / 2 - 0.21, 0.18 + 0.224 * k, 0.289))
    b.box("grey", (0.22, 0.012, 0.17), (-0.12, 0.74, -0.14), 0.003)
    b.box("grey", (0.05, 0.12, 0.03), (-0.12, 0.75, -0.18))
    b.box("black", (0.58, 0.35, 0.03), (-0.12, 0.83, -0.16), 0.005)
    b.panel("picture", (0.55, 0.32), (-0.12, 0.845, -0.1435), (0.02, 0.55, 0.48, 0.97))
    b.box("grey", (0.40, 0.015, 0.13), (-0.12, 0.74, 0.10), 0.003)
    x = width / 2 - 0.18
    b.lathe("black", [(0.075, 0), (0.07, 0.015), (0.01, 0.02)], (x, 0.74, -0.18), fine=14)
    b.bar("black", [(x, 0.755, -0.18), (x, 1.02, -0.24), (x - 0.05, 1.16, -0.10)], 0.008, 5, 3)
    b.lathe("bright", [(0.075, -0.05), (0.035, 0.04), (0, 0.05)], (x - 0.06, 1.15, -0.07), fine=12)


def office_chair(b: Builder) -> None:
    """Build a swivel chair on five castors."""
    for k in range(5):
        angle = 2 * np.pi * k / 5
        cos = np.cos(angle)
        sin = np.sin(angle)
        b.leg("black", (0.28 * cos, 0.06, 0.28 * sin), (0.02 * cos, 0.10, 0.02 * sin), (0.014, 0.024))
        b.lathe("black", [(0, 0), (0.022, 0.01), (0.022, 0.04), (0, 0.05)], (0.28 * cos, 0, 0.28 * sin), fine=6)
    b.cylinder("grey", 0.025, 0.34, (0, 0.09, 0), 8)
    b.cushion("chair", (0.48, 0.09, 0.46), (0, 0.42, 0.02), 0.035, 0.012)
    b.bar("black", [(0, 0.43, -0.16), (0, 0.52, -0.26), (0, 0.72, -0.25)], 0.018, 5)
    b.cushion("chair", (0.42, 0.46, 0.07), (0, 0.55, -0.21), 0.03, 0.0, pitch=-0.1)
