"""The extra ``[train]`` around the imports of commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gym_batchnav.system.extras import needs_extra


@contextmanager
def train_extra() -> Iterator[None]:
    """Wrap the imports of ``gym_batchnav.train``.

    OpenMP reads its settings when torch or Numba loads it. Its threads wait by spinning if nobody says otherwise, and
    where another process takes a core, training with two of them was seen to be twenty times slower for that.

    Raises:
        MissingExtraError: a package of the extra ``[train]`` is not installed.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with needs_extra("train", "this command"):
        yield
