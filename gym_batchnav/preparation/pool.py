"""A pool of worker processes that prepare scenes in parallel."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gym_batchnav.library.loader import Abandoned, Outcome, never
from gym_batchnav.library.sources import SceneSource
from gym_batchnav.preparation.navigation import NavigationPreparer
from gym_batchnav.preparation.worker import TIMEOUT, TRIES, PreparationWorker, WorkerLost, prepare_scene
from gym_batchnav.system.limits import available_memory
from gym_batchnav.system.process import num_processors
from gym_batchnav.system.progress import late_progress

MAX_WORKERS = 4  # by default
BYTES_PER_WORKER = 2 * 10**9  # of available memory; preparing a large scan takes about that much
FEW_SCENES = 2  # at most this many scenes that a caller waits for are prepared in this process, which starts sooner
SCENES_PER_PROCESS = 64  # after which a worker starts a new process, so that leaks of libraries do not add up
_POLL = 0.05  # seconds between checks for Ctrl-C


class PreparationPool:
    """A pool that prepares scenes in worker processes; its methods are callbacks of a SceneLibrary.

    One or two scenes that a caller waits for are prepared in a thread of this process. One worker is kept for the
    scenes that rotation requests; others run while several scenes are needed at once.

    Args:
        preparer: Prepares the scenes; it needs a cache.
        timeout: Limit of seconds per scene.
    """

    def __init__(self, preparer: NavigationPreparer, timeout: float = TIMEOUT) -> None:
        self._preparer = preparer
        self.worker = PreparationWorker(preparer, timeout)

    def prepare_ahead(
        self, sources: Sequence[SceneSource], niceness: int = 0, abandoned: Abandoned = never
    ) -> list[Outcome]:
        """Prepare scenes and wait for the results; scenes in memory need no preparation.

        Args:
            sources: The scenes.
            niceness: Priority of the work, 0 to 19.
            abandoned: Returns whether the scenes are no longer needed.

        Returns:
            One outcome per source. If no process can be started, there is a warning and no error: this process prepares
            the scene.
        """
        outcomes = [Outcome()] * len(sources)
        missing = [index for index, source in enumerate(sources) if not _is_prepared(self.worker, source)]
        if not missing:
            return outcomes
        if abandoned is never and len(missing) <= FEW_SCENES:
            for index in missing:
                outcomes[index] = self._prepare_here(sources[index])
            return outcomes
        more = range(1, min(affordable_workers(), len(missing)))
        workers = [self.worker, *(PreparationWorker(self._preparer, self.worker.timeout) for _ in more)]
        work = _Work([sources[index] for index in missing], niceness, abandoned)
        try:
            work.do(workers)
        finally:
            for worker in workers[1:]:
                worker.close()
        for index, outcome in zip(missing, work.outcomes, strict=True):
            if outcome is _LEFT and work.lost is not None:
                name = sources[index].name
                outcome = Outcome(None, (f"{work.lost}: scene {name!r} is prepared by the process that steps",))
            outcomes[index] = outcome
        return outcomes

    def _prepare_here(self, source: SceneSource) -> Outcome:
        """Prepare a scene in this process."""
        assert source.recipe is not None
        try:
            return Outcome(None, self.worker.prepare_here(source.recipe))
        except Exception as error:
            return Outcome(error)

    def release(self) -> None:
        """End the worker process until more scenes are needed; idempotent."""
        self.worker.release()


def prepare_all(
    sources: Sequence[SceneSource], preparer: NavigationPreparer, num_workers: int | None = None
) -> list[tuple[str, str]]:
    """Prepare scenes in several processes and show the progress.

    Args:
        sources: The scenes.
        preparer: Prepares the scenes; it needs a cache.
        num_workers: Number of processes; by default as many as processors and memory allow, at most four.

    Returns:
        Name and reason of each scene that could not be prepared.

    Raises:
        RuntimeError: If no process can be started, or processes end before they begin.
    """
    count = min(num_workers or affordable_workers(), len(sources))
    workers = [PreparationWorker(preparer) for _ in range(count)]
    work = _Work(sources)
    try:
        with late_progress("Preparing scenes", len(sources)) as done:
            work.do(workers, done)
    finally:
        for worker in workers:
            worker.close()
    if work.lost is not None:
        raise RuntimeError(f"{work.lost}, {TRIES} times in a row: see what it printed above")
    refused = zip(sources, work.outcomes, strict=True)
    return [(source.name, reason_of(outcome.error)) for source, outcome in refused if outcome.error is not None]


def affordable_workers() -> int:
    """Return the number of worker processes, one to four, for the processors and the available memory."""
    count = min(MAX_WORKERS, num_processors())
    available = available_memory()
    return count if available is None else max(1, min(count, available // BYTES_PER_WORKER))


_LEFT = Outcome()  # the outcome of a scene that no process has prepared


@dataclass
class _Work:
    """A list of scenes that several threads prepare, each with a worker of its own.

    Attributes:
        outcomes: One per source.
        lost: The reason why no process is available.
    """

    sources: Sequence[SceneSource]
    niceness: int = 0
    abandoned: Abandoned = never
    outcomes: list[Outcome] = field(default_factory=list)
    lost: WorkerLost | None = None
    stopped: bool = False

    def do(self, workers: Sequence[PreparationWorker], done: Callable[[], object] = lambda: None) -> None:
        """Prepare all scenes; the calling thread waits, or does the work itself if there is one worker."""
        self.outcomes = [_LEFT] * len(self.sources)
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in range(len(self.sources)):
            waiting.put(index)
        if len(workers) == 1:
            self._serve(workers[0], waiting, done)
            return
        threads = [threading.Thread(target=self._serve, args=(one, waiting, done), daemon=True) for one in workers]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_POLL)
        finally:
            self.stopped = True

    def _serve(self, worker: PreparationWorker, waiting: queue.SimpleQueue[int], done: Callable[[], object]) -> None:
        for number in itertools.count(1):
            if self.lost is not None or self._is_abandoned():
                return
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            source = self.sources[index]
            try:
                messages = prepare_scene(worker, source, self.niceness, self._is_abandoned)
                self.outcomes[index] = Outcome(None, messages)
            except WorkerLost as error:
                self.lost = error
            except Exception as error:
                self.outcomes[index] = Outcome(error)
            done()
            if number % SCENES_PER_PROCESS == 0:
                worker.release()

    def _is_abandoned(self) -> bool:
        return self.stopped or self.abandoned()


def _is_prepared(worker: PreparationWorker, source: SceneSource) -> bool:
    return source.recipe is None or worker.is_prepared(source.recipe)


def reason_of(error: Exception) -> str:
    """Return why a scene cannot be used, for a table that names the scene beside it."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) else str(error)
