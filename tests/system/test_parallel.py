"""Parallel loops run every item exactly once, whatever the number of items and threads."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from gym_batchnav.system.parallel import for_each


@numba.njit
def _count(item: int, runs: np.ndarray) -> None:
    for size in range(1, 100 * (item % 7)):  # items of unequal cost
        runs[item] += np.full(size % 40 + 1, 2).size  # small arrays, which reuse the memory of any that was freed
        runs[item] -= size % 40 + 1
    runs[item] += 1


@numba.njit
def _count_all(runs: np.ndarray) -> None:
    for_each(_count, len(runs), (runs,))


@pytest.mark.parametrize("threads", [1, numba.config.NUMBA_NUM_THREADS])
def test_every_item_runs_once(threads):
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        for num_items in (0, 1, 2, 63, 64, 65, 1000):
            runs = np.zeros(num_items, np.int64)
            for _ in range(3):
                _count_all(runs)
            assert (runs == 3).all(), num_items
    finally:
        numba.set_num_threads(before)


CACHED = """
import numba
import numpy as np
from gym_batchnav.system.parallel import for_each

@numba.njit(cache=True)
def add(item, values):
    values[item] += 1

@numba.njit(cache=True)
def one(values):
    for_each(add, len(values), (values,))

@numba.njit(cache=True)
def other(values):
    for_each(add, len(values) // 2, (values,))
"""


@pytest.mark.slow
def test_loops_that_are_read_from_the_cache_start_their_threads(tmp_path):
    """A kernel that was compiled in a process that had read the shared loop from the cache."""
    (tmp_path / "loops.py").write_text(CACHED)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba"), "PYTHONPATH": path}
    for kernel, expected in (("one", "[1. 1.]"), ("other", "[1. 0.]"), ("other", "[1. 0.]")):
        program = f"import loops, numpy as np; values = np.zeros(2); loops.{kernel}(values); print(values)"
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.stdout == f"{expected}\n", done.stderr
