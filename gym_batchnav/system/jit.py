"""Options of ``numba.njit`` for the package's kernels.

Numba makes two wrappers for every kernel, for callers in Python and for callers in C. Compiling them takes a third
of the time of compiling the kernels, so a kernel is compiled only with those it needs. A call from Python to a
kernel without a wrapper would crash; an architecture test ensures that there is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def _use_kernel_cache() -> None:
    from gym_batchnav.system.kernels import use_kernel_cache  # late: no kernel depends on where it is stored

    use_kernel_cache()


_use_kernel_cache()

# Divisions by zero give inf or NaN, as in NumPy: tests for zero and errors that none catches would cost time.
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
ENTRY: dict[str, Any] = {**_OPTIONS, "no_cfunc_wrapper": True}  # for kernels that Python calls
INNER: dict[str, Any] = {**ENTRY, "no_cpython_wrapper": True}  # for kernels that only kernels call
SMALL: dict[str, Any] = {**INNER, "inline": "always"}  # for kernels of a few lines, compiled within their callers

# A kernel is compiled once more for each narrow integer type and each literal that it is called with, so kernels pass
# each other integers cast by this. Numba's ``int(...)`` keeps the type. mypy does not accept np.int64 as an int.
to_int64: Any = np.int64
