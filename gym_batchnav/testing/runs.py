"""Runs of a vector environment: recorded, checked step by step, and compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from gym_batchnav.testing.rules import Report
from gym_batchnav.testing.values import check_info, check_observation, check_outcome, misfit, same

KEPT = 16  # steps for which returned arrays must remain unchanged

RETURNED = ("observation", "rewards", "terminated", "truncated")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of one step for each environment, assigned to episodes in the same way for every autoreset mode."""

    observation: list[Any]  # N, of the episode that was acted in, the last one if it ended
    reward: np.ndarray  # [N]
    terminated: np.ndarray  # [N] bool
    truncated: np.ndarray  # [N] bool
    begun: dict[int, Any]  # by environment, first observations of episodes that began in or after the step

    @property
    def ended(self) -> np.ndarray:
        """Environments [N] bool whose episode ended."""
        return self.terminated | self.truncated

    def of(self, index: int) -> tuple[Any, ...]:
        """Return all results of environment ``index``."""
        return (*self.of_episode(index), self.begun.get(index))

    def of_episode(self, index: int) -> tuple[Any, ...]:
        """Return the results of environment ``index`` in the episode that it acted in."""
        return (
            self.observation[index],
            float(self.reward[index]),
            bool(self.terminated[index]),
            bool(self.truncated[index]),
        )


@dataclass(frozen=True, slots=True)
class Run:
    """A reset and the steps after it."""

    first: list[Any]  # N observations
    outcomes: list[Outcome]

    def ends(self) -> list[tuple[int, int, Any, Any]]:
        """List step, environment, last and next first observation of every episode that is followed by another."""
        found = []
        waiting: dict[int, tuple[int, Any]] = {}
        for step, outcome in enumerate(self.outcomes):
            waiting.update({int(i): (step, outcome.observation[i]) for i in np.nonzero(outcome.ended)[0]})
            for index in set(waiting) & set(outcome.begun):
                at, last = waiting.pop(index)
                found.append((at, index, last, outcome.begun[index]))
        return found

    def reset_steps(self) -> np.ndarray:
        """Return in which steps NEXT_STEP began an episode instead of acting, [steps, N] bool."""
        began = np.zeros((len(self.outcomes), len(self.first)), bool)
        for step, outcome in enumerate(self.outcomes[:-1]):
            began[step + 1] = outcome.ended
        return began


