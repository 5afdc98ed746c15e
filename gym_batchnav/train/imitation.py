"""Imitation of a teacher, as a warm start: DAgger (Ross, Gordon and Bagnell 2011)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import Agent, ShortestPathAgent
from gym_batchnav.evaluation.named_agents import agent_file
from gym_batchnav.evaluation.world import PolicyAbout
from gym_batchnav.library.sources import shipped_policies
from gym_batchnav.mapping.agent import MapAgent
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.state import NUM_ACTIONS
from gym_batchnav.train.policy import TEACHER_FEATURES, Policy
from gym_batchnav.train.policy_file import load_policy

FOLLOWER, MAPPER = "follower", "mapper"


class RuleTeacher:
    """A teacher without a network: an agent whose actions do not depend on earlier ones."""

    num_features = 0

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def reset(self, env: BatchNavEnv) -> None:
        """Begin to teach in an environment, in which all episodes begin."""
        self._env = env
        self._agent.reset(env)

    def act(self, observation: dict[str, Tensor], begun: Tensor) -> Tensor:
        """Return the probabilities [N, 4] of actions, of which one is 1, on the device of ``begun`` [N] bool."""
        sensors = self._env.components.sensors
        seen = {name: observation[name].cpu().numpy() for name in sensors if name in observation}
        actions = self._agent.act(self._env, seen, begun.cpu().numpy())
        return one_hot(torch.as_tensor(actions, device=begun.device), NUM_ACTIONS).float()

    def get_state(self) -> None:
        """Return None: a rule remembers nothing."""

    def set_state(self, state: Any) -> None:
        """Take over what ``get_state`` returned."""


class PolicyTeacher:
    """A trained policy as teacher, such as one that sees depth for a student that sees colours.

    The student learns the teacher's probabilities of actions and, if both have equally many, the features of its
    images. A blind teacher has 0 features. In images of twice its size it sees every second pixel, and so on.
    """

    def __init__(self, policy: Policy, about: PolicyAbout) -> None:
        self.policy = policy.requires_grad_(False)
        self.num_features = 0 if policy.encoder is None else policy.encoder.num_features
        self._about = about

    def reset(self, env: BatchNavEnv) -> None:
        """Begin to teach in an environment, in which all episodes begin; ValueError if the policy cannot see it."""
        space: Any = env.single_observation_space
        missing = set(self.policy.sensors) - set(space.spaces)
        if missing:
            raise ValueError(
                f"the teacher reads {', '.join(sorted(missing))}, which the environment lacks: add it to sensors= or "
                "teacher_sensors="
            )
        own, camera = self._about.camera, env.cameras.rig.first
        stride = self._stride = max(camera.width // own.width, 1)
        if self._about.sensors and (camera.width, camera.height) != (own.width * stride, own.height * stride):
            raise ValueError(
                f"the teacher sees {own.width} x {own.height} pixels, the camera of the environment has {camera.width} "
                f"x {camera.height}: pass a camera of that size, or of a multiple of it"
            )
        self._state = self.policy.initial_state(env.num_envs)

    def act(self, observation: dict[str, Tensor], begun: Tensor) -> Tensor:
        """Return the probabilities [N, 4] of actions, and write the features of its images into the observation."""
        stride = self._stride
        seen = {
            name: values[:, ::stride, ::stride] if values.ndim == 4 else values  # images [N, H, W, C]
            for name, values in observation.items()
        }
        features = self.policy.features({name: values[None] for name, values in seen.items()})
        logits, _, self._state = self.policy(seen, self._state, begun, features=features)
        if features is not None:
            observation[TEACHER_FEATURES].copy_(features[0])
        return logits.softmax(-1)

    def get_state(self) -> Tensor:
        """Return the memory [rows, N, H]."""
        return self._state

    def set_state(self, state: Any) -> None:
        """Take over what ``get_state`` returned."""
        self._state = state.to(self.policy.device)


Teacher = RuleTeacher | PolicyTeacher


def check_teacher(name: str) -> None:
    """Raise ValueError unless ``make_teacher`` knows a teacher."""
    if name not in (FOLLOWER, MAPPER) and agent_file(name) is None:
        raise ValueError(
            f"teacher={name!r} is neither a known name nor a file: pass {FOLLOWER!r}, {MAPPER!r}, a policy file, or a "
            f"shipped policy ({', '.join(shipped_policies())})"
        )


def check_sensors(name: str, sensors: Collection[str]) -> None:
    """Raise ValueError if the mapper is the teacher in an environment without its sensor."""
    if name == MAPPER and MapPath.name not in sensors:
        raise ValueError(f"teacher={MAPPER!r} reads {MapPath.name!r}: add it to sensors= or teacher_sensors=")


def make_teacher(name: str, device: torch.device) -> Teacher:
    """Make the teacher that is imitated; a policy file or the name of a shipped policy is a PolicyTeacher on a device.

    ``"follower"`` uses the scene's navmesh, so that a policy cannot see the reason of all its actions; ``"mapper"``
    follows the reading of ``MapPath``, a sensor of the environment that the policy need not see.

    Raises:
        ValueError: The name is unknown, or the file is damaged.
    """
    check_teacher(name)
    file = None if name in (FOLLOWER, MAPPER) else agent_file(name)
    if file is not None:
        policy, about = load_policy(file)
        return PolicyTeacher(policy.to(device), about)
    return RuleTeacher(MapAgent() if name == MAPPER else ShortestPathAgent())


def expert_share(progress: float, imitation_share: float) -> float | None:
    """Return the share of actions that the teacher takes; None after the imitation.

    The share falls from 1 to 0 in the first half of the imitation. In the second half the policy acts alone and the
    teacher's actions are only targets, so that the policy learns to recover from its own mistakes.
    """
    if progress >= imitation_share:
        return None
    return max(0.0, 1 - 2 * progress / imitation_share)


def imitation_loss(
    logits: Tensor, values: Tensor, taught: Tensor, returns: Tensor, value_weight: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the cross-entropy with the teacher's actions plus the critic's loss, and its parts without gradients.

    These are imitation, value and agreement: the share of steps at which the teacher's most likely action is that of
    the policy. Logits and the teacher's probabilities are [..., 4]; values and returns, their targets, [...].
    """
    imitation = cross_entropy(logits.flatten(0, -2), taught.flatten(0, -2))
    value_loss = 0.5 * (returns - values).square().mean()
    agreement = (logits.argmax(-1) == taught.argmax(-1)).float().mean()
    parts = {"imitation": imitation, "value": value_loss, "agreement": agreement}
    return imitation + value_weight * value_loss, {name: value.detach() for name, value in parts.items()}
