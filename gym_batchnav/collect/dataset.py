"""A dataset: its episodes, what describes it, its shards, and the Format that writes and reads them.

Every shard, a few consecutive episodes of one scene, is written into an empty folder aside, receives its ``shard.json``
(a ShardRecord) and is renamed, so that a folder below ``shards`` is always complete. Descriptions and records may come
from strangers: what is read from JSON is checked before memory is taken for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space

from gym_batchnav.system.nested import class_of, described, flattened
from gym_batchnav.system.storage import write_atomically

SHARDS = "shards"  # folder of the finished shards in a dataset
RECORD = "shard.json"  # in the folder of every shard
COLLECTION = "collection.json"  # in the folder of the dataset: its DatasetInfo
PER_FRAME = ("position", "heading", "pitch", "distance", "goal")  # arrays [T + 1, ...] of an episode
PER_ACTION = ("actions", "rewards", "terminated", "truncated")  # [T, ...]
MAX_BYTES = 2**24  # of a JSON file; larger ones, as in hostile datasets, are not read
MAX_VALUES = 2**24  # of the observation of one sensor
MAX_ALL_VALUES = 2**26  # of the observations of all sensors together
MAX_EPISODES = 10**6  # of a scene: six digits in names of shards
MAX_PER_SHARD = 10_000  # episodes of a shard: its record stays below MAX_BYTES
_KEY_DIGITS = 16  # hexadecimal
_FREE = ("scenes", "episodes_per_scene", "env", "key")  # do not change an episode
_FREE_FACTS = ("versions", "renderer")  # of the card
_NAME_DIGITS = 12  # hexadecimal, of names of shards
_READABLE = 60  # characters of a scene's name in them


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One finished episode of T actions.

    Row t of the arrays [T + 1] is what the agent knew before action t, and the last row is what it knew at the end.

    Attributes:
        scene: Name of the scene.
        number: Row in the scene's episodes, from 0.
        id: The name of the episode in its file, or its number as text.
        observations: [T + 1, ...] by sensor: images and the task's sensors, with the dtypes of the observation space.
        actions: [T] int64, or [T, D] float32 of continuous actions.
        rewards: [T] float64.
        terminated: [T] bool; only the last may be True.
        truncated: [T] bool; only the last may be True.
        position: [T + 1, 3] float32, metres, Y up.
        heading: [T + 1] float32, radians about +y; 0 looks along -z, left is positive.
        pitch: [T + 1] float32, radians by which the cameras are tilted; up is positive.
        distance: [T + 1] float32, geodesic metres to the goal, or the next goal of a tour.
        goal: [T + 1, 3] float32, metres: that goal; of several equal ones the one nearest to the start.
        start_distance: Geodesic metres from the start to the goal, or the length of the shortest tour.
        category: Name of the category of the object that is the goal; "" if the goal is not an object.
        measures: The measures of the task at the end, by name: bool, int or float.
    """

    scene: str
    number: int
    id: str
    observations: Mapping[str, np.ndarray]
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    position: np.ndarray
    heading: np.ndarray
    pitch: np.ndarray
    distance: np.ndarray
    goal: np.ndarray
    start_distance: float
    category: str
    measures: Mapping[str, bool | int | float]

    @property
    def num_steps(self) -> int:
        """T, the number of actions."""
        return len(self.actions)

    def about(self) -> dict[str, Any]:
        """Return the facts that identify and sum up the episode, as JSON has them."""
        return {
            "scene": self.scene,
            "number": self.number,
            "id": self.id,
            "num_steps": self.num_steps,
            "total_reward": float(self.rewards.sum()),
            "start_distance": float(self.start_distance),
            "category": self.category,
            "measures": dict(self.measures),
        }


