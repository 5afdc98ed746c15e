"""skrl: a batch as its environment, and agents that learn from the true final observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.adapters.base import Adapter
from gym_batchnav.system.extras import needs_extra

with needs_extra("skrl", "the adapter to skrl"):
    import torch
    from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper
    from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space


class SkrlEnv(Adapter, GymnasiumWrapper):
    """An environment of skrl for a batch; ``SkrlEnv.make`` makes both.

    It is the wrapper that skrl's ``wrap_env`` makes, restricted to the autoreset mode in which skrl counts correctly.
    Observations are one tensor [N, numbers] float32; the entries of a Dict lie side by side, sorted by name. The first
    ``reset`` uses the seed of ``skrl.utils.set_seed``, or 0.

    Args:
        env: A BatchNavEnv with autoreset mode ``"same_step"``, which may be wrapped.

    Raises:
        ValueError: It is not a batch, or has another autoreset mode.
    """

    _library = "skrl"

    def __init__(self, env: VectorEnv) -> None:
        self._check_batch(env)
        GymnasiumWrapper.__init__(self, env)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Return one frame per environment; None without a render mode."""
        return self._env.render()


class FinalObservations:
    """Mix-in for agents of skrl: ``class Agent(FinalObservations, PPO): ...``.

    When an episode ends, a batch returns the first observation of the next one. skrl would bootstrap a time-out from
    it. With this class it bootstraps from ``final_obs``, and agents with a replay buffer store ``final_obs``.

    Raises:
        ValueError: The agent has ``time_limit_bootstrap=False``, with which skrl's advantages run past a time-out
            into the next episode; or the batch has no ``final_obs`` for these environments.
    """

    cfg: Any  # this and the next two are attributes of the agent
    observation_space: Any
    device: Any

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        if not getattr(self.cfg, "time_limit_bootstrap", True):
            raise ValueError(
                "time_limit_bootstrap=False makes advantages run past a time-out into the next episode: set it to True"
            )

    def record_transition(
        self,
        *,
        next_observations: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        infos: dict[str, Any],
        **transition: Any,
    ) -> None:
        """Record a step; episodes that ended are recorded with their final observations."""
        ended = (terminated | truncated).flatten().nonzero().flatten()
        if len(ended) > 0:
            next_observations = next_observations.clone()
            next_observations[ended] = self._final(infos, ended.cpu().numpy(), len(next_observations))
        super().record_transition(  # type: ignore[misc]  # a method of the agent
            next_observations=next_observations, terminated=terminated, truncated=truncated, infos=infos, **transition
        )

    def _final(self, infos: dict[str, Any], ended: np.ndarray, count: int) -> torch.Tensor:
        """Return the final observations [E, numbers] of the environments that ended."""
        if len(infos.get("_final_obs", ())) != count:
            raise ValueError(
                f"no final_obs for {count} environments: train one agent on all of SkrlEnv.make(...), without scopes="
            )
        final = infos["final_obs"]
        rows = {name: value[ended] for name, value in final.items()} if isinstance(final, dict) else final[ended]
        return flatten_tensorized_space(tensorize_space(self.observation_space, rows, device=self.device))
