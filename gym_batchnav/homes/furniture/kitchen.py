"""Kitchen units, about 0.6 m wide each, for rows along walls."""

from __future__ import annotations

from gym_batchnav.homes.build import Builder
from gym_batchnav.homes.furniture.decor import pot_plant

WORKTOP = 0.91  # metres, height of the worktop's upper side
DEPTH = 0.62  # metres, of a base unit with its worktop


def _carcass(b: Builder, width: float, top: bool = True) -> None:
    """Build plinth, body and worktop of a base unit."""
    b.box("black", (width, 0.10, DEPTH - 0.10), (0, 0, -0.05), shade=0.7)
    b.box("trim", (width, 0.77 if top else 0.62, DEPTH - 0.06), (0, 0.10, -0.03), shade=0.85)
    if top:
        b.box("stone", (width, 0.04, DEPTH), (0, WORKTOP - 0.04, 0), 0.003)


def _front(
    b: Builder, width: float, low: float, height: float, z: float = DEPTH / 2 - 0.05, level: bool = True
) -> None:
    """Build a door or drawer front with its handle."""
    b.box("front", (width - 0.006, height - 0.006, 0.02), (0, low, z), 0.004)
    if level:
        b.box("chrome", (min(0.16, width * 0.4), 0.014, 0.024), (0, low + height - 0.06, z + 0.02), 0.004)
    else:
        b.box("chrome", (0.014, 0.16, 0.024), (width / 2 - 0.05, low + height / 2, z + 0.02), 0.004)


def cupboard(b: Builder, width: float = 0.6, drawers: int = 1) -> None:
    """Build a base unit with a drawer over a door, or with three drawers."""
    _carcass(b, width)
    if drawers == 3:
        for low, height in ((0.11, 0.30), (0.41, 0.28), (0.69, 0.17)):
            _front(b, width, low, height)
    else:
        _front(b, width, 0.11, 0.57)
        _front(b, width, 0.69, 0.17)


def worktop_things(b: Builder, kind: int = 0) -> None:
    """Build objects on a worktop: a kettle and jars, a plant, or a knife block and a board."""
    if kind == 0:
        b.lathe("metal", [(0.08, 0), (0.085, 0.05), (0.07, 0.19), (0.03, 0.22), (0, 0.225)], (-0.12, WORKTOP, -0.1), 16)
        b.bar(
            "black",
            [(-0.05, WORKTOP + 0.05, -0.1), (0.0, WORKTOP + 0.12, -0.1), (-0.06, WORKTOP + 0.19, -0.1)],
            0.01,
            6,
        )
        for k in range(2):
            b.cylinder("bright", 0.05, 0.14 - 0.03 * k, (0.10 + 0.12 * k, WORKTOP, -0.14), 14)
            b.cylinder("wood", 0.052, 0.02, (0.10 + 0.12 * k, WORKTOP + 0.14 - 0.03 * k, -0.14), 14)
    elif kind == 1:
        pot_plant(b, (0, WORKTOP, -0.08), 0.32)
    else:
        b.box("wood2", (0.10, 0.22, 0.15), (-0.12, WORKTOP + 0.015, -0.12), 0.006, pitch=-0.2)
        for k in range(3):
            b.box("black", (0.018, 0.09, 0.025), (-0.15 + 0.03 * k, WORKTOP + 0.22, -0.16), pitch=-0.2)
        b.box("wood", (0.26, 0.36, 0.02), (0.12, WORKTOP + 0.003, -0.23), 0.005, pitch=-0.14)


def sink_unit(b: Builder, width: float = 0.8) -> None:
    """Build a base unit with a steel sink and a tap."""
    _carcass(b, width, top=False)
    for side in (-1, 1):
        _door_at(b, side * width / 4, width / 2)
        b.box("trim", (0.02, 0.15, DEPTH - 0.06), (side * (width / 2 - 0.01), 0.72, -0.03), shade=0.85)
    _front(b, width, 0.69, 0.17)
    bowl_x = width / 2 - 0.14
    bowl_z = 0.19
    for side in (-1, 1):
        b.box("stone", (width / 2 - bowl_x, 0.04, DEPTH), (side * (width / 2 + bowl_x) / 2, WORKTOP - 0.04, 0), 0.0)
        strip = DEPTH / 2 - bowl_z
        b.box("stone", (2 * bowl_x, 0.04, strip), (0, WORKTOP - 0.04, side * (bowl_z + strip / 2)), 0.0)
        b.box("metal", (0.01, 0.17, 2 * bowl_z), (side * (bowl_x - 0.005), WORKTOP - 0.165, 0), shade=0.85)
        b.box("metal", (2 * bowl_x, 0.17, 0.01), (0, WORKTOP - 0.165, side * (bowl_z - 0.005)), shade=0.85)
    b.box("metal", (2 * bowl_x - 0.02, 0.01, 2 * bowl_z - 0.02), (0, WORKTOP - 0.165, 0), shade=0.7)
    tap(b, (0, WORKTOP, -0.25), 0.28, 0.2)


def _door_at(b: Builder, x: float, width: float) -> None:
    """Build one of two doors side by side under a drawer."""
    b.box("front", (width - 0.006, 0.564, 0.02), (x, 0.11, DEPTH / 2 - 0.05), 0.004)
    b.box("chrome", (0.014, 0.16, 0.024), (0.8 * x, 0.48, DEPTH / 2 - 0.03), 0.004)


