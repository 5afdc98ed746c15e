"""Jobs on a Ray cluster: a worker per node or GPU, results as they are finished, lost nodes made good.

A worker is a Ray actor that loads the job once and takes pieces several times. It reports finished pieces at once, by a
streaming generator, so a node that is lost costs only what it had not finished. The driver counts every piece once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gym_batchnav.cluster.display import NodesDisplay
from gym_batchnav.cluster.job import Finished, Job
from gym_batchnav.cluster.node import NodeWorker, version_here
from gym_batchnav.system.extras import needs_extra

MAX_LOST = 5  # workers in a row, without a finished piece between them
NODES_SECONDS = 2.0  # between two looks at the list of nodes
REST_SECONDS = 10.0  # until a place gets another worker; Ray lists a dead node as alive for some seconds
WAIT_SECONDS = 300.0  # for a node, if there is none
NOTE_SECONDS = 60.0  # until a worker that has not started is reported
_POLL = 0.2  # seconds between checks for Ctrl-C


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


def run_job(
    job: Job, address: str, num_cpus: int | None = None, nodes: Container[str] | None = None
) -> Iterator[Finished]:
    """Do a job on a cluster, with a display of its progress on standard error.

    Closing the iterator, or Ctrl-C, ends all workers. Nodes that join later take part.

    Args:
        job: The job.
        address: See ``connected``.
        num_cpus: Processors that each worker takes, or all of a node that has fewer; None for all of a node, divided
            by its GPUs. Work that others run on the cluster may hold processors for which a worker then waits.
        nodes: Ids of the nodes that take part; None for all.

    Yields:
        The finished pieces, each exactly once, in any order.

    Raises:
        ValueError: ``num_cpus`` is below 1.
        ConnectionError: There is no cluster at the address.
        RuntimeError: Workers are lost again and again before they finish anything, or there are no nodes.
        Exception: Any error of the job itself.
    """
    if num_cpus is not None and num_cpus < 1:
        raise ValueError(f"num_cpus={num_cpus}: a worker takes at least 1 processor")
    with connected(address) as ray, NodesDisplay(job.what, job.num_pieces) as display:
        driver = _Driver(ray, job, display, num_cpus, nodes)
        try:
            yield from driver.results()
        finally:
            driver.close()


@dataclass(eq=False)
class _Worker:
    """An actor on a node, and the pieces that it has not finished yet."""

    place: tuple[str, int]  # the node's id, the number of its worker
    node: str  # for people
    actor: Any
    started: Any  # becomes ready when the actor has started; None once that is known or was reported to be late
    asked: float  # when
    stream: Any = None
    pieces: set[int] = field(default_factory=set)


class _Driver:
    """Gives pieces to workers until all are finished.

    Args:
        ray: The module, connected.
        job: The job.
        display: Shows the progress.
        num_cpus: Processors of a worker; None for all of its node.
        nodes: Ids of the nodes that take part; None for all.
    """

    def __init__(
        self, ray: Any, job: Job, display: NodesDisplay, num_cpus: int | None, nodes: Container[str] | None
    ) -> None:
        self._ray = ray
        self._job = job
        self._display = display
        self._num_cpus = num_cpus
        self._nodes = nodes
        self._waiting = deque(range(job.num_pieces))
        self._num_left = job.num_pieces
        self._workers: list[_Worker] = []
        self._stored = ray.put(job)
        self._actor = ray.remote(NodeWorker)
        self._num_lost = 0  # since the last finished piece
        self._looked = -NODES_SECONDS
        self._rests: dict[tuple[str, int], float] = {}  # until when, by place
        self._had_nodes = time.monotonic()

    def results(self) -> Iterator[Finished]:
        """Yield the finished pieces."""
        while self._num_left:
            self._start_workers()
            self._assign()
            streams = [worker.stream for worker in self._workers if worker.stream is not None]
            if not streams:
                time.sleep(_POLL)
                continue
            ready, _ = self._ray.wait(streams, num_returns=1, timeout=_POLL)
            self._display.refresh()
            self._note_late_workers()
            for worker in [one for one in self._workers if any(one.stream is stream for stream in ready)]:
                yield from self._received(worker)

    def close(self) -> None:
        """End all workers; idempotent."""
        while self._workers:
            self._ray.kill(self._workers.pop().actor)

    def _start_workers(self) -> None:
        """Start workers on nodes that have none, if there is work for them."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        now = time.monotonic()
        if now - self._looked < NODES_SECONDS or not self._waiting:
            return
        self._looked = now
        places = _places(self._ray.nodes(), self._num_cpus, self._job.exclusive)
        if self._nodes is not None:
            places = {place: found for place, found in places.items() if place[0] in self._nodes}
        if places:
            self._had_nodes = now
        elif now - self._had_nodes > WAIT_SECONDS:
            raise RuntimeError(f"the Ray cluster has had no node with a processor for {WAIT_SECONDS:.0f} s")
        taken = {worker.place for worker in self._workers}
        for place, (node, resources) in places.items():
            if place in taken or now < self._rests.get(place, now):
                continue
            affinity = NodeAffinitySchedulingStrategy(place[0], soft=False)
            options = {"scheduling_strategy": affinity, "max_restarts": 0, "max_task_retries": 0, **resources}
            actor = self._actor.options(**options).remote(self._stored, version_here(), int(resources["num_cpus"]))
            self._workers.append(_Worker(place, node, actor, actor.__ray_ready__.remote(), now))
            self._display.joined(node)

    def _note_late_workers(self) -> None:
        """Say once of each worker that has not started for a while what it waits for."""
        for worker in self._workers:
            if worker.started is None:
                continue
            if self._ray.wait([worker.started], timeout=0)[0]:
                worker.started = None
            elif time.monotonic() - worker.asked > NOTE_SECONDS:
                worker.started = None
                self._display.say(
                    f"{worker.node} has not started for {NOTE_SECONDS:.0f} s: other work on the cluster may hold its "
                    "processors (num_cpus=, or --ray-cpus, takes fewer)"
                )

    def _assign(self) -> None:
        """Give pieces to idle workers: at first many, and fewer towards the end, so that all end at once."""
        for worker in self._workers:
            if worker.stream is not None or not self._waiting:
                continue
            share = -(-len(self._waiting) // (2 * len(self._workers)))
            count = min(max(share, self._job.grain), len(self._waiting))
            pieces = [self._waiting.popleft() for _ in range(count)]
            worker.pieces = set(pieces)
            worker.stream = worker.actor.run.options(num_returns="streaming").remote(pieces)

    def _received(self, worker: _Worker) -> Iterator[Finished]:
        """Take the next result of a worker, or the news that it has done its pieces or is lost."""
        errors = self._ray.exceptions
        try:
            finished = Finished(*self._ray.get(next(worker.stream)))
        except StopIteration:
            worker.stream = None
            if worker.pieces:
                raise RuntimeError(f"{self._job.what}: a worker left out {len(worker.pieces)} of its pieces") from None
            return
        except errors.RayTaskError as error:
            raise _cause(error, worker.node) from error
        except errors.RayError as error:  # the process, the node, or a result with it
            self._lose(worker, error)
            return
        unknown = set(finished.pieces) - worker.pieces
        if unknown or len(set(finished.pieces)) < len(finished.pieces):
            raise RuntimeError(f"{self._job.what}: a worker did piece {(unknown or finished.pieces)} twice")
        worker.pieces -= set(finished.pieces)
        self._num_left -= len(finished.pieces)
        self._num_lost = 0
        self._display.finished(worker.node, len(finished.pieces))
        yield finished

    def _lose(self, worker: _Worker, error: Exception) -> None:
        """Put back the unfinished pieces of a lost worker."""
        self._display.lost(worker.node, len(worker.pieces))
        self._workers.remove(worker)
        self._rests[worker.place] = time.monotonic() + REST_SECONDS
        self._ray.kill(worker.actor)
        self._waiting.extendleft(sorted(worker.pieces, reverse=True))
        self._num_lost += 1
        if self._num_lost >= MAX_LOST:
            raise RuntimeError(
                f"{self._num_lost} workers in a row were lost before they finished anything; the last one on "
                f"{worker.node}: {str(error).strip()}"
            ) from error


def _places(
    nodes: list[dict[str, Any]], num_cpus: int | None = None, exclusive: bool = False
) -> dict[tuple[str, int], tuple[str, dict[str, float]]]:
    """Return the name of the node and the resources of every worker that nodes can have, by id and number.

    A node with GPUs has a worker for each, another node has one that takes all its processors; with ``num_cpus``,
    as many as its processors allow, with GPUs at most one for each. There are never more than its processors, since
    a worker beyond them would get pieces but never start. If ``exclusive``, every node has one worker, which takes all
    its GPUs.
    """
    places: dict[tuple[str, int], tuple[str, dict[str, float]]] = {}
    for node in nodes:
        resources = node["Resources"]
        all_cpus = int(resources.get("CPU", 0))
        num_gpus = int(resources.get("GPU", 0))
        if not node["Alive"] or all_cpus < 1:
            continue
        shares = 1 if exclusive else max(num_gpus, 1)
        each = max(all_cpus // shares, 1) if num_cpus is None else min(num_cpus, all_cpus)
        count = 1 if exclusive else min(num_gpus or all_cpus, max(all_cpus // each, 1))
        taken: dict[str, float] = {"num_cpus": each}
        if num_gpus:
            taken["num_gpus"] = num_gpus if exclusive else 1
        name = f"{node['NodeManagerHostname']} {node['NodeID'][:4]}"
        for number in range(count):
            places[node["NodeID"], number] = (name, taken)
    return places


def _cause(error: Any, node: str) -> Exception:
    """Return the error of the job that Ray has wrapped, or one that says what the node lacks."""
    if "No module named 'gym_batchnav" in str(error):
        return RuntimeError(f"gym_batchnav is not installed on {node}: install the same version on all nodes")
    cause = getattr(error, "cause", None)
    if not isinstance(cause, Exception):
        return RuntimeError(f"on {node}: {error}")
    if len(cause.args) == 1 and isinstance(cause.args[0], str) and type(cause) in (ValueError, RuntimeError):
        return type(cause)(f"on {node}: {cause}")
    return cause
