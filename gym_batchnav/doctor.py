"""Diagnosis of a machine: drivers, devices, packages, threads and caches, and advice on missing parts."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gym_batchnav
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.render.api import (
    INSTALL_NVIDIA_GL,
    NVIDIA_DRIVER_FILE,
    choose_renderer,
    find_renderer,
    has_warp_gpu,
    is_software,
    opengl_remedy,
)
from gym_batchnav.system.compilation import cache_directory
from gym_batchnav.system.extras import installed_version
from gym_batchnav.system.process import num_processors
from gym_batchnav.system.storage import is_writable
from gym_batchnav.system.wording import counted

PACKAGES = ("numpy", "numba", "gymnasium", "moderngl", "glcontext", "embreex", "trimesh", "torch", "warp-lang")
VENDOR_FOLDERS = ("/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d")  # libglvnd's own search path
_LAYER_VARIABLES = ("NUMBA_THREADING_LAYER", "NUMBA_THREADING_LAYER_PRIORITY")


@dataclass(frozen=True, slots=True)
class Graphics:
    """The libraries, drivers and devices that OpenGL needs without a window.

    Attributes:
        loader: Whether libEGL can be loaded.
        vendors: Files that register EGL's drivers.
        driver: Version of NVIDIA's kernel driver; None if it is not loaded.
        egl: Descriptions of EGL's devices.
        opengl: GL_RENDERER of the device that OpenGL draws on; None if OpenGL 4.3 is not available.
        version: GL_VERSION of that device, which includes the driver's version.
        error: Reason why OpenGL is not available; ``""`` if it is.
    """

    loader: bool = False
    vendors: tuple[str, ...] = ()
    driver: str | None = None
    egl: tuple[str, ...] = ()
    opengl: str | None = None
    version: str = ""
    error: str = ""

    @property
    def hardware(self) -> bool:
        """Whether OpenGL draws on a graphics device."""
        return self.opengl is not None and not is_software(self.opengl)

    @property
    def has_nvidia(self) -> bool:
        """Whether the machine has an NVIDIA GPU with a loaded driver."""
        return self.driver is not None


@dataclass(frozen=True, slots=True)
class Folder:
    """A cache folder: its path, whether it is writable, and its size in bytes."""

    path: str
    writable: bool
    nbytes: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The state of this machine, as far as rendering and training depend on it.

    Attributes:
        versions: Versions of this package, Python and the dependencies; None for a package that is not installed.
        graphics: The libraries, drivers and devices of OpenGL.
        embree: Description of Embree's ray packets; None if Embree cannot run.
        embree_error: Reason why Embree cannot run; ``""`` if it can.
        renderer: Name of the renderer that ``renderer="auto"`` chooses; ``""`` if there is none.
        reason: Reason for that choice.
        cuda_error: Reason why ``obs_device="cuda"`` cannot be used; ``""`` if it can.
        threads: Numbers of threads and cores, Numba's threading layer, and related environment variables.
        caches: The folders of machine code and of prepared scenes.
        advice: Things to install or change, most useful first; empty if nothing is missing.
    """

    versions: dict[str, str | None] = field(default_factory=dict)
    graphics: Graphics = field(default_factory=Graphics)
    embree: str | None = None
    embree_error: str = ""
    renderer: str = ""
    reason: str = ""
    cuda_error: str = ""
    threads: dict[str, Any] = field(default_factory=dict)
    caches: dict[str, Folder] = field(default_factory=dict)
    advice: tuple[str, ...] = ()


def diagnose() -> Diagnosis:
    """Return the diagnosis of this machine.

    OpenGL is tried in a separate process.
    """
    graphics = find_graphics()
    embree, embree_error = _find_embree()
    warp = find_renderer("auto") if has_warp_gpu() else None
    renderer, reason = warp[:2] if warp else explain_auto(graphics, embree is not None)
    cuda_error = cuda_unavailable_reason()
    caches = {"machine code": _folder(cache_directory()), "scenes": _folder(DiskCache().directory)}
    versions = {name: installed_version(name) for name in PACKAGES}
    found = Diagnosis(
        {"gym-batchnav": gym_batchnav.__version__, "python": platform.python_version(), **versions},
        graphics, embree, embree_error, renderer, reason, cuda_error, _threads(), caches,
    )  # fmt: skip
    return replace(found, advice=advise(found))


def explain_auto(graphics: Graphics, has_embree: bool) -> tuple[str, str]:
    """Return the renderer that ``renderer="auto"`` chooses, ``""`` if none can run, and the reason."""
    if graphics.opengl is None and not has_embree:
        return "", "neither OpenGL 4.3 nor Embree is available"
    choice = choose_renderer("auto", graphics.opengl, has_embree, graphics.has_nvidia)
    return choice.name, choice.reason


