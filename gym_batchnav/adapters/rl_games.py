"""rl_games: a batch as its IVecEnv, and its registration with rl_games' Runner."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.adapters.base import Adapter
from gym_batchnav.system.extras import needs_extra

with needs_extra("rl-games", "the adapter to rl_games"):
    import torch
    from rl_games.common import env_configurations, vecenv
    from rl_games.common.ivecenv import IVecEnv


class RLGamesVecEnv(Adapter, IVecEnv):
    """A batch with autoreset mode SAME_STEP as an IVecEnv of rl_games; ``RLGamesVecEnv.make`` makes both.

    Observations are torch tensors. A Dict stays a dict (``{"obs": {...}}``, for a network of your own); one array is
    one tensor (for rl_games' own ``actor_critic``). On the CPU they share the memory of the batch's arrays. The infos
    hold ``time_outs`` [N] bool and ``final_info``, the batch's arrays with the measures of the episodes that ended.

    With ``value_bootstrap`` rl_games adds ``gamma * V`` to the reward at a time-out, where V is the value of the
    observation before the last action, not of the one after it.

    Args:
        env: A BatchNavEnv, or a Gymnasium vector wrapper around one.
        device: The device of the tensors: ``config["device"]`` of rl_games.

    Raises:
        ValueError: The batch has another autoreset mode.
    """

    _library = "rl_games"

    def __init__(self, env: VectorEnv, device: str = "cpu") -> None:
        self._check_batch(env)
        self.env = env
        self.device = device
        self.num_actors = env.num_envs
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self._seed: int | None = None

    def seed(self, seed: int | None) -> None:
        """Seed the next reset; environment i behaves like a single one seeded ``seed + i``."""
        self._seed = seed

    def reset(self) -> dict[str, Any]:
        """Begin an episode in every environment; return ``{"obs": observations}``."""
        observation, _ = self.env.reset(seed=self._seed)
        self._seed = None
        return {"obs": self._tensors(observation)}

    def step(self, actions: torch.Tensor) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Act with ``actions`` [N, ...]; return observations, rewards [N] float32, done [N] bool and infos."""
        # With one environment, rl_games' player drops the dimension.
        given = actions.cpu().numpy().reshape(self.num_actors, *(self.action_space.shape or ()))
        observation, reward, terminated, truncated, info = self.env.step(given)
        infos = {"time_outs": self._tensors(truncated & ~terminated), "final_info": info.get("final_info", {})}
        reward = self._tensors(reward.astype(np.float32))
        done = self._tensors(terminated | truncated)
        return {"obs": self._tensors(observation)}, reward, done, infos

    def get_env_info(self) -> dict[str, Any]:
        """Return the spaces of one environment, which has one agent and one value."""
        spaces = {"observation_space": self.observation_space, "action_space": self.action_space}
        return {**spaces, "agents": 1, "value_size": 1}

    def render(self, mode: str = "rgb_array") -> Any:
        """Return the frames of all environments, or None without a render mode; ``mode`` is ignored."""
        return self.env.render()

    def close(self) -> None:
        """Close the batch; idempotent."""
        self.env.close()

    def _tensors(self, values: Any) -> Any:
        """Convert arrays to tensors on the device, without a copy on the CPU."""
        if isinstance(values, dict):
            return {name: self._tensors(one) for name, one in values.items()}
        return torch.as_tensor(values, device=self.device)


def register(batch: RLGamesVecEnv, name: str = "batchnav") -> None:
    """Register a batch with rl_games, whose Runner finds it by ``config["env_name"]`` for training and playing.

    Set ``config["env_config"]`` to ``{}``: the Runner stores its seed there, and without it seeds no environment.

    Args:
        batch: The batch that the Runner steps. When it starts, it raises ValueError unless ``config["num_actors"]`` is
            the number of environments.
        name: The name to register; a batch of the same name is replaced.
    """

    def create(config_name: str, num_actors: int, seed: int | None = None) -> RLGamesVecEnv:
        if num_actors != batch.num_actors:
            count = batch.num_actors
            raise ValueError(f"num_actors={num_actors}, but {name!r} has {count} environments: set num_actors={count}")
        batch.seed(seed)
        return batch

    vecenv.register(name, create)
    env_configurations.register(name, {"vecenv_type": name, "env_creator": lambda **_: batch})
