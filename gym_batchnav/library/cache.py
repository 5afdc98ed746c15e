"""A disk cache for prepared data (scenes, navmeshes, geodesic tables), keyed by content and version."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import platformdirs

from gym_batchnav.system.notices import warn_user
from gym_batchnav.system.storage import write_atomically

MAX_BYTES = 20 * 10**9
_SIZE_VARIABLE = "GYM_BATCHNAV_CACHE_GB"
_VERSION = 2  # of the entries' layout; increasing it invalidates all stored entries
_SUFFIX = ".entry"
_ALIGNMENT = 64  # bytes
_CHECKSUM = slice(0, 32)  # SHA-256 of all that follows: the header's length, the header, the arrays
_HEADER_LENGTH = slice(32, 40)
_STALE = 3600.0  # seconds after which an unfinished file is assumed to have lost its writer
_SHARE = 64  # the folder is measured again after every max_bytes / _SHARE stored bytes


class CacheWarning(UserWarning):
    """The category of warnings about a cache whose folder or disk cannot be used."""


class DiskCache:
    """A folder of named arrays that many processes may share.

    Entries are written atomically. A damaged entry is removed and counts as absent. If the folder or disk cannot be
    used, there is one warning and nothing is stored. When the folder exceeds its limit, the least recently used entries
    are removed.

    An entry holds numbers and text only. Its arrays are views of the bytes read, so reading an entry never executes
    code and never allocates more memory than the size of the file.

    Args:
        directory: The folder of the entries; by default that of the environment variable ``GYM_BATCHNAV_CACHE``, or
            else the user's cache folder. It is created when first needed.
        max_bytes: Maximum size of the folder; by default 20 GB, or the GB of the environment variable
            ``GYM_BATCHNAV_CACHE_GB``. A larger entry is not stored. Each process may exceed the limit by a 64th before
            it measures the folder again.

    Attributes:
        directory: The folder of the entries.
        max_bytes: Maximum size of the folder.
    """

    def __init__(self, directory: str | Path | None = None, max_bytes: int | None = None) -> None:
        max_bytes = _default_bytes() if max_bytes is None else max_bytes
        if max_bytes < 1:
            raise ValueError(f"max_bytes={max_bytes}: pass a positive number of bytes")
        chosen = directory or os.environ.get("GYM_BATCHNAV_CACHE") or platformdirs.user_cache_dir("gym_batchnav")
        self.directory = Path(os.path.expanduser(chosen))
        self.max_bytes = max_bytes
        self._unmeasured = max_bytes  # bytes stored since the folder was measured; at first all of it is unknown
        self._warned = False

    def load(self, key: str) -> dict[str, np.ndarray] | None:
        """Return the arrays stored under ``key``, by name, or None; the entry counts as used now."""
        path = self._path(key)
        try:
            data = self._read(path)
            if data is not None:
                arrays = parse_entry(data)
                with suppress(OSError):  # a read-only folder is fine
                    os.utime(path)
                return arrays
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        except ValueError:
            pass
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._warn(error)
        return None

    def store(self, key: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Store arrays under ``key``, replacing an existing entry.

        Args:
            key: Everything that determines the arrays: a digest of their source, and the maker's name, version and
                settings.
            arrays: Arrays of numbers, bools or text, not of objects.

        Raises:
            ValueError: If an array holds Python objects, records or empty text.
        """
        chunks = compose_entry(arrays)
        size = sum(map(len, chunks))
        if size > self.max_bytes:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, chunks)
            self._unmeasured += size
            if self._unmeasured > self.max_bytes // _SHARE:
                self._unmeasured = 0
                self._evict(path)
        except OSError as error:
            self._warn(error)

    def _path(self, key: str) -> Path:
        name = f"{_VERSION} {key}".encode(errors="surrogatepass")  # file names need not be UTF-8
        return self.directory / f"{hashlib.sha256(name).hexdigest()}{_SUFFIX}"

    def _read(self, path: Path) -> np.ndarray | None:
        """Return the bytes [S] uint8 of an entry, or None if it is larger than any that could have been stored."""
        if path.stat().st_size > self.max_bytes:
            return None
        return np.fromfile(path, np.uint8)  # NumPy asks for large pages, which are filled in half the time

    def _evict(self, newest: Path) -> None:
        """Remove the least recently used entries until the rest fits; ``newest`` is kept."""
        entries = sorted(self._files(), key=lambda entry: (entry[2] == newest, entry[0]))
        excess = sum(size for _, size, _ in entries) - self.max_bytes
        for used, size, path in entries:
            being_written = path.name.startswith(".")
            if (excess > 0 and not being_written) or (being_written and used < time.time() - _STALE):
                excess -= size
                with suppress(PermissionError):  # Windows does not remove files that are open
                    path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """Yield the time of last use, size and path of each file of the cache, including those being written."""
        with os.scandir(self.directory) as found:
            for file in found:
                if _SUFFIX in file.name:
                    try:
                        status = file.stat()
                    except FileNotFoundError:  # removed by another process
                        continue
                    yield status.st_mtime, status.st_size, Path(file.path)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warn_user(
                f"the cache in '{self.directory}' cannot be used ({error}): data will be prepared again every time; "
                "pass a writable folder as Scenes(cache_dir=), or set GYM_BATCHNAV_CACHE to one",
                CacheWarning,
            )


