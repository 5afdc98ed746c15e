"""Bodies that block each other: discs that share the floors of a world and move at the same time.

All bodies of a world move along straight lines, from where they stand to where they would end alone. A body stops where
its disc touches another one that it approaches. Nothing depends on the order of the bodies: the contacts of all pairs
are found, the earliest of them stops its bodies, and so on; contacts at the same time count together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.navmesh.agents import PARALLEL_FROM, NavMeshAgents, expect_array, run_blocks
from gym_batchnav.navmesh.kernels.layout import NUM_POLYGONS, Point, Spot
from gym_batchnav.navmesh.kernels.motion import QUEUE, try_step
from gym_batchnav.system.jit import ENTRY, INNER, SMALL, to_int64
from gym_batchnav.system.parallel import for_each

MAX_OVERLAP = 5e-4  # metres; discs that overlap by less are not moved back
BLOCK = 8  # worlds that a thread takes at a time
_NEVER = 2.0  # a time after the end of the step, which lasts from 0 to 1


class Crowd(NamedTuple):
    """The bodies of W worlds, B in each, before and after a step."""

    slots: np.ndarray  # [W] int32; -1 for worlds that rest, of which nothing is read or written
    present: np.ndarray  # [W, B] bool; others neither block nor are blocked
    fixed: np.ndarray  # [B] bool, whether a body goes its way whatever is in it
    radius: np.ndarray  # [B] float64, metres
    height: float  # metres; bodies whose feet differ by more do not meet
    old_polygon: np.ndarray  # [W, B] int32
    old_position: np.ndarray  # [W, B, 3] float32, metres
    polygon: np.ndarray  # [W, B] int32, after the step; changed where a body is stopped
    position: np.ndarray  # [W, B, 3] float32, metres, after the step; changed where a body is stopped
    touched: np.ndarray  # [W, B] bool, written: whether another body cut short the way of this one


def separate(navmeshes: NavMeshAgents, crowd: Crowd) -> None:
    """Stop bodies that share a world where they meet, after each of them has moved as if it were alone.

    The result does not depend on the order of a world's bodies. Discs that did not overlap before the step overlap by
    at most ``MAX_OVERLAP`` after it; those that did overlap no more than before.

    Args:
        navmeshes: The navmeshes of the worlds' slots.
        crowd: The bodies before and after the step; ``polygon``, ``position`` and ``touched`` are written.

    Raises:
        TypeError: If an array has another dtype, shape or memory layout than stated.
    """
    worlds = crowd.present.shape
    size = worlds[0]
    expect_array("slots", crowd.slots, np.int32, (size,))
    expect_array("fixed", crowd.fixed, np.bool_, worlds[1:])
    expect_array("radius", crowd.radius, np.float64, worlds[1:])
    for name in ("present", "touched"):
        expect_array(name, getattr(crowd, name), np.bool_, worlds)
    for name in ("old_polygon", "polygon"):
        expect_array(name, getattr(crowd, name), np.int32, worlds)
    for name in ("old_position", "position"):
        expect_array(name, getattr(crowd, name), np.float32, (*worlds, 3))
    run_blocks(separate_blocks, BLOCK, size, crowd.present.size >= PARALLEL_FROM, navmeshes.table, crowd)


def separate_nobody() -> None:
    """Separate the body of a world that rests, which compiles the kernels."""
    flags = np.zeros((1, 1), bool)
    polygon = np.zeros((1, 1), np.int32)
    position = np.zeros((1, 1, 3), np.float32)
    resting = np.full(1, -1, np.int32)
    after = polygon.copy(), position.copy(), flags.copy()
    separate(NavMeshAgents(1), Crowd(resting, flags, flags[0], np.ones(1), 1.0, polygon, position, *after))


@njit(**INNER)
def _separate_block(block: int, block_size: int, table: np.ndarray, crowd: Crowd) -> None:
    """Stop the bodies of one block of worlds where they meet."""
    num_worlds, num_bodies = crowd.present.shape
    queue = np.empty(QUEUE, np.int32)
    until = np.empty(num_bodies)
    blocked = np.empty(num_bodies, np.bool_)
    for world in range(block * block_size, min((block + 1) * block_size, num_worlds)):
        slot = crowd.slots[world]
        if not 0 <= slot < len(table) or table[slot, NUM_POLYGONS] == 0:
            continue
        crowd.touched[world] = False
        if not _may_meet(crowd, world):
            continue
        _find_contacts(crowd, world, until, blocked)
        for body in range(num_bodies):
            if until[body] < 1.0 and not _is_back(crowd, world, body):  # who did not move was not stopped
                _stop_on_the_way(table[slot], queue, crowd, world, body, until[body])
        _move_back_overlaps(crowd, world, blocked)


@njit(**ENTRY)
def separate_blocks(block_size: int, table: np.ndarray, crowd: Crowd) -> None:
    """Stop the bodies of all worlds where they meet; blocks of worlds are distributed to threads."""
    arguments = (block_size, table, crowd)
    for_each(_separate_block, (len(crowd.slots) + block_size - 1) // block_size, arguments)


@njit(**INNER)
def _may_meet(crowd: Crowd, world: int) -> bool:
    """Return whether any two bodies of a world come so near in this step that they might touch."""
    position = crowd.position[world]
    old = crowd.old_position[world]
    num_bodies = len(position)
    for i in range(num_bodies):
        if not crowd.present[world, i]:
            continue
        for j in range(i + 1, num_bodies):
            if crowd.present[world, j]:
                reach = crowd.radius[i] + crowd.radius[j] + _way(old[i], position[i]) + _way(old[j], position[j])
                dx = np.float64(old[i, 0]) - np.float64(old[j, 0])
                dz = np.float64(old[i, 2]) - np.float64(old[j, 2])
                if dx * dx + dz * dz < reach * reach:
                    return True
    return False


@njit(**SMALL)
def _way(start: np.ndarray, end: np.ndarray) -> float:
    """Return the horizontal length of a body's way, metres."""
    dx = np.float64(end[0]) - np.float64(start[0])
    dz = np.float64(end[2]) - np.float64(start[2])
    return np.sqrt(dx * dx + dz * dz)


