"""EGL's devices, and the choice of the one that a process draws on."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Registered EGL enumerations: EGL 1.5, EXT_device_query_name, EXT_device_drm.
_EGL_VENDOR = 0x3053
_EGL_EXTENSIONS = 0x3055
_EGL_RENDERER = 0x335F
_EGL_DRM_DEVICE_FILE = 0x3233
_MAX_DEVICES = 64
INDEX_VARIABLE = "GLCONTEXT_DEVICE_INDEX"  # ModernGL's own variable, which overrides any choice made here


@dataclass(frozen=True, slots=True)
class EglDevice:
    """A device that EGL lists; what is unknown is ``""``."""

    index: int  # in EGL's list
    vendor: str = ""  # of the driver
    renderer: str = ""  # name of the device
    file: str = ""  # device file
    software: bool = False  # whether it renders on the processor

    def __str__(self) -> str:
        known = (self.renderer or self.vendor or ("software" if self.software else "unnamed"), self.file)
        return f"EGL device {self.index}: {', '.join(filter(None, known))}"


def choose_device(devices: Sequence[EglDevice], environment: Mapping[str, str] = os.environ) -> int:
    """Return the index of the EGL device to draw on: the one that the user names, or a hardware device.

    GLCONTEXT_DEVICE_INDEX in the environment is ModernGL's; LOCAL_RANK is torchrun's: worker i uses the i-th hardware
    device, counted round robin if there are more workers than devices.

    Raises:
        ValueError: If GLCONTEXT_DEVICE_INDEX or LOCAL_RANK is not a number.
    """
    chosen = _number(environment, INDEX_VARIABLE)
    if chosen is not None:
        return chosen
    hardware = [device for device in devices if not device.software]
    rank = _number(environment, "LOCAL_RANK") or 0
    return hardware[rank % len(hardware)].index if hardware else 0


def load_egl() -> ctypes.CDLL | None:
    """Return EGL's library with the functions that are used here, or None if it cannot be loaded."""
    if sys.platform != "linux":
        return None
    try:
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return None
    handle = ctypes.c_size_t  # not c_void_p, which returns None for a null pointer
    for name, result, arguments in (
        ("eglGetProcAddress", ctypes.c_void_p, (ctypes.c_char_p,)),
        ("eglGetCurrentContext", handle, ()),
        ("eglGetCurrentDisplay", handle, ()),
        ("eglGetCurrentSurface", handle, (ctypes.c_int,)),
        ("eglMakeCurrent", ctypes.c_uint, (handle, handle, handle, handle)),
        ("eglBindAPI", ctypes.c_uint, (ctypes.c_uint,)),
        ("eglGetError", ctypes.c_int, ()),
    ):
        function = getattr(egl, name)
        function.restype = result
        function.argtypes = arguments
    return egl


def egl_devices() -> tuple[EglDevice, ...]:
    """Return EGL's devices in its order; empty if EGL is missing or cannot list them."""
    functions = _egl_functions()
    if functions is None:
        return ()
    handles = (ctypes.c_void_p * _MAX_DEVICES)()
    count = ctypes.c_int(0)
    if not functions["eglQueryDevicesEXT"](_MAX_DEVICES, handles, ctypes.byref(count)):
        return ()
    return tuple(_describe(functions, index, handles[index] or 0) for index in range(count.value))


def device_to_draw_on() -> EglDevice | None:
    """Return EGL's device that this process draws on, or None if EGL lists none or not the one that is asked for."""
    listed = egl_devices()
    chosen = choose_device(listed)
    return next((device for device in listed if device.index == chosen), None)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """Return an environment variable as a number, or None if it is not set."""
    text = environment.get(name, "")
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(f"the environment variable {name}={text!r} must be a whole number, 0 or greater")
    return int(text)


def _egl_functions() -> dict[str, Any] | None:
    """Return EGL's functions for listing devices by name, None for a missing one; None if devices cannot be listed."""
    egl = load_egl()
    if egl is None:
        return None
    number = ctypes.c_int
    pointer = ctypes.c_void_p
    functions: dict[str, Any] = {}
    for name, result, arguments in (
        ("eglQueryDevicesEXT", ctypes.c_uint, (number, pointer, pointer)),
        ("eglQueryDeviceStringEXT", ctypes.c_char_p, (pointer, number)),
    ):
        address = egl.eglGetProcAddress(name.encode())
        functions[name] = ctypes.CFUNCTYPE(result, *arguments)(address) if address else None
    return functions if functions["eglQueryDevicesEXT"] is not None else None


def _describe(functions: Mapping[str, Any], index: int, handle: int) -> EglDevice:
    """Return a device with all attributes that its extensions report."""
    strings = functions["eglQueryDeviceStringEXT"]

    def text(name: int) -> str:
        return (strings(handle, name) or b"").decode(errors="replace") if strings is not None else ""

    extensions = set(text(_EGL_EXTENSIONS).split())
    named = "EGL_EXT_device_query_name" in extensions
    return EglDevice(
        index,
        text(_EGL_VENDOR) if named else "",
        text(_EGL_RENDERER) if named else "",
        text(_EGL_DRM_DEVICE_FILE) if "EGL_EXT_device_drm" in extensions else "",
        "EGL_MESA_device_software" in extensions,
    )
