"""export_dataset: convert a dataset for another library."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym_batchnav.collect.dataset import SHARDS, DatasetInfo, Episode, ShardRecord, to_json
from gym_batchnav.collect.export import lerobot, minari, rrd
from gym_batchnav.collect.folder import check_files
from gym_batchnav.collect.reading import open_dataset
from gym_batchnav.system.storage import make_folder, replace_path

TARGETS = ("lerobot", "minari", "rrd")


@dataclass(frozen=True, slots=True)
class Exported:
    """Counts of what was converted."""

    folder: Path  # of the result
    num_episodes: int
    num_frames: int  # of the dataset, T + 1 of each episode


def export_dataset(
    folder: str | Path,
    out: str | Path,
    to: str,
    *,
    video: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Exported:
    """Convert the finished shards of a dataset for another library, one episode at a time.

    Args:
        folder: Folder of the dataset, which may come from strangers.
        out: Folder of the result, which must not exist; it appears when it is complete.
        to: ``"lerobot"``, ``"minari"``, or ``"rrd"`` for recordings that rerun's viewer shows.
        video: Let LeRobot store images as videos, which are smaller and not exact: of at least 32 x 16 pixels, with
            depth of episodes of at least 3 steps.
        progress: Called with the number of further episodes and frames.

    Raises:
        ValueError: The folder has no dataset or a damaged one, the library cannot hold one of its sensors or
            encode them as videos, or ``out`` exists.
        MissingExtraError: The library is not installed; the message has the command that installs it.
    """
    if to not in TARGETS:
        raise ValueError(f"to={to!r}: choose one of {', '.join(TARGETS)}")
    if video and to != "lerobot":
        raise ValueError(f"video=True: only lerobot has videos; leave it out for to={to!r}")
    info, style, records = open_dataset(folder)
    if not records:
        raise ValueError(f"folder '{folder}' has no finished shard: collect an episode first")
    if video:
        lerobot.check_video(info, records)
    root = Path(out)
    if root.exists():
        raise ValueError(f"out='{root}' exists: name a new folder, or remove it")
    counts = [0, 0]

    def episodes() -> Iterator[Episode]:
        for record in records:
            check_files(Path(folder), record)
            for episode in style.read(Path(folder, SHARDS, record.shard.name), info, record):
                yield episode
                counts[0] += 1
                counts[1] += episode.num_steps + 1
                if progress is not None:
                    progress(1, episode.num_steps + 1)

    make_folder(root.parent)
    aside = root.parent / f".{root.name}.aside"
    shutil.rmtree(aside, ignore_errors=True)  # left by a process that was killed
    about = _provenance(info, records)
    try:
        if to == "lerobot":
            made = lerobot.write(aside, info, episodes(), about, video)
        elif to == "minari":
            made = minari.write(aside, minari.dataset_id(root), info, episodes(), about)
        else:
            made = rrd.write(aside, info, episodes())
        replace_path(made, root)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return Exported(root, *counts)


def _provenance(info: DatasetInfo, records: Sequence[ShardRecord]) -> dict[str, Any]:
    """Return what a reader needs to collect the same again, and to check that it is the same, as JSON has it."""
    values = {**to_json(info), "scene_cards": {record.shard.scene: dict(record.scene_card) for record in records}}
    return json.loads(json.dumps(values, sort_keys=True))
