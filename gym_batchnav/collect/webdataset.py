"""WebDataset: tar files with one sample per episode, arrays as .npy files."""

from __future__ import annotations

import io
import json
import math
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from gym_batchnav.collect.dataset import (
    PER_ACTION,
    PER_FRAME,
    SHARDS,
    DatasetInfo,
    Episode,
    Format,
    Shard,
    ShardRecord,
    columns_of,
    to_json,
)
from gym_batchnav.collect.folder import link_or_copy
from gym_batchnav.system.arrays import UNREADABLE, array_of_npy
from gym_batchnav.system.storage import replace_path, write_atomically

TAR = "episodes.tar"
LINK = "episodes-{:06d}.tar"
INDEX = "dataset.json"  # written last: a folder without it is not finished
ARRAYS = (*PER_ACTION, *PER_FRAME)
_MAX_HEADER = 2**12  # bytes of the header of a .npy file


@dataclass(frozen=True, slots=True)
class WebDataset(Format):
    """Tar files for streaming, one per shard: an episode is a sample with ``KEY.rgb.npy``, ..., and ``KEY.json``.

    Arrays are not compressed. ``front/depth`` of several cameras is ``KEY.front_depth.npy``.
    """

    name = "webdataset"

    @override
    def options(self) -> dict[str, Any]:
        return {}

    @override
    def check(self, info: DatasetInfo) -> None:
        keys = list(info.observation_space.keys())
        taken = [*ARRAYS, *map(_part_of, keys)]
        for key in keys:
            if not re.fullmatch(r"\w{1,80}", _part_of(key)):
                raise ValueError(f"sensor {key!r} has a name that no file can have: rename it")
            if taken.count(_part_of(key)) > 1:
                raise ValueError(f"sensor {key!r} would be stored as {_part_of(key)!r}, like other data: rename it")

    @override
    def write(self, folder: Path, info: DatasetInfo, shard: Shard, episodes: Sequence[Episode]) -> None:
        with tarfile.open(folder / TAR, "w", format=tarfile.PAX_FORMAT) as tar:
            for episode in episodes:
                name = _sample_name(shard, episode.number)
                _add(tar, f"{name}.json", io.BytesIO(json.dumps(episode.about(), sort_keys=True).encode()))
                sensors = {_part_of(key): images for key, images in episode.observations.items()}
                for part, array in (*sorted(sensors.items()), *((name, getattr(episode, name)) for name in ARRAYS)):
                    file = io.BytesIO()
                    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
                    _add(tar, f"{name}.{part}.npy", file)

    @override
    def finish(self, root: Path, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
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

    @override
    def read(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> Iterator[Episode]:
        sensors = {_part_of(key): key for key in info.observation_space.keys()}
        spaces = {part: info.observation_space[key] for part, key in sensors.items()}
        expected = {part: (space.shape or (), np.dtype(space.dtype)) for part, space in sorted(spaces.items())}
        columns = columns_of(info)
        expected |= {name: columns[name] for name in ARRAYS}
        path = folder / TAR
        try:
            with tarfile.open(path, "r:") as tar:
                for one in record.episodes:
                    name = _sample_name(record.shard, one.number)
                    _content(tar, f"{name}.json", 2**20)
                    values = {}
                    for part, (shape, dtype) in expected.items():
                        rows = one.num_steps + (part not in PER_ACTION)
                        values[part] = _array(tar, f"{name}.{part}.npy", (rows, *shape), dtype)
                    yield one.episode(record.shard.scene, {key: values[part] for part, key in sensors.items()}, values)
                if tar.next() is not None:
                    raise ValueError("it holds more than its episodes")
        except (tarfile.TarError, ValueError, OSError, EOFError, RecursionError) as error:
            raise ValueError(f"'{path}' is damaged ({error}): remove its folder and collect it again") from error


def _sample_name(shard: Shard, number: int) -> str:
    """Return the name of an episode's sample, which is unique in the dataset."""
    scene = shard.name.rsplit("-", 2)[0]
    return f"{scene}-{shard.name[-12:]}-{number:06d}"


def _part_of(key: str) -> str:
    """Return the part of file names that stands for a sensor."""
    return key.replace("/", "_")


def _add(tar: tarfile.TarFile, name: str, file: io.BytesIO) -> None:
    """Add a file; its header says nothing that differs between runs."""
    member = tarfile.TarInfo(name)
    member.size = file.getbuffer().nbytes
    file.seek(0)
    tar.addfile(member, file)


def _content(tar: tarfile.TarFile, name: str, most: int) -> bytes:
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
    data = _content(tar, name, math.prod(shape) * dtype.itemsize + _MAX_HEADER)
    try:
        found = array_of_npy(data, dtype.kind)
    except UNREADABLE as error:
        raise ValueError(f"'{name}' is not an array: {error}") from error
    if found.shape != shape or found.dtype != dtype:
        raise ValueError(f"'{name}' is not an array {dtype} {shape}")
    return found
