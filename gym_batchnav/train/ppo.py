"""Recurrent PPO for large batches. ``PPO.iterate`` is the algorithm; the functions below it are its parts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import torch
from torch import Tensor, nn

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import EnvConfig
from gym_batchnav.system.numbers import (
    check_between,
    check_choice,
    check_counts,
    check_flags,
    check_not_negative,
    check_positive,
    check_whole,
)
from gym_batchnav.train.distributed import Workers
from gym_batchnav.train.imitation import check_sensors, check_teacher, expert_share, imitation_loss
from gym_batchnav.train.lamb import EPSILON, Lamb, decay_groups, lamb_groups, learning_rate, scaled_learning_rate
from gym_batchnav.train.policy import DEPTH, GOAL, TEACHER_FEATURES, Policy
from gym_batchnav.train.rollout import Collector, Rollout
from gym_batchnav.train.shards import Shards

OPTIMIZERS = ("lamb", "adamw")
AUTO = "auto"
ENCODER_ALONE = 0.9  # the teacher's share of actions above which only the encoder learns
DEPTH_SHARD = 128  # frames that a thread learns from at a time when the encoder learns depth


@dataclass(frozen=True, slots=True)
class PPOConfig:
    """Hyper-parameters of PPO.

    The defaults are those of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021), except that
    time-outs are bootstrapped; docs/paper.md lists every difference from its code.

    Attributes:
        total_frames: Length of the schedule in environment steps, summed over environments.
        num_steps: T, steps per rollout.
        num_minibatches: Number of groups into which the environments are split for learning.
        num_epochs: Passes over each rollout.
        gamma: Discount.
        gae_lambda: Lambda of generalised advantage estimation.
        clip: Range of the probability ratio, 1 - clip to 1 + clip.
        value_weight: Weight of the critic's loss.
        entropy_weight: Weight of the entropy bonus.
        prediction_weight: Weight of the error in predicting sensors that the policy does not read, see ``Prediction``.
        depth_batch: Frames per mini-batch of a further pass over each rollout, in which the encoder of a policy that
            predicts depth learns only that; 0 for none. Small mini-batches teach it in many small steps what PPO's few
            large ones teach it slowly.
        max_grad_norm: Gradients are scaled down to this norm.
        normalize_advantages: Give the advantages of each mini-batch mean 0 and deviation 1.
        optimizer: ``"lamb"`` or ``"adamw"``.
        learning_rate: Base rate, for mini-batches of up to 256 frames.
        scale_learning_rate: Scale the rate to larger mini-batches, see ``lamb.scaled_learning_rate``.
        weight_decay: Weight decay; which parameters it applies to depends on the optimizer, see ``make_optimizer``.
        bootstrap_timeouts: At a time-out, bootstrap from the value of the last observation; otherwise a time-out counts
            as a terminal state.
        imitation_share: Share of the training, at its start, that imitates the teacher.
        teacher: ``"follower"`` of the shortest path, ``"mapper"`` or a policy, see ``imitation.make_teacher``.
        autocast: Compute the products and convolutions of networks, except those of actor and critic, in bfloat16, with
            torch's autocast; ``"auto"`` on processors with AVX512_BF16 or AMX and GPUs of compute capability 8 or
            higher. Other processors learn several times more slowly with it.
        channels_last: Store the encoder's weights in the channels-last memory format, for tensor cores.
        compile: Compile the encoder with torch.compile, which needs a C++ compiler and, on a GPU, Triton.
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
    prediction_weight: float = 0.25
    depth_batch: int = 0
    max_grad_norm: float = 1.0
    normalize_advantages: bool = False
    optimizer: str = "lamb"
    learning_rate: float = 5e-4
    scale_learning_rate: bool = True
    weight_decay: float = 1e-2
    bootstrap_timeouts: bool = True
    imitation_share: float = 0.0
    teacher: str = "follower"
    autocast: bool | str = False
    channels_last: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        for name in ("total_frames", "num_steps", "num_minibatches", "num_epochs"):
            check_counts(**{name: getattr(self, name)})
        for name in ("gamma", "gae_lambda", "imitation_share"):
            check_between(0, 1, **{name: getattr(self, name)})
        for name in ("clip", "max_grad_norm", "learning_rate"):
            check_positive(**{name: getattr(self, name)})
        check_whole(depth_batch=self.depth_batch)
        for name in ("value_weight", "entropy_weight", "prediction_weight", "weight_decay"):
            check_not_negative(**{name: getattr(self, name)})
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("autocast", self.autocast, (True, False, AUTO))
        flags = ("normalize_advantages", "scale_learning_rate", "bootstrap_timeouts", "channels_last", "compile")
        check_flags(**{name: getattr(self, name) for name in flags})
        check_teacher(self.teacher)


