"""Recurrent PPO for large batches, told from top to bottom: PPO.iterate is the story, the functions below its words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.train.imitation import expert_share, imitation_loss
from gym_batchnav.train.lamb import EPSILON, Lamb, lamb_groups, scaled_learning_rate, schedule
from gym_batchnav.train.policy import GOAL, Policy
from gym_batchnav.train.rollout import Collector, Rollout
from gym_batchnav.train.run.workers import Workers

OPTIMIZERS = ("lamb", "adamw")


@dataclass(frozen=True, slots=True)
class PPOConfig:
    """How to learn; the defaults are those of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021).

    Attributes:
        total_frames: Steps of all environments together after which the learning rate has come down.
        num_steps: T, steps of a rollout.
        num_minibatches: Parts that the environments are split into for learning.
        num_epochs: How often each rollout is learned from.
        gamma: Discount.
        gae_lambda: Of generalised advantage estimation.
        clip: How far the probability of an action may move, as a ratio.
        value_weight: Of the critic's loss.
        entropy_weight: Of the bonus for undecided policies.
        max_grad_norm: Gradients are scaled down to this norm.
        normalize_advantages: Give the advantages of each mini-batch mean 0 and deviation 1.
        optimizer: ``"lamb"`` or ``"adamw"``.
        learning_rate: Of mini-batches of up to 256 frames; see ``lamb.scaled_learning_rate``.
        scale_learning_rate: Apply that rule.
        weight_decay: Of weight matrices.
        imitation_share: For this share of the training, at its start, imitate the shortest-path follower instead.
        num_parts: Parts of the batch that take turns: one is simulated while another is inferred.
        autocast: Run the networks in bfloat16 where torch thinks it safe.
        channels_last: Keep the encoder's weights in the order that tensor cores want.
        compile: Have torch compile the encoder, which needs a C++ compiler, on a GPU also Triton.
    """

    total_frames: int = 2_500_000_000
    num_steps: int = 32
    num_minibatches: int = 2
    num_epochs: int = 1
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    max_grad_norm: float = 1.0
    normalize_advantages: bool = False
    optimizer: str = "lamb"
    learning_rate: float = 5e-4
    scale_learning_rate: bool = True
    weight_decay: float = 1e-2
    imitation_share: float = 0.0
    num_parts: int = 1
    autocast: bool = False
    channels_last: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be learned with."""
        for name in ("total_frames", "num_steps", "num_minibatches", "num_epochs", "num_parts"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: give at least 1")
        for name in ("gamma", "gae_lambda", "imitation_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}: give a number from 0 to 1")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer={self.optimizer!r}: choose one of {', '.join(map(repr, OPTIMIZERS))}")


@dataclass(frozen=True, slots=True)
class Iteration:
    """What one rollout and the learning from it came to."""

    frames: int  # of all workers, since training began
    seconds: dict[str, float]  # of this worker, by part: those of the collector, learn, and wait for the rest
    losses: dict[str, float]  # parts of the loss and grad_norm, means over the mini-batches of all workers
    episodes: dict[str, np.ndarray]  # [M] by measure, of this worker's episodes that ended


class PPO:
    """Improves a policy in an environment, one rollout at a time.

    Args:
        env: A batch with autoreset mode SAME_STEP.
        policy: Trained in place, on the device where it is.
        config: How.
        seed: Of the environment, the actions and the mini-batches. Worker r takes seed + r * N for its N environments,
            so that no two environments are alike.
        workers: Who trains the policy together, each in as many environments; None for this process alone. All begin
            with the weights of worker 0.

    Attributes:
        policy: The policy.
        frames: Steps of all environments of all workers together so far.
    """

    def __init__(
        self, env: BatchNavEnv, policy: Policy, config: PPOConfig, seed: int = 0, workers: Workers | None = None
    ) -> None:
        if env.num_envs < config.num_minibatches:
            raise ValueError(
                f"num_minibatches={config.num_minibatches} of {env.num_envs} environments: give at most as many"
            )
        if config.imitation_share > 0 and GOAL not in env.components.sensors:
            raise ValueError(
                f"imitation_share={config.imitation_share}: the follower walks to a goal of which "
                f"{type(env.task).__name__} tells the agent nothing: give 0, or the sensor PointGoal"
            )
        self.policy, self.config, self.frames = policy, config, 0
        self.workers = Workers() if workers is None else workers
        if policy.encoder is not None:
            prepare_encoder(policy.encoder, config)
        self.workers.broadcast(policy)
        own_seed = seed + self.workers.rank * env.num_envs
        self.collector = Collector(env, policy, config.num_steps, own_seed, config.autocast, config.num_parts)
        self.optimizer = make_optimizer(policy, config)
        self.generator = torch.Generator().manual_seed(seed)
        self._peak_rate = config.learning_rate
        if config.scale_learning_rate:
            self._peak_rate = scaled_learning_rate(
                config.learning_rate, config.num_steps, env.num_envs, config.num_minibatches, self.workers.size
            )

    def iterate(self, progress: float | None = None) -> Iteration:
        """Collect a rollout and learn from it.

        Args:
            progress: The share of the training that is over, the same for every worker; that of the frames if None.
        """
        config, clock = self.config, time.perf_counter()
        before, waited = dict(self.collector.seconds), self.workers.seconds
        progress = self.frames / config.total_frames if progress is None else progress
        expert = expert_share(progress, config.imitation_share)
        rollout = self._collect(expert)
        collected = time.perf_counter()

        for group in self.optimizer.param_groups:
            group["lr"] = self._peak_rate * schedule(progress)
        losses = self._learn(rollout, imitates=expert is not None)
        self.policy.update_moments(rollout.observed(slice(None, -1)), self.workers.total)
        totals = self.workers.sum({"frames": rollout.num_frames, **losses})
        self.frames += int(totals.pop("frames"))

        end = time.perf_counter()
        seconds = {part: spent - before[part] for part, spent in self.collector.seconds.items()}
        seconds["learn"] = end - collected - (self.workers.seconds - waited)
        seconds["wait"] = max(end - clock - sum(seconds.values()), 0.0)
        means = {name: total / self.workers.size for name, total in totals.items()}
        return Iteration(frames=self.frames, seconds=seconds, losses=means, episodes=rollout.episodes)

    def _collect(self, expert: float | None) -> Rollout:
        """A rollout, which ends early if most of the workers have theirs."""
        workers, num_steps = self.workers, self.config.num_steps
        if workers.size == 1:
            return self.collector.collect(expert)
        rollout = self.collector.collect(expert, cut=lambda rows: workers.is_late(rows / num_steps))
        workers.collected()
        return rollout

    def _learn(self, rollout: Rollout, imitates: bool) -> dict[str, float]:
        """Learn from a rollout, mini-batch by mini-batch; means of the parts of the loss."""
        config, parts = self.config, []
        advantages = gae(
            rollout.rewards, rollout.values, rollout.begun, rollout.bootstraps, config.gamma, config.gae_lambda
        )
        returns = advantages + rollout.values[:-1]
        for _ in range(config.num_epochs):
            for envs in minibatches(rollout.actions.shape[1], config.num_minibatches, self.generator):
                parts.append(self._improve(rollout, envs, advantages[:, envs], returns[:, envs], imitates))
        return {name: float(torch.stack([one[name] for one in parts]).mean()) for name in parts[0]}

    def _improve(
        self, rollout: Rollout, envs: Tensor, advantages: Tensor, returns: Tensor, imitates: bool
    ) -> dict[str, Tensor]:
        """One step of the optimizer on the rollouts of some environments; the parts of the loss."""
        config, actions = self.config, rollout.actions[:, envs]
        with torch.autocast(self.policy.device.type, torch.bfloat16, enabled=config.autocast):
            logits, values, _ = self.policy(
                rollout.observed(slice(None, -1), envs), rollout.state[:, envs], rollout.begun[:-1, envs]
            )
        if imitates:
            loss, parts = imitation_loss(logits, values, rollout.expert_actions[:, envs], returns, config.value_weight)
        else:
            if config.normalize_advantages:
                advantages = standardize(advantages, self.workers.total)
            loss, parts = ppo_loss(logits, values, actions, rollout.log_probs[:, envs], advantages, returns, config)
        self.optimizer.zero_grad()
        loss.backward()
        self.workers.average_gradients(self.policy, actions.numel())
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), config.max_grad_norm)
        self.optimizer.step()
        return {**parts, "grad_norm": norm.detach()}

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on to the same curve: tensors, arrays and plain values."""
        return {
            "frames": self.frames,
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "collector": self.collector.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that a PPO of the same arguments gave."""
        self.frames = state["frames"]
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.collector.set_state(state["collector"])