def _default_bytes() -> int:
    """Return the maximum size of a cache's folder; ValueError if its environment variable is not a positive number."""
    given = os.environ.get(_SIZE_VARIABLE)
    if not given:
        return MAX_BYTES
    try:
        size = float(given) * 1e9
    except ValueError:
        size = math.nan
    if not 1 <= size < 1e18:
        raise ValueError(f"{_SIZE_VARIABLE}={given!r}: set it to a positive number of GB, or leave it out")
    return int(size)


def _write(path: Path, chunks: Sequence[bytes | memoryview]) -> None:
    """Write an entry; where the system does not replace open files, an entry that is being read is left unchanged."""
    try:
        write_atomically(path, *chunks)
    except PermissionError:  # Windows does not replace files that are open
        if sys.platform != "win32" or not path.exists():
            raise


def compose_entry(arrays: Mapping[str, np.ndarray]) -> list[bytes | memoryview]:
    """Return an entry's bytes: checksum, length of the header, header (JSON: name, type, shape, offset), arrays.

    The arrays are not copied, since a large scene may leave no memory for that.
    """
    rows = []
    chunks: list[bytes | memoryview] = []
    offset = 0
    for name, values in arrays.items():
        array = np.asarray(values)
        if array.dtype.hasobject or np.dtype(array.dtype.str) != array.dtype or array.dtype.itemsize == 0:
            raise ValueError(f"array {name!r} holds {array.dtype}, which is not cached: store numbers or text")
        rows.append([name, array.dtype.str, array.shape, offset])
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        padding = bytes(-array.nbytes % _ALIGNMENT)
        chunks += [flat.data, padding]
        offset += array.nbytes + len(padding)
    header = json.dumps(rows).encode()
    gap = _start_of_arrays(len(header)) - _HEADER_LENGTH.stop - len(header)
    chunks = [len(header).to_bytes(8, "little"), header, bytes(gap), *chunks]
    checksum = hashlib.sha256()
    for chunk in chunks:
        checksum.update(chunk)
    return [checksum.digest(), *chunks]


def parse_entry(data: np.ndarray) -> dict[str, np.ndarray]:
    """Return the arrays of an entry as views of its bytes.

    Raises:
        ValueError: If it is damaged.
    """
    if hashlib.sha256(data[_CHECKSUM.stop :].data).digest() != data[_CHECKSUM].tobytes():
        raise ValueError("wrong checksum")
    length = int.from_bytes(data[_HEADER_LENGTH].tobytes(), "little")
    start = _start_of_arrays(length)
    header = data[_HEADER_LENGTH.stop : _HEADER_LENGTH.stop + length]
    arrays = {}
    try:
        for name, type_name, shape, offset in json.loads(header.tobytes()):
            dtype = np.dtype(type_name)
            if dtype.hasobject or offset < 0:
                raise ValueError("not an array of numbers or text")
            arrays[name] = np.frombuffer(data, dtype, math.prod(shape), start + offset).reshape(shape)
            if dtype.kind == "U" and arrays[name].size:  # Python fails on text with other characters
                characters = np.ascontiguousarray(arrays[name]).view(dtype.str[0] + "u4")
                if characters.max() > sys.maxunicode:
                    raise ValueError("not text")
    except Exception as error:  # NumPy raises errors of any kind for unknown names of types
        raise ValueError(f"malformed header: {error}") from error
    return arrays


def _start_of_arrays(header_length: int) -> int:
    return -(-(_HEADER_LENGTH.stop + header_length) // _ALIGNMENT) * _ALIGNMENT
