"""Child processes that call functions of this package, one at a time, and end with their parent.

A child is a plain process with pipes, not a ``ProcessPoolExecutor``, which would import the user's program again
(requiring ``if __name__ == "__main__"``) and could neither be cancelled nor end with its parent.

It reads one JSON request per line from standard input and answers each with two lines of JSON, one when it begins and
one when it is done. A marker precedes each answer, so that other output is harmless. The process ends as soon as its
standard input closes, even during work, so that it never outlives its parent.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, TypeVar

from gym_batchnav.system.process import is_frozen

POLL = 0.05  # seconds between checks whether work is abandoned, and for Ctrl-C
MODEST = 10  # niceness of a background process on systems without niceness per thread
UNINTERRUPTED = threading.Lock()
"""To be held while a file is written: a child does not end meanwhile."""

_MARKER = b"gym_batchnav answers: "
_MAX_LINE = 2**20  # bytes per answer
_PATIENCE = 1.0  # seconds in which a process may end by itself
CALLS_PER_PROCESS = 64  # after which a new process is started, so that leaks of libraries do not add up

_Answers = queue.SimpleQueue[bytes | None]
C = TypeVar("C")
T = TypeVar("T")


class ChildLost(RuntimeError):
    """The process died, was closed, sent an invalid answer, or could not be started.

    Attributes:
        begun: Whether it had begun the call, which may then be the cause.
    """

    def __init__(self, message: str, begun: bool = False) -> None:
        super().__init__(message)
        self.begun = begun


class CallFailed(RuntimeError):
    """The function raised an error in the child; the message has its type and text."""


class CallAbandoned(RuntimeError):
    """The result of the call is no longer needed."""


def never() -> bool:
    """Return False, for work that a caller is waiting for and that is never abandoned."""
    return False


class Child:
    """A process that calls functions, one at a time; any thread may use it.

    It starts with the first call, and again after it was lost. It ends with ``close``, with ``release`` or with its
    parent. Errors say what it is, such as ``"the process that compiles kernels"``; a quiet one has no standard error,
    and ``environment`` has the variables that differ from those of this process.
    """

    def __init__(self, what: str, environment: Mapping[str, str], quiet: bool = False) -> None:
        self.what = what
        self.closed = False
        self._environment = environment
        self._quiet = quiet
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: _Answers = queue.SimpleQueue()  # its answers, then None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()  # protects self._process
        self._turn = threading.Lock()  # held by the thread whose call is running

    def call(
        self,
        function: Callable[..., Any] | str,
        *arguments: Any,
        niceness: int = 0,
        timeout: float = float("inf"),
        abandoned: Callable[[], bool] = never,
    ) -> Any:
        """Call a function in the process and return its result; blocks until done, without the GIL.

        If the call is abandoned, the process completes it, unless this program is about to end.

        The function is one of a module, or ``"module:name"`` of one; arguments and results are JSON values. Niceness is
        from 0 to 19; other systems than Linux distinguish 0 from the rest at most. If the call does not begin, or does
        not end, within ``timeout`` seconds, the process counts as lost and is ended.

        Raises:
            CallFailed: If the function raised an error.
            CallAbandoned: If the result is no longer needed.
            ChildLost: If the process was lost; another call starts a new one unless it was closed.
        """
        while not self._turn.acquire(timeout=POLL):
            check_not_abandoned(abandoned)
        try:
            process, answers = self._started(abandoned)
            number = next(self._numbers)
            request = {"id": number, "niceness": niceness, "function": name_of(function), "arguments": arguments}
            answer = self._ask(process, answers, request, timeout, abandoned)
            if number % CALLS_PER_PROCESS == 0:
                self.release()
        finally:
            self._turn.release()
        if "error" in answer:
            raise CallFailed(answer["error"])
        return answer["result"]

    def release(self) -> None:
        """End the process until the next call; callable from any thread, idempotent."""
        with self._lock:
            process = self._process
            self._process = None
        if process is not None:
            _stop(process)

    def close(self) -> None:
        """End the process permanently; callable from any thread, idempotent."""
        with self._lock:
            self.closed = True
        self.release()

    def _ask(
        self,
        process: subprocess.Popen[bytes],
        answers: _Answers,
        request: Mapping[str, Any],
        timeout: float,
        abandoned: Callable[[], bool],
    ) -> dict[str, Any]:
        """Send a request and wait for its answer; see ``call``."""
        assert process.stdin is not None
        begun = False
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            answer = _next_answer(answers, request["id"], timeout, abandoned)
            begun = "begun" in answer
            if begun:
                answer = _next_answer(answers, request["id"], timeout, abandoned)
            if answer.keys() not in ({"id", "result"}, {"id", "error"}):
                raise ValueError("it gave a malformed answer")
        except CallAbandoned:
            if not threading.main_thread().is_alive():
                _stop(process)
            raise
        except (OSError, ValueError) as error:
            _stop(process)
            raise ChildLost(f"{self.what} was lost: {error} (exit {process.returncode})", begun) from error
        return answer

    def _started(self, abandoned: Callable[[], bool]) -> tuple[subprocess.Popen[bytes], _Answers]:
        """Return the process and its answers, and start the process if it is not running.

        Callers abandon the work before they release the child, so no process is started in vain.
        """
        with self._lock:
            check_not_abandoned(abandoned)
            if self.closed:
                raise ChildLost(f"{self.what} is closed")
            if self._process is not None and self._process.poll() is not None:
                _stop(self._process)  # it has ended by itself; this closes its pipe
                self._process = None
            if self._process is None:
                self._process = self._start()
                self._answers = queue.SimpleQueue()
                threading.Thread(target=_read_answers, args=(self._process.stdout, self._answers), daemon=True).start()
            return self._process, self._answers

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a process with this one's module path; raise ChildLost if that is not possible."""
        if is_frozen():  # the executable would start the whole application again
            raise ChildLost(f"{self.what} cannot be started from a frozen application")
        try:
            return subprocess.Popen(
                [sys.executable or "", "-c", f"from {__name__} import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if self._quiet else None,
                env={**python_environment(), **self._environment},
                **apart(),
            )
        except (OSError, RuntimeError) as error:  # RuntimeError: the interpreter is about to end
            raise ChildLost(f"{self.what} cannot be started: {error}") from error


def name_of(function: Callable[..., Any] | str) -> str:
    """Return ``"module:name"`` of a module-level function, or the string itself."""
    return function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"


def share_work(items: Sequence[T], workers: Sequence[C], work: Callable[[C, T], object]) -> None:
    """Let every worker take the next item until none is left; ``work`` must not raise.

    The calling thread polls, so that Ctrl-C is handled, or does the work itself if there is one worker.
    """
    waiting: queue.SimpleQueue[T] = queue.SimpleQueue()
    for item in items:
        waiting.put(item)
    stopped = threading.Event()

    def serve(worker: C) -> None:
        with suppress(queue.Empty):
            while not stopped.is_set():
                work(worker, waiting.get_nowait())

    if len(workers) == 1:
        serve(workers[0])
        return
    threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(POLL)
    finally:
        stopped.set()


def check_not_abandoned(abandoned: Callable[[], bool]) -> None:
    """Raise CallAbandoned if the result of a call is no longer needed."""
    if abandoned():
        raise CallAbandoned("its result is no longer needed")


def python_environment() -> dict[str, str]:
    """Return the environment of a Python process that can import what this one can."""
    package = str(Path(__file__).parents[2])  # last, for a program that has left the folder that it was started in
    paths = os.pathsep.join(os.path.abspath(path) for path in [*sys.path, package])
    return {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}


def apart() -> dict[str, Any]:
    """Return the keywords of Popen with which Ctrl-C reaches only the parent, which then ends the child."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.BELOW_NORMAL_PRIORITY_CLASS}
    return {"start_new_session": True}


def _stop(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # pending output has no reader
        process.stdin.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _read_answers(stream: IO[bytes], answers: _Answers) -> None:
    """Forward the child's answers, and None when it ends; only a thread can wait for a pipe on every system."""
    with stream:
        while line := stream.readline(_MAX_LINE):
            if line.startswith(_MARKER):
                answers.put(line)
    answers.put(None)


def _next_answer(answers: _Answers, number: int, timeout: float, abandoned: Callable[[], bool]) -> dict[str, Any]:
    """Return the next answer to a request, and drop those to abandoned requests.

    Raise ValueError if the child ends first, if the answer is malformed, or if none comes within ``timeout`` seconds.
    """
    end = time.monotonic() + timeout
    while True:
        try:
            line = answers.get(timeout=POLL)
        except queue.Empty:
            check_not_abandoned(abandoned)
            if time.monotonic() > end:
                raise ValueError(f"it gave no answer within {timeout:g} seconds") from None
            continue
        if line is None:
            raise ValueError("it ended before it answered")
        answer = json.loads(line[len(_MARKER) :])
        if not isinstance(answer, dict) or "id" not in answer:
            raise ValueError("it gave a malformed answer")
        if answer["id"] == number:
            return answer


def serve() -> None:
    """Answer requests from standard input until it closes; the program of a child."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries goes to standard error
    sys.stdout = sys.stderr
    previous: threading.Thread | None = None
    for line in sys.stdin.buffer:
        # A thread can lower its own priority but never raise it, so each request gets a new thread.
        thread = threading.Thread(target=_answer, args=(json.loads(line), answers, previous), daemon=True)
        thread.start()
        previous = thread
    with UNINTERRUPTED:
        os._exit(0)


def _answer(request: Mapping[str, Any], answers: IO[bytes], previous: threading.Thread | None) -> None:
    def write(**answer: Any) -> None:
        answers.write(b"\n" + _MARKER + json.dumps({"id": request["id"], **answer}).encode() + b"\n")
        answers.flush()

    if previous is not None:
        previous.join()
    set_priority(request["niceness"])
    try:
        function = resolve_name(request["function"])
        write(begun=True)
        result = function(*request["arguments"])
    except BaseException as error:  # a reader may call sys.exit
        write(error=f"{type(error).__name__}: {error}")
    else:
        write(result=result)


def set_priority(niceness: int) -> None:
    """Set the priority of this thread on Linux; elsewhere lower that of the process for background work."""
    with suppress(OSError, AttributeError):
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness)
            if os.getsid(0) == os.getpid():
                # Linux divides processors among sessions first; niceness counts only within a session.
                Path("/proc/self/autogroup").write_text(f"{niceness}")
        elif niceness > 0:
            os.nice(max(0, MODEST - os.nice(0)))