def prepare_encoder(encoder: nn.Module, config: PPOConfig) -> None:
    """Lay out and compile an encoder as a configuration says."""
    if config.channels_last:
        encoder.to(memory_format=torch.channels_last)
    if config.compile:
        encoder.compile()


def make_optimizer(policy: Policy, config: PPOConfig) -> torch.optim.Optimizer:
    """The optimizer that a configuration names; its learning rate is set at each iteration."""
    groups = lamb_groups(policy)
    if config.optimizer == "lamb":
        return Lamb(groups, lr=config.learning_rate, weight_decay=config.weight_decay)
    for group in groups:
        group.pop("trust", None)
    return torch.optim.AdamW(groups, lr=config.learning_rate, weight_decay=config.weight_decay, eps=EPSILON)


def gae(rewards: Tensor, values: Tensor, begun: Tensor, bootstraps: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2016) over rollouts in which episodes end and begin.

    Args:
        rewards: [T, N].
        values: [T + 1, N], the last row for what follows the rollout.
        begun: [T + 1, N] bool; where row t + 1 begins an episode, step t ended one.
        bootstraps: [T, N], what stands for the next value where step t ended an episode: 0 if it was terminated, the
            value of its last observation if it was cut off.
        gamma: Discount.
        gae_lambda: Share of the next step's advantage that counts here.

    Returns:
        Advantages [T, N].
    """
    ended = begun[1:]
    errors = rewards + gamma * torch.where(ended, bootstraps, values[1:]) - values[:-1]
    advantages, following = torch.empty_like(errors), torch.zeros_like(errors[0])
    for step in reversed(range(len(errors))):
        following = errors[step] + gamma * gae_lambda * following.masked_fill(ended[step], 0)
        advantages[step] = following
    return advantages


def minibatches(num_envs: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Split the environments at random into ``count`` parts, whose rollouts stay whole: indices [M] each."""
    yield from torch.randperm(num_envs, generator=generator).tensor_split(count)


