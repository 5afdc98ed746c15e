"""Clutter: toys, boxes, books, bags, clothes and tableware."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes.build import Builder


def toys(b: Builder, kind: int = 0) -> None:
    """Build a ball with building bricks, or a wooden train."""
    if kind == 0:
        profile = [(0.11 * np.sin(a), 0.11 - 0.11 * np.cos(a)) for a in np.linspace(0, np.pi, b.detail.segments(8, 4))]
        b.lathe("bright", [(max(r, 0.0) if 0 < k < len(profile) - 1 else 0.0, y) for k, (r, y) in enumerate(profile)])
        spots = ((0.22, 0.05, "bright2"), (0.28, -0.08, "cushion"), (0.19, -0.13, "towel"), (-0.2, 0.1, "wood"))
        for x, z, finish in spots:
            b.box(finish, (0.06, 0.06, 0.06), (x, 0, z), 0.004, yaw=9 * x)
        b.box("cushion", (0.06, 0.06, 0.06), (0.22, 0.06, 0.04), 0.004, yaw=0.5)
        return
    for k, finish in enumerate(("bright", "wood", "bright2")):
        b.box(finish, (0.16, 0.08, 0.09), (0.2 * (k - 1), 0.03, 0), 0.008)
        for x in (-0.05, 0.05):
            for z in (-0.05, 0.05):
                b.lathe(
                    "black", [(0.026, -0.008), (0.026, 0.008), (0, 0.008)], (0.2 * (k - 1) + x, 0.026, z), 8, pitch=1.57
                )
    b.cylinder("black", 0.022, 0.07, (-0.25, 0.11, 0), 8)


def boxes(b: Builder) -> None:
    """Build two cardboard boxes, one on the other, taped."""
    b.box("wood2", (0.46, 0.32, 0.36), (0, 0, 0), 0.003)
    b.box("paper", (0.46, 0.002, 0.05), (0, 0.32, 0))
    b.box("paper", (0.34, 0.24, 0.28), (0.03, 0.322, -0.02), 0.003, yaw=0.25)
    b.box("wood", (0.34, 0.002, 0.04), (0.03, 0.562, -0.02), yaw=0.25)


def books(b: Builder) -> None:
    """Build a stack of books on the floor."""
    height = 0.0
    for k, finish in enumerate(("bright", "paper", "bright2", "blanket", "cushion", "paper", "towel")):
        thick = 0.025 + 0.012 * (k % 3)
        b.box(
            finish, (0.22 - 0.012 * (k % 2), thick, 0.16), (0.01 * (k % 3), height, 0), 0.003, yaw=0.25 * np.sin(3 * k)
        )
        height += thick


def bag(b: Builder) -> None:
    """Build a rucksack that leans back."""
    b.cushion("bright2", (0.32, 0.46, 0.18), (0, 0, 0), 0.07, 0.0, pitch=-0.12)
    b.cushion("bright2", (0.24, 0.20, 0.08), (0, 0.05, 0.11), 0.035, 0.0, pitch=-0.12)
    b.bar("black", [(-0.05, 0.44, -0.05), (0, 0.51, -0.06), (0.05, 0.44, -0.05)], 0.01, 5)


def waste_bin(b: Builder) -> None:
    """Build a waste bin, open at the top."""
    b.lathe(
        "grey", [(0, 0.005), (0.11, 0.005), (0.11, 0), (0.14, 0.30), (0.13, 0.30), (0.105, 0.02), (0, 0.02)], fine=18
    )


def clothes(b: Builder) -> None:
    """Build clothes dropped on the floor."""
    for k, finish in enumerate(("chair", "blanket", "cushion")):
        b.cushion(finish, (0.42 - 0.06 * k, 0.07, 0.30), (0.06 * k, 0.05 * k, 0.04 * k), 0.03, 0.0, yaw=0.7 * k)


def bottles(b: Builder) -> None:
    """Build a crate of bottles."""
    for side in (-1, 1):
        b.box("wood", (0.40, 0.20, 0.014), (0, 0, side * 0.14), 0.002)
        b.box("wood", (0.014, 0.20, 0.28), (side * 0.193, 0, 0), 0.002)
    b.box("wood", (0.38, 0.012, 0.27), (0, 0, 0))
    profile = [(0.036, 0.012), (0.036, 0.18), (0.012, 0.25), (0.012, 0.29), (0, 0.29)]
    for k in range(6):
        b.lathe("leaf2" if k % 2 else "glass", profile, (0.12 * (k % 3 - 1), 0, 0.13 * (k // 3) - 0.065), fine=10)


def tableware(b: Builder, top: float = 0.752) -> None:
    """Build a plate, a glass, a fork and a knife on a table ``top`` metres high."""
    b.lathe("ceramic", [(0.07, 0.0), (0.125, 0.018), (0.12, 0.018), (0.075, 0.006), (0, 0.006)], (0, top, 0), fine=20)
    b.lathe("glass", [(0.028, 0.0), (0.036, 0.11), (0.033, 0.11), (0, 0.01)], (0.14, top, 0.12), fine=12)
    for side in (-1, 1):
        b.box("chrome", (0.018, 0.004, 0.19), (side * 0.165, top, -0.01))
