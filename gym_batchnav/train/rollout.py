"""Rollouts: T steps of N environments as tensors [T, N, ...], and the collector that fills them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.evaluation.agents import Agent
from gym_batchnav.evaluation.world import policy_actions
from gym_batchnav.train.imitation import make_teacher
from gym_batchnav.train.policy import PREVIOUS_ACTION, Policy
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
    expert_actions: Tensor  # [T, N] int64, the teacher's if recorded, else 0
    episodes: dict[str, np.ndarray]  # [M] by measure, of the episodes that ended

    def head(self, num_steps: int) -> Rollout:
        """Return the first ``num_steps`` steps, as views."""
        return replace(
            self,
            observations=self.observed(slice(num_steps + 1)),
            begun=self.begun[: num_steps + 1],
            waiting=self.waiting[: num_steps + 1],
            values=self.values[: num_steps + 1],
            actions=self.actions[:num_steps],
            log_probs=self.log_probs[:num_steps],
            rewards=self.rewards[:num_steps],
            bootstraps=self.bootstraps[:num_steps],
            expert_actions=self.expert_actions[:num_steps],
        )

    @property
    def num_frames(self) -> int:
        """The number of steps, summed over environments."""
        return self.actions.numel()

    def observed(self, rows: int | slice, envs: Tensor | slice = slice(None)) -> dict[str, Tensor]:
        """Return the observations of some rows and environments."""
        return {name: values[rows, envs] for name, values in self.observations.items()}


class Collector:
    """Steps one or more batches with a policy and fills one rollout after another, in place.

    With several batches that share a library, one is rendered while the policy acts for another.

    Args:
        envs: A batch, or several with equal observation spaces, whose environments are concatenated in the rollout.
            Their autoreset mode is SAME_STEP, so that every step belongs to an episode.
        policy: The policy, on any device.
        num_steps: T.
        seed: Seed of the actions and of environment 0; environment i of all batches is seeded with ``seed + i``.
        autocast: Infer in bfloat16.
        bootstrap_timeouts: Record the value of the last observation of episodes that time out.
        teacher: Whose actions are recorded for imitation, see ``imitation.make_teacher``; None if there is none.
        shards: Threads in which the policy acts; None acts in this one.

    Attributes:
        seconds: Seconds spent in ``collect`` so far: ``"simulate"`` and ``"render"`` as the batches report them, and
            ``"infer"`` for the rest. Time on a GPU is counted where the CPU waits for its results.

    Raises:
        ValueError: A batch has another autoreset mode or other actions than the policy, or the batches have different
            observation spaces.
    """

    def __init__(
        self,
        envs: BatchNavEnv | Sequence[BatchNavEnv],
        policy: Policy,
        num_steps: int,
        seed: int = 0,
        autocast: bool = False,
        bootstrap_timeouts: bool = True,
        teacher: str | None = None,
        shards: Shards | None = None,
    ) -> None:
        self.envs = as_batches(envs)
        for env in self.envs:
            policy_actions(env)
        self.policy = policy
        self.num_steps = num_steps
        self.autocast = autocast
        self.bootstrap_timeouts = bootstrap_timeouts
        self.num_envs = sum(env.num_envs for env in self.envs)
        self.generator = torch.Generator(policy.device).manual_seed(seed)
        self.seconds = {"simulate": 0.0, "render": 0.0, "infer": 0.0}
        self._shards = shards
        self._expert_seconds = 0.0
        self._row = 0  # row of the newest observation
        self._members: list[_Member] = []
        first = 0
        for env in self.envs:
            observation, _ = env.reset(seed=seed + first)
            if first == 0:
                self._rollout = _empty_rollout(policy, num_steps, self.num_envs, observation)
            columns = slice(first, first + env.num_envs)
            state = policy.initial_state(env.num_envs)
            member = _Member(env, columns, state, np.zeros(env.num_envs, np.int64))
            if teacher is not None:
                member.teacher = make_teacher(teacher)
                member.teacher.reset(env)
            self._put(0, columns, observation, member.taken, np.ones(env.num_envs, bool))
            self._put_waiting(0, member)
            self._members.append(member)
            first += env.num_envs

    @torch.no_grad()
    def collect(self, expert_share: float | None = None, cut: Callable[[int], bool] | None = None) -> Rollout:
        """Collect a rollout of T steps.

        Args:
            expert_share: Share of actions that come from the teacher instead of the policy; the teacher's actions are
                recorded at every step. None does not compute them, and needs no teacher.
            cut: Called after each step except the last with the number of steps so far; returning True ends the
                rollout early.

        Returns:
            The rollout, whose arrays the next call overwrites.
        """
        clock = time.perf_counter()
        simulated, rendered = self._environment_seconds()
        rollout = self._rollout
        for values in (*rollout.observations.values(), rollout.begun, rollout.waiting):
            values[0] = values[self._row]
        rollout.state = torch.cat([member.memory for member in self._members], 1)
        ended: list[dict[str, np.ndarray]] = []
        for step in range(self.num_steps):
            for member in self._members:  # one batch is rendered while the policy acts for the next
                if step > 0:
                    ended.append(self._receive(member, step - 1))
                self._send(member, step, expert_share)
            self._row = step + 1
            if self._row < self.num_steps and cut is not None and cut(self._row):
                break
        for member in self._members:
            ended.append(self._receive(member, self._row - 1))
            _, rollout.values[self._row, member.columns], _ = self._infer(member, self._row)
        rollout.episodes = {name: np.concatenate([measures[name] for measures in ended]) for name in ended[0]}
        spent = time.perf_counter() - clock
        simulated_now, rendered_now = self._environment_seconds()
        self.seconds["simulate"] += simulated_now - simulated
        self.seconds["render"] += rendered_now - rendered
        self.seconds["infer"] += spent - (simulated_now - simulated) - (rendered_now - rendered)
        return rollout if self._row == self.num_steps else rollout.head(self._row)

    def get_state(self) -> dict[str, Any]:
        """Return everything that ``set_state`` needs to resume from here, including the states of the batches."""
        return {
            "envs": [env.get_state() for env in self.envs],
            "memory": torch.cat([member.memory for member in self._members], 1).cpu(),
            "begun": self._rollout.begun[self._row].cpu().numpy().copy(),
            "previous_action": self._rollout.observations[PREVIOUS_ACTION][self._row].cpu().numpy().copy(),
            "generator": self.generator.get_state(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Resume from the state of a collector with the same arguments."""
        self._row = 0
        memory = state["memory"].to(self.policy.device)
        self.generator.set_state(state["generator"])
        for member, env_state in zip(self._members, state["envs"], strict=True):
            columns = member.columns
            member.memory = memory[:, columns]
            observation = member.env.set_state(env_state)
            self._put(0, columns, observation, state["previous_action"][columns], state["begun"][columns])
            self._put_waiting(0, member)

    def _send(self, member: _Member, step: int, expert_share: float | None) -> None:
        """Choose actions for row ``step`` of a batch and start its step."""
        rollout = self._rollout
        columns = member.columns
        logits, rollout.values[step, columns], member.memory = self._infer(member, step)
        actions = torch.multinomial(logits.softmax(-1), 1, generator=self.generator).squeeze(-1)
        if expert_share is not None:
            clock = time.perf_counter()
            chosen = self._taught(member, step)
            self._expert_seconds += time.perf_counter() - clock
            expert = torch.as_tensor(chosen, device=actions.device)
            rollout.expert_actions[step, columns] = expert
            chance = torch.rand(actions.shape, generator=self.generator, device=actions.device)
            actions = torch.where(chance < expert_share, expert, actions)
        rollout.actions[step, columns] = actions
        rollout.log_probs[step, columns] = logits.log_softmax(-1).gather(-1, actions[:, None]).squeeze(-1)
        member.taken = actions.cpu().numpy()
        member.env.send(member.taken)

    def _taught(self, member: _Member, row: int) -> np.ndarray:
        """Return the teacher's actions [n] for a row of a batch."""
        if member.teacher is None:
            raise ValueError("expert_share without a teacher: pass teacher= to the collector")
        seen = self._rollout.observed(row, member.columns)
        observation = {name: seen[name].cpu().numpy() for name in member.env.components.sensors if name in seen}
        return member.teacher.act(member.env, observation, self._rollout.begun[row, member.columns].cpu().numpy())

    def _receive(self, member: _Member, step: int) -> dict[str, np.ndarray]:
        """Record the results of row ``step`` of a batch; return the measures [M] of the episodes that ended."""
        rollout = self._rollout
        columns = member.columns
        observation, reward, terminated, truncated, info = member.env.recv()
        rollout.rewards[step, columns] = torch.as_tensor(reward, dtype=torch.float32, device=self.policy.device)
        rollout.bootstraps[step, columns] = 0
        if truncated.any() and self.bootstrap_timeouts:
            cut = np.nonzero(truncated)[0]
            rows = torch.as_tensor(columns.start + cut, device=self.policy.device)
            rollout.bootstraps[step, rows] = self._final_values(member, info["final_obs"], cut)
        ended = terminated | truncated
        self._put(step + 1, columns, observation, member.taken, ended)
        ended = ended & member.took_part
        self._put_waiting(step + 1, member)
        names = tuple(member.env.components.measures)
        return {name: info["final_info"][name][ended] if ended.any() else np.zeros(0) for name in names}

    def _environment_seconds(self) -> tuple[float, float]:
        """Return the seconds that the batches have spent on simulation and on rendering so far."""
        render = sum(env.timings["render"] for env in self.envs)
        return sum(sum(env.timings.values()) for env in self.envs) - render + self._expert_seconds, render

    def _infer(self, member: _Member, row: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits, values and the next memory for a row of a batch."""
        observation = self._rollout.observed(row, member.columns)
        return self._act(observation, member.memory, self._rollout.begun[row, member.columns])

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

    def _final_values(self, member: _Member, final_obs: dict[str, Any], cut: np.ndarray) -> Tensor:
        """Return the values [M] of the last observations of environments ``cut`` [M], whose episodes timed out."""
        device = self.policy.device
        final = {name: rows_on(values, cut, device) for name, values in final_obs.items()}
        final[PREVIOUS_ACTION] = torch.as_tensor(member.taken[cut], device=device)
        memory = member.memory[:, torch.as_tensor(cut, device=device)]
        _, values, _ = self._act(final, memory, torch.zeros(len(cut), dtype=torch.bool, device=device))
        return values

    def _put(
        self, row: int, columns: slice, observation: dict[str, Any], previous_action: np.ndarray, begun: np.ndarray
    ) -> None:
        """Write the observations of some environments into a row."""
        for name, values in {**observation, PREVIOUS_ACTION: previous_action}.items():
            self._rollout.observations[name][row, columns] = torch.as_tensor(values).to(self.policy.device)
        self._rollout.begun[row, columns] = torch.as_tensor(begun, device=self.policy.device)

    def _put_waiting(self, row: int, member: _Member) -> None:
        """Write into a row which agents of a batch wait for others of their worlds."""
        worlds = member.env.worlds
        if worlds is not None:
            waiting = torch.as_tensor(worlds.waiting(), device=self.policy.device)
            self._rollout.waiting[row, member.columns] = waiting
            member.took_part = worlds.took_part()


@dataclass(slots=True)
class _Member:
    """A batch, its columns of the rollout, and the policy's memory for it."""

    env: BatchNavEnv
    columns: slice  # environments of the rollout
    memory: Tensor  # [rows, n, H] float32
    taken: np.ndarray  # [n] int64, the last actions
    teacher: Agent | None = None
    took_part: np.ndarray | bool = True  # [n] bool, the agents in the current episodes of their worlds


def as_batches(envs: BatchNavEnv | Sequence[BatchNavEnv]) -> tuple[BatchNavEnv, ...]:
    """Return one or more batches as a tuple.

    Raises:
        ValueError: There is none, one has an autoreset mode other than SAME_STEP, or their observation spaces differ.
    """
    batches = (envs,) if isinstance(envs, BatchNavEnv) else tuple(envs)
    if not batches:
        raise ValueError("envs=(): pass one or more batches")
    for env in batches:
        if env.autoreset_mode != AutoresetMode.SAME_STEP:
            raise ValueError(f"autoreset_mode {env.autoreset_mode.name}: training needs autoreset_mode='same_step'")
        if env.single_observation_space != batches[0].single_observation_space:
            raise ValueError(
                "the batches have different observation spaces: make them with the same sensors, camera and task"
            )
    return batches


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
        expert_actions=zeros(num_steps, torch.int64),
        episodes={},
    )
