"""serve: a window onto a batch that a program steps, such as a training."""

from __future__ import annotations

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.env.batch import batch_of
from gym_batchnav.env.step import Move
from gym_batchnav.system.notices import warn_user
from gym_batchnav.system.numbers import check_between, check_counts
from gym_batchnav.viz.window.page import Page
from gym_batchnav.viz.window.server import WindowServer
from gym_batchnav.viz.window.snapshot import Photographer, Snapshot

PERIOD = 0.1  # seconds between two snapshots, at least
SHARE = 0.02  # of the time, for taking snapshots; as much again for drawing them
_IDLE = 0.5  # seconds after which the thread that draws looks whether the window is closed


class Pace:
    """Says when work is due, so that it takes at most a share of the time.

    After work of t seconds, none is due for t / share - t seconds. Work that has become slower is done less often.
    ``period`` is the least number of seconds between the beginnings of two works.
    """

    def __init__(self, share: float, period: float = 0.0, clock: Callable[[], float] = time.perf_counter) -> None:
        self.share = share
        self._period = period
        self._clock = clock
        self._next = -float("inf")

    @property
    def wait(self) -> float:
        """Seconds until work is due; 0 if it is due now."""
        return max(0.0, self._next - self._clock())

    @contextmanager
    def work(self) -> Iterator[None]:
        """Measure the work that is done inside, even if it raises."""
        begun = self._clock()
        try:
            yield
        finally:
            self._next = begun + max(self._period, (self._clock() - begun) / self.share)


class Window:
    """A window onto a batch; ``serve`` opens it, ``close`` or leaving a ``with`` block closes it.

    An error of the window is a warning: the batch goes on.

    Attributes:
        page: What is drawn.
    """

    def __init__(self, env: VectorEnv, server: WindowServer, share: float, size: int) -> None:
        self._batch = batch_of(env)
        self._server = server
        self.page = Page(server.viser, self._batch.num_envs)
        self._photographer = Photographer(self._batch, size)
        self._taking = Pace(share, PERIOD)
        self._drawing = Pace(share, PERIOD)
        self._newest: deque[Snapshot] = deque(maxlen=1)  # to hand over from one thread to the other
        self._has_warned = False
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="window", daemon=True)
        self._batch.stepper.listeners.append(self)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address for a browser."""
        return self._server.url

    @property
    def num_viewers(self) -> int:
        """The number of browsers that look."""
        return self.page.num_viewers

    def __repr__(self) -> str:
        """Return the address."""
        return f"Window({self._server.url!r})"

    def __enter__(self) -> Window:
        """Return the window."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the window; the batch goes on. Idempotent; from the thread that steps the batch."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self in self._batch.stepper.listeners:
            self._batch.stepper.listeners.remove(self)
        self.page.wake.set()
        self._thread.join()
        self._photographer.close()
        self._server.close()

    def placed(self, indices: np.ndarray) -> None:
        """Take a snapshot if one is due; the batch calls this."""
        self._take()

    def moved(self, move: Move) -> None:
        """Take a snapshot if one is due; the batch calls this."""
        self._take()

    def _take(self) -> None:
        """Take a snapshot if there are viewers and the last ones have not taken too long."""
        if not self.page.num_viewers or self._taking.wait or not self._batch.simulator.begun.all():
            return
        with self._reported("look at the batch"), self._taking.work():
            self._newest.append(self._photographer.take(self.page.picked))
        self.page.wake.set()

    def _draw(self) -> None:
        """Draw the newest snapshot whenever there is one, or a viewer wants to see another part of the last."""
        wake = self.page.wake
        while not self._closed.is_set():
            if not wake.wait(_IDLE):
                continue
            wake.clear()
            with self._reported("draw the batch"), self._drawing.work():
                if self._newest:
                    self.page.show(self._newest.popleft())
                else:
                    self.page.show_again()
            self._closed.wait(self._drawing.wait)

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn an error into a warning, the first time: a window does not end the program that it shows."""
        try:
            yield
        except Exception as error:
            if not self._has_warned:
                self._has_warned = True
                trace = "".join(traceback.format_exception(error))
                warn_user(f"the live window could not {what}; it goes on, without further warnings\n{trace}")


def serve(env: VectorEnv, *, port: int | None = None, share: float = SHARE, size: int = 192) -> Window:
    """Show a batch in the browser while a program steps it, from a notebook or a script.

    The window follows an agent that viewers pick: its scene, its view, its path, and the other agents in that scene. It
    does nothing without viewers. When a scene is shown for the first time, its textures are encoded in a thread.

    Args:
        env: The batch, with or without wrappers.
        port: The port, on this machine alone; 0 for any free one. By default the first free one from 8080 on.
        share: The share of the time that taking snapshots may cost, 0.001 to 1; drawing them, in another thread,
            may cost as much again.
        size: Pixels along the longer side of the pictures.

    Returns:
        The window; ``url`` is its address. Close it before the batch.

    Raises:
        TypeError: ``env`` is not a batch of this package.
        ValueError: An argument is wrong, or the port is taken.
        MissingExtraError: The extra ``[view]`` is not installed.
    """
    batch_of(env)
    check_between(0.001, 1.0, share=share)
    check_counts(size=size)
    return Window(env, WindowServer(port), share, size)
