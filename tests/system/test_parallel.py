"""Parallel loops run every item exactly once, whatever the number of items and threads."""

import numba
import numpy as np
import pytest

from gym_batchnav.system.parallel import for_each


@numba.njit
def _count(item: int, runs: np.ndarray) -> None:
    for size in range(1, 100 * (item % 7)):  # items of unequal cost
        runs[item] += np.full(size % 40 + 1, 2).size  # small arrays, which take the place of any that was freed
        runs[item] -= size % 40 + 1
    runs[item] += 1


@numba.njit
def _count_all(runs: np.ndarray) -> None:
    for_each(_count, len(runs), (runs,))


@pytest.mark.parametrize("threads", [1, numba.config.NUMBA_NUM_THREADS])
@pytest.mark.parametrize("num_items", [0, 1, 2, 63, 64, 65, 1000])
def test_every_item_runs_once(num_items, threads):
    runs = np.zeros(num_items, np.int64)
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        for _ in range(3):
            _count_all(runs)
    finally:
        numba.set_num_threads(before)
    assert (runs == 3).all()
