"""A policy as an agent that can be evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.evaluation.agents import uniform_draws
from gym_batchnav.train.policy import PREVIOUS_ACTION, Policy


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
