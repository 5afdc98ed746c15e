"""The processors of a process, and which process and thread may run parallel kernels and OpenGL.

Threads and OpenGL contexts do not survive a fork: a parallel kernel or an OpenGL call in a forked child hangs or kills
it without an error. That is a property of the whole process, hence the module-level variables.

A batch or a renderer belongs to one thread: two that use it at once would write into the same arrays. Batches that
share nothing may live in separate threads, but Numba's workqueue layer, the only one on some machines, aborts the
process when two threads enter parallel kernels at once. So every call of one holds ``PARALLEL_KERNELS``.
"""

from __future__ import annotations

import os
import sys
import threading

from gym_batchnav.system.limits import processor_quota

_owner: int | None = None
_limit: int | None = None
PARALLEL_KERNELS = threading.RLock()


def is_frozen() -> bool:
    """Return whether this is an application made of one executable, which cannot start as a Python interpreter."""
    return bool(getattr(sys, "frozen", False))


def num_processors() -> int:
    """Return the number of processors that this process may use, at least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(count, processor_quota() or count, _limit or count)


def limit_processors(count: int) -> None:
    """Let ``num_processors`` be at most ``count`` from now on: the share of a machine that a cluster has given."""
    global _limit
    _limit = max(count, 1)


def claim_process(what: str) -> None:
    """Record that this process runs parallel kernels or OpenGL; to be called before each of them.

    Raises:
        RuntimeError: If a parent of this process did so before it forked.
    """
    global _owner
    current = os.getpid()
    if _owner is None:
        _owner = current
    elif _owner != current:
        raise RuntimeError(
            f"{what} in a forked process: its parent has run gym_batchnav before the fork, and a fork loses threads "
            'and OpenGL contexts. Start processes with context="spawn" '
            '(multiprocessing.get_context("spawn"), AsyncVectorEnv(..., context="spawn")).'
        )


class Claim:
    """The claim of the process and the thread that use an object first.

    When that thread has ended, the next thread that uses the object takes over the claim. Errors call the object by a
    name such as ``"this environment"``.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def claim_thread(self, what: str) -> None:
        """Claim the process and the thread; to be called before every use, such as ``"step"``.

        Raises:
            RuntimeError: If a parent process used the package before the fork, or another thread uses the object.
        """
        claim_process(what)
        current = threading.current_thread()
        if self._thread is current:  # the usual case; a claim is never taken from a thread that runs
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = current
            owner = self._thread
        if owner is not current:
            raise RuntimeError(
                f"{what} in thread {current.name!r}: {self._name} belongs to thread {owner.name!r}, which used it "
                f"first. Make all calls from thread {owner.name!r}, or make another object in each thread."
            )
