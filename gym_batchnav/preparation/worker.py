"""A process that fills the disk cache, so that the process that steps only has to read what is there.

The child is this module run as a program: a plain process with pipes at the lowest priority. It reads one request a
line, JSON, and answers each with two lines of JSON, one when it begins and one when it is done. They stand behind a
marker, so that whatever else is printed does no harm.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from gym_batchnav.library.cache import CacheWarning, DiskCache
from gym_batchnav.library.library import SceneSource
from gym_batchnav.library.loader import LOWEST_PRIORITY
from gym_batchnav.library.recipes import key_of, source_from_recipe
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.preparation.navigation import MAKERS, NavigationPreparer

_MARKER = b"gym_batchnav answers: "
_MAX_LINE, _MAX_TEXT, _MAX_WARNINGS = 2**20, 2000, 50  # bytes, characters, sentences of an answer
_ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
TIMEOUT = 300.0  # seconds for one scene
_PATIENCE = 1.0  # seconds that a process gets to end by itself
_TRIES = 3  # processes that may be lost over one scene: somebody else may have ended two of them
_BEGUN: dict[str, Any] = {"begun": True}

_writing = threading.Lock()
_Answers = queue.SimpleQueue[bytes | None]


class WorkerLost(RuntimeError):
    """The process that prepares scenes has died, was closed, does not answer as it should, or could not be started.

    Attributes:
        begun: Whether it had begun with the scene, which may then be to blame.
    """

    def __init__(self, message: str, begun: bool = False) -> None:
        super().__init__(message)
        self.begun = begun


class PreparationWorker:
    """Prepares scenes in a process of its own, one after the other; the results are found in the disk cache.

    The process starts with the first scene, and anew after it was lost. It ends with ``close`` or with its parent.

    Args:
        preparer: What to prepare; it needs a cache, and its process uses the same folder.
        timeout: Seconds that one scene may take; after them the process counts as lost and is ended.

    Attributes:
        timeout: Seconds that one scene may take.

    Raises:
        ValueError: the preparer has no cache, or the timeout is not positive.
    """

    def __init__(self, preparer: NavigationPreparer, timeout: float = TIMEOUT) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout={timeout!r}: give a positive number of seconds")
        disk = preparer.cache
        if disk is None:
            raise ValueError("a PreparationWorker needs a preparer with a cache: its results go there")
        self.timeout = timeout
        self._disk = disk
        self._request = {
            "settings": None if preparer.settings is None else asdict(preparer.settings),
            "num_episodes": preparer.num_episodes,
            "episode_file": None if preparer.episode_file is None else os.path.abspath(preparer.episode_file),
            "cache_dir": os.path.abspath(disk.directory),
            "max_bytes": disk.max_bytes,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: _Answers = queue.SimpleQueue()  # its answers, then None
        self._closed = self._resting = False
        self._lock = threading.Lock()

    def prepare(self, recipe: Mapping[str, Any]) -> None:
        """Have a scene, its navmesh and its geodesic tables made and kept in the cache; blocks until they are.

        The GIL is released meanwhile. Warnings that the scene causes are given here. One call at a time.

        Args:
            recipe: ``SceneSource.recipe`` of the scene.

        Raises:
            ValueError: the scene is refused; the message has the reason.
            WorkerLost: the process has died or took longer than ``timeout``; another call starts a new one unless the
                worker was closed.
        """
        process, answers = self._started()
        assert process.stdin is not None
        begun = False
        try:
            process.stdin.write(json.dumps({**self._request, "recipe": recipe}).encode() + b"\n")
            process.stdin.flush()
            begun = _next_answer(answers, self.timeout) == _BEGUN
            answer = _next_answer(answers, self.timeout) if begun else {}
            if answer.keys() != {"refused", "warnings", "files"}:
                raise ValueError("it gave a malformed answer")
        except (OSError, ValueError) as error:
            self._stop(process)
            raise WorkerLost(
                f"the process that prepares scenes was lost: {error} (exit {process.returncode})", begun
            ) from error
        for sentence in answer["warnings"]:
            warnings.warn(sentence, stacklevel=2)
        if answer["refused"] is not None:
            raise ValueError(answer["refused"])
        self._disk.store(self._mark(recipe), {"files": np.array(answer["files"], str)})

    def is_prepared(self, recipe: Mapping[str, Any]) -> bool:
        """Whether a scene has been prepared like this before, and all that was kept of it is still in the cache."""
        try:
            mark = self._disk.load(self._mark(recipe))
            return mark is not None and all((self._disk.directory / name).is_file() for name in mark["files"].tolist())
        except (OSError, KeyError):
            return False

    @property
    def dismissed(self) -> bool:
        """Whether nobody wants its work at present: after ``close``, and after ``rest`` until the next scene."""
        return self._closed or self._resting

    def _mark(self, recipe: Mapping[str, Any]) -> str:
        """The key of the entry that says that a scene was prepared."""
        return f"prepared {MAKERS} {json.dumps(self._request, sort_keys=True)} {key_of(recipe)}"

    def rest(self) -> None:
        """End the process until another scene is to be prepared; from any thread."""
        with self._lock:
            self._resting = True
            process, self._process = self._process, None
        if process is not None:
            self._stop(process)

    def close(self) -> None:
        """End the process, whatever it is doing; safe twice and from any thread."""
        with self._lock:
            self._closed = True
            process = self._process
        if process is not None:
            self._stop(process)

    def _started(self) -> tuple[subprocess.Popen[bytes], _Answers]:
        """The running process and its answers; it is started if need be."""
        with self._lock:
            if self._closed:
                raise WorkerLost("the process that prepares scenes is closed: make another PreparationWorker")
            self._resting = False
            if self._process is None or self._process.poll() is not None:
                try:
                    self._process = subprocess.Popen(
                        [sys.executable or "", "-m", __name__],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        env=_environment(),
                        **_apart(),
                    )
                except OSError as error:
                    raise WorkerLost(f"no process that prepares scenes can be started: {error}") from error
                self._answers = queue.SimpleQueue()
                threading.Thread(target=_read_answers, args=(self._process.stdout, self._answers), daemon=True).start()
            return self._process, self._answers

    @staticmethod
    def _stop(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        with suppress(OSError):  # what was still to be written has no reader
            process.stdin.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def warm(worker: PreparationWorker, source: SceneSource) -> None:
    """Have a scene prepared that a SceneLibrary is about to load; a lost process costs a warning.

    A scene over which processes are lost time and again must not be loaded by the one that steps: it may take that
    along as well. Only where no process gets as far as the scene is it left to the one that steps.

    Raises:
        ValueError: the scene is refused.
        WorkerLost: nobody wants the scene any more.
    """
    if source.recipe is None or worker.is_prepared(source.recipe):
        return
    begun = False
    for remaining in reversed(range(_TRIES)):
        try:
            worker.prepare(source.recipe)
            return
        except WorkerLost as error:
            if worker.dismissed:
                raise
            begun = begun or error.begun
            if begun and not remaining:
                raise ValueError(
                    f"scene {source.name!r}: {_TRIES} processes in turn were lost over it, the last: {error}; it may "
                    "take more memory or time than there is: make it smaller"
                ) from error
            then = "is tried again" if remaining else "is prepared by the process that steps"
            warnings.warn(f"{error}: scene {source.name!r} {then}", stacklevel=2)


def _environment() -> dict[str, str]:
    """The child's environment: modules are found where the parent finds them, and kernels use one thread."""
    package = str(Path(__file__).parents[2])  # last, for a parent that was started in it and has gone elsewhere
    found = os.pathsep.join(os.path.abspath(path) for path in [*sys.path, package])
    return {**os.environ, **dict.fromkeys(_ONE_THREAD, "1"), "PYTHONPATH": found, "PYTHONSAFEPATH": "1"}


