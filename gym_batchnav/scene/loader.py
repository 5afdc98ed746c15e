"""Loading scenes beside the steps: one thread of the lowest priority."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gym_batchnav.scene.mesh import Scene

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
    """A thread that loads one scene after the other; it starts with the first request."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[tuple[int, Job, Preparers] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[Loaded] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def request(self, index: int, job: Job, preparers: Preparers) -> None:
        """Have a scene loaded; ``index`` comes back with it."""
        if self._thread is None:
            # A thread that waits for its next request must not keep the interpreter alive.
            self._thread = threading.Thread(
                target=_work, args=(self._requests, self._results), name="scene loader", daemon=True
            )
            self._thread.start()
        self._requests.put((index, job, dict(preparers)))

    def poll(self, wait: bool = False) -> Loaded | None:
        """The next result, None if there is none yet; ``wait`` for it if asked to."""
        try:
            return self._results.get(block=wait)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Let the thread end after what it is loading now; safe twice."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread = None


def _work(requests: queue.SimpleQueue, results: queue.SimpleQueue) -> None:
    """Answer requests until there is an empty one."""
    if hasattr(os, "setpriority"):
        with contextlib.suppress(OSError):  # Linux gives each thread a priority of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
    while (request := requests.get()) is not None:
        results.put(load(*request))
