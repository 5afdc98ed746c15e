"""Writing files so that nothing partial is ever left on disk."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def check_destination(path: Path) -> None:
    """Raise OSError unless a file can be written to a path; to be called before the work whose result it takes.

    Raises:
        OSError: It is a folder, or lies in one that does not exist or may not be written to.
    """
    if path.is_dir():
        raise IsADirectoryError(f"cannot write '{path}': it is a folder: name a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder '{path.parent}' to write '{path.name}' in: make it first")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"cannot write '{path}': its folder may not be written to: name a file in another one")


def make_folder(path: Path) -> None:
    """Make a folder for files unless it exists.

    Raises:
        OSError: It cannot be made, or nothing can be written there.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "a file is in its place" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise type(error)(f"folder '{path}' cannot be made: {reason}: name another one") from error
    check_destination(path / "file")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file aside and rename it: it appears whole or not at all, also to other processes.

    Raises:
        OSError: It cannot be written; the message names it and says what to do.
    """
    check_destination(path)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        aside.write_bytes(data)
        os.replace(aside, path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise type(error)(f"cannot write '{path}': {reason}: fix that, or name a file elsewhere") from error
        raise
