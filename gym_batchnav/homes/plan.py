"""Floor plans: rooms of given kinds on one or two storeys, with walls, doors and windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gym_batchnav.homes.build import transform
from gym_batchnav.homes.cells import DOOR_WIDTH, INNER_WALL, Cell, Division, divide, shared_line
from gym_batchnav.homes.programme import choose_rooms
from gym_batchnav.homes.stairs import SLAB, Stairs

DOOR_HEIGHT = 2.10  # metres, clear
OUTER_WALL = 0.25  # metres
FENCE = 0.9  # metres, height of the walls round a yard
_PROGRAMMES = 8  # choices of rooms to try, since some cannot be laid out
JAMB = 0.03  # metres, thickness of the lining inside an opening
_WINDOWS = {  # width, sill and top, metres
    "living": (1.8, 0.85, 2.25),
    "bedroom": (1.4, 0.85, 2.2),
    "study": (1.3, 0.85, 2.2),
    "kitchen": (1.2, 1.08, 2.2),
    "bath": (0.6, 1.40, 2.1),
    "hall": (0.9, 0.85, 2.2),
}


class Opening(NamedTuple):
    """A hole in a wall, in the wall's own frame (u along the wall, 0 at its middle)."""

    kind: str  # door, wide, window or entrance
    u0: float
    u1: float
    y0: float
    y1: float
    depth: float  # metres through the wall
    owner: bool  # whether this side builds the frame
    hinge: int  # -1 or 1: the leaf hangs at u0 or at u1
    closed: bool = False  # whether the door stands closed


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

    def matrix(self, u: float = 0.0, out: float = 0.0) -> np.ndarray:
        """Return the matrix [4, 4] from the frame of a point ``out`` metres in front of the wall to the world."""
        return transform(tuple(self.point(u, out)), self.yaw)

    def point(self, u: float, out: float = 0.0, y: float = 0.0) -> np.ndarray:
        """Return a point of the wall in the world [3], metres."""
        cos = (1, 0, -1, 0)[self.side]
        sin = (0, 1, 0, -1)[self.side]
        return np.array([self.middle[0] + cos * u + sin * out, y, self.middle[1] - sin * u + cos * out])

    def along(self, x: float, z: float) -> float:
        """Return the coordinate u of a point of the world."""
        cos = (1, 0, -1, 0)[self.side]
        sin = (0, 1, 0, -1)[self.side]
        return cos * (x - self.middle[0]) - sin * (z - self.middle[1])


@dataclass(frozen=True, slots=True)
class Room:
    """A room: its kind, its name and its inner faces; heights in it count from the floor of its storey."""

    kind: str
    name: str
    bounds: Cell  # metres, between the faces of its walls
    walls: tuple[Wall, ...]
    storey: int
    height: float  # metres, of the ceiling; a stairwell reaches through two storeys

    @property
    def size(self) -> tuple[float, float]:
        """Extent along x and z, metres."""
        return self.bounds[2] - self.bounds[0], self.bounds[3] - self.bounds[1]

    @property
    def area(self) -> float:
        """Square metres between the walls."""
        return self.size[0] * self.size[1]


class Door(NamedTuple):
    """A door between two rooms, a wide opening, or the front door."""

    rooms: tuple[int, ...]  # positions; the front door's is -1
    center: tuple[float, float]  # x and z, metres
    axis: str  # "x" or "z", across the wall
    width: float  # metres, clear
    height: float  # metres, clear
    storey: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The rooms of all storeys, their walls and the doors between them."""

    rooms: tuple[Room, ...]
    height: float  # metres, of a ceiling over its floor
    storeys: int
    extent: tuple[float, float]  # metres, the inside of the outer walls, from (0, 0)
    doors: tuple[Door, ...]

    @property
    def rise(self) -> float:
        """From floor to floor, metres."""
        return self.height + SLAB

    def floor(self, storey: int) -> float:
        """Return the height of a storey's floor, metres."""
        return storey * self.rise

    @property
    def stairs(self) -> tuple[Wall, Stairs] | None:
        """The wall that the stairwell is entered through and the size of the space behind it, if there is one."""
        for room in self.rooms:
            if room.kind == "stairs":
                entry = next(wall for wall in room.walls if any(o.kind == "wide" for o in wall.openings))
                depth = room.size[0] if entry.side % 2 else room.size[1]
                return entry, Stairs(entry.length, depth, self.rise)
        return None


