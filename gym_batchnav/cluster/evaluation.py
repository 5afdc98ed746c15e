"""A comparison of agents as a job: each piece is an episode of an agent.

The policies travel with the job and the results in messages, so nodes need no shared folder, unless scenes are files:
these must have the same paths on all nodes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.cluster.job import Finished
from gym_batchnav.cluster.ray_cluster import run_job
from gym_batchnav.evaluation.comparison import BLIND, Asked, Comparison, make_comparison
from gym_batchnav.evaluation.evaluate import run_episodes
from gym_batchnav.evaluation.named_agents import user_file
from gym_batchnav.evaluation.shards import differences, take_results
from gym_batchnav.library.sources import with_absolute_paths
from gym_batchnav.train.policy_agent import load_agent

REPORT_SECONDS = 0.5  # between two messages with episodes that ended


def run_comparison(comparison: Comparison, address: str, num_cpus: int | None = None) -> None:
    """Evaluate all agents of a comparison on a Ray cluster; results and protocol card are those of a single process.

    Args:
        comparison: The comparison; its own batches do not step.
        address: See ``connected``.
        num_cpus: See ``run_job``.

    Raises:
        ValueError: A node has other scenes or versions, or nodes draw with different renderers.
    """
    job = _job_of(comparison)
    rows: dict[str, list[dict[str, np.ndarray]]] = {agent: [] for agent in comparison.agents}
    card: dict[str, Any] | None = None
    for finished in run_job(job, address, num_cpus):
        agent, columns, card_there = finished.result
        rows[agent].append(columns)
        card = card or card_there
        lines = differences(card, card_there)
        if lines:
            raise ValueError(f"nodes differ: {'; '.join(lines)}: choose a renderer that all have with renderer=")
    take_results(comparison, rows)
    comparison.card = card


@dataclass(frozen=True)
class EvaluationJob:
    """Episodes of agents; piece a * E + e is episode ``numbers[e]`` of agent a, and E the number of episodes.

    Attributes:
        asked: The arguments of the comparison.
        files: Contents of the policies' files, by their paths in ``asked``.
        agents: Names of the agents.
        numbers: [E] int64, numbers of the episodes.
        card: Protocol card of the driver, as JSON values.
    """

    asked: Asked
    files: dict[str, bytes]
    agents: tuple[str, ...]
    numbers: np.ndarray
    card: dict[str, Any]
    what: str = "Episodes of all agents"
    exclusive: bool = False

    @property
    def num_pieces(self) -> int:
        """The number of episodes of all agents."""
        return len(self.agents) * len(self.numbers)

    @property
    def grain(self) -> int:
        """An episode per environment."""
        return self.asked.num_envs

    def open(self) -> EvaluationRunner:
        """Load policies and scenes."""
        return EvaluationRunner(self)


class EvaluationRunner:
    """The comparison on a node.

    Raises:
        ValueError: Its scenes, settings or versions are not those of the driver.
    """

    def __init__(self, job: EvaluationJob) -> None:
        self._job = job
        with tempfile.TemporaryDirectory() as folder:
            self._comparison = make_comparison(job.asked.with_files(_written(job.files, Path(folder))), load_agent)
        try:
            self._comparison.env.reset(seed=job.asked.seed)  # the card states the seeds
            self._card = self._comparison.protocol()
            lines = differences(job.card, self._card, without=("renderer",))
            if lines:
                raise ValueError(f"this node has other scenes or versions than the driver: {'; '.join(lines)}")
        except BaseException:
            self.close()
            raise

    def run(self, pieces: list[int]) -> Iterator[Finished]:
        """Run episodes, agent by agent."""
        agent_of, episode_of = np.divmod(np.array(pieces), len(self._job.numbers))
        for number in np.unique(agent_of).tolist():
            yield from self._run_agent(number, self._job.numbers[episode_of[agent_of == number]])

    def close(self) -> None:
        """Close the batches; idempotent."""
        self._comparison.close()

    def _run_agent(self, number: int, episodes: np.ndarray) -> Iterator[Finished]:
        """Run episodes of an agent, and report those that have ended every half second."""
        name = self._job.agents[number]
        env = self._comparison.env_of(name)
        ended: list[dict[str, np.ndarray]] = []
        num_left = len(episodes)
        reported = time.monotonic()
        for columns in run_episodes(env, self._comparison.agents[name], episodes, seed=self._job.asked.seed):
            ended.append(columns)
            num_left -= len(columns["episode_index"])
            if num_left and time.monotonic() - reported < REPORT_SECONDS:
                continue
            reported = time.monotonic()
            joined = {key: np.concatenate([one[key] for one in ended]) for key in columns}
            ended = []
            places = np.searchsorted(self._job.numbers, joined["episode_index"]) + number * len(self._job.numbers)
            yield Finished(places.tolist(), (name, joined, self._card))


def _job_of(comparison: Comparison) -> EvaluationJob:
    """Return the job of a comparison."""
    asked = comparison.asked
    return EvaluationJob(
        asked=replace(asked, scenes=tuple(with_absolute_paths(asked.scenes))),
        files=_contents(asked),
        agents=tuple(comparison.agents),
        numbers=comparison.numbers,
        card=comparison.protocol(),
    )


def _contents(asked: Asked) -> dict[str, bytes]:
    """Return the contents of policy files by their paths, except those given by a shipped policy's name.

    Every node has the shipped policies; agents by name must be importable on every node.
    """
    names = (*asked.policies, *(name for name in asked.agents if name != BLIND))
    places = {name: file for name in names if (file := user_file(name)) is not None}
    if asked.blind_file is not None:
        places[str(asked.blind_file)] = asked.blind_file.expanduser()
    return {name: place.read_bytes() for name, place in places.items()}


def _written(files: Mapping[str, bytes], folder: Path) -> dict[str, Path]:
    """Write files into a folder of a node under their own names, from which agents have theirs."""
    places = {}
    for number, (name, content) in enumerate(files.items()):
        place = folder / str(number) / Path(name).name
        place.parent.mkdir()
        place.write_bytes(content)
        places[name] = place
    return places
