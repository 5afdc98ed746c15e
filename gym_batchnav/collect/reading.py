"""Reading the episodes of a dataset, and repeating them in a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gym_batchnav.collect import webdataset, zarr_format
from gym_batchnav.collect.api import SHARDS, DatasetInfo, Episode, ShardRecord
from gym_batchnav.collect.folder import check_files, finished_shards
from gym_batchnav.collect.info import read_info
from gym_batchnav.env.batch import BatchNavEnv

Returned = tuple[dict[str, Any], float, bool, bool]


def read_episodes(folder: str | Path) -> Iterator[Episode]:
    """Return an iterator over the episodes of a dataset of the format zarr, webdataset or rrd, one at a time in memory.

    Args:
        folder: Folder of the dataset, which may come from strangers.

    Raises:
        ValueError: It is no such dataset, or a file is damaged.
    """
    root = Path(folder)
    info = read_info(root)
    readers = {"zarr": zarr_format.read_shard, "webdataset": webdataset.read_shard, "rrd": webdataset.read_shard}
    if info.format not in readers:
        raise ValueError(f"'{root}' has the format {info.format!r}: read it with the library of that format")
    return _episodes(root, info, readers[info.format])


def _episodes(
    root: Path, info: DatasetInfo, read_shard: Callable[[Path, DatasetInfo, ShardRecord], Iterable[Episode]]
) -> Iterator[Episode]:
    """Yield the episodes of the finished shards of a dataset."""
    for record in finished_shards(root, info):
        check_files(root, record, checksums=False)
        yield from read_shard(root / SHARDS / record.shard.name, info, record)


def replay(env: BatchNavEnv, episode: Episode, seed: int) -> Iterator[Returned]:
    """Repeat an episode of a dataset; its observations, rewards and poses come back to the bit.

    Args:
        env: A batch of one environment with the keywords that were passed to ``collect``.
        episode: The episode.
        seed: The seed of the dataset.

    Returns:
        An iterator over observation, reward, terminated and truncated of the one environment: first those of the reset,
        then those of every action.

    Raises:
        ValueError: The batch lacks the scene, has another episode of this number, or more than one environment.
    """
    if env.num_envs != 1 or env.autoreset_mode == AutoresetMode.SAME_STEP:
        raise ValueError("replay repeats one episode: make the batch with num_envs=1 and autoreset_mode='next_step'")
    slots = [slot for slot in env.library.active.tolist() if env.library.name(slot) == episode.scene]
    if not slots or episode.number >= len(env.simulator.episode_set(slots[0])):
        raise ValueError(f"episode {episode.number} of scene {episode.scene!r} is not in the batch: pass scenes=")
    number = env.simulator.schedule.index(np.array(slots), np.array([episode.number]))
    observation = env.reset(seed=seed, options={"episode_order": "once", "episodes": number})[0]
    if not np.array_equal(env.agents.position[0], episode.position[0]) or env.agents.heading[0] != episode.heading[0]:
        raise ValueError(
            f"episode {episode.number} of scene {episode.scene!r} begins elsewhere: pass the keywords of the collection"
        )
    return _steps(env, episode, observation)


def _steps(env: BatchNavEnv, episode: Episode, observation: dict[str, Any]) -> Iterator[Returned]:
    """Yield the steps of an episode."""
    yield {name: values[0] for name, values in observation.items()}, 0.0, False, False
    for action in episode.actions:
        observation, reward, terminated, truncated, _ = env.step(action[None])
        row = {name: values[0] for name, values in observation.items()}
        yield row, float(reward[0]), bool(terminated[0]), bool(truncated[0])
