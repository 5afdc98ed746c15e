"""The devices of EGL and of CUDA, and which EGL device a process draws on.

EGL and CUDA number GPUs differently: CUDA's order depends on CUDA_VISIBLE_DEVICES, and EGL may list a software device
among them. Both name a GPU by the same UUID (EGL_EXT_device_persistent_id). Drivers without that extension give CUDA's
number of a device (EGL_NV_device_cuda), which counts within CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Registered EGL enumerations: EGL 1.5, EXT_device_query_name, EXT_device_persistent_id, EXT_device_drm, NV_device_cuda.
_EGL_VENDOR, _EGL_EXTENSIONS, _EGL_RENDERER = 0x3053, 0x3055, 0x335F
_EGL_DEVICE_UUID, _EGL_DRM_DEVICE_FILE, _EGL_CUDA_DEVICE = 0x335C, 0x3233, 0x323A
_MOST_DEVICES = 64
_NAME_BYTES, _UUID_BYTES = 256, 16
INDEX_VARIABLE = "GLCONTEXT_DEVICE_INDEX"  # ModernGL's own, which overrides any choice


@dataclass(frozen=True, slots=True)
class EglDevice:
    """A device that EGL lists.

    Attributes:
        index: Its place in EGL's list.
        vendor: Who makes its driver, ``""`` if EGL does not say.
        renderer: Its name, ``""`` if EGL does not say.
        file: Its device file, ``""`` if it has none.
        uuid: Its UUID as text, ``""`` if EGL does not say.
        cuda_index: CUDA's number of it, None if it has none.
        software: Whether it draws on the processor.
    """

    index: int
    vendor: str = ""
    renderer: str = ""
    file: str = ""
    uuid: str = ""
    cuda_index: int | None = None
    software: bool = False

    def __str__(self) -> str:
        """Return the device's place and what is known of it."""
        known = (self.renderer or self.vendor or ("software" if self.software else "unnamed"), self.file, self.uuid)
        cuda = () if self.cuda_index is None else (f"CUDA device {self.cuda_index}",)
        return f"EGL device {self.index}: {', '.join(filter(None, (*known, *cuda)))}"


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A device that CUDA shows this process.

    Attributes:
        index: CUDA's number of it, within CUDA_VISIBLE_DEVICES; torch counts likewise.
        name: Its name.
        uuid: Its UUID as text.
    """

    index: int
    name: str
    uuid: str

    def __str__(self) -> str:
        """Return the device's number, name and UUID."""
        return f"CUDA device {self.index}: {self.name}, {self.uuid}"


def matching_device(devices: Sequence[EglDevice], cuda: CudaDevice) -> EglDevice | None:
    """The EGL device that is a CUDA device: by UUID, or by number where no device of EGL's has a UUID to compare."""
    for device in devices:
        if device.uuid and device.uuid == cuda.uuid:
            return device
    unnamed = [device for device in devices if not device.uuid and device.cuda_index == cuda.index]
    return unnamed[0] if len(unnamed) == 1 else None


def choose_device(
    devices: Sequence[EglDevice],
    cuda_devices: Callable[[], Sequence[CudaDevice]],
    current: int | None = None,
    environment: Mapping[str, str] = os.environ,
) -> int:
    """The index of the EGL device to draw on.

    That is the user's choice if there is one; the only hardware device; among several, that of the worker's CUDA
    device; else the first one.

    Args:
        devices: EGL's devices.
        cuda_devices: Lists CUDA's devices; called only where there are several to choose from.
        current: The number of the CUDA device that the program has chosen; None if it has not.
        environment: Has ModernGL's GLCONTEXT_DEVICE_INDEX, which overrides everything, and torchrun's LOCAL_RANK:
            worker i takes CUDA device i, and if there are fewer devices than workers, workers share them in turn.

    Raises:
        ValueError: GLCONTEXT_DEVICE_INDEX or LOCAL_RANK is no number.
    """
    chosen = _number(environment, INDEX_VARIABLE)
    if chosen is not None:
        return chosen
    hardware = [device for device in devices if not device.software]
    if len(hardware) < 2:
        return hardware[0].index if hardware else 0
    known = cuda_devices()
    if not known:
        return hardware[0].index
    rank = _number(environment, "LOCAL_RANK") or 0
    wanted = rank % len(known) if current is None else current
    matching = [matching_device(hardware, cuda) for cuda in known if cuda.index == wanted]
    return matching[0].index if matching and matching[0] is not None else hardware[0].index


def why_not_same(drawn_uuid: str, drawn_name: str, devices: Sequence[EglDevice], cuda: CudaDevice | None) -> str:
    """The reason why CUDA cannot read what OpenGL draws, with the remedy; ``""`` where it is one device, or unknown.

    Args:
        drawn_uuid: UUID of the device that OpenGL draws on, ``""`` if unknown.
        drawn_name: Name of that device.
        devices: EGL's devices.
        cuda: The CUDA device that reads; None if unknown.
    """
    if cuda is None or not drawn_uuid or not cuda.uuid or drawn_uuid == cuda.uuid:
        return ""
    reason = f"OpenGL draws on {drawn_name} ({drawn_uuid}), but torch's current device is {cuda}: "
    match = matching_device(devices, cuda)
    if match is not None:
        return reason + (
            f"a process draws on one device. Call torch.cuda.set_device({cuda.index}) before it makes its first "
            f"environment or renderer, or set {INDEX_VARIABLE}={match.index}"
        )
    listed = "; ".join(map(str, devices)) or "none"
    return reason + f"EGL lists no such device ({listed}). Let the driver or the container offer that GPU to EGL"


