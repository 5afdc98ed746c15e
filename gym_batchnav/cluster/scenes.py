"""The preparation of scenes as a job: each piece is a scene. The cache must be a folder that all nodes share."""

from __future__ import annotations

import queue
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gym_batchnav.cluster.job import Finished
from gym_batchnav.cluster.ray_cluster import run_job
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.loader import reason_of
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import scene_sources, with_absolute_paths
from gym_batchnav.library.workers import PreparationWorker, affordable_workers, prepare_scene
from gym_batchnav.system.child import ChildLost
from gym_batchnav.system.storage import make_folder

TOKEN = ".cluster-"  # begins the name of a file by which nodes recognize the cache


@dataclass(frozen=True)
class ScenesJob:
    """Scenes to prepare; piece p is scene ``names[p]``.

    Attributes:
        spec: The scenes, as for ``scenes=``.
        load_options: See ``scene_sources``.
        names: Names of the scenes to prepare, among those of ``spec``.
        preparer: Prepares the scenes; each node gives it its cache.
        cache_dir: The cache, a folder that all nodes share.
        token: Name of a file in the cache.
        num_workers: Processes per node; None for as many as processors and memory allow.
    """

    spec: tuple[str, ...]
    load_options: dict[str, Any]
    names: tuple[str, ...]
    preparer: NavigationPreparer
    cache_dir: Path
    token: str
    num_workers: int | None
    what: str = "Preparing scenes"
    exclusive: bool = False

    @property
    def num_pieces(self) -> int:
        """The number of scenes."""
        return len(self.names)

    @property
    def grain(self) -> int:
        """A scene per process."""
        return self.num_workers or affordable_workers()

    def open(self) -> ScenesRunner:
        """Find the scenes and start processes."""
        return ScenesRunner(self)


class ScenesRunner:
    """The processes that prepare scenes on a node.

    Raises:
        ValueError: The cache or the scenes are not those of the driver.
    """

    def __init__(self, job: ScenesJob) -> None:
        if not (job.cache_dir / job.token).is_file():
            raise ValueError(f"cache_dir='{job.cache_dir}': nodes do not share this folder: name one that they share")
        cache = DiskCache(job.cache_dir)
        found = {source.name: source for source in scene_sources(list(job.spec), cache, job.load_options)}
        missing = [name for name in job.names if name not in found]
        if missing:
            raise ValueError(f"scene {missing[0]!r} is not on this node: put scenes into a folder that nodes share")
        self._sources = [found[name] for name in job.names]
        preparer = replace(job.preparer, cache=cache)
        self._workers = [PreparationWorker(preparer) for _ in range(job.grain)]

    def run(self, pieces: list[int]) -> Iterator[Finished]:
        """Prepare scenes; the result of each is None, or the reason why it cannot be used."""
        free: queue.SimpleQueue[PreparationWorker] = queue.SimpleQueue()
        for worker in self._workers:
            free.put(worker)
        with ThreadPoolExecutor(len(self._workers)) as threads:
            work: dict[Future[str | None], int] = {
                threads.submit(self._prepare, free, piece): piece for piece in pieces
            }
            for future in as_completed(work):
                yield Finished([work[future]], future.result())

    def _prepare(self, free: queue.SimpleQueue[PreparationWorker], piece: int) -> str | None:
        worker = free.get()
        try:
            prepare_scene(worker, self._sources[piece])
        except ChildLost as error:
            raise RuntimeError(str(error)) from error
        except Exception as error:
            return reason_of(error)
        finally:
            free.put(worker)
        return None

    def close(self) -> None:
        """End the processes; idempotent."""
        for worker in self._workers:
            worker.close()


def prepare_on(
    address: str,
    spec: Sequence[str],
    load_options: dict[str, Any],
    names: Sequence[str],
    preparer: NavigationPreparer,
    num_workers: int | None = None,
    num_cpus: int | None = None,
) -> list[tuple[str, str]]:
    """Prepare scenes on a Ray cluster.

    Args:
        address: See ``connected``.
        spec: The scenes, as for ``scenes=``.
        load_options: See ``scene_sources``.
        names: The names of those to prepare.
        preparer: Prepares the scenes, with a cache that all nodes share.
        num_workers: Processes per node; by default as many as processors and memory allow.
        num_cpus: See ``run_job``.

    Returns:
        Name and reason of each scene that could not be prepared.

    Raises:
        ValueError: Nodes do not share the cache or the scenes.
    """
    assert preparer.cache is not None
    folder = preparer.cache.directory.resolve()
    token = f"{TOKEN}{secrets.token_hex(8)}"
    episode_file = None if preparer.episode_file is None else Path(preparer.episode_file).resolve()
    scenes = tuple(with_absolute_paths(list(spec)))
    for_nodes = replace(preparer, episode_file=episode_file, cache=None)
    job = ScenesJob(scenes, load_options, tuple(names), for_nodes, folder, token, num_workers)
    make_folder(folder)
    (folder / token).touch()
    try:
        results = {finished.pieces[0]: finished.result for finished in run_job(job, address, num_cpus)}
    finally:
        (folder / token).unlink(missing_ok=True)
    return [(names[piece], reason) for piece, reason in sorted(results.items()) if reason is not None]
