"""The calling thread's own OpenGL context, saved before ours is made current and restored afterwards.

ModernGL's EGL backend leaves no context current when it leaves its own, so that the user's own viewer in the same
thread could not draw. Its backends for Windows, macOS and GLX restore the context that was current.
"""

from __future__ import annotations

from gym_batchnav.render.opengl.devices import load_egl

_EGL_DRAW = 0x3059  # EGL 1.5, section 3.7.4
_EGL_READ = 0x305A
_EGL_OPENGL_API = 0x30A2
_EGL_BAD_CONTEXT = 0x3006


class CurrentContext:
    """The thread's current EGL context, to save and restore; without EGL nothing happens."""

    def __init__(self) -> None:
        self._egl = load_egl()
        self._saved: tuple[int, ...] | None = None  # addresses of its display, surfaces and context
        self._own: int | None = None

    def remember(self) -> None:
        """Remember the current context as our own; 0 if it is not an EGL context."""
        self._own = None if self._egl is None else self._egl.eglGetCurrentContext()

    def save(self) -> None:
        """Save the thread's context, if any."""
        if self._egl is None:
            return
        egl = self._egl
        egl.eglBindAPI(_EGL_OPENGL_API)
        context = egl.eglGetCurrentContext()
        self._saved = None
        if context and context != self._own:
            surfaces = egl.eglGetCurrentSurface(_EGL_DRAW), egl.eglGetCurrentSurface(_EGL_READ)
            self._saved = (egl.eglGetCurrentDisplay(), *surfaces, context)

    def check(self) -> None:
        """Raise RuntimeError unless our own context is current, since OpenGL calls would go to another or to none."""
        if self._egl is not None and self._own and self._egl.eglGetCurrentContext() != self._own:
            raise RuntimeError(
                "the OpenGL context of gym_batchnav cannot be made current in this thread: one is current that EGL "
                "does not know, such as a window's through GLX. Release it before each call (glXMakeCurrent with "
                "None), draw the window in another thread, or choose renderer='embree'"
            )

    def restore(self) -> None:
        """Make the saved context current again; a context that was destroyed meanwhile is ignored."""
        if self._egl is None or self._saved is None:
            return
        saved = self._saved
        self._saved = None
        if not self._egl.eglMakeCurrent(*saved):
            error = self._egl.eglGetError()
            if error != _EGL_BAD_CONTEXT:
                raise RuntimeError(
                    f"the OpenGL context that was current in this thread cannot be made current again (EGL error "
                    f"{error:#x}): make it current yourself"
                )
