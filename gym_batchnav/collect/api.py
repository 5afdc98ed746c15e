"""The interface of dataset formats: episodes, what describes a dataset, shards, and the Format that writes them.

The engine gives every shard, a few consecutive episodes of one scene, to the format's ShardWriter, which writes into an
empty folder aside. The engine then adds ``shard.json`` (a ShardRecord) and renames the folder, so that a folder below
``shards`` is always complete. When all shards are there, or when the user asks for it,
``Format.finish`` makes the dataset of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Dict, Space

from gym_batchnav.navmesh.mesh import NavMesh

SHARDS = "shards"  # folder of the finished shards in a dataset
RECORD = "shard.json"  # in the folder of every shard
COLLECTION = "collection.json"  # in the folder of the dataset: its DatasetInfo


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
        category: Name of the category of the object that is the goal; "" if the goal is no object.
        measures: The measures of the task at the end, by name: bool, int or float.
        navmesh: The navmesh of the scene; None for an episode that was read from a dataset.
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
    navmesh: NavMesh | None = None

    @property
    def num_steps(self) -> int:
        """T, the number of actions."""
        return len(self.actions)

    @property
    def nbytes(self) -> int:
        """Bytes of the observations, which take nearly all of the memory."""
        return sum(values.nbytes for values in self.observations.values())


@dataclass(frozen=True, slots=True, eq=False)
class DatasetInfo:
    """Description of a dataset. Two with the same ``key`` hold parts of the same collection.

    Attributes:
        format: Name of the format.
        format_options: What the format was asked for, such as the encoding of depth, as JSON has it.
        observation_space: Space of the observations of one environment.
        action_space: Space of the actions of one environment.
        images: The keys of the observation that are images, with what they show: ``"rgb"``, ``"depth"``,
            ``"semantic"``, ``"normals"`` or ``"points"``. With one camera the key is that word, and of several cameras
            ``"front/depth"``.
        depth_range: By key of the depth images, the metres that an observation of 0 and of 1 stands for; ``None`` if
            observations are in metres.
        step_seconds: Duration of a step.
        task: Name of the task's class, such as ``"PointNav"``.
        policy: The policy that chose the actions, as text, such as ``"follower"``.
        seed: Seed of noise and random actions. An episode depends on (seed, scene, number), and on nothing else.
        episodes_per_scene: Number of episodes, the first ones of each scene.
        episodes_per_shard: Number of episodes in a shard; the last one of a scene may have fewer.
        scenes: Names of the scenes, in order.
        env: The keywords of the batch as JSON has them: those that were passed to ``collect``.
        card: The protocol card: settings, checksums of every scene and of its episodes, versions.
        key: Checksum of all values above except versions and renderer.
    """

    format: str
    format_options: Mapping[str, Any]
    observation_space: Dict
    action_space: Space[Any]
    images: Mapping[str, str]
    depth_range: Mapping[str, tuple[float, float] | None]
    step_seconds: float
    task: str
    policy: str
    seed: int
    episodes_per_scene: int
    episodes_per_shard: int
    scenes: tuple[str, ...]
    env: Mapping[str, Any]
    card: Mapping[str, Any]
    key: str = ""


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive episodes of one scene, the unit of work.

    Attributes:
        name: Name of its folder: the scene and the first episode, so that names sort in the order of the dataset, and
            a checksum of everything on which its content depends.
        scene: Name of the scene.
        first: Number of the first episode.
        count: Number of episodes.
    """

    name: str
    scene: str
    first: int
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
        category: Category of the goal; "" if it is no object.
        measures: The measures at the end, by name.
    """

    number: int
    id: str
    num_steps: int
    total_reward: float
    start_distance: float
    category: str
    measures: Mapping[str, bool | int | float]


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """The content of ``shard.json``.

    Attributes:
        shard: The shard.
        key: Key of the dataset that it belongs to.
        episodes: Its episodes, in order.
        files: Size in bytes and SHA-256 of every file in its folder, by path with "/".
        scene_card: Checksums of its scene, navmesh and episodes, see ``SceneCard``.
    """

    shard: Shard
    key: str
    episodes: tuple[EpisodeRecord, ...]
    files: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    scene_card: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_frames(self) -> int:
        """Number of observations: one more than actions in every episode."""
        return sum(episode.num_steps + 1 for episode in self.episodes)


class ShardWriter(Protocol):
    """Writes the episodes of one shard. All calls come from one thread at a time, which is not the batch's."""

    @abstractmethod
    def add(self, episode: Episode) -> None:
        """Add the next episode; they come in the order of their numbers. Its arrays do not change until ``close``."""

    @abstractmethod
    def close(self) -> None:
        """Write everything that is left. The bytes in the folder must depend on the episodes and the info alone."""

    @abstractmethod
    def abandon(self) -> None:
        """Release files and encoders; the folder is then deleted. Idempotent, also after ``close``."""


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
    def open_shard(self, folder: Path, info: DatasetInfo, shard: Shard) -> ShardWriter:
        """Begin a shard in an empty folder, whose name is not the final one. Called in several threads at once."""

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

    @abstractmethod
    def verify(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> None:
        """Read a shard, which may come from strangers, and check that it holds what its record says.

        Sizes and checksums of its files have been checked.

        Raises:
            ValueError: It does not; the message names the file.
        """
