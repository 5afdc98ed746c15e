"""rl_games: a batch as its IVecEnv, made known to its Runner by one call."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.adapters.requirements import check_batch
from gym_batchnav.system.extras import needs_extra

with needs_extra("rl-games", "the adapter to rl_games"):
    import torch
    from rl_games.common import env_configurations, vecenv
    from rl_games.common.ivecenv import IVecEnv


class RLGamesVecEnv(IVecEnv):
    """A batch with autoreset SAME_STEP as the environment that rl_games' agents step.

    Observations are torch tensors: a Dict stays a dict (``{"obs": {...}}``, for a network of your own), one array is
    one tensor (for rl_games' own ``actor_critic``). On the CPU they share the memory of the batch's arrays. The infos
    hold ``time_outs`` [N] bool, and of the step's last episodes ``final_info``, the batch's arrays of their measures.

    With ``value_bootstrap`` rl_games adds ``gamma * V`` to the reward of a time-out, where V is the value of the
    observation that was acted upon last, not of the one that the action led to.

    Args:
        env: A BatchNavEnv or a Gymnasium vector wrapper round one.
        device: Where tensors are handed over: ``config["device"]`` of rl_games.

    Raises:
        ValueError: The batch has another autoreset mode.
    """

    def __init__(self, env: VectorEnv, device: str = "cpu") -> None:
        check_batch(env, AutoresetMode.SAME_STEP, "rl_games")
        self.env, self.device, self.num_actors = env, device, env.num_envs
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        self._seed: int | None = None

    def seed(self, seed: int | None) -> None:
        """Seed the next reset: environment i behaves as one that is seeded ``seed + i``."""
        self._seed = seed

    def reset(self) -> dict[str, Any]:
        """Begin an episode in every environment: ``{"obs": observations}``."""
        observation, _ = self.env.reset(seed=self._seed)
        self._seed = None
        return {"obs": self._tensors(observation)}

    def step(self, actions: torch.Tensor) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor, dict[str, Any]]:
        """Act [N]: observations, rewards [N] float32, done [N] bool, infos."""
        # rl_games' player takes the dimension of length 1 away.
        observation, reward, terminated, truncated, info = self.env.step(actions.cpu().numpy().reshape(self.num_actors))
        infos = {
            "time_outs": self._tensors(truncated & ~terminated),
            "final_info": info.get("final_info", {}),
        }
        reward, done = self._tensors(reward.astype(np.float32)), self._tensors(terminated | truncated)
        return {"obs": self._tensors(observation)}, reward, done, infos

    def get_env_info(self) -> dict[str, Any]:
        """The spaces of one environment; every environment has one agent and one value."""
        spaces = {"observation_space": self.observation_space, "action_space": self.action_space}
        return {**spaces, "agents": 1, "value_size": 1}

    def render(self, mode: str = "rgb_array") -> Any:
        """Frames of all environments, or None without a render mode; ``mode`` is what rl_games' player says."""
        return self.env.render()

    def close(self) -> None:
        """Close the batch; safe twice."""
        self.env.close()

    def _tensors(self, values: Any) -> Any:
        """Arrays as tensors on the device, without a copy where they are there."""
        if isinstance(values, dict):
            return {name: self._tensors(one) for name, one in values.items()}
        return torch.as_tensor(values, device=self.device)


def register(env: VectorEnv, name: str = "batchnav", *, device: str = "cpu") -> RLGamesVecEnv:
    """Let rl_games' Runner find a batch as ``config["env_name"]``, for training and for playing.

    ``config["env_config"]`` should be ``{}``: the Runner puts its seed there for training, and seeds no environment
    without it. What the batch is like was said when it was made.

    Args:
        env: A BatchNavEnv with autoreset SAME_STEP or a Gymnasium vector wrapper round one.
        name: What to call it; a batch of the same name is replaced.
        device: ``config["device"]``.

    Returns:
        What the Runner is going to step.

    Raises:
        ValueError: The batch has another autoreset mode; when the Runner starts, also if ``config["num_actors"]`` is
            not its number of environments.
    """
    batch = RLGamesVecEnv(env, device)

    def create(config_name: str, num_actors: int, seed: int | None = None) -> RLGamesVecEnv:
        if num_actors != batch.num_actors:
            count = batch.num_actors
            raise ValueError(f"num_actors={num_actors}, but {name!r} has {count} environments: set num_actors={count}")
        batch.seed(seed)
        return batch

    vecenv.register(name, create)
    env_configurations.register(name, {"vecenv_type": name, "env_creator": lambda **_: batch})
    return batch
