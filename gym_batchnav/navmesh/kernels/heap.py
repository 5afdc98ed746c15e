"""A binary heap of numbered items with the smallest key first, in arrays that searches own.

``items`` [M] int32 holds the items in heap order, ``place`` [N] int32 the row of every item in it, and ``key`` [N] the
keys of all items. The order of items with equal keys is that of Detour's dtNodeQueue, on which its corridors depend.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from gym_batchnav.system.jit import INNER, to_int64


@njit(**INNER)
def rise(items: np.ndarray, place: np.ndarray, key: np.ndarray, row: int, item: int) -> None:
    """Put an item into the heap at a row or, while its key is smaller than that of the parent, above it.

    The row is that of the item whose key became smaller, or the heap's size for a new one.
    """
    while row > 0:
        above = (row - 1) // 2
        if not key[items[above]] > key[item]:
            break
        items[row] = items[above]
        place[items[row]] = row
        row = above
    items[row] = item
    place[item] = row


@njit(**INNER)
def pop(items: np.ndarray, place: np.ndarray, key: np.ndarray, size: int) -> int:
    """Take the item with the smallest key out of a heap of the given size, and return it.

    The hole at the top sinks to the bottom along the smaller children, and the last item rises from there.
    """
    top = to_int64(items[0])
    size -= 1
    row = to_int64(0)
    child = to_int64(1)
    while child < size:
        if child + 1 < size and key[items[child]] > key[items[child + 1]]:
            child += 1
        items[row] = items[child]
        place[items[row]] = row
        row = child
        child = 2 * row + 1
    if size > 0:
        rise(items, place, key, row, to_int64(items[size]))
    return top