def make_plan(rng: np.random.Generator, area: float, storeys: int, closed_doors: int | None = None) -> Plan:
    """Draw a floor plan.

    Args:
        rng: Random stream.
        area: Target of the total floor area between walls, square metres.
        storeys: 1 or 2.
        closed_doors: Number of closed doors, limited to rooms with a single door; None draws the number.

    Raises:
        RuntimeError: If no plan was found.
    """
    attempts = (divide(rng, choose_rooms(rng, area, storeys)) for _ in range(_PROGRAMMES))
    divisions = next((found for found in attempts if found is not None), None)
    if divisions is None:
        raise RuntimeError(f"no floor plan of {area:g} square metres was found: try another seed or area")
    closed = _choose_closed(rng, divisions, closed_doors)
    height = float(rng.choice([2.5, 2.55, 2.6, 2.7]))
    rooms: list[Room] = []
    doors = []
    for storey, division in enumerate(divisions):
        places = add_rooms(rooms, division, storey, height, len(divisions))
        for link in division.links:
            line = shared_line(division.cells[link[0]], division.cells[link[1]])
            pair = (places[link[0]], places[link[1]])
            doors.append(_add_door(rng, rooms, pair, line, storey, height, (storey, link) in closed))
    doors.append(_add_entrance(rooms[next((i for i, room in enumerate(rooms) if room.kind == "hall"), 0)]))
    for room in rooms:
        _add_windows(rng, room, height)
    return Plan(tuple(rooms), height, storeys, divisions[0].extent, tuple(doors))


def _choose_closed(
    rng: np.random.Generator, divisions: tuple[Division, ...], count: int | None
) -> set[tuple[int, tuple[int, int]]]:
    """Return the doors to close, as (storey, link); each leads to a room without another door."""
    ends = []
    for storey, division in enumerate(divisions):
        for link in division.links:
            kinds = {division.kinds[i] for i in link}
            single = sum(link[1] in other for other in division.links) == 1
            if single and "stairs" not in kinds and kinds != {"living", "kitchen"} and kinds != {"living", "hall"}:
                ends.append((storey, link))
    random_count = int(rng.choice(3, p=[0.65, 0.27, 0.08]))
    order = rng.permutation(len(ends))
    return {ends[i] for i in order[: random_count if count is None else count]}


def add_rooms(rooms: list[Room], division: Division, storey: int, height: float, storeys: int) -> list[int]:
    """Add the rooms of a storey; returns the position of each, where a stairwell is that of the storey below."""
    half = INNER_WALL / 2
    extent = division.extent
    places = []
    for kind, (x0, z0, x1, z1) in zip(division.kinds, division.cells, strict=True):
        if kind == "stairs" and storey:
            places.append(next(i for i, room in enumerate(rooms) if room.kind == "stairs"))
            continue
        outer = (z0 == 0, x0 == 0, z1 == extent[1], x1 == extent[0])
        x0 = x0 + half * (not outer[1])
        z0 = z0 + half * (not outer[0])
        x1 = x1 - half * (not outer[3])
        z1 = z1 - half * (not outer[2])
        x = (x0 + x1) / 2
        z = (z0 + z1) / 2
        middles = ((x, z0), (x0, z), (x, z1), (x1, z))
        lengths = (x1 - x0, z1 - z0, x1 - x0, z1 - z0)
        walls = tuple(Wall(k, lengths[k], middles[k], outer[k]) for k in range(4))
        number = 1 + sum(room.kind == kind for room in rooms)
        tall = height if kind != "stairs" else height + (storeys - 1) * (height + SLAB)
        places.append(len(rooms))
        rooms.append(Room(kind, f"{kind}_{number}", (x0, z0, x1, z1), walls, storey, tall))
    return places


