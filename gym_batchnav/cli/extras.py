"""What commands need of the extra ``[train]``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_TRAIN = ("torch", "tensorboard", "matplotlib", "safetensors")


@contextmanager
def train_extra() -> Iterator[None]:
    """Around the imports of ``gym_batchnav.train``.

    OpenMP reads its settings when torch or Numba loads it. Its threads wait by spinning if nobody says otherwise, and
    where another process takes a core, training with two of them was seen to be twenty times slower for that.

    Raises:
        RuntimeError: a package of the extra ``[train]`` is not installed; the message says how to install it.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in _TRAIN:
            raise
        raise RuntimeError(f'{missing} is not installed: pip install "gym-batchnav[train]"') from error
