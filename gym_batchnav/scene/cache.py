"""Prepared data on disk (navmeshes, geodesic tables, ray records), found again by content hash."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from gym_batchnav.storage import write_atomically

_VERSION = 1  # of the entries' layout; raise it to forget all that was stored
_CHECKSUM, _PREFIX = "checksum", "array:"  # the prefix keeps names apart from savez's own arguments


class DiskCache:
    """A folder of named arrays that many processes may share.

    An entry is written aside and then renamed, so it is there whole or not at all; one that is damaged all the same
    is removed and counts as absent. A folder or disk that refuses costs one warning, and nothing is kept.

    Args:
        directory: Where the entries lie; by default the folder that the environment variable ``GYM_BATCHNAV_CACHE``
            names, or else the user's cache folder. It is made when first needed.

    Attributes:
        directory: Where the entries lie.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        chosen = directory or os.environ.get("GYM_BATCHNAV_CACHE") or platformdirs.user_cache_dir("gym_batchnav")
        self.directory = Path(chosen)
        self._warned = False

    def load(self, key: str) -> dict[str, np.ndarray] | None:
        """The arrays stored under ``key``, by name, or None if there are none."""
        path = self._path(key)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as entry:
                arrays = {name.removeprefix(_PREFIX): entry[name] for name in entry.files if name != _CHECKSUM}
                checksum = entry[_CHECKSUM].tobytes()
            if checksum == _checksum(arrays):
                return arrays
        except FileNotFoundError:
            return None
        except PermissionError as error:
            self._warn(error)
            return None
        except Exception:  # NumPy and zipfile raise anything on damaged files
            pass
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._warn(error)
        return None

    def store(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays under ``key``, in place of what was there.

        Args:
            key: What the arrays follow from: the scene's content hash, the maker's name, version and settings.
            arrays: They hold numbers, flags or text, no objects.

        Raises:
            ValueError: an array holds Python objects.
        """
        for name, array in arrays.items():
            if np.asarray(array).dtype.hasobject:
                raise ValueError(f"array {name!r} holds Python objects, which are not cached: store numbers instead")
        entry: dict[str, Any] = {_PREFIX + name: np.asarray(array) for name, array in arrays.items()}
        entry[_CHECKSUM] = np.frombuffer(_checksum(arrays), np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **entry)
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, buffer.getvalue())
        except OSError as error:
            self._warn(error)

    def _path(self, key: str) -> Path:
        return self.directory / f"{hashlib.sha256(f'{_VERSION} {key}'.encode()).hexdigest()}.npz"

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the cache in '{self.directory}' cannot be used ({error}): prepared data is made anew each time; "
                "set GYM_BATCHNAV_CACHE to a folder that can be written",
                stacklevel=3,
            )


def _checksum(arrays: Mapping[str, np.ndarray]) -> bytes:
    """SHA-256 over the arrays' names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {np.shape(arrays[name])};".encode())
        digest.update(array.tobytes())
    return digest.digest()
