"""The base class of renderers, and the choice of a renderer.

A renderer belongs to one library and mirrors its scenes; each caller draws into its own target. Views are arbitrary
world-to-camera matrices, so a renderer does not know about agents.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.system.extras import install_command
from gym_batchnav.system.process import Claim

if TYPE_CHECKING:
    from gym_batchnav.render.target import Drawing, Target

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


def opengl_remedy() -> str:
    """Return what to do on this system where OpenGL 4.3 is missing, as an imperative."""
    if sys.platform == "darwin":
        return "choose renderer='embree', since macOS ends at OpenGL 4.1"
    if sys.platform == "win32":
        return "install the driver of your graphics card, or choose renderer='embree'"
    return "install a driver (Debian: apt-get install libegl1 libgl1-mesa-dri), or choose renderer='embree'"


class Renderer(ABC):
    """A renderer of one library's scenes.

    Args:
        library: The scenes.
        semantic_ids: What the sensor ``"semantic"`` of all its targets draws; the ids of objects by default.
        bodies: The shapes of moving bodies, one per slot; None for none.

    Attributes:
        name: ``"warp"``, ``"opengl"`` or ``"embree"``.
        device: Name of the graphics device or processor that renders.
        claim: The claim of the thread that uses it.
    """

    name: str
    device: str

    def __init__(
        self, library: SceneLibrary, semantic_ids: SemanticIds | None = None, bodies: SceneLibrary | None = None
    ) -> None:
        self.library = library
        self.semantic_ids = semantic_ids or SemanticIds()
        self.bodies = bodies
        self.claim = Claim(f"this {type(self).__name__}")
        self._closed = False

    def target(
        self,
        camera: Camera,
        sensors: tuple[str, ...] = ("depth",),
        num_views: int = 1,
        device: str = "cpu",
        buffers: int = 2,
    ) -> Target:
        """Make a target for up to ``num_views`` views at a time.

        Args:
            camera: The camera of every view.
            sensors: Any of ``SENSORS``; ray tracers also draw the others of ``SENSOR_FORMATS``.
            num_views: The largest number of views.
            device: Device of the pictures: ``"cpu"`` for NumPy arrays, or with Warp ``"cuda"`` for torch tensors that
                stay on the NVIDIA device.
            buffers: Number of sets of pictures that take turns as results.

        Raises:
            ValueError: If a sensor, a number or the device is wrong, or only ray tracers draw the camera's lens or a
                sensor.
            RuntimeError: If the renderer is closed, or ``device="cuda"`` and Warp finds no NVIDIA device.
        """
        from gym_batchnav.render.target import Target

        self.check_open()
        check_sensors(sensors)
        for name, count in (("num_views", num_views), ("buffers", buffers)):
            if count < 1:
                raise ValueError(f"{name}={count}: pass at least 1")
        if device != "cpu" and self.name != "warp":
            raise ValueError(
                f"device={device!r}: renderer={self.name!r} draws into main memory: pass device='cpu', or choose "
                "renderer='warp'"
            )
        return Target(self, self.drawing(camera, sensors, num_views, device, buffers), num_views, buffers)

    @abstractmethod
    def drawing(self, camera: Camera, sensors: tuple[str, ...], num_views: int, device: str, buffers: int) -> Drawing:
        """Return the renderer's part of a target, given the arguments of ``target``."""

    def check_open(self) -> None:
        """Raise RuntimeError if the renderer is closed."""
        if self._closed:
            raise RuntimeError(
                f"this {type(self).__name__} is closed: make a new one with make_renderer; if environments share it, "
                "let the environment that made it be the last to close"
            )

    @abstractmethod
    def close(self) -> None:
        """Release every scene; targets of this renderer can no longer draw. Idempotent."""


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

        return OpenGLRenderer(library, semantic_ids, bodies)
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
    if warp_on_gpu:
        reason = "Warp traces rays on an NVIDIA device" if name == "auto" else "renderer='warp' was requested"
        return RendererChoice("warp", reason, on_gpu=True)
    if name == "warp" and warp_on_gpu is None:
        raise RuntimeError(f"renderer='warp' needs the package warp-lang: {INSTALL_WARP}")
    if name == "warp":
        reason = "renderer='warp' found no NVIDIA device and draws slowly, on one thread: use renderer='auto'"
        return RendererChoice("warp", reason, warns=True)
    opengl_device = _opengl_device() if name != "embree" else None
    return choose_renderer(name, opengl_device, is_embree_installed(), NVIDIA_DRIVER_FILE.exists())


