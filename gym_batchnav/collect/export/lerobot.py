"""Datasets of LeRobot, written by ``LeRobotDataset``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space

from gym_batchnav.collect.dataset import DatasetInfo, Episode, ShardRecord
from gym_batchnav.system.extras import MissingExtraError
from gym_batchnav.system.wording import counted

STATE = "observation.state"
_STATE_NAMES = ["x", "y", "z", "heading", "pitch"]
_IMAGE_NAMES = ["height", "width", "channels"]
# LeRobot 0.6.1 encodes videos with SVT-AV1, which ends the process where images are narrower, and depth with HEVC.
_VIDEO_WIDTH = 32  # pixels
_VIDEO_HEIGHT = 16
_VIDEO_STEPS = 3  # frames of depth


def write(folder: Path, info: DatasetInfo, episodes: Iterator[Episode], about: Mapping[str, Any], video: bool) -> Path:
    """Write a dataset into a folder, which does not exist, and return it.

    Every row is what was known before an action, the action, and its reward. The observation after the last action is
    left out, because LeRobot has no row for it; its pose is in ``meta/gym_batchnav.json``, with where the episodes come
    from.

    Raises:
        ValueError: LeRobot cannot hold one of the sensors or the actions.
        MissingExtraError: LeRobot is not installed.
    """
    features = features_of(info, video)
    try:
        from lerobot.datasets.lerobot_dataset import LeRobotDataset
    except ImportError as error:
        raise MissingExtraError(
            f"lerobot is not installed ({error}); it needs Python 3.12 and a separate environment: "
            'pip install "lerobot[dataset]>=0.6.1" ".[collect]"', name=error.name
        ) from error  # fmt: skip
    fps = max(1, round(1 / info.step_seconds))
    dataset = LeRobotDataset.create(
        f"local/{folder.name.strip('.')}", fps, features, folder, robot_type="gym_batchnav", use_videos=video,
        image_writer_threads=4,
    )  # fmt: skip
    listed = []
    for episode in episodes:
        values = {name: _values(name, info, episode) for name in features}
        task = instruction(episode, info.task)
        for step in range(episode.num_steps):
            dataset.add_frame({name: rows[step] for name, rows in values.items()} | {"task": task})
        dataset.save_episode()
        final = {"position": episode.position[-1].tolist(), "heading": float(episode.heading[-1])}
        listed.append({**episode.about(), "final": final})
    dataset.finalize()
    text = json.dumps({**about, "episodes": listed}, indent=1)
    (folder / "meta" / "gym_batchnav.json").write_text(text, encoding="utf-8")
    return folder


def check_video(info: DatasetInfo, records: Iterable[ShardRecord]) -> None:
    """Raise ValueError unless LeRobot can encode the images of a dataset as videos."""
    for key, space in info.observation_space.items():
        if not _is_picture(key, info):
            continue
        height, width, *_ = (*(space.shape or ()), 0, 0)
        if width < _VIDEO_WIDTH or height < _VIDEO_HEIGHT:
            raise ValueError(
                f"video=True: {key!r} has {width} x {height} pixels, and LeRobot encodes at least {_VIDEO_WIDTH} x "
                f"{_VIDEO_HEIGHT}: leave it out, or collect larger images"
            )
        shortest = min((one.num_steps for record in records for one in record.episodes), default=_VIDEO_STEPS)
        if info.images.get(key) == "depth" and shortest < _VIDEO_STEPS:
            raise ValueError(
                f"video=True: an episode has only {counted(shortest, 'step')}, and LeRobot encodes depth of at least "
                f"{_VIDEO_STEPS}: leave it out, or collect without depth"
            )


def features_of(info: DatasetInfo, video: bool) -> dict[str, dict[str, Any]]:
    """Return the features of a dataset as LeRobot describes them.

    Raises:
        ValueError: LeRobot cannot hold one of the sensors or the actions, would take one for an image because of its
            name, or two would have the same name.
    """
    kind = "video" if video else "image"
    features: dict[str, dict[str, Any]] = {}
    for key, space in info.observation_space.items():
        name = _name(key, info)
        if name in features or name == STATE:
            raise ValueError(f"two sensors would be called {name!r} in a LeRobot dataset: rename one of them")
        if _is_picture(key, info):
            features[name] = {"dtype": kind, "shape": tuple(space.shape or ()), "names": _IMAGE_NAMES}
            if info.images.get(key) == "depth":
                features[name]["info"] = {"is_depth_map": True, "depth_unit": "m"}
        elif "image" in name:
            raise ValueError(f"LeRobot takes {key!r} for an image because of its name: rename the sensor")
        else:
            features[name] = _column(key, space)
    numbers = {"names": None, "shape": (1,)}
    return features | {
        STATE: {"dtype": "float32", "shape": (len(_STATE_NAMES),), "names": _STATE_NAMES},
        "action": _column("action", info.action_space),
        "next.reward": {"dtype": "float64", **numbers},
        "next.terminated": {"dtype": "bool", **numbers},
        "next.done": {"dtype": "bool", **numbers},
        "goal.position": {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]},
        "goal.distance": {"dtype": "float32", **numbers},
    }


def _name(key: str, info: DatasetInfo) -> str:
    return f"observation.{'images.' if _is_picture(key, info) else ''}{key.replace('/', '.')}"


def _is_picture(key: str, info: DatasetInfo) -> bool:
    """Return whether an observation is an image to LeRobot: depth or colours, also those of a goal's picture."""
    space = info.observation_space[key]
    shape = space.shape or ()
    colours = space.dtype == np.uint8 and len(shape) == 3 and shape[-1] == 3
    return colours or info.images.get(key) in ("rgb", "depth")


