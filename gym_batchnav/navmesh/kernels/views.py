"""Array views inside kernels from addresses, so that one table can point to the arrays of many scenes.

A row of such a table holds, for every array in turn, its address and its first two dimensions. Whoever fills a row
keeps the arrays alive as long as kernels may read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

COLUMNS = 3  # of a row, for each array


def table_row(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """The row [3 * arrays] int64 that describes C-contiguous arrays."""
    row: list[int] = []
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError("a table of addresses can only hold C-contiguous arrays")
        row += [array.ctypes.data, *(*array.shape, 1)[:2]]
    return np.array(row, np.int64)


@intrinsic
def _pointer(typing_context: Any, address: Any, dtype: Any) -> Any:
    """A pointer to items of ``dtype`` from an integer."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(dtype.dtype)(types.int64, dtype), codegen


@njit(cache=True, nogil=True)
def _view(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return carray(_pointer(address, dtype), shape, dtype)  # type: ignore[call-arg]  # mypy counts the context in


@njit(cache=True, nogil=True)
def view_1d(row: np.ndarray, index: int, dtype: Any) -> np.ndarray:
    """The array of that index, [n]."""
    at = COLUMNS * index
    return _view(row[at], (row[at + 1],), dtype)


@njit(cache=True, nogil=True)
def view_2d(row: np.ndarray, index: int, columns: int, dtype: Any) -> np.ndarray:
    """The array of that index, [n, columns]; columns 0 takes its own second dimension."""
    at = COLUMNS * index
    width = columns if columns > 0 else row[at + 2]
    return _view(row[at], (row[at + 1], width), dtype)


@njit(cache=True, nogil=True)
def view_3d(row: np.ndarray, index: int, columns: int, depth: int, dtype: Any) -> np.ndarray:
    """The array of that index, [n, columns, depth]; columns 0 takes its own second dimension."""
    at = COLUMNS * index
    width = columns if columns > 0 else row[at + 2]
    return _view(row[at], (row[at + 1], width, depth), dtype)
