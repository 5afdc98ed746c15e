"""Bathroom furniture: toilet, basin, bath tub, shower and accessories."""

from __future__ import annotations

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.homes.build import Builder
from gym_batchnav.homes.furniture.kitchen import tap


def toilet(b: Builder) -> None:
    """Build a toilet with cistern and lid."""
    b.lathe(
        "ceramic",
        [(0.13, 0), (0.11, 0.10), (0.12, 0.22), (0.19, 0.36), (0.20, 0.40), (0, 0.40)],
        (0, 0, 0.10),
        24,
        (0.95, 1.2),
    )
    b.lathe("trim", [(0.205, 0.40), (0.21, 0.42), (0.20, 0.435), (0, 0.438)], (0, 0, 0.10), 24, (0.93, 1.18))
    b.box("ceramic", (0.22, 0.36, 0.22), (0, 0, -0.15), 0.02)
    b.cushion("ceramic", (0.40, 0.40, 0.18), (0, 0.38, -0.25), 0.03)
    b.box("ceramic", (0.42, 0.025, 0.20), (0, 0.775, -0.24), 0.008)
    b.lathe("chrome", [(0.025, 0), (0.022, 0.01), (0, 0.012)], (0, 0.80, -0.24), 10)


def basin(b: Builder, width: float = 0.75) -> None:
    """Build a washbasin on a cabinet with two doors."""
    b.box("wood", (width - 0.04, 0.485, 0.42), (0, 0.26, -0.02), 0.006)
    for side in (-1, 1):
        b.box("front", (width / 2 - 0.03, 0.48, 0.016), (side * (width / 4 - 0.012), 0.28, 0.197), 0.004)
        b.box("chrome", (0.012, 0.12, 0.02), (side * 0.04, 0.52, 0.212))
    rim = width / 2
    bowl = (width / 2 - 0.10, 0.15)
    for side in (-1, 1):
        b.box("ceramic", (rim - bowl[0], 0.07, 0.46), (side * (rim + bowl[0]) / 2, 0.79, 0))
    b.box("ceramic", (2 * bowl[0], 0.07, 0.05), (0, 0.79, 0.205))
    b.box("ceramic", (2 * bowl[0], 0.07, 0.11), (0, 0.79, -0.175))
    steps = b.detail.segments(4, 2)
    t = np.linspace(-1, 1, 2 * steps + 1)
    x, z = np.meshgrid(t, t)
    depth = 0.79 + 0.065 * np.maximum(x**4, z**4) - 0.02 * (1 - x**2) * (1 - z**2)
    points = np.stack([x * bowl[0], depth, 0.03 - z * bowl[1]], axis=-1)
    b.add("ceramic", shapes.sheet(points), shade=0.82 + 0.18 * np.maximum(x**4, z**4).ravel())
    tap(b, (0, 0.86, -0.17), 0.17, 0.13)
    b.lathe(
        "bright",
        [(0.03, 0), (0.03, 0.11), (0.012, 0.12), (0.012, 0.15), (0, 0.15)],
        (width / 2 - 0.06, 0.86, -0.15),
        10,
    )


