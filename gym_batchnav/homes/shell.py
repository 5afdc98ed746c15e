"""The shell of a home: walls, floors, ceilings and stairs, on grids of a given cell size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gym_batchnav.homes import shapes
from gym_batchnav.homes.build import Builder, Solid, transform
from gym_batchnav.homes.cells import Cell
from gym_batchnav.homes.daylight import Daylight
from gym_batchnav.homes.plan import FENCE, OUTER_WALL, Plan, Room, Wall
from gym_batchnav.homes.stairs import build_stairs
from gym_batchnav.homes.walls import (
    DOORSTEP_LIGHT,
    corner_shade,
    frame,
    front_door,
    grid_lines,
    skirting,
    wall_face,
    wall_grid,
    window,
)

_OWN_FLOOR = ("kitchen", "bath", "corridor", "store", "yard")  # kinds of rooms with their own floor
_FLOOR_LIGHT = 0.86  # share of the light on walls, so that patches of sun stand out
Shading = Callable[[np.ndarray, np.ndarray], np.ndarray]  # x and z, metres -> share of light


def build_shell(
    plan: Plan,
    builder: Callable[[], Builder],
    cell: float,
    sun: np.ndarray,
    shading: Sequence[Shading],
    accents: dict[int, int],
) -> list[tuple[str, Solid]]:
    """Return the objects of the shell.

    Args:
        plan: Floor plan.
        builder: Makes an empty builder.
        cell: Largest side of a grid cell on walls, floors and ceilings, metres.
        sun: The way of the sunlight [3].
        shading: For every room, how much light furniture leaves on its floor.
        accents: The side of the accent wall by room.

    Returns:
        Names and solids.
    """
    objects: list[tuple[str, Solid]] = []
    counts = {"window": 0, "door_frame": 0}
    for i, room in enumerate(plan.rooms):
        walls = builder()
        floor = builder()
        ceiling = builder()
        daylight = Daylight(room, sun)
        lift = transform((0, plan.floor(room.storey), 0))
        for wall in room.walls:
            finish = f"wall_{room.kind}"
            if accents.get(i) == wall.side:
                finish = "wall_accent_bedroom" if room.kind == "bedroom" else "wall_accent"
            parts = builder()
            wall_face(parts, wall, wall_height(room, wall), cell, finish, daylight)
            if room.kind not in ("bath", "stairs", "yard"):
                skirting(parts, wall)
            walls.merge(parts.solid().placed(wall.matrix()))
            for opening in wall.openings:
                fitting = builder()
                if opening.kind == "window":
                    kind = "window"
                    window(fitting, opening, finish)
                elif opening.owner:
                    kind = "door_frame"
                    frame(fitting, opening, opening.kind != "entrance")
                    if opening.kind == "entrance":
                        front_door(fitting, opening)
                else:
                    continue
                counts[kind] += 1
                objects.append((f"{kind}_{counts[kind]}", fitting.solid().placed(lift @ wall.matrix())))
        if room.kind != "yard":
            _ceiling(ceiling, room, 2 * cell, daylight)
        if room.kind == "stairs":
            floor.merge(_stairs(plan, builder()))
        else:
            finish = f"floor_{room.kind}" if room.kind in _OWN_FLOOR else "floor"
            _floor(floor, room, finish, cell, daylight, shading[i])
        named = (("wall", walls), ("floor", floor), ("ceiling", ceiling))
        for part, built in named:
            if (part, room.kind) == ("ceiling", "yard"):
                continue
            name = room.name if (part, room.kind) == ("floor", "stairs") else f"{part}_{room.name}"
            objects.append((name, built.solid().placed(lift)))
    outside = builder()
    _outside(outside, plan, cell)
    return [*objects, ("outside", outside.solid())]


def wall_height(room: Room, wall: Wall) -> float:
    """Return the height of a wall, metres: that of the room, or lower round a yard."""
    return FENCE if room.kind == "yard" and wall.outer else room.height


def num_cells(plan: Plan, cell: float) -> int:
    """Count the cells, of two triangles each, that ``build_shell`` makes on walls, floors, ceilings and outside."""
    cells = sum(len(run) - 1 for run in _outer_runs(plan, cell))
    for room in plan.rooms:
        cells += sum(int(wall_grid(wall, wall_height(room, wall), cell)[2].sum()) for wall in room.walls)
        for size in (2 * cell,) if room.kind == "stairs" else (2 * cell, cell):
            x, z = _room_lines(room, size)
            cells += (len(x) - 1) * (len(z) - 1)
    return cells


def _stairs(plan: Plan, b: Builder) -> Solid:
    """Return the stairs in the world, with the landing that they start from."""
    assert plan.stairs is not None
    wall, stairs = plan.stairs
    b.mat("floor", (stairs.width, stairs.landing), (0, 0, stairs.landing / 2), DOORSTEP_LIGHT)
    build_stairs(b, stairs, "wall_stairs")
    return b.solid().placed(wall.matrix())


def _floor(b: Builder, room: Room, finish: str, cell: float, daylight: Daylight, shading: Shading) -> None:
    """Build the floor of a room with the patches of sun on it."""
    x0, z0, x1, z1 = room.bounds
    across, along = _room_lines(room, cell)
    x, z = np.meshgrid(across, along[::-1])  # Rows run towards -z: the face looks up.
    points = np.stack([x, np.zeros_like(x), z], axis=-1)
    shade = _FLOOR_LIGHT * daylight.at(points) * corner_shade([x - x0, x1 - x, z - z0, z1 - z]) * shading(x, z)
    b.add(finish, _laid_along(shapes.sheet(points), room), shade=shade.ravel())
    for patch in daylight.sun_patches():
        corners = np.stack([patch[:, 0], np.full(len(patch), 0.0015), patch[:, 1]], axis=1)
        b.add(finish, _laid_along(shapes.fan(corners), room))


def _laid_along(shape: shapes.Shape, room: Room) -> shapes.Shape:
    """Return a level shape with its texture fixed to the world, planks lying along the room."""
    return shape._replace(uvs=shape.vertices[:, [2, 0] if room.size[1] > room.size[0] else [0, 2]])


def _ceiling(b: Builder, room: Room, cell: float, daylight: Daylight) -> None:
    x0, z0, x1, z1 = room.bounds
    x, z = np.meshgrid(*_room_lines(room, cell))
    points = np.stack([x, np.full_like(x, room.height), z], axis=-1)
    shade = daylight.at(points) ** 0.5 * corner_shade([x - x0, x1 - x, z - z0, z1 - z])
    b.add("ceiling", shapes.sheet(points), shade=shade.ravel())


def _room_lines(room: Room, cell: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the lines along x and z of the grid on a room's floor or ceiling."""
    x0, z0, x1, z1 = room.bounds
    return grid_lines(x0, x1, cell), grid_lines(z0, z1, cell)