def _add_door(
    rng: np.random.Generator,
    rooms: list[Room],
    pair: tuple[int, int],
    shared: tuple[int, float, float, float],
    storey: int,
    height: float,
    closed: bool,
) -> Door:
    """Open a door, or a wide opening, in the walls of two rooms along the line that they share."""
    axis, line, low, high = shared
    kinds = {rooms[i].kind for i in pair}
    wide = (kinds == {"living", "kitchen"} and high - low > 2.4) or "stairs" in kinds
    width = min(1.9, high - low - (0.6 if "stairs" in kinds else 1.0)) if wide else DOOR_WIDTH
    margin = 0.22 + INNER_WALL / 2 + width / 2
    spots = [low + margin, high - margin]
    if wide or rng.random() < 0.2:
        spots.append((low + high) / 2)
    place = (low + high) / 2 if "stairs" in kinds else spots[int(rng.integers(len(spots)))]
    nearer = low if place - low < high - place else high
    x, z = (line, place) if axis == 0 else (place, line)
    corner_x, corner_z = (line, nearer) if axis == 0 else (nearer, line)
    for i, owner in zip(pair, (True, False), strict=True):
        wall = min(rooms[i].walls, key=lambda w: abs(w.middle[axis] - line) + 100 * (w.side % 2 == axis))
        u = wall.along(x, z)
        corner = wall.along(corner_x, corner_z)
        sill = (storey - rooms[i].storey) * (height + SLAB)
        ends = (u - width / 2, u + width / 2, sill, sill + DOOR_HEIGHT)
        kind = "wide" if wide else "door"
        hinge = 1 if corner > u else -1
        wall.openings.append(Opening(kind, *ends, INNER_WALL, owner, hinge, closed))
    return Door(pair, (x, z), "xz"[axis], width, DOOR_HEIGHT, storey, closed)


def _add_entrance(room: Room) -> Door:
    """Put the closed front door into an outer wall."""
    walls = [wall for wall in room.walls if wall.outer and not wall.openings and wall.length >= 1.2]
    wall = min(walls or [w for w in room.walls if w.outer], key=lambda w: w.length)
    u = 0.0 if wall.length < 2.5 else wall.length / 2 - 0.75
    wall.openings.append(Opening("entrance", u - 0.45, u + 0.45, 0.0, DOOR_HEIGHT, 0.10, True, 1, True))
    x, _, z = wall.point(u)
    return Door((-1,), (float(x), float(z)), "zx"[wall.side % 2], DOOR_WIDTH, DOOR_HEIGHT, 0, True)


def _add_windows(rng: np.random.Generator, room: Room, height: float) -> None:
    """Open windows in the outer walls of a room, by the use of the room."""
    if room.kind == "stairs":
        entry = next(wall.side for wall in room.walls if wall.openings)
        far = room.walls[(entry + 2) % 4]
        if far.outer:
            low = (room.height - height) / 2 + 0.9  # Over the half landing.
            far.openings.append(Opening("window", -0.5, 0.5, low, low + 1.2, OUTER_WALL - 0.07, True, 1))
        return
    width, sill, top = _WINDOWS[room.kind]
    if room.kind == "living" and rng.random() < 0.4:
        sill = 0.45
    walls = [wall for wall in room.walls if wall.outer and not wall.openings]
    walls.sort(key=lambda wall: -wall.length)
    for wall in walls[: 2 if room.kind == "living" or room.area > 24.0 else 1]:
        count = 1 if room.kind in ("bath", "hall") or wall.length < 5.2 else 2
        size = min(width, wall.length / count - (0.5 if room.kind == "hall" else 0.9)) if room.kind != "bath" else width
        if size < 0.5:
            continue
        for k in range(count):
            u = (k - (count - 1) / 2) * wall.length / count
            wall.openings.append(Opening("window", u - size / 2, u + size / 2, sill, top, OUTER_WALL - 0.07, True, 1))
