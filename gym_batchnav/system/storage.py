"""Folders that can be written to, atomic writing of files, and their checksums."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
import time
from pathlib import Path

LFS_POINTER = b"version https://git-lfs"  # the beginning of files that git lfs pull has not yet replaced
_CHUNK = 2**20  # bytes
_PATIENCE = 2.0  # seconds that Windows gets to close a file
_PAUSE = 0.05  # seconds between two tries


def is_writable(folder: Path) -> bool:
    """Return whether files can be written to a folder, or, if it does not exist, to its nearest existing parent."""
    existing = folder
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    return existing.is_dir() and os.access(existing, os.W_OK)


def check_folder(path: Path) -> None:
    """Raise OSError unless ``make_folder`` can make a folder; call it before the work whose results go there."""
    if not is_writable(path):
        make_folder(path)  # raises, with the reason


def check_destination(path: Path) -> None:
    """Raise OSError unless a file can be written to a path; to be called before the work whose result is written."""
    if path.is_dir():
        raise IsADirectoryError(f"cannot write '{path}': it is a folder: name a file in it")
    if not path.parent.is_dir():
        remedy = "a file is in its place, name another one" if path.parent.exists() else "create it first"
        raise FileNotFoundError(f"no folder '{path.parent}' to write '{path.name}' in: {remedy}")
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(f"cannot write '{path}': its folder is not writable: name a file in another folder")


def check_content(data: bytes) -> None:
    """Raise ValueError, with the remedy, if a file has no bytes or only those of a pointer of Git LFS."""
    if not data:
        raise ValueError("it is empty: copy or download it again")
    check_pulled(data, "it")


def check_pulled(data: bytes, name: str) -> None:
    """Raise ValueError, with the remedy, if a file has only the bytes of a pointer of Git LFS."""
    if data.startswith(LFS_POINTER):
        raise ValueError(f"{name} is a pointer of Git LFS instead of the file: run git lfs pull")


def make_folder(path: Path) -> None:
    """Create a folder for files unless it exists; OSError if it cannot be created or is not writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = "a file is in its place" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise type(error)(f"folder '{path}' cannot be created: {reason}: name another one") from error
    if not os.access(path, os.W_OK):
        raise PermissionError(f"folder '{path}' is not writable: name another one")


def write_atomically(path: Path, *chunks: bytes | memoryview) -> None:
    """Write chunks aside and rename the file, so that no process sees an incomplete one; OSError if that fails."""
    check_destination(path)
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with aside.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
        replace_path(aside, path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            in_use = sys.platform == "win32" and isinstance(error, PermissionError)
            remedy = "close the program that has it open" if in_use else "remove the cause and try again"
            raise type(error)(f"cannot write '{path}': {reason}: {remedy}, or name a file in another folder") from error
        raise


def replace_path(source: Path, target: Path) -> None:
    """Rename a file or folder; a file that is there is replaced.

    Windows neither renames nor replaces files that are open. Scanners and indexers open new files for a moment, so
    there this is tried for up to two seconds.

    Raises:
        OSError: If it cannot be renamed.
    """
    last = time.monotonic() + _PATIENCE
    while True:
        try:
            os.replace(source, target)
            return
        except PermissionError:
            if sys.platform != "win32" or target.is_dir() or time.monotonic() >= last:
                raise
        time.sleep(_PAUSE)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits; large files are read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
