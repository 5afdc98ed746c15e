"""Arrays in the zarr v3 format, version 3.0 of its specification, with the sharding codec and Zstandard.

https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html. The zarr library creates each array and each inner chunk
through its event loop, which takes several times as long as compressing the images, so these few lines do it instead.
They read only what they wrote, with memory bounded in advance. The tests read the files with the library.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.collect.info import read_json
from gym_batchnav.system.extras import needs_extra

METADATA = "zarr.json"
EXTRA = "collect"
_CHUNK_BYTES = 2**19  # of an inner chunk at most, uncompressed, so that short windows are read quickly


class ArrayFiles:
    """Writes and reads arrays, compressed by Zstandard.

    Args:
        level: Compression level of Zstandard.

    Raises:
        MissingExtraError: A package of the extra ``[collect]`` is not installed.
    """

    def __init__(self, level: int) -> None:
        with needs_extra(EXTRA, "zarr"):
            from google_crc32c import value as crc32c
            from numcodecs.zstd import Zstd
        self._checksum = crc32c
        self._codec = Zstd(level)
        self.level = level

    def write(self, folder: Path, values: np.ndarray, names: Sequence[str]) -> None:
        """Write a small array in one chunk.

        Args:
            folder: Folder of the array, which does not exist.
            values: The array.
            names: Names of its dimensions.
        """
        values = _little(values)
        write_json(folder, array_metadata(values.shape, values.dtype, names, self.level))
        if values.size:
            path = folder.joinpath("c", *["0"] * values.ndim)
            path.parent.mkdir(parents=True)
            path.write_bytes(self._codec.encode(values))

    def write_frames(self, folder: Path, parts: Iterable[np.ndarray], num_frames: int, names: Sequence[str]) -> None:
        """Write images as one file with an index of chunks of a few images.

        Args:
            folder: Folder of the array, which does not exist.
            parts: Arrays [F, ...] of consecutive images, which have ``num_frames`` together, at least one.
            num_frames: Their number.
            names: Names of the dimensions.
        """
        chunk: np.ndarray | None = None
        filled = 0
        encoded: list[bytes] = []
        for part in parts:
            part = _little(part)
            if chunk is None:
                size = frames_per_chunk(part[0].nbytes)
                chunk = np.zeros((size, *part.shape[1:]), part.dtype)
            start = 0
            while start < len(part):
                if filled == 0 and len(part) - start >= len(chunk):  # without copying
                    encoded.append(self._codec.encode(part[start : start + len(chunk)]))
                    start += len(chunk)
                    continue
                count = min(len(chunk) - filled, len(part) - start)
                chunk[filled : filled + count] = part[start : start + count]
                filled += count
                start += count
                if filled == len(chunk):
                    encoded.append(self._codec.encode(chunk))
                    filled = 0
        assert chunk is not None, "no images"
        if filled:
            chunk[filled:] = 0
            encoded.append(self._codec.encode(chunk))
        shape = (num_frames, *chunk.shape[1:])
        write_json(folder, array_metadata(shape, chunk.dtype, names, self.level, len(chunk)))
        path = folder.joinpath("c", *["0"] * chunk.ndim)
        path.parent.mkdir(parents=True)
        with path.open("wb") as file:
            for piece in encoded:
                file.write(piece)
            file.write(self._index([len(piece) for piece in encoded]))

    def _index(self, sizes: Sequence[int]) -> bytes:
        """Return the index of a file of chunks: offset and size of each, and a checksum."""
        offset = 0
        index = b""
        for size in sizes:
            index += struct.pack("<QQ", offset, size)
            offset += size
        return index + struct.pack("<I", self._checksum(index))

    def read(self, folder: Path, shape: Sequence[int], dtype: Any, names: Sequence[str]) -> np.ndarray:
        """Read a small array that ``write`` wrote; it may come from strangers.

        Raises:
            ValueError: It has another shape, dtype or form, or is damaged.
        """
        values = np.zeros(shape, dtype)
        self._check(folder, array_metadata(shape, values.dtype, names, self.level))
        if values.size:
            self._decode(folder, _read(folder.joinpath("c", *["0"] * values.ndim), 2 * values.nbytes + 2**16), values)
        return values

    def read_frames(
        self, folder: Path, shape: Sequence[int], dtype: Any, names: Sequence[str], rows: slice
    ) -> np.ndarray:
        """Read images ``rows`` of an array that ``write_frames`` wrote; it may come from strangers.

        Raises:
            ValueError: It has another shape, dtype or form, or is damaged.
        """
        dtype = np.dtype(dtype)
        size = frames_per_chunk(int(np.prod(shape[1:])) * dtype.itemsize)
        self._check(folder, array_metadata(shape, dtype, names, self.level, size))
        chunk = np.empty((size, *shape[1:]), dtype)
        values = np.empty((rows.stop - rows.start, *shape[1:]), dtype)
        path = folder.joinpath("c", *["0"] * len(shape))
        try:
            with path.open("rb") as file:
                places = self._places(path, file, -(-shape[0] // size), 2 * chunk.nbytes + 2**16)
                for number in range(rows.start // size, -(-rows.stop // size)):
                    offset, length = places[number]
                    file.seek(offset)
                    self._decode(folder, file.read(length), chunk)
                    first, last = max(rows.start, number * size), min(rows.stop, (number + 1) * size)
                    values[first - rows.start : last - rows.start] = chunk[first - number * size : last - number * size]
        except OSError as error:
            raise ValueError(f"'{path}' cannot be read: {error}") from error
        return values

    def _places(self, path: Path, file: Any, count: int, most: int) -> list[tuple[int, int]]:
        """Return offset and size of every chunk of a file; ValueError if they are damaged or too large."""
        length = 16 * count + 4
        end = file.seek(0, 2)
        file.seek(max(0, end - length))
        index = file.read(length)
        good = len(index) == length and struct.unpack("<I", index[-4:])[0] == self._checksum(index[:-4])
        places = list(struct.iter_unpack("<QQ", index[:-4])) if good else []
        if not good or any(offset + size > end - length or size > most for offset, size in places):
            raise ValueError(f"'{path}' is damaged: its index of chunks does not fit")
        return places

    def _decode(self, folder: Path, data: bytes, out: np.ndarray) -> None:
        """Decode a chunk into an array of its size, which bounds the memory that it takes."""
        try:
            self._codec.decode(data, out)
        except Exception as error:  # errors of many kinds
            raise ValueError(f"'{folder}' is damaged: {error}") from error

    def _check(self, folder: Path, expected: Mapping[str, Any]) -> None:
        """Raise ValueError unless an array has the metadata that is expected."""
        path = folder / METADATA
        if not path.is_file() or read_json(path) != expected:
            raise ValueError(f"'{path}' does not describe the array that its dataset should have")


def array_metadata(
    shape: Sequence[int], dtype: np.dtype[Any], names: Sequence[str], level: int, chunk: int | None = None
) -> dict[str, Any]:
    """Return the metadata of an array; with ``chunk``, of a file of chunks of so many rows."""
    endian = {"configuration": {"endian": "little"}} if dtype.itemsize > 1 else {}
    codecs: list[dict[str, Any]] = [
        {"name": "bytes", **endian},
        {"name": "zstd", "configuration": {"level": level, "checksum": False}},
    ]
    outer = [max(1, size) for size in shape]
    if chunk is not None:
        outer[0] = -(-shape[0] // chunk) * chunk
        index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
        sharding = {
            "chunk_shape": [chunk, *outer[1:]], "codecs": codecs, "index_codecs": index, "index_location": "end",
        }  # fmt: skip
        codecs = [{"name": "sharding_indexed", "configuration": sharding}]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": outer}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": False if dtype.kind == "b" else 0 if dtype.kind in "iu" else 0.0,
        "codecs": codecs,
        "attributes": {},
        "dimension_names": list(names),
    }


def write_group(folder: Path, attributes: Mapping[str, Any]) -> None:
    """Write the metadata of a group."""
    write_json(folder, {"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)})


def write_json(folder: Path, description: Mapping[str, Any]) -> None:
    """Write the metadata of an array or group into its folder, which is created."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / METADATA).write_text(json.dumps(description, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def frames_per_chunk(frame_bytes: int) -> int:
    """Return the number of images in a chunk, a power of two."""
    return 2 ** max(0, (_CHUNK_BYTES // max(1, frame_bytes)).bit_length() - 1)


def _little(values: np.ndarray) -> np.ndarray:
    """Return values contiguous and with their first byte the lowest."""
    values = np.ascontiguousarray(values).reshape(values.shape)
    return values.astype(values.dtype.newbyteorder("<"), copy=False)


def _read(path: Path, most: int) -> bytes:
    """Return the content of a file; ValueError if it cannot be read or is too large."""
    try:
        if path.stat().st_size > most:
            raise ValueError(f"'{path}' is too large for its array")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"'{path}' cannot be read: {error}") from error