@dataclass(frozen=True, slots=True, eq=False)
class DatasetInfo:
    """Description of a dataset. Two with the same ``key`` hold parts of the same collection."""

    format: str
    format_options: Mapping[str, Any]  # such as the level of compression, as JSON has it
    observation_space: Dict  # of one environment
    action_space: Space[Any]
    images: Mapping[str, str]  # the sensor, such as "depth", by key of the observation: "depth" or "front/depth"
    depth_range: Mapping[str, tuple[float, float] | None]  # metres for 0 and 1; None: observations are in metres
    step_seconds: float
    task: str  # name of the class, such as "PointNav"
    policy: str  # such as "follower"
    seed: int  # of noise and random actions; an episode depends on it, its scene and its number alone
    episodes_per_scene: int  # the first ones
    episodes_per_shard: int  # the last shard of a scene may have fewer
    scenes: tuple[str, ...]  # names, in order
    env: Mapping[str, Any]  # the keywords of the batch: those passed to collect and the policy's, as JSON has them
    card: Mapping[str, Any]  # the protocol card: settings, checksums of every scene and of its episodes, versions
    key: str = ""  # checksum of all that changes an episode, see with_key


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive episodes of one scene, the unit of work."""

    name: str  # of its folder, see ``make_shard``
    scene: str
    first: int  # number of the first episode
    count: int


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """The facts about one episode in the record of its shard, so that a dataset can be made without reading its images.

    Attributes:
        number: Row in the scene's episodes.
        id: The name of the episode in its file, or its number as text.
        num_steps: T, the number of actions.
        total_reward: Sum of the rewards.
        start_distance: Geodesic metres from the start to the goal.
        category: Category of the goal; "" if it is not an object.
        measures: The measures at the end, by name.
    """

    number: int
    id: str
    num_steps: int
    total_reward: float
    start_distance: float
    category: str
    measures: Mapping[str, bool | int | float]

    def episode(
        self, scene: str, observations: Mapping[str, np.ndarray], columns: Mapping[str, np.ndarray]
    ) -> Episode:  # fmt: skip
        """Return the episode with its arrays: observations by sensor, and the columns of ``columns_of`` by name."""
        return Episode(
            scene=scene,
            number=self.number,
            id=self.id,
            observations=observations,
            **{name: columns[name] for name in (*PER_ACTION, *PER_FRAME)},
            start_distance=self.start_distance,
            category=self.category,
            measures=self.measures,
        )


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """The content of ``shard.json``."""

    shard: Shard
    key: str  # of the dataset that it belongs to
    episodes: tuple[EpisodeRecord, ...]  # in order
    files: Mapping[str, tuple[int, str]]  # size in bytes and SHA-256 of every file in its folder, by path with "/"
    scene_card: Mapping[str, Any]  # checksums of its scene, navmesh and episodes, see ``SceneCard``

    @property
    def num_frames(self) -> int:
        """Number of observations: one more than actions in every episode."""
        return sum(episode.num_steps + 1 for episode in self.episodes)


class Format(Protocol):
    """A format of datasets. An object has the options of the format as attributes, and no other state.

    Attributes:
        name: As in ``--to``.
    """

    name: str

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return everything that was chosen and changes the files, as JSON has it."""

    @abstractmethod
    def check(self, info: DatasetInfo) -> None:
        """Check, before anything runs, that a dataset can be written.

        Raises:
            ValueError: The format cannot hold one of the sensors or the actions.
            MissingExtraError: A package is not installed.
        """

    @abstractmethod
    def write(self, folder: Path, info: DatasetInfo, shard: Shard, episodes: Sequence[Episode]) -> None:
        """Write a shard into an empty folder, whose name is not the final one. Called in several threads at once.

        The bytes must depend on info and episodes alone. The arrays of the episodes may be larger than memory, so they
        must be written piece by piece.
        """

    @abstractmethod
    def read(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> Iterator[Episode]:
        """Yield the episodes of a shard, which may come from strangers, one at a time in memory.

        Sizes of its files have been checked.

        Raises:
            ValueError: It does not hold what its record says; the message names the file.
        """

    @abstractmethod
    def finish(self, root: Path, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
        """Make the dataset in ``root`` of all finished shards, which are in ``root / SHARDS / shard.name``.

        The folders of shards must not be changed; their files may be hard-linked. It may be called again, after having
        been killed at any moment or with further shards, and the result depends on info and shards alone. Files
        other than those that it wrote itself must be left alone.

        Args:
            root: Folder of the dataset.
            info: Its description.
            shards: All finished shards, in the order of the dataset.
        """


def columns_of(info: DatasetInfo) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return the shape and dtype of a row of every array of an episode, ``PER_FRAME`` and ``PER_ACTION``."""
    action = info.action_space
    return {
        "position": ((3,), np.dtype(np.float32)),
        "heading": ((), np.dtype(np.float32)),
        "pitch": ((), np.dtype(np.float32)),
        "distance": ((), np.dtype(np.float32)),
        "goal": ((3,), np.dtype(np.float32)),
        "actions": (action.shape or (), np.dtype(action.dtype)),
        "rewards": ((), np.dtype(np.float64)),
        "terminated": ((), np.dtype(bool)),
        "truncated": ((), np.dtype(bool)),
    }


def all_shards(info: DatasetInfo) -> list[Shard]:
    """Return the shards of a dataset, by scene and first episode."""
    size = info.episodes_per_shard
    return [
        make_shard(info.key, scene, first, min(size, info.episodes_per_scene - first))
        for scene in info.scenes
        for first in range(0, info.episodes_per_scene, size)
    ]


def make_shard(key: str, scene: str, first: int, count: int) -> Shard:
    """Return the shard of some episodes.

    Its name begins with the scene's, as far as file systems allow, and the first episode, so that names sort in the
    order of the dataset, and ends with a checksum of the key of the dataset, the scene's full name and the episodes.
    """
    text = json.dumps([key, scene, first, count])
    digest = hashlib.sha256(text.encode()).hexdigest()[:_NAME_DIGITS]
    readable = re.sub(r"[^A-Za-z0-9]+", "_", scene).strip("_").lower()[:_READABLE] or "scene"
    return Shard(f"{readable}-{first:06d}-{digest}", scene, first, count)


def with_key(info: DatasetInfo) -> DatasetInfo:
    """Return an info with its key: a checksum of everything on which the content of an episode depends."""
    values = {name: value for name, value in to_json(info).items() if name not in _FREE}
    values["card"] = {name: value for name, value in values["card"].items() if name not in _FREE_FACTS}
    text = json.dumps(values, sort_keys=True)
    return replace(info, key=hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS])


def to_json(info: DatasetInfo) -> dict[str, Any]:
    """Return an info as JSON values; ValueError if observations are too large, or a space is not Box or Discrete."""
    values = {one.name: getattr(info, one.name) for one in fields(info)}
    if sum(int(np.prod(one.shape or (), dtype=object)) for one in info.observation_space.values()) > MAX_ALL_VALUES:
        raise ValueError("observations are too large together to collect: choose a smaller camera= or fewer sensors=")
    values["observation_space"] = {key: _space_json(one) for key, one in info.observation_space.items()}
    values["action_space"] = _space_json(info.action_space)
    return json.loads(json.dumps(values))


def from_json(values: Any, source: str) -> DatasetInfo:
    """Return the info of JSON values, which may come from strangers; ValueError, with their source, for others."""
    try:
        given: dict[str, Any] = {one.name: values[one.name] for one in fields(DatasetInfo)}
        given |= {name: str(given[name]) for name in ("format", "task", "policy", "key")}
        given |= {name: dict(given[name]) for name in ("format_options", "images", "env", "card")}
        given |= {name: _count(given[name]) for name in ("episodes_per_scene", "episodes_per_shard")}
        given |= {"seed": int(given["seed"]), "step_seconds": float(given["step_seconds"])}
        given |= {
            "observation_space": Dict(_spaces(given["observation_space"])),
            "action_space": _space(given["action_space"]),
        }
        given["depth_range"] = {str(key): None if one is None else (float(one[0]), float(one[1]))
                                for key, one in given["depth_range"].items()}  # fmt: skip
        info = DatasetInfo(**{**given, "scenes": tuple(map(str, given["scenes"]))})
        key = with_key(info).key
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, AssertionError,
            RecursionError) as error:  # fmt: skip
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"'{source}' does not describe a dataset ({reason}): copy the dataset again") from error
    if key != info.key:
        raise ValueError(f"'{source}' was changed: its key does not match its content: copy the dataset again")
    return info


def write_info(root: Path, info: DatasetInfo) -> None:
    """Write the info of a dataset into its folder."""
    write_atomically(root / COLLECTION, (json.dumps(to_json(info), indent=1, sort_keys=True) + "\n").encode())


def read_info(root: Path) -> DatasetInfo:
    """Return the info of the dataset in a folder; ValueError unless it has a valid one."""
    path = root / COLLECTION
    if not path.is_file():
        raise ValueError(f"folder '{root}' has no {COLLECTION}: name the folder that collect wrote")
    return from_json(read_json(path), str(path))


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; ValueError if it is too large, or not JSON."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"'{path}' has more than {MAX_BYTES:,} bytes, so collect did not write it: remove it")
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' is not JSON ({error}): copy the dataset again") from error


def plain(value: Any) -> Any:
    """Return a value as JSON has it; objects that it has no form for as the names of their classes."""
    return described(value, _plain_leaf)


def _plain_leaf(value: Any) -> Any:
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
        raise ValueError(f"it has {value} episodes per scene or shard, not 1 to {MAX_EPISODES:,}")
    return int(value)


def _space_json(space: Space[Any]) -> dict[str, Any]:
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
        raise ValueError(f"its observations have more than {MAX_ALL_VALUES:,} values")
    return {str(key): _space(one) for key, one in values.items()}


def _space(values: Mapping[str, Any]) -> Space[Any]:
    dtype = np.dtype(str(values["dtype"]))
    if dtype.kind not in "biuf":
        raise ValueError(f"it has a space of dtype {dtype}, not of numbers")
    if values["type"] == "Discrete":
        return Discrete(int(values["n"]), start=int(values["start"]), dtype=dtype.type)
    shape = tuple(int(size) for size in values["shape"])
    if len(shape) > 8 or any(size < 0 for size in shape) or int(np.prod(shape, dtype=object)) > MAX_VALUES:
        raise ValueError(f"it has a space of shape {shape}, which is too large or negative")
    low, high = (_bound(values[name], shape, dtype) for name in ("low", "high"))
    return Box(low, high, shape, dtype.type)


def _bound(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    if isinstance(value, list):
        return np.array([float(one) if isinstance(one, str) else one for one in value], dtype).reshape(shape)
    return np.full(shape, float(value) if isinstance(value, str) else value, dtype)
