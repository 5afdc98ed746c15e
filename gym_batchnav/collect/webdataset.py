"""WebDataset: tar files with one sample per episode, arrays as .npy files."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gym_batchnav.collect.api import SHARDS, DatasetInfo, Episode, Format, Shard, ShardRecord
from gym_batchnav.collect.folder import link_or_copy, record_of
from gym_batchnav.collect.info import to_json
from gym_batchnav.system.storage import replace_path, write_atomically

TAR = "episodes.tar"
LINK = "episodes-{:06d}.tar"
INDEX = "dataset.json"  # written last: a folder without it is not finished
ARRAYS = (
    "actions", "rewards", "terminated", "truncated", "position", "heading", "pitch", "distance", "goal",
)  # fmt: skip
_MAX_HEADER = 2**12  # bytes of the header of a .npy file
_BLOCK = 512  # bytes; members of a tar file begin at multiples


@dataclass(frozen=True, slots=True)
class WebDataset(Format):
    """Tar files for streaming, one per shard: an episode is a sample with ``KEY.rgb.npy``, ..., and ``KEY.json``.

    Arrays are not compressed. ``front/depth`` of several cameras is ``KEY.front_depth.npy``.
    """

    name = "webdataset"

    def options(self) -> dict[str, Any]:
        """Return the options: there are none."""
        return {}

    def check(self, info: DatasetInfo) -> None:
        """Check that the names of sensors make different names of files; see ``Format.check``."""
        parts = [part_of(key) for key in info.observation_space.keys()]
        if len({*parts, *ARRAYS}) < len(parts) + len(ARRAYS) or not all(
            re.fullmatch(r"\w{1,80}", one) for one in parts
        ):
            raise ValueError(f"sensors {', '.join(parts)} have names that files cannot have: rename one")

    def open_shard(self, folder: Path, info: DatasetInfo, shard: Shard) -> _ShardWriter:
        """Begin a shard; see ``Format.open_shard``."""
        return _ShardWriter((folder / TAR).open("wb"), shard)

    def finish(self, root: Path, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
        """Link the tar files of all shards under consecutive names; see ``Format.finish``."""
        (root / INDEX).unlink(missing_ok=True)  # it describes the links that were there before
        for index, record in enumerate(shards):
            aside = root / f".{LINK.format(index)}"
            aside.unlink(missing_ok=True)  # left by a process that was killed
            link_or_copy(root / SHARDS / record.shard.name / TAR, aside)
            replace_path(aside, root / LINK.format(index))
            aside.unlink(missing_ok=True)  # renaming a link to the same file leaves both
        for path in root.glob("episodes-*.tar"):
            if re.fullmatch(r"episodes-\d{6}\.tar", path.name) and int(path.stem[9:]) >= len(shards):
                path.unlink()
        description = {
            "collection": to_json(info),
            "files": {LINK.format(index): len(record.episodes) for index, record in enumerate(shards)},
        }
        write_atomically(root / INDEX, (json.dumps(description, indent=1, sort_keys=True) + "\n").encode())

    def verify(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> None:
        """Read all arrays; see ``Format.verify``."""
        for _ in read_shard(folder, info, record):
            pass


class _ShardWriter:
    """Writes each episode at once."""

    def __init__(self, file: BinaryIO, shard: Shard) -> None:
        self._file = file
        self._shard = shard

    def add(self, episode: Episode) -> None:
        """Write an episode as a sample."""
        name = sample_name(self._shard, episode.number)
        values = {"scene": episode.scene, **asdict(record_of(episode))}
        self._write(f"{name}.json", [json.dumps(values, sort_keys=True).encode()])
        for part, array in arrays_of(episode).items():
            array = np.ascontiguousarray(array).reshape(array.shape)
            header = io.BytesIO()
            np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
            self._write(f"{name}.{part}.npy", [header.getvalue(), array.reshape(-1).view(np.uint8).data])

    def _write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        """Write a member; its header says nothing that differs between runs."""
        member = tarfile.TarInfo(name)
        member.size = sum(len(part) for part in parts)
        self._file.write(member.tobuf(tarfile.USTAR_FORMAT))
        for part in parts:
            self._file.write(part)
        self._file.write(bytes(-member.size % _BLOCK))

    def close(self) -> None:
        """Write the end of the file."""
        self._file.write(bytes(2 * _BLOCK))
        self._file.close()

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()


def sample_name(shard: Shard, number: int) -> str:
    """Return the name of an episode's sample, which is unique in the dataset."""
    scene = shard.name.rsplit("-", 2)[0]
    return f"{scene}-{shard.name[-12:]}-{number:06d}"


