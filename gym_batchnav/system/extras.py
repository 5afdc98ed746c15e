"""Packages that only some need: an extra of this package brings them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ModuleNotFoundError):
    """A package of an extra is not installed; the message says how to install it."""


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Around the imports of packages that an extra brings.

    Args:
        extra: Its name.
        what: What needs it, for the message.

    Raises:
        MissingExtraError: One of them cannot be imported.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        message = f'{what} needs the extra [{extra}] ({error}): pip install "gym-batchnav[{extra}]"'
        raise MissingExtraError(message, name=error.name) from error
