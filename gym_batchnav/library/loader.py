"""Loading of scenes: in the background while the environment steps, or at once for a caller who waits.

A scene that cannot be loaded is *refused* if its error would come again, and retried at its next turn otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gym_batchnav.library.sources import SceneSource
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.child import never
from gym_batchnav.system.notices import warn_user

Preparer = Callable[[Scene], Any]
Preparers = Mapping[int, Preparer]  # by key
Abandoned = Callable[[], bool]

# A missing file is a lasting error; other errors of the system may be temporary.
_LASTING = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}


def is_lasting(error: BaseException) -> bool:
    """Return whether a scene can never be used: the error is a ValueError not caused by a temporary system fault."""
    if not isinstance(error, ValueError):
        return False
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, MemoryError):
            return False
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno not in _LASTING:
            return False
        cause = cause.__cause__
    return True


def reason_of(error: BaseException) -> str:
    """Return the reason why a scene cannot be used, without its name if the error stores the two separately."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) else str(error) or repr(error)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of preparing one scene ahead, mostly in another process.

    Attributes:
        error: The reason why the scene cannot be loaded, or None.
        warnings: Messages for the user.
    """

    error: Exception | None = None
    warnings: tuple[str, ...] = ()


PrepareAhead = Callable[[Sequence[SceneSource], int, Abandoned], list[Outcome]]
"""Fills the cache for sources, in processes of a niceness, until they are done or abandoned; one outcome per source."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A scene of the list and the preparers' results by key, or the error that occurred."""

    index: int
    scene: Scene | None
    made: dict[int, Any]
    error: Exception | None = None
    warnings: tuple[str, ...] = ()


def load_now(
    sources: Mapping[int, SceneSource], preparers: Preparers, prepare_ahead: PrepareAhead | None
) -> list[Loaded]:
    """Load scenes, given by their indices in the list; worker processes prepare them in parallel first."""
    outcomes = [Outcome()] * len(sources)
    if prepare_ahead is not None:
        outcomes = prepare_ahead(list(sources.values()), 0, never)
    results = []
    for (index, source), outcome in zip(sources.items(), outcomes, strict=True):
        for message in outcome.warnings:
            warn_user(message)
        if outcome.error is not None:
            results.append(Loaded(index, None, {}, outcome.error))
        else:
            results.append(_load(index, source.load, preparers, never))
    return results


def _load(index: int, source: Callable[[], Scene], preparers: Preparers, abandoned: Abandoned) -> Loaded:
    """Load a scene and run the preparers on it; an error becomes part of the result."""
    try:
        scene = source()
        made = {}
        for key, preparer in preparers.items():
            if abandoned():
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
    added = _load(loaded.index, lambda: scene, missing, never)
    made = {key: result for key, result in {**loaded.made, **added.made}.items() if key in preparers}
    return replace(added, made=made, warnings=loaded.warnings)


@dataclass(slots=True)
class _Order:
    """A requested scene; ``done`` is set when ``loaded`` is available, or the order was abandoned."""

    index: int
    source: SceneSource
    preparers: Preparers
    niceness: int
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

    def request(self, index: int, source: SceneSource, preparers: Preparers, niceness: int) -> None:
        """Request a scene, to be loaded at a niceness of 0 to 19; an earlier request is cancelled."""
        self.cancel()
        self._order = _Order(index, source, dict(preparers), niceness)
        # A thread can lower its own priority but never raise it, so each scene gets a new thread.
        self._thread = threading.Thread(target=self._run, args=(self._order, self._thread), name="scene loader")
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

    def _run(self, order: _Order, previous: threading.Thread | None) -> None:
        """Fulfil an order after the thread of the previous order has ended."""
        try:
            if previous is not None:
                previous.join()
            _lower_priority(order.niceness)
            order.loaded = self._fulfil(order)
        except BaseException as error:  # a reader may call sys.exit
            order.loaded = Loaded(order.index, None, {}, RuntimeError(f"loading ended with {error!r}"))
        finally:
            order.done.set()

    def _fulfil(self, order: _Order) -> Loaded | None:
        """Prepare a scene in another process and load it; return None if it was abandoned."""
        outcome = Outcome()
        if self._prepare_ahead is not None and not order.abandoned():
            try:
                (outcome,) = self._prepare_ahead([order.source], order.niceness, order.abandoned)
            except Exception as error:
                outcome = Outcome(error)
        if order.abandoned():
            return None
        if outcome.error is not None:
            return Loaded(order.index, None, {}, outcome.error, outcome.warnings)
        with contextlib.suppress(OSError, AttributeError, TypeError):
            # Only the GNU C library has it; without the call, rotation of scenes of many sizes keeps a fifth more
            # memory.
            ctypes.CDLL(None).malloc_trim(0)
        loaded = _load(order.index, order.source.load, order.preparers, order.abandoned)
        return replace(loaded, warnings=outcome.warnings)


