"""``check_vector_env``: checks a vector environment against Gymnasium's contract."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from gym_batchnav.testing.rules import Report
from gym_batchnav.testing.runs import Run, Runner, mixed_actions, random_actions
from gym_batchnav.testing.values import autoreset_mode, check_spaces, same

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
