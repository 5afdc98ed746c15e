"""EGL's and CUDA's devices, and the choice of the EGL device that a process draws on.

EGL and CUDA number GPUs differently: CUDA's order depends on CUDA_VISIBLE_DEVICES, and EGL may also list a software
device. Both identify a GPU by the same UUID (EGL_EXT_device_persistent_id). Drivers without that extension report the
CUDA index of an EGL device (EGL_NV_device_cuda), which also depends on CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import ctypes
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Registered EGL enumerations: EGL 1.5, EXT_device_query_name, EXT_device_persistent_id, EXT_device_drm, NV_device_cuda.
_EGL_VENDOR = 0x3053
_EGL_EXTENSIONS = 0x3055
_EGL_RENDERER = 0x335F
_EGL_DEVICE_UUID = 0x335C
_EGL_DRM_DEVICE_FILE = 0x3233
_EGL_CUDA_DEVICE = 0x323A
_MAX_DEVICES = 64
_NAME_BYTES = 256
UUID_BYTES = 16
INDEX_VARIABLE = "GLCONTEXT_DEVICE_INDEX"  # ModernGL's own variable, which overrides any choice made here


@dataclass(frozen=True, slots=True)
class EglDevice:
    """A device that EGL lists.

    Attributes:
        index: Index in EGL's list.
        vendor: Vendor of the driver; ``""`` if unknown.
        renderer: Name of the device; ``""`` if unknown.
        file: Device file; ``""`` if there is none.
        uuid: UUID as text; ``""`` if unknown.
        cuda_index: CUDA index of the device; None if it has none.
        software: Whether it renders on the processor.
    """

    index: int
    vendor: str = ""
    renderer: str = ""
    file: str = ""
    uuid: str = ""
    cuda_index: int | None = None
    software: bool = False

    def __str__(self) -> str:
        """Return the index and the known attributes as one line."""
        known = (self.renderer or self.vendor or ("software" if self.software else "unnamed"), self.file, self.uuid)
        cuda = () if self.cuda_index is None else (f"CUDA device {self.cuda_index}",)
        return f"EGL device {self.index}: {', '.join(filter(None, (*known, *cuda)))}"


@dataclass(frozen=True, slots=True)
class CudaDevice:
    """A CUDA device that is visible to this process.

    Attributes:
        index: CUDA index among CUDA_VISIBLE_DEVICES, the same as in torch.
        name: Name of the device.
        uuid: UUID as text; ``""`` if unknown.
    """

    index: int
    name: str
    uuid: str

    def __str__(self) -> str:
        """Return the index, name and UUID as one line."""
        return f"CUDA device {self.index}: {self.name}, {self.uuid}"


def matching_device(devices: Sequence[EglDevice], cuda: CudaDevice) -> EglDevice | None:
    """Return the EGL device that is the same GPU as a CUDA device, or None.

    Devices are matched by UUID; EGL devices without a UUID are matched by their CUDA index if it is unambiguous.
    """
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
    """Return the index of the EGL device to draw on.

    In order of priority: the device that GLCONTEXT_DEVICE_INDEX selects, the only hardware device, the device that
    matches the current or this worker's CUDA device, the first hardware device.

    Args:
        devices: EGL's devices.
        cuda_devices: Function that lists CUDA's devices; called only if there are several hardware devices.
        current: CUDA index of the device that the program has chosen; None if it has not chosen one.
        environment: Environment variables. GLCONTEXT_DEVICE_INDEX is ModernGL's; LOCAL_RANK is torchrun's: worker i
            uses the i-th CUDA device, counted round robin if there are more workers than devices.

    Raises:
        ValueError: If GLCONTEXT_DEVICE_INDEX or LOCAL_RANK is not a number.
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
    if current is None:
        wanted: CudaDevice | None = known[rank % len(known)]
    else:
        wanted = next((cuda for cuda in known if cuda.index == current), None)
    match = matching_device(hardware, wanted) if wanted is not None else None
    return match.index if match is not None else hardware[0].index


