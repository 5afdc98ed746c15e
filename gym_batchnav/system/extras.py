"""Optional dependencies, installed with the extras of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ModuleNotFoundError):
    """The error of an extra that is not installed; the message has the command that installs it."""


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Wrap the imports of packages that an extra installs.

    Args:
        extra: Name of the extra.
        what: The feature that requires the extra, for the message.

    Raises:
        MissingExtraError: If one of them cannot be imported.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        message = f'{what} needs the extra [{extra}] ({error}): pip install "gym-batchnav[{extra}]"'
        raise MissingExtraError(message, name=error.name) from error
