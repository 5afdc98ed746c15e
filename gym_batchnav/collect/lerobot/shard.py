"""A shard of a LeRobot dataset: rows with numbers of their own, videos, and what is known of each episode."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.collect.api import Episode, ShardRecord
from gym_batchnav.collect.lerobot.features import Feature, instruction
from gym_batchnav.collect.lerobot.rows import import_arrow, open_rows, rows_of, schema_of
from gym_batchnav.collect.lerobot.stats import QUANTILES, Stats, column_stats, image_stats, plain
from gym_batchnav.collect.lerobot.video import Clip, Codec, VideoWriter, count_frames

ROWS = "rows.parquet"
EPISODES = "episodes.jsonl"
VIDEOS = "videos"
_MAX_LINE = 2**20  # bytes of what is known of one episode
_STATS = {"min", "max", "mean", "std", "count", *QUANTILES}


@dataclass(frozen=True)
class Plan:
    """How the shards of a dataset are written.

    Attributes:
        features: The features.
        fps: Frames per second.
        task: Name of the task.
        codecs: By name of the feature, how its videos are encoded.
        max_seconds: See ``VideoWriter``.
    """

    features: tuple[Feature, ...]
    fps: int
    task: str
    codecs: dict[str, Codec]
    max_seconds: float


@dataclass(frozen=True)
class Known:
    """What a shard knows of one of its episodes.

    Attributes:
        length: Number of rows.
        instruction: What the agent was asked to do.
        clips: By name of the feature, where its video is.
        stats: By name of the feature, its statistics.
        final: The last pose and distance, which no row has.
    """

    length: int
    instruction: str
    clips: dict[str, Clip]
    stats: dict[str, Stats]
    final: dict[str, Any]

    def to_json(self) -> str:
        """Return a line of JSON."""
        clips = {name: asdict(clip) for name, clip in self.clips.items()}
        stats = {name: plain(values) for name, values in self.stats.items()}
        return json.dumps({"length": self.length, "instruction": self.instruction, "clips": clips, "stats": stats}
                          | {"final": self.final})  # fmt: skip


class LeRobotShardWriter:
    """Writes one shard; see ``ShardWriter``."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._plan = plan
        self._schema = schema_of(plan.features)
        self._rows = open_rows(folder / ROWS, self._schema)
        self._videos = {
            name: VideoWriter(folder / VIDEOS / name, codec, plan.fps, plan.max_seconds)
            for name, codec in plan.codecs.items()
        }
        self._known: list[Known] = []

    def add(self, episode: Episode) -> None:
        """Write an episode: one row group, and frames at the end of every video."""
        values = {one.name: one.values(episode) for one in self._plan.features}
        clips = {}
        for one in self._plan.features:
            if one.kind == "video":
                frames = values[one.name]
                clips[one.name] = self._videos[one.name].add(frames[..., 0] if one.shows == "depth" else frames)
        rows = rows_of(episode, values, self._plan.features, self._plan.fps, self._schema)
        self._rows.write_table(rows, row_group_size=max(1, len(rows)))
        self._known.append(
            Known(
                length=episode.num_steps,
                instruction=instruction(episode, self._plan.task),
                clips=clips,
                stats=self._stats(values),
                final={
                    "position": episode.position[-1].tolist(),
                    "heading": float(episode.heading[-1]),
                    "pitch": float(episode.pitch[-1]),
                    "distance": float(episode.distance[-1]),
                },
            )
        )

    def close(self) -> None:
        """Write everything that is left."""
        self._rows.close()
        for video in self._videos.values():
            video.close()
        lines = "".join(f"{known.to_json()}\n" for known in self._known)
        (self._folder / EPISODES).write_text(lines, encoding="utf-8")

    def abandon(self) -> None:
        """Release files and encoders."""
        self._rows.close()
        for video in self._videos.values():
            video.abandon()

    def _stats(self, values: dict[str, np.ndarray]) -> dict[str, Stats]:
        """Return the statistics of an episode by name of the feature."""
        stats = {}
        for one in self._plan.features:
            if one.kind == "column":
                stats[one.name] = column_stats(values[one.name])
            elif one.shows == "depth" and one.kind == "video":
                stats[one.name] = image_stats(_metres(one, values[one.name]))
            else:
                stats[one.name] = image_stats(values[one.name], 255.0 if one.shows == "rgb" else 1.0)
        return stats


