"""The room programme of a home of a given size: its storeys, their rooms, and the target area of each."""

from __future__ import annotations

import numpy as np

MIN_AREA = 25.0  # square metres
LARGEST_AREA = 400.0
MIN_AREA_OF_TWO = 120.0  # square metres, of a home with two storeys
LARGEST_CUT = 100.0  # square metres, of a storey that is cut freely; larger ones have a corridor
Rooms = tuple[tuple[str, float], ...]  # kind and area asked for, square metres

_AREA = {"living": 25.0, "kitchen": 12.0, "bedroom": 14.5, "bath": 6.0, "hall": 7.5, "study": 11.0}
_SMALL = (  # up to this area: these rooms
    (41.0, ("living", "bath", "hall")),
    (49.0, ("living", "bedroom", "bath")),
    (59.0, ("living", "kitchen", "bedroom", "bath")),
    (74.0, ("living", "kitchen", "bedroom", "bath", "hall")),
    (LARGEST_CUT, ("living", "kitchen", "bedroom", "bath", "hall", "bedroom")),
)
# Rooms along a corridor: the first ones always, the others one by one as the area grows.
_MANY = ("living", "bedroom", "bath", "study", "bedroom", "bath")
_FLAT = (3, ("living", "kitchen", "bedroom", "bath", "bedroom", "bedroom", "bath", "study", "bedroom", "bath", *_MANY))
_GROUND = (3, ("living", "kitchen", "bath", "study", "bedroom", "bath", "living", "bedroom", "study"))
_UPPER = (2, ("bedroom", "bath", "bedroom", "bedroom", "bath", "study", "bedroom", "bath", "bedroom"))
_SPACIOUS = 1.3  # how much larger than usual rooms may be before there is one more
_CORRIDOR_SHARE = 0.14  # of a storey
STAIRS = 10.0  # square metres, the stairwell


def choose_area(rng: np.random.Generator) -> float:
    """Draw a size: mostly 45 to 120 square metres, some studios, some large homes."""
    kind, place = rng.random(2)
    if kind < 0.12:
        return float(MIN_AREA + 20 * place)
    if kind < 0.88:
        return float(45 + 75 * place)
    return float(120 * (LARGEST_AREA / 120) ** place)


def choose_storeys(rng: np.random.Generator, area: float) -> int:
    """Draw one storey or two; the larger the home, the sooner two."""
    return 1 + int(area >= MIN_AREA_OF_TWO and rng.random() < (0.35 if area < 180 else 0.85))


def choose_rooms(rng: np.random.Generator, area: float, storeys: int) -> tuple[Rooms, ...]:
    """Return the rooms of every storey, from the ground up, with their target areas, without the stairwell.

    Args:
        rng: Random stream.
        area: Floor area of all rooms and the stairwell, square metres.
        storeys: 1 or 2.
    """
    if storeys == 2:
        return _fill(_GROUND, (area - STAIRS) / 2), _fill(_UPPER, (area - STAIRS) / 2)
    if area > LARGEST_CUT:
        return (_fill(_FLAT, area),)
    blurred = area * float(rng.uniform(0.94, 1.06))
    kinds = next((kinds for limit, kinds in _SMALL if blurred <= limit), _SMALL[-1][1])
    asked = np.array([_AREA[kind] for kind in kinds])
    if "kitchen" not in kinds:
        asked[0] += 9.0  # The living room holds the kitchen.
    if "bedroom" not in kinds:
        asked = np.array([25.0, 6.0, 4.6])  # One room to live, cook and sleep in; the others are small.
    return (_scaled(kinds, asked, area),)


def _fill(order: tuple[int, tuple[str, ...]], area: float) -> Rooms:
    """Return a hall and as many rooms of a list as fit into an area."""
    count, kinds = order
    inside = area * (1 - _CORRIDOR_SHARE)
    while count < len(kinds) and sum(_AREA[kind] for kind in kinds[:count]) * _SPACIOUS < inside:
        count += 1
    chosen = kinds[:count]
    rooms = _scaled(chosen, np.array([_AREA[kind] for kind in chosen]), inside)
    return (*rooms, ("hall", area - inside))


def _scaled(kinds: tuple[str, ...], asked: np.ndarray, area: float) -> Rooms:
    """Scale the areas of rooms to a total, in proportion to their target areas."""
    return tuple((kind, float(size)) for kind, size in zip(kinds, asked * area / asked.sum(), strict=True))
