"""Compilation of the kernels, once per machine and by several processes, into Numba's cache on disk.

Numba compiles one kernel at a time in a process. Work that compiles kernels is therefore given to several processes
that fill the cache, from which this process then reads. Kernels that are still compiled at their first use are
announced on standard error.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import event
from numba.core.dispatcher import Dispatcher

from gym_batchnav.system.child import CallFailed, Child, ChildLost, name_of, share_work
from gym_batchnav.system.code import PACKAGE
from gym_batchnav.system.kernels import kernel_folder, kernels_digest
from gym_batchnav.system.notices import warn_user
from gym_batchnav.system.process import is_frozen, num_processors
from gym_batchnav.system.progress import PATIENCE, late_progress

_MAX_PROCESSES = 8
NOT_AHEAD = "kernels could not be compiled ahead of their first use"  # begins the warning of workloads that fail
_ANNOUNCED = "GYM_BATCHNAV_ANNOUNCES_COMPILING"  # "0" in worker processes, whose parent shows the progress


@dataclass(frozen=True, slots=True)
class Workload:
    """A function that compiles kernels by calling them, in a separate process."""

    title: str  # short description of the kernels
    function: Callable[..., None] | str  # of a module, or "module:name" of one, which this process does not import
    arguments: tuple[Any, ...] = ()  # JSON values


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
    two seconds. There is one process per processor, at most 8, unless ``processes`` is given.
    """
    started = time.perf_counter()
    directory = cache_directory()
    marks = {work: directory / f"compiled-{_digest(work)}" for work in workloads}
    compiles = not (is_frozen() or _config("DISABLE_JIT"))
    todo = [work for work, mark in marks.items() if compiles and not mark.exists()]
    failures: list[str] = []
    if todo:
        count = min(processes or min(num_processors(), _MAX_PROCESSES), len(todo))
        parts = ", ".join(work.title for work in todo[:4]) + (", ..." if len(todo) > 4 else "")
        children = [Child("the process that compiles kernels", _environment(), quiet=True) for _ in range(count)]

        def run(child: Child, work: Workload) -> None:
            try:
                child.call(work.function, *work.arguments)
                _write_mark(marks[work])
            except (CallFailed, ChildLost) as error:
                failures.append(f"{work.title}: {error}")
            done()

        with late_progress(f"Compiling kernels once for this machine ({parts})", len(todo)) as done:
            try:
                share_work(todo, children, run)
            finally:
                for child in children:
                    child.close()
    if failures:
        reasons = "; ".join(failures)[:2000]
        warn_user(f"{NOT_AHEAD} ({reasons}): gym-batchnav doctor says what this machine lacks")
    return Compiled(len(todo) - len(failures), time.perf_counter() - started, directory, tuple(failures))


def count_kernels(workloads: Sequence[Workload]) -> dict[str, int]:
    """Return how many kernels each workload needs, by title; one that several need counts for the first of them.

    The workloads run in another process, which reads kernels from the cache if ``compile_ahead`` has stored them.

    Raises:
        CallFailed: A workload failed.
        ChildLost: The process died or could not be started.
    """
    child = Child("the process that counts kernels", _environment(), quiet=True)
    try:
        counts: dict[str, int] = {}
        for work in workloads:
            counts[work.title] = child.call(new_kernels, name_of(work.function), work.arguments)
        return counts
    finally:
        child.close()


def new_kernels(function: str, arguments: Sequence[Any]) -> int:
    """Run a workload, and return how many more kernels this process has loaded or compiled than before."""
    before = _loaded_kernels()
    resolve_name(function)(*arguments)
    return len(_loaded_kernels() - before)


def _loaded_kernels() -> set[Any]:
    """Return this package's kernels that have been called, and those that these call, without inlined ones."""
    package = __name__.partition(".")[0]
    modules = [module for name, module in sys.modules.items() if name.partition(".")[0] == package]
    values = [value for module in modules for value in vars(module).values()]
    found = {one for one in values if isinstance(one, Dispatcher) and one.signatures}
    waiting = list(found)
    while waiting:
        function = waiting.pop().py_func
        named = map(function.__globals__.get, function.__code__.co_names)
        called = {one for one in named if isinstance(one, Dispatcher)} - found
        waiting += called
        found |= called
    return {one for one in found if one.targetoptions.get("inline") != "always"}


def cache_directory() -> Path:
    """Return the folder of machine code, which may not be writable."""
    return kernel_folder() or PACKAGE / "__pycache__"


def _config(name: str) -> Any:
    return vars(numba.config)[name]


def _digest(work: Workload) -> str:
    """Return a digest of a workload, of its module, and of what makes Numba compile again: kernels and processor."""
    name = name_of(work.function)
    spec = find_spec(name.partition(":")[0])
    source = b"" if spec is None else Path(str(spec.origin)).read_bytes()
    machine = (llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    text = repr((name, work.arguments, source, kernels_digest(), machine))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _write_mark(mark: Path) -> None:
    """Record that a workload has been run; if that fails, it is run again next time."""
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()


def _environment() -> dict[str, str]:
    """Return the variables of processes that compile: this process's cache, and no announcements."""
    folder = _config("CACHE_DIR")
    return {_ANNOUNCED: "0", **({"NUMBA_CACHE_DIR": os.path.abspath(folder)} if folder else {})}


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
    dispatcher = compiling.data["dispatcher"]
    return str(dispatcher.py_func.__module__).partition(".")[0] == __name__.partition(".")[0]


def _announce() -> None:
    print(
        "Compiling kernels for this machine; later runs read them from a cache. "
        "`gym-batchnav warmup` compiles all of them ahead.",
        file=sys.stderr,
        flush=True,
    )
