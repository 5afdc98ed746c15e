"""LeRobot's two layouts: v3.0 with many episodes in a file, and v2.1 with one."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.collect.api import SHARDS, DatasetInfo, EpisodeRecord, ShardRecord
from gym_batchnav.collect.assembly import provenance
from gym_batchnav.collect.folder import link_or_copy
from gym_batchnav.collect.lerobot.features import counters
from gym_batchnav.collect.lerobot.rows import import_arrow, numbered, open_rows, schema_of
from gym_batchnav.collect.lerobot.shard import ROWS, VIDEOS, Known, Plan, read_known
from gym_batchnav.collect.lerobot.stats import QUANTILES, Stats, combine, plain

CHUNK = 1000  # files, or episodes in v2.1, of a folder
DATA_MB = 100
VIDEO_MB = 200
_EPISODES_AT_ONCE = 1000  # of which statistics are held before they are written or combined
_STATS = ("min", "max", "mean", "std", "count", *QUANTILES)


@dataclass(frozen=True)
class Placed:
    """An episode of the dataset.

    Attributes:
        index: Its number in the dataset.
        first: Number of its first row in the dataset.
        shard: Its shard.
        record: What the shard's record says.
        known: What the shard knows besides.
        task: Number of its instruction.
        rows: Its rows, numbered.
    """

    index: int
    first: int
    shard: ShardRecord
    record: EpisodeRecord
    known: Known
    task: int
    rows: Any


class Totals:
    """What is counted over all episodes: numbers, instructions and statistics."""

    def __init__(self) -> None:
        self.num_episodes = 0
        self.num_frames = 0
        self.instructions: dict[str, int] = {}
        self._parts: list[dict[str, Stats]] = []

    def task(self, instruction: str) -> int:
        """Return the number of an instruction."""
        return self.instructions.setdefault(instruction, len(self.instructions))

    def add(self, known: Known) -> None:
        """Count an episode."""
        self.num_episodes += 1
        self.num_frames += known.length
        self._parts.append(known.stats)
        if len(self._parts) >= _EPISODES_AT_ONCE:
            self._parts = [self.stats()]

    def stats(self) -> dict[str, Stats]:
        """Return the statistics of all episodes."""
        return {name: combine([part[name] for part in self._parts]) for name in self._parts[0]}


def placed_episodes(root: Path, shards: Sequence[ShardRecord], plan: Plan, totals: Totals) -> Iterator[Placed]:
    """Yield all episodes with their rows, two in memory at a time, and count them.

    Raises:
        ValueError: A shard is damaged.
    """
    metadata = schema_of(plan.features).metadata
    for shard in shards:
        folder = root / SHARDS / shard.shard.name
        known = read_known(folder, plan, len(shard.episodes))
        groups = _row_groups(folder / ROWS, len(known))
        for one, record, rows in zip(known, shard.episodes, groups, strict=True):
            task = totals.task(one.instruction)
            rows = numbered(rows.replace_schema_metadata(metadata), totals.num_episodes, totals.num_frames, task)
            yield Placed(totals.num_episodes, totals.num_frames, shard, record, one, task, rows)
            totals.add(one)


def _row_groups(path: Path, count: int) -> Iterator[Any]:
    """Yield the rows of the ``count`` episodes of a shard; a thread reads the next ones meanwhile.

    Raises:
        ValueError: They cannot be decoded.
    """
    pa = import_arrow()
    if not count:
        return
    try:
        with pa.parquet.ParquetFile(path) as file, ThreadPoolExecutor(1) as ahead:
            following = ahead.submit(file.read_row_group, 0, use_threads=False)
            for number in range(count):
                rows = following.result()
                if number + 1 < count:
                    following = ahead.submit(file.read_row_group, number + 1, use_threads=False)
                yield rows
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"'{path}' is damaged ({error}): remove its folder and collect the shard again") from error


class Layout:
    """Writes episodes into the folders ``data``, ``videos`` and ``meta`` below ``aside``; a context manager.

    Args:
        root: Folder of the dataset, with its shards.
        aside: Folder for the new folders.
        plan: How its shards were written.
    """

    VERSION = ""

    def __init__(self, root: Path, aside: Path, plan: Plan) -> None:
        self.root = root
        self.aside = aside
        self.plan = plan
        for name in ("data", "videos", "meta"):
            (aside / name).mkdir()

    @abstractmethod
    def add(self, episode: Placed) -> None:
        """Write an episode; they come in order."""

    @abstractmethod
    def close(self, totals: Totals) -> None:
        """Write what describes the dataset."""

    @abstractmethod
    def abandon(self) -> None:
        """Close files after an error."""

    def described(self, totals: Totals) -> dict[str, Any]:
        """Return what both layouts have in ``info.json``."""
        features = {one.name: one.described() for one in self.plan.features}
        for one in self.plan.features:
            if one.kind == "video":
                codec = self.plan.codecs[one.name]
                height, width, channels = one.shape
                video = {
                    "video.height": height,
                    "video.width": width,
                    "video.codec": CODEC_NAMES[codec.encoder],
                    "video.pix_fmt": "gbrp" if codec.pix_fmt == "rgb24" else codec.pix_fmt,
                    "video.fps": self.plan.fps,
                    "video.channels": channels,
                    "has_audio": False,
                    "is_depth_map": one.shows == "depth",
                }
                features[one.name]["info"] = {**features[one.name].get("info", {}), **video}
        return {
            "codebase_version": self.VERSION,
            "robot_type": "gym_batchnav",
            "fps": self.plan.fps,
            "features": features | counters(),
            "total_episodes": totals.num_episodes,
            "total_frames": totals.num_frames,
            "total_tasks": len(totals.instructions),
            "chunks_size": CHUNK,
            "splits": {"train": f"0:{totals.num_episodes}"},
        }

    def write_provenance(self, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
        """Write what LeRobot does not ask for: where the episodes come from."""
        self.write_json("gym_batchnav.json", provenance(info, shards))

    def write_json(self, name: str, value: Any) -> None:
        """Write a file of ``meta``."""
        (self.aside / "meta" / name).write_text(json.dumps(value, indent=4), encoding="utf-8")


CODEC_NAMES = {"libx264": "h264", "libx264rgb": "h264", "libsvtav1": "av1", "libx265": "hevc"}


def about(episode: Placed) -> dict[str, Any]:
    """Return the columns that we add to what LeRobot knows of an episode: enough to repeat it."""
    record = episode.record
    return {
        "gym_batchnav/scene": episode.shard.shard.scene,
        "gym_batchnav/number": record.number,
        "gym_batchnav/id": record.id,
        "gym_batchnav/category": record.category,
        "gym_batchnav/start_distance": float(record.start_distance),
        "gym_batchnav/total_reward": float(record.total_reward),
        "gym_batchnav/measures": json.dumps(dict(record.measures)),
        "gym_batchnav/final": json.dumps(episode.known.final),
    }


class Version3(Layout):
    """LeRobot v3.0: rows of consecutive episodes in files of up to 100 MB, and the videos of the shards."""

    VERSION = "v3.0"

    def __init__(self, root: Path, aside: Path, plan: Plan) -> None:
        super().__init__(root, aside, plan)
        self._data: Any = None  # a ParquetWriter
        self._sink: Any = None  # the file that it writes
        self._data_bytes = 0
        self._num_data = 0
        self._videos = dict.fromkeys(plan.codecs, 0)
        self._linked: dict[tuple[str, str, int], int] = {}  # of the present shard: feature, shard, file -> number
        self._rows: list[dict[str, Any]] = []
        self._episodes: Any = None  # a ParquetWriter

    def add(self, episode: Placed) -> None:
        """Write an episode."""
        if self._data is None or self._data_bytes >= DATA_MB * 2**20:
            self._next_data(episode.rows.schema)
        self._data.write_table(episode.rows, row_group_size=max(1, len(episode.rows)))
        self._data_bytes = self._sink.tell()
        length = episode.known.length
        row: dict[str, Any] = {
            "episode_index": episode.index,
            "tasks": [episode.known.instruction],
            "length": length,
            "dataset_from_index": episode.first,
            "dataset_to_index": episode.first + length,
            **_numbers("data", self._num_data - 1),
            **_numbers("meta/episodes", 0),
        }
        for name, clip in episode.known.clips.items():
            row |= _numbers(f"videos/{name}", self._video(episode, name, clip.file))
            row |= {f"videos/{name}/from_timestamp": clip.begin, f"videos/{name}/to_timestamp": clip.end}
        for name, stats in episode.known.stats.items():
            row |= {f"stats/{name}/{key}": stats[key].tolist() for key in _STATS}
        self._rows.append(row | about(episode))
        if len(self._rows) >= _EPISODES_AT_ONCE:
            self._write_episodes()

    def close(self, totals: Totals) -> None:
        """Write what describes the dataset."""
        self._write_episodes()
        self.abandon()
        _write_tasks(self.aside / "meta" / "tasks.parquet", list(totals.instructions))
        self.write_json("stats.json", {name: plain(stats) for name, stats in totals.stats().items()})
        paths = {
            "data_files_size_in_mb": DATA_MB,
            "video_files_size_in_mb": VIDEO_MB,
            "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
            "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
        }
        self.write_json("info.json", self.described(totals) | paths)

    def abandon(self) -> None:
        """Close files."""
        for writer in (self._data, self._episodes):
            if writer is not None:
                writer.close()
        if self._data is not None:
            self._sink.close()

    def _next_data(self, schema: Any) -> None:
        """Begin the next file of rows."""
        pa = import_arrow()
        if self._data is not None:
            self._data.close()
            self._sink.close()
        path = self.aside / "data" / _file(self._num_data, "parquet")
        path.parent.mkdir(exist_ok=True)
        self._sink = pa.OSFile(str(path), "wb")
        self._data = open_rows(self._sink, schema)
        self._num_data += 1

    def _video(self, episode: Placed, name: str, file: int) -> int:
        """Return the number of a shard's video in the dataset; link it when it is first asked for."""
        shard = episode.shard.shard.name
        key = (name, shard, file)
        if key not in self._linked:
            if (name, shard) not in {known[:2] for known in self._linked}:
                self._linked = {known: number for known, number in self._linked.items() if known[0] != name}
            target = self.aside / "videos" / name / _file(self._videos[name], "mp4")
            target.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(self.root / SHARDS / shard / VIDEOS / name / f"{file:06d}.mp4", target)
            self._linked[key] = self._videos[name]
            self._videos[name] += 1
        return self._linked[key]

    def _write_episodes(self) -> None:
        """Write what is known of episodes since the last call."""
        pa = import_arrow()
        if not self._rows:
            return
        table = pa.Table.from_pylist(self._rows, schema=self._episodes and self._episodes.schema)
        if self._episodes is None:
            path = self.aside / "meta" / "episodes" / _file(0, "parquet")
            path.parent.mkdir(parents=True)
            self._episodes = pa.parquet.ParquetWriter(path, table.schema)
        self._episodes.write_table(table)
        self._rows = []


