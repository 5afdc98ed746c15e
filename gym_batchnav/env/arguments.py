"""What callers of the environment may pass, checked once at the boundary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gym_batchnav.render.api import SENSORS
from gym_batchnav.render.checks import check_sensors
from gym_batchnav.state import Action
from gym_batchnav.task.api import Sensor


def check_counts(**counts: int) -> None:
    """Refuse what is no whole number from 1 up."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"{name}={count!r}: give a whole number of at least 1")


def check_flags(**flags: bool) -> None:
    """Refuse what is neither True nor False."""
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)):
            raise ValueError(f"{name}={flag!r}: give True or False")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}")


def check_positive(**values: float) -> None:
    """Refuse what is not a positive finite number."""
    for name, value in values.items():
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not (number and math.isfinite(value) and value > 0):
            raise ValueError(f"{name}={value!r}: give a positive number")


def check_kind(name: str, value: object, kind: type) -> None:
    """Refuse what is neither None nor of a kind."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}={value!r}: give a {kind.__name__}")


def sensors_of(sensors: Sequence[str | Sensor]) -> tuple[tuple[str, ...], tuple[Sensor, ...]]:
    """What a camera is to record, by name, and other sensors."""
    if not isinstance(sensors, (tuple, list)):
        raise ValueError(f"sensors={sensors!r}: give a tuple, such as ('depth',), or () for blind agents")
    pictures = tuple(one for one in sensors if isinstance(one, str))
    unknown = [one for one in pictures if one not in SENSORS]
    if unknown:
        raise ValueError(
            f"sensors={sensors!r}: {unknown[0]!r} is none of {', '.join(map(repr, SENSORS))}; others are objects, "
            "such as GPS() and Compass() of gym_batchnav.task.sensors"
        )
    if pictures:
        check_sensors(pictures)
    return pictures, tuple(one for one in sensors if not isinstance(one, str))


def autoreset_mode_of(mode: AutoresetMode | str) -> AutoresetMode:
    """The autoreset mode of a name such as ``"next_step"``, whatever its case."""
    if isinstance(mode, AutoresetMode):
        return mode
    names = {member.name.lower(): member for member in AutoresetMode}
    key = str(mode).lower().replace("-", "_")
    check_choice("autoreset_mode", key, tuple(names))
    return names[key]


def mask_of(name: str, mask: Any, num_envs: int) -> np.ndarray:
    """A mask [N] bool of environments; all of them where none is given."""
    if mask is None:
        return np.ones(num_envs, bool)
    mask = np.asarray(mask)
    if mask.shape != (num_envs,) or mask.dtype != bool:
        raise ValueError(f"{name} is {mask.dtype} {mask.shape}: give bool ({num_envs},)")
    return mask


def seeds_of(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """A seed for each environment: ``seed + i``, or those of a sequence, in which None keeps an environment's plan."""
    seeds: list[int | None]
    if seed is None:
        seeds = [None] * num_envs
    elif isinstance(seed, (int, np.integer)):
        seeds = [int(seed) + index for index in range(num_envs)]
    else:
        seeds = list(seed)
    if len(seeds) != num_envs:
        raise ValueError(f"{len(seeds)} seeds for {num_envs} environments: give one number or one each")
    if any(one is not None and not 0 <= one < 2**64 for one in seeds):
        raise ValueError(f"seed={seed}: give seeds from 0 to 2**64 - 1")
    return seeds


def actions_of(actions: Any, num_envs: int) -> np.ndarray:
    """Actions as int64 [N]."""
    actions = np.asarray(actions)
    if actions.shape != (num_envs,) or actions.dtype.kind not in "iu":
        raise ValueError(f"actions are {actions.dtype} {actions.shape}: give integers ({num_envs},)")
    wrong = (actions < 0) | (actions >= len(Action))
    if wrong.any():
        index = int(wrong.argmax())
        raise ValueError(
            f"actions[{index}] = {actions[index]}: choose 0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT or 3 TURN_RIGHT"
        )
    return actions.astype(np.int64, copy=False)


def episodes_of(episodes: Any, num_envs: int, num_episodes: int) -> np.ndarray:
    """Episode numbers as int64 [N]."""
    episodes = np.asarray(episodes)
    if episodes.shape != (num_envs,) or episodes.dtype.kind not in "iu":
        raise ValueError(f"episodes are {episodes.dtype} {episodes.shape}: give integers ({num_envs},)")
    if episodes.min() < 0 or episodes.max() >= num_episodes:
        raise ValueError(
            f"episodes must lie between 0 and {num_episodes - 1}, not {episodes.min()} to {episodes.max()}"
        )
    return episodes.astype(np.int64)
