"""Compilation of the kernels, once per machine and by several processes, into Numba's cache on disk.

Numba compiles one kernel at a time in a process. Work that compiles kernels is therefore given to several processes
that fill the cache, from which this process then reads. Kernels that are still compiled at their first use are
announced on standard error.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import llvmlite.binding as llvm
import numba
from numba import njit
from numba.core import event

from gym_batchnav.system.kernels import kernel_folder, kernels_digest
from gym_batchnav.system.process import is_frozen, num_processors
from gym_batchnav.system.progress import PATIENCE, late_progress

_PACKAGE = Path(__file__).parents[1]
_MAX_PROCESSES = 8
NOT_AHEAD = "kernels could not be compiled ahead"  # begins the warning of workloads that fail
_ANNOUNCED = "GYM_BATCHNAV_ANNOUNCES_COMPILING"  # "0" in worker processes, whose parent shows the progress


@dataclass(frozen=True, slots=True)
class Workload:
    """A function that compiles kernels by calling them, in a process of its own.

    Attributes:
        title: Short description of the kernels.
        function: A module-level function.
        arguments: Its positional arguments, plain JSON values.
    """

    title: str
    function: Callable[..., None]
    arguments: tuple[Any, ...] = ()

    def as_json(self) -> str:
        """Return the module, the function's name and the arguments as JSON, for another process."""
        return json.dumps([self.function.__module__, self.function.__qualname__, list(self.arguments)])


@dataclass(frozen=True, slots=True)
class Compiled:
    """The outcome of ``compile_ahead``."""

    num_workloads: int  # that were run now; the rest had been run before, or failed
    seconds: float
    directory: Path  # Numba's cache for this machine and these sources
    failures: tuple[str, ...] = ()  # the titles of workloads that failed, with the reasons


def compile_ahead(workloads: Sequence[Workload], processes: int | None = None) -> Compiled:
    """Run workloads in parallel processes, unless they have been run with these sources on this machine before.

    If a workload fails there is a warning, and its kernels are compiled at their first use, as all are in a frozen
    application, whose executable would start the whole application again. Progress is shown on standard error after
    two seconds.

    Args:
        workloads: The workloads, the longest first.
        processes: Number of processes; one per processor, at most 8, by default.
    """
    started = time.perf_counter()
    directory = cache_directory()
    marks = {work: directory / f"compiled-{_digest(work)}" for work in workloads}
    todo = [work for work, mark in marks.items() if not mark.exists() and not is_frozen()]
    failures: list[str] = []
    if todo and not _config("DISABLE_JIT"):
        waiting: queue.SimpleQueue[Workload] = queue.SimpleQueue()
        for work in todo:
            waiting.put(work)
        count = min(processes or min(num_processors(), _MAX_PROCESSES), len(todo))
        parts = ", ".join(work.title for work in todo[:4]) + (", ..." if len(todo) > 4 else "")
        with late_progress(f"Compiling kernels once for this machine ({parts})", len(todo)) as done:
            failures = _run_all(waiting, marks, count, done)
    if failures:
        warnings.warn(f"{NOT_AHEAD}: {'; '.join(failures)[:2000]}", stacklevel=3)
    return Compiled(len(todo) - len(failures), time.perf_counter() - started, directory, tuple(failures))


def cache_directory() -> Path:
    """Return the folder of machine code, this package's if it can be written to and otherwise Numba's."""
    return kernel_folder() or Path(str(_probe.stats.cache_path))


@njit(cache=True)
def _probe() -> None:
    """Do nothing; Numba reports the folder of this kernel's machine code."""


def _config(name: str) -> Any:
    """Return a value of Numba's configuration, which environment variables or the program may set."""
    return vars(numba.config)[name]


