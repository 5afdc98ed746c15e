"""``check_vector_env``: checks any ``gymnasium.vector.VectorEnv`` against Gymnasium's contract."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

__all__ = ["CONTRACT", "PROMISES", "VectorEnvError", "check_vector_env"]

# Gymnasium documents these rules for every vector environment; a failure is an error.
CONTRACT = {
    "spaces": "the batched spaces are batch_space() of the single ones",
    "metadata": "metadata['autoreset_mode'] is an AutoresetMode",
    "observations": "observations lie in observation_space, with exactly its shapes and dtypes",
    "rewards": "rewards are finite floats [N]",
    "flags": "terminated and truncated are bool [N]",
    "infos": "infos are dicts with N entries per key, each with its mask '_key', bool [N]",
    "buffers": "returned arrays do not change later",
    "next_step": "the step after an end ignores its action, gives reward 0, no flags and the next first observation",
    "same_step": "an end brings final_obs and final_info with masks, and the next first observation",
    "disabled": "reset_mask begins an episode where it is true and does not affect the other environments",
    "seeding": "the same seed and actions give the same run",
    "independence": "an environment's actions do not change another's episode",
    "close": "close() may be called twice",
}
# Gymnasium does not specify these rules, but users rely on them; a failure is a warning unless strict.
PROMISES = {
    "episodes_end": "an episode ends within the given steps, so that the start of the next one is tested",
    "seeds_differ": "another seed gives another run",
    "environment_seeds": "seed s gives environment i the seed s + i; a list gives one seed to each",
    "independent_episodes": "an environment's actions do not change the choice of the others' episodes",
    "numeric_infos": "infos are numbers, so that every wrapper accepts them",
    "before_reset": "step() before reset() raises",
    "wrong_actions": "actions for more environments than there are raise",
    "after_close": "step() and reset() after close() raise",
}
MODE_CHECKS = {
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.DISABLED: "disabled",
}


def check_vector_env(
    env: VectorEnv | Callable[[], VectorEnv],
    *,
    steps: int = 200,
    seed: int = 0,
    strict: bool = False,
    skip: Collection[str] = (),
    reuses_buffers: bool = False,
) -> None:
    """Check a vector environment against Gymnasium's contract, by running it with random actions.

    The check runs the environment about ``5 + 2 log2(N)`` times and keeps two runs in memory, so use few environments,
    such as four. Runs with equal seeds are compared bit by bit; infos are not compared, since they may contain times.

    Args:
        env: The environment, which is closed at the end, or a function that makes one. Two checks need a function:
            that ``step`` raises before ``reset``, and that two instances with one seed give the same run.
        steps: Steps per run; enough for a few episodes to end.
        seed: Seed of the first run.
        strict: Whether a failed check of ``PROMISES`` raises; by default it warns. Gymnasium's documentation does not
            require them.
        skip: Names of checks to leave out, from ``CONTRACT`` and ``PROMISES``. Without ``"seeding"``, no runs are
            compared at all.
        reuses_buffers: Whether the environment documents that it overwrites arrays that it returned.

    Raises:
        VectorEnvError: If a check fails; the message names the check, the environment and the step.
        TypeError: If ``env`` is not a vector environment and does not make one.
        ValueError: If ``skip`` has the name of an unknown check, or ``steps`` is below 2.
    """
    report = Report(skip, strict)
    if steps < 2:
        raise ValueError(f"steps={steps}: pass at least 2, or better enough for episodes to end")
    make = None if isinstance(env, VectorEnv) else env
    tested = _made(env)
    try:
        check_spaces(tested, report)
        runner = Runner(tested, autoreset_mode(tested, report), report, reuses_buffers)
        actions, others = (random_actions(tested, steps, seed + offset) for offset in (0, 1))
        run = runner.run(seed, actions)
        _check_ends(runner, run)
        if "seeding" not in skip:
            _check_seeding(runner, run, seed, actions)  # first, since the other checks compare runs
            _check_environment_seeds(runner, seed)
            _check_reset_steps(runner, run, seed, actions, others)
            _check_independence(runner, run, seed, actions, others)
        if make is not None:
            _check_others(make, runner, run, seed, actions, compare="seeding" not in skip)
        if "wrong_actions" not in skip:
            _check_wrong_actions(runner, seed)
    finally:
        tested.close()
    _check_closed(tested, actions[0], report)


class VectorEnvError(AssertionError):
    """The error of a vector environment that breaks a rule.

    Attributes:
        check: Name of the check, a key of CONTRACT or PROMISES.
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
        rule = {**CONTRACT, **PROMISES}[check]
        super().__init__(f"{', '.join([check, *where])}: {message} (the rule: {rule})")


