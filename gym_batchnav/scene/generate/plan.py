"""Floor plans: typed rooms that fill a rectangle, with doors between them and windows to the outside.

A plan is found by cutting the rectangle in two again and again at random, until a cut has rooms of good proportions
that can be joined the way homes are: every room off the hall (or the living room), the kitchen open to the living room.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gym_batchnav.scene.generate.build import transform

DOOR_WIDTH, DOOR_HEIGHT = 0.90, 2.10  # metres, clear
INNER_WALL, OUTER_WALL = 0.12, 0.25  # metres
JAMB = 0.03  # metres, thickness of the lining inside an opening
_KINDS = {
    3: ("living", "bedroom", "bath"),
    4: ("living", "kitchen", "bedroom", "bath"),
    5: ("living", "kitchen", "bedroom", "bath", "hall"),
    6: ("living", "kitchen", "bedroom", "bath", "hall", "bedroom"),
}
_AREA = {"living": (20, 30), "kitchen": (10, 14), "bedroom": (12, 17), "bath": (5, 7), "hall": (6, 9)}
_LEAST = {"living": 3.5, "kitchen": 2.5, "bedroom": 2.9, "bath": 1.8, "hall": 1.3}  # shorter side, metres
_SLIMMEST = {"living": 1.8, "kitchen": 2.0, "bedroom": 1.75, "bath": 2.5, "hall": 5.5}  # longer side / shorter side
_JOINED_TO = {  # by preference
    "kitchen": ("living", "hall"),
    "bedroom": ("hall", "living"),
    "bath": ("hall", "living", "bedroom"),
    "living": ("hall",),
}

Cell = tuple[float, float, float, float]  # x0, z0, x1, z1


class Opening(NamedTuple):
    """A hole in a wall, in the wall's own frame (u along the wall, 0 at its middle)."""

    kind: str  # door, wide, window or entrance
    u0: float
    u1: float
    y0: float
    y1: float
    depth: float  # metres through the wall
    owner: bool  # whether this side builds the frame
    hinge: int  # the side, -1 or 1, of the nearer corner


@dataclass(frozen=True, slots=True)
class Wall:
    """One side of a room: side 0 faces +z, 1 faces +x, 2 faces -z, 3 faces -x.

    Seen from inside, u grows to the right.
    """

    side: int
    length: float
    middle: tuple[float, float]  # x and z
    outer: bool
    openings: list[Opening] = field(default_factory=list)

    @property
    def yaw(self) -> float:
        """The turn from the wall's frame to the world, radians."""
        return self.side * np.pi / 2

    def matrix(self, u: float = 0.0, out: float = 0.0, y: float = 0.0) -> np.ndarray:
        """Matrix [4, 4] from the frame of a point on the wall, ``out`` metres in front of it, to the world."""
        return transform(tuple(self.point(u, out, y)), self.yaw)

    def point(self, u: float, out: float = 0.0, y: float = 0.0) -> np.ndarray:
        """[3], metres, in the world."""
        cos, sin = (1, 0, -1, 0)[self.side], (0, 1, 0, -1)[self.side]
        return np.array([self.middle[0] + cos * u + sin * out, y, self.middle[1] - sin * u + cos * out])

    def along(self, x: float, z: float) -> float:
        """The coordinate u of a point of the world."""
        cos, sin = (1, 0, -1, 0)[self.side], (0, 1, 0, -1)[self.side]
        return cos * (x - self.middle[0]) - sin * (z - self.middle[1])


@dataclass(frozen=True, slots=True)
class Room:
    """A room: its kind, its name and its inner faces."""

    kind: str
    name: str
    bounds: Cell  # metres, between the faces of its walls
    walls: tuple[Wall, ...]

    @property
    def size(self) -> tuple[float, float]:
        """Extent along x and z, metres."""
        return self.bounds[2] - self.bounds[0], self.bounds[3] - self.bounds[1]


@dataclass(frozen=True, slots=True)
class Plan:
    """The rooms, their walls and the doors between them."""

    rooms: tuple[Room, ...]
    height: float  # metres, of the ceiling
    extent: tuple[float, float]  # metres, the inside of the outer walls, from (0, 0)
    doors: tuple[dict[str, object], ...]  # rooms (positions), center [x, z], axis across the wall, width and height


