"""Cameras as kernels take them, the rays of their pixels, and the light.

The light depends only on the camera and the sky, so that scenes need no lamps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gym_batchnav.geometry import Camera

PACKET = 4  # pixels per side of the squares whose pixels share one texture footprint
RIGHT, UP, AHEAD, ORIGIN_RIGHT, ORIGIN_UP, END = range(6)  # numbers of a ray in a table
_AMBIENT = 0.65
_DIFFUSE = 0.35


def brightness(camera: Camera) -> tuple[float, float]:
    """Return ambient and diffuse: a surface shows its albedo times ambient + diffuse x max(0, n . l)."""
    return (_AMBIENT, _DIFFUSE) if camera.lit else (1.0, 0.0)


def light_directions(views: np.ndarray) -> np.ndarray:
    """Return the head-and-sky light of every view [N, 4, 4]: between the camera's back axis and the world's up.

    The directions [N, 3] float32 are unit vectors in world space towards the light; zero for a camera that looks
    straight up.
    """
    light = views[:, 2, :3] + np.array([0, 1, 0], views.dtype)
    length = np.linalg.norm(light, axis=1, keepdims=True)
    return np.where(length > 1e-6, light / np.maximum(length, 1e-6), 0).astype(np.float32)


class Optics(NamedTuple):
    """The optics of a camera for kernels; lengths are in metres, and the image plane is at unit distance."""

    near: np.float32  # near plane
    far: np.float32  # end of the rays
    miss: np.float32  # depth written if nothing is hit
    min_depth: np.float32  # smallest depth
    max_depth: np.float32  # greatest depth
    offset: np.float32  # subtracted from depth
    unit: np.float32  # divisor of depth
    left: np.float32  # left edge of the image plane
    top: np.float32  # upper edge of the image plane
    pixel: np.float32  # side of a pixel
    width: int  # pixels in a row
    height: int  # rows of pixels


def camera_optics(camera: Camera, sensors: tuple[str, ...]) -> Optics:
    """Return the form of a camera that kernels take."""
    encoding = camera.depth_encoding
    # If a miss reads max_depth, so does everything farther away, and rays can end there, which is faster.
    clipped = tuple(sensors) == ("depth",) and camera.depth_miss == "far"
    return Optics(
        near=np.float32(camera.near),
        far=np.float32(camera.max_depth if clipped else np.inf),
        miss=np.float32(encoding.miss),
        min_depth=np.float32(encoding.nearest),
        max_depth=np.float32(encoding.farthest),
        offset=np.float32(encoding.offset),
        unit=np.float32(encoding.unit),
        left=np.float32(0.0 if camera.lens else -camera.tan_half_width),
        top=np.float32(0.0 if camera.lens else camera.tan_half_height),
        pixel=np.float32(0.0 if camera.lens else 2 * camera.tan_half_width / camera.width),
        width=camera.width,
        height=camera.height,
    )


class RayTable(NamedTuple):
    """The rays of a camera, in its own frame; both arrays cover whole packets of 4x4 pixels.

    The texture footprints of the pixels of a packet are computed from one pair of axes: how the direction of a ray
    changes to the next pixel, on average over the packet; for parallel rays, how the origin changes.
    """

    # [4 h, 4 w, 6] float32: direction (right, up, ahead), origin (right, up) in metres, end of the ray
    rays: np.ndarray
    axes: np.ndarray  # [h, w, 2, 3] float32: change to the next pixel on the right and above, as (right, up, ahead)
    parallel: np.float32  # 1 if the rays are parallel


def ray_table(camera: Camera, optics: Optics) -> RayTable:
    """Return the rays of a camera, whose optics are given as kernels take them."""
    rows = -(-camera.height // PACKET)
    columns = -(-camera.width // PACKET)
    rays = np.zeros((PACKET * rows, PACKET * columns, 6), np.float32)
    rays[..., AHEAD] = 1
    rays[..., END] = -1  # Embree ignores a ray that ends before it begins
    changes = np.full((PACKET * rows, PACKET * columns, 2, 3), np.nan)
    image = slice(camera.height), slice(camera.width)
    if camera.lens is None:
        # As in the kernel for pinholes, to the bit.
        half = np.float32(0.5)
        x = np.arange(camera.width, dtype=np.float32) + half
        y = np.arange(camera.height, dtype=np.float32)[:, None] + half
        rays[(*image, RIGHT)] = optics.left + x * optics.pixel
        rays[(*image, UP)] = optics.top - y * optics.pixel
        rays[(*image, END)] = optics.far
        changes[image] = [[optics.pixel, 0, 0], [0, optics.pixel, 0]]
        return RayTable(rays, _packet_means(changes, rows, columns), np.float32(0))
    y, x = np.mgrid[: camera.height, : camera.width] + 0.5
    size = (camera.width, camera.height)
    direction, origin = camera.lens.rays(x, y, *size)
    has_ray = ~np.isnan(direction).any(axis=-1)
    whole = np.concatenate([direction, origin, np.full((*x.shape, 1), optics.far)], axis=-1)
    rays[image][has_ray] = whole[has_ray]
    part = "origin" if camera.lens.is_parallel else "direction"
    for axis, (dx, dy) in enumerate(((0.5, 0), (0, -0.5))):  # rows count downwards
        after = getattr(camera.lens.rays(x + dx, y + dy, *size), part)
        before = getattr(camera.lens.rays(x - dx, y - dy, *size), part)
        changes[image][:, :, axis] = 0 if camera.lens.is_parallel else np.nan
        changes[image][:, :, axis, : after.shape[-1]] = after - before
    return RayTable(rays, _packet_means(changes, rows, columns), np.float32(camera.lens.is_parallel))


def _packet_means(changes: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Return the means [h, w, 2, 3] float32 of changes [4 h, 4 w, 2, 3] over packets; zero where all are NaN."""
    packets = changes.reshape(rows, PACKET, columns, PACKET, 2, 3)
    known = ~np.isnan(packets).any(axis=(-1, -2), keepdims=True)
    total = np.where(known, packets, 0).sum(axis=(1, 3))
    return (total / np.maximum(known.sum(axis=(1, 3)), 1)).astype(np.float32)
