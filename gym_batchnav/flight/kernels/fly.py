"""Kernels over blocks of flying agents in one scene; the blocks are distributed to threads."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.flight.kernels.layout import Fields, Surfaces, Voxels
from gym_batchnav.flight.kernels.paths import path_from
from gym_batchnav.flight.kernels.space import least_clearance
from gym_batchnav.flight.kernels.sweep import MAX_SLIDES, SKIN, Slide, norm, plus, pushed_out, slide
from gym_batchnav.navmesh.kernels.geodesic import point_at
from gym_batchnav.navmesh.kernels.layout import Point
from gym_batchnav.navmesh.kernels.motion import wrap_angle
from gym_batchnav.system.jit import ENTRY, INNER, SMALL
from gym_batchnav.system.parallel import for_each


class Targets(NamedTuple):
    """The commands of all agents."""

    forward: np.ndarray  # [N] float64, velocity ahead that an agent approaches, metres per second
    up: np.ndarray  # [N] float64, metres per second
    side: np.ndarray  # [N] float64, to the right, metres per second
    turn: np.ndarray  # [N] float64, radians in this step, left positive


class Dynamics(NamedTuple):
    """The motion of a flying agent: its velocity approaches the one commanded, ``v' = response (target - v)``."""

    response: float  # 1 / s
    max_speed: float  # metres per second
    time_step: float  # seconds
    substeps: int  # parts of a step, in each of which the direction of a command is constant


class Body(NamedTuple):
    """The body of every agent."""

    radius: float  # metres
    dynamics: Dynamics
    sliding: bool


class Bodies(NamedTuple):
    """The state of all agents; written in place."""

    position: np.ndarray  # [N, 3] float32, metres
    velocity: np.ndarray  # [N, 3] float32, metres per second
    heading: np.ndarray  # [N] float32, radians
    moved: np.ndarray  # [N] float32, metres
    collided: np.ndarray  # [N] bool


@njit(**SMALL)
def _limited(v: Point, most: float) -> Point:
    """Return a vector of at most a length."""
    length = norm(v)
    if length <= most:
        return v
    return plus(Point(0.0, 0.0, 0.0), v, most / length)


@njit(**INNER)
def _move(
    surfaces: Surfaces, voxels: Voxels, normals: np.ndarray, at: Point, motion: Point, velocity: Point, body: Body
) -> Slide:
    """Move a sphere; where it cannot reach a surface, nothing is searched."""
    radius = body.radius + SKIN
    length = norm(motion)
    if least_clearance(voxels, at) >= radius + length:
        return Slide(plus(at, motion, 1.0), velocity, length, False)
    return slide(surfaces, normals, at, motion, velocity, radius, body.sliding)


@njit(**INNER)
def _fly_block(
    block: int,
    block_size: int,
    rows: np.ndarray,
    surfaces: Surfaces,
    voxels: Voxels,
    targets: Targets,
    body: Body,
    active: np.ndarray,
    bodies: Bodies,
) -> None:
    """Fly one block of the agents ``rows`` [M] int64, which are all in the scene of these surfaces and voxels."""
    normals = np.empty((MAX_SLIDES, 3))
    dynamics = body.dynamics
    seconds = dynamics.time_step / dynamics.substeps
    decay = math.exp(-dynamics.response * seconds)
    for row in range(block * block_size, min((block + 1) * block_size, len(rows))):
        i = rows[row]
        if not active[i]:
            continue
        at = point_at(bodies.position, i)
        velocity = point_at(bodies.velocity, i)
        heading = np.float64(bodies.heading[i])
        moved = 0.0
        collided = False
        for substep in range(dynamics.substeps):
            angle = heading + targets.turn[i] * (substep + 0.5) / dynamics.substeps
            sin = math.sin(angle)
            cos = math.cos(angle)
            ahead = targets.forward[i]
            side = targets.side[i]
            target = Point(-sin * ahead + cos * side, targets.up[i], -cos * ahead - sin * side)
            # The exact solution of v' = response (target - v).
            motion = Point(
                target.x * seconds + (velocity.x - target.x) * (1.0 - decay) / dynamics.response,
                target.y * seconds + (velocity.y - target.y) * (1.0 - decay) / dynamics.response,
                target.z * seconds + (velocity.z - target.z) * (1.0 - decay) / dynamics.response,
            )
            motion = _limited(motion, dynamics.max_speed * seconds)
            velocity = Point(
                target.x + (velocity.x - target.x) * decay,
                target.y + (velocity.y - target.y) * decay,
                target.z + (velocity.z - target.z) * decay,
            )
            velocity = _limited(velocity, dynamics.max_speed)
            ended = _move(surfaces, voxels, normals, at, motion, velocity, body)
            at = ended.position
            velocity = ended.velocity
            moved += ended.moved
            collided = collided or ended.collided
        if collided:
            at = pushed_out(surfaces, at, body.radius + SKIN)
        bodies.heading[i] = wrap_angle(heading + targets.turn[i])
        bodies.position[i, 0] = at.x
        bodies.position[i, 1] = at.y
        bodies.position[i, 2] = at.z
        bodies.velocity[i, 0] = velocity.x
        bodies.velocity[i, 1] = velocity.y
        bodies.velocity[i, 2] = velocity.z
        bodies.moved[i] = moved
        bodies.collided[i] = collided


@njit(**INNER)
def _course_block(
    block: int,
    block_size: int,
    rows: np.ndarray,
    voxels: Voxels,
    fields: Fields,
    radius: float,
    position: np.ndarray,
    goals: np.ndarray,
    distance: np.ndarray,
    turns: np.ndarray,
) -> None:
    """Find the shortest paths of one block of the agents ``rows`` [M] int64, which are all in one scene.

    Args:
        block: The block.
        block_size: Number of agents in a block.
        rows: [M] int64, the agents.
        voxels: The voxels of the scene.
        fields: The paths of the scene.
        radius: Metres.
        position: [N, 3] float32, metres.
        goals: [N] int32, row of the scene's goals.
        distance: [N] float32, written: metres, inf without a path.
        turns: [N, 3] float64, written: the point at which the path turns first.
    """
    for row in range(block * block_size, min((block + 1) * block_size, len(rows))):
        i = rows[row]
        distance[i] = np.inf
        if not 0 <= goals[i] < len(fields.goals):
            continue
        length, turn = path_from(voxels, fields, np.int64(goals[i]), point_at(position, i), radius)
        distance[i] = length
        turns[i, 0] = turn.x
        turns[i, 1] = turn.y
        turns[i, 2] = turn.z


@njit(**ENTRY)
def fly_blocks(
    block_size: int,
    rows: np.ndarray,
    surfaces: Surfaces,
    voxels: Voxels,
    targets: Targets,
    body: Body,
    active: np.ndarray,
    bodies: Bodies,
) -> None:
    """Fly the agents ``rows`` [M] int64, which are all in one scene."""
    arguments = (block_size, rows, surfaces, voxels, targets, body, active, bodies)
    for_each(_fly_block, (len(rows) + block_size - 1) // block_size, arguments)


@njit(**ENTRY)
def course_blocks(
    block_size: int,
    rows: np.ndarray,
    voxels: Voxels,
    fields: Fields,
    radius: float,
    position: np.ndarray,
    goals: np.ndarray,
    distance: np.ndarray,
    turns: np.ndarray,
) -> None:
    """Find the shortest paths of the agents ``rows`` [M] int64; the arguments are those of ``_course_block``."""
    arguments = (block_size, rows, voxels, fields, radius, position, goals, distance, turns)
    for_each(_course_block, (len(rows) + block_size - 1) // block_size, arguments)
