"""DatasetInfo as JSON, and the checks of what is read from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space

from gym_batchnav.collect.api import COLLECTION, DatasetInfo
from gym_batchnav.system.nested import class_of, described, flattened
from gym_batchnav.system.storage import write_atomically

MAX_BYTES = 2**24  # of a JSON file: those of hostile datasets are not read
MAX_VALUES = 2**24  # of the observation of one sensor
MAX_ALL_VALUES = 2**26  # of the observations of all sensors together
MAX_EPISODES = 10**6  # of a scene: six digits in names of shards
MAX_PER_SHARD = 10_000  # episodes of a shard: its record stays below MAX_BYTES
_DIGITS = 16  # hexadecimal, of keys
_FREE = ("scenes", "episodes_per_scene", "env", "key")  # do not change an episode
_FREE_FACTS = ("versions", "renderer")  # of the card


def with_key(info: DatasetInfo) -> DatasetInfo:
    """Return an info with its key: a checksum of everything on which the content of an episode depends."""
    values = {name: value for name, value in to_json(info).items() if name not in _FREE}
    values["card"] = {name: value for name, value in values["card"].items() if name not in _FREE_FACTS}
    text = json.dumps(values, sort_keys=True)
    return replace(info, key=hashlib.sha256(text.encode()).hexdigest()[:_DIGITS])


def to_json(info: DatasetInfo) -> dict[str, Any]:
    """Return an info as JSON values."""
    values = {one.name: getattr(info, one.name) for one in fields(info)}
    if sum(int(np.prod(one.shape or (), dtype=object)) for one in info.observation_space.values()) > MAX_ALL_VALUES:
        raise ValueError("observations are too large together to collect: choose a smaller camera= or fewer sensors=")
    values["observation_space"] = {key: _space_json(one) for key, one in info.observation_space.items()}
    values["action_space"] = _space_json(info.action_space)
    return json.loads(json.dumps(values))


def from_json(values: Any, source: str) -> DatasetInfo:
    """Return the info of JSON values, which may come from strangers.

    Args:
        values: What ``to_json`` returned.
        source: Name of the file, for errors.

    Raises:
        ValueError: The values are no info, or its key is not theirs.
    """
    try:
        given = {one.name: values[one.name] for one in fields(DatasetInfo)}
        spaces = _spaces(given["observation_space"])
        ranges = {str(key): None if one is None else (float(one[0]), float(one[1]))
                  for key, one in given["depth_range"].items()}  # fmt: skip
        info = DatasetInfo(
            format=str(given["format"]),
            format_options=dict(given["format_options"]),
            images=dict(given["images"]),
            task=str(given["task"]),
            policy=str(given["policy"]),
            seed=int(given["seed"]),
            episodes_per_scene=_count(given["episodes_per_scene"]),
            episodes_per_shard=_count(given["episodes_per_shard"]),
            env=dict(given["env"]),
            card=dict(given["card"]),
            key=str(given["key"]),
            observation_space=Dict(spaces),
            action_space=_space(given["action_space"]),
            depth_range=ranges,
            step_seconds=float(given["step_seconds"]),
            scenes=tuple(map(str, given["scenes"])),
        )
        key = with_key(info).key
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, AssertionError,
            RecursionError) as error:  # fmt: skip
        raise ValueError(f"'{source}' does not describe a dataset: {type(error).__name__}: {error}") from error
    if key != info.key:
        raise ValueError(f"'{source}' was changed: its key is not that of its values; copy the dataset again")
    return info


def write_info(root: Path, info: DatasetInfo) -> None:
    """Write the info of a dataset into its folder."""
    write_atomically(root / COLLECTION, (json.dumps(to_json(info), indent=1, sort_keys=True) + "\n").encode())


def read_info(root: Path) -> DatasetInfo:
    """Return the info of the dataset in a folder.

    Raises:
        ValueError: The folder has no dataset, or not a valid one.
    """
    path = root / COLLECTION
    if not path.is_file():
        raise ValueError(f"folder '{root}' has no {COLLECTION}: name the folder that collect wrote")
    return from_json(read_json(path), str(path))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises:
        ValueError: It is too large, or no JSON.
    """
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"'{path}' is larger than {MAX_BYTES:,} bytes: it is no part of a dataset")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' is no JSON: {error}") from error


