"""What a row of a LeRobot dataset holds: its features, and how they follow from an episode."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space

from gym_batchnav.collect.api import DatasetInfo, Episode

STATE = "observation.state"
STATE_NAMES = ("x", "y", "z", "heading", "pitch")
DEPTH_CODES = 4095  # the largest of 12 bits
MILLIMETRES = 1000.0
_IMAGES = "observation.images."
_COUNTERS = {
    "timestamp": "float32",
    "frame_index": "int64",
    "episode_index": "int64",
    "index": "int64",
    "task_index": "int64",
}


@dataclass(frozen=True)
class Feature:
    """A column, or the videos, of one name.

    Attributes:
        name: Its name in the dataset.
        kind: ``"video"``, ``"image"`` (TIFF files in the rows) or ``"column"``.
        dtype: Of the values in rows and images.
        shape: Of one value.
        shows: What an image shows: ``"rgb"``, ``"depth"`` or ``"semantic"``; ``""`` of other columns.
        sensor: Key of the observation that it holds; ``""`` of others.
        names: Names of the entries.
        range: Metres that depths of 0 and 1 stand for; ``None`` if they are in metres.
        details: What ``info.json`` says besides.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    shows: str = ""
    sensor: str = ""
    names: tuple[str, ...] | None = None
    range: tuple[float, float] | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def values(self, episode: Episode) -> np.ndarray:
        """Return the values [T, ...] of an episode: those that were known before each action, and what came of it."""
        steps = episode.num_steps
        if self.sensor:
            return self._encoded(np.asarray(episode.observations[self.sensor])[:steps])
        if self.name == STATE:
            return np.column_stack((episode.position, episode.heading, episode.pitch))[:steps].astype(np.float32)
        source: dict[str, np.ndarray] = {
            "action": episode.actions,
            "next.reward": episode.rewards,
            "next.terminated": episode.terminated,
            "next.done": episode.terminated | episode.truncated,
            "goal.position": episode.goal[:steps],
            "goal.distance": episode.distance[:steps],
        }
        return np.asarray(source[self.name], self.dtype).reshape(steps, *self.shape)

    def _encoded(self, values: np.ndarray) -> np.ndarray:
        """Return observations [T, ...] as they are stored."""
        if self.shows != "depth" or self.dtype == "float32":
            return values.astype(self.dtype, copy=False).reshape(len(values), *self.shape)
        lowest, highest = self.range or (0.0, 1.0)
        metres = values.astype(np.float64) * (highest - lowest) + lowest
        if self.kind == "image":
            return np.clip(np.rint(metres * MILLIMETRES), 0, np.iinfo(np.uint16).max).astype(np.uint16)
        lowest, highest = self.details["video.depth_min"], self.details["video.depth_max"]
        codes = np.rint((metres - lowest) / (highest - lowest) * DEPTH_CODES)
        return np.clip(codes, 0, DEPTH_CODES).astype(np.uint16)

    def described(self) -> dict[str, Any]:
        """Return the entry of ``info.json``."""
        dtype = self.dtype if self.kind == "column" else self.kind
        names: Any = list(self.names) if self.names else None
        if self.kind != "column":
            names = ["height", "width", "channels"]
        entry = {"dtype": dtype, "shape": list(self.shape), "names": names}
        return {**entry, "info": self.details} if self.details else entry


def counters() -> dict[str, dict[str, Any]]:
    """Return the entries of ``info.json`` for the columns that number rows."""
    return {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in _COUNTERS.items()}


