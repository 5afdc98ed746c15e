"""Random numbers of 16 bits for every pixel, and tables of what noise makes of them."""

from __future__ import annotations

from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numba import njit

from gym_batchnav.system.jit import INNER

NUM_LEVELS = 2**16  # of a random number
WORDS = 1024  # of 64 bits, drawn at a time: four random numbers each
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


@njit(**INNER)
def draw_words(key: int, first: int, words: np.ndarray) -> None:
    """Write words ``first``, ``first`` + 1, ... of the sequence of a key into ``words`` [W] uint64.

    The sequence is that of the generator SplitMix64 (Steele, Lea and Flood 2014) with the key as its initial state, so
    any word can be computed on its own.
    """
    state = np.uint64(key) + np.uint64(first) * _GOLDEN
    for index in range(len(words)):
        state += _GOLDEN
        value = (state ^ (state >> np.uint64(30))) * _FIRST
        value = (value ^ (value >> np.uint64(27))) * _SECOND
        words[index] = value ^ (value >> np.uint64(31))


@lru_cache(maxsize=1)
def normal_levels() -> np.ndarray:
    """Return a table [65536] float64 of standard normal numbers, one per random number of 16 bits, ascending.

    Level i is the quantile of (i + 1/2) / 65536. The table is scaled to a variance of exactly 1; its largest entries
    are 4.3 standard deviations.
    """
    inverse = NormalDist().inv_cdf
    half = np.array([inverse((index + 0.5) / NUM_LEVELS) for index in range(NUM_LEVELS // 2)])
    levels = np.concatenate([half, -half[::-1]])
    levels /= levels.std()
    levels.flags.writeable = False
    return levels
