"""Runs of a vector environment: recorded, checked as they go, and compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from gym_batchnav.testing.report import Report
from gym_batchnav.testing.values import check_info, check_observation, check_outcome, misfit, same

KEPT = 16  # steps for which returned arrays are watched

PARTS = ("observation", "rewards", "terminated", "truncated")


@dataclass(frozen=True, slots=True)
class Turn:
    """What a step brought each environment, whatever the autoreset mode."""

    observation: list[Any]  # N, of the episode that was acted in: the last one where it ended
    reward: np.ndarray  # [N]
    terminated: np.ndarray  # [N] bool
    truncated: np.ndarray  # [N] bool
    begun: dict[int, Any]  # by environment, first observations of episodes that began in or after the step

    @property
    def ended(self) -> np.ndarray:
        """Environments [N] bool whose episode ended."""
        return self.terminated | self.truncated

    def of(self, index: int) -> tuple[Any, ...]:
        """All that environment ``index`` got."""
        return (*self.of_episode(index), self.begun.get(index))

    def of_episode(self, index: int) -> tuple[Any, ...]:
        """What environment ``index`` got of the episode that it acted in."""
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
    turns: list[Turn]

    def ends(self) -> list[tuple[int, int, Any, Any]]:
        """Step, environment, last observation and the next episode's first one, for every end that has a next."""
        found = []
        waiting: dict[int, tuple[int, Any]] = {}
        for step, turn in enumerate(self.turns):
            waiting.update({int(i): (step, turn.observation[i]) for i in np.nonzero(turn.ended)[0]})
            for index in set(waiting) & set(turn.begun):
                at, last = waiting.pop(index)
                found.append((at, index, last, turn.begun[index]))
        return found

    def reset_steps(self) -> np.ndarray:
        """[steps, N] bool: with NEXT_STEP, where a step began an episode instead of acting."""
        began = np.zeros((len(self.turns), len(self.first)), bool)
        for step, turn in enumerate(self.turns[:-1]):
            began[step + 1] = turn.ended
        return began