class Report:
    """A report that turns failed checks into errors, warnings or nothing.

    Args:
        skip: Names of checks whose failure is ignored.
        strict: Whether a broken promise is also an error.

    Raises:
        ValueError: If ``skip`` has the name of an unknown check.
    """

    def __init__(self, skip: Collection[str], strict: bool) -> None:
        unknown = set(skip) - {*CONTRACT, *PROMISES}
        if isinstance(skip, str) or unknown:
            raise ValueError(f"skip={skip!r}: pass a list of names from {', '.join([*CONTRACT, *PROMISES])}")
        self._ignored = set(skip)
        self._strict = strict

    def fail(self, check: str, message: str, *, env: int | None = None, step: int | None = None) -> None:
        """Report that a check has failed.

        Raises:
            VectorEnvError: If the check belongs to ``CONTRACT``, or the report is strict.
        """
        if check in self._ignored:
            return
        error = VectorEnvError(check, message, env, step)
        if check in CONTRACT or self._strict:
            raise error
        self._ignored.add(check)  # one warning is enough
        warnings.warn(str(error), UserWarning, stacklevel=2)


def _made(env: Any) -> VectorEnv:
    """Return the environment itself, or the one that the function makes."""
    made = env if isinstance(env, VectorEnv) or not callable(env) else env()
    if not isinstance(made, VectorEnv):
        raise TypeError(f"{made!r} is not a gymnasium.vector.VectorEnv: pass one, or a function that makes one")
    return made


def _check_ends(runner: Runner, run: Run) -> None:
    """Check that episodes end and that new ones begin."""
    ends = run.ends()
    if not ends:
        runner.report.fail("episodes_end", f"no episode ended in {len(run.outcomes)} steps: pass more steps")
    varies = any(not same(outcome.observation, run.first) for outcome in run.outcomes)
    if ends and varies and all(same(last, first) for _, _, last, first in ends):
        step, index, *_ = ends[0]
        message = (
            "the next episode's first observation equals the last observation of the previous episode, at every end"
        )
        runner.report.fail(MODE_CHECKS[runner.mode], message, env=index, step=step)


def _check_reset_steps(runner: Runner, run: Run, seed: int, actions: list[Any], others: list[Any]) -> None:
    """Check with NEXT_STEP that actions in the steps that begin episodes have no effect."""
    where = run.reset_steps()
    if runner.mode == AutoresetMode.NEXT_STEP and where.any():
        again = runner.run(seed, mixed_actions(runner.env, actions, others, where))
        message = "{} changed when only actions in steps after an end changed, which must be ignored"
        _compare(runner, run, again, "next_step", message, range(runner.env.num_envs))


def _check_seeding(runner: Runner, run: Run, seed: int, actions: list[Any]) -> None:
    """Check that equal seeds give equal runs and other seeds other runs."""
    everyone = range(runner.env.num_envs)
    message = "{} differs from the first run with the same seed and actions"
    _compare(runner, run, runner.run(seed, actions), "seeding", message, everyone)
    other = runner.run(seed + 1000, actions)
    if same(run.first, other.first) and _first_difference(run, other, everyone) is None:
        runner.report.fail("seeds_differ", f"seeds {seed} and {seed + 1000} gave the same run")


def _check_environment_seeds(runner: Runner, seed: int) -> None:
    """Check that each environment has its own seed: in a list, from one number, and with a mask."""
    count = runner.env.num_envs
    report = runner.report
    check = "environment_seeds"
    seeds = [seed + index for index in range(count)]
    rows = runner.reset(seed)
    elsewhere = [*seeds[:-1], seed + 2000]
    try:
        listed = runner.reset(seeds)
        changed = runner.reset(elsewhere)
    except Exception as error:  # an environment may raise any error for unsupported arguments
        report.fail(check, f"reset(seed={seeds}) raised {type(error).__name__}: {error}")
        return
    for index in range(count):
        if not same(rows[index], listed[index]):
            report.fail(check, f"reset(seed={seeds}) and reset(seed={seed}) differ", env=index)
        if index < count - 1 and not same(rows[index], changed[index]):
            report.fail(check, f"reset(seed={elsewhere}) changed it, though its seed is the same", env=index)
    if runner.mode == AutoresetMode.DISABLED:
        runner.reset(seed + 1000)
        masked = runner.reset(seed, np.arange(count) % 2 == 0)
        for index in range(0, count, 2):
            if not same(rows[index], masked[index]):
                message = f"reset(seed={seed}) with a reset_mask gave it another episode than without"
                report.fail(check, message, env=index)