def _metres(feature: Feature, codes: np.ndarray) -> np.ndarray:
    """Return the depths that the codes of a video stand for."""
    lowest, highest = feature.details["video.depth_min"], feature.details["video.depth_max"]
    return (codes * ((highest - lowest) / 4095) + lowest).astype(np.float32)


def read_known(folder: Path, plan: Plan, count: int) -> list[Known]:
    """Return what a shard knows of its episodes.

    Raises:
        ValueError: The file is damaged.
    """
    path = folder / EPISODES
    known: list[Known] = []
    try:
        with path.open("rb") as file:
            while len(known) <= count and (line := file.readline(_MAX_LINE)):
                known.append(_known(json.loads(line), plan))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged ({error!r}): collect the shard again") from error
    if len(known) != count:
        raise ValueError(f"'{path}' is damaged: it does not have {count} episodes")
    return known


def _known(line: dict[str, Any], plan: Plan) -> Known:
    """Return what a line says, checked against the features."""
    given = {name: line["clips"][name] for name in plan.codecs}
    clips = {name: Clip(int(one["file"]), float(one["begin"]), float(one["end"])) for name, one in given.items()}
    stats = {}
    for one in plan.features:
        said = line["stats"][one.name]
        shape = (one.shape[-1],) if one.kind == "column" else (one.shape[-1], 1, 1)
        stats[one.name] = {name: np.array(said[name], np.float64) for name in _STATS}
        wrong = [name for name, value in stats[one.name].items() if value.shape != (shape if name != "count" else (1,))]
        if wrong or not 1 <= stats[one.name]["count"][0] < 2**53:
            raise ValueError(f"statistics of {one.name!r}")
        stats[one.name]["count"] = stats[one.name]["count"].astype(np.int64)
    if min((clip.file for clip in clips.values()), default=0) < 0:
        raise ValueError("number of a video")
    return Known(int(line["length"]), str(line["instruction"]), clips, stats, dict(line["final"]))


def check_shard(folder: Path, plan: Plan, record: ShardRecord) -> None:
    """Check that a shard holds what its record says, without decoding images.

    Raises:
        ValueError: It does not.
    """
    known = read_known(folder, plan, len(record.episodes))
    for mine, said in zip(known, record.episodes, strict=True):
        if mine.length != said.num_steps:
            raise ValueError(f"'{folder / EPISODES}' is damaged: {mine.length} rows of an episode of {said.num_steps}")
    _check_rows(folder / ROWS, plan, [mine.length for mine in known])
    for one in plan.features:
        if one.kind != "video":
            continue
        frames: dict[int, int] = {}
        for each in known:
            clip = each.clips[one.name]
            frames[clip.file] = frames.get(clip.file, 0) + each.length
        for file, count in frames.items():
            path = folder / VIDEOS / one.name / f"{file:06d}.mp4"
            found = count_frames(path, one.shape[0], one.shape[1])
            if found != count:
                raise ValueError(f"'{path}' is damaged: {found} frames instead of {count}")


def _check_rows(path: Path, plan: Plan, lengths: list[int]) -> None:
    """Check types and numbers of rows, and how much memory a row group takes."""
    pa = import_arrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"'{path}' is damaged: {error}") from error
    if not schema.remove_metadata().equals(schema_of(plan.features).remove_metadata()):
        raise ValueError(f"'{path}' is damaged: it has other columns than the dataset")
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if [group.num_rows for group in groups] != lengths:
        raise ValueError(f"'{path}' is damaged: its row groups are not the {len(lengths)} episodes of the shard")
    row = 2**10 + sum(2 * _row_bytes(one) for one in plan.features if one.kind != "video")
    for group in groups:
        if group.total_byte_size > 2**20 + row * group.num_rows:
            raise ValueError(f"'{path}' is damaged: a row group of {group.total_byte_size:,} bytes")


def _row_bytes(feature: Feature) -> int:
    """Return the bytes of a value, with what Parquet and TIFF add."""
    return 2**9 + 2 * int(np.prod(feature.shape)) * np.dtype(feature.dtype).itemsize
