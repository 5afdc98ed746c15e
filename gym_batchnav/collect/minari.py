"""Minari: datasets that ``minari.load_dataset`` reads; written without Minari."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space

from gym_batchnav.collect.api import (
    SHARDS,
    DatasetInfo,
    Episode,
    EpisodeRecord,
    Format,
    Shard,
    ShardRecord,
    ShardWriter,
)
from gym_batchnav.collect.arrow_files import check_episode, import_arrow, schema_of, write_episode
from gym_batchnav.collect.assembly import assembled, provenance
from gym_batchnav.collect.folder import link_or_copy

MINARI = "0.5.4"  # the version of the layout; earlier ones would take images for JPEG files
DATASETS = "MINARI_DATASETS_PATH"
_MAX_STEPS = 2**17 - 2  # readers return an episode as one batch of at most 2**17 rows
_EPISODE = "part-0.arrow"


class MinariShardWriter:
    """Writes one shard, one file per episode; see ``ShardWriter``."""

    def __init__(self, folder: Path, info: DatasetInfo) -> None:
        self._folder = folder
        self._info = info
        self._schema = schema_of(info)

    def add(self, episode: Episode) -> None:
        """Write an episode.

        Raises:
            ValueError: It is too long for Minari.
        """
        if episode.num_steps > _MAX_STEPS:
            raise ValueError(
                f"episode {episode.number} of {episode.scene!r} has {episode.num_steps:,} actions, and Minari reads at "
                f"most {_MAX_STEPS:,}: pass a lower max_episode_steps"
            )
        write_episode(self._folder / _file(episode.number), episode, self._info, self._schema)

    def close(self) -> None:
        """Do nothing: files are complete."""

    def abandon(self) -> None:
        """Do nothing: no file is open."""


@dataclass(frozen=True, slots=True)
class Minari(Format):
    """Datasets of Minari, in its layout of Arrow files: every value is exact, images included.

    The folder of the dataset is its name for ``minari.load_dataset``, which looks below ``MINARI_DATASETS_PATH``:
    ``pointnav-v0``. Poses and distances are in ``infos``; what an episode needs to be repeated is in its metadata.
    """

    name = "minari"

    def options(self) -> dict[str, Any]:
        """Return everything that changes the files."""
        return {}

    def check(self, info: DatasetInfo) -> None:
        """Check, before anything runs, that a dataset can be written.

        Raises:
            ValueError: It cannot hold one of the sensors or the actions.
            MissingExtraError: A package is not installed.
        """
        import_arrow()
        schema_of(info)

    def open_shard(self, folder: Path, info: DatasetInfo, shard: Shard) -> ShardWriter:
        """Begin a shard in an empty folder."""
        return MinariShardWriter(folder, info)

    def finish(self, root: Path, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
        """Make the dataset of all finished shards: the folder ``data``, whose files are those of the shards.

        Raises:
            ValueError: There is no finished shard.
        """
        if not any(shard.episodes for shard in shards):
            raise ValueError(f"no finished shard in '{root}': collect an episode first")
        with assembled(root, ("data",)) as aside:
            data = aside / "data"
            data.mkdir()
            count = 0
            num_steps = 0
            size = 0
            for shard in shards:
                for record in shard.episodes:
                    source = root / SHARDS / shard.shard.name / _file(record.number)
                    _place(source, data / str(count), count, info, shard.shard, record)
                    size += source.stat().st_size
                    num_steps += record.num_steps
                    count += 1
            metadata = {
                "total_episodes": count,
                "total_steps": num_steps,
                "data_format": "arrow",
                "jpeg_encoding": False,
                "observation_space": json.dumps(space_json(info.observation_space)),
                "action_space": json.dumps(space_json(info.action_space)),
                "dataset_id": dataset_id(root),
                "minari_version": MINARI,
                "algorithm_name": info.policy,
                "author": [],
                "author_email": [],
                "requirements": ["gym-batchnav"],
                "dataset_size": round(size / 1e6, 1),
                "gym_batchnav": provenance(info, shards),
            }
            spec = env_spec(info)
            if spec is not None:
                metadata["env_spec"] = spec
            (data / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")

    def verify(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> None:
        """Check that a shard holds what its record says.

        Raises:
            ValueError: It does not.
        """
        for one in record.episodes:
            check_episode(folder / _file(one.number), info, one.num_steps)


def dataset_id(root: Path) -> str:
    """Return the name by which Minari loads the dataset in a folder.

    It is the path below Minari's datasets, or else the folder's own name. Minari asks for a version at the end.
    """
    root = root.absolute()
    datasets = Path(os.environ.get(DATASETS) or Path.home() / ".minari" / "datasets").absolute()
    parts = root.relative_to(datasets).parts if root.is_relative_to(datasets) else (root.name,)
    name = "/".join(re.sub(r"[^\w-]+", "_", part) for part in parts) or "dataset"
    return name if re.search(r"-v\d+$", name) else f"{name}-v0"


def env_spec(info: DatasetInfo) -> str | None:
    """Return Gymnasium's specification of the environment as JSON, or None if only Python code can describe it."""
    try:
        spec = deepcopy(gymnasium.spec(f"BatchNav/{info.task}-v0"))
    except gymnasium.error.Error:
        return None
    if spec.entry_point is None:  # a task of several agents
        return None
    keywords = json.loads(json.dumps(dict(info.env), sort_keys=True))
    spec.max_episode_steps = keywords.pop("max_episode_steps", spec.max_episode_steps)
    spec.entry_point = "gym_batchnav.collect.recovery:make_recorded"
    spec.kwargs = {"of": info.task, "recorded": keywords, "scenes": list(info.scenes)}
    return spec.to_json()


def space_json(space: Space[Any]) -> dict[str, Any]:
    """Return a space as Minari writes it.

    Raises:
        ValueError: Minari has no such space.
    """
    if isinstance(space, Dict):
        return {"type": "Dict", "subspaces": {key: space_json(one) for key, one in space.spaces.items()}}
    if isinstance(space, Discrete):
        return {"type": "Discrete", "dtype": "int64", "start": int(space.start), "n": int(space.n)}
    if isinstance(space, MultiBinary):
        return {"type": "MultiBinary", "n": space.n}
    dtype = str(np.dtype(space.dtype))
    if isinstance(space, MultiDiscrete):
        return {"type": "MultiDiscrete", "dtype": dtype, "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if not isinstance(space, Box):
        raise ValueError(f"a Minari dataset cannot hold a {space}: leave that sensor out")
    bounds = {"low": space.low.tolist(), "high": space.high.tolist()}
    return {"type": "Box", "dtype": dtype, "shape": list(space.shape), **bounds}


def _place(source: Path, folder: Path, index: int, info: DatasetInfo, shard: Shard, record: EpisodeRecord) -> None:
    """Give an episode its number in the dataset."""
    folder.mkdir()
    link_or_copy(source, folder / _EPISODE)
    about = {
        "scene": shard.scene,
        "number": record.number,
        "id": record.id,
        "category": record.category,
        "start_distance": record.start_distance,
        "total_reward": record.total_reward,
        "measures": dict(record.measures),
    }
    metadata = {"id": index, "total_steps": record.num_steps, "seed": info.seed, "gym_batchnav": about}
    (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")


def _file(number: int) -> str:
    """Return the name of an episode's file in a shard."""
    return f"{number:06d}.arrow"
