"""Stable-Baselines3 with several agents in a world: rollouts without the steps in which agents wait for others."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.adapters.sb3 import SB3VecEnv
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.worlds.selfplay import SelfPlay

with needs_extra("sb3", "the adapter to Stable-Baselines3"):
    from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
    from stable_baselines3.common.vec_env import VecEnv


_REMEDY = "rollout_buffer_kwargs: pass env=, an SB3VecEnv made with agents_per_world="


class _ActingSteps:
    """The common part of both buffers: what a step of SB3's buffers needs to know of worlds."""

    # Attributes of SB3's buffers
    buffer_size: int
    n_envs: int
    pos: int
    episode_starts: np.ndarray
    _get_samples: Any

    def __init__(self, *arguments: Any, env: VecEnv | VectorEnv | None = None, **keywords: Any) -> None:
        inner: Any = getattr(env, "unwrapped", None)
        batch = inner if isinstance(inner, BatchNavEnv) else getattr(inner, "batch", None)
        self._worlds: Any = None  # of a model that was loaded, to predict
        if not isinstance(inner, SB3VecEnv) or batch is not None:
            if not isinstance(batch, BatchNavEnv) or batch.worlds is None:
                raise ValueError(_REMEDY)
            self._worlds = batch.worlds
            self._rows = _rows_of(env if inner is batch else inner.env, batch)
        super().__init__(*arguments, **keywords)

    def reset(self) -> None:
        """Begin a rollout; SB3 calls this before its first step."""
        super().reset()  # type: ignore[misc]  # of SB3's buffer
        self.acted = np.ones((self.buffer_size, self.n_envs), bool)
        if self._worlds is not None:
            self._waiting = self._worlds.waiting()[self._rows]

    def add(self, *arguments: Any, **keywords: Any) -> None:
        """Add a step, after the environment has taken it."""
        if self._worlds is None:
            raise ValueError(f"a loaded model has no environment to train in. Pass to load() {_REMEDY}")
        self.acted[self.pos] = ~self._waiting
        self._waiting = self._worlds.waiting()[self._rows]
        super().add(*arguments, **keywords)  # type: ignore[misc]

    def compute_returns_and_advantage(self, last_values: Any, dones: np.ndarray) -> None:
        """Compute returns and advantages; an episode ends where the agent's own one does."""
        self.episode_starts[~self.acted] = 1
        super().compute_returns_and_advantage(last_values, dones | self._waiting)  # type: ignore[misc]

    def get(self, batch_size: int | None = None) -> Any:
        """Yield mini-batches of the steps in which agents acted, in random order."""
        next(super().get(1))  # type: ignore[misc]  # lays the steps out as rows, environment by environment
        rows = np.random.permutation(np.flatnonzero(self.acted.T))  # noqa: NPY002 - seeded by SB3
        size = len(rows) if batch_size is None else batch_size
        for first in range(0, len(rows), size):
            yield self._get_samples(rows[first : first + size])


def _rows_of(layer: Any, batch: BatchNavEnv) -> np.ndarray:
    """Return the agents of a batch that the outermost wrapper around it shows."""
    rows = np.arange(batch.num_envs)
    while layer is not batch:
        if isinstance(layer, SelfPlay):
            rows = layer.rows
        layer = layer.env
    return rows


class WorldRolloutBuffer(_ActingSteps, RolloutBuffer):
    """A rollout buffer of observations of one array, for PPO and A2C on a batch with ``agents_per_world=``.

    An agent whose own episode has ended waits for the others of its world. These steps are left out of the loss, and
    its own last step does not count on the value of waiting.

    Pass it as ``PPO(..., env, rollout_buffer_class=WorldRolloutBuffer, rollout_buffer_kwargs={"env": env})``, and
    ``rollout_buffer_kwargs`` to ``PPO.load`` again in order to go on training: models are saved without environments.

    Attributes:
        acted: [n_steps, N] bool, whether each agent acted.

    Raises:
        ValueError: ``env`` is not a batch of worlds.
    """


class WorldDictRolloutBuffer(_ActingSteps, DictRolloutBuffer):
    """A WorldRolloutBuffer for observations that are a Dict."""
