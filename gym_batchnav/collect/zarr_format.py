"""Zarr: the lossless form of a dataset, one zarr v3 group per shard, and how it is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.collect.api import RECORD, SHARDS, DatasetInfo, Episode, Format, Shard, ShardRecord
from gym_batchnav.collect.info import to_json
from gym_batchnav.collect.recorder import is_big, is_big_row
from gym_batchnav.collect.zarr_files import METADATA, ArrayFiles, write_group
from gym_batchnav.system.storage import write_atomically

OBSERVATIONS = "observations"
PER_FRAME = ("position", "heading", "pitch", "distance", "goal")
PER_ACTION = ("actions", "rewards", "terminated", "truncated")  # with a row of zeros after the last of an episode
MAX_FRAMES = 2**24  # of a shard
MAX_EPISODE_BYTES = 2**32  # of the images of one sensor
_KEY = re.compile(r"[A-Za-z0-9_./-]{1,200}")


@dataclass(frozen=True, slots=True)
class Zarr(Format):
    """Every array as it is, compressed by Zstandard.

    A dataset is a group; ``shards/NAME`` are groups with one array per sensor and per column. Their rows
    are the frames of all its episodes, T + 1 each, one episode after the other. ``num_steps`` [E] has their lengths.

    Attributes:
        level: Compression level of Zstandard: higher is smaller and slower, negative is faster.

    Raises:
        ValueError: The level is not from -50 to 22.
    """

    level: int = 1

    name = "zarr"

    def __post_init__(self) -> None:
        """Check the level."""
        if isinstance(self.level, bool) or not isinstance(self.level, int) or not -50 <= self.level <= 22:
            raise ValueError(f"level={self.level!r}: pass a whole number from -50 to 22")

    def options(self) -> dict[str, Any]:
        """Return the options as JSON has them."""
        return {"level": self.level}

    def check(self, info: DatasetInfo) -> None:
        """Check that packages are installed and names of sensors are possible; see ``Format.check``."""
        ArrayFiles(self.level)
        check_keys(info)

    def open_shard(self, folder: Path, info: DatasetInfo, shard: Shard) -> _ShardWriter:
        """Begin a shard; see ``Format.open_shard``."""
        return _ShardWriter(folder, shard, ArrayFiles(self.level))

    def finish(self, root: Path, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
        """Write the metadata of the groups above the shards; see ``Format.finish``."""
        values = to_json(info)
        attributes = {
            "collection": values,
            "shards": [record.shard.name for record in shards],
            "num_episodes": sum(len(record.episodes) for record in shards),
            "num_frames": sum(record.num_frames for record in shards),
        }
        for folder, given in ((root, attributes), (root / SHARDS, {})):
            text = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": given}, indent=1, sort_keys=True)
            write_atomically(folder / METADATA, (text + "\n").encode())

    def verify(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> None:
        """Read all arrays; see ``Format.verify``."""
        for _ in read_shard(folder, info, record):
            pass


class _ShardWriter:
    """Keeps the episodes of a shard until it is closed, and then writes them."""

    def __init__(self, folder: Path, shard: Shard, arrays: ArrayFiles) -> None:
        self._folder = folder
        self._shard = shard
        self._arrays = arrays
        self._episodes: list[Episode] = []

    def add(self, episode: Episode) -> None:
        """Add the next episode."""
        self._episodes.append(episode)

    def close(self) -> None:
        """Write all arrays."""
        episodes = self._episodes
        write_group(self._folder, {"scene": self._shard.scene, "first_episode": self._shard.first})
        write_group(self._folder / OBSERVATIONS, {})
        total = sum(episode.num_steps + 1 for episode in episodes)
        for key in episodes[0].observations:
            parts = [episode.observations[key] for episode in episodes]
            self._write(self._folder / OBSERVATIONS / key, parts, total)
            for parent in list(Path(key).parents)[:-1]:  # a camera's group
                write_group(self._folder / OBSERVATIONS / parent, {})
        for name in PER_FRAME:
            self._write(self._folder / name, [getattr(episode, name) for episode in episodes], total)
        for name in PER_ACTION:
            self._write(self._folder / name, [_padded(getattr(episode, name)) for episode in episodes], total)
        steps = np.array([episode.num_steps for episode in episodes], np.int64)
        self._arrays.write(self._folder / "num_steps", steps, ("episode",))

    def _write(self, folder: Path, parts: list[np.ndarray], total: int) -> None:
        """Write an array of the frames of all episodes."""
        names = _dimensions(parts[0].ndim)
        if is_big(parts[0]):
            self._arrays.write_frames(folder, parts, total, names)
        else:
            self._arrays.write(folder, np.concatenate(parts), names)

    def abandon(self) -> None:
        """Forget the episodes."""
        self._episodes = []


def check_keys(info: DatasetInfo) -> None:
    """Raise ValueError unless all names of sensors can be those of folders, and none lies within another."""
    keys = list(info.observation_space.keys())
    for key in keys:
        inside = [other for other in keys if other.startswith(f"{key}/")]
        if not _KEY.fullmatch(key) or inside or any(part in ("", ".", "..", METADATA, "c") for part in key.split("/")):
            raise ValueError(f"sensor {key!r} has a name that no folder can have: rename it")


def read_shard(folder: Path, info: DatasetInfo, record: ShardRecord) -> Iterator[Episode]:
    """Read the episodes of a shard, which may come from strangers.

    Raises:
        ValueError: An array has another shape or dtype than info and record say, or is damaged.
        MissingExtraError: A package of the extra ``[collect]`` is not installed.
    """
    check_keys(info)
    files = ArrayFiles(int(info.format_options["level"]))
    frames = record.num_frames
    if frames > MAX_FRAMES:
        raise ValueError(f"'{folder}' has more than {MAX_FRAMES:,} frames")
    action = info.action_space
    expected: dict[str, tuple[tuple[int, ...], Any]] = {
        f"{OBSERVATIONS}/{key}": (space.shape or (), space.dtype) for key, space in info.observation_space.items()
    }
    expected |= {
        "position": ((3,), np.float32), "heading": ((), np.float32), "pitch": ((), np.float32),
        "distance": ((), np.float32), "goal": ((3,), np.float32), "actions": (action.shape or (), action.dtype),
        "rewards": ((), np.float64), "terminated": ((), bool), "truncated": ((), bool),
    }  # fmt: skip
    lengths = [episode.num_steps for episode in record.episodes]
    if files.read(folder / "num_steps", (len(lengths),), np.int64, ("episode",)).tolist() != lengths:
        raise ValueError(f"'{folder}' has other lengths of episodes than its {RECORD} says")
    big = {name for name, (shape, dtype) in expected.items() if is_big_row(shape, dtype)}
    small = {
        name: files.read(folder / name, (frames, *shape), dtype, _dimensions(len(shape) + 1))
        for name, (shape, dtype) in expected.items()
        if name not in big
    }
    start = 0
    for one in record.episodes:
        rows = slice(start, start + one.num_steps + 1)
        start = rows.stop
        values = {name: array[rows] for name, array in small.items()}
        for name in big:
            shape, dtype = expected[name]
            if (one.num_steps + 1) * int(np.prod(shape, dtype=object)) * np.dtype(dtype).itemsize > MAX_EPISODE_BYTES:
                raise ValueError(f"'{folder / name}': an episode is larger than {MAX_EPISODE_BYTES:,} bytes")
            values[name] = files.read_frames(folder / name, (frames, *shape), dtype, _dimensions(len(shape) + 1), rows)
        yield Episode(
            scene=record.shard.scene,
            number=one.number,
            id=one.id,
            observations={key: values[f"{OBSERVATIONS}/{key}"] for key in info.observation_space.keys()},
            **{name: values[name][:-1] for name in PER_ACTION},
            **{name: values[name] for name in PER_FRAME},
            start_distance=one.start_distance,
            category=one.category,
            measures=one.measures,
            navmesh=None,
        )


def _dimensions(count: int) -> tuple[str, ...]:
    """Return the names of the dimensions of an array of frames."""
    return ("frame", *(f"dim_{index}" for index in range(1, count)))


def _padded(values: np.ndarray) -> np.ndarray:
    """Return values [T, ...] with a row of zeros after the last."""
    return np.concatenate([values, np.zeros_like(values[:1])])
