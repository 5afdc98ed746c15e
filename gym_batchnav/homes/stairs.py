"""Stairs: two flights with a half landing between them in a stairwell that opens to the hall of both storeys.

Everything is in the frame of the wall that the stairwell is entered through: u along it, y up, z into the stairwell.
The first flight rises along z where u is negative, the second comes back where it is positive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.homes.build import Builder

STAIRWELL = (2.3, 4.2)  # metres, least width and depth between its walls
SLAB = 0.25  # metres, thickness of the floor between storeys
_RISERS = 8  # of each flight
_TREAD = 0.27  # metres, depth of a step
_HALF_LANDING = 1.15  # metres deep
_SPINE = 0.12  # metres, thickness of the wall between the flights
_RAIL = 0.9  # metres, height of a handrail over the steps
_LIGHT = 0.85  # share of light on the flights

Quad = tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Stairs:
    """The measures of one stairwell, metres."""

    width: float
    depth: float
    rise: float  # from floor to floor

    @property
    def landing(self) -> float:
        """Depth of the two landings at the entrances."""
        return self.depth - _HALF_LANDING - self.run

    @property
    def run(self) -> float:
        """Depth of a flight."""
        return (_RISERS - 1) * _TREAD

    @property
    def flight(self) -> float:
        """Width of a flight."""
        return (self.width - _SPINE) / 2

    @property
    def riser(self) -> float:
        """Height of a step."""
        return self.rise / (2 * _RISERS)


def build_stairs(b: Builder, stairs: Stairs, wall: str) -> None:
    """Build landings, flights, the wall between them and the guard above them.

    Args:
        b: Receives them.
        stairs: Dimensions of the stairwell.
        wall: Finish of the wall between the flights.
    """
    half = stairs.width / 2
    inner = _SPINE / 2
    near = stairs.landing
    far = stairs.landing + stairs.run
    step = stairs.riser
    middle = stairs.rise / 2
    top = stairs.rise
    _level(b, "wood", (-half, far, half, stairs.depth), middle)
    _level(b, "floor", (-half, 0.0, half, near), top)
    _level(b, "ceiling", (-half, 0.0, half, near), top - SLAB, down=True)
    _upright(b, "trim", (-half, -inner), (top - SLAB, top), near, out=False)
    _upright(b, wall, (inner, half), (0.0, top - SLAB), near, out=True)
    for k in range(_RISERS):
        up = near + k * _TREAD
        back = far - k * _TREAD
        _upright(b, "trim", (-half, -inner), (k * step, (k + 1) * step), up, out=True)
        _upright(b, "trim", (inner, half), (middle + k * step, middle + (k + 1) * step), back, out=False)
        if k < _RISERS - 1:
            _level(b, "wood", (-half, up, -inner, up + _TREAD), (k + 1) * step)
            _level(b, "wood", (inner, back - _TREAD, half, back), middle + (k + 1) * step)
    _spine(b, stairs, wall)
    _rails(b, stairs)


def _spine(b: Builder, stairs: Stairs, wall: str) -> None:
    """Build the wall between the flights, whose upper edge follows the second flight."""
    inner = _SPINE / 2
    near = stairs.landing
    far = stairs.landing + stairs.run
    high = stairs.rise + _RAIL
    low = stairs.rise / 2 + _RAIL
    sides: tuple[Quad, ...] = (
        ((-inner, 0, near), (-inner, 0, far), (-inner, low, far), (-inner, high, near)),
        ((inner, 0, far), (inner, 0, near), (inner, high, near), (inner, low, far)),
        ((inner, 0, near), (-inner, 0, near), (-inner, high, near), (inner, high, near)),
        ((-inner, 0, far), (inner, 0, far), (inner, low, far), (-inner, low, far)),
    )
    for side in sides:
        _quad(b, wall, side)
    slope = float(np.arctan2(high - low, far - near))
    length = float(np.hypot(high - low, far - near))
    b.box("wood", (_SPINE + 0.03, 0.03, length + 0.04), (0, (high + low) / 2, (near + far) / 2), pitch=slope)


def _rails(b: Builder, stairs: Stairs) -> None:
    """Build a guard on the upper landing over the first flight, and a handrail on the wall of each flight."""
    inner = _SPINE / 2
    near = stairs.landing
    far = stairs.landing + stairs.run
    z = near - 0.04
    top = stairs.rise
    wide = stairs.flight
    centre = -inner - wide / 2
    b.box("wood", (wide, 0.045, 0.06), (centre, top + _RAIL, z), 0.008)
    b.box("trim", (wide, 0.04, 0.04), (centre, top + 0.06, z))
    count = round(wide / 0.13)
    for k in range(count):
        b.box("trim", (0.026, _RAIL - 0.1, 0.026), (centre + wide * ((k + 0.5) / count - 0.5), top + 0.1, z))
    reach = stairs.width / 2 - 0.06
    middle = stairs.rise / 2
    b.bar("wood", [(-reach, _RAIL, near), (-reach, middle + _RAIL, far)], 0.022, 8, caps=True)
    b.bar("wood", [(reach, middle + _RAIL, far), (reach, top + _RAIL, near)], 0.022, 8, caps=True)


def _quad(b: Builder, finish: str, corners: Quad) -> None:
    """Build a quadrilateral, counter-clockwise from its lower left corner."""
    lower_left, lower_right, upper_right, upper_left = corners
    b.add(
        finish, shapes.sheet(np.array([[lower_left, lower_right], [upper_left, upper_right]], np.float64)), shade=_LIGHT
    )


def _level(b: Builder, finish: str, rect: tuple[float, float, float, float], y: float, down: bool = False) -> None:
    """Build a horizontal rectangle (u0, z0, u1, z1) that faces up, or down."""
    u0, z0, u1, z1 = rect
    if down:
        _quad(b, finish, ((u0, y, z0), (u1, y, z0), (u1, y, z1), (u0, y, z1)))
    else:
        _quad(b, finish, ((u0, y, z1), (u1, y, z1), (u1, y, z0), (u0, y, z0)))


def _upright(b: Builder, finish: str, us: tuple[float, float], ys: tuple[float, float], z: float, out: bool) -> None:
    """Build an upright rectangle that faces ``out``, to the entrance, or away from it."""
    left, right = us[::-1] if out else us
    _quad(b, finish, ((left, ys[0], z), (right, ys[0], z), (right, ys[1], z), (left, ys[1], z)))