def has_egl() -> bool:
    """Whether EGL's library can be loaded."""
    return _load_egl() is not None


def egl_devices() -> tuple[EglDevice, ...]:
    """EGL's devices in its order; empty where EGL is missing or cannot list them."""
    functions = _egl_functions()
    if functions is None:
        return ()
    handles, count = (ctypes.c_void_p * _MOST_DEVICES)(), ctypes.c_int(0)
    if not functions["eglQueryDevicesEXT"](_MOST_DEVICES, handles, ctypes.byref(count)):
        return ()
    return tuple(_describe(functions, index, handles[index] or 0) for index in range(count.value))


def cuda_devices() -> tuple[CudaDevice, ...]:
    """CUDA's devices in its order, asked of the driver itself; empty where there is no driver or no device."""
    if sys.platform != "linux":
        return ()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        uuid_of = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
    except (OSError, AttributeError):
        return ()
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    found = []
    for index in range(count.value):
        device, name, identity = ctypes.c_int(0), ctypes.create_string_buffer(_NAME_BYTES), (ctypes.c_ubyte * 16)()
        if driver.cuDeviceGet(ctypes.byref(device), index) or uuid_of(identity, device):
            continue
        driver.cuDeviceGetName(name, _NAME_BYTES, device)
        found.append(CudaDevice(index, name.value.decode(errors="replace"), uuid_text(bytes(identity))))
    return tuple(found)


def torch_device() -> int | None:
    """The number of torch's current CUDA device, None unless the program has begun to use one; imports nothing."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda.current_device() if cuda is not None and cuda.is_initialized() else None


def uuid_text(data: bytes) -> str:
    """16 bytes as UUIDs are written; ``""`` for zeros, which some drivers give for want of one."""
    return str(uuid.UUID(bytes=data)) if any(data) else ""


def _number(environment: Mapping[str, str], name: str) -> int | None:
    """A variable's number; None where it is not set."""
    text = environment.get(name, "")
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(f"the environment variable {name}={text!r}: set it to a whole number from 0 up")
    return int(text)


def _load_egl() -> ctypes.CDLL | None:
    """EGL's library; None where there is none."""
    if sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL(ctypes.util.find_library("EGL") or "libEGL.so.1")
    except OSError:
        return None


def _egl_functions() -> dict[str, Any] | None:
    """EGL's functions for listing devices, by name, None for those that are missing; None without the first of them."""
    egl = _load_egl()
    if egl is None:
        return None
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    egl.eglGetProcAddress.argtypes = (ctypes.c_char_p,)
    number, pointer = ctypes.c_int, ctypes.c_void_p
    functions: dict[str, Any] = {}
    for name, result, arguments in (
        ("eglQueryDevicesEXT", ctypes.c_uint, (number, pointer, pointer)),
        ("eglQueryDeviceStringEXT", ctypes.c_char_p, (pointer, number)),
        ("eglQueryDeviceAttribEXT", ctypes.c_uint, (pointer, number, pointer)),
        ("eglQueryDeviceBinaryEXT", ctypes.c_uint, (pointer, number, number, pointer, pointer)),
    ):
        address = egl.eglGetProcAddress(name.encode())
        functions[name] = ctypes.CFUNCTYPE(result, *arguments)(address) if address else None
    return functions if functions["eglQueryDevicesEXT"] is not None else None


def _describe(functions: Mapping[str, Any], index: int, handle: int) -> EglDevice:
    """Ask for whatever a device's own extensions offer."""
    strings = functions["eglQueryDeviceStringEXT"]

    def text(name: int) -> str:
        return (strings(handle, name) or b"").decode(errors="replace") if strings is not None else ""

    extensions = set(text(_EGL_EXTENSIONS).split())
    named = "EGL_EXT_device_query_name" in extensions
    vendor = text(_EGL_VENDOR) if named else ""
    identity, size, cuda = (ctypes.c_ubyte * _UUID_BYTES)(), ctypes.c_int(0), ctypes.c_ssize_t(-1)
    if "EGL_EXT_device_persistent_id" in extensions and functions["eglQueryDeviceBinaryEXT"] is not None:
        arguments = (_EGL_DEVICE_UUID, _UUID_BYTES, identity, ctypes.byref(size))
        if not functions["eglQueryDeviceBinaryEXT"](handle, *arguments):
            size.value = 0
    has_cuda = "EGL_NV_device_cuda" in extensions and functions["eglQueryDeviceAttribEXT"] is not None
    if has_cuda and not functions["eglQueryDeviceAttribEXT"](handle, _EGL_CUDA_DEVICE, ctypes.byref(cuda)):
        cuda.value = -1
    return EglDevice(
        index,
        vendor or ("NVIDIA" if has_cuda else ""),
        text(_EGL_RENDERER) if named else "",
        text(_EGL_DRM_DEVICE_FILE) if "EGL_EXT_device_drm" in extensions else "",
        uuid_text(bytes(identity)) if size.value == _UUID_BYTES else "",
        cuda.value if cuda.value >= 0 else None,
        "EGL_MESA_device_software" in extensions,
    )
