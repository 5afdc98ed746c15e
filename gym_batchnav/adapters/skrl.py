"""skrl's agents on a batch, told the observation that an episode really ended with."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.adapters.requirements import check_batch
from gym_batchnav.system.extras import needs_extra

with needs_extra("skrl", "the adapter to skrl"):
    import torch
    from skrl.envs.wrappers.torch.gymnasium_envs import GymnasiumWrapper
    from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space


class SkrlEnv(GymnasiumWrapper):
    """A batch as an environment of skrl: what ``wrap_env`` makes of it, in the autoreset mode that skrl counts with.

    Observations arrive as one tensor [N, numbers] float32; of a Dict, its entries side by side in the order of their
    names. The first ``reset`` uses the seed of ``skrl.utils.set_seed``, 0 without it.

    Args:
        env: A BatchNavEnv with autoreset mode ``"same_step"``, which may be wrapped.

    Raises:
        ValueError: It is no batch, or has another autoreset mode.
    """

    def __init__(self, env: VectorEnv) -> None:
        check_batch(env, AutoresetMode.SAME_STEP, "skrl")
        super().__init__(env)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """One frame an environment; None without a render mode."""
        return self._env.render()


class FinalObservations:
    """To be put before an agent of skrl: ``class Agent(FinalObservations, PPO): ...``.

    A batch returns the first observation of the next episode where one has ended. skrl would take the value at a
    time-out from it; with this class it takes that of ``final_obs``, and agents with replay store ``final_obs`` too.

    Raises:
        ValueError: The agent has ``time_limit_bootstrap=False``, with which skrl lets advantages run over a time-out
            into the next episode; or the batch brings no ``final_obs`` for these environments.
    """

    cfg: Any  # these are the agent's
    observation_space: Any
    device: Any

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        if not getattr(self.cfg, "time_limit_bootstrap", True):
            raise ValueError("time_limit_bootstrap=False runs over time-outs into the next episode: set it to True")

    def record_transition(
        self,
        *,
        next_observations: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        infos: dict[str, Any],
        **transition: Any,
    ) -> None:
        """Record a step, with the observations that episodes ended with."""
        ended = (terminated | truncated).flatten().nonzero().flatten()
        if len(ended) > 0:
            next_observations = next_observations.clone()
            next_observations[ended] = self._final(infos, ended.cpu().numpy(), len(next_observations))
        super().record_transition(  # type: ignore[misc]  # the agent's
            next_observations=next_observations, terminated=terminated, truncated=truncated, infos=infos, **transition
        )

    def _final(self, infos: dict[str, Any], ended: np.ndarray, count: int) -> torch.Tensor:
        """Final observations [E, numbers] of the environments that ended."""
        if len(infos.get("_final_obs", ())) != count:
            raise ValueError(
                f"no final_obs for {count} environments: give the agent all of a SkrlEnv(env), whose autoreset_mode is "
                "'same_step', without scopes"
            )
        final = infos["final_obs"]
        rows = {name: value[ended] for name, value in final.items()} if isinstance(final, dict) else final[ended]
        return flatten_tensorized_space(tensorize_space(self.observation_space, rows, device=self.device))