def _column(key: str, space: Space[Any]) -> dict[str, Any]:
    """Return the feature of values that are not images."""
    if not isinstance(space, (Box, Discrete, MultiBinary, MultiDiscrete)) or len(space.shape or ()) > 4:
        raise ValueError(f"a LeRobot dataset cannot hold {key!r}, which is a {space}: leave that sensor out")
    return {"dtype": np.dtype(space.dtype).name, "shape": tuple(space.shape or ()) or (1,), "names": None}


def _values(name: str, info: DatasetInfo, episode: Episode) -> np.ndarray:
    """Return the values [T, ...] of a feature: those that were known before each action, and what came of it."""
    steps = episode.num_steps
    for key, kept in episode.observations.items():
        if _name(key, info) == name:
            values = kept[:steps]
            return values.reshape(steps, -1) if values.ndim == 1 else metres(values, info.depth_range.get(key))
    columns = {
        STATE: np.column_stack((episode.position, episode.heading, episode.pitch)),
        "action": episode.actions,
        "next.reward": episode.rewards,
        "next.terminated": episode.terminated,
        "next.done": episode.terminated | episode.truncated,
        "goal.position": episode.goal,
        "goal.distance": episode.distance,
    }
    return columns[name][:steps].reshape(steps, -1)


def metres(values: np.ndarray, span: tuple[float, float] | None) -> np.ndarray:
    """Return images; of depth in metres, if ``span`` has the metres that 0 and 1 stand for."""
    return values if span is None else np.float32(span[0]) + values * np.float32(span[1] - span[0])


def instruction(episode: Episode, task: str) -> str:
    """Return what the agent is asked to do, in words."""
    if episode.category:
        category = episode.category.replace("_", " ")
        article = "an" if category[0].lower() in "aeiou" else "a"
        return f"Find {article} {category} and stop next to it."
    goal, start = episode.goal[0].astype(np.float64), episode.position[0].astype(np.float64)
    if np.isfinite(goal).all() and math.isfinite(episode.start_distance):
        offset = goal - start
        # Heading 0 looks along -z, and left is positive.
        angle = math.atan2(-offset[0], -offset[2]) - float(episode.heading[0])
        degrees = round(math.degrees(math.remainder(angle, 2 * math.pi)) / 5) * 5
        return f"Go to the point {math.hypot(offset[0], offset[2]):.1f} m away, {_side(degrees)}, and stop there."
    return f"Carry out the task {task}."


def _side(angle: int) -> str:
    """Say where something is, ``angle`` degrees to the left of straight ahead."""
    if abs(angle) <= 5:
        return "straight ahead"
    if abs(angle) >= 175:
        return "behind you"
    return f"{abs(angle)} degrees to the {'left' if angle > 0 else 'right'}"