class Runner:
    """A runner that plays runs on an environment and checks every returned value.

    Args:
        env: The environment.
        mode: Its autoreset mode.
        report: Receives failures.
        reuses_buffers: Whether the environment may overwrite arrays that it returned.
    """

    def __init__(self, env: VectorEnv, mode: AutoresetMode, report: Report, reuses_buffers: bool) -> None:
        self.env = env
        self.mode = mode
        self.report = report
        self.reuses_buffers = reuses_buffers

    def reset(self, seed: Any, mask: np.ndarray | None = None, step: int | None = None) -> list[Any]:
        """Reset the environments of a mask [N] bool, or all, and return all N observations."""
        return self._rows(self._reset(seed, mask, step))

    def run(self, seed: int, actions: Sequence[Any]) -> Run:
        """Reset with a seed, then take the actions, one batch per step."""
        observation = self._reset(seed)
        run = Run(self._rows(observation), [])
        ended = np.zeros(self.env.num_envs, bool)
        held: deque[tuple[int | None, Any, Any]] = deque([(None, (observation,), deepcopy((observation,)))])
        for step, batch in enumerate(actions):
            returned = self.env.step(deepcopy(batch))
            held.append((step, returned, deepcopy(returned)))
            run.outcomes.append(self._outcome(deepcopy(returned), ended, step))
            ended = run.outcomes[-1].ended
            if len(held) > KEPT:
                self._check_kept(*held.popleft())
        for kept in held:
            self._check_kept(*kept)
        return run

    def _reset(self, seed: Any, mask: np.ndarray | None = None, step: int | None = None) -> Any:
        """Reset the environments, check the result and return the batch of observations."""
        options = None if mask is None else {"reset_mask": mask.copy()}
        observation, info = self.env.reset(seed=seed, options=options)
        check_observation(self.env, observation, self.report, step)
        check_info(self.env, info, self.report, step)
        return observation

    def _outcome(self, returned: Any, ended_before: np.ndarray, step: int) -> Outcome:
        """Check the results of a step and assign them to episodes."""
        observation, reward, terminated, truncated, info = returned
        check_observation(self.env, observation, self.report, step)
        check_outcome(self.env, reward, terminated, truncated, self.report, step)
        check_info(self.env, info, self.report, step)
        terminated = np.asarray(terminated, bool)
        truncated = np.asarray(truncated, bool)
        outcome = Outcome(self._rows(observation), np.asarray(reward), terminated, truncated, {})
        if self.mode == AutoresetMode.NEXT_STEP:
            self._after_next_step(outcome, ended_before, step)
        elif self.mode == AutoresetMode.SAME_STEP:
            self._after_same_step(outcome, info, step)
        elif outcome.ended.any():
            self._after_disabled(outcome, step)
        return outcome

    def _after_next_step(self, outcome: Outcome, ended_before: np.ndarray, step: int) -> None:
        for index in np.nonzero(ended_before)[0].tolist():
            outcome.begun[index] = outcome.observation[index]
            if outcome.reward[index] != 0 or outcome.ended[index]:
                flags = f"terminated {outcome.terminated[index]}, truncated {outcome.truncated[index]}"
                message = f"the step after an end gave reward {outcome.reward[index]}, {flags}; expected 0 and no flags"
                self.report.fail("next_step", message, env=index, step=step)

    def _after_same_step(self, outcome: Outcome, info: dict[str, Any], step: int) -> None:
        for name in ("final_obs", "final_info"):
            mask = info.get(f"_{name}", np.zeros(self.env.num_envs, bool))
            if not np.array_equal(mask, outcome.ended):
                index = int(np.argmax(mask != outcome.ended))
                message = f"'_{name}' is {mask[index]} although terminated | truncated is {outcome.ended[index]}"
                self.report.fail("same_step", message, env=index, step=step)
                return
        ended = np.nonzero(outcome.ended)[0].tolist()
        last = self._final_rows(info["final_obs"], step) if ended else []
        for index in ended:
            if not self.env.single_observation_space.contains(last[index]):
                message = f"final_obs is outside {self.env.single_observation_space}"
                self.report.fail("same_step", message, env=index, step=step)
            outcome.begun[index], outcome.observation[index] = outcome.observation[index], last[index]

    def _after_disabled(self, outcome: Outcome, step: int) -> None:
        after = self.reset(None, outcome.ended, step)
        for index, row in enumerate(after):
            if outcome.ended[index]:
                outcome.begun[index] = row
            elif not same(row, outcome.observation[index]):
                message = "its observation changed in a reset with a reset_mask that excludes it"
                self.report.fail("disabled", message, env=index, step=step)

    def _final_rows(self, final: Any, step: int) -> list[Any]:
        """Return the N final observations from an array of objects (as in Gymnasium) or from one batch."""
        if isinstance(final, np.ndarray) and final.dtype == object and final.shape == (self.env.num_envs,):
            return list(final)
        wrong = misfit(self.env.observation_space, final, "final_obs")
        if wrong:
            self.report.fail("same_step", wrong, step=step)
            return [None] * self.env.num_envs
        return list(iterate(self.env.observation_space, final))

    def _check_kept(self, step: int | None, returned: tuple[Any, ...], copy: tuple[Any, ...]) -> None:
        """Check that the values a step (None: a reset) returned are unchanged, except infos."""
        for part, now, then in zip(RETURNED, returned, copy):  # noqa: B905 - a reset has only the first part
            if not self.reuses_buffers and not same(then, now):
                self.report.fail("buffers", f"the {part} returned here was overwritten later; return a copy", step=step)

    def _rows(self, observation: Any) -> list[Any]:
        return deepcopy(list(iterate(self.env.observation_space, observation)))


def random_actions(env: VectorEnv, steps: int, seed: int) -> list[Any]:
    """Return ``steps`` batches of random actions, without drawing from the environment's own action space."""
    space = batch_space(deepcopy(env.single_action_space), env.num_envs)
    space.seed(seed)
    return [space.sample() for _ in range(steps)]


def mixed_actions(env: VectorEnv, actions: list[Any], others: list[Any], where: np.ndarray) -> list[Any]:
    """Return the batches of ``actions`` with those of ``others`` where ``where`` [steps, N] is True."""
    mixed = []
    for one, other, chosen in zip(actions, others, where, strict=True):
        pairs = zip(iterate(env.action_space, one), iterate(env.action_space, other), chosen, strict=True)
        rows = [b if taken else a for a, b, taken in pairs]
        empty: Any = create_empty_array(env.single_action_space, env.num_envs)
        mixed.append(concatenate(env.single_action_space, rows, empty))
    return mixed
