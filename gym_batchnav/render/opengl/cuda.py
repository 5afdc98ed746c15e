"""Pictures that stay on an NVIDIA device: OpenGL buffers that CUDA reads in place, as torch tensors.

Mapping a buffer makes CUDA's stream wait for all earlier OpenGL calls, and unmapping it makes OpenGL wait for all
earlier work of the stream. Both happen on torch's current stream and neither blocks the processor. A buffer is mapped
when its batch is taken and unmapped when it is drawn into again.

Tensors are therefore only to be read: CUDA assumes so of buffers that it maps for reading, and writing into one is
undefined. A kernel that reads them on another stream must have finished, or the current stream must wait for it, before
the ring comes round to them.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.render.api import INSTALL_CUDA, INSTALL_NVIDIA_GL, SENSOR_FORMATS
from gym_batchnav.render.opengl.context import Context, shared_context
from gym_batchnav.render.opengl.devices import cuda_devices, device_mismatch, egl_devices
from gym_batchnav.render.opengl.pictures import Buffers, batch_buffers, picture_bytes


def load_cuda(keyword: str = "device") -> tuple[Any, Any]:
    """Import torch and cuda.core and check that there is a device.

    Torch's current device is settled now, so that an OpenGL context made later is made on the same one.

    Args:
        keyword: The argument's name in errors.

    Raises:
        RuntimeError: If one of them or a device is missing; the message names it.
    """
    remedy = f"{INSTALL_CUDA}, or use {keyword}='cpu'"
    modules = []
    for name in ("torch", "cuda.core"):
        try:
            modules.append(importlib.import_module(name))
        except ImportError as error:
            raise RuntimeError(f"{keyword}='cuda' needs {name} ({error}): {remedy}") from error
    torch, core = modules
    if not hasattr(core, "GraphicsResource"):
        raise RuntimeError(f"{keyword}='cuda' needs a cuda.core with GraphicsResource: {remedy}")
    if not torch.cuda.is_available():
        raise RuntimeError(f"{keyword}='cuda': torch finds no NVIDIA device: use {keyword}='cpu'")
    torch.cuda.current_device()
    return torch, core


def settle_cuda() -> None:
    """Make torch choose its current device, if it has one, before OpenGL chooses its own; never raises."""
    with suppress(RuntimeError):
        load_cuda()


def check_cuda() -> None:
    """Raise RuntimeError, by the environment's keyword, unless pictures can stay on an NVIDIA device."""
    torch, _ = load_cuda("obs_device")
    check_same_device(shared_context(), torch.cuda.current_device(), "obs_device")


def check_same_device(context: Context, index: int, keyword: str = "device") -> None:
    """Raise RuntimeError unless OpenGL draws on an NVIDIA device that is CUDA's device ``index``.

    Args:
        context: The renderers' context.
        index: CUDA's index of the device that reads the pictures.
        keyword: The argument's name in the error.
    """
    if "NVIDIA" not in context.moderngl.info["GL_VENDOR"]:
        raise RuntimeError(
            f"{keyword}='cuda': OpenGL draws on {context.device}, which CUDA cannot read: {INSTALL_NVIDIA_GL}, "
            f"or use {keyword}='cpu'"
        )
    cuda = next((device for device in cuda_devices() if device.index == index), None)
    reason = device_mismatch(context.uuid, context.device, egl_devices(), cuda)
    if reason:
        raise RuntimeError(f"{keyword}='cuda': {reason}; or use {keyword}='cpu'")


def to_cuda(array: np.ndarray) -> Any:
    """Copy an array to a torch tensor on torch's current NVIDIA device.

    Raises:
        RuntimeError: If torch or the device is missing.
    """
    torch, _ = load_cuda()
    return torch.as_tensor(array, device="cuda")


class CudaPictures:
    """Pictures as torch tensors in a ring of OpenGL buffers; implements ``Pictures``.

    Args:
        context: Entered for every method; it must draw on torch's current device.
        camera: The camera, whose pictures have this size.
        sensors: Names of the sensors.
        num_views: N, the largest number of views in a batch.
        num_sets: Number of sets of buffers.

    Raises:
        RuntimeError: If OpenGL does not draw on torch's current NVIDIA device, or a package is missing.
    """

    def __init__(
        self, context: Context, camera: Camera, sensors: tuple[str, ...], num_views: int, num_sets: int
    ) -> None:
        self._torch, self._core = load_cuda()
        index = self._torch.cuda.current_device()
        check_same_device(context, index)
        self._camera = camera
        self._device = self._core.Device(index)
        self._device.set_current()
        self._arguments = (context, camera, sensors, num_views)
        self._buffers: list[Buffers] = [{} for _ in range(num_sets)]
        self._resources: list[dict[str, Any]] = [{} for _ in range(num_sets)]

    def buffers(self, batch: int) -> Buffers:
        """Return buffers for a batch; the tensors of the batch ``num_sets`` before become invalid."""
        turn = batch % len(self._buffers)
        if not self._resources[turn]:
            if not self._buffers[turn]:
                self._buffers[turn] = batch_buffers(*self._arguments)
            register = self._core.GraphicsResource.from_gl_buffer
            self._resources[turn] = {
                name: register(buffer.glo, flags="read_only") for name, buffer in self._buffers[turn].items()
            }
        for resource in self._resources[turn].values():
            if resource.is_mapped:
                resource.unmap(stream=self._stream())
        return self._buffers[turn]

    def take(self, batch: int, count: int) -> dict[str, Any]:
        """Return the tensors of a batch; torch's current stream waits for the device, the processor does not."""
        camera = self._camera
        images = {}
        for name, resource in self._resources[batch % len(self._resources)].items():
            whole = self._torch.from_dlpack(resource.map(stream=self._stream()))  # bytes
            dtype, channels = SENSOR_FORMATS[name]
            flat = whole[: count * picture_bytes(camera, name)].view(getattr(self._torch, dtype.name))
            images[name] = flat.view(count, camera.height, camera.width, channels)
        return images

    def release(self) -> None:
        """Release the buffers; all returned tensors become invalid."""
        for resources in self._resources:
            for resource in resources.values():
                resource.close(stream=self._stream())
        for buffers in self._buffers:
            for buffer in buffers.values():
                buffer.release()
        self._resources = []
        self._buffers = []

    def _stream(self) -> Any:
        """Return torch's current stream as an object of cuda.core."""
        handle = self._torch.cuda.current_stream().cuda_stream
        return self._core.Stream.from_handle(handle) if handle else self._device.default_stream
