"""Agents that need no network: at random, and along the shortest path."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.episodes.draws import keyed_uniform
from gym_batchnav.state import Action

STOP_CHANCE = 0.01  # of the random agent, at each step


class Agent(Protocol):
    """Acts in every environment of a batch."""

    def reset(self, env: BatchNavEnv) -> None:
        """Forget everything; all environments of ``env`` are about to begin an episode."""

    def act(self, env: BatchNavEnv, observation: dict[str, Any], begun: np.ndarray) -> np.ndarray:
        """Choose what to do next.

        Args:
            env: The batch.
            observation: What it returned last, by sensor.
            begun: [N] bool, whether an episode begins with that observation.

        Returns:
            [N] int64 actions.
        """


class RandomAgent:
    """Moves forward or turns at random, each as often, and says STOP with a chance of 0.01 a step.

    Args:
        seed: Keys its draws.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def reset(self, env: BatchNavEnv) -> None:
        """There is nothing to forget."""

    def act(self, env: BatchNavEnv, observation: dict[str, Any], begun: np.ndarray) -> np.ndarray:
        """Random actions [N] int64."""
        draws = (uniform_draws(env, self.seed) - STOP_CHANCE) / (1 - STOP_CHANCE)
        moves = 1 + (draws * (len(Action) - 1)).astype(np.int64)
        return np.where(draws < 0, Action.STOP, moves)


class ShortestPathAgent:
    """The greedy follower of the shortest path, which knows the navmesh: what can be reached at best."""

    def reset(self, env: BatchNavEnv) -> None:
        """There is nothing to forget."""

    def act(self, env: BatchNavEnv, observation: dict[str, Any], begun: np.ndarray) -> np.ndarray:
        """The follower's actions [N] int64."""
        return env.shortest_path_actions()


def uniform_draws(env: BatchNavEnv, seed: int) -> np.ndarray:
    """A number [N] in [0, 1) for the next action of every environment: of seed, episode and step alone, whatever N."""
    episode = env.simulator.schedule.index(env.agents.scene, env.episodes.episode).astype(np.uint64)
    stream = np.uint64(seed % 2**32 << 32) + episode
    return keyed_uniform(stream, env.episodes.num_steps, 0)
