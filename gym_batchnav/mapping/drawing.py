"""Kernels that draw maps: cells that depth images show to be free or blocked."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64
from gym_batchnav.system.parallel import for_each

FREE = 1  # bits of a cell
BLOCKED = 2
BUMPED = 4  # blocked, and the agent has tried it
_MAX_CLIMB = 1.0  # metres; an agent that is this much higher or lower is on another storey
_STUCK = 0.1  # metres; an agent that collides and moves less is stuck
_BUMP = 0.1  # metres from its axis to what it bumps into
_BUMP_ANGLE = 0.6  # radians to both sides, where it might bump into it, too


class Maps(NamedTuple):
    """The maps of N agents.

    Attributes:
        cells: [N, S, S] uint8, bits FREE, BLOCKED and BUMPED of cells, by z and x.
        places: [N, 3] float64, metres: x and z of the middle of cell (S / 2, S / 2), and the height of the floor.
        counts: [N] int32, the number of cells in the agent's path; 0 where a path has to be planned.
        last: [N, 3] float64, x and z of the agent at its last image, metres, and its collisions until then.
        cell_size: Metres.
    """

    cells: np.ndarray
    places: np.ndarray
    counts: np.ndarray
    last: np.ndarray
    cell_size: float


class View(NamedTuple):
    """The meaning of the depth of a pinhole camera.

    Attributes:
        tan_half_width: Half the width of the image plane at unit distance.
        tan_half_height: Half its height.
        right: Metres from the agent's axis to the camera.
        forward: Metres from the agent's axis to the camera.
        unit: Metres per unit of depth.
        offset: Metres where depth is 0.
        nearest: Metres; nothing was hit where depth is not farther.
        farthest: Metres; nothing was hit where depth is not nearer.
    """

    tan_half_width: float
    tan_half_height: float
    right: float
    forward: float
    unit: float
    offset: float
    nearest: float
    farthest: float


class Poses(NamedTuple):
    """The poses of M agents and of their cameras.

    Attributes:
        position: [M, 3] float64, metres.
        heading: [M] float64, radians.
        collisions: [M] int64, collisions since the episode began.
        eye_height: [M] float64, metres of the camera above the floor.
        yaw: [M] float64, radians by which the camera is turned left.
        pitch: [M] float64, radians by which it is tilted up.
    """

    position: np.ndarray
    heading: np.ndarray
    collisions: np.ndarray
    eye_height: np.ndarray
    yaw: np.ndarray
    pitch: np.ndarray


class Band(NamedTuple):
    """The heights above the floor at which points block the way.

    Attributes:
        low: Metres, next to the agent.
        slope: Metres by which ``low`` rises per metre of distance, for the errors of cameras and of floors.
        high: Metres; what hangs higher is above the agent.
    """

    low: float
    slope: float
    high: float


@njit(**SMALL)
def cell_of(value: float, origin: float, cell_size: float, side: int) -> Any:
    """Return the row or column of a coordinate."""
    return to_int64(math.floor((value - origin) / cell_size + 0.5)) + side // 2


@njit(**INNER)
def mark(maps: Maps, row: int, x: float, z: float, bit: int) -> None:
    """Set a bit of the cell at a place, unless it lies outside the map."""
    side = to_int64(maps.cells.shape[1])
    across = cell_of(x, maps.places[row, 0], maps.cell_size, side)
    along = cell_of(z, maps.places[row, 1], maps.cell_size, side)
    if 0 <= across < side and 0 <= along < side:
        maps.cells[row, along, across] |= np.uint8(bit)


@njit(**INNER)
def keep_inside(maps: Maps, row: int, position: np.ndarray) -> None:
    """Move the window of a map if its agent is near the border; empty the map if it is on another storey."""
    cells = maps.cells[row]
    side = to_int64(cells.shape[0])
    place = maps.places[row]
    if abs(position[1] - place[2]) > _MAX_CLIMB:
        cells[:] = 0
        place[2] = position[1]
        maps.counts[row] = 0
    across = cell_of(position[0], place[0], maps.cell_size, side) - side // 2
    along = cell_of(position[2], place[1], maps.cell_size, side) - side // 2
    if max(abs(across), abs(along)) <= side // 4:
        return
    old = cells.copy()
    cells[:] = 0
    for z in range(max(0, -along), min(side, side - along)):
        for x in range(max(0, -across), min(side, side - across)):
            cells[z, x] = old[z + along, x + across]
    place[0] += across * maps.cell_size
    place[1] += along * maps.cell_size
    maps.counts[row] = 0


@njit(**INNER)
def feel(maps: Maps, row: int, position: np.ndarray, heading: float, collisions: int) -> None:
    """Mark what an agent bumped into, if it collided and hardly moved: it may be too low or too thin to be seen."""
    last = maps.last[row]
    moved = math.hypot(position[0] - last[0], position[2] - last[1])
    if collisions > last[2] and moved < _STUCK:
        ahead = _BUMP + 0.5 * maps.cell_size
        for side in range(-1, 2):
            angle = heading + side * _BUMP_ANGLE
            x = position[0] - math.sin(angle) * ahead
            z = position[2] - math.cos(angle) * ahead
            mark(maps, row, x, z, to_int64(BLOCKED | BUMPED))
    last[0] = position[0]
    last[1] = position[2]
    last[2] = collisions


@njit(**INNER)
def draw_line(
    maps: Maps, row: int, depth: np.ndarray, line: int, eye: tuple, axes: tuple, view: View, band: Band
) -> None:
    """Mark the points of a row of pixels.

    The loop needs neither division nor square root: it compares squares of heights and distances.

    Args:
        maps: The maps.
        row: The agent.
        depth: [H, W, 1] float32.
        line: The row of pixels.
        eye: x and z of the camera, and its height above the floor, metres.
        axes: x and z of the directions ahead and to the right; cosine and sine of the tilt.
        view: The camera.
        band: What blocks the way.
    """
    height, width = depth.shape[:2]
    eye_x, eye_z, eye_height = eye
    ahead_x, ahead_z, right_x, right_z, tilt_cos, tilt_sin = axes
    cells = maps.cells[row]
    side = to_int64(cells.shape[0])
    per_metre = 1.0 / maps.cell_size
    # The camera's place in cells, whose centres are whole numbers; with 0.5 added, truncation rounds to the nearest.
    eye_column = (eye_x - maps.places[row, 0]) * per_metre + (side // 2 + 0.5)
    eye_row = (eye_z - maps.places[row, 1]) * per_metre + (side // 2 + 0.5)
    up = (1 - (line + 0.5) / height * 2) * view.tan_half_height
    # Per metre of depth; the camera looks along its first axis.
    rise = tilt_sin + up * tilt_cos
    ahead = tilt_cos - up * tilt_sin
    line_x = ahead * ahead_x
    line_z = ahead * ahead_z
    step = 2 * view.tan_half_width / width
    first = 0.5 * step - view.tan_half_width
    slope_squared = band.slope * band.slope
    for column in range(width):
        metres = depth[line, column, 0] * view.unit + view.offset
        level = eye_height + metres * rise
        if not view.nearest < metres < view.farthest or level > band.high:
            continue
        across = first + column * step
        x = metres * (line_x + across * right_x)
        z = metres * (line_z + across * right_z)
        excess = abs(level) - band.low
        is_floor = excess <= 0 or excess * excess <= slope_squared * (x * x + z * z)
        if level < 0 and not is_floor:
            continue
        cell_x = eye_column + x * per_metre
        cell_z = eye_row + z * per_metre
        if 0 <= cell_x < side and 0 <= cell_z < side:
            cells[to_int64(cell_z), to_int64(cell_x)] |= np.uint8(FREE if is_floor else BLOCKED)


@njit(**INNER)
def draw_one(item: int, maps: Maps, rows: np.ndarray, depth: np.ndarray, poses: Poses, view: View, band: Band) -> None:
    """Add an image to a map; see ``draw_all``."""
    row = to_int64(rows[item])
    position = poses.position[item]
    heading = poses.heading[item]
    keep_inside(maps, row, position)
    feel(maps, row, position, heading, to_int64(poses.collisions[item]))
    cos = math.cos(heading)
    sin = math.sin(heading)
    eye = (
        position[0] + view.right * cos - view.forward * sin,
        position[2] - view.right * sin - view.forward * cos,
        poses.eye_height[item],
    )
    looks = heading + poses.yaw[item]
    tilt = poses.pitch[item]
    axes = (-math.sin(looks), -math.cos(looks), math.cos(looks), -math.sin(looks), math.cos(tilt), math.sin(tilt))
    mark(maps, row, position[0], position[2], to_int64(FREE))
    for line in range(depth.shape[1]):
        draw_line(maps, row, depth[item], to_int64(line), eye, axes, view, band)


@njit(**ENTRY)
def draw_all(maps: Maps, rows: np.ndarray, depth: np.ndarray, poses: Poses, view: View, band: Band) -> None:
    """Add the depth images of M agents to their maps. Doing it again changes nothing.

    Args:
        maps: The maps, written.
        rows: [M] int64, the agents.
        depth: [M, H, W, 1] float32.
        poses: The agents' poses.
        view: The camera.
        band: What blocks the way.
    """
    for_each(draw_one, len(rows), (maps, rows, depth, poses, view, band))