def _apart() -> dict[str, Any]:
    """Keywords of Popen that keep Ctrl-C from the child: it goes to the parent alone, which decides what to do."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _read_answers(stream: IO[bytes], answers: _Answers) -> None:
    """Pass on the child's answers, and None when it ends; a pipe can be waited for in no other way everywhere."""
    with stream:
        while line := stream.readline(_MAX_LINE):
            if line.startswith(_MARKER):
                answers.put(line)
    answers.put(None)


def _next_answer(answers: _Answers, timeout: float) -> dict[str, Any]:
    """The next answer of the child.

    Raises:
        ValueError: the child ends first, there is none within ``timeout`` seconds, or it is malformed.
    """
    try:
        line = answers.get(timeout=timeout)
    except queue.Empty:
        raise ValueError(f"it gave no answer within {timeout:g} seconds") from None
    if line is None:
        raise ValueError("it ended before it answered")
    answer = json.loads(line[len(_MARKER) :])
    if not isinstance(answer, dict):
        raise ValueError("it gave a malformed answer")
    return answer


def main() -> None:
    """Answer requests from standard input until it closes."""
    _yield_to_others()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print goes to standard error
    sys.stdout = sys.stderr
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        request = json.loads(requests.get())
        _tell(answers, _BEGUN)
        _tell(answers, _answer(request))