def advise(found: Diagnosis) -> tuple[str, ...]:
    """Return things to install or change, most useful first."""
    graphics = found.graphics
    advice = []
    if found.versions.get("moderngl") is None:
        advice.append("pip install moderngl: the OpenGL renderer needs it")
    if not graphics.loader and sys.platform == "linux":
        advice.append("libEGL.so.1 was not found: install EGL's loader (Debian: apt-get install libegl1)")
    if graphics.has_nvidia and not graphics.hardware and found.renderer != "warp":
        advice.append(_nvidia_advice(graphics))
    elif graphics.opengl is None and graphics.loader:
        advice.append(graphics.error or f"OpenGL 4.3 is not available: {opengl_remedy()}")
    if found.embree is None:
        advice.append(f"Embree cannot run ({found.embree_error}): machines without a graphics device need it")
    if graphics.has_nvidia and found.cuda_error:
        advice.append(f"observations cannot stay on the NVIDIA GPU: {found.cuda_error}")
    cores = found.threads.get("cores", 1)
    threads = found.threads.get("numba", 1)
    if threads < cores:
        used = f"{counted(threads, 'thread')} on {counted(cores, 'core')}"
        advice.append(f"Numba uses {used}: unset NUMBA_NUM_THREADS or increase it")
    advice += _layer_advice(found.threads)
    advice += [
        f"the cache folder for {name}, '{folder.path}', is not writable: set {variable} to another folder"
        for (name, folder), variable in zip(
            found.caches.items(), ("NUMBA_CACHE_DIR", "GYM_BATCHNAV_CACHE"), strict=True
        )
        if not folder.writable
    ]
    return tuple(advice)


def _nvidia_advice(graphics: Graphics) -> str:
    """Return advice for a machine with an NVIDIA GPU that OpenGL does not draw on."""
    if not any("nvidia" in vendor.lower() for vendor in graphics.vendors):
        return f"EGL has no NVIDIA driver registered (10_nvidia.json is missing): {INSTALL_NVIDIA_GL}"
    if not any("NVIDIA" in device or "CUDA" in device for device in graphics.egl):
        return f"EGL does not list the NVIDIA GPU: {INSTALL_NVIDIA_GL}, and check /dev/nvidia* and /dev/dri"
    return (
        "EGL lists the NVIDIA GPU, but OpenGL does not draw on it: unset GLCONTEXT_DEVICE_INDEX and "
        f"LIBGL_ALWAYS_SOFTWARE{f' ({graphics.error})' if graphics.error else ''}"
    )


def _layer_advice(threads: dict[str, Any]) -> list[str]:
    """Return advice on Numba's threading layer; empty if several threads may render with it."""
    layer = threads.get("layer")
    if layer not in ("workqueue", "none"):
        return []
    requested = [name for name in _LAYER_VARIABLES if name in threads.get("variables", {})]
    if requested:
        problem = "Numba cannot load" if layer == "none" else "only one thread may render with"
        return [f"{problem} the threading layer that {' and '.join(requested)} selects: unset the variable"]
    return ["Numba found no OpenMP: install libgomp1, so that several threads may render"]


def find_graphics() -> Graphics:
    """Return the state of OpenGL on this machine, which another process tries."""
    driver = _driver_version()
    vendors = _vendor_files()
    try:
        from gym_batchnav.render.opengl import devices, discovery
    except ImportError as error:
        return Graphics(vendors=vendors, driver=driver, error=str(error))
    tried = discovery.try_opengl()
    return Graphics(
        loader=devices.load_egl() is not None,
        vendors=vendors,
        driver=driver,
        egl=tuple(map(str, devices.egl_devices())),
        opengl=tried.device,
        version=tried.version,
        error=tried.error,
    )


def _vendor_files() -> tuple[str, ...]:
    """Return the files that register EGL's drivers, from libglvnd's environment variables or default folders."""
    named = os.environ.get("__EGL_VENDOR_LIBRARY_FILENAMES", "")
    if named:
        return tuple(file for file in named.split(":") if Path(file).is_file())
    folders = os.environ.get("__EGL_VENDOR_LIBRARY_DIRS", "").split(":")
    searched = [folder for folder in folders if folder] or VENDOR_FOLDERS
    return tuple(str(file) for folder in searched for file in sorted(Path(folder).glob("*.json")))


def _driver_version() -> str | None:
    """Return the version of NVIDIA's kernel driver, or None if it is not loaded."""
    try:
        words = NVIDIA_DRIVER_FILE.read_text().split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdecimal() and "." in word), "unknown")


def _find_embree() -> tuple[str | None, str]:
    """Return a description of Embree's ray packets, or None and the error if it cannot run."""
    from gym_batchnav.render.embree.device import shared_embree

    try:
        return f"packets of {shared_embree().num_rays} rays", ""
    except (RuntimeError, OSError) as error:
        return None, str(error)


def cuda_unavailable_reason() -> str:
    """Return the reason why ``obs_device="cuda"`` cannot be used; ``""`` if it can."""
    from gym_batchnav.render.api import check_device

    try:
        check_device("cuda", "auto")
    except (RuntimeError, ValueError) as error:
        return str(error)
    return ""


def _threads() -> dict[str, Any]:
    """Return Numba's threads and threading layer, the available cores, and the variables that control them.

    The layer is ``"none"`` if Numba cannot load the one that is selected.
    """
    import numba

    config: Any = numba.config
    layer: str = "none"
    count = config.NUMBA_NUM_THREADS
    with suppress(ValueError):
        count = numba.get_num_threads()  # loads the layer
        layer = numba.threading_layer()
    names = ("NUMBA_NUM_THREADS", *_LAYER_VARIABLES, "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    set_here = {name: os.environ[name] for name in names if name in os.environ}
    return {"numba": count, "layer": layer, "cores": num_processors(), "variables": set_here}


def _folder(path: Path) -> Folder:
    """Return the state of a folder, which need not exist."""
    nbytes = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                nbytes += os.stat(os.path.join(folder, file)).st_size
            except OSError:  # another process has removed it
                continue
    return Folder(str(path), is_writable(path), nbytes)
