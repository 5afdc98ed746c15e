"""A worker process that fills the disk cache, so that the stepping process only has to read from it.

It is a plain child process with pipes, not a ``ProcessPoolExecutor``, which would import the user's program again
(requiring ``if __name__ == "__main__"``) and could neither be cancelled nor end with its parent.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from gym_batchnav.episodes.samplers import sampler_to_json
from gym_batchnav.library.loader import Abandoned, never
from gym_batchnav.library.recipes import key_of
from gym_batchnav.library.refusals import SceneRefused
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.preparation.child import MARKER, answer
from gym_batchnav.preparation.navigation import NavigationPreparer, makers_digest
from gym_batchnav.system.notices import warn_user
from gym_batchnav.system.process import is_frozen

TIMEOUT = 300.0  # seconds for one scene
_MAX_LINE = 2**20  # bytes per answer
_PATIENCE = 1.0  # seconds in which a process may end by itself
_POLL = 0.05  # seconds between checks whether the work is abandoned
TRIES = 3  # processes that may be lost during one scene, since others may have ended two of them
_ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PREPARING_HERE = threading.Lock()  # for ``answer``, which only one thread may run at a time

_Answers = queue.SimpleQueue[bytes | None]


class WorkerLost(RuntimeError):
    """The worker process died, was closed, sent an invalid answer, or could not be started.

    Attributes:
        begun: Whether it had begun to prepare the scene, which may then be the cause.
    """

    def __init__(self, message: str, begun: bool = False) -> None:
        super().__init__(message)
        self.begun = begun


class PreparationFailed(RuntimeError):
    """The error of a scene that could not be prepared for a possibly temporary reason."""


class PreparationAbandoned(RuntimeError):
    """The error of a request whose scene is no longer needed."""


class PreparationWorker:
    """A worker that prepares scenes in a process of its own, one at a time; the results are stored in the disk cache.

    The process starts with the first scene, and again after it was lost. It ends with ``close``, with ``release`` or
    with its parent.

    Args:
        preparer: Prepares the scenes; it needs a cache, whose folder the process uses.
        timeout: Limit of seconds per scene, after which the process counts as lost and is ended.

    Attributes:
        timeout: Limit of seconds per scene.

    Raises:
        ValueError: If the preparer has no cache, or the timeout is not positive.
    """

    def __init__(self, preparer: NavigationPreparer, timeout: float = TIMEOUT) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout={timeout!r}: pass a positive number of seconds")
        disk = preparer.cache
        if disk is None:
            raise ValueError("a PreparationWorker requires a preparer with a cache, which receives the results")
        self.timeout = timeout
        self._disk = disk
        self._request = {
            "settings": None if preparer.settings is None else asdict(preparer.settings),
            "num_episodes": preparer.num_episodes,
            "episode_file": None if preparer.episode_file is None else os.path.abspath(preparer.episode_file),
            "sampler": sampler_to_json(preparer.sampler),
            "cache_dir": os.path.abspath(disk.directory),
            "max_bytes": disk.max_bytes,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: _Answers = queue.SimpleQueue()  # its answers, then None
        self._closed = False
        self._numbers = itertools.count()
        self._lock = threading.Lock()  # of the process
        self._turn = threading.Lock()  # of the caller whose scene is prepared

    def prepare(self, recipe: Mapping[str, Any], niceness: int = 0, abandoned: Abandoned = never) -> tuple[str, ...]:
        """Prepare a scene and store it, its navmesh, distances and episodes in the cache; blocks until done.

        The GIL is released meanwhile. If the work is abandoned, the process completes the scene for the cache, unless
        this program is about to end.

        Args:
            recipe: ``SceneSource.recipe`` of the scene.
            niceness: Priority of the work, 0 to 19; other systems than Linux distinguish 0 from the rest at most.
            abandoned: Returns whether the scene is no longer needed.

        Returns:
            Warnings that the scene causes.

        Raises:
            ValueError: If the scene is refused; the message has the reason.
            PreparationFailed: If there was a possibly temporary error.
            PreparationAbandoned: If the scene is no longer needed.
            WorkerLost: If the process died or took longer than ``timeout``; another call starts a new one unless the
                worker was closed.
        """
        while not self._turn.acquire(timeout=_POLL):
            _check_not_abandoned(abandoned)
        try:
            result = self._ask(recipe, niceness, abandoned)
        finally:
            self._turn.release()
        return self._store_mark(recipe, result)

    def prepare_here(self, recipe: Mapping[str, Any]) -> tuple[str, ...]:
        """Prepare a scene in a thread of this process, which is faster for small scenes than starting another.

        The calling thread polls, so that Ctrl-C is handled; the program then ends without the thread.

        Args:
            recipe: ``SceneSource.recipe`` of the scene.

        Returns:
            Warnings that the scene causes.

        Raises:
            ValueError: If the scene is refused; the message has the reason.
            PreparationFailed: If there was a possibly temporary error.
        """
        request = json.loads(json.dumps({**self._request, "recipe": recipe}))
        result: dict[str, Any] = {"refused": None, "failed": "its thread has ended without a result"}

        def run() -> None:
            with _PREPARING_HERE:
                result.update(answer(request))

        thread = threading.Thread(target=run, name="scene preparation", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_POLL)
        return self._store_mark(recipe, result)

    def _store_mark(self, recipe: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[str, ...]:
        """Mark a scene as prepared and return its warnings, or raise the error of its result; see ``prepare``."""
        name = str(recipe.get("name"))
        if result["refused"] is not None:
            raise SceneRefused(name, result["refused"])
        if result["failed"] is not None:
            raise PreparationFailed(f"scene {name!r}: {result['failed']}")
        self._disk.store(self._mark(recipe), {"files": np.array(result["files"], str)})
        return tuple(result["warnings"])

    def _ask(self, recipe: Mapping[str, Any], niceness: int, abandoned: Abandoned) -> dict[str, Any]:
        """Send a request and wait for its answer; see ``prepare``."""
        process, answers = self._started(abandoned)
        assert process.stdin is not None
        number = next(self._numbers)
        begun = False
        try:
            request = {**self._request, "id": number, "niceness": niceness, "recipe": recipe}
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            begun = "begun" in _next_answer(answers, number, self.timeout, abandoned)
            answer = _next_answer(answers, number, self.timeout, abandoned) if begun else {}
            if answer.keys() != {"id", "refused", "failed", "warnings", "files"}:
                raise ValueError("it gave a malformed answer")
        except PreparationAbandoned:
            if not threading.main_thread().is_alive():
                _stop(process)
            raise
        except (OSError, ValueError) as error:
            _stop(process)
            raise WorkerLost(
                f"the process that prepares scenes was lost: {error} (exit {process.returncode})", begun
            ) from error
        return answer

    def is_prepared(self, recipe: Mapping[str, Any]) -> bool:
        """Return whether a scene has been prepared with these settings and its results are still in the cache."""
        try:
            mark = self._disk.load(self._mark(recipe))
            return mark is not None and all((self._disk.directory / name).is_file() for name in mark["files"].tolist())
        except (OSError, KeyError, TypeError, ValueError):  # a damaged entry, so the scene is prepared again
            return False

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def _mark(self, recipe: Mapping[str, Any]) -> str:
        """Return the key of the entry that marks a scene as prepared."""
        asked = {name: value for name, value in self._request.items() if name not in ("cache_dir", "max_bytes")}
        return f"prepared {makers_digest()} {json.dumps(asked, sort_keys=True)} {key_of(recipe)}"

    def release(self) -> None:
        """End the process until another scene is requested; callable from any thread, idempotent."""
        with self._lock:
            process = self._process
            self._process = None
        if process is not None:
            _stop(process)

    def close(self) -> None:
        """End the process permanently; callable from any thread, idempotent."""
        with self._lock:
            self._closed = True
        self.release()

    def _started(self, abandoned: Abandoned) -> tuple[subprocess.Popen[bytes], _Answers]:
        """Return the process and its answers, and start the process if it is not running.

        Callers abandon the work before they release the worker, so no process is started in vain.
        """
        with self._lock:
            _check_not_abandoned(abandoned)
            if self._closed:
                raise WorkerLost("the process that prepares scenes is closed: make a new PreparationWorker")
            if self._process is not None and self._process.poll() is not None:
                _stop(self._process)  # it has ended by itself; this closes its pipe
                self._process = None
            if self._process is None:
                self._process = _start()
                self._answers = queue.SimpleQueue()
                threading.Thread(target=_read_answers, args=(self._process.stdout, self._answers), daemon=True).start()
            return self._process, self._answers


def prepare_scene(
    worker: PreparationWorker, source: SceneSource, niceness: int = 0, abandoned: Abandoned = never
) -> tuple[str, ...]:
    """Prepare a scene unless it is prepared already; a lost process is replaced at most twice.

    A scene during which several processes were lost must not be loaded by the stepping process, which might be lost
    too. Only if no process has begun to prepare the scene may the stepping process load it.

    Returns:
        Warnings that the scene causes.

    Raises:
        ValueError: If the scene is refused.
        PreparationFailed: If there was a possibly temporary error.
        PreparationAbandoned: If the scene is no longer needed.
        WorkerLost: If no process begins to prepare the scene.
    """
    if source.recipe is None or worker.is_prepared(source.recipe):
        return ()
    begun = False
    for remaining in reversed(range(TRIES)):
        try:
            return worker.prepare(source.recipe, niceness, abandoned)
        except WorkerLost as error:
            _check_not_abandoned(abandoned)
            begun = begun or error.begun
            if worker.closed or (not remaining and not begun):
                raise
            if not remaining:
                raise SceneRefused(
                    source.name,
                    f"{TRIES} processes in turn were lost during its preparation, the last: {error}; "
                    "it may take too much memory or time: make it smaller",
                ) from error
            warn_user(f"{error}: scene {source.name!r} is retried")
    raise AssertionError("unreachable")


def _check_not_abandoned(abandoned: Abandoned) -> None:
    if abandoned():
        raise PreparationAbandoned("the scene is no longer needed")


def _start() -> subprocess.Popen[bytes]:
    """Start a worker process.

    Raises:
        WorkerLost: If that is not possible.
    """
    if is_frozen():  # the executable would start the whole application again
        raise WorkerLost("no process that prepares scenes can be started from a frozen application")
    try:
        return subprocess.Popen(
            [sys.executable or "", "-m", "gym_batchnav.preparation.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(),
            **_apart(),
        )
    except (OSError, RuntimeError) as error:  # RuntimeError: the interpreter is about to end
        raise WorkerLost(f"no process that prepares scenes can be started: {error}") from error


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # pending output has no reader
        process.stdin.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _environment() -> dict[str, str]:
    """Return the child's environment, with the parent's module path and one thread for kernels."""
    package = str(Path(__file__).parents[2])  # last, for a parent that has left the folder that it was started in
    found = os.pathsep.join(os.path.abspath(path) for path in [*sys.path, package])
    return {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": found, "PYTHONSAFEPATH": "1"}


def _apart() -> dict[str, Any]:
    """Return the keywords of Popen with which Ctrl-C reaches only the parent, which then ends the child."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.BELOW_NORMAL_PRIORITY_CLASS}
    return {"start_new_session": True}


def _read_answers(stream: IO[bytes], answers: _Answers) -> None:
    """Forward the child's answers, and None when it ends; only a thread can wait for a pipe on every system."""
    with stream:
        while line := stream.readline(_MAX_LINE):
            if line.startswith(MARKER):
                answers.put(line)
    answers.put(None)


def _next_answer(answers: _Answers, number: int, timeout: float, abandoned: Abandoned) -> dict[str, Any]:
    """Return the next answer to a request, and drop those to abandoned requests.

    Raises:
        ValueError: If the child ends first, no answer comes within ``timeout`` seconds, or it is malformed.
        PreparationAbandoned: If the scene is no longer needed.
    """
    end = time.monotonic() + timeout
    while True:
        try:
            line = answers.get(timeout=_POLL)
        except queue.Empty:
            _check_not_abandoned(abandoned)
            if time.monotonic() > end:
                raise ValueError(f"it gave no answer within {timeout:g} seconds") from None
            continue
        if line is None:
            raise ValueError("it ended before it answered")
        answer = json.loads(line[len(MARKER) :])
        if not isinstance(answer, dict) or "id" not in answer:
            raise ValueError("it gave a malformed answer")
        if answer["id"] == number:
            return answer
