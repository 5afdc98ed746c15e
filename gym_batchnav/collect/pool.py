"""WriterPool: threads that encode and write shards while the batch runs, with a limit to what waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore
from types import TracebackType
from typing import Any


class WriterPool:
    """Runs jobs in threads; ``submit`` waits while too many are unfinished, so that memory stays bounded.

    As a context manager it waits for all jobs at the end, or after an error only for those that have begun.

    Args:
        num_workers: Number of threads. Compression, video encoding and writing run without the interpreter's lock.
        num_waiting: Number of jobs that may wait for a thread.
    """

    def __init__(self, num_workers: int, num_waiting: int = 1) -> None:
        self._threads = ThreadPoolExecutor(num_workers, "collect")
        self._places = Semaphore(num_workers + num_waiting)
        self._jobs: set[Future[Any]] = set()

    def submit(self, job: Callable[..., Any], *args: Any) -> None:
        """Run ``job(*args)`` in a thread; raise the error of an earlier job, if there was one."""
        self._places.acquire()
        self._raise_errors()
        future = self._threads.submit(job, *args)
        future.add_done_callback(lambda _: self._places.release())
        self._jobs.add(future)

    def _raise_errors(self) -> None:
        """Forget the jobs that are done, and raise the error of one that failed."""
        done = {job for job in self._jobs if job.done()}
        self._jobs -= done
        for job in done:
            job.result()

    def __enter__(self) -> WriterPool:
        """Return the pool."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the jobs; raise the error of one that failed unless there is another one."""
        self._threads.shutdown(wait=True, cancel_futures=kind is not None)
        if kind is None:
            self._raise_errors()
