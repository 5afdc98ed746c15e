"""Preparation of scenes in worker processes, which fill the disk cache, so that this process only has to read from it.

What follows ``_prepare_in`` runs in the workers, or in a thread of a process that waits for one or two scenes.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.episodes.samplers import PointEpisodes, sampler_from_json, sampler_to_json
from gym_batchnav.library.cache import CacheWarning, DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.loader import Abandoned, Outcome, is_lasting, reason_of
from gym_batchnav.library.prepare import NavigationPreparer, makers_digest
from gym_batchnav.library.sources import (
    SceneSource,
    files_are,
    files_of,
    recipe_from,
    shipped_scenes,
    source_from_recipe,
)
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.scene.files import SceneError
from gym_batchnav.scene.scene import Scene
from gym_batchnav.system.child import POLL, UNINTERRUPTED, Child, ChildLost, check_not_abandoned, never, share_work
from gym_batchnav.system.limits import available_memory
from gym_batchnav.system.notices import warn_user
from gym_batchnav.system.process import num_processors
from gym_batchnav.system.progress import late_progress, report_stage
from gym_batchnav.system.wording import counted

TIMEOUT = 300.0  # seconds for one scene
TRIES = 3  # processes that may be lost during one scene, since others may have ended two of them
MAX_WORKERS = 4  # by default
BYTES_PER_WORKER = 2 * 10**9  # of available memory; preparing a large scan takes about that much
WAITED_HERE = 2  # at most this many scenes that a caller waits for are prepared in this process, which starts sooner
ALL_RESIDENT = 8  # up to this number all scenes are resident
ENVS_PER_SCENE = 32  # with more scenes; as in "Large Batch Simulation for Deep Reinforcement Learning"
MAX_TEXT = 2000  # characters per message
MAX_WARNINGS = 50  # per scene
_ONE_THREAD = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_PREPARING_HERE = threading.Lock()  # for ``answer``, which only one thread may run at a time


def make_library(
    sources: Sequence[SceneSource],
    num_envs: int,
    preparer: NavigationPreparer,
    *,
    once: bool,
    resident: int | None,
    rotate_every: int,
    deterministic: bool,
    max_bytes: int | None,
) -> SceneLibrary:
    """Make a library whose scenes are prepared ahead of their turn by worker processes.

    Args:
        sources: The scenes.
        num_envs: N, the number of environments that will share the library.
        preparer: Prepares the scenes.
        once: Whether every episode runs once, for which all scenes must be resident.
        resident: The number of lanes. By default all scenes if they are few or with ``once``, else one per 32
            environments.
        rotate_every: See SceneLibrary.
        deterministic: See SceneLibrary.
        max_bytes: See SceneLibrary.

    Raises:
        ValueError: If episodes run once and not all scenes would be resident, or as SceneLibrary does.
    """
    if once and resident is not None and resident < len(sources):
        raise ValueError(
            f"Episodes(order='once') requires all scenes to be resident: pass {counted(resident, 'scene')} "
            f"instead of {len(sources)}, or leave out resident={resident} of Scenes"
        )
    if resident is None and not once and len(sources) > ALL_RESIDENT:
        resident = -(-num_envs // ENVS_PER_SCENE)
    worker = PreparationWorker(preparer)
    return SceneLibrary(
        sources,
        resident,
        rotate_every=rotate_every,
        deterministic=deterministic,
        max_bytes=max_bytes,
        prepare_ahead=worker.prepare_ahead,
        release_worker=worker.child.release,
    )


class PreparationFailed(RuntimeError):
    """The error of a scene that could not be prepared for a possibly temporary reason."""


class PreparationWorker:
    """A worker that prepares scenes in another process, one at a time; the results are stored in the disk cache.

    Args:
        preparer: Prepares the scenes; it needs a cache, whose folder the process uses.
        timeout: Limit of seconds per scene, after which the process counts as lost and is ended.

    Attributes:
        timeout: Limit of seconds per scene.
        child: The process, which its users end by ``child.release()`` or ``child.close()``.

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
        self.child = Child("the process that prepares scenes", dict.fromkeys(_ONE_THREAD, "1"))
        self._preparer = preparer
        self._disk = disk
        self._sampler = preparer.sampler
        self._request = {
            "settings": None if preparer.settings is None else asdict(preparer.settings),
            "num_episodes": int(preparer.num_episodes),
            "seed": preparer.seed,
            "episode_file": None if preparer.episode_file is None else os.path.abspath(preparer.episode_file),
            "sampler": sampler_to_json(preparer.sampler),
            "cache_dir": os.path.abspath(disk.directory),
            "max_bytes": disk.max_bytes,
        }

    def prepare(self, recipe: Mapping[str, Any], niceness: int = 0, abandoned: Abandoned = never) -> tuple[str, ...]:
        """Prepare a scene and store it, its navmesh, distances and episodes in the cache; blocks until done.

        If the work is abandoned, the process completes the scene for the cache, unless this program is about to end.

        Args:
            recipe: ``SceneSource.recipe`` of the scene.
            niceness: Priority of the work, 0 to 19; see ``Child.call``.
            abandoned: Returns whether the scene is no longer needed.

        Returns:
            Warnings that the scene causes.

        Raises:
            ValueError: If the scene is refused; the message has the reason.
            PreparationFailed: If there was a possibly temporary error.
            CallAbandoned: If the scene is no longer needed.
            ChildLost: If the process died or took longer than ``timeout``; another call starts a new one unless the
                worker was closed.
        """
        request = {**self._request, "recipe": recipe}
        result = self.child.call(answer, request, niceness=niceness, timeout=self.timeout, abandoned=abandoned)
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
            thread.join(POLL)
        return self._store_mark(recipe, result)

    def prepare_ahead(
        self, sources: Sequence[SceneSource], niceness: int = 0, abandoned: Abandoned = never
    ) -> list[Outcome]:
        """Prepare scenes and wait for the results; scenes in memory need no preparation. A callback of SceneLibrary.

        One or two scenes that the caller waits for are prepared in a thread of this process, and shipped apartments
        need no preparation. Further processes run while several scenes are needed at once.

        Args:
            sources: The scenes.
            niceness: Priority of the work, 0 to 19.
            abandoned: Returns whether the scenes are no longer needed.

        Returns:
            One outcome per source. If no process can be started, there is a warning and no error: this process prepares
            the scene.
        """
        outcomes = [Outcome()] * len(sources)
        waited = abandoned is never
        missing = {
            index: source
            for index, source in enumerate(sources)
            if source.recipe is not None
            and not (waited and self._ships_prepared(source.recipe))
            and not self.is_prepared(source.recipe)
        }
        if waited and len(missing) <= WAITED_HERE:
            for index, source in missing.items():
                assert source.recipe is not None
                try:
                    outcomes[index] = Outcome(None, self.prepare_here(source.recipe))
                except Exception as error:
                    outcomes[index] = Outcome(error)
            return outcomes
        more = range(1, min(affordable_workers(), len(missing)))
        workers = [self, *(PreparationWorker(self._preparer, self.timeout) for _ in more)]
        try:
            done, lost = _prepare_in(workers, list(missing.values()), niceness, abandoned)
        finally:
            for worker in workers[1:]:
                worker.child.close()
        for (index, source), outcome in zip(missing.items(), done, strict=True):
            if outcome is None and lost is not None:
                outcome = Outcome(
                    None, (f"{lost}: scene {source.name!r} is prepared in this process instead, which slows stepping",)
                )
            outcomes[index] = outcome or Outcome()
        return outcomes

    def _ships_prepared(self, recipe: Mapping[str, Any]) -> bool:
        """Return whether a scene is a shipped apartment with the settings of its tables, so that it loads at once."""
        preparer = self._preparer
        are_stored = preparer.settings is None and preparer.reads_shipped_episodes and not recipe.get("options")
        return are_stored and recipe.get("path") in [str(path) for path in shipped_scenes().values()]

    def is_prepared(self, recipe: Mapping[str, Any]) -> bool:
        """Return whether a scene has been prepared from these files and settings, and its results are in the cache."""
        try:
            mark = self._disk.load(self._mark(recipe))
            if mark is None or not all((self._disk.directory / name).is_file() for name in mark["files"].tolist()):
                return False
            sources = dict(zip(mark["sources"].tolist(), mark["digests"].tolist(), strict=True))
            return files_are(Path(recipe.get("path", "")).parent, sources)
        except (OSError, KeyError, TypeError, ValueError):  # a damaged entry, so the scene is prepared again
            return False

    def _store_mark(self, recipe: Mapping[str, Any], result: Mapping[str, Any]) -> tuple[str, ...]:
        """Mark a scene as prepared and return its warnings, or raise the error of its result; see ``prepare``."""
        name = str(recipe.get("name"))
        if result["refused"] is not None:
            raise SceneError(name, result["refused"])
        if result["failed"] is not None:
            raise PreparationFailed(f"scene {name!r}: {result['failed']}")
        sources = result["sources"]
        names = {"files": result["files"], "sources": list(sources), "digests": list(sources.values())}
        self._disk.store(self._mark(recipe), {key: np.array(value, str) for key, value in names.items()})
        return tuple(result["warnings"])

    def _mark(self, recipe: Mapping[str, Any]) -> str:
        """Return the key of the entry that marks a scene as prepared."""
        asked = {name: value for name, value in self._request.items() if name not in ("cache_dir", "max_bytes")}
        return (
            f"prepared {makers_digest(self._sampler)} {json.dumps(asked, sort_keys=True)} {recipe_from(recipe).key()}"
        )


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
        CallAbandoned: If the scene is no longer needed.
        ChildLost: If no process begins to prepare the scene.
    """
    report_stage(f"{source.name}: looking in the cache")
    if source.recipe is None or worker.is_prepared(source.recipe):
        return ()
    report_stage(f"{source.name}: navmesh, distances and episodes")
    begun = False
    for remaining in reversed(range(TRIES)):
        try:
            return worker.prepare(source.recipe, niceness, abandoned)
        except ChildLost as error:
            check_not_abandoned(abandoned)
            begun = begun or error.begun
            if worker.child.closed or (not remaining and not begun):
                raise
            if not remaining:
                raise SceneError(
                    source.name,
                    f"{TRIES} processes in turn were lost during its preparation, the last: {error}; "
                    "it may take too much memory or time: make it smaller",
                ) from error
            warn_user(f"{error}: scene {source.name!r} is retried")
    raise AssertionError("unreachable")


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
    try:
        with late_progress("Preparing scenes", len(sources)) as done:
            outcomes, lost = _prepare_in(workers, sources, 0, never, done)
    finally:
        for worker in workers:
            worker.child.close()
    if lost is not None:
        raise RuntimeError(f"{lost}, {TRIES} times in a row: see what it printed above")
    results = zip(sources, outcomes, strict=True)
    return [(source.name, reason_of(one.error)) for source, one in results if one is not None and one.error is not None]


def affordable_workers() -> int:
    """Return the number of worker processes, one to four, for the processors and the available memory."""
    count = min(MAX_WORKERS, num_processors())
    available = available_memory()
    return count if available is None else max(1, min(count, available // BYTES_PER_WORKER))


def _prepare_in(
    workers: Sequence[PreparationWorker],
    sources: Sequence[SceneSource],
    niceness: int,
    abandoned: Abandoned,
    done: Callable[[], object] = lambda: None,
) -> tuple[list[Outcome | None], ChildLost | None]:
    """Prepare scenes by several workers; return an outcome (or None) per source, and why no process is available."""
    outcomes: list[Outcome | None] = [None] * len(sources)
    lost: list[ChildLost] = []

    def prepare(worker: PreparationWorker, index: int) -> None:
        if lost or abandoned():
            return
        try:
            outcomes[index] = Outcome(None, prepare_scene(worker, sources[index], niceness, abandoned))
        except ChildLost as error:
            lost.append(error)
        except Exception as error:
            outcomes[index] = Outcome(error)
        done()

    share_work(range(len(sources)), workers, prepare)
    return outcomes, lost[0] if lost else None


# What follows runs in the workers, or in the thread of ``prepare_here``.


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Prepare one scene; a process must prepare only one at a time.

    Returns:
        ``refused``: why the scene can never be used, or None; ``failed``: a possibly temporary error, or None;
        ``warnings``: messages for the user; ``files``: the cache entries that the scene needs; ``sources``: the
        SHA-256 of the files that it was made from, see ``files_of``.
    """
    refused = failed = None
    sources: dict[str, str] = {}
    disk = _disk(request["cache_dir"], request["max_bytes"])
    disk.used.clear()
    caught: list[warnings.WarningMessage] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        _keep_warnings_of_this_thread(caught)
        try:
            sources = dict(files_of(_prepare(request, disk)))
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
        "sources": sources,
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


