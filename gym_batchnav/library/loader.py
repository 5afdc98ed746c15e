"""Load scenes in the background while the environment steps: one thread per scene, one scene at a time."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gym_batchnav.library.sources import SceneSource
from gym_batchnav.scene.scene import Scene

Preparers = Mapping[int, Callable[[Scene], Any]]
Abandoned = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of preparing one scene in another process.

    Attributes:
        error: The reason why the scene cannot be loaded, or None.
        warnings: Sentences for the user.
    """

    error: Exception | None = None
    warnings: tuple[str, ...] = ()


PrepareAhead = Callable[[Sequence[SceneSource], int, Abandoned], list[Outcome]]
"""Fills the cache for sources, in processes of a niceness, until they are done or abandoned; one outcome per source."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a request: a scene and the preparers' results, or the error that occurred."""

    index: int
    scene: Scene | None
    made: dict[int, Any]
    error: Exception | None = None
    warnings: tuple[str, ...] = ()


def load(index: int, source: Callable[[], Scene], preparers: Preparers, abandoned: Abandoned | None = None) -> Loaded:
    """Load a scene and run the preparers on it; an error becomes part of the result."""
    try:
        scene = source()
        made = {}
        for key, preparer in preparers.items():
            if abandoned is not None and abandoned():
                break
            made[key] = preparer(scene)
        return Loaded(index, scene, made)
    except Exception as error:  # any error of a preparer or a reader must not interrupt stepping
        return Loaded(index, None, {}, error)


def complete(loaded: Loaded, preparers: Preparers) -> Loaded:
    """Add results of preparers that were added while a scene was loaded, and remove those of removed preparers."""
    scene = loaded.scene
    if scene is None:
        return loaded
    missing = {key: preparer for key, preparer in preparers.items() if key not in loaded.made}
    added = load(loaded.index, lambda: scene, missing)
    made = {key: result for key, result in {**loaded.made, **added.made}.items() if key in preparers}
    return Loaded(loaded.index, added.scene, made, added.error, loaded.warnings)


def never() -> bool:
    """Return False, for work that a caller is waiting for and that is never abandoned."""
    return False


@dataclass(slots=True)
class _Order:
    """A requested scene.

    Attributes:
        cancelled: Set when the scene is no longer needed.
        done: Set when ``loaded`` is available, or the order was abandoned.
    """

    index: int
    cancelled: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    loaded: Loaded | None = None

    def abandoned(self) -> bool:
        """Return whether the scene is no longer needed, or the program is about to end."""
        return self.cancelled.is_set() or not threading.main_thread().is_alive()


class BackgroundLoader:
    """A loader of one scene at a time, in a thread that ends when the scene is loaded.

    The interpreter waits for the thread at exit, because Embree and OpenGL must not be interrupted. The thread notices
    the exit and stops waiting for other processes.

    Args:
        prepare_ahead: Fills the cache in other processes first.
    """

    def __init__(self, prepare_ahead: PrepareAhead | None = None) -> None:
        self._prepare_ahead = prepare_ahead
        self._order: _Order | None = None
        self._thread: threading.Thread | None = None

    @property
    def requested(self) -> int | None:
        """The index of the scene that has been requested but not taken; None for none."""
        return None if self._order is None else self._order.index

    @property
    def busy(self) -> bool:
        """Whether a scene has been requested but not taken."""
        return self._order is not None

    def request(self, index: int, source: SceneSource, preparers: Preparers, niceness: int) -> None:
        """Request a scene, to be loaded at a niceness of 0 to 19; an earlier request is cancelled."""
        self.cancel()
        self._order = _Order(index)
        # A thread can lower its own priority but never raise it, so each scene gets a new thread.
        self._thread = threading.Thread(
            target=_run,
            args=(self._order, source, dict(preparers), niceness, self._prepare_ahead, self._thread),
            name="scene loader",
        )
        self._thread.start()

    def take(self, wait: bool = False) -> Loaded | None:
        """Return the requested scene, or None if it is not loaded yet and ``wait`` is False."""
        order = self._order
        if order is None or not (wait or order.done.is_set()):
            return None
        order.done.wait()
        self._order = None
        return order.loaded

    def cancel(self) -> None:
        """Cancel the pending request; idempotent."""
        if self._order is not None:
            self._order.cancelled.set()
            self._order = None


def _run(
    order: _Order,
    source: SceneSource,
    preparers: Preparers,
    niceness: int,
    prepare_ahead: PrepareAhead | None,
    previous: threading.Thread | None,
) -> None:
    """Fulfil an order after the thread of the previous order has ended."""
    try:
        if previous is not None:
            previous.join()
        _lower_priority(niceness)
        order.loaded = _load(order, source, preparers, niceness, prepare_ahead)
    except BaseException as error:  # a reader may call sys.exit
        order.loaded = Loaded(order.index, None, {}, RuntimeError(f"loading ended with {error!r}"))
    finally:
        order.done.set()


def _load(
    order: _Order, source: SceneSource, preparers: Preparers, niceness: int, prepare_ahead: PrepareAhead | None
) -> Loaded | None:
    outcome = Outcome()
    if prepare_ahead is not None and not order.abandoned():
        try:
            (outcome,) = prepare_ahead([source], niceness, order.abandoned)
        except Exception as error:
            outcome = Outcome(error)
    if order.abandoned():
        return None
    if outcome.error is not None:
        return Loaded(order.index, None, {}, outcome.error, outcome.warnings)
    with contextlib.suppress(OSError, AttributeError, TypeError):
        # Only the GNU C library has it; without the call, rotation of scenes of many sizes keeps a fifth more memory.
        ctypes.CDLL(None).malloc_trim(0)
    loaded = load(order.index, source.load, preparers, order.abandoned)
    return Loaded(loaded.index, loaded.scene, loaded.made, loaded.error, outcome.warnings)


def _lower_priority(niceness: int) -> None:
    """Lower the priority of the calling thread, on systems on which threads have priorities of their own."""
    if sys.platform == "linux" and niceness > 0:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