class Runner:
    """Plays runs on an environment and checks every value that it returns.

    Args:
        env: The environment.
        mode: Its autoreset mode.
        report: Where failures go.
        reuses_buffers: Whether it may write again into arrays that it returned.
    """

    def __init__(self, env: VectorEnv, mode: AutoresetMode, report: Report, reuses_buffers: bool) -> None:
        self.env, self.mode, self.report, self.reuses_buffers = env, mode, report, reuses_buffers

    def reset(self, seed: Any, mask: np.ndarray | None = None, step: int | None = None) -> list[Any]:
        """Reset the environments of a mask [N] bool, or all; returns all N observations."""
        return self._rows(self._reset(seed, mask, step))

    def run(self, seed: int, actions: Sequence[Any]) -> Run:
        """Reset with a seed, then take the actions, a batch of them a step."""
        observation = self._reset(seed)
        run = Run(self._rows(observation), [])
        ended = np.zeros(self.env.num_envs, bool)
        held: deque[tuple[int | None, Any, Any]] = deque([(None, (observation,), deepcopy((observation,)))])
        for step, batch in enumerate(actions):
            returned = self.env.step(deepcopy(batch))
            held.append((step, returned, deepcopy(returned)))
            run.turns.append(self._turn(deepcopy(returned), ended, step))
            ended = run.turns[-1].ended
            if len(held) > KEPT:
                self._check_kept(*held.popleft())
        for kept in held:
            self._check_kept(*kept)
        return run

    def _reset(self, seed: Any, mask: np.ndarray | None = None, step: int | None = None) -> Any:
        """The batch of observations of a reset, checked, as the environment returned it."""
        options = None if mask is None else {"reset_mask": mask.copy()}
        observation, info = self.env.reset(seed=seed, options=options)
        check_observation(self.env, observation, self.report, step)
        check_info(self.env, info, self.report, step)
        return observation

    def _turn(self, returned: Any, ended_before: np.ndarray, step: int) -> Turn:
        """Check what a step returned and sort it by episode."""
        observation, reward, terminated, truncated, info = returned
        check_observation(self.env, observation, self.report, step)
        check_outcome(self.env, reward, terminated, truncated, self.report, step)
        check_info(self.env, info, self.report, step)
        terminated, truncated = np.asarray(terminated, bool), np.asarray(truncated, bool)
        turn = Turn(self._rows(observation), np.asarray(reward), terminated, truncated, {})
        if self.mode == AutoresetMode.NEXT_STEP:
            self._after_next_step(turn, ended_before, step)
        elif self.mode == AutoresetMode.SAME_STEP:
            self._after_same_step(turn, info, step)
        elif turn.ended.any():
            self._after_disabled(turn, step)
        return turn

    def _after_next_step(self, turn: Turn, ended_before: np.ndarray, step: int) -> None:
        for index in np.nonzero(ended_before)[0].tolist():
            turn.begun[index] = turn.observation[index]
            if turn.reward[index] != 0 or turn.ended[index]:
                flags = f"terminated {turn.terminated[index]}, truncated {turn.truncated[index]}"
                message = f"the step after an end gave reward {turn.reward[index]}, {flags}; expected 0 and no flags"
                self.report.fail("next_step", message, env=index, step=step)

    def _after_same_step(self, turn: Turn, info: dict[str, Any], step: int) -> None:
        for name in ("final_obs", "final_info"):
            mask = info.get(f"_{name}", np.zeros(self.env.num_envs, bool))
            if not np.array_equal(mask, turn.ended):
                index = int(np.argmax(mask != turn.ended))
                message = f"'_{name}' is {mask[index]} although terminated | truncated is {turn.ended[index]}"
                self.report.fail("same_step", message, env=index, step=step)
                return
        ended = np.nonzero(turn.ended)[0].tolist()
        last = self._final_rows(info["final_obs"], step) if ended else []
        for index in ended:
            if not self.env.single_observation_space.contains(last[index]):
                message = f"final_obs is outside {self.env.single_observation_space}"
                self.report.fail("same_step", message, env=index, step=step)
            turn.begun[index], turn.observation[index] = turn.observation[index], last[index]

    def _after_disabled(self, turn: Turn, step: int) -> None:
        after = self.reset(None, turn.ended, step)
        for index, row in enumerate(after):
            if turn.ended[index]:
                turn.begun[index] = row
            elif not same(row, turn.observation[index]):
                message = "its observation changed in a reset whose reset_mask left it out"
                self.report.fail("disabled", message, env=index, step=step)

    def _final_rows(self, final: Any, step: int) -> list[Any]:
        """The N final observations, given as an array of objects (Gymnasium's way) or as one batch."""
        if isinstance(final, np.ndarray) and final.dtype == object and final.shape == (self.env.num_envs,):
            return list(final)
        wrong = misfit(self.env.observation_space, final, "final_obs")
        if wrong:
            self.report.fail("same_step", wrong, step=step)
            return [None] * self.env.num_envs
        return list(iterate(self.env.observation_space, final))

    def _check_kept(self, step: int | None, returned: tuple[Any, ...], copy: tuple[Any, ...]) -> None:
        """What a step (None: a reset) returned is still as it was; infos may hold clocks and are not looked at."""
        for part, now, then in zip(PARTS, returned, copy):  # noqa: B905 - a reset has only the first part
            if not self.reuses_buffers and not same(then, now):
                self.report.fail("buffers", f"the {part} returned here was overwritten later; return a copy", step=step)

    def _rows(self, observation: Any) -> list[Any]:
        return deepcopy(list(iterate(self.env.observation_space, observation)))


def random_actions(env: VectorEnv, steps: int, seed: int) -> list[Any]:
    """``steps`` batches of random actions; the environment's own action space is left alone."""
    space = batch_space(deepcopy(env.single_action_space), env.num_envs)
    space.seed(seed)
    return [space.sample() for _ in range(steps)]


def mixed_actions(env: VectorEnv, actions: list[Any], others: list[Any], where: np.ndarray) -> list[Any]:
    """The batches of ``actions``, with those of ``others`` where ``where`` [steps, N] says so."""
    mixed = []
    for one, other, chosen in zip(actions, others, where, strict=True):
        pairs = zip(iterate(env.action_space, one), iterate(env.action_space, other), chosen, strict=True)
        rows = [b if taken else a for a, b, taken in pairs]
        empty: Any = create_empty_array(env.single_action_space, env.num_envs)
        mixed.append(concatenate(env.single_action_space, rows, empty))
    return mixed
