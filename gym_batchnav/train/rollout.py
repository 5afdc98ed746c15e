"""Rollouts: T steps of N environments as the policy met them, in arrays whose axis 1 is the environment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from gym_batchnav.env import BatchNavEnv
from gym_batchnav.train.policy import PREVIOUS_ACTION, Policy


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

    Attributes:
        seconds: Seconds spent on ``"simulate"`` and on ``"infer"`` since it was made.
    """

    def __init__(self, env: BatchNavEnv, policy: Policy, num_steps: int, seed: int = 0, autocast: bool = False) -> None:
        if env.autoreset_mode != AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset_mode {env.autoreset_mode.name}: training needs autoreset_mode='same_step'")
        self.env, self.policy, self.num_steps, self.autocast = env, policy, num_steps, autocast
        self.generator = torch.Generator(policy.device).manual_seed(seed)
        self.seconds = {"simulate": 0.0, "infer": 0.0}
        observation, _ = env.reset(seed=seed)
        self._rollout = _empty_rollout(policy, num_steps, env.num_envs, observation)
        self._row = 0  # where the present observation stands
        self._state = policy.initial_state(env.num_envs)
        self._put(0, observation, np.zeros(env.num_envs, np.int64), np.ones(env.num_envs, bool))

    @torch.no_grad()
    def collect(self, expert_share: float | None = None) -> Rollout:
        """Act for T steps.

        Args:
            expert_share: The share of actions that are the shortest-path follower's instead of the policy's own; its
                actions are recorded at every step. None does not ask it.

        Returns:
            The rollout, whose arrays the next call writes over.
        """
        rollout = self._rollout
        for values in (*rollout.observations.values(), rollout.begun):
            values[0] = values[self._row]
        rollout.state = self._state
        ended = [self._step(step, expert_share) for step in range(self.num_steps)]
        self._row = self.num_steps
        _, rollout.values[self._row], _ = self._infer(rollout.observed(self._row), rollout.begun[self._row])
        rollout.episodes = {name: np.concatenate([measures[name] for measures in ended]) for name in ended[0]}
        return rollout

    def get_state(self) -> dict[str, Any]:
        """All that ``set_state`` needs to go on from here, the environment's state included."""
        return {
            "env": self.env.get_state(),
            "memory": self._state.cpu(),
            "begun": self._rollout.begun[self._row].cpu().numpy().copy(),
            "previous_action": self._rollout.observations[PREVIOUS_ACTION][self._row].cpu().numpy().copy(),
            "generator": self.generator.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state that a collector of the same arguments gave."""
        self._row, self._state = 0, state["memory"].to(self.policy.device)
        self.generator.set_state(state["generator"])
        self._put(0, self.env.set_state(state["env"]), state["previous_action"], state["begun"])

    def _step(self, step: int, expert_share: float | None) -> dict[str, np.ndarray]:
        """Choose actions for row ``step``, take them, and note what came of it; measures of episodes that ended."""
        rollout = self._rollout
        logits, rollout.values[step], self._state = self._infer(rollout.observed(step), rollout.begun[step])
        actions = torch.multinomial(logits.softmax(-1), 1, generator=self.generator).squeeze(-1)
        if expert_share is not None:
            expert = torch.as_tensor(self.env.shortest_path_actions(), device=actions.device)
            rollout.expert_actions[step] = expert
            chance = torch.rand(actions.shape, generator=self.generator, device=actions.device)
            actions = torch.where(chance < expert_share, expert, actions)
        rollout.actions[step] = actions
        rollout.log_probs[step] = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)

        taken = actions.cpu().numpy()
        clock = time.perf_counter()
        observation, reward, terminated, truncated, info = self.env.step(taken)
        self.seconds["simulate"] += time.perf_counter() - clock
        rollout.rewards[step] = torch.as_tensor(reward, dtype=torch.float32)
        rollout.bootstraps[step] = 0
        if truncated.any():
            cut = np.nonzero(truncated)[0]
            rollout.bootstraps[step, torch.as_tensor(cut)] = self._final_values(info["final_obs"], taken, cut)
        ended = terminated | truncated
        self._put(step + 1, observation, taken, ended)
        return {name: info["final_info"][name][ended] if ended.any() else np.zeros(0) for name in self._measures}

    @property
    def _measures(self) -> tuple[str, ...]:
        """What is reported of an episode when it ends."""
        return (*self.env.task.end_measures, "collisions_count")

    def _infer(self, observation: dict[str, Tensor], begun: Tensor, envs: Any = slice(None)) -> Any:
        """Logits, values and the next state for one step of some environments."""
        clock = time.perf_counter()
        with torch.autocast(begun.device.type, torch.bfloat16, enabled=self.autocast):
            result = self.policy(observation, self._state[:, envs], begun)
        self.seconds["infer"] += time.perf_counter() - clock
        return result

    def _final_values(self, final_obs: dict[str, Any], taken: np.ndarray, cut: np.ndarray) -> Tensor:
        """Values [M] of the last observations of the episodes in environments ``cut`` [M], which timed out."""
        device = self.policy.device
        rows = torch.as_tensor(cut, device=device)
        final = {name: torch.as_tensor(values)[rows].to(device) for name, values in final_obs.items()}
        final[PREVIOUS_ACTION] = torch.as_tensor(taken[cut], device=device)
        _, values, _ = self._infer(final, torch.zeros(len(cut), dtype=torch.bool, device=device), rows)
        return values

    def _put(self, row: int, observation: dict[str, Any], previous_action: np.ndarray, begun: np.ndarray) -> None:
        """Write what an environment returned into a row."""
        for name, values in {**observation, PREVIOUS_ACTION: previous_action}.items():
            self._rollout.observations[name][row] = torch.as_tensor(values)
        self._rollout.begun[row] = torch.as_tensor(begun)


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