def features_of(info: DatasetInfo, rgb: str, depth: str, max_depth: float) -> tuple[Feature, ...]:
    """Return the features of a dataset, in order.

    Args:
        info: What describes it.
        rgb: ``"images"`` or the name of a codec.
        depth: ``"float32"``, ``"uint16"`` or ``"video"``.
        max_depth: Largest depth of videos in metres, where observations are in metres.

    Raises:
        ValueError: LeRobot cannot hold one of the sensors or the actions.
    """
    sensors = [_sensor(key, space, info, rgb, depth, max_depth) for key, space in info.observation_space.spaces.items()]
    action_dtype, action_shape = _column_of("action", info.action_space)
    others = (
        Feature(STATE, "column", "float32", (len(STATE_NAMES),), names=STATE_NAMES),
        Feature("action", "column", action_dtype, action_shape),
        Feature("next.reward", "column", "float64", (1,)),
        Feature("next.terminated", "column", "bool", (1,)),
        Feature("next.done", "column", "bool", (1,)),
        Feature("goal.position", "column", "float32", (3,), names=("x", "y", "z")),
        Feature("goal.distance", "column", "float32", (1,)),
    )
    names = [one.name for one in (*sensors, *others)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"two sensors would be called {twice[0]!r} in a LeRobot dataset: give one of them another name"
        )
    return (*sensors, *others)


def _sensor(key: str, space: Space[Any], info: DatasetInfo, rgb: str, depth: str, max_depth: float) -> Feature:
    """Return the feature of a sensor."""
    name = key.replace("/", ".")
    shows = info.images.get(key, "")
    if shows not in ("rgb", "depth", "semantic"):
        dtype, shape = _column_of(key, space)
        return Feature(f"observation.{name}", "column", dtype, shape, sensor=key)
    shape = tuple(space.shape or ())
    image: dict[str, Any] = {"name": f"{_IMAGES}{name}", "shape": shape, "shows": shows, "sensor": key}
    if shows == "rgb":
        return Feature(kind="image" if rgb == "images" else "video", dtype="uint8", **image)
    if shows == "semantic":
        return Feature(kind="image", dtype="int32", **image)
    span = info.depth_range.get(key)
    if depth == "video":
        lowest, highest = span or (0.0, max_depth)
        coded = {"video.depth_min": lowest, "video.depth_max": highest, "video.shift": 0.0, "video.use_log": False}
        details = {"is_depth_map": True, "depth_unit": "m", **coded}
        return Feature(kind="video", dtype="uint16", range=span, details=details, **image)
    if depth == "uint16":
        details = {"is_depth_map": True, "depth_unit": "mm"}
        return Feature(kind="image", dtype="uint16", range=span, details=details, **image)
    # LeRobot knows metres and millimetres. Depths between 0 and 1 stay as they are, since a product would round them.
    unit = {"depth_unit": "m"} if span is None else {"depth_range": list(span)}
    return Feature(kind="image", dtype="float32", range=span, details={"is_depth_map": True, **unit}, **image)


def _column_of(key: str, space: Space[Any]) -> tuple[str, tuple[int, ...]]:
    """Return the dtype and shape of a column for the values of a space."""
    if not isinstance(space, (Box, Discrete, MultiBinary, MultiDiscrete)) or len(space.shape or ()) > 5:
        raise ValueError(f"a LeRobot dataset cannot hold {key!r}, which is a {space}: leave that sensor out")
    dtype = np.dtype(space.dtype)
    return dtype.name, tuple(space.shape or ()) or (1,)


@lru_cache(maxsize=64)
def _side(angle: int) -> str:
    """Say where something is, ``angle`` degrees to the left of straight ahead."""
    if abs(angle) <= 5:
        return "straight ahead"
    if abs(angle) >= 175:
        return "behind you"
    return f"{abs(angle)} degrees to the {'left' if angle > 0 else 'right'}"


def instruction(episode: Episode, task: str) -> str:
    """Return what the agent is asked to do, in words."""
    if episode.category:
        category = episode.category.replace("_", " ")
        article = "an" if category[0].lower() in "aeiou" else "a"
        return f"Find {article} {category} and stop beside it."
    goal, start = episode.goal[0].astype(np.float64), episode.position[0].astype(np.float64)
    if np.isfinite(goal).all() and math.isfinite(episode.start_distance):
        offset = goal - start
        # Heading 0 looks along -z, and left is positive.
        angle = math.atan2(-offset[0], -offset[2]) - float(episode.heading[0])
        degrees = round(math.degrees(math.remainder(angle, 2 * math.pi)) / 5) * 5
        return f"Go to the point {math.hypot(offset[0], offset[2]):.1f} m away, {_side(degrees)}, and stop there."
    return f"Carry out the task {task}."
