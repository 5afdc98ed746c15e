"""Diagnosis of a machine: what rendering and training find here, what is missing, and what to install."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import gym_batchnav
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.render.api import NVIDIA_DRIVER_FILE, choose_renderer, is_software

PACKAGES = ("numpy", "numba", "gymnasium", "moderngl", "glcontext", "embreex", "trimesh", "torch", "cuda-core")
VENDOR_FOLDERS = ("/etc/glvnd/egl_vendor.d", "/usr/share/glvnd/egl_vendor.d")  # libglvnd's own search path
_MESA = "Debian: apt-get install libegl1 libgl1-mesa-dri"
_NVIDIA_GL = "install NVIDIA's OpenGL (libnvidia-gl; in a container NVIDIA_DRIVER_CAPABILITIES=all)"


@dataclass(frozen=True, slots=True)
class Graphics:
    """The parts that OpenGL without a window needs.

    Attributes:
        loader: Whether libEGL can be loaded.
        vendors: Files that name EGL's drivers.
        driver: The version of NVIDIA's kernel driver, None without it.
        egl: EGL's devices, as text.
        cuda: CUDA's devices, as text.
        opengl: GL_RENDERER of the device that is drawn on; None if there is no OpenGL 4.3.
        version: Its version and driver.
        error: Why there is none.
        uuid: The device's UUID; ``""`` if OpenGL does not say.
    """

    loader: bool = False
    vendors: tuple[str, ...] = ()
    driver: str | None = None
    egl: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()
    opengl: str | None = None
    version: str = ""
    error: str = ""
    uuid: str = ""

    @property
    def hardware(self) -> bool:
        """Whether OpenGL draws on a graphics device."""
        return self.opengl is not None and not is_software(self.opengl)


@dataclass(frozen=True, slots=True)
class Folder:
    """A cache folder: its path, whether it can be written to, and its size in bytes."""

    path: str
    writable: bool
    nbytes: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found on this machine.

    Attributes:
        versions: Versions of this package, Python and what it uses; None for a package that is not installed.
        graphics: The parts that OpenGL needs.
        embree: The packets of rays that Embree traces here, as text; None if it cannot run.
        embree_error: Why it cannot.
        renderer: The renderer that ``renderer="auto"`` takes, ``""`` if there is none.
        reason: Why it takes that one.
        cuda_error: Why ``obs_device="cuda"`` cannot be used; ``""`` if it can.
        threads: Numbers of threads and cores, and the library that runs the threads.
        caches: The folders of machine code and of prepared scenes.
        advice: What to install or change, the most useful first; empty if nothing is missing.
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

    def as_json(self) -> dict[str, Any]:
        """Return everything as values for JSON."""
        return asdict(self)


def diagnose() -> Diagnosis:
    """Look at this machine. An OpenGL context and a device of Embree are made in this process, and kept until exit."""
    graphics = find_graphics()
    embree, embree_error = _find_embree()
    renderer, reason = explain_auto(graphics, embree is not None)
    cuda_error = _why_no_cuda()
    caches = {"machine code": _folder(_kernel_folder()), "scenes": _folder(DiskCache().directory)}
    found = Diagnosis(
        {"gym-batchnav": gym_batchnav.__version__, "python": platform.python_version(), **_package_versions()},
        graphics, embree, embree_error, renderer, reason, cuda_error, _threads(), caches,
    )  # fmt: skip
    return replace(found, advice=advise(found))


def explain_auto(graphics: Graphics, has_embree: bool) -> tuple[str, str]:
    """The renderer that ``renderer="auto"`` takes, and why; ``""`` and the reason where there is none."""
    if graphics.opengl is None and not has_embree:
        return "", "there is neither OpenGL 4.3 nor Embree"
    choice = choose_renderer("auto", graphics.opengl, has_embree)
    return choice.name, choice.reason


def advise(found: Diagnosis) -> tuple[str, ...]:
    """What to install or change, the most useful first."""
    graphics = found.graphics
    advice = []
    if found.versions.get("moderngl") is None:
        advice.append("pip install moderngl: OpenGL is drawn through it")
    if not graphics.loader and sys.platform == "linux":
        advice.append("no libEGL.so.1: install EGL's loader (Debian: apt-get install libegl1)")
    has_nvidia = graphics.driver is not None or bool(graphics.cuda)
    if has_nvidia and not graphics.hardware:
        advice.append(_why_nvidia_does_not_draw(graphics))
    elif graphics.opengl is None and graphics.loader:
        advice.append(f"no OpenGL 4.3: install a driver ({_MESA})")
    if found.embree is None:
        advice.append(f"Embree cannot run ({found.embree_error}): machines without a graphics device need it")
    if graphics.hardware and has_nvidia and found.cuda_error:
        advice.append(f"to keep observations on the GPU: {found.cuda_error}")
    cores, threads = found.threads.get("cores", 1), found.threads.get("numba", 1)
    if threads < cores:
        advice.append(f"Numba runs {threads} threads on {cores} cores: unset NUMBA_NUM_THREADS or raise it")
    if found.threads.get("layer") == "workqueue":
        advice.append("Numba found no OpenMP: install libgomp1, so that several threads may render")
    advice += [
        f"the cache folder of {name}, '{folder.path}', cannot be written to: name another one with {variable}"
        for (name, folder), variable in zip(
            found.caches.items(), ("NUMBA_CACHE_DIR", "GYM_BATCHNAV_CACHE"), strict=True
        )
        if not folder.writable
    ]
    return tuple(advice)


def _why_nvidia_does_not_draw(graphics: Graphics) -> str:
    """Advice where there is an NVIDIA GPU and OpenGL does not use it."""
    if not any("nvidia" in vendor.lower() for vendor in graphics.vendors):
        return f"there is an NVIDIA GPU, but EGL knows no driver of it: {_NVIDIA_GL}, so that 10_nvidia.json is there"
    if not any("NVIDIA" in device or "CUDA" in device for device in graphics.egl):
        return f"there is an NVIDIA GPU, but EGL lists none: {_NVIDIA_GL}, and check /dev/nvidia* and /dev/dri"
    return (
        "EGL lists the NVIDIA GPU, but OpenGL draws elsewhere: unset GLCONTEXT_DEVICE_INDEX and LIBGL_ALWAYS_SOFTWARE"
    )


def find_graphics() -> Graphics:
    """Look for what OpenGL needs, and make its context."""
    driver = _driver_version()
    vendors = _vendor_files()
    try:
        from gym_batchnav.render.opengl import devices
        from gym_batchnav.render.opengl.context import shared_context
    except ImportError as error:
        return Graphics(vendors=vendors, driver=driver, error=str(error))
    parts = Graphics(
        loader=devices.has_egl(),
        vendors=vendors,
        driver=driver,
        egl=tuple(map(str, devices.egl_devices())),
        cuda=tuple(map(str, devices.cuda_devices())),
    )
    try:
        context = shared_context()
    except RuntimeError as error:
        return replace(parts, error=str(error))
    version_here = context.moderngl.info["GL_VERSION"]
    return replace(parts, opengl=context.device, version=version_here, uuid=context.uuid)


def _vendor_files() -> tuple[str, ...]:
    """The files that name EGL's drivers: those of libglvnd's variables, else of its folders."""
    named = os.environ.get("__EGL_VENDOR_LIBRARY_FILENAMES", "")
    if named:
        return tuple(file for file in named.split(":") if Path(file).is_file())
    folders = os.environ.get("__EGL_VENDOR_LIBRARY_DIRS", "").split(":")
    searched = [folder for folder in folders if folder] or VENDOR_FOLDERS
    return tuple(str(file) for folder in searched for file in sorted(Path(folder).glob("*.json")))


def _driver_version() -> str | None:
    """The version of NVIDIA's kernel driver."""
    try:
        words = NVIDIA_DRIVER_FILE.read_text().split()
    except OSError:
        return None
    return next((word for word in words if word[:1].isdecimal() and "." in word), "unknown")