def _check_independence(runner: Runner, run: Run, seed: int, actions: list[Any], others: list[Any]) -> None:
    """Check that other actions in some environments do not affect the rest, for every pair of environments."""
    indices = np.arange(runner.env.num_envs)
    for bit in range((len(indices) - 1).bit_length()):
        for value in (0, 1):
            changed = (indices >> bit) & 1 == value
            where = np.broadcast_to(changed, (len(actions), len(indices)))
            again = runner.run(seed, mixed_actions(runner.env, actions, others, where))
            message = f"{{}} changed when only the actions of environments {indices[changed].tolist()} changed"
            kept = indices[~changed].tolist()
            _compare(runner, run, again, "independence", message, kept, first_episode=True)
            _compare(runner, run, again, "independent_episodes", message, kept)


def _check_others(
    make: Callable[[], VectorEnv], runner: Runner, run: Run, seed: int, actions: list[Any], compare: bool
) -> None:
    """Check that a second instance gives the same run as the first, and that a third raises before a reset."""
    with closing(_made(make)) as second:
        if compare:
            again = Runner(second, runner.mode, runner.report, runner.reuses_buffers).run(seed, actions)
            message = "{} differs between two instances with the same seed and actions"
            _compare(runner, run, again, "seeding", message, range(second.num_envs))
    with closing(_made(make)) as third:
        if not _raises(partial(third.step, actions[0])):
            runner.report.fail("before_reset", "step() before reset() did not raise")


def _check_wrong_actions(runner: Runner, seed: int) -> None:
    """Check that one action too many raises."""
    env = runner.env
    runner.reset(seed)
    count = env.num_envs + 1  # with one too few, a Gymnasium AsyncVectorEnv would wait forever
    if not _raises(partial(env.step, batch_space(env.single_action_space, count).sample())):
        message = f"step() with {count} actions for {env.num_envs} environments did not raise"
        runner.report.fail("wrong_actions", message)


def _check_closed(env: VectorEnv, actions: Any, report: Report) -> None:
    """Check that a closed environment can be closed again, and that its other methods raise."""
    try:
        env.close()
    except Exception as error:
        report.fail("close", f"the second close() raised {type(error).__name__}: {error}")
    calls: dict[str, Callable[[], Any]] = {"step": partial(env.step, actions), "reset": partial(env.reset, seed=0)}
    for name, call in calls.items():
        if not _raises(call):
            report.fail("after_close", f"{name}() after close() did not raise")


def _compare(
    runner: Runner, run: Run, again: Run, check: str, message: str, indices: Any, first_episode: bool = False
) -> None:
    """Report where two runs differ for some environments; ``{}`` in the message is replaced by the value's name."""
    found = _first_difference(run, again, indices, first_episode)
    if found is not None:
        step, index, name = found
        runner.report.fail(check, message.format(name), env=index, step=step)


def _first_difference(
    run: Run, again: Run, indices: Any, first_episode: bool = False
) -> tuple[int | None, int, str] | None:
    """Return step, environment and name of the first value that differs, or None."""
    names = ("its observation", "its reward", "terminated", "truncated", "the first observation of its next episode")
    for index in indices:
        if not same(run.first[index], again.first[index]):
            return None, index, names[0]
    waiting = set(indices)
    for step, (one, two) in enumerate(zip(run.outcomes, again.outcomes, strict=True)):
        for index in sorted(waiting):
            pair = (outcome.of_episode(index) if first_episode else outcome.of(index) for outcome in (one, two))
            for name, left, right in zip(names, *pair):  # noqa: B905 - the last name is not always asked for
                if not same(left, right):
                    return step, index, name
            if first_episode and one.ended[index]:
                waiting.remove(index)
    return None


def _raises(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception:
        return True
    return False


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


ARRAY_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)


def check_spaces(env: VectorEnv, report: Report) -> None:
    """Check that the batched spaces follow from the single spaces and the number of environments."""
    if not isinstance(env.num_envs, (int, np.integer)) or env.num_envs < 1:
        report.fail("spaces", f"num_envs is {env.num_envs!r}, expected an int of at least 1")
    for kind in ("observation", "action"):
        single = getattr(env, f"single_{kind}_space")
        batched = getattr(env, f"{kind}_space")
        expected = batch_space(single, env.num_envs)
        if batched != expected:
            report.fail("spaces", f"{kind}_space is {batched}, expected {expected}")


def autoreset_mode(env: VectorEnv, report: Report) -> AutoresetMode:
    """Return the mode in the metadata, or Gymnasium's default if there is none."""
    mode = env.metadata.get("autoreset_mode")
    if isinstance(mode, AutoresetMode):
        return mode
    report.fail("metadata", f"metadata['autoreset_mode'] is {mode!r}, expected a member of AutoresetMode")
    return AutoresetMode.NEXT_STEP