@njit(**INNER)
def _find_contacts(crowd: Crowd, world: int, until: np.ndarray, stops: np.ndarray) -> None:
    """Write the time [B], from 0 to 1, until which each body of a world moves; 1 if nothing stops it.

    The earliest contact stops its bodies, which may prevent later contacts and cause others. Each round stops at least
    one body for good, so there are at most B rounds. ``stops`` [B] bool is scratch.
    """
    num_bodies = len(until)
    until[:] = 1.0
    for _ in range(num_bodies):
        earliest = _NEVER
        for i in range(num_bodies):
            for j in range(i + 1, num_bodies):
                earliest = min(earliest, _contact(crowd, world, i, j, until))
        if earliest >= 1.0:
            return
        stops[:] = False
        for i in range(num_bodies):
            for j in range(i + 1, num_bodies):
                if _contact(crowd, world, i, j, until) == earliest:
                    stops[i] |= not crowd.fixed[i] and until[i] > earliest
                    stops[j] |= not crowd.fixed[j] and until[j] > earliest
        for body in range(num_bodies):
            if stops[body]:
                until[body] = earliest


@njit(**INNER)
def _contact(crowd: Crowd, world: int, i: int, j: int, until: np.ndarray) -> float:
    """Return when two bodies touch while they approach each other and one of them can be stopped, or _NEVER.

    Args:
        crowd: All bodies.
        world: The world.
        i: One body.
        j: The other body.
        until: [B], the times at which bodies stop as far as is known.
    """
    if not (crowd.present[world, i] and crowd.present[world, j]) or (crowd.fixed[i] and crowd.fixed[j]):
        return _NEVER
    old = crowd.old_position[world]
    new = crowd.position[world]
    if abs(old[i, 1] - old[j, 1]) >= crowd.height and abs(new[i, 1] - new[j, 1]) >= crowd.height:
        return _NEVER
    both = min(until[i], until[j])
    reach = crowd.radius[i] + crowd.radius[j]
    apart_x = np.float64(old[i, 0]) - np.float64(old[j, 0])
    apart_z = np.float64(old[i, 2]) - np.float64(old[j, 2])
    speed_ix = np.float64(new[i, 0]) - np.float64(old[i, 0])
    speed_iz = np.float64(new[i, 2]) - np.float64(old[i, 2])
    speed_jx = np.float64(new[j, 0]) - np.float64(old[j, 0])
    speed_jz = np.float64(new[j, 2]) - np.float64(old[j, 2])
    time = _touch(apart_x, apart_z, speed_ix - speed_jx, speed_iz - speed_jz, reach, both)
    if time < both:
        return time
    apart_x += both * (speed_ix - speed_jx)
    apart_z += both * (speed_iz - speed_jz)
    if until[i] > both and not crowd.fixed[i]:
        return both + _touch(apart_x, apart_z, speed_ix, speed_iz, reach, until[i] - both)
    if until[j] > both and not crowd.fixed[j]:
        return both + _touch(-apart_x, -apart_z, speed_jx, speed_jz, reach, until[j] - both)
    return _NEVER