def part_of(key: str) -> str:
    """Return the part of file names that stands for a sensor."""
    return key.replace("/", "_")


def arrays_of(episode: Episode) -> dict[str, np.ndarray]:
    """Return the arrays of an episode by their part of file names."""
    named: Mapping[str, np.ndarray] = {part_of(key): values for key, values in episode.observations.items()}
    return {**dict(sorted(named.items())), **{name: getattr(episode, name) for name in ARRAYS}}


def read_shard(folder: Path, info: DatasetInfo, record: ShardRecord) -> Iterator[Episode]:
    """Read the episodes of a shard, which may come from strangers.

    Raises:
        ValueError: A member is missing, unexpected or damaged.
    """
    spaces = {part_of(key): (key, space) for key, space in info.observation_space.items()}
    action = info.action_space
    fixed: dict[str, tuple[tuple[int, ...], Any]] = {
        "actions": (action.shape or (), action.dtype), "rewards": ((), np.float64), "terminated": ((), bool),
        "truncated": ((), bool), "position": ((3,), np.float32), "heading": ((), np.float32),
        "pitch": ((), np.float32), "distance": ((), np.float32), "goal": ((3,), np.float32),
    }  # fmt: skip
    path = folder / TAR
    try:
        with tarfile.open(path, "r:") as tar:
            for one in record.episodes:
                name = sample_name(record.shard, one.number)
                _expect(tar, f"{name}.json", 2**20)
                values: dict[str, np.ndarray] = {}
                for part in (*sorted(spaces), *ARRAYS):
                    space = spaces[part][1] if part in spaces else None
                    shape, dtype = fixed[part] if space is None else (space.shape or (), space.dtype)
                    rows = one.num_steps + (part not in ("actions", "rewards", "terminated", "truncated"))
                    values[part] = _array(tar, f"{name}.{part}.npy", (rows, *shape), np.dtype(dtype))
                yield Episode(
                    scene=record.shard.scene,
                    number=one.number,
                    id=one.id,
                    observations={key: values[part] for part, (key, _) in spaces.items()},
                    **{part: values[part] for part in fixed},
                    start_distance=one.start_distance,
                    category=one.category,
                    measures=one.measures,
                    navmesh=None,
                )
            if tar.next() is not None:
                raise ValueError("there is more in it than its episodes")
    except (tarfile.TarError, ValueError, OSError, EOFError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged: {error}") from error


def _expect(tar: tarfile.TarFile, name: str, most: int) -> bytes:
    """Return the content of the next member, which must have a name and at most so many bytes."""
    member = tar.next()
    if member is None or member.name != name or not member.isreg() or member.size > most:
        raise ValueError(f"'{name}' is missing or too large")
    file = tar.extractfile(member)
    data = b"" if file is None else file.read()
    if len(data) != member.size:
        raise ValueError(f"'{name}' is incomplete")
    return data


def _array(tar: tarfile.TarFile, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return the array of the next member, which must have a shape and dtype."""
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    data = _expect(tar, name, size + _MAX_HEADER)
    stream = io.BytesIO(data)
    try:
        np.lib.format.read_magic(stream)
        found = np.lib.format.read_array_header_1_0(stream, max_header_size=_MAX_HEADER)
    except Exception as error:  # of the tokenizer, too
        raise ValueError(f"'{name}' has no header of an array: {error}") from error
    if found != (shape, False, dtype) or len(data) - stream.tell() != size:
        raise ValueError(f"'{name}' is no array {dtype} {shape}")
    return np.frombuffer(data, dtype, offset=stream.tell()).reshape(shape)