def make_plan(rng: np.random.Generator, rooms: int | None) -> Plan:
    """Draw a floor plan.

    Args:
        rng: Random stream.
        rooms: 3 to 6, or None to draw the number too.

    Raises:
        ValueError: For another number of rooms.
    """
    if rooms is None:
        rooms = int(rng.choice([4, 5, 6], p=[0.2, 0.4, 0.4]))
    if rooms not in _KINDS:
        raise ValueError(f"rooms={rooms}: an apartment has 3 to 6 rooms")
    kinds = _KINDS[rooms]
    best: tuple[float, list[Cell], list[tuple[int, int]], tuple[float, float]] | None = None
    found = 0
    for _ in range(50_000):
        draws = rng.random(40).tolist()  # Enough for six areas and five cuts.
        areas = [low + draws.pop() * (high - low) for low, high in (_AREA[kind] for kind in kinds)]
        if "kitchen" not in kinds:
            areas[0] += 9.0  # The living room holds the kitchen.
        width = round((sum(areas) * (1.0 + 0.9 * draws.pop())) ** 0.5, 1)
        extent = (width, round(sum(areas) / width, 1))
        cells: list[Cell] = [(0.0, 0.0, 0.0, 0.0)] * len(kinds)
        if not _cut(draws, (0.0, 0.0, *extent), list(range(len(kinds))), areas, kinds, cells):
            continue
        links = _links(kinds, cells)
        if links is None:
            continue
        cost = _cost(kinds, cells, links, extent)
        if cost < np.inf:
            found += 1
            if best is None or cost < best[0]:
                best = (cost, cells, links, extent)
            if found == 5:
                break
    if best is None:
        raise RuntimeError(f"no floor plan found for {rooms} rooms: try another seed")
    return _finish(rng, kinds, best[1], best[2], best[3])


def _cut(
    draws: list[float], cell: Cell, members: list[int], areas: list[float], kinds: tuple[str, ...], out: list[Cell]
) -> bool:
    """Cut a cell among its members, in proportion to their areas; False once a room has bad proportions."""
    x0, z0, x1, z1 = cell
    short, long = sorted((x1 - x0, z1 - z0))
    if len(members) == 1:
        kind = kinds[members[0]]
        out[members[0]] = cell
        return short >= _LEAST[kind] + INNER_WALL and long <= _SLIMMEST[kind] * short
    if short < min(_LEAST[kinds[i]] for i in members) + INNER_WALL:
        return False
    order = sorted(members, key=lambda _: draws.pop())
    first = order[: 1 + int(draws.pop() * (len(order) - 1))]
    second = order[len(first) :]
    share = sum(areas[i] for i in first) / sum(areas[i] for i in members)
    if (x1 - x0 > z1 - z0) == (draws.pop() < 0.85):
        cut = round(x0 + share * (x1 - x0), 2)
        parts = ((x0, z0, cut, z1), (cut, z0, x1, z1))
    else:
        cut = round(z0 + share * (z1 - z0), 2)
        parts = ((x0, z0, x1, cut), (x0, cut, x1, z1))
    return _cut(draws, parts[0], first, areas, kinds, out) and _cut(draws, parts[1], second, areas, kinds, out)


def _shared(a: Cell, b: Cell) -> tuple[int, float, float, float]:
    """The line two cells share: its axis (0: x is constant), where it lies, and its interval; empty if they do not."""
    for axis in (0, 1):
        other = 1 - axis
        low, high = max(a[other], b[other]), min(a[other + 2], b[other + 2])
        for line, facing in ((a[axis + 2], b[axis]), (a[axis], b[axis + 2])):
            if line == facing and high > low:
                return axis, line, low, high
    return 0, 0.0, 0.0, 0.0


def _length(shared: tuple[int, float, float, float]) -> float:
    """Length of a shared line, metres."""
    return shared[3] - shared[2]


def _links(kinds: tuple[str, ...], cells: list[Cell]) -> list[tuple[int, int]] | None:
    """Pairs of rooms to join by doors so that all can be reached, or None."""
    room = DOOR_WIDTH + 0.5
    links = []
    hub = kinds.index("hall") if "hall" in kinds else kinds.index("living")
    for i, kind in enumerate(kinds):
        if i == hub:
            continue
        near = [
            (_JOINED_TO[kind].index(kinds[j]), j)
            for j in range(len(kinds))
            if kinds[j] in _JOINED_TO[kind] and _length(_shared(cells[i], cells[j])) >= room
        ]
        if not near:
            return None
        links.append((min(near)[1], i))
        if kind == "kitchen" and len(near) > 1:
            links.append((max(near)[1], i))  # A second door closes a loop.
    return links


def _outer_length(cell: Cell, extent: tuple[float, float]) -> float:
    """The longest side of a cell that lies outside, metres."""
    x0, z0, x1, z1 = cell
    along_x = (x1 - x0) if z0 == 0 or z1 == extent[1] else 0.0
    return max(along_x, (z1 - z0) if x0 == 0 or x1 == extent[0] else 0.0)


def _cost(
    kinds: tuple[str, ...], cells: list[Cell], links: list[tuple[int, int]], extent: tuple[float, float]
) -> float:
    """How far a plan is from a good one; infinite where a room that needs a window has no outer wall."""
    cost = 0.0
    for kind, cell in zip(kinds, cells, strict=True):
        outer = _outer_length(cell, extent)
        if kind in ("living", "bedroom", "kitchen") and outer < 2.0:
            return np.inf
        if kind == "hall" and outer < 1.35:
            return np.inf
        short, long = sorted((cell[2] - cell[0], cell[3] - cell[1]))
        cost += (long / short - 1) * (0.15 if kind == "hall" else 1.0)
    for a, b in links:
        if "bath" in (kinds[a], kinds[b]) and "bedroom" in (kinds[a], kinds[b]):
            cost += 2.0
    joined = {frozenset((kinds[a], kinds[b])) for a, b in links}
    return cost if frozenset(("living", "kitchen")) in joined or "kitchen" not in kinds else cost + 3.0