def choose_renderer(name: str, opengl_device: str | None, has_embree: bool, has_nvidia: bool = False) -> RendererChoice:
    """Choose between OpenGL and Embree, where OpenGL 4.3 draws on a device of a name, or on none.

    Users of a machine with an NVIDIA GPU expect it to be used. ``"opengl"`` without a device raises RuntimeError.
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
        reason = (
            f"{opengl_device} is slow with OpenGL, so Embree draws on the processor; {INSTALL_WARP} to trace rays on "
            "the GPU"
        )
        return RendererChoice("embree", reason)
    if on_gpu:
        return RendererChoice("opengl", f"OpenGL draws on a graphics device, {opengl_device}", on_gpu=True)
    reason = f"OpenGL draws in software, {opengl_device}"
    warning = f"; the NVIDIA GPU of this machine is not used: {INSTALL_WARP}, or check its driver" if has_nvidia else ""
    if not has_embree:
        return RendererChoice("opengl", f"{reason}, and Embree is not installed{warning}", has_nvidia)
    return RendererChoice("embree", f"{reason}, which is slower than Embree{warning}", has_nvidia)


def ray_tracer() -> str:
    """Return the name of the renderer for lenses and sensors that only ray tracers draw."""
    return "warp" if has_warp_gpu() else "embree"


def check_device(device: str, renderer: str) -> None:
    """Raise an error unless a renderer of a name can put observations on the device ``obs_device``.

    Raises:
        ValueError: If the device is none of ``DEVICES``, or the renderer draws into main memory only.
        RuntimeError: If Warp, torch or an NVIDIA device is missing.
    """
    if device not in DEVICES:
        raise ValueError(f"obs_device={device!r}: choose one of {', '.join(map(repr, DEVICES))}")
    if device == "cpu":
        if renderer == "warp" and has_warp_gpu() is None:
            raise RuntimeError(f"renderer='warp' needs the package warp-lang: {INSTALL_WARP}")
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


def check_sensors(sensors: Sequence[str]) -> None:
    """Raise ValueError unless ``sensors`` has one or more names of sensors, each once."""
    known = set(SENSOR_FORMATS)
    if not sensors or isinstance(sensors, str) or set(sensors) - known or len(set(sensors)) < len(sensors):
        raise ValueError(f"sensors={sensors!r}: pass a tuple of one or more of {', '.join(map(repr, SENSOR_FORMATS))}")


def needs_ray_table(camera: Camera, sensors: Sequence[str]) -> bool:
    """Return whether only a renderer that traces rays can draw what a camera records."""
    return camera.lens is not None or not set(sensors) <= set(SENSORS)


def ray_table_bytes(camera: Camera) -> tuple[int, int]:
    """Return the bytes of main memory that a camera's table of rays takes, and the least that its computation adds."""
    pixels = camera.width * camera.height
    # A ray has six float32, and a packet of 16 rays six more.
    return 24 * pixels + 24 * pixels // 16, (96 if camera.lens is None else 238) * pixels


def check_opengl(camera: Camera, sensors: Sequence[str]) -> None:
    """Raise ValueError, naming lens or sensor, if OpenGL cannot draw what a camera records."""
    if camera.lens is not None:
        raise ValueError(f"OpenGL draws pinhole cameras only, not lens={camera.lens}: pass renderer='embree'")
    others = [sensor for sensor in sensors if sensor not in SENSORS]
    if others:
        raise ValueError(f"OpenGL draws {', '.join(map(repr, SENSORS))}, not {others[0]!r}: pass renderer='embree'")


def empty_pictures(camera: Camera, sensors: Sequence[str], num_views: int) -> dict[str, np.ndarray]:
    """Return one array per sensor for the pictures of ``num_views`` views; their contents are undefined."""
    shape = (num_views, camera.height, camera.width)
    return {sensor: np.empty((*shape, SENSOR_FORMATS[sensor][1]), SENSOR_FORMATS[sensor][0]) for sensor in sensors}