def _tell(answers: IO[bytes], answer: Mapping[str, Any]) -> None:
    """Write one line of an answer."""
    answers.write(b"\n" + _MARKER + json.dumps(answer).encode() + b"\n")
    answers.flush()


def _yield_to_others() -> None:
    """Give this process the lowest priority."""
    if hasattr(os, "nice"):
        os.nice(LOWEST_PRIORITY)
        if os.getsid(0) == os.getpid():
            # Linux shares processors among sessions first, and a process's niceness counts only within its own.
            with suppress(OSError):
                Path("/proc/self/autogroup").write_text(f"{LOWEST_PRIORITY}")


def _read_requests(stream: IO[bytes], requests: queue.SimpleQueue[bytes]) -> None:
    """Pass requests on; when the parent is gone, end this process at once, also in the middle of its work."""
    for line in stream:
        requests.put(line)
    with _writing:
        os._exit(0)


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Prepare one scene: why it was refused (None if it was not), the warnings it caused, and what the cache keeps."""
    refused = None
    disk = _disk(request["cache_dir"], request["max_bytes"])
    disk.used.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _prepare(request, disk)
        except (ValueError, OSError) as error:
            refused = str(error)
        except Exception as error:  # one bad scene must not take the others along
            refused = f"scene {request['recipe'].get('name')!r}: preparing it failed with {error!r}"
    # Of the cache the parent warns itself, who keeps marks in the same folder.
    meant = [one for one in caught if issubclass(one.category, UserWarning) and one.category is not CacheWarning]
    return {
        "refused": refused and refused[:_MAX_TEXT],
        "warnings": [str(one.message)[:_MAX_TEXT] for one in meant[:_MAX_WARNINGS]],
        "files": sorted(path.name for path in disk.used if path.is_file()),
    }


def _prepare(request: Mapping[str, Any], disk: DiskCache) -> None:
    settings, episode_file = request["settings"], request["episode_file"]
    preparer = NavigationPreparer(
        settings=None if settings is None else NavMeshSettings(**settings),
        episode_file=None if episode_file is None else Path(episode_file),
        num_episodes=request["num_episodes"],
        cache=disk,
    )
    preparer(source_from_recipe(request["recipe"], disk).load())


class _Disk(DiskCache):
    """A cache that the end of the process does not interrupt in the middle of an entry.

    Attributes:
        used: The paths of the entries that were asked for or stored.
    """

    def __init__(self, directory: str, max_bytes: int) -> None:
        super().__init__(directory, max_bytes)
        self.used: set[Path] = set()

    def load(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays stored under ``key``."""
        self.used.add(self._path(key))
        return super().load(key)

    def store(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays under ``key``."""
        self.used.add(self._path(key))
        with _writing:
            super().store(key, arrays)


@cache
def _disk(directory: str, max_bytes: int) -> _Disk:
    """One cache for all requests, so that a folder that refuses is warned of once."""
    return _Disk(directory, max_bytes)


if __name__ == "__main__":
    main()
