"""Rollouts: T steps of N environments as the policy met them, in arrays whose axis 1 is the environment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.train.policy import PREVIOUS_ACTION, Policy

_PER_STEP = ("actions", "log_probs", "rewards", "bootstraps", "expert_actions")  # of a Rollout: a row a step


@dataclass(slots=True)
class Rollout:
    """What happened in T steps of N environments. Row T of the longer arrays is what follows the last step."""

    observations: dict[str, Tensor]  # [T + 1, N, ...] by sensor, and previous_action int64
    begun: Tensor  # [T + 1, N] bool, an episode begins with this observation
    state: Tensor  # [rows, N, H] float32, what the policy remembered before row 0
    actions: Tensor  # [T, N] int64
    log_probs: Tensor  # [T, N] float32, of the actions, when they were chosen
    values: Tensor  # [T + 1, N] float32
    rewards: Tensor  # [T, N] float32
    bootstraps: Tensor  # [T, N] float32, value of the observation at which a time-out cut the episode off, else 0
    expert_actions: Tensor  # [T, N] int64, the shortest-path follower's where it was asked, else 0
    episodes: dict[str, np.ndarray]  # [M] by measure, of the episodes that ended

    def head(self, num_steps: int) -> Rollout:
        """Its first ``num_steps`` steps, as views."""
        longer = {"begun": self.begun[: num_steps + 1], "values": self.values[: num_steps + 1]}
        rows = {name: getattr(self, name)[:num_steps] for name in _PER_STEP}
        observations = self.observed(slice(num_steps + 1))
        return replace(self, observations=observations, **longer, **rows)

    @property
    def num_frames(self) -> int:
        """Steps of all environments together."""
        return self.actions.numel()

    def observed(self, rows: int | slice, envs: Tensor | slice = slice(None)) -> dict[str, Tensor]:
        """The observations of some rows and environments."""
        return {name: values[rows, envs] for name, values in self.observations.items()}


class Collector:
    """Steps an environment with a policy and fills one rollout after another, in place.

    Args:
        env: A batch whose autoreset mode is SAME_STEP, so that every step is one of an episode.
        policy: Acts.
        num_steps: T.
        seed: Of the environment and of the actions.
        autocast: Infer in bfloat16.
        num_parts: Into so many the batch is split. The pictures of one part may be drawn while the policy acts for
            another.

    Attributes:
        seconds: Seconds since it was made in which this thread was at ``"simulate"``, ``"render"`` and ``"infer"``.
    """

    def __init__(
        self,
        env: BatchNavEnv,
        policy: Policy,
        num_steps: int,
        seed: int = 0,
        autocast: bool = False,
        num_parts: int = 1,
    ) -> None:
        if env.autoreset_mode != AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset_mode {env.autoreset_mode.name}: training needs autoreset_mode='same_step'")
        self.env, self.policy, self.num_steps, self.autocast = env, policy, num_steps, autocast
        self.generator = torch.Generator(policy.device).manual_seed(seed)
        self.seconds = {"simulate": 0.0, "render": 0.0, "infer": 0.0}
        batches = (env,) if num_parts == 1 else env.split(num_parts)
        size = env.num_envs // len(batches)
        observed = [batch.reset(seed=seed)[0] for batch in batches]
        self._rollout = _empty_rollout(policy, num_steps, env.num_envs, observed[0])
        self._row = 0  # where the present observation stands
        self._parts = []
        for batch, observation, first in zip(batches, observed, range(0, env.num_envs, size), strict=True):
            part = _Part(batch, slice(first, first + size), policy.initial_state(size), np.zeros(size, np.int64))
            self._put(0, part.envs, observation, part.taken, np.ones(size, bool))
            self._parts.append(part)

    @torch.no_grad()
    def collect(self, expert_share: float | None = None, cut: Callable[[int], bool] | None = None) -> Rollout:
        """Act for T steps.

        Args:
            expert_share: The share of actions that are the shortest-path follower's instead of the policy's own; its
                actions are recorded at every step. None does not ask it.
            cut: Asked after each step but the last, with the number of steps so far: whether to end the rollout there.

        Returns:
            The rollout, whose arrays the next call writes over.
        """
        rollout = self._rollout
        for values in (*rollout.observations.values(), rollout.begun):
            values[0] = values[self._row]
        rollout.state = torch.cat([part.memory for part in self._parts], 1)
        ended: list[dict[str, np.ndarray]] = []
        for step in range(self.num_steps):
            for part in self._parts:  # while one is drawn, the policy acts for the next
                if step > 0:
                    ended.append(self._receive(part, step - 1))
                with self._inferring():
                    self._send(part, step, expert_share)
            self._row = step + 1
            if self._row < self.num_steps and cut is not None and cut(self._row):
                break
        for part in self._parts:
            ended.append(self._receive(part, self._row - 1))
            with self._inferring():
                _, rollout.values[self._row, part.envs], _ = self._infer(part, self._row)
        rollout.episodes = {name: np.concatenate([measures[name] for measures in ended]) for name in ended[0]}
        return rollout if self._row == self.num_steps else rollout.head(self._row)

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on from here, the environment's state included."""
        return {
            "env": self.env.get_state(),
            "memory": torch.cat([part.memory for part in self._parts], 1).cpu(),
            "begun": self._rollout.begun[self._row].cpu().numpy().copy(),
            "previous_action": self._rollout.observations[PREVIOUS_ACTION][self._row].cpu().numpy().copy(),
            "generator": self.generator.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that a collector of the same arguments gave."""
        self._row, memory = 0, state["memory"].to(self.policy.device)
        for part in self._parts:
            part.memory = memory[:, part.envs]
        self.generator.set_state(state["generator"])
        self._put(0, slice(None), self.env.set_state(state["env"]), state["previous_action"], state["begun"])

    def _send(self, part: _Part, step: int, expert_share: float | None) -> None:
        """Choose actions for row ``step`` of a part and begin to take them."""
        rollout, envs = self._rollout, part.envs
        logits, rollout.values[step, envs], part.memory = self._infer(part, step)
        actions = torch.multinomial(logits.softmax(-1), 1, generator=self.generator).squeeze(-1)
        if expert_share is not None:
            with self._simulating():
                asked = part.batch.shortest_path_actions()
            expert = torch.as_tensor(asked, device=actions.device)
            rollout.expert_actions[step, envs] = expert
            chance = torch.rand(actions.shape, generator=self.generator, device=actions.device)
            actions = torch.where(chance < expert_share, expert, actions)
        rollout.actions[step, envs] = actions
        rollout.log_probs[step, envs] = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)
        part.taken = actions.cpu().numpy()
        with self._simulating():
            part.batch.send(part.taken)

    def _receive(self, part: _Part, step: int) -> dict[str, np.ndarray]:
        """Note what came of the actions of row ``step``; measures of the episodes that ended."""
        rollout, envs = self._rollout, part.envs
        with self._simulating():
            observation, reward, terminated, truncated, info = part.batch.recv()
        rollout.rewards[step, envs] = torch.as_tensor(reward, dtype=torch.float32)
        rollout.bootstraps[step, envs] = 0
        if truncated.any():
            cut = np.nonzero(truncated)[0]
            with self._inferring():
                values = self._final_values(part, info["final_obs"], cut)
            rollout.bootstraps[step, torch.as_tensor(envs.start + cut)] = values
        ended = terminated | truncated
        self._put(step + 1, envs, observation, part.taken, ended)
        return {name: info["final_info"][name][ended] if ended.any() else np.zeros(0) for name in self._measures}

    @property
    def _measures(self) -> tuple[str, ...]:
        """What is reported of an episode when it ends."""
        return tuple(self.env.components.measures)

    @contextmanager
    def _simulating(self) -> Iterator[None]:
        """Count the time towards simulation, and to rendering what the environment says was that."""
        clock, drawn = time.perf_counter(), self.env.timings["render"]
        yield
        drawn = self.env.timings["render"] - drawn
        self.seconds["render"] += drawn
        self.seconds["simulate"] += time.perf_counter() - clock - drawn

    @contextmanager
    def _inferring(self) -> Iterator[None]:
        """Count the time towards inference, but for what is simulated within it.

        A GPU computes while Python goes on: its time shows where actions are fetched from it.
        """
        clock, simulated = time.perf_counter(), self.seconds["simulate"] + self.seconds["render"]
        yield
        simulated = self.seconds["simulate"] + self.seconds["render"] - simulated
        self.seconds["infer"] += time.perf_counter() - clock - simulated

    def _infer(self, part: _Part, row: int) -> Any:
        """Logits, values and the next memory for a row of a part."""
        observation = self._rollout.observed(row, part.envs)
        return self._act(observation, part.memory, self._rollout.begun[row, part.envs])

    def _act(self, observation: dict[str, Tensor], memory: Tensor, begun: Tensor) -> Any:
        """Logits, values and the next memory for one step of some environments."""
        with torch.autocast(begun.device.type, torch.bfloat16, enabled=self.autocast):
            return self.policy(observation, memory, begun)

    def _final_values(self, part: _Part, final_obs: dict[str, Any], cut: np.ndarray) -> Tensor:
        """Values [M] of the last observations of the episodes in a part's environments ``cut`` [M], which timed out."""
        device = self.policy.device
        rows = torch.as_tensor(cut, device=device)
        final = {name: torch.as_tensor(values)[rows].to(device) for name, values in final_obs.items()}
        final[PREVIOUS_ACTION] = torch.as_tensor(part.taken[cut], device=device)
        _, values, _ = self._act(final, part.memory[:, rows], torch.zeros(len(cut), dtype=torch.bool, device=device))
        return values

    def _put(
        self, row: int, envs: slice, observation: dict[str, Any], previous_action: np.ndarray, begun: np.ndarray
    ) -> None:
        """Write what some environments returned into a row."""
        for name, values in {**observation, PREVIOUS_ACTION: previous_action}.items():
            self._rollout.observations[name][row, envs] = torch.as_tensor(values)
        self._rollout.begun[row, envs] = torch.as_tensor(begun)


@dataclass(slots=True)
class _Part:
    """Environments that step together, and what the policy has for them between two steps."""

    batch: BatchNavEnv
    envs: slice  # which of the whole batch
    memory: Tensor  # [rows, n, H] float32
    taken: np.ndarray  # [n] int64, the last actions


def _empty_rollout(policy: Policy, num_steps: int, num_envs: int, observation: dict[str, Any]) -> Rollout:
    """A rollout of zeros, on the policy's device."""

    def zeros(rows: int, dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.zeros(rows, num_envs, *shape, dtype=dtype, device=policy.device)

    tensors = {name: torch.as_tensor(values) for name, values in observation.items()}
    observations = {name: zeros(num_steps + 1, values.dtype, *values.shape[1:]) for name, values in tensors.items()}
    return Rollout(
        observations={**observations, PREVIOUS_ACTION: zeros(num_steps + 1, torch.int64)},
        begun=zeros(num_steps + 1, torch.bool),
        state=policy.initial_state(num_envs),
        actions=zeros(num_steps, torch.int64),
        log_probs=zeros(num_steps, torch.float32),
        values=zeros(num_steps + 1, torch.float32),
        rewards=zeros(num_steps, torch.float32),
        bootstraps=zeros(num_steps, torch.float32),
        expert_actions=zeros(num_steps, torch.int64),
        episodes={},
    )
