"""Recordings of some agents of a batch, one episode each: poses, distances and images."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.agents import Acting, ShortestPathAgent
from gym_batchnav.evaluation.loop import EpisodeLoop, batch_of
from gym_batchnav.viz.views import AgentViews


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """M agents in one episode each; agents whose episode has ended keep their last pose."""

    slots: np.ndarray  # [M], slots of their scenes
    goals: np.ndarray  # [M, 3], metres
    positions: np.ndarray  # [T + 1, M, 3], metres
    headings: np.ndarray  # [T + 1, M], radians
    distances: np.ndarray  # [T + 1, M], geodesic metres to the goal
    num_steps: np.ndarray  # [M], steps of each episode
    success: np.ndarray  # [M] bool, False in tasks without it
    spl: np.ndarray  # [M], NaN in tasks without it
    pictures: dict[str, np.ndarray]  # by sensor, [T + 1, F, H, W, 3] uint8: the views of the first F agents

    @property
    def num_filmed(self) -> int:
        """The number of agents that were filmed, F."""
        return next((pictures.shape[1] for pictures in self.pictures.values()), 0)

    def path(self, index: int, until: int | None = None) -> np.ndarray:
        """The path [steps, 3] of an agent up to step ``until``, or to its end."""
        last = int(self.num_steps[index])
        return self.positions[: (last if until is None else min(until, last)) + 1, index]

    def view(self, index: int, step: int) -> np.ndarray:
        """The view [H, W, 3] uint8 of an agent after a step; pictures of several sensors stand side by side."""
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

    All environments act, those that are recorded and the others; reset the batch before you use it again.

    Args:
        env: The batch, in wrappers or not.
        agent: An Agent, or a function from the observations of ``env`` to actions [N]; the greedy follower of the
            shortest path if not given.
        indices: [M], the environments to record.
        num_filmed: How many of them to film, the first ones; all if not given.
        sensors: The pictures to keep, whatever the agents' own sensors: any of ``"rgb"``, ``"depth"``, ``"semantic"``.
        size: Pixels along the longer side of a picture.
        seed: For ``env.reset``.
        episodes: [N] int, the numbers of the episodes to run, see ``BatchNavEnv.reset``; the next ones if not given.

    Raises:
        TypeError: ``env`` is no batch of this package, or ``agent`` cannot act.
        ValueError: The autoreset mode is SAME_STEP, in which the last state of an episode is never visible.
    """
    batch = batch_of(env)
    if batch.autoreset_mode == AutoresetMode.SAME_STEP:
        raise ValueError(
            "autoreset_mode='same_step' never shows the last state of an episode: "
            "make the environment with autoreset_mode='next_step' or 'disabled'"
        )
    watched = np.asarray(indices, np.int64)
    options = None if episodes is None else {"episode_index": episodes}
    loop = EpisodeLoop(env, ShortestPathAgent() if agent is None else agent, seed=seed, options=options)
    slots, goals = batch.agents.slot[watched], batch.episodes.goal[watched]
    running = batch.episodes.valid[watched]
    num_steps, success = np.zeros(len(watched), np.int64), np.zeros(len(watched), bool)
    spl = np.full(len(watched), np.nan)
    with closing(_Tape(batch, watched, len(watched) if num_filmed is None else num_filmed, sensors, size)) as tape:
        while running.any():
            step = loop.step()
            num_steps += running
            tape.take(running)
            ended = running & step.ended[watched]
            for name, values in (("success", success), ("spl", spl)):
                if name in step.info:
                    values[ended] = step.info[name][watched[ended]]
            running &= ~ended
    positions, headings, distances = (np.stack(track) for track in zip(*tape.tracks, strict=True))
    films = {sensor: np.stack(frames) for sensor, frames in tape.pictures.items()}
    return Recording(slots, goals, positions, headings, distances, num_steps, success, spl, films)


class _Tape:
    """The poses of the recorded agents in every step, and the views of the first of them."""

    def __init__(
        self, batch: BatchNavEnv, watched: np.ndarray, num_filmed: int, sensors: Sequence[str], size: int
    ) -> None:
        self._batch, self._watched, self._filmed = batch, watched, watched[:num_filmed]
        self._views = AgentViews(batch, sensors, size, num_filmed) if num_filmed else None
        self.tracks = [self._now()]
        pictures = {} if self._views is None else self._views.of(self._filmed)
        self.pictures = {sensor: [picture] for sensor, picture in pictures.items()}

    def take(self, running: np.ndarray) -> None:
        """Keep a step; those that are not ``running`` [M] stay as they were."""
        now = [
            np.where(running.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
            for new, old in zip(self._now(), self.tracks[-1], strict=True)
        ]
        self.tracks.append((now[0], now[1], now[2]))
        seeing = running[: len(self._filmed)]
        for frames in self.pictures.values():
            frames.append(frames[-1].copy())
        if self._views is not None and seeing.any():
            for sensor, seen in self._views.of(self._filmed[seeing]).items():
                self.pictures[sensor][-1][seeing] = seen

    def close(self) -> None:
        """Release the render target."""
        if self._views is not None:
            self._views.close()

    def _now(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        agents = self._batch.agents
        return (
            agents.position[self._watched],
            agents.heading[self._watched],
            self._batch.episodes.distance[self._watched],
        )