def plain(value: Any) -> Any:
    """Return a value as JSON has it; objects that it has no form for as the names of their classes."""
    return described(value, _plain_leaf)


def _plain_leaf(value: Any) -> Any:
    """Return a value that is not nested as JSON has it."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return value.name if isinstance(value, Path) else class_of(value)


def differences(one: DatasetInfo, other: DatasetInfo) -> list[str]:
    """Return what makes the keys of two infos differ, as ``name: value instead of value``, shortened."""
    first = flattened(to_json(one))
    second = flattened(to_json(other))
    free = (*_FREE, *(f"card.{name}" for name in _FREE_FACTS))
    names = [name for name in sorted({*first, *second}) if not name.startswith(free)]
    changed = [name for name in names if first.get(name) != second.get(name)]
    return [f"{name}: {str(first.get(name))[:60]} instead of {str(second.get(name))[:60]}" for name in changed[:8]]


def _count(value: Any) -> int:
    """Return a number of episodes; ValueError unless it is one that collect writes."""
    if not 1 <= int(value) <= MAX_EPISODES:
        raise ValueError(f"{value} episodes")
    return int(value)


def _space_json(space: Space[Any]) -> dict[str, Any]:
    """Return a space as JSON values."""
    if isinstance(space, Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": np.dtype(space.dtype).str}
    if not isinstance(space, Box):
        raise ValueError(f"a {type(space).__name__} space cannot be collected: use Box or Discrete")
    if int(np.prod(space.shape, dtype=object)) > MAX_VALUES:
        raise ValueError(f"observations of shape {space.shape} are too large to collect: choose a smaller camera=")
    low, high = (_bound_json(bound) for bound in (space.low, space.high))
    return {"type": "Box", "low": low, "high": high, "shape": list(space.shape), "dtype": np.dtype(space.dtype).str}


def _bound_json(bound: np.ndarray) -> Any:
    """Return a bound as one number if all are the same; infinities as text, which JSON has no numbers for."""
    values = np.unique(bound)
    if len(values) == 1:
        value = values[0].item()
        return value if np.isfinite(value) else str(value)
    return [value if np.isfinite(value) else str(value) for value in bound.ravel().tolist()]


def _spaces(values: Mapping[str, Any]) -> dict[str, Space[Any]]:
    """Return the spaces of JSON values by sensor; their bounds take memory, so sizes are checked first."""
    sizes = [[int(size) for size in one.get("shape", ())] for one in values.values()]
    if sum(abs(int(np.prod(shape, dtype=object))) for shape in sizes) > MAX_ALL_VALUES:
        raise ValueError(f"observations of more than {MAX_ALL_VALUES:,} values")
    return {str(key): _space(one) for key, one in values.items()}


def _space(values: Mapping[str, Any]) -> Space[Any]:
    """Return the space of JSON values."""
    dtype = np.dtype(str(values["dtype"]))
    if dtype.kind not in "biuf":
        raise ValueError(f"a space of {dtype}")
    if values["type"] == "Discrete":
        return Discrete(int(values["n"]), start=int(values["start"]), dtype=dtype.type)
    shape = tuple(int(size) for size in values["shape"])
    if len(shape) > 8 or any(size < 0 for size in shape) or int(np.prod(shape, dtype=object)) > MAX_VALUES:
        raise ValueError(f"a space of shape {shape}")
    low, high = (_bound(values[name], shape, dtype) for name in ("low", "high"))
    return Box(low, high, shape, dtype.type)


def _bound(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a bound as an array of a shape."""
    if isinstance(value, list):
        return np.array([float(one) if isinstance(one, str) else one for one in value], dtype).reshape(shape)
    return np.full(shape, float(value) if isinstance(value, str) else value, dtype)
