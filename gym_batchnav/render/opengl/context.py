"""The OpenGL context of a process, with the calls that ModernGL does not provide."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import moderngl
import numpy as np

from gym_batchnav.render.api import is_software, opengl_remedy
from gym_batchnav.render.opengl.current import CurrentContext
from gym_batchnav.render.opengl.devices import choose_device, egl_devices
from gym_batchnav.system.process import claim_process

_GL_TEXTURE_2D = 0x0DE1
_GL_TEXTURE_2D_ARRAY = 0x8C1A
_GL_DEPTH_COMPONENT = 0x1902
_GL_DEPTH_COMPONENT32F = 0x8CAC
_GL_RGBA = 0x1908
_GL_SRGB8_ALPHA8 = 0x8C43
_GL_UNSIGNED_BYTE = 0x1401
_GL_FLOAT = 0x1406
_GL_UNPACK_ALIGNMENT = 0x0CF5
_GL_LOWER_LEFT = 0x8CA1
_GL_ZERO_TO_ONE = 0x935F
_GL_CLIP_DISTANCE0 = 0x3000

T = TypeVar("T", moderngl.Buffer, moderngl.TextureArray)


class Context:
    """An OpenGL context, with the process that made it and the capabilities of the device.

    Entering it (``with context:``) makes it current, as any OpenGL call requires; a forked child gets an error. Leaving
    it makes the caller's own context current again. Only one thread at a time may be inside; others wait.
    """

    def __init__(self) -> None:
        claim_process("OpenGL")
        self.pid = os.getpid()
        self._lock = threading.RLock()
        self._current = CurrentContext()
        self._depth = 0  # number of nested entries
        self._current.save()
        try:
            self._create()
        finally:
            self._current.restore()

    def _create(self) -> None:
        self.moderngl = _create()
        # Dropped objects are released by the next __enter__, so that a forked child never deletes them on its own.
        self.moderngl.gc_mode = "context_gc"
        self.device: str = self.moderngl.info["GL_RENDERER"]
        self.software = is_software(self.device)
        # Whether clip space reaches from 0 to 1 in z, which keeps all bits of a reversed float depth.
        self.clip_control = "GL_ARB_clip_control" in self.moderngl.extensions or self.moderngl.version_code >= 450
        self.flush = self._load("glFlush", 0)  # submits all pending calls
        self._tex_image_2d = self._load("glTexImage2D", 8, pointer=True)
        self._tex_image_3d = self._load("glTexImage3D", 9, pointer=True)
        self._tex_sub_image_3d = self._load("glTexSubImage3D", 10, pointer=True)
        self._pixel_store = self._load("glPixelStorei", 2)
        with self.moderngl:
            self._current.remember()
            self._no_framebuffer = self.moderngl.detect_framebuffer(0)
            for plane in range(4):
                self.moderngl.enable_direct(_GL_CLIP_DISTANCE0 + plane)
            if self.clip_control:
                self._load("glClipControl", 2)(_GL_LOWER_LEFT, _GL_ZERO_TO_ONE)

    def __enter__(self) -> moderngl.Context:
        """Make the context current and release dropped objects."""
        claim_process("OpenGL")
        self._lock.acquire()
        if self._depth == 0:
            try:
                self._current.save()
                self.moderngl.__enter__()
                self._current.check()
            except BaseException:
                try:
                    self._current.restore()
                finally:
                    self._lock.release()
                raise
        self._depth += 1
        dropped = self.moderngl.objects
        while dropped:  # ModernGL's own gc() fails for objects that were released before they were dropped
            release = getattr(dropped.popleft(), "release", None)
            if release is not None:
                release()
        return self.moderngl

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        try:
            if self._depth == 0:
                self._no_framebuffer.use()  # ModernGL would keep the last one used
                self.moderngl.__exit__(*error)
                self._current.restore()
        finally:
            self._lock.release()

    def collect(self) -> None:
        """Release the objects that nothing refers to any more, except in a forked child."""
        if self.pid == os.getpid():
            with self:
                pass

    def depth_texture(self, size: tuple[int, int]) -> moderngl.Texture:
        """Make a depth texture of 32-bit floats that shaders can read; ModernGL's own have 24 fixed-point bits."""
        texture = self.moderngl.depth_texture(size)
        texture.compare_func = ""
        texture.filter = (moderngl.NEAREST, moderngl.NEAREST)
        texture.use(0)
        self._tex_image_2d(_GL_TEXTURE_2D, 0, _GL_DEPTH_COMPONENT32F, *size, 0, _GL_DEPTH_COMPONENT, _GL_FLOAT, None)
        return texture

    def srgb_texture_array(self, side: int, layers: int) -> moderngl.TextureArray:
        """Make an sRGB RGBA texture array with undefined texels, filtered within levels but never between them."""
        array = self.moderngl.texture_array((1, 1, 1), 4)
        array.use(0)
        for level in range(side.bit_length()):
            box = (side >> level, side >> level, layers, 0)  # without a border
            self._tex_image_3d(_GL_TEXTURE_2D_ARRAY, level, _GL_SRGB8_ALPHA8, *box, _GL_RGBA, _GL_UNSIGNED_BYTE, None)
        array.filter = (moderngl.LINEAR_MIPMAP_NEAREST, moderngl.LINEAR)
        return array

    def write_layers(self, array: moderngl.TextureArray, level: int, first: int, texels: np.ndarray) -> None:
        """Write ``texels`` [L, S, S, 4] uint8 into a level of an array, from layer ``first`` on."""
        layers, height, width, _ = texels.shape
        texels = np.ascontiguousarray(texels)
        array.use(0)
        self._pixel_store(_GL_UNPACK_ALIGNMENT, 4)
        box = (0, 0, first, width, height, layers)
        self._tex_sub_image_3d(_GL_TEXTURE_2D_ARRAY, level, *box, _GL_RGBA, _GL_UNSIGNED_BYTE, texels.ctypes.data)

    def allocate(self, objects: Iterator[T], what: str, remedy: str) -> list[T]:
        """Return the objects that an iterator makes on the device; on an error none of them is kept."""
        made: list[T] = []
        try:
            made.extend(objects)
            self.check(f"making room for {what}")
        except Exception as error:  # ModernGL raises its own
            for each in made:
                each.release()
            if isinstance(error, RuntimeError):
                raise
            raise RuntimeError(f"{self.device} has no memory for {what} ({error}): {remedy}") from error
        return made

    def check(self, doing: str) -> None:
        """Raise RuntimeError if the device was reset, ran out of memory or rejected a call since the last check."""
        error = self.moderngl.error
        if error == "GL_CONTEXT_LOST":
            shared_context.cache_clear()
            raise RuntimeError(
                f"the OpenGL context was lost while {doing}: the driver has reset {self.device}. Close this renderer "
                "or environment and make another; if it happens again, choose renderer='embree'"
            )
        if error == "GL_OUT_OF_MEMORY":
            raise RuntimeError(
                f"{self.device} ran out of memory while {doing}: keep fewer scenes resident, draw fewer or smaller "
                "views, or choose renderer='embree'"
            )
        if error != "GL_NO_ERROR":
            raise RuntimeError(
                f"OpenGL reported {error} while {doing} on {self.device}: update the driver, or choose "
                "renderer='embree'"
            )

    def _load(self, name: str, num_integers: int, pointer: bool = False) -> Callable[..., Any]:
        """Load an OpenGL function that takes integers and optionally a pointer."""
        address = self.moderngl.mglo._context.load_opengl_function(name)
        if not address:
            raise RuntimeError(
                f"the OpenGL driver of {self.moderngl.info['GL_RENDERER']} has no {name}: update the driver, or choose "
                "renderer='embree'"
            )
        kinds: list[Any] = [ctypes.c_int] * num_integers + [ctypes.c_void_p] * pointer
        return ctypes.CFUNCTYPE(None, *kinds)(address)