def _finish(
    rng: np.random.Generator,
    kinds: tuple[str, ...],
    cells: list[Cell],
    links: list[tuple[int, int]],
    extent: tuple[float, float],
) -> Plan:
    """Rooms with walls, doors and windows from the cells."""
    half = INNER_WALL / 2
    rooms = []
    for i, (kind, (x0, z0, x1, z1)) in enumerate(zip(kinds, cells, strict=True)):
        outer = (z0 == 0, x0 == 0, z1 == extent[1], x1 == extent[0])
        x0, z0 = x0 + half * (not outer[1]), z0 + half * (not outer[0])
        x1, z1 = x1 - half * (not outer[3]), z1 - half * (not outer[2])
        x, z = (x0 + x1) / 2, (z0 + z1) / 2
        middles = ((x, z0), (x0, z), (x, z1), (x1, z))
        lengths = (x1 - x0, z1 - z0, x1 - x0, z1 - z0)
        walls = tuple(Wall(k, lengths[k], middles[k], outer[k]) for k in range(4))
        number = kinds[: i + 1].count(kind)
        rooms.append(Room(kind, f"{kind}_{number}", (x0, z0, x1, z1), walls))
    doors = [_add_door(rng, rooms, cells, a, b) for a, b in links]
    entrance = _add_entrance(rooms[kinds.index("hall") if "hall" in kinds else 0])
    for room in rooms:
        _add_windows(rng, room)
    return Plan(tuple(rooms), float(rng.choice([2.5, 2.55, 2.6, 2.7])), extent, (*doors, entrance))


def _add_door(rng: np.random.Generator, rooms: list[Room], cells: list[Cell], a: int, b: int) -> dict[str, object]:
    """Open a door, or a wide opening between living room and kitchen, in the walls of both rooms."""
    axis, line, low, high = _shared(cells[a], cells[b])
    wide = {rooms[a].kind, rooms[b].kind} == {"living", "kitchen"} and high - low > 2.4
    width = min(1.9, high - low - 1.0) if wide else DOOR_WIDTH
    margin = 0.22 + INNER_WALL / 2 + width / 2
    spots = [low + margin, high - margin]
    if wide or rng.random() < 0.2:
        spots.append((low + high) / 2)
    place = spots[int(rng.integers(len(spots)))]
    nearer = low if place - low < high - place else high
    x, z = (line, place) if axis == 0 else (place, line)
    corner_x, corner_z = (line, nearer) if axis == 0 else (nearer, line)
    for i, owner in ((a, True), (b, False)):
        wall = min(rooms[i].walls, key=lambda w: abs(w.middle[axis] - line) + 100 * (w.side % 2 == axis))
        u, corner = wall.along(x, z), wall.along(corner_x, corner_z)
        kind = "wide" if wide else "door"
        hole = Opening(kind, u - width / 2, u + width / 2, 0.0, DOOR_HEIGHT, INNER_WALL, owner, 1 if corner > u else -1)
        wall.openings.append(hole)
    return {"rooms": (a, b), "center": (x, z), "axis": "xz"[axis], "width": width, "height": DOOR_HEIGHT}


def _add_entrance(room: Room) -> dict[str, object]:
    """Put the closed front door into an outer wall."""
    walls = [wall for wall in room.walls if wall.outer and not wall.openings and wall.length >= 1.2]
    wall = min(walls or [w for w in room.walls if w.outer], key=lambda w: w.length)
    u = 0.0 if wall.length < 2.5 else wall.length / 2 - 0.75
    wall.openings.append(Opening("entrance", u - 0.45, u + 0.45, 0.0, DOOR_HEIGHT, 0.10, True, 1))
    x, _, z = wall.point(u)
    axis = "zx"[wall.side % 2]
    return {"rooms": (-1,), "center": (float(x), float(z)), "axis": axis, "width": DOOR_WIDTH, "height": DOOR_HEIGHT}


def _add_windows(rng: np.random.Generator, room: Room) -> None:
    """Open windows in the outer walls of a room, by what the room is for."""
    sizes = {
        "living": (1.8, 0.45 if rng.random() < 0.4 else 0.85, 2.25),
        "bedroom": (1.4, 0.85, 2.2),
        "kitchen": (1.2, 1.08, 2.2),
        "bath": (0.6, 1.40, 2.1),
    }
    if room.kind not in sizes:
        return
    width, sill, top = sizes[room.kind]
    walls = [wall for wall in room.walls if wall.outer and not wall.openings]
    walls.sort(key=lambda wall: -wall.length)
    for wall in walls[: 2 if room.kind == "living" else 1]:
        count = 2 if wall.length > 5.2 and room.kind == "living" else 1
        size = min(width, wall.length / count - 0.9) if room.kind != "bath" else width
        if size < 0.5:
            continue
        for k in range(count):
            u = (k - (count - 1) / 2) * wall.length / count
            wall.openings.append(Opening("window", u - size / 2, u + size / 2, sill, top, OUTER_WALL - 0.07, True, 1))
