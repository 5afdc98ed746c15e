"""The measurements of ``tune`` as a job: each piece is a measurement, on whichever node takes it.

A node draws the settings from those that fit itself and reports its own facts with the figure, so a run belongs to the
machine that made it. Nodes measure one at a time; several nodes on one machine would disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from gym_batchnav.cluster.job import Finished
from gym_batchnav.cluster.ray_cluster import run_job
from gym_batchnav.library.sources import with_absolute_paths
from gym_batchnav.tuning.features import Run, Situation, SpeedSettings
from gym_batchnav.tuning.tune import Limits, SearchSpace, candidates, shuffled, with_scenes


class Measured(NamedTuple):
    """A measurement.

    Attributes:
        run: The run.
        node: Id of the node.
        situation: What is given there.
        limits: What settings may take there.
    """

    run: Run
    node: str
    situation: Situation
    limits: Limits


class NodeKind(NamedTuple):
    """Nodes with equal processors and renderers.

    Attributes:
        nodes: Their ids.
        situation: What is given there; the speed of the processor is the median of the nodes.
        limits: What settings may take there; the memory is that of the node with the least.
    """

    nodes: tuple[str, ...]
    situation: Situation
    limits: Limits


@dataclass(frozen=True)
class TuningJob:
    """Measurements; piece p is the p-th of the settings that fit a node, in a random order.

    Attributes:
        space: What is to be fast, and what to choose from.
        num_pieces: The number of measurements.
        seconds: Duration of each, after its warm-up.
        seed: Seed of the order.
        settings: Measure these instead.
    """

    space: SearchSpace
    num_pieces: int
    seconds: float
    seed: int = 0
    settings: SpeedSettings | None = None
    what: str = "Measurements"
    grain: int = 1
    exclusive: bool = True

    def open(self) -> TuningRunner:
        """Load a few scenes."""
        return TuningRunner(self)


class TuningRunner:
    """The measurements on a node."""

    def __init__(self, job: TuningJob) -> None:
        self._job = job
        self._situation, self._limits = job.space.here()
        if job.settings is None:
            self._drawn = shuffled(candidates(self._situation, self._limits), job.seed)
        else:
            self._drawn = [job.settings]

    def run(self, pieces: list[int]) -> Iterator[Finished]:
        """Measure settings, one after the other."""
        for piece in pieces:
            run = self._job.space.workload.measure(self._drawn[piece % len(self._drawn)], self._job.seconds)
            found = Measured(with_scenes(run, self._situation), node_id(), self._situation, self._limits)
            yield Finished([piece], found)

    def close(self) -> None:
        """Do nothing, because every measurement releases what it loads."""


def explore_on(
    address: str, space: SearchSpace, count: int, seconds: float, seed: int = 0, num_cpus: int | None = None
) -> Iterator[Measured]:
    """Measure settings drawn at random on a Ray cluster; yield each measurement when it has ended.

    Args:
        address: See ``connected``.
        space: What is to be fast, and what to choose from. Files of scenes have the same paths on all nodes.
        count: Number of measurements.
        seconds: Duration of each, after its warm-up.
        seed: Seed of the draw.
        num_cpus: See ``run_job``.
    """
    for finished in run_job(TuningJob(for_nodes(space), count, seconds, seed), address, num_cpus):
        yield finished.result


def measure_on(
    address: str,
    space: SearchSpace,
    settings: SpeedSettings,
    seconds: float,
    kind: NodeKind,
    num_cpus: int | None = None,
) -> Run:
    """Measure settings on a node of some kind; see ``explore_on``."""
    job = TuningJob(for_nodes(space), 1, seconds, settings=settings)
    (finished,) = run_job(job, address, num_cpus, kind.nodes)
    return finished.result.run


def kinds_of(measured: Sequence[Measured]) -> list[NodeKind]:
    """Group the nodes that made measurements by their processors and renderers, in the order of their first ones."""
    groups: dict[tuple[object, ...], dict[str, Measured]] = {}
    for one in measured:
        machine = one.situation.machine
        key = (machine.cores, machine.has_gpu, one.limits.renderers)
        groups.setdefault(key, {})[one.node] = one
    return [_kind(group) for group in groups.values()]


def _kind(group: dict[str, Measured]) -> NodeKind:
    """Return the kind of some nodes, given their last measurements by id."""
    first = next(iter(group.values()))
    speed = float(np.median([one.situation.machine.calibration_mops for one in group.values()]))
    machine = replace(first.situation.machine, calibration_mops=speed)
    memory = [one.limits.memory for one in group.values() if one.limits.memory is not None]
    limits = replace(first.limits, memory=min(memory, default=None))
    return NodeKind(tuple(group), replace(first.situation, machine=machine), limits)


def for_nodes(space: SearchSpace) -> SearchSpace:
    """Return a search space whose scenes have absolute paths, because nodes have other working folders."""
    work = space.workload
    return replace(space, workload=replace(work, scenes=with_absolute_paths(work.scenes)))


def node_id() -> str:
    """Return the id of the node that this process runs on."""
    import ray

    return ray.get_runtime_context().get_node_id()
