"""What pictures need of the extra ``[viz]``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def viz_extra(what: str) -> Iterator[None]:
    """Around the imports of the extra's packages.

    Raises:
        RuntimeError: one is not installed; the message says what for and how to install it.
    """
    try:
        yield
    except ImportError as error:
        raise RuntimeError(f'{what} needs the extra [viz]: pip install "gym-batchnav[viz]"') from error