def bath_tub(b: Builder, length: float = 1.7) -> None:
    """Build a panelled bath tub, its long side against the wall, with taps at one end."""
    width = 0.75
    height = 0.58
    rim = 0.06
    for side in (-1, 1):
        b.box("ceramic", (length, height - 0.05, 0.02), (0, 0, side * (width / 2 - 0.02)), shade=0.95)
        b.box("ceramic", (0.02, height - 0.05, width - 0.06), (side * (length / 2 - 0.02), 0, 0))
        b.box("ceramic", (length, 0.05, rim), (0, height - 0.05, side * (width - rim) / 2), 0.012)
        b.box("ceramic", (rim, 0.05, width - 2 * rim), (side * (length - rim) / 2, height - 0.05, 0), 0.0)
    steps = b.detail.segments(5, 3)
    t = np.linspace(-1, 1, 2 * steps + 1)
    x, z = np.meshgrid(t, t)
    wall = np.maximum(np.abs(x) ** 8, np.abs(z) ** 6)
    points = np.stack(
        [
            x * (length / 2 - rim) * (0.90 + 0.10 * wall),
            0.14 + (height - 0.16) * wall,
            -z * (width / 2 - rim) * (0.86 + 0.14 * wall),
        ],
        axis=-1,
    )
    b.add("ceramic", shapes.sheet(points), shade=(0.72 + 0.28 * wall).ravel())
    b.bar(
        "chrome",
        [(length / 2 - 0.03, height, 0), (length / 2 - 0.03, height + 0.10, 0), (length / 2 - 0.16, height + 0.09, 0)],
        0.014,
        8,
    )
    for side in (-1, 1):
        b.cylinder("chrome", 0.022, 0.06, (length / 2 - 0.03, height, side * 0.10), 10)


def shower(b: Builder, side: float = 0.9) -> None:
    """Build a shower tray in a corner with a glass pane's frame, rail and head; its back is towards -z."""
    h = side / 2
    b.box("ceramic", (side, 0.05, side), (0, 0, 0), 0.01)
    b.lathe("chrome", [(0.05, 0.051), (0.045, 0.054), (0, 0.054)], (0, 0, 0), 14)
    for x, z in ((h - 0.012, h - 0.012), (-h + 0.012, h - 0.012), (h - 0.012, -h + 0.012)):
        b.box("chrome", (0.024, 2.0, 0.024), (x, 0.05, z))
    b.box("chrome", (side - 0.05, 0.03, 0.024), (0, 2.02, h - 0.012))
    b.box("chrome", (0.024, 0.03, side - 0.05), (h - 0.012, 2.02, 0))
    b.box("glass", (0.008, 1.94, side - 0.06), (h - 0.012, 0.07, 0))
    b.box("glass", (side * 0.45, 1.94, 0.008), (h - 0.025 - side * 0.225, 0.07, h - 0.012))
    bar = [(0, 0.95, -h + 0.04), (0, 2.12, -h + 0.04), (0, 2.16, -h + 0.10), (0, 2.16, -h + 0.30)]
    b.bar("chrome", bar, 0.012, 8)
    b.lathe("chrome", [(0, -0.03), (0.11, -0.025), (0.10, -0.01), (0.02, 0.01)], (0, 2.15, -h + 0.30), 18)
    b.box("chrome", (0.22, 0.05, 0.05), (0, 1.08, -h + 0.035), 0.01)


def towel_rail(b: Builder) -> None:
    """Build a heated ladder on the wall with a towel over it."""
    for side in (-1, 1):
        b.bar("trim", [(side * 0.24, 0.75, 0), (side * 0.24, 1.75, 0)], 0.014, 6)
    for k in range(9):
        b.bar("trim", [(-0.24, 0.80 + 0.11 * k, 0), (0.24, 0.80 + 0.11 * k, 0)], 0.010, 6)
    b.cushion("towel", (0.40, 0.55, 0.05), (0.0, 0.98, 0.015), 0.022)


def laundry_basket(b: Builder) -> None:
    """Build a wicker basket with its lid."""
    b.lathe("wood", [(0.17, 0), (0.21, 0.45), (0.22, 0.52), (0.21, 0.55), (0, 0.57)], fine=18)
    b.lathe("wood2", [(0.03, 0.56), (0.03, 0.59), (0, 0.60)], fine=8)


def roll_holder(b: Builder) -> None:
    """Build a roll of paper on the wall."""
    b.lathe(
        "trim",
        [(0.02, -0.05), (0.055, -0.05), (0.055, 0.05), (0.02, 0.05)],
        (0, 0.72, 0.03),
        14,
        pitch=np.pi / 2,
        yaw=np.pi / 2,
    )
    b.bar("chrome", [(-0.08, 0.76, -0.05), (-0.08, 0.72, 0.03), (0.06, 0.72, 0.03)], 0.007, 5)
