"""The worker process, which prepares one scene at a time and stores the results in the cache.

It reads one JSON request per line from standard input and answers each with two lines of JSON, one when it starts and
one when it is done. A marker precedes each answer, so that other output is harmless. The process ends as soon as its
standard input closes, even during work, so that it never outlives its parent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from gym_batchnav.episodes.samplers import PointEpisodes, sampler_from_json
from gym_batchnav.library.cache import CacheWarning, DiskCache
from gym_batchnav.library.refusals import is_lasting, reason_of
from gym_batchnav.library.sources import source_from_recipe
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.preparation.navigation import NavigationPreparer

MARKER = b"gym_batchnav answers: "
MAX_TEXT = 2000  # characters per sentence, sentences per answer
MAX_WARNINGS = 50
MODEST = 10  # niceness of a background process on systems without niceness per thread
_writing = threading.Lock()


def main() -> None:
    """Answer requests from standard input until it closes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries goes to standard error
    sys.stdout = sys.stderr
    previous: threading.Thread | None = None
    for line in sys.stdin.buffer:
        # A thread can lower its own priority but never raise it, so each request gets a new thread.
        thread = threading.Thread(target=_serve, args=(json.loads(line), answers, previous), daemon=True)
        thread.start()
        previous = thread
    with _writing:
        os._exit(0)


def _serve(request: Mapping[str, Any], answers: IO[bytes], previous: threading.Thread | None) -> None:
    """Answer a request after the previous one."""
    if previous is not None:
        previous.join()
    _set_priority(request["niceness"])
    _write_line(answers, {"id": request["id"], "begun": True})
    _write_line(answers, {"id": request["id"], **answer(request)})


def _write_line(answers: IO[bytes], answer: Mapping[str, Any]) -> None:
    """Write one line of an answer."""
    answers.write(b"\n" + MARKER + json.dumps(answer).encode() + b"\n")
    answers.flush()


def _set_priority(niceness: int) -> None:
    """Set the priority of this thread on Linux; elsewhere lower that of the process for background work."""
    with suppress(OSError, AttributeError):
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
            if os.getsid(0) == os.getpid():
                # Linux divides processors among sessions first; niceness counts only within a session.
                Path("/proc/self/autogroup").write_text(f"{niceness}")
        elif niceness > 0:
            os.nice(max(0, MODEST - os.nice(0)))


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Prepare one scene; a process must prepare only one at a time.

    Returns:
        ``refused``: why the scene can never be used, or None; ``failed``: a possibly temporary error, or None;
        ``warnings``: sentences for the user; ``files``: the cache entries that the scene needs.
    """
    refused = failed = None
    disk = _disk(request["cache_dir"], request["max_bytes"])
    disk.used.clear()
    caught: list[warnings.WarningMessage] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        _keep_warnings_of_this_thread(caught)
        try:
            _prepare(request, disk)
        except Exception as error:
            if is_lasting(error):
                refused = reason_of(error)[:MAX_TEXT]
            else:
                failed = f"{type(error).__name__}: {reason_of(error)}"[:MAX_TEXT]
    # The parent uses the same folder and issues these warnings itself.
    relevant = [one for one in caught if issubclass(one.category, UserWarning) and one.category is not CacheWarning]
    return {
        "refused": refused,
        "failed": failed,
        "warnings": [str(one.message)[:MAX_TEXT] for one in relevant[:MAX_WARNINGS]],
        "files": sorted(path.name for path in disk.used if path.is_file()),
    }


def _keep_warnings_of_this_thread(caught: list[warnings.WarningMessage]) -> None:
    """Add the warnings of this thread to a list, and show those of others, which may be the user's."""
    show, thread = warnings.showwarning, threading.get_ident()

    def keep(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if threading.get_ident() == thread:
            caught.append(warnings.WarningMessage(message, category, *where, **more))
        else:
            show(message, category, *where, **more)

    warnings.showwarning = keep


def _prepare(request: Mapping[str, Any], disk: DiskCache) -> None:
    settings = request["settings"]
    episode_file = request["episode_file"]
    sampler = request["sampler"]
    preparer = NavigationPreparer(
        settings=None if settings is None else NavMeshSettings(**settings),
        episode_file=None if episode_file is None else Path(episode_file),
        num_episodes=request["num_episodes"],
        sampler=PointEpisodes() if sampler is None else sampler_from_json(sampler),
        cache=disk,
    )
    scene = source_from_recipe(request["recipe"], disk).load()
    if sampler is None:  # of the user, who samples the episodes in the parent process
        preparer.ground(scene)
    else:
        preparer(scene)


class _Disk(DiskCache):
    """A cache whose writing is never interrupted by the end of the process.

    Attributes:
        used: The paths of the entries that were requested or stored.
    """

    def __init__(self, directory: str, max_bytes: int) -> None:
        super().__init__(directory, max_bytes)
        self.used: set[Path] = set()

    def load(self, key: str) -> dict[str, np.ndarray] | None:
        """Return the arrays stored under ``key``."""
        self.used.add(self._path(key))
        return super().load(key)

    def store(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Store arrays under ``key``."""
        self.used.add(self._path(key))
        with _writing:
            super().store(key, arrays)


@cache
def _disk(directory: str, max_bytes: int) -> _Disk:
    """Return one cache for all requests, so that an unusable folder causes only one warning."""
    return _Disk(directory, max_bytes)


if __name__ == "__main__":
    main()
