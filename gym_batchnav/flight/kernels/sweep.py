"""The motion of a sphere among triangles: exact times of contact, and sliding.

The distance from a point that moves along a line to a convex set is a convex function of time. Newton's method, started
before the contact, therefore approaches the time of contact from below and never passes it, and a sphere that does not
come nearer to a triangle at its start never will. So the only geometry needed is the closest point of a triangle.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.flight.kernels.layout import Surfaces
from gym_batchnav.flight.kernels.triangles import cell_of, closest_on_triangle, distance_to_box, squared
from gym_batchnav.navmesh.kernels.layout import Point
from gym_batchnav.system.jit import ENTRY, INNER, SMALL

SKIN = 1e-5  # metres that a sphere keeps from surfaces, more than positions in float32 are rounded by
TOUCH = 1e-7  # metres within which a sphere counts as touching
GRAZING = 1e-6  # sine of the least angle at which a sphere approaches a surface
MAX_NEWTON = 64
MAX_SLIDES = 8  # surfaces that a sphere meets in one motion, after which it stops
LONGEST = 1.0  # metres that are swept at once; longer motions are swept in parts


class Hit(NamedTuple):
    """The first contact of a moving sphere."""

    time: float  # share of the motion, 1 if there is no contact
    hit: bool
    normal: Point  # unit vector from the surface to the centre


class Slide(NamedTuple):
    """The result of a motion along surfaces."""

    position: Point
    velocity: Point
    moved: float  # metres along the path
    collided: bool


@njit(**SMALL)
def dot(a: Point, b: Point) -> float:
    """Return the scalar product."""
    return a.x * b.x + a.y * b.y + a.z * b.z


@njit(**SMALL)
def plus(a: Point, b: Point, factor: float) -> Point:
    """Return a + factor * b."""
    return Point(a.x + factor * b.x, a.y + factor * b.y, a.z + factor * b.z)


@njit(**SMALL)
def norm(a: Point) -> float:
    """Return the length of a vector."""
    return math.sqrt(dot(a, a))


@njit(**INNER)
def _contact(corners: np.ndarray, triangle: int, start: Point, motion: Point, radius: float, before: float) -> Hit:
    """Return the contact of a sphere with one triangle, unless it is later than ``before``."""
    length = norm(motion)
    none = Hit(before, False, motion)
    time = 0.0
    for _ in range(MAX_NEWTON):
        center = plus(start, motion, time)
        away = plus(center, closest_on_triangle(corners, triangle, center), -1.0)
        distance = norm(away)
        if distance < 1e-9:  # the centre is on the surface
            return Hit(time, True, plus(Point(0.0, 0.0, 0.0), motion, -1.0 / length))
        rate = dot(away, motion) / distance
        if rate >= -GRAZING * length:
            return none
        gap = distance - radius
        if gap <= TOUCH:
            return Hit(time, True, plus(Point(0.0, 0.0, 0.0), away, 1.0 / distance))
        time -= gap / rate
        if time >= before:
            return none
    # Not converged, at a time that is not after the contact.
    return Hit(time, True, plus(Point(0.0, 0.0, 0.0), away, 1.0 / distance))


@njit(**INNER)
def first_contact(surfaces: Surfaces, start: Point, motion: Point, radius: float) -> Hit:
    """Return the first contact of a sphere that moves by a vector, which is at most ``LONGEST`` metres long."""
    best = Hit(1.0, False, motion)
    if not norm(motion) > 0.0:
        return best
    reach = radius + TOUCH
    frame = surfaces.frame
    shape = surfaces.shape
    end = plus(start, motion, 1.0)
    x0 = cell_of(min(start.x, end.x) - reach, frame[0], frame[3], shape[0])
    x1 = cell_of(max(start.x, end.x) + reach, frame[0], frame[3], shape[0])
    y0 = cell_of(min(start.y, end.y) - reach, frame[1], frame[3], shape[1])
    y1 = cell_of(max(start.y, end.y) + reach, frame[1], frame[3], shape[1])
    z0 = cell_of(min(start.z, end.z) - reach, frame[2], frame[3], shape[2])
    z1 = cell_of(max(start.z, end.z) + reach, frame[2], frame[3], shape[2])
    middle = plus(start, motion, 0.5)
    around = 0.5 * norm(motion) + reach
    for x in range(x0, x1 + 1):
        for y in range(y0, y1 + 1):
            for z in range(z0, z1 + 1):
                cell = (x * shape[1] + y) * shape[2] + z
                for row in range(surfaces.start[cell], surfaces.start[cell + 1]):
                    triangle = np.int64(surfaces.items[row])
                    if distance_to_box(surfaces.corners, triangle, middle) > around:
                        continue
                    found = _contact(surfaces.corners, triangle, start, motion, radius, best.time)
                    if found.hit:
                        best = found
    return best


@njit(**INNER)
def distance_to_surfaces(surfaces: Surfaces, center: Point, most: float) -> tuple[float, Point]:
    """Return the distance to the nearest triangle, ``most`` if none is nearer, and the closest point."""
    best = most
    closest = center
    frame = surfaces.frame
    shape = surfaces.shape
    x0 = cell_of(center.x - most, frame[0], frame[3], shape[0])
    x1 = cell_of(center.x + most, frame[0], frame[3], shape[0])
    y0 = cell_of(center.y - most, frame[1], frame[3], shape[1])
    y1 = cell_of(center.y + most, frame[1], frame[3], shape[1])
    z0 = cell_of(center.z - most, frame[2], frame[3], shape[2])
    z1 = cell_of(center.z + most, frame[2], frame[3], shape[2])
    for x in range(x0, x1 + 1):
        for y in range(y0, y1 + 1):
            for z in range(z0, z1 + 1):
                cell = (x * shape[1] + y) * shape[2] + z
                for row in range(surfaces.start[cell], surfaces.start[cell + 1]):
                    triangle = np.int64(surfaces.items[row])
                    if distance_to_box(surfaces.corners, triangle, center) >= best:
                        continue
                    found = closest_on_triangle(surfaces.corners, triangle, center)
                    distance = math.sqrt(squared(center, found))
                    if distance < best:
                        best = distance
                        closest = found
    return best, closest


@njit(**SMALL)
def _cross(a: Point, b: Point) -> Point:
    """Return the vector product."""
    return Point(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


@njit(**INNER)
def _along(vector: Point, normals: np.ndarray, count: int) -> Point:
    """Return the part of a vector that leads into none of the surfaces met, the last of which it leads into.

    Args:
        vector: The vector.
        normals: [MAX_SLIDES, 3] float64.
        count: Number of surfaces met.
    """
    zero = Point(0.0, 0.0, 0.0)
    newest = Point(normals[count - 1, 0], normals[count - 1, 1], normals[count - 1, 2])
    into = dot(vector, newest)
    part = plus(vector, newest, -into) if into < 0.0 else vector
    least = -GRAZING * norm(vector)
    for row in range(count - 1):
        other = Point(normals[row, 0], normals[row, 1], normals[row, 2])
        if dot(part, other) >= least:
            continue
        crease = _cross(newest, other)
        length = norm(crease)
        if length < 1e-4:
            if dot(newest, other) > 0.0:  # the same surface once more
                continue
            return zero
        crease = plus(zero, crease, 1.0 / length)
        part = plus(zero, crease, dot(vector, crease))
        for third in range(count):
            if dot(part, Point(normals[third, 0], normals[third, 1], normals[third, 2])) < least:
                return zero
        return part
    return part


@njit(**INNER)
def slide(
    surfaces: Surfaces, normals: np.ndarray, start: Point, motion: Point, velocity: Point, radius: float, sliding: bool
) -> Slide:
    """Move a sphere by a vector; it slides along surfaces and loses the velocity into them.

    Args:
        surfaces: The triangles.
        normals: [MAX_SLIDES, 3] float64, overwritten.
        start: Centre of the sphere.
        motion: Metres.
        velocity: Velocity at the end of the motion, metres per second.
        radius: Metres, with the skin.
        sliding: Slide along surfaces; False stops at them.
    """
    at = start
    left = motion
    moved = 0.0
    count = 0
    while True:
        length = norm(left)
        if not length > 0.0:
            return Slide(at, velocity, moved, count > 0)
        share = min(1.0, LONGEST / length)
        step = plus(Point(0.0, 0.0, 0.0), left, share)
        found = first_contact(surfaces, at, step, radius)
        at = plus(at, step, found.time)
        moved += norm(step) * found.time
        left = plus(left, step, -found.time)
        if not found.hit:
            if share == 1.0:
                return Slide(at, velocity, moved, count > 0)
            continue
        zero = Point(0.0, 0.0, 0.0)
        if count == MAX_SLIDES or not sliding:
            return Slide(at, zero, moved, True)
        normals[count, 0] = found.normal.x
        normals[count, 1] = found.normal.y
        normals[count, 2] = found.normal.z
        count += 1
        left = _along(left, normals, count)
        velocity = _along(velocity, normals, count)


@njit(**INNER)
def pushed_out(surfaces: Surfaces, center: Point, radius: float) -> Point:
    """Return the centre of a sphere that rounding has moved into a surface by less than the skin, outside of it."""
    for _ in range(4):
        distance, closest = distance_to_surfaces(surfaces, center, radius - 0.5 * SKIN)
        if distance >= radius - 0.5 * SKIN or distance < 1e-9:
            break
        out = plus(Point(0.0, 0.0, 0.0), plus(center, closest, -1.0), (radius - distance) / distance)
        found = first_contact(surfaces, center, out, radius)
        center = plus(center, out, found.time)
    return center


@njit(**ENTRY)
def distances(surfaces: Surfaces, points: np.ndarray, most: float, out: np.ndarray) -> None:
    """Write the distances ``out`` [M] float64 of points [M, 3] float64 to the nearest triangle, at most ``most``."""
    for row in range(len(points)):
        out[row] = distance_to_surfaces(surfaces, Point(points[row, 0], points[row, 1], points[row, 2]), most)[0]