def tap(b: Builder, at: tuple[float, float, float], height: float, reach: float) -> None:
    """Build a bent tap with a lever."""
    x, y, z = at
    b.cylinder("chrome", 0.024, 0.03, at, 10)
    path = [(x, y, z), (x, y + 0.8 * height, z), (x, y + height, z + 0.3 * reach)]
    path += [(x, y + height, z + 0.8 * reach), (x, y + 0.8 * height, z + reach)]
    b.bar("chrome", path, 0.012, 8)
    b.bar("chrome", [(x + 0.015, y + 0.05, z), (x + 0.07, y + 0.09, z)], 0.008, 6)


def hob_unit(b: Builder, width: float = 0.6) -> None:
    """Build a base unit with an oven below and a glass hob with a pot on top."""
    _carcass(b, width)
    z = DEPTH / 2 - 0.05
    b.box("metal", (width - 0.006, 0.12, 0.02), (0, 0.745, z), 0.003)
    for k in range(4):
        knob = [(0.018, 0), (0.016, 0.02), (0, 0.022)]
        b.lathe("black", knob, (-0.18 + 0.12 * k, 0.805, z + 0.01), 8, pitch=1.5708)
    b.box("black", (width - 0.006, 0.60, 0.02), (0, 0.13, z), 0.004)
    b.box("chrome", (width - 0.14, 0.018, 0.03), (0, 0.66, z + 0.022), 0.005)
    b.panel("screen", (width - 0.16, 0.36), (0, 0.22, z + 0.0105))
    b.box("screen", (width - 0.04, 0.006, 0.50), (0, WORKTOP, 0.0), 0.002)
    for x, zz, r in ((-0.13, 0.12, 0.085), (0.14, 0.12, 0.07), (-0.13, -0.12, 0.07), (0.14, -0.12, 0.095)):
        b.lathe("grey", [(r, 0.0), (0.88 * r, 0.0001)], (x, WORKTOP + 0.0075, zz), 20)
    b.lathe(
        "metal", [(0.10, 0), (0.10, 0.13), (0.09, 0.13), (0.09, 0.11), (0, 0.11)], (0.14, WORKTOP + 0.008, -0.12), 20
    )
    for side in (-1, 1):
        handle = [(0.14 + side * 0.10, WORKTOP + 0.10, -0.14), (0.14 + side * 0.135, WORKTOP + 0.11, -0.12)]
        b.bar("black", [*handle, (0.14 + side * 0.10, WORKTOP + 0.10, -0.10)], 0.007, 5)


def fridge(b: Builder, height: float = 1.9) -> None:
    """Build a tall fridge with a freezer below."""
    b.box("metal", (0.60, height - 0.03, 0.60), (0, 0.03, -0.03), 0.008)
    split = 0.36 * height
    for low, high in ((0.05, split - 0.005), (split + 0.005, height - 0.01)):
        b.box("metal", (0.59, high - low, 0.05), (0, low, 0.30), 0.012)
    b.box("chrome", (0.02, 0.30, 0.035), (-0.24, split - 0.36, 0.34), 0.006)
    b.box("chrome", (0.02, 0.50, 0.035), (-0.24, split + 0.06, 0.34), 0.006)
    b.box("black", (0.54, 0.03, 0.5), (0, 0, -0.05))


def wall_cupboard(b: Builder, width: float = 0.6, shelf: bool = False) -> None:
    """Build a cupboard on the wall over the worktop, or an open shelf with crockery."""
    low = 1.45
    height = 0.70
    depth = 0.35
    if shelf:
        for y in (low + 0.05, low + 0.40):
            b.box("wood", (width - 0.02, 0.03, 0.24), (0, y, -0.05), 0.005)
            for k in range(max(2, int(width / 0.2))):
                x = -width / 2 + 0.12 + 0.19 * k
                finish = ("ceramic", "bright", "bright2", "paper")[int(b.rng.integers(4))]
                if x < width / 2 - 0.06:
                    b.lathe(finish, [(0.035, 0), (0.055, 0.09), (0.048, 0.09), (0, 0.02)], (x, y + 0.03, -0.04), 12)
        return
    b.box("trim", (width, height, depth - 0.02), (0, low, -0.01), 0.003, shade=0.92)
    b.box("front", (width - 0.006, height - 0.004, 0.02), (0, low + 0.002, depth / 2 - 0.01), 0.004)
    b.box("chrome", (0.014, 0.14, 0.024), (width / 2 - 0.05, low + 0.06, depth / 2 + 0.01), 0.004)


def hood(b: Builder, width: float = 0.6, ceiling: float = 2.5) -> None:
    """Build an extractor hood over the hob with its flue."""
    b.box("metal", (width, 0.07, 0.48), (0, 1.60, 0.0), 0.006)
    b.box("metal", (0.26, ceiling - 1.68, 0.26), (0, 1.67, -0.11), 0.004)


def splash_back(b: Builder, width: float = 2.4) -> None:
    """Build tiles on the wall between worktop and cupboards."""
    b.box("splash", (width, 0.54, 0.008), (0, WORKTOP, 0))


def washing_machine(b: Builder) -> None:
    """Build a washing machine with its round door."""
    b.box("ceramic", (0.60, 0.85, 0.58), (0, 0, -0.01), 0.012)
    b.box("grey", (0.56, 0.10, 0.012), (0, 0.73, 0.283), 0.003)
    b.lathe("chrome", [(0.20, 0), (0.20, 0.02), (0.15, 0.03)], (0, 0.40, 0.28), 24, pitch=1.5708)
    b.lathe("screen", [(0.155, 0.012), (0.08, 0.022), (0, 0.024)], (0, 0.40, 0.28), 24, pitch=1.5708)
    b.lathe("chrome", [(0.03, 0), (0.026, 0.025), (0, 0.026)], (0.15, 0.78, 0.288), 12, pitch=1.5708)
