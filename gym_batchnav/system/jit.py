"""Options of ``numba.njit`` for the package's kernels.

Numba makes two wrappers for every kernel, for callers in Python and for callers in C. Compiling them takes a third
of the time of compiling the kernels, so a kernel is compiled only with those it needs. A call from Python to a
kernel without a wrapper would crash; an architecture test ensures that there is none.
"""

from __future__ import annotations

from typing import Any

ENTRY: dict[str, Any] = {"cache": True, "nogil": True, "no_cfunc_wrapper": True}  # for kernels that Python calls
INNER: dict[str, Any] = {**ENTRY, "no_cpython_wrapper": True}  # for kernels that only kernels call
