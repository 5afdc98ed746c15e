"""Rollouts: T steps of N environments as tensors [T, N, ...], and the collector that fills them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.world import policy_actions
from gym_batchnav.state import NUM_ACTIONS
from gym_batchnav.train.imitation import make_teacher
from gym_batchnav.train.policy import PREVIOUS_ACTION, TEACHER_FEATURES, Policy
from gym_batchnav.train.shards import Shards


@dataclass(slots=True)
class Rollout:
    """T steps of N environments. Tensors with T + 1 rows also have a row after the last step."""

    observations: dict[str, Tensor]  # [T + 1, N, ...] by sensor, and previous_action int64
    begun: Tensor  # [T + 1, N] bool, an episode begins with this observation
    waiting: Tensor  # [T + 1, N] bool, the agent has ended its episode and waits for others: its action is ignored
    state: Tensor  # [rows, N, H] float32, the policy's memory before row 0
    actions: Tensor  # [T, N] int64
    log_probs: Tensor  # [T, N] float32, of the actions when they were chosen
    values: Tensor  # [T + 1, N] float32
    rewards: Tensor  # [T, N] float32
    bootstraps: Tensor  # [T, N] float32, value of the last observation where an episode timed out, else 0
    taught: Tensor  # [T, N, 4] float32, the teacher's probabilities of actions if recorded, else 0
    episodes: dict[str, np.ndarray]  # [M] by measure, of the episodes that ended

    @property
    def num_frames(self) -> int:
        """The number of steps, summed over environments."""
        return self.actions.numel()

    def observed(self, rows: int | slice, envs: Tensor | slice = slice(None)) -> dict[str, Tensor]:
        """Return the observations of some rows and environments."""
        return {name: values[rows, envs] for name, values in self.observations.items()}


class Collector:
    """Steps a batch with a policy and fills one rollout after another, in place.

    The autoreset mode is SAME_STEP, so that every step belongs to an episode. The seed is that of the actions and of
    environment 0; environment i is seeded with ``seed + i``. The options are those of PPOConfig; without shards, the
    policy acts in this thread.

    Attributes:
        seconds: Seconds spent in ``collect`` so far: ``"simulate"`` and ``"render"`` as the batch reports them, and
            ``"infer"`` for the rest. Time on a GPU is counted where the CPU waits for its results.

    Raises:
        ValueError: The batch has another autoreset mode, other actions than the policy, or not what the teacher reads.
    """

    def __init__(
        self,
        env: BatchNavEnv,
        policy: Policy,
        num_steps: int,
        seed: int = 0,
        autocast: bool = False,
        bootstrap_timeouts: bool = True,
        teacher: str | None = None,
        shards: Shards | None = None,
    ) -> None:
        if env.autoreset_mode != AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset_mode {env.autoreset_mode.name}: training needs autoreset_mode='same_step'")
        policy_actions(env)
        self.env = env
        self.policy = policy
        self.num_steps = num_steps
        self.autocast = autocast
        self.bootstrap_timeouts = bootstrap_timeouts
        self.generator = torch.Generator(policy.device).manual_seed(seed)
        self.seconds = {"simulate": 0.0, "render": 0.0, "infer": 0.0}
        self._shards = shards
        self._expert_seconds = 0.0
        self._row = 0  # row of the newest observation
        observation, _ = env.reset(seed=seed)
        self._memory = policy.initial_state(env.num_envs)  # [rows, N, H] float32
        self._rollout = _empty_rollout(policy, num_steps, env.num_envs, observation)
        self._teacher = None if teacher is None else make_teacher(teacher, policy.device)
        self._took_part: np.ndarray | bool = True  # [N] bool, the agents in the current episodes of their worlds
        if self._teacher is not None:
            self._teacher.reset(env)
        if self._teacher is not None and self._teacher.num_features:
            shape = (num_steps + 1, env.num_envs, self._teacher.num_features)
            self._rollout.observations[TEACHER_FEATURES] = torch.zeros(shape, device=policy.device)
        self._put(0, observation, np.zeros(env.num_envs, np.int64), np.ones(env.num_envs, bool))

    @torch.no_grad()
    def collect(self, expert_share: float | None = None) -> Rollout:
        """Collect and return a rollout of T steps, whose arrays the next call overwrites.

        Args:
            expert_share: Share of actions that come from the teacher instead of the policy; the teacher's actions are
                recorded at every step. None lets the policy take all of them.
        """
        clock = time.perf_counter()
        simulated, rendered = self._environment_seconds()
        if self._teacher is not None and expert_share is None:
            self._teacher.reset(self.env)  # a longer run may imitate it again
        rollout = self._rollout
        for values in (*rollout.observations.values(), rollout.begun, rollout.waiting):
            values[0] = values[self._row]
        rollout.state = self._memory
        ended = [self._step(step, expert_share) for step in range(self.num_steps)]
        self._row = self.num_steps
        _, rollout.values[self._row], _ = self._infer(self._row)
        rollout.episodes = {name: np.concatenate([measures[name] for measures in ended]) for name in ended[0]}
        spent = time.perf_counter() - clock
        simulated_now, rendered_now = self._environment_seconds()
        self.seconds["simulate"] += simulated_now - simulated
        self.seconds["render"] += rendered_now - rendered
        self.seconds["infer"] += spent - (simulated_now - simulated) - (rendered_now - rendered)
        return rollout

    def get_state(self) -> dict[str, Any]:
        """Return everything that ``set_state`` needs to resume from here, including the state of the batch."""
        return {
            "env": self.env.get_state(),
            "memory": self._memory.cpu(),
            "teacher": None if self._teacher is None else self._teacher.get_state(),
            "begun": self._rollout.begun[self._row].cpu().numpy().copy(),
            "previous_action": self._rollout.observations[PREVIOUS_ACTION][self._row].cpu().numpy().copy(),
            "generator": self.generator.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from the state of a collector with the same arguments."""
        self._row = 0
        self._memory = state["memory"].to(self.policy.device)
        self.generator.set_state(state["generator"])
        if self._teacher is not None:
            self._teacher.set_state(state["teacher"])
        self._put(0, self.env.set_state(state["env"]), state["previous_action"], state["begun"])

    def _step(self, step: int, expert_share: float | None) -> dict[str, np.ndarray]:
        """Act and record row ``step``; return the measures [M] of the episodes that ended."""
        rollout = self._rollout
        logits, rollout.values[step], self._memory = self._infer(step)
        actions = torch.multinomial(logits.softmax(-1), 1, generator=self.generator).squeeze(-1)
        if expert_share is not None:
            clock = time.perf_counter()
            rollout.taught[step] = self._taught(step)
            self._expert_seconds += time.perf_counter() - clock
            chance = torch.rand(actions.shape, generator=self.generator, device=actions.device)
            actions = torch.where(chance < expert_share, rollout.taught[step].argmax(-1), actions)
        rollout.actions[step] = actions
        rollout.log_probs[step] = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)
        taken = actions.cpu().numpy()
        observation, reward, terminated, truncated, info = self.env.step(taken)
        rollout.rewards[step] = torch.as_tensor(reward, dtype=torch.float32, device=self.policy.device)
        rollout.bootstraps[step] = 0
        if truncated.any() and self.bootstrap_timeouts:
            cut = np.nonzero(truncated)[0]
            rows = torch.as_tensor(cut, device=self.policy.device)
            rollout.bootstraps[step, rows] = self._final_values(info["final_obs"], cut, taken)
        ended = terminated | truncated
        took_part = self._took_part
        self._put(step + 1, observation, taken, ended)
        ended = ended & took_part
        names = tuple(self.env.components.measures)
        return {name: info["final_info"][name][ended] if ended.any() else np.zeros(0) for name in names}

    def _taught(self, row: int) -> Tensor:
        """Return the teacher's probabilities [N, 4] of actions for a row."""
        if self._teacher is None:
            raise ValueError("expert_share without a teacher: pass teacher= to the collector")
        return self._teacher.act(self._rollout.observed(row), self._rollout.begun[row])

    def _environment_seconds(self) -> tuple[float, float]:
        """Return the seconds spent on simulation, the teacher included, and on rendering so far."""
        render = self.env.timings["render"]
        return sum(self.env.timings.values()) - render + self._expert_seconds, render

    def _infer(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, values and the next memory for a row."""
        return self._act(self._rollout.observed(row), self._memory, self._rollout.begun[row])

    def _act(self, observation: dict[str, Tensor], memory: Tensor, begun: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, values and the next memory for one step of some environments."""

        def act(rows: slice) -> tuple[Tensor, Tensor, Tensor]:
            seen = {name: values[rows] for name, values in observation.items()}
            with torch.no_grad(), torch.autocast(begun.device.type, torch.bfloat16, enabled=self.autocast):
                return self.policy(seen, memory[:, rows], begun[rows])

        if self._shards is None:
            return act(slice(None))
        logits, values, memories = zip(*self._shards.map(act, len(begun)), strict=True)
        return torch.cat(logits), torch.cat(values), torch.cat(memories, dim=1)

    def _final_values(self, final_obs: dict[str, Any], cut: np.ndarray, taken: np.ndarray) -> Tensor:
        """Return the values [M] of the last observations of environments ``cut`` [M], whose episodes timed out."""
        device = self.policy.device
        final = {name: rows_on(values, cut, device) for name, values in final_obs.items()}
        final[PREVIOUS_ACTION] = torch.as_tensor(taken[cut], device=device)
        memory = self._memory[:, torch.as_tensor(cut, device=device)]
        _, values, _ = self._act(final, memory, torch.zeros(len(cut), dtype=torch.bool, device=device))
        return values

    def _put(self, row: int, observation: dict[str, Any], previous_action: np.ndarray, begun: np.ndarray) -> None:
        """Write observations into a row, and which agents wait for others of their worlds."""
        rollout = self._rollout
        device = self.policy.device
        for name, values in {**observation, PREVIOUS_ACTION: previous_action}.items():
            rollout.observations[name][row] = torch.as_tensor(values).to(device)
        rollout.begun[row] = torch.as_tensor(begun, device=device)
        worlds = self.env.worlds
        if worlds is not None:
            rollout.waiting[row] = torch.as_tensor(worlds.waiting(), device=device)
            self._took_part = worlds.took_part()


def rows_on(values: Any, rows: np.ndarray, device: torch.device) -> Tensor:
    """Return rows [M] of an array or tensor [N, ...] as a tensor on a device.

    The rows are selected on the device of the values, since torch cannot index a CPU tensor with a GPU tensor.
    """
    tensor = torch.as_tensor(values)
    return tensor[torch.as_tensor(rows, device=tensor.device)].to(device)


def _empty_rollout(policy: Policy, num_steps: int, num_envs: int, observation: dict[str, Any]) -> Rollout:
    """Return a rollout of zeros, on the policy's device."""

    def zeros(rows: int, dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.zeros(rows, num_envs, *shape, dtype=dtype, device=policy.device)

    tensors = {name: torch.as_tensor(values) for name, values in observation.items()}
    observations = {name: zeros(num_steps + 1, values.dtype, *values.shape[1:]) for name, values in tensors.items()}
    return Rollout(
        observations={**observations, PREVIOUS_ACTION: zeros(num_steps + 1, torch.int64)},
        begun=zeros(num_steps + 1, torch.bool),
        waiting=zeros(num_steps + 1, torch.bool),
        state=policy.initial_state(num_envs),
        actions=zeros(num_steps, torch.int64),
        log_probs=zeros(num_steps, torch.float32),
        values=zeros(num_steps + 1, torch.float32),
        rewards=zeros(num_steps, torch.float32),
        bootstraps=zeros(num_steps, torch.float32),
        taught=zeros(num_steps, torch.float32, NUM_ACTIONS),
        episodes={},
    )