def _prepare(request: Mapping[str, Any], disk: DiskCache) -> Scene:
    settings = request["settings"]
    episode_file = request["episode_file"]
    sampler = request["sampler"]
    preparer = NavigationPreparer(
        settings=None if settings is None else NavMeshSettings(**settings),
        episode_file=None if episode_file is None else Path(episode_file),
        num_episodes=request["num_episodes"],
        seed=request["seed"],
        sampler=PointEpisodes() if sampler is None else sampler_from_json(sampler),
        cache=disk,
    )
    scene = source_from_recipe(request["recipe"], disk).load()
    if sampler is None:  # user-defined: the parent process samples the episodes
        preparer.ground(scene)
    else:
        preparer(scene)
    return scene


class _Disk(DiskCache):
    """A cache whose writing is never interrupted by the end of the process, and which notes the entries in use."""

    def __init__(self, directory: str, max_bytes: int) -> None:
        super().__init__(directory, max_bytes)
        self.used: set[Path] = set()

    def load(self, key: str) -> dict[str, np.ndarray] | None:
        self.used.add(self._path(key))
        return super().load(key)

    def store(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        self.used.add(self._path(key))
        with UNINTERRUPTED:
            super().store(key, arrays)


@cache
def _disk(directory: str, max_bytes: int) -> _Disk:
    """Return one cache for all requests, so that an unusable folder causes only one warning."""
    return _Disk(directory, max_bytes)