def _lower_priority(niceness: int) -> None:
    """Lower the priority of the calling thread, on systems where each thread has a priority."""
    if sys.platform == "linux" and niceness > 0:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)


class Refusals:
    """A record of the scenes that are refused permanently, that failed, and that did not fit at their turn.

    A scene causes one warning when it is refused and one when it first fails; only the first passed over causes one.

    Args:
        names: The names of all scenes.

    Attributes:
        reasons: Reasons of refusal, by scene index.
        failures: Last errors of scenes that may load another time, by scene index.
        num_passed_over: Number of turns that were skipped because a scene did not fit.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.reasons: dict[int, str] = {}
        self.failures: dict[int, str] = {}
        self.num_passed_over = 0

    def note(self, index: int, error: Exception, retried: bool) -> None:
        """Record that a scene could not be loaded: it is refused if the error is lasting.

        Args:
            index: The scene.
            error: Why it could not be loaded.
            retried: Whether the scene gets another turn.

        Raises:
            ValueError: If it was the last one.
        """
        if is_lasting(error):
            self.refuse(index, error)
            return
        is_first = index not in self.failures
        self.failures[index] = f"{type(error).__name__}: {reason_of(error)}"
        if is_first:
            then = "it is retried at its next turn" if retried else "it is left out"
            warn_user(f"scene {self._names[index]!r} could not be loaded ({self.failures[index]}): {then}")

    def refuse(self, index: int, error: Exception) -> None:
        """Record that a scene can never be used.

        Raises:
            ValueError: If it was the last one.
        """
        reason = reason_of(error)
        alike = [self._names[other] for other, known in self.reasons.items() if known == reason]
        self.reasons[index] = reason
        if len(self.reasons) == len(self._names):
            raise error if len(self._names) == 1 else self.none_left()
        warn_user(f"scene {self._names[index]!r} is left out{f' like {alike[0]!r}' if alike else f': {reason}'}")

    def pass_over(self, index: int, room: str) -> None:
        """Record that a scene did not fit at its turn."""
        self.num_passed_over += 1
        if self.num_passed_over == 1:
            warn_user(
                f"scene {self._names[index]!r} is passed over: it does not fit into {room}; pass a larger max_bytes=, "
                "or keep fewer scenes resident"
            )

    def none_left(self) -> ValueError:
        """Return the error to raise if no scene can be used."""
        names_of: dict[str, list[str]] = {}
        for name, reason in {**self.failed, **self.refused}.items():
            names_of.setdefault(reason, []).append(name)
        reasons = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in names_of.items())
        return ValueError(f"none of the {len(self._names)} scenes can be used: {reasons}")

    @property
    def refused(self) -> dict[str, str]:
        """The reasons of refused scenes, by name."""
        return {self._names[index]: reason for index, reason in self.reasons.items()}

    @property
    def failed(self) -> dict[str, str]:
        """The last errors of scenes that may load another time, by name."""
        return {self._names[index]: reason for index, reason in self.failures.items()}

    def get_state(self) -> dict[str, str]:
        """Return the reasons of refused scenes, by index as a string for JSON."""
        return {str(index): reason for index, reason in self.reasons.items()}

    def check_state(self, state: Mapping[str, str]) -> dict[int, str]:
        """Return the reasons in a saved state, by index.

        Raises:
            ValueError: If the state belongs to other scenes.
        """
        try:
            reasons = {int(index): str(reason) for index, reason in state.items()}
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise ValueError(f"library state: refused {str(state)[:200]}: pass the result of get_state()") from None
        if any(not 0 <= index < len(self._names) for index in reasons):
            raise ValueError("the state refuses scenes that are not listed: make the environment with the same scenes=")
        return reasons
