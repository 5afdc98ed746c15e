"""Random draws keyed by their purpose, so that no draw depends on the number of environments."""

from __future__ import annotations

import hashlib
import zlib
from functools import lru_cache

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def _scramble(value: np.ndarray) -> np.ndarray:
    """Apply SplitMix64's output function (Steele, Lea and Flood 2014), a mixing bijection on 64-bit integers."""
    value = (value ^ (value >> np.uint64(30))) * _MIX[0]
    value = (value ^ (value >> np.uint64(27))) * _MIX[1]
    return value ^ (value >> np.uint64(31))


def keyed_uniform(seed: np.ndarray, episode: int | np.ndarray, draw: int | np.ndarray) -> np.ndarray:
    """Return uniform numbers in [0, 1), each a pure function of its key.

    The three arguments are broadcast against each other.

    Args:
        seed: [N] uint64, the seed of each environment.
        episode: [N] int, index of the episode within its environment.
        draw: Index of the draw within that episode, a number or [N].

    Returns:
        Float64 of the broadcast shape.
    """
    state = _scramble(np.asarray(seed, np.uint64) + _GOLDEN)
    state = _scramble(state ^ (np.asarray(episode).astype(np.uint64) * _GOLDEN + np.asarray(draw, np.uint64)))
    return (_scramble(state + _GOLDEN) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def episode_key(seed: np.ndarray, episode: np.ndarray) -> np.ndarray:
    """Return the keys [N] uint64 of episodes, a pure function of seeds [N] or [1] and numbers [N] int."""
    state = _scramble(np.asarray(seed, np.uint64) + _GOLDEN)
    return _scramble(state ^ (np.asarray(episode).astype(np.uint64) * _GOLDEN + np.uint64(1)))


@lru_cache(maxsize=4096)
def name_key(name: str) -> int:
    """Return a number below 2**64 that stands for a name, such as that of a scene."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def step_uniform(episode_keys: np.ndarray, num_steps: np.ndarray, purpose: str, size: int) -> np.ndarray:
    """Return random numbers [N, size] float64 in [0, 1), keyed by the episode, the step and the purpose.

    Args:
        episode_keys: [N] uint64, see ``episode_key``.
        num_steps: [N] int, actions taken so far in each episode.
        purpose: Name of the use; other names give other numbers.
        size: Numbers per environment.
    """
    key = np.uint64(zlib.crc32(purpose.encode())) << np.uint64(32)
    draw = key + num_steps[:, None].astype(np.uint64) * np.uint64(size) + np.arange(size, dtype=np.uint64)
    return keyed_uniform(episode_keys[:, None], 0, draw)


def step_keys(episode_keys: np.ndarray, num_steps: np.ndarray, purpose: str) -> np.ndarray:
    """Return keys [N] uint64 of the current step, for generators of many numbers; other purposes give other keys.

    Args:
        episode_keys: [N] uint64, see ``episode_key``.
        num_steps: [N] int, actions taken so far in each episode.
        purpose: Name of the use.
    """
    draw = (np.uint64(zlib.crc32(purpose.encode())) << np.uint64(32)) + num_steps.astype(np.uint64)
    return _scramble(_scramble(episode_keys + _GOLDEN) ^ (draw + _GOLDEN))
