"""Advantages: how much better the actions of a rollout were than the critic expected."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def gae(rewards: Tensor, values: Tensor, begun: Tensor, bootstraps: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """Compute generalised advantage estimates (Schulman et al. 2016) of rollouts in which episodes end and begin.

    Args:
        rewards: [T, N].
        values: [T + 1, N]; the last row is for the observation after the rollout.
        begun: [T + 1, N] bool; where row t + 1 begins an episode, step t ended one. Agents that wait for others count
            as beginning one.
        bootstraps: [T, N], value used in place of V(s[t+1]) where step t ended an episode: 0 if it was terminated, the
            value of its last observation if it was truncated.
        gamma: Discount.
        gae_lambda: Lambda, 0 for one-step advantages, 1 for returns minus values.

    Returns:
        Advantages [T, N].
    """
    ended = begun[1:]
    errors = rewards + gamma * torch.where(ended, bootstraps, values[1:]) - values[:-1]
    advantages = torch.empty_like(errors)
    following = torch.zeros_like(errors[0])
    for step in reversed(range(len(errors))):
        following = errors[step] + gamma * gae_lambda * following.masked_fill(ended[step], 0)
        advantages[step] = following
    return advantages


def standardize(values: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
    """Scale values of any shape to mean 0 and deviation 1 over all workers; ``total`` sums a tensor over them."""
    mean, variance = _moments(values, total)
    return ((values.double() - mean) / (variance.sqrt() + 1e-8)).to(values.dtype)


def explained_variance(advantages: Tensor, returns: Tensor, total: Callable[[Tensor], Tensor]) -> float:
    """Return which share of the variance of the returns the critic foresaw: 1 all of it, 0 no more than their mean.

    The variance is over all workers; ``total`` sums a tensor over them.
    """
    left, whole = (_moments(values, total)[1] for values in (advantages, returns))
    return 1 - float(left / whole.clamp(min=1e-8))


def _moments(values: Tensor, total: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance of values of all workers, float64."""
    exact = values.double()
    count, linear, square = total(torch.stack([torch.ones_like(exact).sum(), exact.sum(), exact.square().sum()]))
    mean = linear / count
    return mean, (square / count - mean**2).clamp(min=0)
