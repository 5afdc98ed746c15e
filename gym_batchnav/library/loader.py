"""Loading scenes beside the steps: one thread of the lowest priority."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from gym_batchnav.scene.scene import Scene

LOWEST_PRIORITY = 19  # the largest niceness


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of a request: a scene and what the preparers made of it, or the error that there was instead."""

    index: int
    scene: Scene | None
    made: dict[int, Any]
    error: Exception | None = None


Job = Callable[[], Scene]
Preparers = Mapping[int, Callable[[Scene], Any]]


def load(index: int, job: Job, preparers: Preparers) -> Loaded:
    """Load a scene and run the preparers on it; an error becomes part of the answer."""
    try:
        scene = job()
        return Loaded(index, scene, {key: preparer(scene) for key, preparer in preparers.items()})
    except Exception as error:  # a preparer or a format's reader may raise anything, and stepping must go on
        return Loaded(index, None, {}, error)


class BackgroundLoader:
    """A thread that loads one scene at a time; it starts with the first request."""

    def __init__(self) -> None:
        # The interpreter waits for an executor's thread before it ends: Embree cannot be left in the middle of a tree.
        self._executor = ThreadPoolExecutor(1, "scene loader", initializer=_yield_to_others)
        self._future: Future[Loaded] | None = None
        self._index = -1

    @property
    def busy(self) -> bool:
        """Whether there is a scene that was asked for and not taken yet."""
        return self._future is not None

    def request(self, index: int, job: Job, preparers: Preparers) -> None:
        """Have a scene loaded; what was asked for before is forgotten."""
        self.forget()
        self._index = index
        self._future = self._executor.submit(_load, index, job, dict(preparers))

    def take(self, wait: bool = False) -> Loaded | None:
        """What was asked for, None if it is not there yet; ``wait`` for it if asked to."""
        if self._future is None or not (wait or self._future.done()):
            return None
        future, self._future = self._future, None
        error = future.exception()
        if error is not None:  # not even an Exception: a reader that wanted to leave the program
            return Loaded(self._index, None, {}, RuntimeError(f"loading ended with {error!r}"))
        return future.result()

    def forget(self) -> None:
        """Take no interest any more in what was asked for."""
        if self._future is not None:
            self._future.cancel()
            self._future = None

    def close(self) -> None:
        """Let the thread end after what it is loading now; safe twice."""
        self.forget()
        self._executor.shutdown(wait=False, cancel_futures=True)


def _load(index: int, job: Job, preparers: Preparers) -> Loaded:
    """Load a scene after the memory of those before it has gone back to the system."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # only the GNU C library can do that, and keeps
        ctypes.CDLL(None).malloc_trim(0)  # a fifth more than it needs where scenes of many sizes come and go
    return load(index, job, preparers)


def _yield_to_others() -> None:
    """Give the calling thread the lowest priority, where threads have priorities of their own."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