class Version21(Layout):
    """LeRobot v2.1: one file of rows and one video per camera for every episode."""

    VERSION = "v2.1"

    def __init__(self, root: Path, aside: Path, plan: Plan) -> None:
        super().__init__(root, aside, plan)
        meta = aside / "meta"
        self._episodes = (meta / "episodes.jsonl").open("w", encoding="utf-8")
        self._stats = (meta / "episodes_stats.jsonl").open("w", encoding="utf-8")

    def add(self, episode: Placed) -> None:
        """Write an episode."""
        chunk = f"chunk-{episode.index // CHUNK:03d}"
        name = f"episode_{episode.index:06d}"
        path = self.aside / "data" / chunk / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        with open_rows(path, episode.rows.schema) as writer:
            writer.write_table(episode.rows)
        for key, clip in episode.known.clips.items():
            target = self.aside / "videos" / chunk / key / f"{name}.mp4"
            target.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(self.root / SHARDS / episode.shard.shard.name / VIDEOS / key / f"{clip.file:06d}.mp4", target)
        known = {"episode_index": episode.index, "tasks": [episode.known.instruction], "length": episode.known.length}
        self._episodes.write(f"{json.dumps(known | about(episode))}\n")
        stats = {key: plain(values) for key, values in episode.known.stats.items()}
        self._stats.write(f"{json.dumps({'episode_index': episode.index, 'stats': stats})}\n")

    def close(self, totals: Totals) -> None:
        """Write what describes the dataset."""
        self.abandon()
        tasks = (json.dumps({"task_index": number, "task": text}) for text, number in totals.instructions.items())
        (self.aside / "meta" / "tasks.jsonl").write_text("".join(f"{line}\n" for line in tasks), encoding="utf-8")
        own = {
            "total_videos": totals.num_episodes * len(self.plan.codecs),
            "total_chunks": -(-totals.num_episodes // CHUNK),
            "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
            "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        }
        self.write_json("info.json", self.described(totals) | own)

    def abandon(self) -> None:
        """Close files."""
        self._episodes.close()
        self._stats.close()


def _numbers(prefix: str, number: int) -> dict[str, int]:
    """Return the columns that name a file."""
    return {f"{prefix}/chunk_index": number // CHUNK, f"{prefix}/file_index": number % CHUNK}


def _file(number: int, ending: str) -> str:
    """Return the path of a file below its folder."""
    return f"chunk-{number // CHUNK:03d}/file-{number % CHUNK:03d}.{ending}"


def _write_tasks(path: Path, instructions: list[str]) -> None:
    """Write the instructions as pandas writes a table with an index of text, by which LeRobot finds them."""
    pa = import_arrow()
    numbers = pa.array(np.arange(len(instructions), dtype=np.int64))
    table = pa.table({"task_index": numbers, "task": pa.array(instructions, pa.string())})
    column = {"metadata": None}
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            column | {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"},
            column | {"name": "task", "field_name": "task", "pandas_type": "unicode", "numpy_type": "object"},
        ],
        "pandas_version": "2.0.0",
    }
    pa.parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)