def _outside(b: Builder, plan: Plan, cell: float) -> None:
    """Build the outer faces, and caps on the walls for views from above, which face down so that none is walkable."""
    t = OUTER_WALL
    height = plan.floor(plan.storeys - 1) + plan.height
    top = plan.storeys - 1
    yards = [_grown(room.bounds, t) for room in plan.rooms if room.kind == "yard"]
    for run in _outer_runs(plan, cell):
        tops = np.full(len(run), height)
        for yard in yards:
            tops[_within(run[:, 0], run[:, 1], yard)] = FENCE
        points = np.stack([np.stack([run[:, 0], y, run[:, 1]], axis=1) for y in (np.zeros(len(run)), tops)])
        b.add("outside", shapes.sheet(points))
    rooms = [room for room in plan.rooms if room.storey == top or room.kind == "stairs"]
    x1 = plan.extent[0] + t
    z1 = plan.extent[1] + t
    xs = np.unique([-t, x1, *(v for room in rooms for v in room.bounds[::2])])
    zs = np.unique([-t, z1, *(v for room in rooms for v in room.bounds[1::2])])
    mx = (xs[1:] + xs[:-1]) / 2
    mz = (zs[1:, None] + zs[:-1, None]) / 2
    wall = np.ones((len(zs) - 1, len(xs) - 1), bool)
    for room in rooms:
        r = room.bounds
        wall &= ~((mx > r[0]) & (mx < r[2]) & (mz > r[1]) & (mz < r[3]))
    for yard in yards:
        wall &= ~_within(mx, mz, yard)
    x, z = np.meshgrid(xs, zs)
    shape = shapes.sheet(np.stack([x, np.full_like(x, height), z], axis=-1))
    kept = shape._replace(triangles=shape.triangles[np.repeat(wall.ravel(), 2)])
    b.add("outside", shapes.without_loose(kept), shade=0.45)


def _grown(rect: Cell, by: float) -> Cell:
    """Return a rectangle that reaches ``by`` metres further on all sides."""
    return rect[0] - by - 0.01, rect[1] - by - 0.01, rect[2] + by + 0.01, rect[3] + by + 0.01


def _within(x: np.ndarray, z: np.ndarray, rect: Cell) -> np.ndarray:
    return (x > rect[0]) & (x < rect[2]) & (z > rect[1]) & (z < rect[3])


def _outer_runs(plan: Plan, cell: float) -> list[np.ndarray]:
    """Return the lines [N, 2] (x, z) between the cells of the four outer faces."""
    x1 = plan.extent[0] + OUTER_WALL
    z1 = plan.extent[1] + OUTER_WALL
    corners = np.array([[-OUTER_WALL, -OUTER_WALL], [-OUTER_WALL, z1], [x1, z1], [x1, -OUTER_WALL]])
    counts = [int(np.linalg.norm(side) / max(cell, 1.0)) for side in np.roll(corners, -1, axis=0) - corners]
    ends = zip(corners, np.roll(corners, -1, axis=0), counts, strict=True)
    return [np.linspace(a, c, max(2, count + 1)) for a, c, count in ends]
