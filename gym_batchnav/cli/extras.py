"""A context manager for imports that need the extra ``[train]``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gym_batchnav.system.extras import needs_extra


@contextmanager
def train_extra() -> Iterator[None]:
    """Wrap the imports of ``gym_batchnav.train``.

    OpenMP reads its settings when torch or Numba loads it. By default its threads spin while they wait, which made
    training with two threads up to twenty times slower when another process occupied a core.

    Raises:
        MissingExtraError: A package of the extra ``[train]`` is not installed.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with needs_extra("train", "this command"):
        yield
