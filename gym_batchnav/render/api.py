"""The Renderer protocol, and the choice of a renderer.

A renderer belongs to one library and mirrors its scenes; each caller draws into its own target. Views are arbitrary
world-to-camera matrices, so a renderer does not know about agents.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
import warnings
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.bodies import BodyViews
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.system.extras import install_command

RENDERERS = ("auto", "warp", "opengl", "embree")
# Type and number of channels of each sensor's pixels.
SENSOR_FORMATS: dict[str, tuple[np.dtype, int]] = {
    "depth": (np.dtype(np.float32), 1),
    "rgb": (np.dtype(np.uint8), 3),
    "semantic": (np.dtype(np.int32), 1),
    "normals": (np.dtype(np.float32), 3),  # unit vectors in the camera's frame, towards the viewer; 0 for a miss
    "points": (np.dtype(np.float32), 3),  # where rays hit, in the world, metres; 0 for a miss
}
SENSORS = ("depth", "rgb", "semantic")  # that every renderer draws; those that trace rays draw the others as well
DEVICES = ("cpu", "cuda")
INSTALL_WARP = install_command("warp")
INSTALL_NVIDIA_GL = "install NVIDIA's OpenGL (libnvidia-gl; in a container NVIDIA_DRIVER_CAPABILITIES=all)"
NVIDIA_DRIVER_FILE = Path("/proc/driver/nvidia/version")  # of the kernel's driver, on Linux

Batch = TypeVar("Batch")


def opengl_remedy() -> str:
    """Return what to do on this system where OpenGL 4.3 is missing, as an imperative."""
    if sys.platform == "darwin":
        return "choose renderer='embree', since macOS ends at OpenGL 4.1"
    if sys.platform == "win32":
        return "install the driver of your graphics card, or choose renderer='embree'"
    return "install a driver (Debian: apt-get install libegl1 libgl1-mesa-dri), or choose renderer='embree'"


class Target(Protocol):
    """A render target: one caller draws up to ``num_views`` views at a time through one camera.

    A batch is in flight between its ``begin`` and its ``finish``. Two batches may be in flight at once (one if
    ``buffers`` is 1), so that batch t is read while batch t + 1 is drawn: begin(t), begin(t + 1), finish() returns t,
    begin(t + 2), ... Images are kept in a ring of ``buffers`` sets: begin(t + ``buffers``) overwrites those of batch t.
    """

    num_views: int

    def render(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews | None = None) -> dict[str, Any]:
        """Draw every view: ``begin``, then ``finish``.

        Args:
            slots: [n] int, the slot whose scene each view shows; n is at most ``num_views``.
            views: [n, 4, 4] float32, world-to-camera, rigid.
            bodies: Moving bodies to draw over the scenes; None for none.

        Returns:
            One array per sensor, [n, H, W, channels]; see ``SENSOR_FORMATS``. With ``device="cuda"`` they are torch
            tensors on that device, which ``close`` invalidates.

        Raises:
            ValueError: If a view is not rigid, or as ``begin`` does.
            RuntimeError: If a batch is in flight, or as ``begin`` and ``finish`` do.
        """

    def begin(self, slots: np.ndarray, views: np.ndarray, bodies: BodyViews | None = None) -> None:
        """Start drawing: the first half of ``render``.

        Views are not checked to be rigid, because a step computes them itself. Other views give meaningless images, but
        no unsafe access.

        Raises:
            ValueError: If a shape, type or slot is wrong, or a slot is empty; no batch is then begun.
            RuntimeError: If ``finish`` must be called first, the target or its renderer is closed, the process was
                forked, or another thread uses the renderer.
        """

    def finish(self) -> dict[str, Any]:
        """Wait for the images of the oldest batch in flight and return them: the second half of ``render``.

        Raises:
            RuntimeError: If no batch is in flight, the target or its renderer is closed, the process was forked,
                another thread uses the renderer, or the device failed.
        """

    def close(self) -> None:
        """Release the target; idempotent."""


class Renderer(Protocol):
    """A renderer of one library's scenes.

    Attributes:
        semantic_ids: What the sensor ``"semantic"`` of all its targets draws.
    """

    semantic_ids: SemanticIds

    @property
    def name(self) -> str:
        """``"warp"``, ``"opengl"`` or ``"embree"``."""

    @property
    def device(self) -> str:
        """Name of the graphics device or processor that renders."""

    @property
    def nbytes(self) -> int:
        """Bytes reserved for scenes on the graphics device; 0 if they are in main memory."""

    def target(
        self,
        camera: Camera,
        sensors: tuple[str, ...] = ("depth",),
        num_views: int = 1,
        device: str = "cpu",
        buffers: int = 2,
    ) -> Target:
        """Make a target for up to ``num_views`` views at a time; ``device`` is one of ``DEVICES``."""

    def close(self) -> None:
        """Release every scene and target; idempotent."""


def make_renderer(
    name: str,
    library: SceneLibrary,
    semantic_ids: SemanticIds | None = None,
    bodies: SceneLibrary | None = None,
) -> Renderer:
    """Make a renderer for a library's scenes; its ``name`` and ``device`` tell which one was chosen.

    Args:
        name: ``"warp"``, ``"opengl"``, ``"embree"``, or ``"auto"``: Warp where its package and an NVIDIA device are,
            OpenGL on other GPUs that draw, Embree otherwise, also on GPUs for data centres that hardly draw. If Embree
            is not installed, ``"auto"`` is OpenGL on any device.
        library: The scenes to draw.
        semantic_ids: What the sensor ``"semantic"`` draws; the ids of objects by default.
        bodies: The shapes of moving bodies, one per slot; None for none.

    Raises:
        ValueError: If the name is none of these.
        RuntimeError: If the renderer cannot run here; the message names the packages to install.
    """
    choice = find_renderer(name)
    if choice.warns:
        warnings.warn(f"{choice.reason} (gym-batchnav doctor explains why)", stacklevel=2)
    if choice.name == "warp":
        from gym_batchnav.render.warp.renderer import WarpRenderer

        return WarpRenderer(library, semantic_ids, bodies)
    if choice.name == "opengl":
        from gym_batchnav.render.opengl import OpenGLRenderer

        return OpenGLRenderer(library, semantic_ids=semantic_ids, bodies=bodies)
    from gym_batchnav.render.embree.renderer import EmbreeRenderer

    return EmbreeRenderer(library, semantic_ids, bodies)


class RendererChoice(NamedTuple):
    """The name of a renderer, why it was chosen, whether to warn the user about it, and whether it draws on a GPU."""

    name: str
    reason: str
    warns: bool = False
    on_gpu: bool = False


def find_renderer(name: str) -> RendererChoice:
    """Return which renderer this machine would use for one of ``RENDERERS``.

    This loads no driver that draws in software, see ``render.opengl.discovery``.

    Raises:
        ValueError: If the name is none of these.
        RuntimeError: If the renderer cannot run here.
    """
    if name not in RENDERERS:
        raise ValueError(f"renderer={name!r}: choose one of {', '.join(map(repr, RENDERERS))}")
    warp_on_gpu = has_warp_gpu() if name in ("auto", "warp") else None
    if name == "warp" or (name == "auto" and warp_on_gpu):
        return choose_warp(name, warp_on_gpu)
    opengl_device = _opengl_device() if name != "embree" else None
    return choose_renderer(name, opengl_device, is_embree_installed(), NVIDIA_DRIVER_FILE.exists())


def choose_warp(name: str, on_gpu: bool | None) -> RendererChoice:
    """Return the choice of Warp.

    Args:
        name: ``"auto"`` or ``"warp"``.
        on_gpu: Whether Warp finds an NVIDIA device; None if it is not installed.

    Raises:
        RuntimeError: If Warp is not installed.
    """
    if on_gpu is None:
        raise RuntimeError(f"renderer='warp' needs the package warp-lang: {INSTALL_WARP}")
    if on_gpu:
        reason = "Warp traces rays on an NVIDIA device" if name == "auto" else "renderer='warp' was requested"
        return RendererChoice("warp", reason, on_gpu=True)
    return RendererChoice("warp", "renderer='warp' draws on one thread of the processor: no NVIDIA device", warns=True)


def choose_renderer(name: str, opengl_device: str | None, has_embree: bool, has_nvidia: bool = False) -> RendererChoice:
    """Choose between OpenGL and Embree.

    Args:
        name: ``"auto"``, ``"opengl"`` or ``"embree"``.
        opengl_device: Name of the device that OpenGL 4.3 draws on; None if there is none.
        has_embree: Whether Embree's package is installed.
        has_nvidia: Whether the machine has an NVIDIA GPU, whose user expects it to be used.

    Raises:
        RuntimeError: If the renderer is ``"opengl"`` and OpenGL was not found.
    """
    if name == "embree":
        return RendererChoice("embree", "renderer='embree' was requested")
    if opengl_device is None:
        if name == "opengl":
            raise RuntimeError(
                f"renderer='opengl' needs OpenGL 4.3 or newer, which was not found: {opengl_remedy()}; "
                "gym-batchnav doctor shows details"
            )
        reason = "OpenGL 4.3 was not found: drawing on the processor with Embree instead"
        return RendererChoice("embree", reason, warns=sys.platform != "darwin")  # where nothing can be done about it
    on_gpu = not is_software(opengl_device)
    if name == "opengl":
        return RendererChoice("opengl", "renderer='opengl' was requested", on_gpu=on_gpu)
    if on_gpu and has_embree and hardly_draws(opengl_device):
        reason = f"{opengl_device} hardly draws, so Embree draws on the processor; {INSTALL_WARP} to trace rays on it"
        return RendererChoice("embree", reason)
    if on_gpu:
        return RendererChoice("opengl", f"OpenGL draws on a graphics device, {opengl_device}", on_gpu=True)
    reason = f"OpenGL draws in software, {opengl_device}"
    warning = f"; the NVIDIA GPU of this machine is not used: {INSTALL_WARP}" if has_nvidia else ""
    if not has_embree:
        return RendererChoice("opengl", f"{reason}, and Embree is not installed{warning}", has_nvidia)
    return RendererChoice("embree", f"{reason}, which is slower than Embree{warning}", has_nvidia)


def ray_tracer() -> str:
    """Return the name of the renderer for lenses and sensors that only ray tracers draw."""
    return "warp" if has_warp_gpu() else "embree"


def check_device(device: str, renderer: str) -> None:
    """Raise an error unless a renderer can put observations on a device; called when an environment is made.

    Args:
        device: The environment's ``obs_device``, one of ``DEVICES``.
        renderer: Name of the renderer, one of ``RENDERERS``.

    Raises:
        ValueError: If the device is none of these, or the renderer draws into main memory only.
        RuntimeError: If Warp, torch or an NVIDIA device is missing.
    """
    if device not in DEVICES:
        raise ValueError(f"obs_device={device!r}: choose one of {', '.join(map(repr, DEVICES))}")
    if device == "cpu":
        return
    if renderer not in ("auto", "warp"):
        raise ValueError(
            f"obs_device={device!r}: renderer={renderer!r} draws into main memory; pass obs_device='cpu' or "
            "renderer='warp'"
        )
    if has_warp_gpu() is None:
        raise RuntimeError(f"obs_device={device!r} needs the package warp-lang: {INSTALL_WARP}")
    from gym_batchnav.render.warp.device import check_cuda

    check_cuda()


def has_warp_gpu() -> bool | None:
    """Return whether Warp finds an NVIDIA device; None if it is not installed."""
    if importlib.util.find_spec("warp") is None:
        return None
    try:  # without a driver, importing Warp would take time for nothing
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    from gym_batchnav.render.warp.device import has_nvidia_device

    return has_nvidia_device()


def _opengl_device() -> str | None:
    """Return the name of the OpenGL 4.3 device, or None if there is none or ModernGL is not installed."""
    try:
        from gym_batchnav.render.opengl import find_device
    except ImportError:
        return None
    return find_device()


def is_embree_installed() -> bool:
    """Return whether the package with Embree is installed; it has no wheel for Linux on Arm."""
    return importlib.util.find_spec("embreex") is not None


def hardly_draws(device: str) -> bool:
    """Return whether the GPU of a name has almost no graphics units: of an H100's 66 texture clusters, two can draw.

    Names are used rather than a measurement, which would compile for seconds and differ from run to run.
    """
    return re.search(r"\b(G?H|G?B)[1-9]00\b|\bH20\b", device) is not None


def is_software(device: str) -> bool:
    """Return whether the OpenGL device of a name draws on the processor."""
    return any(word in device.lower() for word in ("llvmpipe", "softpipe", "swrast", "software", "swiftshader"))


def empty_pictures(camera: Camera, sensors: Sequence[str], num_views: int) -> dict[str, np.ndarray]:
    """Return one array per sensor for the pictures of ``num_views`` views; their contents are undefined."""
    shape = (num_views, camera.height, camera.width)
    formats = {sensor: SENSOR_FORMATS[sensor] for sensor in sensors}
    return {sensor: np.empty((*shape, channels), dtype) for sensor, (dtype, channels) in formats.items()}


def most_in_flight(buffers: int) -> int:
    """Return the number of batches that may be in flight on a target with ``buffers`` sets of images."""
    return min(2, buffers)


class InFlight(Generic[Batch]):
    """The batches of a target that have begun but not finished.

    Args:
        buffers: Number of sets of images of the target.
    """

    def __init__(self, buffers: int) -> None:
        self._limit = most_in_flight(buffers)
        self._batches: deque[Batch] = deque()

    def check_idle(self, action: str) -> None:
        """Raise RuntimeError if a batch is in flight."""
        if self._batches:
            raise RuntimeError(f"{action} while a batch is in flight: call finish first")

    def check_space(self) -> None:
        """Raise RuntimeError unless another batch may begin."""
        if len(self._batches) >= self._limit:
            raise RuntimeError(f"begin with {len(self._batches)} in flight: call finish before the next begin")

    def add(self, batch: Batch) -> None:
        """Add a batch that has begun."""
        self._batches.append(batch)

    def check_begun(self) -> None:
        """Raise RuntimeError unless a batch is in flight."""
        if not self._batches:
            raise RuntimeError("finish without begin: call begin(slots, views) first")

    def take(self) -> Batch:
        """Remove the oldest batch and return it; see ``check_begun``."""
        self.check_begun()
        return self._batches.popleft()

    def clear(self) -> None:
        """Remove all batches."""
        self._batches.clear()