def device_mismatch(drawn_uuid: str, drawn_name: str, devices: Sequence[EglDevice], cuda: CudaDevice | None) -> str:
    """Return an error message with a remedy if OpenGL and CUDA use different devices; ``""`` if not, or if unknown.

    Args:
        drawn_uuid: UUID of the device that OpenGL draws on; ``""`` if unknown.
        drawn_name: Name of that device.
        devices: EGL's devices.
        cuda: The CUDA device that reads the pictures; None if unknown.
    """
    if cuda is None or not drawn_uuid or not cuda.uuid or drawn_uuid == cuda.uuid:
        return ""
    reason = f"OpenGL draws on {drawn_name} ({drawn_uuid}), but torch's current device is {cuda}: "
    match = matching_device(devices, cuda)
    if match is not None:
        return reason + (
            f"a process draws on one device. Call torch.cuda.set_device({cuda.index}) before creating the first "
            f"environment or renderer, or set {INDEX_VARIABLE}={match.index}"
        )
    listed = "; ".join(map(str, devices)) or "none"
    return reason + f"EGL lists no such device ({listed}). Make that GPU visible to EGL in the driver or container"


def load_egl() -> ctypes.CDLL | None:
    """Return EGL's library with no function declared, or None if it cannot be loaded."""
    if sys.platform != "linux":
        return None
    try:
        return ctypes.CDLL("libEGL.so.1")
    except OSError:
        return None


def has_egl() -> bool:
    """Return whether EGL's library can be loaded."""
    return load_egl() is not None


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
    """Return EGL's device that this process draws on, or None if EGL lists none or not the one that is asked for.

    Raises:
        ValueError: If GLCONTEXT_DEVICE_INDEX or LOCAL_RANK is not a number.
    """
    listed = egl_devices()
    chosen = choose_device(listed, cuda_devices, torch_device())
    return next((device for device in listed if device.index == chosen), None)


def cuda_devices() -> tuple[CudaDevice, ...]:
    """Return CUDA's devices in its order, without those that cannot be queried; empty without a driver."""
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
        device = ctypes.c_int(0)
        name = ctypes.create_string_buffer(_NAME_BYTES)
        identity = (ctypes.c_ubyte * UUID_BYTES)()
        if driver.cuDeviceGet(ctypes.byref(device), index) or uuid_of(identity, device):
            continue
        driver.cuDeviceGetName(name, _NAME_BYTES, device)
        found.append(CudaDevice(index, name.value.decode(errors="replace"), uuid_text(bytes(identity))))
    return tuple(found)


def torch_device() -> int | None:
    """Return the index of torch's current CUDA device, or None if torch has not initialized CUDA; imports nothing."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda.current_device() if cuda is not None and cuda.is_initialized() else None


def uuid_text(data: bytes) -> str:
    """Return 16 bytes in the text form of UUIDs; ``""`` for zeros, which some drivers report instead of a UUID."""
    return str(uuid.UUID(bytes=data)) if any(data) else ""


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
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    egl.eglGetProcAddress.argtypes = (ctypes.c_char_p,)
    number = ctypes.c_int
    pointer = ctypes.c_void_p
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
    """Return a device with all attributes that its extensions report."""
    strings = functions["eglQueryDeviceStringEXT"]

    def text(name: int) -> str:
        return (strings(handle, name) or b"").decode(errors="replace") if strings is not None else ""

    extensions = set(text(_EGL_EXTENSIONS).split())
    named = "EGL_EXT_device_query_name" in extensions
    vendor = text(_EGL_VENDOR) if named else ""
    identity = (ctypes.c_ubyte * UUID_BYTES)()
    size = ctypes.c_int(0)
    cuda = ctypes.c_ssize_t(-1)
    if "EGL_EXT_device_persistent_id" in extensions and functions["eglQueryDeviceBinaryEXT"] is not None:
        arguments = (_EGL_DEVICE_UUID, UUID_BYTES, identity, ctypes.byref(size))
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
        uuid_text(bytes(identity)) if size.value == UUID_BYTES else "",
        cuda.value if cuda.value >= 0 else None,
        "EGL_MESA_device_software" in extensions,
    )
