"""Moving bodies in views: rays that have been traced through a scene are traced through the bodies before it.

The rays are turned into a body's frame, in which its tree was built, and end where they hit the scene or a body before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from gym_batchnav.render.embree.packet import DIRECTION, FAR, HIT, NORMAL, NOTHING, ORIGIN, SHOWN_RGB
from gym_batchnav.render.optics import Optics
from gym_batchnav.system.jit import INNER, SMALL, to_int64


class Bodies(NamedTuple):
    """The bodies of a batch of N views; see ``render.bodies.BodyViews``."""

    table: np.ndarray  # [S] SLOT, all kinds of bodies
    spheres: np.ndarray  # [S, 4] float32, bounding spheres: centre and radius in metres, in the body's frame
    first: np.ndarray  # [N + 1] int64, the first row of every view
    slot: np.ndarray  # [E] int64
    pose: np.ndarray  # [E, 4, 4] float32, body to world
    object_id: np.ndarray  # [E] int32


@njit(**INNER)
def pixels_of_body(
    view: np.ndarray, pose: np.ndarray, sphere: np.ndarray, optics: Optics, is_pinhole: bool, pixels: np.ndarray
) -> None:
    """Write a rectangle of pixels that contains a body: first column, first row, end of columns, end of rows.

    It is empty if the body is behind the camera, and the whole picture if the camera is not a pinhole or may be inside
    the sphere.
    """
    world = np.empty(3, np.float32)
    local = np.empty(3, np.float32)
    center_of_body(pose, sphere, world)
    for k in range(3):
        local[k] = view[k, 0] * world[0] + view[k, 1] * world[1] + view[k, 2] * world[2] + view[k, 3]
    radius = sphere[3]
    ahead = -local[2]
    pixels[:] = 0
    if is_pinhole and ahead + radius <= optics.near:
        return
    nearest = ahead - radius
    if not is_pinhole or nearest <= np.float32(0.01):
        pixels[2] = optics.width
        pixels[3] = optics.height
        return
    farthest = ahead + radius
    left = local[0] - radius
    right = local[0] + radius
    low = local[1] - radius
    high = local[1] + radius
    left = min(left / nearest, left / farthest)
    right = max(right / nearest, right / farthest)
    low = min(low / nearest, low / farthest)
    high = max(high / nearest, high / farthest)
    pixels[0] = _within((left - optics.left) / optics.pixel - np.float32(1.0), optics.width)
    pixels[1] = _within((optics.top - high) / optics.pixel - np.float32(1.0), optics.height)
    pixels[2] = _within((right - optics.left) / optics.pixel + np.float32(2.0), optics.width)
    pixels[3] = _within((optics.top - low) / optics.pixel + np.float32(2.0), optics.height)


@njit(**INNER)
def center_of_body(pose: np.ndarray, sphere: np.ndarray, out: np.ndarray) -> None:
    """Write the centre [3] float32 of a body's bounding sphere in the world."""
    for k in range(3):
        out[k] = pose[k, 0] * sphere[0] + pose[k, 1] * sphere[1] + pose[k, 2] * sphere[2] + pose[k, 3]


@njit(**INNER)
def may_hit(floats: np.ndarray, center: np.ndarray, radius: np.float32) -> bool:
    """Return whether a ray of a packet, up to its hit, passes through a sphere; all in one frame, in metres."""
    meets = False
    for lane in range(16):
        x = center[0] - floats[ORIGIN + lane]
        y = center[1] - floats[ORIGIN + 16 + lane]
        z = center[2] - floats[ORIGIN + 32 + lane]
        dx = floats[DIRECTION + lane]
        dy = floats[DIRECTION + 16 + lane]
        dz = floats[DIRECTION + 32 + lane]
        square = dx * dx + dy * dy + dz * dz
        outside = x * x + y * y + z * z - radius * radius  # negative if the ray begins in the sphere
        along = x * dx + y * dy + z * dz
        ahead = (along > np.float32(0.0)) & (outside * square <= along * along)
        far = floats[FAR + lane]
        # The sphere is entered before the projection of its centre, so at the earliest one radius before it.
        near_enough = along - radius * np.sqrt(square) <= far * square
        meets |= ((outside <= np.float32(0.0)) | (ahead & near_enough)) & (far > np.float32(0.0))
    return meets


@njit(**INNER)
def take_hits(
    packet: np.ndarray,
    floats: np.ndarray,
    body_ids: np.ndarray,
    of_body: np.ndarray,
    pose: np.ndarray,
    object_id: np.int32,
) -> None:
    """Replace the hits of a packet by those of the same rays on a body, all of which are nearer.

    Hits, distances, normals and colours are replaced by those of ``of_body``, the packet in the body's frame, and
    ``body_ids`` [16] int32 become the body's object id plus 1.
    """
    found = of_body.view(np.float32)
    for lane in range(16):
        if of_body[HIT + lane] == NOTHING:
            continue
        floats[FAR + lane] = found[FAR + lane]
        packet[HIT + lane] = 0
        body_ids[lane] = object_id + 1
        for k in range(3):
            turned = pose[k, 0] * found[NORMAL + lane] + pose[k, 1] * found[NORMAL + 16 + lane]
            floats[NORMAL + 16 * k + lane] = turned + pose[k, 2] * found[NORMAL + 32 + lane]
            packet[SHOWN_RGB + 16 * k + lane] = of_body[SHOWN_RGB + 16 * k + lane]


@njit(**SMALL)
def _within(pixel: np.float32, size: int) -> int:
    """Return a pixel as an integer from 0 to ``size``."""
    return to_int64(min(max(pixel, np.float32(0.0)), np.float32(size)))


@njit(**INNER)
def turn_to_body(
    view: np.ndarray, light: np.ndarray, pose: np.ndarray, view_out: np.ndarray, light_out: np.ndarray
) -> None:
    """Write the matrix [4, 4] float32 from a body's frame to the camera's, and the direction [3] towards the light."""
    for row in range(4):
        for column in range(4):
            total = 0.0
            for k in range(4):
                total += np.float64(view[row, k]) * np.float64(pose[k, column])
            view_out[row, column] = np.float32(total)
    for k in range(3):
        light_out[k] = pose[0, k] * light[0] + pose[1, k] * light[1] + pose[2, k] * light[2]


@njit(**SMALL)
def any_hit(packet: np.ndarray) -> bool:
    """Return whether a ray of a packet hit something."""
    hit = False
    for lane in range(16):
        hit |= packet[HIT + lane] != NOTHING
    return hit
