"""PolicyAgent: an agent for evaluation that acts by a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import uniform_draws
from gym_batchnav.evaluation.records import is_known, value_of
from gym_batchnav.evaluation.world import PolicyAbout, check_world, policy_actions
from gym_batchnav.train.encoder import GOAL_PICTURES
from gym_batchnav.train.policy import PREVIOUS_ACTION, Policy
from gym_batchnav.train.policy_file import load_policy


class PolicyAgent:
    """An agent that takes the most likely action of a policy, or samples one.

    Args:
        policy: The policy, on any device.
        sample_seed: Sample actions from the policy's probabilities, keyed by this seed; None takes the most likely.
        about: The description in the policy's file. If given, ``check`` compares the environment with the settings of
            the training.
        allow_mismatch: Skip this check; the environment must still have the policy's sensors, and images of its size.
    """

    def __init__(
        self,
        policy: Policy,
        sample_seed: int | None = None,
        *,
        about: PolicyAbout | None = None,
        allow_mismatch: bool = False,
    ) -> None:
        self.policy = policy
        self.sample_seed = sample_seed
        self.about = about
        self.allow_mismatch = allow_mismatch

    @property
    def env_keywords(self) -> dict[str, Any]:
        """The keyword ``sensors`` for the policy: its images, and the sensors that it reads in addition to the task's.

        It is empty without ``about``. Sensors of a user's class are left out.
        """
        if self.about is None:
            return {}
        records = self.about.other_sensors
        others = [record for name, record in records.items() if name in self.policy.vectors and is_known(record)]
        return {"sensors": (*self._images, *map(value_of, others))}

    @property
    def _images(self) -> tuple[str, ...]:
        """The images that the policy reads, except goal pictures."""
        encoder = self.policy.encoder
        return () if encoder is None else tuple(one for one in encoder.channels.sensors if one not in GOAL_PICTURES)

    def check(self, env: BatchNavEnv) -> None:
        """Raise ValueError unless the policy can act in an environment.

        Raises:
            ValueError: The environment lacks a sensor of the policy, or has other actions or settings than those of its
                training.
        """
        if not isinstance(env.actions, DiscreteActions):
            raise ValueError(f"the policy has discrete actions, not {type(env.actions).__name__}")
        policy_actions(env)
        missing = [name for name in self._images if name not in env.cameras.rig.keys]
        if missing:
            raise ValueError(
                f"the policy needs the images {', '.join(missing)}, which the environment does not have: "
                f"make it with sensors={self._images}"
            )
        missing = [name for name in self.policy.task_sensors if name not in env.components.sensors]
        if missing:
            raise ValueError(
                f"the policy reads {', '.join(missing)}, which the environment does not have: use the policy's task "
                "and sensors"
            )
        if self.about is not None and not self.allow_mismatch:
            check_world(self.about, env)
        elif self.about is not None and self._images:
            own, there = ((one.width, one.height) for one in (self.about.camera, env.cameras.rig.first))
            if own != there:
                sizes = f"{own[0]} x {own[1]} pixels, not {there[0]} x {there[1]}"
                raise ValueError(f"the policy sees images of {sizes}: use its camera")

    def reset(self, env: BatchNavEnv) -> None:
        """Reset the memory.

        Raises:
            ValueError: The policy cannot act in the environment, see ``check``.
        """
        self.check(env)
        self._state = self.policy.initial_state(env.num_envs)
        self._previous = torch.zeros(env.num_envs, dtype=torch.int64, device=self.policy.device)

    @torch.no_grad()
    def act(self, env: BatchNavEnv, observation: dict[str, Any], begun: np.ndarray) -> np.ndarray:
        """Return the policy's actions [N] int64."""
        device = self.policy.device
        seen = {name: torch.as_tensor(values, device=device) for name, values in observation.items()}
        seen[PREVIOUS_ACTION] = self._previous
        logits, _, self._state = self.policy(seen, self._state, torch.as_tensor(begun, device=device))
        if self.sample_seed is None:
            actions = logits.argmax(-1).cpu().numpy()
        else:
            cumulative = logits.double().softmax(-1).cumsum(-1).cpu().numpy()
            actions = (cumulative[:, :-1] <= uniform_draws(env, self.sample_seed)[:, None]).sum(axis=1)
        self._previous = torch.as_tensor(actions, device=device)
        return actions


def load_agent(
    path: str | Path, sample_seed: int | None = None, allow_mismatch: bool = False
) -> tuple[PolicyAgent, PolicyAbout]:
    """Load the agent of a policy file or of a shipped policy's name, see PolicyAgent, and the file's description.

    Raises:
        ValueError: The file is not a policy.
        FileNotFoundError: The file does not exist.
    """
    policy, about = load_policy(path)
    return PolicyAgent(policy, sample_seed, about=about, allow_mismatch=allow_mismatch), about
