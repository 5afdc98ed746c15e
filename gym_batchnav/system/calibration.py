"""The speed of this processor, by which figures of machines are compared."""

from __future__ import annotations

import time

import numpy as np
from numba import njit

from gym_batchnav.system.jit import ENTRY

CALIBRATION_OPERATIONS = 4_000_000
FREE_MOPS = 500.0  # what ``calibrate`` returns on an idle machine like that of the promised speeds


def calibrate() -> float:
    """Return the million operations/s of a fixed loop on one thread, to separate changes of the machine's speed."""
    start = time.perf_counter()
    _calibration_loop(CALIBRATION_OPERATIONS)
    return CALIBRATION_OPERATIONS / (time.perf_counter() - start) / 1e6


@njit(**ENTRY)
def _calibration_loop(count: int) -> int:
    """Mix ``count`` random numbers (xorshift) into a table of 32 KiB; each place depends on the previous one."""
    table = np.zeros(4096, np.uint64)
    state = np.uint64(88172645463325252)
    for _ in range(count):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        place = state & np.uint64(4095)
        table[place] += state
        state ^= table[place]
    return table.sum()