def _digest(work: Workload) -> str:
    """Return a digest of a workload, of its module, and of what makes Numba compile again: kernels and processor."""
    source = Path(str(import_module(work.function.__module__).__file__)).read_bytes()
    machine = (llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    text = repr((work.as_json(), source, kernels_digest(), machine))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _run_all(
    waiting: queue.SimpleQueue[Workload], marks: dict[Workload, Path], count: int, done: Callable[..., None]
) -> list[str]:
    """Run the queue in ``count`` processes until it is empty; on an error or Ctrl-C all of them are ended.

    Returns:
        The title of every workload that failed, with the reason.
    """
    workers: list[_Worker] = []
    failures: list[str] = []

    def serve(worker: _Worker) -> None:
        with suppress(queue.Empty):
            while not worker.closed:
                work = waiting.get_nowait()
                failure = worker.run(work)
                if failure is None:
                    _write_mark(marks[work])
                else:
                    failures.append(f"{work.title}: {failure}")
                done()

    threads: list[threading.Thread] = []
    try:
        workers += [_Worker() for _ in range(count)]
        threads += [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.1)  # with a short timeout, so that Ctrl-C is handled
    except OSError as error:
        with suppress(queue.Empty):
            while True:
                failures.append(f"{waiting.get_nowait().title}: no process can be started: {error}")
    finally:
        for worker in workers:
            worker.close()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for worker in workers:
            worker.release()
    return failures


def _write_mark(mark: Path) -> None:
    """Record that a workload has been run; if that fails, it is run again next time."""
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


class _Worker:
    """A process that runs workloads one at a time and ends with its parent."""

    def __init__(self) -> None:
        self.closed = False
        self._process = _start()

    def run(self, work: Workload) -> str | None:
        """Run one workload; return None or the reason of its failure. A lost process is replaced."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(work.as_json() + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            status = _end(self._process)
            self.release()
            if not self.closed:
                self._process = _start()
            return f"its process ended with status {status}"
        return None if answer is None else str(answer)

    def close(self) -> None:
        """Kill the process; idempotent."""
        self.closed = True
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        """Close the pipes after their readers have ended."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def _start() -> subprocess.Popen[str]:
    """Start a process that runs ``serve_parent``."""
    apart: dict[str, Any] = {"start_new_session": True}  # Ctrl-C goes to the parent, which ends this process
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve_parent; serve_parent()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=_environment(),
        **apart,
    )


def _end(process: subprocess.Popen[str]) -> int:
    """End a process whose pipe has closed and return its exit status."""
    try:
        return process.wait(1.0)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _environment() -> dict[str, str]:
    """Return the environment for worker processes, with this process's module path and cache."""
    found = os.pathsep.join([str(_PACKAGE.parent), *(os.path.abspath(path) for path in sys.path)])
    environment = {**os.environ, "PYTHONPATH": found, "PYTHONSAFEPATH": "1", _ANNOUNCED: "0"}
    cache_folder = _config("CACHE_DIR")
    if cache_folder:
        environment["NUMBA_CACHE_DIR"] = os.path.abspath(cache_folder)
    return environment


def serve_parent() -> None:
    """Run the workloads given on standard input, one per line, and answer each with null or an error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # other output goes to standard error
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(sys.stdin, requests), daemon=True).start()
    while True:
        module, name, arguments = json.loads(requests.get())
        try:
            getattr(import_module(module), name)(*arguments)
            answer = None
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _read_requests(stream: IO[str], requests: queue.SimpleQueue[str]) -> None:
    """Forward lines to a queue; end this process when the parent ends, even during compilation."""
    for line in stream:
        requests.put(line)
    os._exit(0)


class Announcer(event.Listener):
    """A listener that prints a notice when compiling kernels has taken two seconds in total."""

    def __init__(self) -> None:
        self._depth = 0
        self._began = 0.0
        self._spent = 0.0
        self._timer: threading.Timer | None = None

    def on_start(self, compiling: event.Event) -> None:
        """Start timing when a kernel begins to compile; nested ones do not count. Numba's lock excludes threads."""
        self._depth += 1
        if self._depth > 1:
            return
        self._began = time.monotonic()
        if self._spent >= PATIENCE or not _is_ours(compiling):
            return
        self._timer = threading.Timer(PATIENCE - self._spent, _announce)
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, compiling: event.Event) -> None:
        """Stop timing when the outermost kernel is compiled."""
        self._depth -= 1
        if self._depth > 0:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if _is_ours(compiling):
            self._spent += time.monotonic() - self._began


def announce_compiling() -> Announcer | None:
    """Register an Announcer for this process; return None if a parent process shows the progress."""
    if os.environ.get(_ANNOUNCED) == "0":
        return None
    announcer = Announcer()
    event.register("numba:compile", announcer)
    return announcer


def _is_ours(compiling: event.Event) -> bool:
    """Return whether the kernel of an event belongs to this package."""
    dispatcher = compiling.data["dispatcher"]
    return str(dispatcher.py_func.__module__).partition(".")[0] == __name__.partition(".")[0]


def _announce() -> None:
    print(
        "Compiling kernels for this machine; later runs read them from a cache. "
        "`gym-batchnav warmup` compiles all of them ahead.",
        file=sys.stderr,
        flush=True,
    )