def _find_embree() -> tuple[str | None, str]:
    """What Embree traces at a time, and why it cannot run."""
    from gym_batchnav.render.embree.device import shared_embree

    try:
        return f"packets of {shared_embree().num_rays} rays", ""
    except (RuntimeError, OSError) as error:
        return None, str(error)


def _why_no_cuda() -> str:
    """Why observations cannot stay on an NVIDIA device."""
    from gym_batchnav.render.api import check_device

    try:
        check_device("cuda", "opengl")
    except RuntimeError as error:
        return str(error)
    return ""


def _package_versions() -> dict[str, str | None]:
    """Versions of the packages that matter; None for those that are not installed."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _threads() -> dict[str, Any]:
    """Threads of Numba, the library that runs them, cores that this process may use, and what variables say."""
    import numba

    get_affinity: Callable[[int], Any] | None = getattr(os, "sched_getaffinity", None)
    cores = len(get_affinity(0)) if get_affinity is not None else os.cpu_count() or 1
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    set_here = {name: os.environ[name] for name in names if name in os.environ}
    return {"numba": numba.get_num_threads(), "layer": _threading_layer(), "cores": cores, "variables": set_here}


def _threading_layer() -> str:
    """The layer that Numba takes, in its order of preference: the first one that can be loaded."""
    with suppress(ImportError):
        import_module("numba.np.ufunc.tbbpool")
        return "tbb"
    with suppress(ImportError):
        import_module("numba.np.ufunc.omppool")
        return "omp"
    return "workqueue"


def _kernel_folder() -> Path:
    """Where Numba keeps machine code."""
    return Path(os.environ.get("NUMBA_CACHE_DIR", Path(gym_batchnav.__file__).parent / "__pycache__"))


def _folder(path: Path) -> Folder:
    """A folder's state; it need not exist."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    nbytes = 0
    for folder, _, files in os.walk(path):
        for file in files:
            try:
                nbytes += os.stat(os.path.join(folder, file)).st_size
            except OSError:  # another process has removed it
                continue
    return Folder(str(path), os.access(existing, os.W_OK), nbytes)
