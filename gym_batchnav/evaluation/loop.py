"""EpisodeLoop: step a batch with an agent and report the episodes that end, in every autoreset mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from gym_batchnav.env.batch import batch_of
from gym_batchnav.evaluation.agents import Acting, as_agent


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One step of N environments.

    With autoreset modes NEXT_STEP and DISABLED, the batch still shows the last state of the episodes that ended, so
    that they can be filmed; with SAME_STEP their last observations are in ``info["final_obs"]``.
    """

    observation: Any  # by sensor, [N, ...]
    actions: np.ndarray  # [N, ...], as the agent chose them
    reward: np.ndarray  # [N] float64
    terminated: np.ndarray  # [N] bool
    acted: np.ndarray  # [N] bool, False where the step began an episode, none is left, or the agent waits for others
    ended: np.ndarray  # [N] bool, whether the step ended an episode
    num_steps: np.ndarray  # [N] int64, actions in the episode so far, including this one
    total_reward: np.ndarray  # [N] float64, undiscounted sum of rewards over those actions
    info: dict[str, Any]  # Gymnasium's infos of the step

    def ended_episodes(self) -> dict[str, np.ndarray]:
        """Return columns [M] of the M episodes that ended: environment, num_steps, total_reward and their infos.

        The infos hold ``scene_index``, ``episode_index`` and all measures of the task. Agents that took no part in the
        episode of their world are left out.
        """
        final = self.info.get("final_info", self.info)
        known = {name: values for name, values in final.items() if not name.startswith("_") and name != "final_obs"}
        columns = {**known, "num_steps": self.num_steps, "total_reward": self.total_reward}
        ended = self.ended & (self.num_steps > 0)
        rows = {name: values[ended] for name, values in columns.items() if isinstance(values, np.ndarray)}
        return {"environment": np.nonzero(ended)[0], **rows}


class EpisodeLoop:
    """A batch that is reset and then stepped with an agent.

    The agent receives a mask of the episodes that begin. Environments whose episode has ended are reset before the next
    step if the autoreset mode is DISABLED.

    Args:
        env: A batch, or a Gymnasium vector wrapper around one, whose observations the agent then receives.
        agent: An Agent, or a function from observations to actions [N].
        seed: Passed to ``env.reset``.
        options: Passed to ``env.reset``.

    Attributes:
        batch: The batch itself, without wrappers.
        observation: The newest observations; at first those of the reset.
    """

    def __init__(
        self, env: VectorEnv, agent: Acting, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> None:
        self.env = env
        self.batch = batch_of(env)
        size = self.batch.num_envs
        if env.num_envs != size:  # SelfPlay, whose opponents act by themselves
            raise ValueError(f"the wrapper shows {env.num_envs} of {size} agents: pass the batch itself")
        self._agent = as_agent(agent)
        self.observation: Any = env.reset(seed=seed, options=options)[0]
        self._agent.reset(self.batch)
        self._begun = np.ones(self.batch.num_envs, bool)
        self._ended = np.zeros(self.batch.num_envs, bool)
        self._num_steps = np.zeros(self.batch.num_envs, np.int64)
        self._total_reward = np.zeros(self.batch.num_envs)

    def __iter__(self) -> Iterator[Step]:
        """Yield steps without end; use ``break`` to leave the loop."""
        while True:
            yield self.step()

    def step(self) -> Step:
        """Take one step with the agent's actions."""
        mode = self.batch.autoreset_mode
        if mode == AutoresetMode.DISABLED and self._ended.any():
            self.observation = self.env.reset(options={"reset_mask": self._ended})[0]
            self._begun = self._ended
        ended_before = self._ended
        acted = self.batch.episodes.valid.copy()
        if mode == AutoresetMode.NEXT_STEP:
            acted &= ~ended_before
        if self.batch.worlds is not None:
            acted &= ~self.batch.worlds.waiting()
        self._num_steps = np.where(self._begun, 0, self._num_steps) + acted
        actions = self._agent.act(self.batch, self.observation, self._begun)
        self.observation, reward, terminated, truncated, info = self.env.step(actions)
        self._total_reward = np.where(self._begun, 0.0, self._total_reward) + reward
        self._ended = terminated | truncated
        if mode == AutoresetMode.SAME_STEP:
            self._begun = self._ended
        elif mode == AutoresetMode.NEXT_STEP:
            self._begun = ended_before
        else:
            self._begun = np.zeros_like(self._ended)
        return Step(
            self.observation, actions, reward, terminated, acted, self._ended, self._num_steps, self._total_reward, info
        )
