"""Zarr: the lossless form of a dataset, one zarr v3 group per shard, written and read by the zarr library."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from gym_batchnav.collect.dataset import (
    PER_ACTION,
    RECORD,
    SHARDS,
    DatasetInfo,
    Episode,
    Format,
    Shard,
    ShardRecord,
    columns_of,
    read_json,
    to_json,
)
from gym_batchnav.collect.recorder import is_big
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.storage import write_atomically

OBSERVATIONS = "observations"
METADATA = "zarr.json"
MAX_FRAMES = 2**24  # of a shard
MAX_EPISODE_BYTES = 2**32  # of the images of one sensor
MAX_CHUNK_BYTES = 2**28  # of images that are compressed together, in files to read
_CHUNK_BYTES = 2**20  # the same in files to write, unless one image is larger, so that short windows are read quickly
_FILE_BYTES = 2**26  # of the images in a file to write, before compression, at most
_REMEDY = "remove its shard's folder and collect it again"
_KEY = re.compile(r"[A-Za-z0-9_./-]{1,200}")


@dataclass(frozen=True, slots=True)
class Zarr(Format):
    """Every array as it is, images compressed by Zstandard.

    A dataset is a group; ``shards/NAME`` are groups with one array per sensor and per column. Their rows
    are the frames of all its episodes, T + 1 each, one episode after the other. ``num_steps`` [E] has their lengths.
    In the arrays of ``PER_ACTION`` the row after an episode's last action is 0.

    Attributes:
        level: Compression level of Zstandard: higher is smaller and slower, negative is faster.

    Raises:
        ValueError: The level is not from -50 to 22.
    """

    level: int = 1

    name = "zarr"

    def __post_init__(self) -> None:
        if isinstance(self.level, bool) or not isinstance(self.level, int) or not -50 <= self.level <= 22:
            raise ValueError(f"level={self.level!r}: pass a whole number from -50 to 22")

    @override
    def options(self) -> dict[str, Any]:
        return {"level": self.level}

    @override
    def check(self, info: DatasetInfo) -> None:
        import_zarr()
        keys = list(info.observation_space.keys())
        for key in keys:
            inside = [other for other in keys if other.startswith(f"{key}/")]
            reserved = any(part in ("", ".", "..", METADATA, "c") for part in key.split("/"))
            if not _KEY.fullmatch(key) or inside or reserved:
                raise ValueError(f"sensor {key!r} has a name that no folder can have: rename it")

    @override
    def write(self, folder: Path, info: DatasetInfo, shard: Shard, episodes: Sequence[Episode]) -> None:
        attributes = {"scene": shard.scene, "first_episode": shard.first}
        group = import_zarr().create_group(store=folder, attributes=attributes)
        observations = group.create_group(OBSERVATIONS)
        steps = np.array([episode.num_steps for episode in episodes], np.int64)
        num_frames = int(steps.sum()) + len(steps)
        for key, space in info.observation_space.items():
            for parent in reversed(Path(key).parents[:-1]):  # a camera's group
                observations.require_group(parent.as_posix())
            array = self._create(observations, key, num_frames, space.shape or (), space.dtype)
            _fill(array, (episode.observations[key] for episode in episodes))
        for name, (shape, dtype) in columns_of(info).items():
            parts = [getattr(episode, name) for episode in episodes]
            if name in PER_ACTION:
                parts = [np.concatenate([part, np.zeros_like(part[:1])]) for part in parts]
            _fill(self._create(group, name, num_frames, shape, dtype), parts)
        _fill(self._create(group, "num_steps", len(steps), (), steps.dtype), [steps])

    def _create(
        self,
        group: Any,
        name: str,
        num_rows: int,
        row: tuple[int, ...],
        dtype: Any,
        sizes: tuple[int, int] | None = None,
    ) -> Any:
        """Return a new array: images in files of compressed chunks, anything else as it is in one file.

        ``sizes`` are the rows of a chunk of images and of a file; by default those of this version.
        """
        options: dict[str, Any] = {"chunks": (num_rows, *row), "compressors": None}
        if is_big(row, dtype):
            row_bytes = math.prod(row) * np.dtype(dtype).itemsize
            rows = 2 ** max(0, (_CHUNK_BYTES // row_bytes).bit_length() - 1)
            chunks = min(max(1, _FILE_BYTES // (rows * row_bytes)), -(-num_rows // rows))
            of_chunk, of_file = sizes or (rows, chunks * rows)
            from zarr.codecs import ZstdCodec

            compressor = ZstdCodec(level=self.level, checksum=False)
            options = {"chunks": (of_chunk, *row), "shards": (of_file, *row), "compressors": compressor}
        return group.create_array(
            name, shape=(num_rows, *row), dtype=dtype, fill_value=0, filters=None, config={"write_empty_chunks": True},
            dimension_names=["frame", *(f"dim_{axis}" for axis in range(1, len(row) + 1))], **options,
        )  # fmt: skip

    @override
    def finish(self, root: Path, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
        zarr = import_zarr()
        attributes = {
            "collection": to_json(info),
            "shards": [record.shard.name for record in shards],
            "num_episodes": sum(len(record.episodes) for record in shards),
            "num_frames": sum(record.num_frames for record in shards),
        }
        for folder, given in ((root, attributes), (root / SHARDS, {})):
            store: dict[str, Any] = {}
            zarr.create_group(store=store, attributes=given)
            write_atomically(folder / METADATA, store[METADATA].to_bytes())

    @override
    def read(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> Iterator[Episode]:
        self.check(info)
        if record.num_frames > MAX_FRAMES:
            raise ValueError(f"'{folder}' has more than {MAX_FRAMES:,} frames: {_REMEDY}")
        lengths = [episode.num_steps for episode in record.episodes]
        found = self._open(folder, "num_steps", len(lengths), (), np.dtype(np.int64))
        if _rows(folder, found, slice(None)).tolist() != lengths:
            raise ValueError(f"'{folder}' has episodes of other lengths than its {RECORD} says: {_REMEDY}")
        sensors = {key: f"{OBSERVATIONS}/{key}" for key in info.observation_space.keys()}
        expected = {sensors[key]: (space.shape or (), space.dtype) for key, space in info.observation_space.items()}
        arrays = {}
        for name, (shape, dtype) in {**expected, **columns_of(info)}.items():
            arrays[name] = self._open(folder, name, record.num_frames, shape, np.dtype(dtype))
            if not is_big(shape, dtype):
                arrays[name] = _rows(folder, arrays[name], slice(None))
        start = 0
        for one in record.episodes:
            rows = slice(start, start + one.num_steps + 1)
            start = rows.stop
            for name, array in arrays.items():
                if (one.num_steps + 1) * math.prod(array.shape[1:]) * array.dtype.itemsize > MAX_EPISODE_BYTES:
                    raise ValueError(f"'{folder / name}' has an episode of over {MAX_EPISODE_BYTES:,} bytes: {_REMEDY}")
            values = {name: _rows(folder, array, rows) for name, array in arrays.items()}
            columns = {name: values[name][: -1 if name in PER_ACTION else None] for name in columns_of(info)}
            yield one.episode(record.shard.scene, {key: values[name] for key, name in sensors.items()}, columns)

    def _open(self, folder: Path, name: str, num_rows: int, row: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Open an array, which may come from strangers, without reading its values.

        Raises:
            ValueError: It has another shape, dtype or form than ``write`` gives it, or its chunks unpack to more.
        """
        zarr = import_zarr()
        path = folder / name
        if not (path / METADATA).is_file():
            raise ValueError(f"'{path}' is missing: {_REMEDY}")
        read_json(path / METADATA)  # bounds its size
        try:
            found = zarr.open_array(store=path, mode="r")
            sizes = found.chunks[0], (found.shards or found.chunks)[0]
            chunk_bytes = sizes[0] * math.prod(row) * dtype.itemsize
            if sizes[1] > MAX_FRAMES or (chunk_bytes > MAX_CHUNK_BYTES and is_big(row, dtype)):
                raise ValueError(f"chunks of {sizes[0]:,} rows in files of {sizes[1]:,} are too large")
            expected = self._create(zarr.create_group(store={}), "expected", num_rows, row, dtype, sizes)
            same = replace(found.metadata, attributes={}) == expected.metadata
        except Exception as error:  # of many kinds
            reason = str(error)[:300]  # it may quote the file
            raise ValueError(f"'{path / METADATA}' does not describe an array ({reason}): {_REMEDY}") from error
        if not same:
            raise ValueError(f"'{path / METADATA}' does not describe the array that its dataset should have: {_REMEDY}")
        rows_of_file = sizes[1]
        for number in range(-(-num_rows // rows_of_file)):
            file = path.joinpath("c", str(number), *["0"] * len(row))
            rows = min(rows_of_file, num_rows - number * rows_of_file)
            _check_file(file, rows, found.shards and rows_of_file // sizes[0], sizes[0], row, dtype)
        return found


def import_zarr() -> Any:
    """Return the zarr library; MissingExtraError unless its version 3 is installed."""
    with needs_extra("collect", "the format zarr (Python 3.11 or later)"):
        import zarr
        import zarr.codecs
    return zarr


def _fill(array: Any, parts: Iterable[np.ndarray]) -> None:
    """Write consecutive parts [F, ...] of an array, as much at a time as a file holds."""
    size = (array.shards or array.chunks)[0]
    start = 0
    held: list[np.ndarray] = []
    for part in parts:
        while len(part):
            held.append(part[: size - sum(map(len, held))])
            part = part[len(held[-1]) :]
            if sum(map(len, held)) == size:
                array[start : start + size] = np.concatenate(held)
                start += size
                held = []
    if held:
        array[start:] = np.concatenate(held)


def _rows(folder: Path, array: Any, rows: slice) -> np.ndarray:
    """Return some rows of an array; ValueError if it is damaged."""
    try:
        return array[rows]
    except Exception as error:  # of many kinds
        raise ValueError(f"'{folder}' is damaged ({error}): {_REMEDY}") from error


def _check_file(
    path: Path, num_rows: int, num_chunks: int | None, chunk_rows: int, row: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """Raise ValueError unless a file has all rows, in chunks that unpack to their size.

    zarr takes as much memory for a chunk as its header asks for, and zeros for one that is missing. ``num_chunks``, the
    number in the file's index, is None if it is not compressed; ``row`` is the shape of a row, and ``dtype`` its type.
    """
    row_bytes = math.prod(row) * dtype.itemsize
    size = path.stat().st_size if path.is_file() else -1
    if num_chunks is None:
        if size != num_rows * row_bytes:
            raise ValueError(f"'{path}' is missing or does not have the size of its array: {_REMEDY}")
        return
    index_bytes = 16 * num_chunks + 4  # offset and size of every chunk, and a checksum, which zarr compares
    if size < index_bytes:
        raise ValueError(f"'{path}' is missing, or has no index of chunks: {_REMEDY}")
    with path.open("rb") as file:
        file.seek(size - index_bytes)
        index = np.frombuffer(file.read(16 * num_chunks), "<u8").reshape(-1, 2)
        for offset, length in index[: -(-num_rows // chunk_rows)].tolist():
            if offset + length > size - index_bytes:
                raise ValueError(f"'{path}' is damaged: its index of chunks does not fit: {_REMEDY}")
            file.seek(offset)
            if _unpacked_size(file.read(min(length, 18))) != chunk_rows * row_bytes:
                raise ValueError(f"'{path}' is damaged: a chunk does not unpack to its size: {_REMEDY}")


def _unpacked_size(head: bytes) -> int:
    """Return the size that the header of a Zstandard frame announces (RFC 8878, section 3.1.1.1); 0 for none."""
    if len(head) < 18:
        head = head.ljust(18, b"\0")
    flags = head[4]
    is_single = flags >> 5 & 1
    start = 6 - is_single + (0, 1, 2, 4)[flags & 3]
    width = (is_single, 2, 4, 8)[flags >> 6]
    return int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
