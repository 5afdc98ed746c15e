"""The worker that runs on a node."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator

import numba

import gym_batchnav
from gym_batchnav.cluster.job import Finished, Job, Runner
from gym_batchnav.system.code import folder_digest
from gym_batchnav.system.process import limit_processors, num_processors


def version_here() -> str:
    """Return the version of this package and a checksum of its code."""
    return f"{gym_batchnav.__version__} ({folder_digest('.')[:12]})"


class NodeWorker:
    """Does pieces of a job. The job is opened with the first pieces, so that its errors are those of a call.

    Args:
        job: The job.
        version: ``version_here()`` of the driver.
        num_cpus: Processors that the cluster has given to this worker.
    """

    def __init__(self, job: Job, version: str, num_cpus: int) -> None:
        self._job = job
        self._version = version
        self._num_cpus = num_cpus
        self._runner: Runner | None = None

    def run(self, pieces: list[int]) -> Iterator[Finished]:
        """Do some pieces; see ``Runner.run``.

        Raises:
            ValueError: The package on this node is another version than the driver's.
        """
        if self._runner is None:
            here = version_here()
            if here != self._version:
                raise ValueError(
                    f"gym_batchnav {here} is installed on node {platform.node()} for {sys.executable}, and "
                    f"{self._version} where the command runs: install the same version on all nodes"
                )
            limit_processors(self._num_cpus)
            numba.set_num_threads(min(num_processors(), numba.get_num_threads()))
            self._runner = self._job.open()
        yield from self._runner.run(pieces)
