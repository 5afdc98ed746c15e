"""Agents to evaluate: a policy, and those it is measured against."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch

from gym_batchnav.env import BatchNavEnv
from gym_batchnav.navmesh.batch import STOP
from gym_batchnav.simulator import NUM_ACTIONS
from gym_batchnav.task.draw import keyed_uniform
from gym_batchnav.train.policy import PREVIOUS_ACTION, Policy

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


class PolicyAgent:
    """A policy that takes its likeliest action, or draws one.

    Args:
        policy: On any device.
        sample_seed: Draw actions with the policy's probabilities, keyed by this seed; None takes the likeliest.
    """

    def __init__(self, policy: Policy, sample_seed: int | None = None) -> None:
        self.policy, self.sample_seed = policy, sample_seed

    def reset(self, env: BatchNavEnv) -> None:
        """Forget everything.

        Raises:
            ValueError: the environment does not give what the policy sees and reads.
        """
        sensors = () if self.policy.encoder is None else self.policy.encoder.channels.sensors
        missing = [name for name in sensors if name not in env.cameras.sensors]
        if missing:
            raise ValueError(
                f"the policy sees {', '.join(missing)}, which the environment does not draw: "
                f"make it with sensors={sensors}"
            )
        missing = [name for name in self.policy.task_sensors if name not in env.components.sensors]
        if missing:
            raise ValueError(
                f"the policy reads {', '.join(missing)}, which the environment has not: make it with the policy's task "
                "and sensors"
            )
        self._state = self.policy.initial_state(env.num_envs)
        self._previous = torch.zeros(env.num_envs, dtype=torch.int64, device=self.policy.device)

    @torch.no_grad()
    def act(self, env: BatchNavEnv, observation: dict[str, Any], begun: np.ndarray) -> np.ndarray:
        """What the policy does next: [N] int64 actions."""
        device = self.policy.device
        seen = {name: torch.as_tensor(values, device=device) for name, values in observation.items()}
        seen[PREVIOUS_ACTION] = self._previous
        logits, _, self._state = self.policy(seen, self._state, torch.as_tensor(begun, device=device))
        if self.sample_seed is None:
            actions = logits.argmax(-1).cpu().numpy()
        else:
            up_to = logits.double().softmax(-1).cumsum(-1).cpu().numpy()
            actions = (up_to[:, :-1] <= uniform_draws(env, self.sample_seed)[:, None]).sum(axis=1)
        self._previous = torch.as_tensor(actions, device=device)
        return actions


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
        moves = 1 + (draws * (NUM_ACTIONS - 1)).astype(np.int64)
        return np.where(draws < 0, STOP, moves)


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
