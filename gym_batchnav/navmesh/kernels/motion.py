"""Motion on the ground: straight walks, slides along walls and Habitat's ``try_step``.

Every function starts from a known polygon and follows neighbours, so floors above each other never mix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.kernels.ground import contains, floor_height, nearest_on_segment, outside, snaps_to_island_of
from gym_batchnav.navmesh.kernels.layout import Ground, Point, Spot, ground_at
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64

QUEUE = 48  # polygons that one slide may visit, as in Detour
ARC_PART = np.pi / 18  # radians; an arc is walked as chords that turn by at most this, 0.13% shorter than the arc


class Walk(NamedTuple):
    """A walk of one agent in equal parts, each a turn followed by a straight move."""

    turn: float  # radians in total, left positive
    forward: float  # metres per part, along the heading after the part's turn
    side: float  # metres per part, to the right of that heading
    parts: int


@njit(**SMALL)
def wrap_angle(angle: float) -> np.float32:
    """Return an angle in [-pi, pi), even after rounding to float32."""
    wrapped = np.float32(angle - 2.0 * np.pi * np.floor((angle + np.pi) / (2.0 * np.pi)))
    return wrapped if wrapped < np.float32(np.pi) else np.float32(-np.pi)


@njit(**INNER)
def walk_straight(
    ground: Ground, polygon: int, x: float, z: float, end_x: float, end_z: float, goal_polygon: int
) -> tuple[float, int]:
    """Walk from a point of ``polygon`` towards an end until a wall, the end, or ``goal_polygon`` (-1: none).

    Only edges that the line crosses outwards count, so a start that rounding puts outside its polygon is harmless.

    Returns:
        The free fraction of the way, from 0.0 to 1.0, and the polygon reached.
    """
    outline = ground.outline
    free = 0.0
    for _ in range(len(ground.num_vertices)):
        if polygon == goal_polygon:
            return 1.0, polygon
        n = ground.num_vertices[polygon]
        exit_t = np.inf
        exit_edge = -1
        ax = outline[polygon, n - 1, 0]
        az = outline[polygon, n - 1, 1]
        edge = n - 1
        for i in range(n):
            bx = outline[polygon, i, 0]
            bz = outline[polygon, i, 1]
            at_end = outside(ax, az, bx, bz, end_x, end_z)
            if at_end > 0.0:
                at_start = outside(ax, az, bx, bz, x, z)
                if at_end > at_start:
                    t = at_start / (at_start - at_end)
                    if t < exit_t:
                        exit_t = t
                        exit_edge = edge
            ax = bx
            az = bz
            edge = i
        if exit_edge < 0:
            return 1.0, polygon
        free = min(max(free, exit_t), 1.0)
        beyond = to_int64(ground.neighbours[polygon, exit_edge])
        if beyond < 0:
            return free, polygon
        polygon = beyond
    return free, polygon


@njit(**INNER)
def slide(ground: Ground, queue: np.ndarray, start: Spot, end: Point) -> tuple[int, float, float, bool]:
    """Move to the end if it can be reached, else to the nearest point on a wall near the way.

    Re-creates Detour's moveAlongSurface. The height of the end only affects the radius of the search. ``queue`` [QUEUE]
    int32 is scratch.

    Returns:
        The polygon, x and z reached, and whether the end was reached.
    """
    outline = ground.outline
    neighbours = ground.neighbours
    middle_x = (start.x + end.x) * 0.5
    middle_z = (start.z + end.z) * 0.5
    way2 = (end.x - start.x) ** 2 + (end.y - start.y) ** 2 + (end.z - start.z) ** 2
    radius = np.sqrt(way2) * 0.5 + 0.001
    best = np.inf
    best_polygon = start.polygon
    best_x = start.x
    best_z = start.z
    queue[0] = start.polygon
    size = 1
    head = 0
    while head < size:
        current = to_int64(queue[head])
        head += 1
        if contains(ground, current, end.x, end.z):
            return current, end.x, end.z, True
        n = ground.num_vertices[current]
        ax = outline[current, n - 1, 0]
        az = outline[current, n - 1, 1]
        edge = n - 1
        for i in range(n):
            bx = outline[current, i, 0]
            bz = outline[current, i, 1]
            beyond = neighbours[current, edge]
            if beyond < 0:
                distance2, px, pz = nearest_on_segment(ax, az, bx, bz, end.x, end.z)
                if distance2 < best:
                    best = distance2
                    best_polygon = current
                    best_x = px
                    best_z = pz
            elif size < QUEUE:
                distance2, px, pz = nearest_on_segment(ax, az, bx, bz, middle_x, middle_z)
                if distance2 <= radius * radius:
                    known = False
                    for k in range(size):
                        known |= queue[k] == beyond
                    if not known:
                        queue[size] = beyond
                        size += 1
            ax = bx
            az = bz
            edge = i
    return best_polygon, best_x, best_z, False


@njit(**INNER)
def try_step(row: np.ndarray, queue: np.ndarray, start: Spot, end: Point, sliding: bool) -> Spot:
    """Move towards an end as Habitat's try_step does: not at all if the end is on another island or off the navmesh.

    The scene is given as a row of addresses, which is faster to pass than all arrays of a ``Ground``. ``queue`` is
    scratch, [QUEUE] int32.
    """
    ground = ground_at(row)
    free, reached = walk_straight(ground, start.polygon, start.x, start.z, end.x, end.z, to_int64(-1))
    if free >= 1.0:  # a slide would end there too
        return Spot(to_int64(reached), end.x, floor_height(ground, reached, end.x, end.z), end.z)
    to_x = start.x + free * (end.x - start.x)
    to_z = start.z + free * (end.z - start.z)
    arrived = False
    if sliding:
        reached, to_x, to_z, arrived = slide(ground, queue, start, end)
    # With one island, the end snaps to it unless it lies beyond the half extents of 2 m in which Habitat searches.
    is_doubtful = ground.frame[4] > 1.0 or abs(end.x - to_x) > 2.0 or abs(end.z - to_z) > 2.0
    if is_doubtful and not arrived and not snaps_to_island_of(ground, start.polygon, reached, end.x, end.y, end.z):
        return start
    return Spot(to_int64(reached), to_x, floor_height(ground, reached, to_x, to_z), to_z)


@njit(**SMALL)
def has_collided(moved2: float, requested2: float) -> bool:
    """Return whether Habitat counts a move as a collision, from the squared lengths moved and requested, in metres."""
    return moved2 + 1e-5 < requested2


@njit(**SMALL)
def straight_walk(forward: float, side: float, longest_part: float) -> Walk:
    """Return a straight walk in parts of at most ``longest_part`` metres."""
    if longest_part == np.inf:
        return Walk(0.0, forward, side, to_int64(1))
    length = np.sqrt(forward * forward + side * side)
    parts = max(int(np.ceil(length / longest_part)), 1)
    return Walk(0.0, forward / parts, side / parts, parts)


@njit(**SMALL)
def arc_walk(turn: float, forward: float, side: float, longest_part: float) -> Walk:
    """Return the walk of an agent that turns and moves at the same time, at constant speeds.

    The path is an arc of a circle, of length ``hypot(forward, side)``. The walk follows chords, whose ends lie exactly
    on the arc. The chord of an arc of length l that turns by 2 h has the length l sin(h) / h, and its direction differs
    by h from the headings at its two ends.
    """
    length = np.sqrt(forward * forward + side * side)
    parts = max(int(np.ceil(max(length / longest_part, abs(turn) / ARC_PART))), 1)
    half = 0.5 * turn / parts
    share = (np.sin(half) / half if half != 0.0 else 1.0) / parts
    ahead = share * (forward * np.cos(half) - side * np.sin(half))
    right = share * (side * np.cos(half) + forward * np.sin(half))
    return Walk(turn, ahead, right, parts)


@njit(**SMALL)  # a call would take a fifth of the time of a short walk
def walk_along(
    row: np.ndarray, queue: np.ndarray, start: Spot, heading: np.float32, walk: Walk, sliding: bool
) -> tuple[Spot, np.float32, float, bool]:
    """Walk by ``try_step``, once per part; a part that is blocked does not end the walk.

    Long walks need several parts, because one step of Habitat is meant to be short: it slides to the end if it is near
    on another way around an obstacle, and it does not move at all if the end lies on another island.

    Returns:
        The spot and the heading reached, the metres walked in 3-D, and whether any part collided.
    """
    at = start
    towards = heading
    moved = 0.0
    collided = False
    requested2 = walk.forward * walk.forward + walk.side * walk.side
    for part in range(walk.parts):
        if walk.turn != 0.0:
            towards = wrap_angle(heading + walk.turn * (part + 1) / walk.parts)
        # The sine of a float32 takes half the time; the position is rounded to float32 anyway.
        sin = np.float64(np.sin(towards))
        cos = np.float64(np.cos(towards))
        end_x = at.x - sin * walk.forward + cos * walk.side
        end_z = at.z - cos * walk.forward - sin * walk.side
        to = try_step(row, queue, at, Point(end_x, at.y, end_z), sliding)
        moved2 = (to.x - at.x) ** 2 + (to.y - at.y) ** 2 + (to.z - at.z) ** 2
        moved += np.sqrt(moved2)
        collided |= has_collided(moved2, requested2)
        at = to
    return at, towards, moved, collided


@njit(**INNER)
def wall_distance(
    ground: Ground, queue: np.ndarray, queued: np.ndarray, polygon: int, x: float, z: float, farthest: float
) -> float:
    """Return the horizontal distance to the nearest wall reachable from ``polygon``, at most ``farthest``.

    ``queue`` [P] int32 and ``queued`` [P] bool are scratch; ``queued`` is False before and after.
    """
    outline = ground.outline
    neighbours = ground.neighbours
    best = farthest * farthest
    queue[0] = polygon
    queued[polygon] = True
    size = 1
    head = 0
    while head < size:
        current = queue[head]
        head += 1
        n = ground.num_vertices[current]
        for i in range(n):
            j = (i + 1) % n
            distance2 = nearest_on_segment(
                outline[current, i, 0], outline[current, i, 1], outline[current, j, 0], outline[current, j, 1], x, z
            )[0]
            if distance2 < best:
                beyond = neighbours[current, i]
                if beyond < 0:
                    best = distance2
                elif not queued[beyond]:
                    queued[beyond] = True
                    queue[size] = beyond
                    size += 1
    for k in range(size):
        queued[queue[k]] = False
    return np.sqrt(best)


@njit(**ENTRY)
def move_points(
    row: np.ndarray,
    polygons: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    sliding: bool,
    out: np.ndarray,
    collided: np.ndarray,
) -> None:
    """Apply ``try_step`` to points [N, 3] float64 of known polygons [N]; points without one (-1) do not move."""
    queue = np.empty(QUEUE, np.int32)
    for i in range(len(starts)):
        start = Spot(to_int64(polygons[i]), starts[i, 0], starts[i, 1], starts[i, 2])
        end = Point(ends[i, 0], ends[i, 1], ends[i, 2])
        at = try_step(row, queue, start, end, sliding) if start.polygon >= 0 else start
        moved2 = (at.x - start.x) ** 2 + (at.y - start.y) ** 2 + (at.z - start.z) ** 2
        requested2 = (end.x - start.x) ** 2 + (end.y - start.y) ** 2 + (end.z - start.z) ** 2
        collided[i] = has_collided(moved2, requested2)
        out[i, 0] = at.x
        out[i, 1] = at.y
        out[i, 2] = at.z


@njit(**ENTRY)
def wall_distances(ground: Ground, polygons: np.ndarray, points: np.ndarray, farthest: float, out: np.ndarray) -> None:
    """Compute ``wall_distance`` of points [N, 3] of known polygons [N]; NaN for points without one (-1)."""
    queue = np.empty(len(ground.num_vertices), np.int32)
    queued = np.zeros(len(ground.num_vertices), np.bool_)
    for i in range(len(points)):
        out[i] = np.nan
        if polygons[i] >= 0:
            out[i] = wall_distance(ground, queue, queued, to_int64(polygons[i]), points[i, 0], points[i, 2], farthest)
