"""Lamb, an optimizer for large batches, and the paper's schedule of the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from gym_batchnav.train.encoder import FixupBlock

EPSILON = 1e-5
# Both limits are from bps-nav (bps_nav/rl/ppo/lamb.py); You et al. do not state any.
TRUST_LIMITS = (0.01, 100.0)
MAX_WEIGHT_NORM = 10.0


class Lamb(torch.optim.Optimizer):
    """Adam with steps that are scaled, per tensor, to the norm of the weights (You et al. 2020).

    ``w -= lr * trust * (m / (sqrt(v) + eps) + weight_decay * w)`` with bias-corrected moments m and v, and
    ``trust = min(|w|, 10) / |step|`` clamped to [0.01, 100], or 1 where either norm is zero. A group with
    ``trust=False`` does not scale the step, which makes it AdamW. The other arguments are those of torch's AdamW.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = EPSILON,
        weight_decay: float = 1e-2,
        trust: bool = True,
    ) -> None:
        if not (lr >= 0 and eps >= 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)):
            raise ValueError(
                f"lr={lr}, betas={betas}, eps={eps}, weight_decay={weight_decay}: "
                "pass betas in [0, 1), and values of at least 0 for the others"
            )
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "trust": trust}
        super().__init__(parameters, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, weights: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weights]
        if not state:
            state["step"] = 0
            state["mean"], state["square"] = torch.zeros_like(weights), torch.zeros_like(weights)
        state["step"] += 1
        first, second = group["betas"]
        state["mean"].lerp_(weights.grad, 1 - first)
        state["square"].mul_(second).addcmul_(weights.grad, weights.grad, value=1 - second)
        mean = state["mean"] / (1 - first ** state["step"])
        square = state["square"] / (1 - second ** state["step"])
        step = mean / (square.sqrt() + group["eps"]) + group["weight_decay"] * weights
        if group["trust"]:
            step *= trust_ratio(weights, step)
        weights.sub_(group["lr"] * step)


def trust_ratio(weights: Tensor, step: Tensor) -> Tensor:
    """Return Lamb's factor of a step, a scalar tensor: the norm of the weights over that of the step, within limits."""
    weight_norm = weights.norm()
    step_norm = step.norm()
    ratio = (weight_norm.clamp(max=MAX_WEIGHT_NORM) / step_norm).clamp(*TRUST_LIMITS)
    return torch.where((weight_norm > 0) & (step_norm > 0), ratio, 1.0)


def lamb_groups(policy: nn.Module) -> list[dict[str, Any]]:
    """Return Lamb's parameter groups: all parameters except biases and Fixup's scalars have a trust ratio.

    Weight decay applies to both groups, and the gains of a LayerNorm have a trust ratio, as in bps-nav
    (bps_nav/rl/ppo/ppo.py:117-152), which selects the groups by substrings of parameter names.
    """
    fixup = {id(one) for block in policy.modules() if isinstance(block, FixupBlock) for one in block.scalars()}
    plain: list[nn.Parameter] = []
    scaled: list[nn.Parameter] = []
    for name, parameter in policy.named_parameters():
        if parameter.requires_grad:
            is_bias = name.rpartition(".")[2].startswith("bias")
            (plain if is_bias or id(parameter) in fixup else scaled).append(parameter)
    return [{"params": scaled}, {"params": plain, "trust": False}]


def decay_groups(policy: nn.Module) -> list[dict[str, Any]]:
    """Return AdamW's parameter groups: weight decay for matrices and convolution kernels only."""
    parameters = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    return [
        {"params": [one for one in parameters if one.ndim > 1]},
        {"params": [one for one in parameters if one.ndim <= 1], "weight_decay": 0.0},
    ]


def scaled_learning_rate(
    base: float, num_steps: int, num_envs: int, num_minibatches: int, num_workers: int = 1
) -> float:
    """Return the peak learning rate: ``base`` times the root of (frames per mini-batch / 256), at least ``base``.

    Mini-batches have frames of all workers, whose gradients are averaged; ``num_envs`` is per worker.
    """
    return base * max(math.sqrt(num_steps * num_envs * num_workers / (num_minibatches * 256)), 1.0)


def learning_rate(progress: float, base: float, peak: float) -> float:
    """Return the learning rate at a given progress of the training.

    It rises from half of ``peak`` to ``peak`` in the first 1%, then falls along a half cosine to 0.01 ``base``
    (bps-nav, bps_nav/rl/ddppo/algo/ddppo_trainer.py:454-473), and stays there. ``base`` is the rate of mini-batches of
    up to 256 frames, and ``peak`` that of ``scaled_learning_rate``.
    """
    warm_up = 0.01
    if progress < warm_up:
        return peak * (0.5 + 0.5 * progress / warm_up)
    share = min((progress - warm_up) / (1 - warm_up), 1.0)
    end = 0.01 * base
    return end + (peak - end) * 0.5 * (1 + math.cos(math.pi * share))
