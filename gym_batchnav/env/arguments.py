"""Checks of the arguments of a batch's methods: masks, indices, seeds, episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gym_batchnav.system.notices import warn_user

RESET_OPTIONS = ("reset_mask", "episode_index", "episode_order", "episodes")


def options_of(options: Any) -> Mapping[str, Any]:
    """Return reset options, empty for None; ValueError unless they are a dict.

    Unknown options cause a warning, not an error, because wrappers may pass options to each other.
    """
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise ValueError(f"options={options!r}: pass a dict, such as {{'reset_mask': mask}}, or None")
    unknown = [name for name in options if name not in RESET_OPTIONS]
    if unknown:
        known = ", ".join(map(repr, RESET_OPTIONS))
        warn_user(f"reset options {unknown!r} are ignored: the known options are {known}")
    return options


def mask_of(name: str, mask: Any, num_envs: int) -> np.ndarray:
    """Return a mask [N] bool of environments, all True for None; ValueError for another shape or dtype."""
    if mask is None:
        return np.ones(num_envs, bool)
    mask = np.asarray(mask)
    if mask.shape != (num_envs,) or mask.dtype != bool:
        raise ValueError(f"{name} is {mask.dtype} {mask.shape}: pass bool ({num_envs},)")
    return mask


def indices_of(indices: Any, num_envs: int) -> np.ndarray:
    """Return indices of environments as int64 [M]; ValueError for one that is not from 0 to N - 1."""
    indices = np.asarray(indices)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(f"indices are {indices.dtype} {indices.shape}: pass integers (M,)")
    wrong = (indices < 0) | (indices >= num_envs)
    if wrong.any():
        raise ValueError(f"environment {indices[wrong][0]}: there are environments 0 to {num_envs - 1}")
    return indices.astype(np.int64)


def numbers_of(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return values as float32 of a shape; ValueError for another shape or values that are not numbers."""
    values = np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "iuf":
        raise ValueError(f"{name} is {values.dtype} {values.shape}: pass numbers {shape}")
    return values.astype(np.float32)


def seeds_of(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """Return a seed per environment: ``seed + i``, or those of a sequence (None: the current one), or ValueError."""
    seeds: list[int | None]
    if seed is None:
        seeds = [None] * num_envs
    elif isinstance(seed, (int, np.integer)):
        seeds = [int(seed) + index for index in range(num_envs)]
    elif isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, (str, bytes)):
        seeds = list(seed)
    else:
        raise ValueError(f"seed={seed!r}: pass a whole number, one for each environment, or None")
    if len(seeds) != num_envs:
        raise ValueError(f"{len(seeds)} seeds for {num_envs} environments: pass one number or one each")
    if any(one is not None and not (isinstance(one, (int, np.integer)) and 0 <= one < 2**64) for one in seeds):
        raise ValueError(f"seed={seed}: pass seeds from 0 to 2**64 - 1")
    return [None if one is None else int(one) for one in seeds]


def episodes_of(name: str, episodes: Any, num_episodes: int, count: int | None = None) -> np.ndarray:
    """Return a reset option with ``count`` numbers of episodes as int64; ValueError for a wrong one."""
    episodes = np.asarray(episodes)
    if episodes.ndim != 1 or count not in (None, len(episodes)) or episodes.dtype.kind not in "iu":
        shape = "(E,)" if count is None else f"({count},)"
        raise ValueError(f"{name} is {episodes.dtype} {episodes.shape}: pass integers {shape}")
    wrong = (episodes < 0) | (episodes >= num_episodes)
    if wrong.any():
        index = int(wrong.argmax())
        raise ValueError(f"{name}[{index}] = {episodes[index]}: there are episodes 0 to {num_episodes - 1}")
    return episodes.astype(np.int64)