@dataclass(frozen=True, slots=True)
class Iteration:
    """The results of one rollout and of learning from it."""

    frames: int  # of all workers, since training began
    seconds: dict[str, float]  # of this worker: the parts of the collector, learn, and wait
    losses: dict[str, float]  # terms of the loss, grad_norm and explained_variance; means over all workers
    episodes: dict[str, np.ndarray]  # [M] by measure, for the episodes of this worker that ended


def check_batch(batch: BatchNavEnv | EnvConfig, config: PPOConfig) -> None:
    """Raise ValueError unless hyper-parameters suit a batch, or its keywords."""
    sensors = batch.components.sensors
    if batch.num_envs < config.num_minibatches:
        raise ValueError(f"num_minibatches={config.num_minibatches}: pass at most num_envs={batch.num_envs}")
    if config.imitation_share == 0:
        return
    if GOAL not in sensors:
        raise ValueError(
            f"imitation_share={config.imitation_share}: the teacher walks to a goal that agents of "
            f"{type(batch.components.task).__name__} do not observe; pass 0 (--set ppo.imitation_share=0), or "
            "in Python add PointGoal() to sensors="
        )
    check_sensors(config.teacher, sensors)


class PPO:
    """Improves a policy in an environment, one rollout at a time.

    Args:
        env: A batch with autoreset mode SAME_STEP.
        policy: The policy, which is trained in place on its device.
        config: Hyper-parameters.
        seed: Seed of the environments, the actions and the mini-batches. Environment i of worker r of W is seeded with
            ``(seed * W + r) * N + i``, so that neither workers nor trainings of different seeds share a seed.
        workers: The processes that train the policy together, with the same number of environments each; None for this
            process alone. All start with the weights of worker 0.

    Attributes:
        policy: The policy.
        frames: Environment steps so far, summed over environments and workers.
    """

    def __init__(
        self, env: BatchNavEnv, policy: Policy, config: PPOConfig, seed: int = 0, workers: Workers | None = None
    ) -> None:
        check_batch(env, config)
        num_envs = env.num_envs
        self.policy = policy
        self.config = config
        self.frames = 0
        self.workers = Workers() if workers is None else workers
        if policy.encoder is not None:
            prepare_encoder(policy.encoder, config)
        self._lowers = has_bfloat16(policy.device) if config.autocast == AUTO else bool(config.autocast)
        self._parallel = self.workers.parallel(policy)
        self._has_worlds = env.worlds is not None
        alone = policy.device.type == "cpu" and self.workers.size == 1
        divides = alone and not self._has_worlds and not config.compile  # one thread compiles at a time
        self._shards = Shards(torch.get_num_threads()) if divides else None
        own_seed = (seed * self.workers.size + self.workers.rank) * num_envs
        self.collector = Collector(
            env,
            policy,
            config.num_steps,
            own_seed,
            self._lowers,
            config.bootstrap_timeouts,
            teacher=config.teacher if config.imitation_share > 0 else None,
            shards=self._shards,
        )
        self.optimizer = make_optimizer(policy, config)
        self._depth_optimizer: torch.optim.Optimizer | None = None
        if config.depth_batch and DEPTH in policy.predictions:
            assert policy.encoder is not None
            seeing = nn.ModuleList([policy.encoder, policy.predictions[DEPTH]])
            self._depth_optimizer = make_optimizer(seeing, config)
        self.generator = torch.Generator().manual_seed(seed)
        self._peak_rate = config.learning_rate
        if config.scale_learning_rate:
            self._peak_rate = scaled_learning_rate(
                config.learning_rate, config.num_steps, num_envs, config.num_minibatches, self.workers.size
            )

    def iterate(self, progress: float | None = None) -> Iteration:
        """Collect a rollout and learn from it.

        Args:
            progress: Completed share of the training, equal in all workers; None computes it from the frames.
        """
        config = self.config
        clock = time.perf_counter()
        before = dict(self.collector.seconds)
        waited = self.workers.seconds
        progress = self.frames / config.total_frames if progress is None else progress
        expert = expert_share(progress, config.imitation_share)
        for optimizer in filter(None, (self.optimizer, self._depth_optimizer)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(progress, config.learning_rate, self._peak_rate)
        rollout = self.collector.collect(expert)
        collected = time.perf_counter()
        losses = self._learn(rollout, expert)
        if self._depth_optimizer is not None:
            losses |= self._learn_depth(rollout, self._depth_optimizer)
        seconds = time.perf_counter() - collected
        self.policy.update_moments(rollout.observed(slice(None, -1)), self.workers.total)
        gathered = self.workers.gather((rollout.num_frames, losses))
        self.frames += sum(frames for frames, _ in gathered)

        end = time.perf_counter()
        parts = {part: spent - before[part] for part, spent in self.collector.seconds.items()}
        parts["learn"] = max(seconds - (self.workers.seconds - waited), 0.0)
        parts["wait"] = max(end - clock - sum(parts.values()), 0.0)
        means = {name: sum(others[name] for _, others in gathered) / self.workers.size for name in losses}
        return Iteration(frames=self.frames, seconds=parts, losses=means, episodes=rollout.episodes)

    def _learn(self, rollout: Rollout, expert: float | None) -> dict[str, float]:
        """Learn from a rollout, mini-batch by mini-batch; return the means of the terms of the loss.

        ``expert`` is the share of actions that the teacher took; None if it is not imitated.
        """
        config = self.config
        ended = rollout.begun | rollout.waiting  # an agent's own episode may end before that of its world
        advantages = gae(rollout.rewards, rollout.values, ended, rollout.bootstraps, config.gamma, config.gae_lambda)
        returns = advantages + rollout.values[:-1]
        groups = [
            envs
            for _ in range(config.num_epochs)
            for envs in minibatches(rollout.actions.shape[1], config.num_minibatches, self.generator)
        ]
        acted = [_acted(rollout, envs) for envs in groups]
        weights = self.workers.loss_weights([int(one.sum()) for one in acted])
        terms = [
            self._improve(rollout, envs, steps, weight, advantages[:, envs], returns[:, envs], expert)
            for envs, steps, weight in zip(groups, acted, weights, strict=True)
        ]
        means = {name: float(torch.stack([one[name] for one in terms]).mean()) for name in terms[0]}
        everywhere = _acted(rollout, slice(None))
        foreseen = explained_variance(advantages[everywhere], returns[everywhere], self.workers.total)
        return {**means, "explained_variance": foreseen}

    def _improve(
        self,
        rollout: Rollout,
        envs: Tensor,
        acted: Tensor,
        weight: float,
        advantages: Tensor,
        returns: Tensor,
        expert: float | None,
    ) -> dict[str, Tensor]:
        """Take one optimizer step on the rollouts of some environments; return the terms of the loss."""
        config = self.config
        if config.normalize_advantages and expert is None:
            advantages = torch.zeros_like(advantages).masked_scatter(
                acted, standardize(advantages[acted], self.workers.total)
            )
        self.optimizer.zero_grad()
        if self._shards is None:
            with self.workers.explains_lost_workers():
                loss, terms = self._loss(rollout, envs, acted, advantages, returns, expert)
                (loss * weight).backward()
        else:

            def loss_of(rows: slice) -> tuple[Tensor, dict[str, Tensor]]:
                return self._loss(rollout, envs[rows], acted[:, rows], advantages[:, rows], returns[:, rows], expert)

            terms = self._shards.backward(list(self.policy.parameters()), loss_of, len(envs))
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), config.max_grad_norm)
        self.optimizer.step()
        return {**terms, "grad_norm": norm.detach()}

    def _loss(
        self, rollout: Rollout, envs: Tensor, acted: Tensor, advantages: Tensor, returns: Tensor, expert: float | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of the rollouts of some environments, and its terms without gradients."""
        config = self.config
        actions = rollout.actions[:, envs]
        taught = rollout.taught[:, envs]
        old = rollout.log_probs[:, envs]
        observed = rollout.observed(slice(None, -1), envs)
        with torch.autocast(self.policy.device.type, torch.bfloat16, enabled=self._lowers):
            logits, values, _, predicted = self._parallel(
                observed, rollout.state[:, envs], rollout.begun[:-1, envs], predict=True
            )
        if self._has_worlds:
            logits, values, actions, taught = logits[acted], values[acted], actions[acted], taught[acted]
            old, advantages, returns = old[acted], advantages[acted], returns[acted]
        if expert is None:
            loss, terms = ppo_loss(logits, values, actions, old, advantages, returns, config)
            predicted.pop(TEACHER_FEATURES, None)  # those of an earlier rollout
        else:
            loss, terms = imitation_loss(logits, values, taught, returns, config.value_weight)
            if expert > ENCODER_ALONE and TEACHER_FEATURES in predicted:
                loss = 0 * loss  # the other weights may be the teacher's, see ``run.take_memory``
        for name, readings in predicted.items():
            error = self.policy.prediction_loss(name, readings, observed[name])
            loss = loss + config.prediction_weight * error
            terms[f"predict_{name}"] = error.detach()
        return loss, terms

    def _learn_depth(self, rollout: Rollout, optimizer: torch.optim.Optimizer) -> dict[str, float]:
        """Teach the encoder to predict the depth of all frames of a rollout, in small mini-batches; return the loss."""
        policy, config = self.policy, self.config
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        names = (DEPTH, *policy.encoder.channels.sensors)  # type: ignore[union-attr]
        frames = {name: values[:-1].flatten(0, 1) for name, values in rollout.observations.items() if name in names}
        rows = torch.randperm(rollout.num_frames, generator=self.generator).to(policy.device)
        losses = []
        for batch in rows.split(config.depth_batch):

            def loss_of(part: slice, batch: Tensor = batch) -> tuple[Tensor, dict[str, Tensor]]:
                with torch.autocast(policy.device.type, torch.bfloat16, enabled=self._lowers):
                    loss = policy.depth_loss({name: values[batch[part]] for name, values in frames.items()})
                return loss, {"depth": loss.detach()}

            if self._shards is None:
                optimizer.zero_grad()
                loss, terms = loss_of(slice(None))
                loss.backward()
                for parameter in parameters:
                    self.workers.total(parameter.grad).div_(self.workers.size)
            else:
                terms = self._shards.backward(parameters, loss_of, len(batch), DEPTH_SHARD)
            torch.nn.utils.clip_grad_norm_(parameters, config.max_grad_norm)
            optimizer.step()
            losses.append(terms["depth"])
        return {"depth": float(torch.stack(losses).mean())}

    def get_state(self) -> dict[str, Any]:
        """Return everything that ``set_state`` needs to resume the same run: tensors, arrays and plain values."""
        return {
            "frames": self.frames,
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "depth_optimizer": self._depth_optimizer and self._depth_optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "collector": self.collector.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from the state of a PPO with the same arguments."""
        self.frames = state["frames"]
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self._depth_optimizer is not None:
            self._depth_optimizer.load_state_dict(state["depth_optimizer"])
        self.generator.set_state(state["generator"])
        self.collector.set_state(state["collector"])


def prepare_encoder(encoder: nn.Module, config: PPOConfig) -> None:
    """Set the memory format of an encoder and compile it, if the configuration requests it."""
    if config.channels_last:
        for parameter in encoder.parameters():
            if parameter.ndim == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    if config.compile:
        encoder.compile()


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device has instructions for matrix products of bfloat16."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    features = llvm.get_host_cpu_features()
    return bool(features.get("avx512bf16") or features.get("amx-bf16"))


def _acted(rollout: Rollout, envs: Tensor | slice) -> Tensor:
    """Return the steps [T, M] bool of some environments in which agents acted instead of waiting for others."""
    acted = ~rollout.waiting[:-1, envs]
    return acted | ~acted.any()  # a loss over no steps has no mean


def make_optimizer(policy: nn.Module, config: PPOConfig) -> torch.optim.Optimizer:
    """Make the optimizer of a configuration; its learning rate is set in each iteration.

    Lamb decays all parameters, as in the paper's code; AdamW decays matrices and kernels only.
    """
    keywords: dict[str, Any] = {"lr": config.learning_rate, "weight_decay": config.weight_decay}
    if config.optimizer == "lamb":
        return Lamb(lamb_groups(policy), **keywords)
    return torch.optim.AdamW(decay_groups(policy), eps=EPSILON, **keywords)


def minibatches(num_envs: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Split the environments at random into ``count`` groups and yield their indices [M]."""
    yield from torch.randperm(num_envs, generator=generator).tensor_split(count)


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


def ppo_loss(
    logits: Tensor,
    values: Tensor,
    actions: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    returns: Tensor,
    config: PPOConfig,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Compute PPO's clipped loss (Schulman et al. 2017) over steps of any shape.

    Args:
        logits: [..., 4], of the current policy.
        values: [...], of the current critic.
        actions: [...] int64, the actions taken.
        old_log_probs: [...], log-probabilities of the actions when they were taken.
        advantages: [...].
        returns: [...], targets of the critic.
        config: Weights of the terms, and the clipping range.

    Returns:
        The loss and its terms without gradients: policy, value, entropy, kl (estimated) and clipped (share of
        clipped ratios).
    """
    all_log_probs = logits.log_softmax(-1)
    log_ratio = all_log_probs.gather(-1, actions[..., None]).squeeze(-1) - old_log_probs
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - config.clip, 1 + config.clip)
    policy_loss = -torch.minimum(ratio * advantages, clipped * advantages).mean()
    value_loss = 0.5 * (returns - values).square().mean()
    entropy = -(all_log_probs.exp() * all_log_probs).sum(-1).mean()
    loss = policy_loss + config.value_weight * value_loss - config.entropy_weight * entropy
    terms = {
        "policy": policy_loss,
        "value": value_loss,
        "entropy": entropy,
        "kl": (ratio - 1 - log_ratio).mean(),
        "clipped": (ratio != clipped).float().mean(),
    }
    return loss, {name: value.detach() for name, value in terms.items()}