def _create() -> moderngl.Context:
    """Create a context without a window: with EGL on Linux, with the platform's default elsewhere."""
    errors = []
    backends: list[dict[str, Any]] = [{}]
    if sys.platform == "linux":
        _load_triton()
        index = choose_device(egl_devices())
        backends = [{"backend": "egl", "device_index": index}, {}]
    for keywords in backends:
        try:
            return moderngl.create_standalone_context(require=430, **keywords)
        except Exception as error:  # ModernGL raises bare Exception
            errors.append(str(error))
    raise RuntimeError(f"OpenGL 4.3 or newer is required but was not found: {opengl_remedy()} ({'; '.join(errors)})")


def _load_triton() -> None:
    """Load triton's library, if triton is installed, before a driver that contains LLVM.

    Mesa before 24.2 makes the symbols of its LLVM visible to every library that is loaded later. That of triton 3.8,
    which torch imports late, would bind to them and crash.
    """
    with suppress(OSError, ValueError):  # ValueError: a stand-in for triton without a specification
        found = importlib.util.find_spec("triton")
        for folder in (found and found.submodule_search_locations) or ():
            ctypes.CDLL(str(Path(folder, "_C", "libtriton.so")))


@functools.cache
def shared_context() -> Context:
    """Return the context that all renderers of this process share; RuntimeError if there is no OpenGL 4.3."""
    return Context()


def probe() -> str | None:
    """Return the name of the OpenGL 4.3 device of this process, or None if there is none.

    There is none in a forked child whose parent has drawn before.
    """
    try:
        claim_process("OpenGL")
        return shared_context().device
    except RuntimeError:
        return None