def check_observation(env: VectorEnv, observation: Any, report: Report, step: int | None) -> None:
    """Check that a batch of observations lies in its space, with exact shapes and dtypes."""
    wrong = misfit(env.observation_space, observation, "the observation")
    if wrong:
        report.fail("observations", wrong, step=step)
    elif not env.observation_space.contains(observation):
        rows = enumerate(iterate(env.observation_space, observation))
        index = next((i for i, row in rows if not env.single_observation_space.contains(row)), None)
        message = f"the observation is outside {env.single_observation_space}"
        report.fail("observations", message, env=index, step=step)


def misfit(space: spaces.Space, value: Any, name: str) -> str:
    """Return the error in the structure, shapes or dtypes of a value of a space; empty if there is none."""
    if isinstance(space, spaces.Dict):
        if not isinstance(value, dict) or value.keys() != space.spaces.keys():
            return f"{name} is {_kind(value)}, expected a dict with the keys {list(space.spaces)}"
        return next(filter(None, (misfit(part, value[key], f"{name}[{key!r}]") for key, part in space.items())), "")
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple) or len(value) != len(space.spaces):
            return f"{name} is {_kind(value)}, expected a tuple of {len(space.spaces)}"
        return next(filter(None, (misfit(part, value[i], f"{name}[{i}]") for i, part in enumerate(space))), "")
    if isinstance(space, ARRAY_SPACES) and not _is_array(value, space.shape, space.dtype):
        return f"{name} is {_kind(value)}, expected a NumPy array, {space.dtype} {space.shape}"
    return ""


def check_outcome(env: VectorEnv, reward: Any, terminated: Any, truncated: Any, report: Report, step: int) -> None:
    """Check that rewards and flags of a step are arrays [N] of the right kind."""
    shape = (env.num_envs,)
    if not isinstance(reward, np.ndarray) or reward.shape != shape or reward.dtype.kind != "f":
        report.fail("rewards", f"rewards are {_kind(reward)}, expected floats {shape}", step=step)
    elif not np.isfinite(reward).all():
        index = int(np.isfinite(reward).argmin())
        report.fail("rewards", f"the reward is {reward[index]}, expected a finite number", env=index, step=step)
    for name, flag in {"terminated": terminated, "truncated": truncated}.items():
        if not _is_array(flag, shape, np.dtype(bool)):
            report.fail("flags", f"{name} is {_kind(flag)}, expected bool {shape}", step=step)


def check_info(env: VectorEnv, info: Any, report: Report, step: int | None) -> None:
    """Check that infos hold N entries per key, each key with its mask."""
    if not isinstance(info, dict):
        return report.fail("infos", f"infos are {_kind(info)}, expected a dict", step=step)
    shape = (env.num_envs,)
    for name, value in info.items():
        if name.startswith("_"):
            if name[1:] not in info:
                report.fail("infos", f"there is a mask {name!r} without {name[1:]!r}", step=step)
            if not _is_array(value, shape, np.dtype(bool)):
                report.fail("infos", f"the mask {name!r} is {_kind(value)}, expected bool {shape}", step=step)
            continue
        if f"_{name}" not in info:
            report.fail("infos", f"{name!r} has no mask {'_' + name!r}", step=step)
        if name == "final_info":
            check_info(env, value, report, step)
        elif name != "final_obs":  # which has its own check
            _check_entry(env, name, value, report, step)


def _check_entry(env: VectorEnv, name: str, value: Any, report: Report, step: int | None) -> None:
    """Check one key of the infos, or of a dict in them, whose keys need no masks."""
    if isinstance(value, dict):
        for part, inner in value.items():
            _check_entry(env, f"{name}.{part}", inner, report, step)
    elif not isinstance(value, np.ndarray) or value.shape[:1] != (env.num_envs,):
        report.fail("infos", f"{name!r} is {_kind(value)}, expected an array of {env.num_envs} entries", step=step)
    elif value.dtype.kind not in "biufc":
        report.fail("numeric_infos", f"{name!r} is of dtype {value.dtype}, expected numbers", step=step)


def same(left: Any, right: Any) -> bool:
    """Return whether two observations are equal bit by bit; NaN equals NaN."""
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(same(one, two) for one, two in zip(left, right, strict=True))
    if isinstance(left, np.ndarray):
        if left.dtype == object:
            return same(list(left), list(right))
        return np.array_equal(left, right, equal_nan=left.dtype.kind in "fc")
    return left is right or bool(left == right or (left != left and right != right))


def _is_array(value: Any, shape: tuple[int, ...] | None, dtype: Any) -> bool:
    return isinstance(value, np.ndarray) and value.shape == shape and value.dtype == dtype


def _kind(value: Any) -> str:
    """Describe a wrong value."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return f"a dict with the keys {list(value)}" if isinstance(value, dict) else f"a {type(value).__name__}"
