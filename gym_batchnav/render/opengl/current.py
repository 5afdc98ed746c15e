"""The OpenGL context that is current in the calling thread: saved before ours is made current, and restored after.

ModernGL's EGL backend leaves no context current when it leaves its own, so that a viewer of the user's in the same
thread would draw into nothing. Its backends for Windows and macOS and for GLX restore what they found.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

_EGL_DRAW, _EGL_READ = 0x3059, 0x305A  # EGL 1.5, section 3.7.4
_EGL_OPENGL_API = 0x30A2
_EGL_BAD_CONTEXT = 0x3006


class _Saved(NamedTuple):
    """A context of EGL with its display and surfaces, as addresses."""

    display: int
    draw: int
    read: int
    context: int


class CurrentContext:
    """Saves and restores the thread's current EGL context; does nothing where there is no EGL."""

    def __init__(self) -> None:
        self._egl = _load_egl()
        self._saved: _Saved | None = None
        self._own: int | None = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A block after which the context of before is current again."""
        self.save()
        try:
            yield
        finally:
            self.restore()

    def remember(self) -> None:
        """Take the context that is current now for our own; 0 if it is none of EGL's."""
        self._own = None if self._egl is None else self._egl.eglGetCurrentContext()

    def save(self) -> None:
        """Note the thread's context, which may be none."""
        if self._egl is None:
            return
        egl = self._egl
        egl.eglBindAPI(_EGL_OPENGL_API)
        context = egl.eglGetCurrentContext()
        self._saved = None
        if context and context != self._own:
            surfaces = egl.eglGetCurrentSurface(_EGL_DRAW), egl.eglGetCurrentSurface(_EGL_READ)
            self._saved = _Saved(egl.eglGetCurrentDisplay(), *surfaces, context)

    def check(self) -> None:
        """Raise RuntimeError unless our own context is current: OpenGL calls would go to another one or to none."""
        if self._egl is not None and self._own and self._egl.eglGetCurrentContext() != self._own:
            raise RuntimeError(
                "the OpenGL context of gym_batchnav cannot be made current in this thread: another one is that EGL "
                "does not know, such as a window's through GLX. Release it before each call (glXMakeCurrent with "
                "None), draw the window in another thread, or choose renderer='embree'"
            )

    def restore(self) -> None:
        """Make the saved context current again; one that was destroyed while it was current is gone then."""
        if self._egl is None or self._saved is None:
            return
        saved, self._saved = self._saved, None
        if not self._egl.eglMakeCurrent(*saved):
            error = self._egl.eglGetError()
            if error != _EGL_BAD_CONTEXT:
                raise RuntimeError(
                    f"the OpenGL context that was current in this thread cannot be made current again (EGL error "
                    f"{error:#x}): make it current yourself"
                )


def _load_egl() -> Any:
    """EGL's library with the types of the functions used here, None where there is none."""
    if sys.platform != "linux":
        return None
    try:
        egl = ctypes.CDLL(ctypes.util.find_library("EGL") or "libEGL.so.1")
    except OSError:
        return None
    handle = ctypes.c_size_t  # None for a null pointer would not do as an argument
    for name, result, arguments in (
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
