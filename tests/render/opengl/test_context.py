"""The package's OpenGL context next to the contexts and threads of users."""

import ctypes
import ctypes.util
import sys
from concurrent.futures import ThreadPoolExecutor

import moderngl
import numpy as np
import pytest
from quads import scene_of, wall
from rays import AHEAD

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render.opengl import OpenGLRenderer
from gym_batchnav.render.opengl.context import Context, shared_context

pytestmark = [pytest.mark.opengl, pytest.mark.skipif(sys.platform != "linux", reason="contexts are made by EGL")]

METRES = Camera(16, 16, normalize_depth=False, max_depth=100.0)
SLOT = np.zeros(1, int)


class Drawing:
    """A user's own context that is current, with a picture of 4x4 pixels."""

    def __init__(self) -> None:
        self.context = moderngl.create_standalone_context(backend="egl", require=430)
        self.framebuffer = self.context.simple_framebuffer((4, 4))

    def paint(self, red: float) -> np.ndarray:
        """The pixels [4, 4, 3] after painting them, without making any context current."""
        self.framebuffer.clear(red, 0.0, 0.0)
        return np.frombuffer(self.framebuffer.read(), np.uint8).reshape(4, 4, 3)


@pytest.fixture
def drawing():
    drawing = Drawing()
    with drawing.context:  # other tests want to find none
        yield drawing
    drawing.context.release()


def current() -> int:
    """The address of the thread's context, 0 for none."""
    egl = ctypes.CDLL(ctypes.util.find_library("EGL") or "libEGL.so.1")
    egl.eglGetCurrentContext.restype = ctypes.c_size_t
    return egl.eglGetCurrentContext()


def test_a_users_context_stays_current_through_every_call(drawing):
    own = current()
    assert own and (drawing.paint(1.0)[..., 0] == 255).all()
    renderer = OpenGLRenderer(SceneLibrary.from_scenes([scene_of(wall(2.0))]))
    target = renderer.target(METRES)
    for red in (0, 51, 102):
        assert np.allclose(target.render(SLOT, AHEAD)["depth"], 2.0)
        assert current() == own
        assert (drawing.paint(red / 255)[..., 0] == red).all()
        assert drawing.context.error == "GL_NO_ERROR"
    target.begin(SLOT, AHEAD)
    assert current() == own and (drawing.paint(0.2)[..., 0] == 51).all()
    assert np.allclose(target.finish()["depth"], 2.0)
    assert shared_context().moderngl.error == "GL_NO_ERROR"
    renderer.close()
    assert current() == own
    made = Context()
    assert current() == own
    made.moderngl.release()
    with pytest.raises(ZeroDivisionError), shared_context():
        raise ZeroDivisionError
    assert current() == own


def test_without_a_users_context_none_is_left_current():
    with shared_context():
        assert current()
        with shared_context():
            pass
        assert current(), "the inner block does not leave the outer one"
    assert not current()


def test_a_users_context_that_was_released_while_current_is_let_go():
    released = moderngl.create_standalone_context(backend="egl", require=430)
    released.release()
    with shared_context():
        assert current()
    assert not current()


def test_an_error_that_leaves_no_context_current_does_not_lock_out_other_threads(monkeypatch):
    context = shared_context()

    def fail():
        raise RuntimeError("no context")

    def is_free():
        if free := context._lock.acquire(blocking=False):
            context._lock.release()
        return free

    monkeypatch.setattr(context._current, "check", fail)
    monkeypatch.setattr(context._current, "restore", fail)
    with pytest.raises(RuntimeError, match="no context"), context:
        pass
    monkeypatch.undo()
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(is_free).result()
    with context:
        pass


def test_a_context_that_cannot_be_made_current_is_named(monkeypatch):
    monkeypatch.setattr(shared_context()._current, "_own", 1)  # as if a window's context, unknown to EGL, stayed
    with (
        pytest.raises(RuntimeError, match=r"one is current that EGL does not know.*renderer='embree'"),
        shared_context(),
    ):
        pass
    monkeypatch.undo()
    with shared_context():
        pass
