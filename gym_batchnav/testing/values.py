"""Checks of single returned values: spaces, observations, rewards, flags and infos."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate

from gym_batchnav.testing.rules import Report

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
