"""Bedroom and hall furniture: beds, bedside tables, wardrobes and coat racks."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes.build import Builder
from gym_batchnav.homes.furniture.decor import table_lamp


def bed(b: Builder, width: float = 1.6, blanket: str = "blanket") -> None:
    """Build a bed with mattress, pillows, a turned-down blanket and a headboard at its back."""
    length = 2.12
    back = -length / 2
    b.box("wood", (width + 0.06, 1.02, 0.06), (0, 0, back + 0.03), 0.012)
    for side in (-1, 1):
        b.box("wood", (0.04, 0.22, length - 0.08), (side * (width / 2 + 0.005), 0.12, 0.02), 0.006)
        b.leg(
            "wood",
            (side * (width / 2 - 0.03), 0, 1.0),
            (side * (width / 2 - 0.03), 0.2, 1.0),
            (0.03, 0.04),
            square=True,
        )
    b.box("wood", (width + 0.05, 0.22, 0.04), (0, 0.12, length / 2 - 0.02), 0.006)
    b.box("wood2", (width - 0.05, 0.04, length - 0.14), (0, 0.16, 0), shade=0.6)
    b.cushion("bedding", (width - 0.04, 0.24, 2.0), (0, 0.26, 0.01), 0.06, 0.01)
    b.cushion(blanket, (width + 0.03, 0.20, 1.30), (0, 0.345, 0.375), 0.06, 0.01)
    b.cushion("bedding", (width + 0.04, 0.07, 0.26), (0, 0.485, -0.33), 0.03)
    count = 2 if width > 1.2 else 1
    for k in range(count):
        x = (k - (count - 1) / 2) * width / 2
        lean = float(b.rng.uniform(-0.12, 0.12))
        b.cushion("bedding", (0.62, 0.15, 0.42), (x, 0.505, back + 0.36), 0.07, 0.025, yaw=lean, pitch=0.25)
    b.cushion("cushion", (0.40, 0.36, 0.12), (0.06, 0.53, back + 0.55), 0.05, 0.0, pitch=-0.5)


def bedside_table(b: Builder) -> None:
    """Build a bedside table with a drawer, a lamp and a book."""
    b.box("wood", (0.44, 0.36, 0.38), (0, 0.16, 0), 0.008)
    for x in (-1, 1):
        for z in (-1, 1):
            b.leg("wood", (x * 0.18, 0, z * 0.15), (x * 0.17, 0.17, z * 0.14), (0.012, 0.02))
    b.box("wood2", (0.40, 0.15, 0.014), (0, 0.345, 0.192), 0.004)
    b.box("wood2", (0.40, 0.15, 0.014), (0, 0.185, 0.192), 0.004)
    for y in (0.26, 0.42):
        b.lathe("brass", [(0.012, 0), (0.016, 0.02), (0, 0.025)], (0, y, 0.198), 8, pitch=np.pi / 2)
    table_lamp(b, (-0.08, 0.52, -0.05))
    b.box("bright", (0.13, 0.025, 0.19), (0.12, 0.52, 0.05), yaw=0.2)


def wardrobe(b: Builder, width: float = 1.6, height: float = 2.15) -> None:
    """Build a wardrobe with two to four doors, one of them with a mirror."""
    depth = 0.60
    b.box("wood2", (width, height, depth - 0.022), (0, 0, -0.011), 0.006)
    doors = max(2, round(width / 0.5))
    door = width / doors
    mirrored = int(b.rng.integers(doors)) if b.rng.random() < 0.6 else -1
    for k in range(doors):
        x = (k - (doors - 1) / 2) * door
        b.box("front", (door - 0.008, height - 0.10, 0.02), (x, 0.08, depth / 2 - 0.012), 0.004)
        if k == mirrored:
            b.panel("mirror", (door - 0.12, height - 0.26), (x, 0.16, depth / 2 - 0.0005))
        else:
            for low, part in ((0.16, 0.55), (0.16 + 0.58 * (height - 0.24), 0.40)):
                b.box(
                    "front",
                    (door - 0.14, part * (height - 0.26), 0.008),
                    (x, low, depth / 2 - 0.003),
                    0.003,
                    shade=0.94,
                )
        hand = 1 if k % 2 == 0 else -1
        b.box("brass", (0.014, 0.24, 0.02), (x + hand * (door / 2 - 0.04), 0.98, depth / 2 + 0.006), 0.004)


def chest(b: Builder, width: float = 1.0) -> None:
    """Build a chest of drawers with small objects on top."""
    b.box("wood", (width, 0.86, 0.45), (0, 0.06, -0.01), 0.008)
    b.box("wood", (width - 0.06, 0.07, 0.40), (0, 0, -0.02), shade=0.6)
    for row in range(4):
        for side in (-1, 1):
            b.box(
                "front", (width / 2 - 0.02, 0.19, 0.016), (side * (width / 4 - 0.003), 0.09 + 0.202 * row, 0.217), 0.004
            )
            b.box("brass", (0.10, 0.012, 0.018), (side * width / 4, 0.19 + 0.202 * row, 0.232))
    table_lamp(b, (width / 2 - 0.2, 0.92, 0))
    for k, finish in enumerate(("bright", "paper")):
        b.box(finish, (0.24 - 0.03 * k, 0.05, 0.18), (-0.15, 0.92 + 0.05 * k, 0), 0.004, yaw=0.1 * k)


def coat_rack(b: Builder) -> None:
    """Build a board with hooks on the wall, two coats and a bag, and a shelf for hats."""
    b.box("wood", (1.0, 0.12, 0.02), (0, 1.62, -0.10), 0.005)
    b.box("wood", (1.0, 0.022, 0.22), (0, 1.78, 0.0), 0.005)
    for k in range(5):
        x = -0.4 + 0.2 * k
        b.bar("brass", [(x, 1.66, -0.09), (x, 1.65, -0.04), (x, 1.70, -0.02)], 0.008, 5)
    for x, finish, length in ((-0.38, "chair", 0.95), (-0.15, "blanket", 0.85)):
        b.cushion(finish, (0.30, length, 0.10), (x, 1.66 - length, -0.04), 0.05)
        for side in (-1, 1):
            b.cushion(finish, (0.09, 0.62, 0.08), (x + side * 0.14, 0.98, -0.035), 0.035)
    b.cushion("bright", (0.28, 0.30, 0.09), (0.25, 1.18, -0.05), 0.03)
    b.bar("bright", [(0.14, 1.45, -0.05), (0.2, 1.66, -0.05), (0.30, 1.66, -0.05), (0.36, 1.45, -0.05)], 0.008, 5)
    b.lathe("paper", [(0.16, 0), (0.15, 0.012), (0.09, 0.015), (0.08, 0.09), (0, 0.10)], (0.25, 1.802, 0), fine=16)


def shoe_cabinet(b: Builder, width: float = 0.9) -> None:
    """Build a narrow cabinet with tilting fronts and a bowl for keys."""
    b.box("black", (width - 0.04, 0.05, 0.18), (0, 0, -0.02), shade=0.7)
    b.box("wood2", (width, 0.95, 0.22), (0, 0.04, -0.01), 0.006)
    for row in range(2):
        b.box("front", (width - 0.02, 0.44, 0.016), (0, 0.065 + 0.455 * row, 0.107), 0.004)
        b.box("brass", (0.14, 0.012, 0.018), (0, 0.45 + 0.455 * row, 0.121))
    b.box("wood", (width + 0.02, 0.025, 0.25), (0, 0.99, 0), 0.005)
    b.lathe("ceramic", [(0.03, 0), (0.09, 0.05), (0.08, 0.045), (0, 0.015)], (-0.2, 1.015, 0), fine=14)


def shoes(b: Builder) -> None:
    """Build two pairs of shoes on a mat."""
    b.box("grey", (0.7, 0.012, 0.36), (0, 0, 0))
    for k, finish in enumerate(("black", "bright2")):
        for side in (-1, 1):
            x = -0.17 + 0.34 * k + side * 0.06
            b.cushion(finish, (0.09, 0.07, 0.27), (x, 0.012, 0), 0.03)
            b.cushion(finish, (0.085, 0.05, 0.12), (x, 0.07, -0.07), 0.024)
