"""Imitation of a teacher, as a warm start: DAgger (Ross, Gordon and Bagnell 2011)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy

from gym_batchnav.evaluation.agents import Agent, ShortestPathAgent
from gym_batchnav.mapping.agent import MapAgent
from gym_batchnav.system.numbers import check_choice

TEACHERS = ("follower", "mapper")


def make_teacher(name: str) -> Agent:
    """Make the agent that is imitated.

    Args:
        name: ``"follower"`` uses the scene's navmesh, and so does things for which a policy sees no reason;
            ``"mapper"`` follows the reading of ``MapPath``, a sensor of the environment that the policy need not see.

    Raises:
        ValueError: The name is unknown.
    """
    check_choice("teacher", name, TEACHERS)
    return MapAgent() if name == "mapper" else ShortestPathAgent()


def expert_share(progress: float, imitation_share: float) -> float | None:
    """Return the share of actions that the teacher takes; None after the imitation.

    The share falls from 1 to 0 in the first half of the imitation. In the second half the policy acts alone and the
    teacher's actions are only targets, so that the policy learns to recover from its own mistakes.

    Args:
        progress: Completed share of the training.
        imitation_share: Share of the training, at its start, that imitates.
    """
    if progress >= imitation_share:
        return None
    return max(0.0, 1 - 2 * progress / imitation_share)


def imitation_loss(
    logits: Tensor, values: Tensor, expert_actions: Tensor, returns: Tensor, value_weight: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the cross-entropy with the teacher's actions plus the critic's loss.

    Args:
        logits: [..., 4], from the policy.
        values: [...], from the critic.
        expert_actions: [...] int64, the teacher's.
        returns: [...], targets of the critic.
        value_weight: Weight of the critic's loss.

    Returns:
        The loss and its parts without gradients: imitation, value and agreement (the share of steps at which the
        teacher's action is the most likely one of the policy).
    """
    imitation = cross_entropy(logits.flatten(0, -2), expert_actions.flatten())
    value_loss = 0.5 * (returns - values).square().mean()
    agreement = (logits.argmax(-1) == expert_actions).float().mean()
    parts = {"imitation": imitation, "value": value_loss, "agreement": agreement}
    return imitation + value_weight * value_loss, {name: value.detach() for name, value in parts.items()}
