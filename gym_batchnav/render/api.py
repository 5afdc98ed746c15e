"""The Renderer contract and the choice of one.

A renderer belongs to one library and mirrors its scenes; a target is what one caller draws into. Views are arbitrary
world-to-camera matrices, so a renderer knows nothing of agents.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary

RENDERERS = ("auto", "opengl", "embree")
# The type and the number of channels of every sensor's pixels.
SENSOR_FORMATS: dict[str, tuple[np.dtype, int]] = {
    "depth": (np.dtype(np.float32), 1),
    "rgb": (np.dtype(np.uint8), 3),
    "semantic": (np.dtype(np.int32), 1),
}
SENSORS = tuple(SENSOR_FORMATS)
AMBIENT, DIFFUSE = 0.65, 0.35  # a lit surface shows albedo x (AMBIENT + DIFFUSE max(0, n . l))


class Target(Protocol):
    """What one caller draws into: up to ``num_views`` views at a time through one camera.

    A batch is under way from its ``begin`` to its ``finish``. Two may be under way at once, one where ``buffers`` is 1,
    so that batch t is read while batch t + 1 is drawn: begin(t), begin(t + 1), finish() gives t, begin(t + 2), ...
    Pictures belong to a ring of ``buffers`` sets: those of batch t are overwritten from begin(t + ``buffers``) on.
    """

    num_views: int

    def render(self, slots: np.ndarray, views: np.ndarray) -> dict[str, Any]:
        """Draw every view: ``begin``, then ``finish``.

        Args:
            slots: [n] int, the library's slot that each view looks into; n is at most ``num_views``.
            views: [n, 4, 4] float32, world-to-camera, rigid.

        Returns:
            One array a sensor, [n, H, W, channels]; see ``SENSOR_FORMATS``. With ``device="cuda"`` they are torch
            tensors on that device.

        Raises:
            ValueError: The slots or views are wrong (see ``check_views``), or a slot is empty.
            RuntimeError: A batch is under way, or as for ``begin`` and ``finish``.
        """

    def begin(self, slots: np.ndarray, views: np.ndarray) -> None:
        """The first half of ``render``: start drawing.

        Raises:
            ValueError: As for ``render``; nothing is under way then that was not before.
            RuntimeError: As many batches are under way as may be, the target or its renderer is closed, or the process
                was forked.
        """

    def finish(self) -> dict[str, Any]:
        """The second half of ``render``: wait for the pictures of the oldest batch under way and return them.

        Raises:
            RuntimeError: No batch is under way, the target or its renderer is closed, the process was forked, or the
                device failed.
        """

    def close(self) -> None:
        """Release the target; safe twice."""


class Renderer(Protocol):
    """Scenes of one library, ready to be drawn."""

    @property
    def name(self) -> str:
        """``"opengl"`` or ``"embree"``."""

    @property
    def device(self) -> str:
        """What draws: the name of the graphics device or the processor."""

    @property
    def nbytes(self) -> int:
        """Bytes of the graphics device that scenes take, with room for others; 0 where main memory is drawn from."""

    def target(
        self,
        camera: Camera,
        sensors: tuple[str, ...] = ("depth",),
        num_views: int = 1,
        device: str = "cpu",
        buffers: int = 2,
    ) -> Target:
        """Something to draw up to ``num_views`` views at a time into; ``device`` is ``"cpu"`` or ``"cuda"``."""

    def close(self) -> None:
        """Release every scene and target; safe twice."""


def make_renderer(name: str, library: SceneLibrary) -> Renderer:
    """The renderer of a library's scenes; its ``name`` and ``device`` say which one it is.

    Args:
        name: ``"opengl"``, ``"embree"``, or ``"auto"``: OpenGL on a hardware device, Embree otherwise. Where Embree is
            not to be had, ``"auto"`` takes OpenGL in software.
        library: The scenes to draw.

    Raises:
        ValueError: The name is none of these.
        RuntimeError: What was asked for cannot run here; the message names what to install.
    """
    if name not in RENDERERS:
        raise ValueError(f"renderer={name!r}: choose one of {', '.join(map(repr, RENDERERS))}")
    opengl_device = _opengl_device() if name != "embree" else None
    if name == "opengl" and opengl_device is None:
        raise RuntimeError(
            "renderer='opengl' needs OpenGL 4.3 or newer and found none: install a driver "
            "(Debian: libegl1 libgl1-mesa-dri), or choose renderer='embree'"
        )
    if opengl_device is not None and (name == "opengl" or not is_software(opengl_device) or not _has_embree()):
        from gym_batchnav.render.opengl import OpenGLRenderer

        return OpenGLRenderer(library)
    if name == "auto" and opengl_device is None:
        warnings.warn("found no OpenGL 4.3: drawing on the processor with Embree instead", stacklevel=2)
    from gym_batchnav.render.embree.renderer import EmbreeRenderer

    return EmbreeRenderer(library)


def _opengl_device() -> str | None:
    """The name of the OpenGL 4.3 device, None where there is none or ModernGL is not installed."""
    try:
        from gym_batchnav.render.opengl import probe
    except ImportError:
        return None
    return probe()


def _has_embree() -> bool:
    """Whether the package with Embree is installed; it has no wheel for Linux on Arm."""
    return importlib.util.find_spec("embreex") is not None


def is_software(device: str) -> bool:
    """Whether an OpenGL device of this name draws on the processor."""
    return any(word in device.lower() for word in ("llvmpipe", "softpipe", "swrast", "software", "swiftshader"))


def check_sensors(sensors: Sequence[str]) -> None:
    """Refuse no sensor, an unknown or a repeated one.

    Raises:
        ValueError: The message names the choices.
    """
    if not sensors or isinstance(sensors, str) or set(sensors) - set(SENSORS) or len(set(sensors)) < len(sensors):
        raise ValueError(f"sensors={sensors!r}: give a tuple of one or more of {', '.join(map(repr, SENSORS))}")


def check_target(sensors: Sequence[str], num_views: int, buffers: int) -> None:
    """Refuse a target that nothing can draw into.

    Raises:
        ValueError: The sensors are wrong, or a count is below 1.
    """
    check_sensors(sensors)
    for what, count in (("num_views", num_views), ("buffers", buffers)):
        if count < 1:
            raise ValueError(f"{what}={count}: give at least 1")


def empty_pictures(camera: Camera, sensors: Sequence[str], num_views: int) -> dict[str, np.ndarray]:
    """Arrays for the pictures of ``num_views`` views, one a sensor; their contents are undefined."""
    shape = (num_views, camera.height, camera.width)
    formats = {sensor: SENSOR_FORMATS[sensor] for sensor in sensors}
    return {sensor: np.empty((*shape, channels), dtype) for sensor, (dtype, channels) in formats.items()}


def most_under_way(buffers: int) -> int:
    """How many batches a target with so many sets of pictures lets begin before the first of them is finished."""
    return min(2, buffers)


def check_views(slots: np.ndarray, views: np.ndarray, num_slots: int, num_views: int) -> None:
    """Refuse poses that cannot be drawn.

    Args:
        slots: [n] of an integer type, each from 0 to ``num_slots`` - 1.
        views: [n, 4, 4] of a floating type, rigid world-to-camera matrices.
        num_slots: Slots in the library.
        num_views: The most views that the target draws at once.

    Raises:
        ValueError: A shape, type or value is wrong; the message names the first view that is.
    """
    slots, views = np.asarray(slots), np.asarray(views)
    count = len(views) if views.ndim else 0
    if not 1 <= count <= num_views or views.shape != (count, 4, 4) or views.dtype.kind != "f":
        raise ValueError(f"views are {views.dtype} {views.shape}: give float32 (n, 4, 4) with n from 1 to {num_views}")
    if slots.shape != (count,) or slots.dtype.kind not in "iu":
        raise ValueError(f"slots are {slots.dtype} {slots.shape}: give integers ({count},)")
    if slots.min() < 0 or slots.max() >= num_slots:
        first = int(np.argmax((slots < 0) | (slots >= num_slots)))
        raise ValueError(f"slots[{first}] = {slots[first]}: the library has slots 0 to {num_slots - 1}")
    rotation, last_row = views[:, :3, :3], np.array([0, 0, 0, 1], views.dtype)
    with np.errstate(invalid="ignore", over="ignore"):  # NaN fails every comparison below
        skew = np.abs(rotation @ rotation.transpose(0, 2, 1) - np.eye(3, dtype=views.dtype)).max(axis=(1, 2))
        mirrored = (_cross_rows(rotation) * rotation[:, 2]).sum(axis=1) < 0
        rigid = (skew <= 1e-3) & ~mirrored & np.isfinite(views[:, :3, 3]).all(axis=1)
        rigid &= (np.abs(views[:, 3] - last_row) <= 1e-3).all(axis=1)
    if not rigid.all():
        first = int(np.argmin(rigid))
        raise ValueError(f"views[{first}] is not a rigid world-to-camera matrix:\n{views[first]}")


def _cross_rows(matrices: np.ndarray) -> np.ndarray:
    """[N, 3]: the cross product of the first two rows of matrices [N, 3, 3]; np.cross takes three times as long."""
    a, b = matrices[:, 0], matrices[:, 1]
    return a[:, [1, 2, 0]] * b[:, [2, 0, 1]] - a[:, [2, 0, 1]] * b[:, [1, 2, 0]]


def light_directions(views: np.ndarray) -> np.ndarray:
    """The head-and-sky light of every view: halfway between the camera's back axis and the world's up.

    Args:
        views: [N, 4, 4], world-to-camera.

    Returns:
        [N, 3] float32 unit vectors in world space towards the light; zero for a camera that looks straight up.
    """
    light = views[:, 2, :3] + np.array([0, 1, 0], views.dtype)
    length = np.linalg.norm(light, axis=1, keepdims=True)
    return np.where(length > 1e-6, light / np.maximum(length, 1e-6), 0).astype(np.float32)