def standardize(values: Tensor, total: Callable[[Tensor], Tensor]) -> Tensor:
    """Values of any shape with mean 0 and deviation 1 over all workers, whose sums ``total`` makes."""
    exact = values.double()
    count, linear, square = total(torch.stack([torch.ones_like(exact).sum(), exact.sum(), exact.square().sum()]))
    mean = linear / count
    deviation = (square / count - mean**2).clamp(min=0).sqrt()
    return ((exact - mean) / (deviation + 1e-8)).to(values.dtype)


def ppo_loss(
    logits: Tensor,
    values: Tensor,
    actions: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    returns: Tensor,
    config: PPOConfig,
) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO's clipped loss (Schulman et al. 2017), of any shape of steps.

    Args:
        logits: [..., 4], the policy's now.
        values: [...], the critic's now.
        actions: [...] int64, taken.
        old_log_probs: [...], of the actions when they were taken.
        advantages: [...].
        returns: [...], what the critic should have said.
        config: Weights and the range of the clip.

    Returns:
        The loss and its parts without gradients: policy, value, entropy, kl (an estimate) and clipped (a share).
    """
    all_log_probs = logits.log_softmax(-1)
    log_ratio = all_log_probs.gather(-1, actions[..., None]).squeeze(-1) - old_log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    policy_loss = -torch.minimum(ratio * advantages, clipped * advantages).mean()
    value_loss = 0.5 * (returns - values).square().mean()
    entropy = -(all_log_probs.exp() * all_log_probs).sum(-1).mean()
    loss = policy_loss + config.value_weight * value_loss - config.entropy_weight * entropy
    parts = {
        "policy": policy_loss,
        "value": value_loss,
        "entropy": entropy,
        "kl": (ratio - 1 - log_ratio).mean(),
        "clipped": (ratio != clipped).float().mean(),
    }
    return loss, {name: value.detach() for name, value in parts.items()}
