"""Optional dependencies, installed with the extras of this package."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any


class MissingExtraError(ModuleNotFoundError):
    """The error of an extra that is not installed; the message has the command that installs it."""


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Wrap imports of packages of an extra, which ``what`` needs; MissingExtraError if one cannot be imported."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        message = f"{what} needs the extra [{extra}] ({error}): {install_command(extra)}"
        raise MissingExtraError(message, name=error.name) from error


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "gym-batchnav[{extra}]"'


def installed_version(package: str) -> str | None:
    """Return the version of a distribution, or None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class OptionalPackage:
    """A package of an extra without which some files cannot be read."""

    module: str
    name: str
    extra: str  # that installs it

    def is_found(self) -> bool:
        """Return whether it is installed, without importing it."""
        return importlib.util.find_spec(self.module) is not None

    def load(self, what: str, remedy: str) -> Any:
        """Import it; ValueError if that fails, see ``missing``."""
        try:
            return importlib.import_module(self.module)
        except ImportError as error:
            raise ValueError(self.missing(what, remedy)) from error

    def missing(self, what: str, remedy: str) -> str:
        """Return the sentence that says what needs it, and the command that installs it.

        It continues a subject such as "it is compressed by Draco, which"; the remedy is an imperative.
        """
        return f"{what} needs {self.name}: install the extra for it ({install_command(self.extra)}) or {remedy}"
