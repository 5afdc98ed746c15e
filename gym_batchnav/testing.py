"""``check_vector_env``: checks any ``gymnasium.vector.VectorEnv`` against Gymnasium's contract."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

__all__ = ["CHECKS", "VectorEnvError", "check_vector_env"]

CHECKS = {
    "spaces": "the batched spaces are batch_space() of the single ones",
    "metadata": "metadata['autoreset_mode'] is an AutoresetMode",
    "observations": "observations lie in observation_space, with exactly its shapes and dtypes",
    "rewards": "rewards are finite floats [N]",
    "flags": "terminated and truncated are bool [N]",
    "infos": "infos are dicts with N entries per key, each with its mask '_key', bool [N]",
    "buffers": "returned arrays do not change later",
    "next_step": "the step after an end ignores its action, gives reward 0, no flags and the next first observation",
    "same_step": "an end gives final_obs and final_info with masks, and the next first observation",
    "disabled": "reset_mask begins an episode where it is true and does not affect the other environments",
    "seeding": "the same seed and actions give the same run",
    "independence": "an environment's actions do not change another's episode",
    "close": "close() may be called twice",
}
_KEPT = 16  # steps for which returned arrays must remain unchanged
_NEXT = "the first observation of its next episode"
_ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)

_same = partial(data_equivalence, exact=True)


def check_vector_env(
    env: VectorEnv | Callable[[], VectorEnv],
    *,
    steps: int = 200,
    seed: int = 0,
    skip: Collection[str] = (),
    reuses_buffers: bool = False,
) -> None:
    """Check a vector environment against Gymnasium's contract, by running it with random actions.

    The check runs the environment about ``4 + 2 log2(N)`` times and keeps two runs in memory, so use few environments,
    such as four. Runs with equal seeds are compared bit by bit; infos are not compared, since they may contain times.
    If no episode ends, a warning says that the start of the next one is not tested.

    Args:
        env: The environment, which is closed at the end, or a function that makes one. With a function, two instances
            with one seed must also give the same run.
        steps: Steps per run; enough for a few episodes to end.
        seed: Seed of the first run.
        skip: Names of checks to leave out, from ``CHECKS``. Without ``"seeding"``, no runs are compared at all.
        reuses_buffers: Whether the environment documents that it overwrites arrays that it returned.

    Raises:
        VectorEnvError: If a check fails; the message names the check, the environment and the step.
        TypeError: If ``env`` is not a vector environment and does not make one.
        ValueError: If ``skip`` has the name of an unknown check, or ``steps`` is below 2.
    """
    if steps < 2:
        raise ValueError(f"steps={steps}: pass at least 2, or better enough for episodes to end")
    if isinstance(skip, str) or not set(skip) <= set(CHECKS):
        raise ValueError(f"skip={skip!r}: pass a list of names from {', '.join(CHECKS)}")
    ignored = {*skip, "buffers"} if reuses_buffers else {*skip}
    tested = _made(env)
    try:
        checker = _Checker(tested, ignored)
        checker.check_spaces()
        actions, others = (_random_actions(tested, steps, seed + offset) for offset in (0, 1))
        run = checker.run(seed, actions)
        checker.check_ends(run)
        if "seeding" not in ignored:
            again = checker.run(seed, actions)  # first, since the other checks compare runs
            checker.compare(run, again, "seeding", "{} differs from the first run with the same seed and actions")
            checker.check_reset_steps(run, seed, actions, others)
            checker.check_independence(run, seed, actions, others)
        if tested is not env and "seeding" not in ignored:
            with closing(_made(env)) as second:
                again = _Checker(second, ignored).run(seed, actions)
            checker.compare(run, again, "seeding", "{} differs between two instances with the same seed and actions")
    finally:
        tested.close()
    try:
        tested.close()
    except Exception as error:
        checker.fail("close", f"the second close() raised {type(error).__name__}: {error}")


class VectorEnvError(AssertionError):
    """The error of a vector environment that breaks a rule.

    Attributes:
        check: Name of the check, a key of CHECKS.
        env_index: The first environment that breaks it, or None.
        step: The step at which it breaks the rule, counted from 0; None for a reset and outside runs.
    """

    def __init__(self, check: str, message: str, env_index: int | None = None, step: int | None = None) -> None:
        self.check = check
        self.env_index = env_index
        self.step = step
        where = [] if env_index is None else [f"environment {env_index}"]
        if step is not None:
            where.append(f"step {step}")
        super().__init__(f"{', '.join([check, *where])}: {message} (the rule: {CHECKS[check]})")


@dataclass(frozen=True, slots=True)
class _Outcome:
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

    def of(self, index: int) -> dict[str, Any]:
        """Return all results of environment ``index`` by name."""
        return {
            "its observation": self.observation[index],
            "its reward": float(self.reward[index]),
            "terminated": bool(self.terminated[index]),
            "truncated": bool(self.truncated[index]),
            _NEXT: self.begun.get(index),
        }


@dataclass(frozen=True, slots=True)
class _Run:
    """A reset and the steps after it."""

    first: list[Any]  # N observations
    outcomes: list[_Outcome]

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


class _Checker:
    """Plays runs on an environment, checks every returned value and compares runs.

    Args:
        env: The environment.
        ignored: Names of checks whose failure is ignored.
    """

    def __init__(self, env: VectorEnv, ignored: Collection[str]) -> None:
        self.env = env
        self._ignored = ignored
        mode = env.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            self.fail("metadata", f"metadata['autoreset_mode'] is {mode!r}, expected a member of AutoresetMode")
        self._mode = mode if isinstance(mode, AutoresetMode) else AutoresetMode.NEXT_STEP

    def fail(self, check: str, message: str, *, env: int | None = None, step: int | None = None) -> None:
        """Raise VectorEnvError unless the check is ignored."""
        if check not in self._ignored:
            raise VectorEnvError(check, message, env, step)

    # Comparisons

    def check_spaces(self) -> None:
        """Check that the batched spaces follow from the single spaces and the number of environments."""
        env = self.env
        if not isinstance(env.num_envs, (int, np.integer)) or env.num_envs < 1:
            self.fail("spaces", f"num_envs is {env.num_envs!r}, expected an int of at least 1")
        for kind in ("observation", "action"):
            batched = getattr(env, f"{kind}_space")
            expected = batch_space(getattr(env, f"single_{kind}_space"), env.num_envs)
            if batched != expected:
                self.fail("spaces", f"{kind}_space is {batched}, expected {expected}")

    def check_ends(self, run: _Run) -> None:
        """Warn unless episodes end, and check that new ones begin."""
        ends = run.ends()
        if not ends:
            message = f"no episode ended in {len(run.outcomes)} steps: pass more steps to test the start of the next"
            warnings.warn(message, UserWarning, stacklevel=3)
        varies = any(not _same(outcome.observation, run.first) for outcome in run.outcomes)
        if ends and varies and all(_same(last, first) for _, _, last, first in ends):
            step, index, *_ = ends[0]
            message = "at every end, the first observation of the next episode equals the last one of the previous"
            self.fail(self._mode.name.lower(), message, env=index, step=step)

    def check_reset_steps(self, run: _Run, seed: int, actions: list[Any], others: list[Any]) -> None:
        """Check with NEXT_STEP that actions in the steps that begin episodes have no effect."""
        where = np.zeros((len(run.outcomes), len(run.first)), bool)
        where[1:] = [outcome.ended for outcome in run.outcomes[:-1]]
        if self._mode == AutoresetMode.NEXT_STEP and where.any():
            again = self.run(seed, self._mixed(actions, others, where))
            message = "{} changed when only actions in steps after an end changed, which must be ignored"
            self.compare(run, again, "next_step", message)

    def check_independence(self, run: _Run, seed: int, actions: list[Any], others: list[Any]) -> None:
        """Check that other actions in some environments do not affect the rest, for every pair of environments."""
        indices = np.arange(self.env.num_envs)
        for bit in range((len(indices) - 1).bit_length()):
            for value in (0, 1):
                changed = (indices >> bit) & 1 == value
                where = np.broadcast_to(changed, (len(actions), len(indices)))
                again = self.run(seed, self._mixed(actions, others, where))
                message = f"{{}} changed when only the actions of environments {indices[changed].tolist()} changed"
                self.compare(run, again, "independence", message, indices[~changed].tolist())

    def compare(
        self, run: _Run, again: _Run, check: str, message: str, first_episode_of: Iterable[int] | None = None
    ) -> None:
        """Report where two runs differ; ``{}`` in the message is replaced by the name of the value.

        Args:
            run: A run.
            again: Another one.
            check: Name of the check that fails if they differ.
            message: The message.
            first_episode_of: The environments of which only the first episode is compared; None compares all episodes
                of all environments.
        """
        once = first_episode_of is not None
        waiting = range(len(run.first)) if first_episode_of is None else list(first_episode_of)
        for index in waiting:
            if not _same(run.first[index], again.first[index]):
                self.fail(check, message.format("its observation"), env=index)
        for step, (one, two) in enumerate(zip(run.outcomes, again.outcomes, strict=True)):
            for index in waiting:
                theirs = two.of(index)
                for name, value in one.of(index).items():
                    if not (once and name == _NEXT) and not _same(value, theirs[name]):
                        self.fail(check, message.format(name), env=index, step=step)
                        return
            if once:
                waiting = [index for index in waiting if not one.ended[index]]

    def _mixed(self, actions: list[Any], others: list[Any], where: np.ndarray) -> list[Any]:
        """Return the batches of ``actions`` with those of ``others`` where ``where`` [steps, N] is True."""
        space = self.env.single_action_space
        mixed = []
        for one, other, chosen in zip(actions, others, where, strict=True):
            pairs = zip(iterate(self.env.action_space, one), iterate(self.env.action_space, other), chosen, strict=True)
            rows = [b if taken else a for a, b, taken in pairs]
            empty: Any = create_empty_array(space, self.env.num_envs)
            mixed.append(concatenate(space, rows, empty))
        return mixed

    # Runs

    def run(self, seed: int, actions: Sequence[Any]) -> _Run:
        """Reset with a seed, then take the actions, one batch per step."""
        observation = self._reset(seed)
        run = _Run(self._rows(observation), [])
        ended = np.zeros(self.env.num_envs, bool)
        held: deque[tuple[int | None, Any, Any]] = deque([(None, (observation,), deepcopy((observation,)))])
        for step, batch in enumerate(actions):
            returned = self.env.step(deepcopy(batch))
            held.append((step, returned, deepcopy(returned)))
            run.outcomes.append(self._outcome(deepcopy(returned), ended, step))
            ended = run.outcomes[-1].ended
            if len(held) > _KEPT:
                self._check_kept(*held.popleft())
        for kept in held:
            self._check_kept(*kept)
        return run

    def _reset(self, seed: int | None, mask: np.ndarray | None = None, step: int | None = None) -> Any:
        """Reset the environments of a mask [N] bool, or all, and return the batch of observations."""
        options = None if mask is None else {"reset_mask": mask.copy()}
        observation, info = self.env.reset(seed=seed, options=options)
        self._check_observation(observation, step)
        self._check_info(info, step)
        return observation

    def _outcome(self, returned: Any, ended_before: np.ndarray, step: int) -> _Outcome:
        """Check the results of a step and assign them to episodes."""
        observation, reward, terminated, truncated, info = returned
        self._check_observation(observation, step)
        self._check_scores(reward, terminated, truncated, step)
        self._check_info(info, step)
        terminated = np.asarray(terminated, bool)
        truncated = np.asarray(truncated, bool)
        outcome = _Outcome(self._rows(observation), np.asarray(reward), terminated, truncated, {})
        if self._mode == AutoresetMode.NEXT_STEP:
            self._after_next_step(outcome, ended_before, step)
        elif self._mode == AutoresetMode.SAME_STEP:
            self._after_same_step(outcome, info, step)
        elif outcome.ended.any():
            self._after_disabled(outcome, step)
        return outcome

    def _after_next_step(self, outcome: _Outcome, ended_before: np.ndarray, step: int) -> None:
        for index in np.nonzero(ended_before)[0].tolist():
            outcome.begun[index] = outcome.observation[index]
            if outcome.reward[index] != 0 or outcome.ended[index]:
                flags = f"terminated {outcome.terminated[index]}, truncated {outcome.truncated[index]}"
                message = f"the step after an end gave reward {outcome.reward[index]}, {flags}; expected 0 and no flags"
                self.fail("next_step", message, env=index, step=step)

    def _after_same_step(self, outcome: _Outcome, info: dict[str, Any], step: int) -> None:
        for name in ("final_obs", "final_info"):
            mask = info.get(f"_{name}", np.zeros(self.env.num_envs, bool))
            if not np.array_equal(mask, outcome.ended):
                index = int(np.argmax(mask != outcome.ended))
                message = f"'_{name}' is {mask[index]} although terminated | truncated is {outcome.ended[index]}"
                self.fail("same_step", message, env=index, step=step)
                return
        ended = np.nonzero(outcome.ended)[0].tolist()
        last = self._final_rows(info["final_obs"], step) if ended else []
        for index in ended:
            if not self.env.single_observation_space.contains(last[index]):
                message = f"final_obs is outside {self.env.single_observation_space}"
                self.fail("same_step", message, env=index, step=step)
            outcome.begun[index], outcome.observation[index] = outcome.observation[index], last[index]

    def _after_disabled(self, outcome: _Outcome, step: int) -> None:
        for index, row in enumerate(self._rows(self._reset(None, outcome.ended, step))):
            if outcome.ended[index]:
                outcome.begun[index] = row
            elif not _same(row, outcome.observation[index]):
                message = "its observation changed in a reset with a reset_mask that excludes it"
                self.fail("disabled", message, env=index, step=step)

    def _final_rows(self, final: Any, step: int) -> list[Any]:
        """Return the N final observations from an array of objects (as in Gymnasium) or from one batch."""
        if isinstance(final, np.ndarray) and final.dtype == object and final.shape == (self.env.num_envs,):
            return list(final)
        wrong = _misfit(self.env.observation_space, final, "final_obs")
        if wrong:
            self.fail("same_step", wrong, step=step)
            return [None] * self.env.num_envs
        return list(iterate(self.env.observation_space, final))

    def _rows(self, observation: Any) -> list[Any]:
        return deepcopy(list(iterate(self.env.observation_space, observation)))

    # Values

    def _check_kept(self, step: int | None, returned: tuple[Any, ...], copy: tuple[Any, ...]) -> None:
        """Check that the values a step (None: a reset) returned are unchanged, except infos."""
        names = ("observation", "rewards", "terminated", "truncated")
        for name, now, then in zip(names, returned, copy):  # noqa: B905 - a reset has only the first
            if not _same(then, now):
                self.fail("buffers", f"the {name} returned here was overwritten later; return a copy", step=step)

    def _check_observation(self, observation: Any, step: int | None) -> None:
        """Check that a batch of observations lies in its space, with exact shapes and dtypes."""
        env = self.env
        wrong = _misfit(env.observation_space, observation, "the observation")
        if wrong:
            self.fail("observations", wrong, step=step)
        elif not env.observation_space.contains(observation):
            rows = enumerate(iterate(env.observation_space, observation))
            index = next((i for i, row in rows if not env.single_observation_space.contains(row)), None)
            message = f"the observation is outside {env.single_observation_space}"
            self.fail("observations", message, env=index, step=step)

    def _check_scores(self, reward: Any, terminated: Any, truncated: Any, step: int) -> None:
        """Check that rewards and flags of a step are arrays [N] of the right kind."""
        shape = (self.env.num_envs,)
        if not isinstance(reward, np.ndarray) or reward.shape != shape or reward.dtype.kind != "f":
            self.fail("rewards", f"rewards are {_kind(reward)}, expected floats {shape}", step=step)
        elif not np.isfinite(reward).all():
            index = int(np.isfinite(reward).argmin())
            self.fail("rewards", f"the reward is {reward[index]}, expected a finite number", env=index, step=step)
        for name, flag in {"terminated": terminated, "truncated": truncated}.items():
            if not _is_array(flag, shape, np.dtype(bool)):
                self.fail("flags", f"{name} is {_kind(flag)}, expected bool {shape}", step=step)

    def _check_info(self, info: Any, step: int | None) -> None:
        """Check that infos hold N entries per key, each key with its mask."""
        if not isinstance(info, dict):
            return self.fail("infos", f"infos are {_kind(info)}, expected a dict", step=step)
        shape = (self.env.num_envs,)
        for name, value in info.items():
            if name.startswith("_"):
                if name[1:] not in info:
                    self.fail("infos", f"there is a mask {name!r} without {name[1:]!r}", step=step)
                if not _is_array(value, shape, np.dtype(bool)):
                    self.fail("infos", f"the mask {name!r} is {_kind(value)}, expected bool {shape}", step=step)
                continue
            if f"_{name}" not in info:
                self.fail("infos", f"{name!r} has no mask {'_' + name!r}", step=step)
            if name == "final_info":
                self._check_info(value, step)
            elif name != "final_obs":  # which has its own check
                self._check_entry(name, value, step)

    def _check_entry(self, name: str, value: Any, step: int | None) -> None:
        """Check one key of the infos, or of a dict in them, whose keys need no masks."""
        if isinstance(value, dict):
            for part, inner in value.items():
                self._check_entry(f"{name}.{part}", inner, step)
        elif not isinstance(value, np.ndarray) or value.shape[:1] != (self.env.num_envs,):
            message = f"{name!r} is {_kind(value)}, expected an array of {self.env.num_envs} entries"
            self.fail("infos", message, step=step)


def _made(env: Any) -> VectorEnv:
    """Return the environment itself, or the one that the function makes."""
    made = env if isinstance(env, VectorEnv) or not callable(env) else env()
    if not isinstance(made, VectorEnv):
        raise TypeError(f"{made!r} is not a gymnasium.vector.VectorEnv: pass one, or a function that makes one")
    return made


def _random_actions(env: VectorEnv, steps: int, seed: int) -> list[Any]:
    """Return ``steps`` batches of random actions, without drawing from the environment's own action space."""
    space = batch_space(deepcopy(env.single_action_space), env.num_envs)
    space.seed(seed)
    return [space.sample() for _ in range(steps)]


def _misfit(space: spaces.Space, value: Any, name: str) -> str:
    """Return the error in the structure, shapes or dtypes of a value of a space; empty if there is none."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            return f"{name} is {_kind(value)}, expected a dict with the keys {list(space.spaces)}"
        return next(filter(None, (_misfit(part, value[key], f"{name}[{key!r}]") for key, part in space.items())), "")
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            return f"{name} is {_kind(value)}, expected a tuple of {len(space.spaces)}"
        return next(filter(None, (_misfit(part, value[i], f"{name}[{i}]") for i, part in enumerate(space))), "")
    if isinstance(space, _ARRAY_SPACES) and not _is_array(value, space.shape, space.dtype):
        return f"{name} is {_kind(value)}, expected a NumPy array, {space.dtype} {space.shape}"
    return ""


def _is_array(value: Any, shape: tuple[int, ...] | None, dtype: Any) -> bool:
    return isinstance(value, np.ndarray) and value.shape == shape and value.dtype == dtype


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return f"a dict with the keys {list(value)}" if isinstance(value, dict) else f"a {type(value).__name__}"
