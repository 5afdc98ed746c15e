"""The formats by name, reading the episodes of a dataset, and repeating them in a batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gym_batchnav.collect.dataset import COLLECTION, SHARDS, DatasetInfo, Episode, Format, ShardRecord, read_info
from gym_batchnav.collect.folder import check_files, finished_shards
from gym_batchnav.collect.webdataset import WebDataset
from gym_batchnav.collect.zarr_format import Zarr
from gym_batchnav.env.batch import BatchNavEnv

Returned = tuple[dict[str, Any], float, bool, bool]
FORMATS: dict[str, type[Zarr] | type[WebDataset]] = {"zarr": Zarr, "webdataset": WebDataset}


def make_format(name: object, **options: Any) -> Format:
    """Return the format of a name among ``FORMATS``.

    Raises:
        ValueError: The format is unknown, or an option has a wrong value.
        TypeError: The format does not have an option.
    """
    if not isinstance(name, str) or name not in FORMATS:
        raise ValueError(f"to={name!r}: choose one of {', '.join(FORMATS)}; collect export converts to other formats")
    return FORMATS[name](**options)


def open_dataset(folder: str | Path) -> tuple[DatasetInfo, Format, list[ShardRecord]]:
    """Return the info, format and shards of a dataset, which may come from strangers; ValueError if it is not one."""
    root = Path(folder)
    info = read_info(root)
    if not (root / SHARDS).is_dir():
        raise ValueError(f"folder '{root}' has no shards: name the folder that collect wrote")
    try:
        style = make_format(info.format, **info.format_options)
        style.check(info)
    except (TypeError, AttributeError) as error:  # of options and spaces that are not collect's own
        raise ValueError(f"'{root / COLLECTION}' does not describe a dataset ({error}): copy it again") from error
    return info, style, finished_shards(root, info)


def read_episodes(folder: str | Path) -> Iterator[Episode]:
    """Return an iterator over the episodes of a dataset, one at a time in memory.

    Args:
        folder: Folder of the dataset, which may come from strangers.

    Raises:
        ValueError: It is not a dataset, or a file is damaged.
    """
    root = Path(folder)
    return _episodes(root, *open_dataset(root))


def _episodes(root: Path, info: DatasetInfo, style: Format, records: list[ShardRecord]) -> Iterator[Episode]:
    for record in records:
        check_files(root, record, checksums=False)
        yield from style.read(root / SHARDS / record.shard.name, info, record)


def replay(env: BatchNavEnv, episode: Episode, seed: int) -> Iterator[Returned]:
    """Repeat an episode of a dataset; its observations, rewards and poses come back bit for bit.

    Args:
        env: A batch of one environment with the keywords that ``DatasetInfo.env`` describes.
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
        raise ValueError(
            f"episode {episode.number} of scene {episode.scene!r} is not in the batch: pass the collection's scenes="
        )
    number = env.simulator.schedule.index(np.array(slots), np.array([episode.number]))
    observation = env.reset(seed=seed, options={"episode_order": "once", "episodes": number})[0]
    if not np.array_equal(env.agents.position[0], episode.position[0]) or env.agents.heading[0] != episode.heading[0]:
        raise ValueError(
            f"episode {episode.number} of scene {episode.scene!r} begins at another place in this batch: make the "
            "batch with the keywords of the collection"
        )
    return _steps(env, episode, observation)


def _steps(env: BatchNavEnv, episode: Episode, observation: dict[str, Any]) -> Iterator[Returned]:
    yield {name: values[0] for name, values in observation.items()}, 0.0, False, False
    for action in episode.actions:
        observation, reward, terminated, truncated, _ = env.step(action[None])
        row = {name: values[0] for name, values in observation.items()}
        yield row, float(reward[0]), bool(terminated[0]), bool(truncated[0])
