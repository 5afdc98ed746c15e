"""Recordings of agents, one episode each: poses, distances and images."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.env.arguments import indices_of
from gym_batchnav.env.batch import BatchNavEnv, batch_of
from gym_batchnav.evaluation.agents import Acting, ShortestPathAgent
from gym_batchnav.evaluation.loop import EpisodeLoop
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.viz.views import AgentViews


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """M agents in one episode each; agents whose episode has ended keep their last pose."""

    slots: np.ndarray  # [M], slots of their scenes
    tours: tuple[np.ndarray, ...]  # M arrays [n, 3], metres: the goals in order; n=0 in tasks without success
    positions: np.ndarray  # [T + 1, M, 3], metres
    headings: np.ndarray  # [T + 1, M], radians
    distances: np.ndarray  # [T + 1, M], geodesic metres to the goal
    num_steps: np.ndarray  # [M], steps of each episode
    success: np.ndarray  # [M] bool, False in tasks without it
    spl: np.ndarray  # [M], NaN in tasks without it
    pictures: dict[str, np.ndarray]  # by sensor, [T + 1, F, H, W, 3] uint8: the views of the first F agents

    @property
    def goals(self) -> np.ndarray:
        """The first goal of each episode [M, 3], metres, of tasks with success."""
        return np.stack([tour[0] for tour in self.tours])

    @property
    def num_filmed(self) -> int:
        """The number of agents that were filmed, F."""
        return next((pictures.shape[1] for pictures in self.pictures.values()), 0)

    def path(self, index: int, until: int | None = None) -> np.ndarray:
        """Return the path [steps, 3] of an agent up to step ``until``, or to the end of its episode."""
        last = int(self.num_steps[index])
        return self.positions[: (last if until is None else min(until, last)) + 1, index]

    def view(self, index: int, step: int) -> np.ndarray:
        """Return the view [H, W, 3] uint8 of an agent after a step; images of several sensors are side by side."""
        return np.concatenate([pictures[step, index] for pictures in self.pictures.values()], axis=1)


def record_episodes(
    env: VectorEnv,
    agent: Acting | None = None,
    *,
    indices: Sequence[int] | np.ndarray = (0,),
    num_filmed: int | None = None,
    sensors: Sequence[str] = ("rgb",),
    size: int = 144,
    seed: int | None = None,
    episodes: np.ndarray | None = None,
) -> Recording:
    """Reset a batch and step it until some of its environments have finished their episodes.

    All environments act, also those that are not recorded; reset the batch before you use it again.

    Args:
        env: The batch, with or without wrappers.
        agent: An Agent, or a function from the observations of ``env`` to actions [N]; the greedy follower of the
            shortest path if not given, which needs a task with a goal.
        indices: [M], the environments to record.
        num_filmed: Number of these to film, from the first; all if not given.
        sensors: The images to record, whatever the agents' sensors: any of ``"rgb"``, ``"depth"``, ``"semantic"``.
        size: Pixels along the longer side of a picture.
        seed: Passed to ``env.reset``.
        episodes: [N] int, the numbers of the episodes to run, see ``BatchNavEnv.reset``; the next ones if not given.

    Raises:
        TypeError: ``env`` is not a batch of this package, or ``agent`` cannot act.
        ValueError: The autoreset mode is SAME_STEP, in which the last state of an episode is never visible, or an
            argument is wrong.
    """
    batch = batch_of(env)
    if batch.autoreset_mode == AutoresetMode.SAME_STEP:
        raise ValueError(
            "autoreset_mode='same_step' never shows the last state of an episode: "
            "make the environment with autoreset_mode='next_step' or 'disabled'"
        )
    check_counts(size=size)
    recorded = indices_of(indices, batch.num_envs)
    options = None if episodes is None else {"episode_index": episodes}
    loop = EpisodeLoop(env, ShortestPathAgent() if agent is None else agent, seed=seed, options=options)
    slots = batch.agents.slot[recorded]
    rows = batch.episodes.episode[recorded].tolist()
    episode_sets = [batch.simulator.episode_set(slot) for slot in slots.tolist()]
    tours = tuple(one.tour_goals(row) for one, row in zip(episode_sets, rows, strict=True))
    if "success" not in batch.components.measures:  # the task does not use the goals of the episodes
        tours = (np.empty((0, 3)),) * len(tours)
    running = batch.episodes.valid[recorded]
    num_steps = np.zeros(len(recorded), np.int64)
    success = np.zeros(len(recorded), bool)
    spl = np.full(len(recorded), np.nan)
    with closing(
        _Recorder(batch, recorded, len(recorded) if num_filmed is None else num_filmed, sensors, size)
    ) as recorder:
        while running.any():
            step = loop.step()
            acted = running & step.acted[recorded]
            num_steps += acted
            recorder.record(acted)
            ended = running & step.ended[recorded]
            for name, values in (("success", success), ("spl", spl)):
                if name in step.info:
                    values[ended] = step.info[name][recorded[ended]]
            running &= ~ended
    positions, headings, distances = (np.stack(track) for track in zip(*recorder.tracks, strict=True))
    films = {sensor: np.stack(frames) for sensor, frames in recorder.pictures.items()}
    return Recording(slots, tours, positions, headings, distances, num_steps, success, spl, films)


class _Recorder:
    """Records the poses of agents in every step, and the views of the first of them."""

    def __init__(
        self, batch: BatchNavEnv, recorded: np.ndarray, num_filmed: int, sensors: Sequence[str], size: int
    ) -> None:
        self._batch = batch
        self._recorded = recorded
        self._filmed = recorded[:num_filmed]
        self._views = AgentViews(batch, sensors if num_filmed else (), size, num_filmed)
        self.tracks = [self._now()]
        self.pictures = {sensor: [picture] for sensor, picture in self._views.of(self._filmed).items()}

    def record(self, running: np.ndarray) -> None:
        """Record a step; agents that are not ``running`` [M] keep their last pose and view."""
        now = [
            np.where(running.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
            for new, old in zip(self._now(), self.tracks[-1], strict=True)
        ]
        self.tracks.append((now[0], now[1], now[2]))
        filmed = running[: len(self._filmed)]
        for frames in self.pictures.values():
            frames.append(frames[-1].copy())
        if filmed.any():
            for sensor, seen in self._views.of(self._filmed[filmed]).items():
                self.pictures[sensor][-1][filmed] = seen

    def close(self) -> None:
        """Release the render target."""
        self._views.close()

    def _now(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        agents = self._batch.agents
        return (
            agents.position[self._recorded],
            agents.heading[self._recorded],
            self._batch.episodes.distance[self._recorded],
        )
