"""Checks of the arguments of renderers and targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.render.api import SENSOR_FORMATS, SENSORS


def check_sensors(sensors: Sequence[str]) -> None:
    """Raise ValueError unless ``sensors`` has one or more names of sensors, each once."""
    known = set(SENSOR_FORMATS)
    if not sensors or isinstance(sensors, str) or set(sensors) - known or len(set(sensors)) < len(sensors):
        raise ValueError(f"sensors={sensors!r}: pass a tuple of one or more of {', '.join(map(repr, SENSOR_FORMATS))}")


def needs_ray_table(camera: Camera, sensors: Sequence[str]) -> bool:
    """Return whether only a renderer that traces rays can draw what a camera records."""
    return camera.lens is not None or not set(sensors) <= set(SENSORS)


def ray_table_bytes(camera: Camera) -> tuple[int, int]:
    """Return the main memory that a camera's table of rays takes, in bytes, and that its computation takes besides.

    A ray has six float32, and a packet of 16 rays six more. The computation takes at least this much.
    """
    pixels = camera.width * camera.height
    return 24 * pixels + 24 * pixels // 16, (96 if camera.lens is None else 238) * pixels


def check_opengl(camera: Camera, sensors: Sequence[str]) -> None:
    """Raise ValueError, naming lens or sensor, if OpenGL cannot draw what a camera records."""
    if camera.lens is not None:
        raise ValueError(f"OpenGL draws pinhole cameras only, not lens={camera.lens}: pass renderer='embree'")
    others = [sensor for sensor in sensors if sensor not in SENSORS]
    if others:
        raise ValueError(f"OpenGL draws {', '.join(map(repr, SENSORS))}, not {others[0]!r}: pass renderer='embree'")


def check_main_memory(device: str, renderer: str) -> None:
    """Raise ValueError unless pictures are asked for in main memory, from a renderer that draws nowhere else."""
    if device != "cpu":
        raise ValueError(
            f"device={device!r}: {renderer} draws into main memory: pass device='cpu', or choose renderer='warp'"
        )


def closed_error(renderer: object) -> RuntimeError:
    """Return the error to raise if a renderer is used after it was closed."""
    return RuntimeError(
        f"this {type(renderer).__name__} is closed: make a new one with make_renderer; if environments share it, close "
        "the environment that made it last"
    )


def check_target(sensors: Sequence[str], num_views: int, buffers: int) -> None:
    """Raise ValueError unless ``check_sensors`` accepts the sensors and both counts are at least 1."""
    check_sensors(sensors)
    for name, count in (("num_views", num_views), ("buffers", buffers)):
        if count < 1:
            raise ValueError(f"{name}={count}: pass at least 1")


def check_slots(slots: np.ndarray, views: np.ndarray, num_slots: int, num_views: int) -> None:
    """Raise ValueError unless shapes, types and slots are valid, so that no kernel reads outside its arrays.

    Args:
        slots: [n] of an integer type, each from 0 to ``num_slots`` - 1.
        views: [n, 4, 4] of a floating type.
        num_slots: Number of slots in the library.
        num_views: Limit of the number of views, n.
    """
    slots = np.asarray(slots)
    views = np.asarray(views)
    count = len(views) if views.ndim else 0
    if not 1 <= count <= num_views or views.shape != (count, 4, 4) or views.dtype.kind != "f":
        raise ValueError(f"views are {views.dtype} {views.shape}: pass float32 (n, 4, 4) with n from 1 to {num_views}")
    if slots.shape != (count,) or slots.dtype.kind not in "iu":
        raise ValueError(f"slots are {slots.dtype} {slots.shape}: pass integers ({count},)")
    if slots.min() < 0 or slots.max() >= num_slots:
        first = int(np.argmax((slots < 0) | (slots >= num_slots)))
        raise ValueError(f"slots[{first}] = {slots[first]}: the library has slots 0 to {num_slots - 1}")


def check_rigid(views: np.ndarray) -> None:
    """Raise ValueError, naming the first faulty view, unless views [n, 4, 4] are rigid world-to-camera matrices."""
    views = np.asarray(views)
    rotation = views[:, :3, :3]
    last_row = np.array([0, 0, 0, 1], views.dtype)
    with np.errstate(invalid="ignore", over="ignore"):  # NaN fails every comparison below
        skew = np.abs(rotation @ rotation.transpose(0, 2, 1) - np.eye(3, dtype=views.dtype)).max(axis=(1, 2))
        mirrored = (_cross_rows(rotation) * rotation[:, 2]).sum(axis=1) < 0
        rigid = (skew <= 1e-3) & ~mirrored & np.isfinite(views[:, :3, 3]).all(axis=1)
        rigid &= (np.abs(views[:, 3] - last_row) <= 1e-3).all(axis=1)
    if not rigid.all():
        first = int(np.argmin(rigid))
        raise ValueError(f"views[{first}] is not a rigid world-to-camera matrix:\n{views[first]}")


def _cross_rows(matrices: np.ndarray) -> np.ndarray:
    """Return the cross products [N, 3] of the first two rows of matrices [N, 3, 3], in a third of np.cross's time."""
    a = matrices[:, 0]
    b = matrices[:, 1]
    return a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]