@njit(**INNER)
def _touch(apart_x: float, apart_z: float, speed_x: float, speed_z: float, reach: float, limit: float) -> float:
    """Return when a point that moves comes within ``reach`` of the origin, or _NEVER unless that is before ``limit``.

    Points that move away, or along a tangent, do not touch it: they could never part again.
    """
    towards = apart_x * speed_x + apart_z * speed_z
    if towards >= 0.0:
        return _NEVER
    gap = apart_x * apart_x + apart_z * apart_z - reach * reach
    if gap <= 0.0:
        return 0.0
    square = speed_x * speed_x + speed_z * speed_z
    inside = towards * towards - square * gap
    if inside <= 0.0:
        return _NEVER
    time = (-towards - np.sqrt(inside)) / square
    return time if time < limit else _NEVER


@njit(**INNER)
def _stop_on_the_way(row: np.ndarray, queue: np.ndarray, crowd: Crowd, world: int, body: int, share: float) -> None:
    """Put a body where it is after a share of its way, on the navmesh."""
    old = crowd.old_position[world, body]
    new = crowd.position[world, body]
    crowd.touched[world, body] = True
    at_x = np.float64(old[0]) + share * (np.float64(new[0]) - np.float64(old[0]))
    at_z = np.float64(old[2]) + share * (np.float64(new[2]) - np.float64(old[2]))
    start = Spot(to_int64(crowd.old_polygon[world, body]), np.float64(old[0]), np.float64(old[1]), np.float64(old[2]))
    at = try_step(row, queue, start, Point(at_x, np.float64(old[1]), at_z), False)
    crowd.polygon[world, body] = at.polygon
    new[0] = at.x
    new[1] = at.y
    new[2] = at.z


@njit(**INNER)
def _move_back_overlaps(crowd: Crowd, world: int, blocked: np.ndarray) -> None:
    """Put bodies back where they were if they overlap more than before; ``blocked`` [B] bool is scratch.

    That is rare: a body that slid around a corner, or that stopped next to its line. One that is put back may be in the
    way of others, so this repeats. Each round puts at least one body back, and where all are, they overlap as before.
    """
    num_bodies = len(blocked)
    blocked[:] = False
    for _ in range(num_bodies):
        changed = False
        for i in range(num_bodies):
            for j in range(i + 1, num_bodies):
                if _is_too_near(crowd, world, i, j):
                    for body in (i, j):
                        if not crowd.fixed[body] and not _is_back(crowd, world, body):
                            blocked[body] = True
                            changed = True
        if not changed:
            return
        for body in range(num_bodies):
            if blocked[body]:
                crowd.touched[world, body] = True
                crowd.polygon[world, body] = crowd.old_polygon[world, body]
                crowd.position[world, body] = crowd.old_position[world, body]


@njit(**SMALL)
def _is_back(crowd: Crowd, world: int, body: int) -> bool:
    """Return whether a body is where it was before the step."""
    return (crowd.position[world, body] == crowd.old_position[world, body]).all()


@njit(**SMALL)
def _is_too_near(crowd: Crowd, world: int, i: int, j: int) -> bool:
    """Return whether two bodies overlap more than allowed, and more than before the step."""
    if not (crowd.present[world, i] and crowd.present[world, j]):
        return False
    reach = crowd.radius[i] + crowd.radius[j]
    now = _overlap(crowd.position[world, i], crowd.position[world, j], reach, crowd.height)
    if now <= MAX_OVERLAP:
        return False
    return now > _overlap(crowd.old_position[world, i], crowd.old_position[world, j], reach, crowd.height)


@njit(**SMALL)
def _overlap(one: np.ndarray, other: np.ndarray, reach: float, height: float) -> float:
    """Return by how much two discs overlap, metres; 0 if they do not, or stand on different floors."""
    if abs(one[1] - other[1]) >= height:
        return 0.0
    dx = np.float64(one[0]) - np.float64(other[0])
    dz = np.float64(one[2]) - np.float64(other[2])
    return max(0.0, reach - np.sqrt(dx * dx + dz * dz))
