"""Datasets of Minari, written by Minari, and the environment of one again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import gymnasium

import gym_batchnav
from gym_batchnav.collect.dataset import DatasetInfo, Episode
from gym_batchnav.system.extras import needs_extra

DATASETS = "MINARI_DATASETS_PATH"
_MAX_STEPS = 2**17 - 2  # Minari reads an episode as one batch of at most 2**17 rows


def write(
    folder: Path, name: str, info: DatasetInfo, episodes: Iterator[Episode], about: Mapping[str, Any]
) -> Path:  # fmt: skip
    """Write a dataset, in which every value is exact, to a path in a folder for Minari's datasets, and return it.

    Its metadata say where the episodes come from.

    Raises:
        ValueError: An episode is too long for Minari, or the name is not one of Minari's.
        MissingExtraError: Minari is not installed.
    """
    with needs_extra("minari", "a Minari dataset"):
        import minari
        from minari.data_collector import EpisodeBuffer
    with _datasets_in(folder):
        dataset = minari.create_dataset_from_buffers(
            name, [], observation_space=info.observation_space, action_space=info.action_space,
            algorithm_name=info.policy, requirements=["gym-batchnav"], data_format="arrow", jpeg_encoding=False,
        )  # fmt: skip
    for number, episode in enumerate(episodes):
        if episode.num_steps > _MAX_STEPS:
            raise ValueError(
                f"episode {episode.number} of {episode.scene!r} has {episode.num_steps:,} actions, and Minari reads at "
                f"most {_MAX_STEPS:,}: collect with a lower max_episode_steps="
            )
        infos = {name: getattr(episode, name) for name in ("position", "heading", "pitch", "goal")}
        infos["distance_to_goal"] = episode.distance
        dataset.update_dataset_from_buffer([
            EpisodeBuffer(
                seed=info.seed,
                observations=dict(episode.observations),
                actions=episode.actions,
                rewards=episode.rewards,
                terminations=episode.terminated,
                truncations=episode.truncated,
                infos={name: list(rows) if rows.ndim == 1 else rows for name, rows in infos.items()},
            )
        ])  # fmt: skip
        dataset.storage.update_episode_metadata([{"gym_batchnav": episode.about()}], [number])
    spec = env_spec(info)
    dataset.storage.update_metadata({"gym_batchnav": dict(about), **({} if spec is None else {"env_spec": spec})})
    return folder / name


@contextmanager
def _datasets_in(folder: Path) -> Iterator[None]:
    """Let Minari write to a folder, whose place it takes from the environment."""
    before = os.environ.get(DATASETS)
    os.environ[DATASETS] = str(folder.absolute())  # Minari joins a relative one twice
    try:
        yield
    finally:
        del os.environ[DATASETS]
        if before is not None:
            os.environ[DATASETS] = before


def dataset_id(out: Path) -> str:
    """Return the name by which Minari loads a folder: the path below its datasets, or else the folder's own name."""
    path = out.absolute()
    datasets = Path(os.environ.get(DATASETS) or Path.home() / ".minari" / "datasets").absolute()
    return path.relative_to(datasets).as_posix() if path.is_relative_to(datasets) else path.name


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
    spec.entry_point = f"{__name__}:make_recorded"
    spec.kwargs = {"of": info.task, "recorded": keywords, "scenes": list(info.scenes)}
    return spec.to_json()


def make_recorded(of: str, recorded: Mapping[str, Any], **keywords: Any) -> gymnasium.Env[Any, Any]:
    """Make a single environment of a task with the keywords with which a dataset was collected, ``DatasetInfo.env``.

    Further keywords take precedence. Pass ``scenes=`` and ``episodes=`` if they were files.

    Raises:
        ValueError: The keywords hold an object that only Python code can describe.
    """
    given = {name: restored(value, name) for name, value in recorded.items() if name not in keywords}
    return gymnasium.make(f"BatchNav/{of}-v0", disable_env_checker=True, **given, **keywords).unwrapped


def restored(value: Any, name: str) -> Any:
    """Return a value of a keyword as it was, objects of public classes of this package too; ValueError for others."""
    if isinstance(value, list):
        return tuple(restored(one, name) for one in value)
    if not isinstance(value, Mapping):
        return value
    inner = {key: restored(one, name) for key, one in value.items() if key != "type"}
    kind = value.get("type")
    if kind is None:
        return inner
    made = getattr(gym_batchnav, kind) if kind in gym_batchnav.__all__ else None
    if not isinstance(made, type) or not is_dataclass(made):
        raise ValueError(f"{name}= was a {kind!r}, which cannot be restored from a dataset: pass {name}= yourself")
    known = {one.name for one in fields(made) if one.init}
    try:
        return made(**{key: one for key, one in inner.items() if key in known})
    except TypeError as error:
        raise ValueError(
            f"{name}= cannot be restored from the dataset as a {kind} ({error}): pass {name}= yourself"
        ) from error
