"""The layout of a room: footprints of furniture, with doors kept clear and the whole floor reachable."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gym_batchnav.homes.build import Builder, Solid, transform
from gym_batchnav.homes.finishes import Finish
from gym_batchnav.homes.plan import Plan, Room, Wall
from gym_batchnav.homes.walls import CASING

Rect = tuple[float, float, float, float]  # x0, z0, x1, z1, metres
_GRID = 0.1  # metres, cells of the walking check
_FLAT = 0.02  # metres, the height up to which a piece is a rug
_CORRIDOR = 0.28  # metres, half the width of the paths between furniture that must stay free


@dataclass(frozen=True, slots=True)
class Prototype:
    """A piece of furniture: the function that builds it and a unique key."""

    key: str
    build: Callable[[Builder], None]


class Piece(NamedTuple):
    """A prototype placed in a room."""

    prototype: Prototype
    kind: str
    room: int
    matrix: np.ndarray  # [4, 4]
    rect: Rect  # footprint in the world
    low: float  # metres, height of the lowest point
    high: float  # metres, height of the highest point


class Catalogue:
    """A cache of prototypes, each built once per level of detail.

    Args:
        finishes: Finishes of the apartment.
        stream: Returns the random stream of a name.
    """

    def __init__(self, finishes: dict[str, Finish], stream: Callable[[str], np.random.Generator]) -> None:
        self.finishes = finishes
        self.stream = stream
        self._bounds: dict[str, np.ndarray] = {}
        self._solids: dict[tuple[str, float], Solid] = {}

    def solid(self, prototype: Prototype, level: float) -> Solid:
        """Return the prototype at a level of detail."""
        key = (prototype.key, level)
        if key not in self._solids:
            builder = Builder(self.finishes, level, self.stream(prototype.key))
            prototype.build(builder)
            self._solids[key] = builder.solid()
        return self._solids[key]

    def bounds(self, prototype: Prototype) -> np.ndarray:
        """Return the smallest and largest corner of the prototype [2, 3], metres."""
        if prototype.key not in self._bounds:
            vertices = self.solid(prototype, 0.5).vertices
            self._bounds[prototype.key] = np.stack([vertices.min(axis=0), vertices.max(axis=0)])
        return self._bounds[prototype.key]


def overlap(a: Rect, b: Rect, margin: float = 0.0) -> bool:
    """Return whether two rectangles overlap, or come closer than ``margin``."""
    return a[0] < b[2] + margin and b[0] < a[2] + margin and a[1] < b[3] + margin and b[1] < a[3] + margin


def placed_rect(bounds: np.ndarray, matrix: np.ndarray) -> Rect:
    """Return the footprint of a box [2, 3] moved by a matrix [4, 4]."""
    corners = np.array([(x, 0, z) for x in bounds[:, 0] for z in bounds[:, 2]]) @ matrix[:3, :3].T + matrix[:3, 3]
    return (
        float(corners[:, 0].min()),
        float(corners[:, 2].min()),
        float(corners[:, 0].max()),
        float(corners[:, 2].max()),
    )


@dataclass(slots=True)
class RoomLayout:
    """The pieces of one room and the floor that must stay free of them."""

    plan: Plan
    index: int
    catalogue: Catalogue
    rng: np.random.Generator
    pieces: list[Piece] = field(default_factory=list)
    clear: list[Rect] = field(default_factory=list)  # nothing may stand here
    access: list[Rect] = field(default_factory=list)  # the room in front of pieces
    doorsteps: list[tuple[float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Keep 0.9 m in front of every door clear."""
        for wall in self.room.walls:
            for opening in wall.openings:
                if opening.kind == "window":
                    continue
                edge = CASING + 0.01
                a = wall.point(opening.u0 - edge, 0.0)
                c = wall.point(opening.u1 + edge, 0.9)
                self.clear.append((*np.minimum(a, c)[[0, 2]].tolist(), *np.maximum(a, c)[[0, 2]].tolist()))
                step = wall.point((opening.u0 + opening.u1) / 2, 0.45)
                self.doorsteps.append((float(step[0]), float(step[2])))

    @property
    def room(self) -> Room:
        """The room."""
        return self.plan.rooms[self.index]

    def at_wall(self, prototype: Prototype, wall: Wall, u: float, gap: float = 0.015) -> np.ndarray:
        """Return the matrix that puts the back of a prototype at a wall, its middle at ``u``."""
        bounds = self.catalogue.bounds(prototype)
        return wall.matrix(u - float(bounds[:, 0].mean()), gap - float(bounds[0, 2]))

    def fits(self, prototype: Prototype, matrix: np.ndarray, margin: float = 0.02, ignore_access: bool = False) -> bool:
        """Return whether a prototype can stand here: inside the room, clear of pieces, doors, windows and accesses."""
        bounds = self.catalogue.bounds(prototype)
        rect = placed_rect(bounds, matrix)
        low, high = bounds[:, 1] + matrix[1, 3]
        r = self.room.bounds
        if rect[0] < r[0] + 0.001 or rect[1] < r[1] + 0.001 or rect[2] > r[2] - 0.001 or rect[3] > r[3] - 0.001:
            return False
        flat = high < _FLAT
        for piece in self.pieces:
            if flat != (piece.high < _FLAT):
                continue  # Furniture stands on rugs.
            if low < piece.high and piece.low < high and overlap(rect, piece.rect, margin):
                return False
        if low < 2.0 and not flat and any(overlap(rect, zone) for zone in self.clear):
            return False
        if not ignore_access and low < 1.2 and not flat and any(overlap(rect, zone) for zone in self.access):
            return False
        return not any(self._blocks(wall, rect, low, high) for wall in self.room.walls)

    def _blocks(self, wall: Wall, rect: Rect, low: float, high: float) -> bool:
        """Return whether a box stands directly in front of a door or a window of a wall."""
        for opening in wall.openings:
            edge = 0.03 if opening.kind == "window" else CASING + 0.02
            a = wall.point(opening.u0 - edge, 0.0)
            c = wall.point(opening.u1 + edge, 0.25)
            zone = (*np.minimum(a, c)[[0, 2]].tolist(), *np.maximum(a, c)[[0, 2]].tolist())
            if overlap(rect, zone) and low < opening.y1 + 0.1 and high > opening.y0 + 0.12:
                return True
        return False

    def place(
        self, prototype: Prototype, kind: str, matrix: np.ndarray, access: float = 0.0, check: bool = True
    ) -> Piece | None:
        """Place a prototype unless it would cut off a part of the floor.

        Args:
            prototype: The prototype to place.
            kind: Name of the piece without a number.
            matrix: [4, 4], from the prototype's frame to the room's.
            access: Depth of the floor in front of it to keep free of other furniture, metres.
            check: Whether the floor has to stay in one part.
        """
        bounds = self.catalogue.bounds(prototype)
        low, high = (bounds[:, 1] + matrix[1, 3]).tolist()
        piece = Piece(prototype, kind, self.index, matrix, placed_rect(bounds, matrix), low, high)
        zone = None
        if access:
            front = np.array([[bounds[0, 0], 0, bounds[1, 2]], [bounds[1, 0], 0, bounds[1, 2] + access]])
            zone = placed_rect(front, matrix)
            if any(p.low < 1.2 and p.high > _FLAT and overlap(zone, p.rect) for p in self.pieces):
                return None
        self.pieces.append(piece)
        if check and low < 1.6 and high > 0.05 and not self.walkable():
            self.pieces.pop()
            return None
        if zone is not None:
            self.access.append(zone)
        return piece

    def along_walls(
        self,
        prototype: Prototype,
        kind: str,
        walls: Iterable[Wall] | None = None,
        prefer: str = "any",
        access: float = 0.5,
        gap: float = 0.015,
    ) -> Piece | None:
        """Put a prototype against a wall where it fits.

        Args:
            prototype: The prototype to place.
            kind: Name of the piece without a number.
            walls: The walls to try; all by default.
            prefer: ``"middle"`` of the wall, ``"corner"``, ``"nook"`` (only in a corner), or ``"any"``.
            access: Depth of the floor in front of it to keep free, metres.
            gap: Distance from the wall, metres.
        """
        bounds = self.catalogue.bounds(prototype)
        half = float(np.ptp(bounds[:, 0])) / 2
        candidates = []
        for wall in self.room.walls if walls is None else walls:
            reach = wall.length / 2 - half - 0.02
            if reach < 0:
                continue
            for u in np.unique(np.concatenate([np.arange(-reach, reach, 0.12), [0.0, reach]])):
                aside = reach - abs(u)
                cost = {"middle": abs(u), "corner": aside, "nook": aside, "any": 0.0}[prefer]
                if prefer != "nook" or aside < 0.3:
                    candidates.append((cost + 0.6 * float(self.rng.random()), wall, float(u)))
        tries = 0
        for _, wall, u in sorted(candidates, key=lambda c: c[0]):
            matrix = self.at_wall(prototype, wall, u, gap)
            if self.fits(prototype, matrix):
                piece = self.place(prototype, kind, matrix, access)
                tries += 1
                if piece is not None:
                    return piece
                if tries == 8:
                    break
        return None

    def hang(self, prototype: Prototype, kind: str, wall: Wall, u: float) -> Piece | None:
        """Put a prototype on a wall above the floor, if nothing is in front of it there."""
        matrix = self.at_wall(prototype, wall, u, gap=0.012)
        return self.place(prototype, kind, matrix, check=False) if self.fits(prototype, matrix, 0.06) else None

    def stand_on(self, prototype: Prototype, kind: str, matrix: np.ndarray) -> Piece:
        """Put a prototype on, under or around other pieces without any check."""
        piece = self.place(prototype, kind, matrix, check=False)
        assert piece is not None
        return piece

    def try_stand(
        self, prototype: Prototype, kind: str, matrix: np.ndarray, margin: float = 0.02, ignore_access: bool = False
    ) -> bool:
        """Put a prototype down if it fits; return whether it did."""
        fits = self.fits(prototype, matrix, margin, ignore_access)
        if fits:
            self.stand_on(prototype, kind, matrix)
        return fits

    def walkable(self) -> bool:
        """Return whether paths 0.56 m wide connect all doors and nearly all of the free floor."""
        if not self.doorsteps:
            return True
        for radius, pocket in ((_CORRIDOR, 0.5), (0.12, 0.2)):
            free = self.free_floor(radius)
            x0, z0 = self.room.bounds[:2]
            cells = [(int((z - z0) / _GRID), int((x - x0) / _GRID)) for x, z in self.doorsteps]
            reached = flood(free, cells[0])
            if not all(reached[cell] for cell in cells):
                return False
            if (free & ~reached).sum() * _GRID**2 > pocket:
                return False
        return True

    def free_floor(self, radius: float) -> np.ndarray:
        """Return the cells [Z, X] of the room whose centre is at least ``radius`` from walls and furniture."""
        x0, z0, x1, z1 = self.room.bounds
        x = x0 + _GRID * (np.arange(int((x1 - x0) / _GRID)) + 0.5)
        z = (z0 + _GRID * (np.arange(int((z1 - z0) / _GRID)) + 0.5))[:, None]
        free = (x > x0 + radius) & (x < x1 - radius) & (z > z0 + radius) & (z < z1 - radius)
        for piece in self.pieces:
            if piece.low < 1.6 and piece.high > 0.05:
                a, b, c, d = piece.rect
                free &= ~((x > a - radius) & (x < c + radius) & (z > b - radius) & (z < d + radius))
        return free


def flood(free: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """Return the free cells that are connected to ``start`` across sides."""
    along_rows = _stretches(free)
    along_columns = _stretches(free.T).T
    reached = np.zeros_like(free)
    reached[start] = free[start]
    count = -1
    while count != (count := int(reached.sum())):
        for stretches in (along_rows, along_columns):
            met = np.zeros(free.size + 1, bool)
            met[stretches[reached]] = True
            reached = met[stretches] & free
    return reached


def _stretches(free: np.ndarray) -> np.ndarray:
    """Number the runs of free cells in every row, and return the number of every free cell."""
    begins = free.copy()
    begins[:, 1:] &= ~free[:, :-1]
    return np.cumsum(begins).reshape(free.shape)


def upright(at: tuple[float, float], yaw: float) -> np.ndarray:
    """Return the matrix [4, 4] that places an object at x, z, rotated by ``yaw`` radians."""
    return transform((at[0], 0.0, at[1]), yaw)
