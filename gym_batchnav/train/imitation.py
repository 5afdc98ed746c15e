"""Imitation of the shortest-path follower, as a warm start: DAgger (Ross, Gordon and Bagnell 2011)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import cross_entropy


def expert_share(progress: float, imitation_share: float) -> float | None:
    """Return the share of actions taken by the follower: 1 at first, 0 from half of the imitation on, None after it.

    In the second half of the imitation the policy acts alone and the follower's actions are only targets, so that the
    policy learns to recover from its own mistakes.

    Args:
        progress: Share of the training that is done.
        imitation_share: Share of the training that imitates.
    """
    if progress >= imitation_share:
        return None
    return max(0.0, 1 - 2 * progress / imitation_share)


def imitation_loss(
    logits: Tensor, values: Tensor, expert_actions: Tensor, returns: Tensor, value_weight: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the cross-entropy with the follower's actions; the critic learns the returns of the actions taken.

    Args:
        logits: [..., 4].
        values: [...].
        expert_actions: [...] int64.
        returns: [...].
        value_weight: Of the critic's loss.

    Returns:
        The loss and its parts without gradients: imitation, value and agreement (the share of steps at which the
        follower's action is the policy's likeliest).
    """
    imitation = cross_entropy(logits.flatten(0, -2), expert_actions.flatten())
    value_loss = 0.5 * (returns - values).square().mean()
    agreement = (logits.argmax(-1) == expert_actions).float().mean()
    parts = {"imitation": imitation, "value": value_loss, "agreement": agreement}
    return imitation + value_weight * value_loss, {name: value.detach() for name, value in parts.items()}
