"""Shards as Ray tasks. Ray places them, runs those of a lost node again, and returns the results."""

from __future__ import annotations

import platform
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numba

import gym_batchnav
from gym_batchnav.system.code import package_digest
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.parts import Part, all_parts
from gym_batchnav.system.process import limit_processors, num_processors
from gym_batchnav.system.progress import late_progress
from gym_batchnav.system.storage import make_folder

MAX_RETRIES = 5  # of a shard whose process or node was lost
SHARDS_PER_PLACE = 4  # a lost node costs a shard, and the nodes end at about the same time

T = TypeVar("T")


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a Ray cluster and yield the module ray; disconnect unless the process was connected before.

    Args:
        address: ``"auto"`` for the cluster of this machine, ``"local"`` to start one of this machine alone, or the
            address of a head node, such as ``"10.0.0.1:6379"``.

    Raises:
        ConnectionError: There is no cluster at the address.
        MissingExtraError: Ray is not installed.
    """
    with needs_extra("ray", "--ray"):
        import ray
    if ray.is_initialized():
        yield ray
        return
    try:
        ray.init(address, log_to_driver=False, logging_level="warning")
    except Exception as error:  # a node that starts too slowly raises Exception itself
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConnectionError(
            f"no Ray cluster at {address!r} ({reason}): start one with ray start --head, or pass 'local' to use this "
            "machine alone"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def run_shards(
    work: Callable[[Part], T], address: str, what: str, most: int, num_cpus: int | None = None
) -> dict[Part, T]:
    """Run all shards of some work on a Ray cluster and return the results, with a display of the progress.

    Ctrl-C ends all tasks. Nodes that join later take part.

    Args:
        work: Does a shard. It is pickled, gives the same result wherever and however often it runs, and the result
            travels in a message.
        address: See ``connected``.
        what: Short description of the shards for the display, such as ``"Shards of episodes"``.
        most: The largest sensible number of shards; fewer are made on a small cluster, four for each task that can
            run at once.
        num_cpus: Processors of each task; by default those of the smallest node, divided by its GPUs.

    Raises:
        ValueError: ``num_cpus`` is below 1 or more than any node has, or nodes have another version of this package.
        ConnectionError: There is no cluster at the address.
        RuntimeError: The cluster has no processors, or the process of a shard is lost again and again.
        Exception: Any error of the work itself.
    """
    with connected(address) as ray:
        each, gpus, places = _resources(ray.nodes(), num_cpus)
        shards = all_parts(max(1, min(most, SHARDS_PER_PLACE * places)))
        task = ray.remote(num_cpus=each, num_gpus=gpus, max_retries=MAX_RETRIES)(_on_node)
        stored = ray.put(work)
        version = version_here()
        waiting = {task.remote(stored, shard, version, each): shard for shard in shards}
        results: dict[Part, T] = {}
        try:
            with late_progress(what, len(shards)) as done:
                while waiting:
                    (ready,), _ = ray.wait(list(waiting))
                    results[waiting[ready]] = _result(ray, ready, waiting[ready])
                    del waiting[ready]
                    done()
        finally:
            for one in waiting:
                ray.cancel(one, force=True)
    return results


def version_here() -> str:
    """Return the version of this package and a checksum of its code."""
    return f"{gym_batchnav.__version__} ({package_digest()[:12]})"


@dataclass(frozen=True)
class SharedFolder:
    """A folder that all nodes should share, with a file by which a node recognizes it.

    Attributes:
        folder: The folder, absolute.
        token: The file.
        keyword: The keyword that gave the folder, for errors.
    """

    folder: Path
    token: Path
    keyword: str

    def check(self) -> None:
        """Raise ValueError if this machine has another folder at the path."""
        if not self.token.is_file():
            raise ValueError(
                f"{self.keyword}='{self.folder}': nodes do not share this folder: name one that all of them share"
            )


@contextmanager
def shared(folder: Path, keyword: str, place: Path | None = None) -> Iterator[SharedFolder]:
    """Yield a folder that nodes recognize by a file in it, or in ``place`` below it; both are created if missing."""
    token = (place or folder).resolve() / f".cluster-{secrets.token_hex(8)}"
    make_folder(token.parent)
    token.touch()
    try:
        yield SharedFolder(folder.resolve(), token, keyword)
    finally:
        token.unlink(missing_ok=True)


def _on_node(work: Callable[[Part], T], shard: Part, version: str, num_cpus: int) -> T:
    """Do a shard on a node, as many threads at a time as the task has processors."""
    here = version_here()
    if here != version:
        raise ValueError(
            f"node {platform.node()} has gym_batchnav {here} ({sys.executable}), but the command runs with {version}: "
            "install the same version on all nodes"
        )
    limit_processors(num_cpus)
    config: Any = numba.config  # its attributes are created at import, which mypy does not see
    numba.set_num_threads(min(num_processors(), config.NUMBA_NUM_THREADS))
    return work(shard)


def _resources(nodes: list[dict[str, Any]], num_cpus: int | None) -> tuple[int, int, int]:
    """Return the processors and GPUs of a task, and how many tasks the nodes of a cluster can run at once.

    A task has a GPU if every node has one. Nodes without processors, such as a head, do not count.
    """
    found = [node["Resources"] for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not found:
        raise RuntimeError("the Ray cluster has no node with a processor: start one with ray start --address HOST:PORT")
    gpus = min(1, *(int(one.get("GPU", 0)) for one in found))
    smallest = min(max(1, int(one["CPU"]) // max(int(one.get("GPU", 0)), 1)) for one in found)
    each = smallest if num_cpus is None else num_cpus
    largest = int(max(one["CPU"] for one in found))
    if not 1 <= each <= largest:
        raise ValueError(f"num_cpus={each}: pass 1 to {largest}, the processors of the largest node")
    fitting = [int(one["CPU"]) // each for one in found]
    if gpus:
        fitting = [min(count, int(one["GPU"])) for count, one in zip(fitting, found, strict=True)]
    return each, gpus, sum(fitting)


def _result(ray: Any, ready: Any, shard: Part) -> Any:
    """Return the result of a shard, or raise the error of the work itself in place of Ray's."""
    try:
        return ray.get(ready)
    except ray.exceptions.RayTaskError as error:
        raise _cause(error) from error
    except ray.exceptions.RayError as error:
        raise RuntimeError(
            f"shard {shard} was started {MAX_RETRIES + 1} times, and each time its process or node ended "
            f"({str(error).strip()}): check the memory of the nodes and Ray's logs, then run the command again"
        ) from error


def _cause(error: Any) -> Exception:
    """Return the error of the work that Ray has wrapped, or one that says what the node lacks."""
    node = getattr(error, "ip", "a node")
    if "No module named 'gym_batchnav" in str(error):
        return RuntimeError(f"gym_batchnav is not installed on {node}: install the same version on all nodes")
    cause = getattr(error, "cause", None)
    if not isinstance(cause, Exception):
        return RuntimeError(f"on {node}: {error}")
    if len(cause.args) == 1 and isinstance(cause.args[0], str) and type(cause) in (ValueError, RuntimeError):
        return type(cause)(f"on {node}: {cause}")
    return cause
