"""Recordings that rerun's viewer shows, one for each episode."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.collect.dataset import DatasetInfo, Episode, make_shard
from gym_batchnav.collect.export.lerobot import metres
from gym_batchnav.geometry import Camera, camera_to_world, camera_views
from gym_batchnav.viz.rerun import ACTION, ENDS, IMAGES, MEASURES, RETURN, REWARD, import_rerun, write_episode

SENSORS = "sensors"  # path of small observations that are not images
MAX_VALUES = 64  # of a sensor that is not an image, to be drawn as curves
_CAMERA = ("width", "height", "hfov_deg", "eye_height", "offset", "yaw_deg", "pitch_deg", "roll_deg")


def write(folder: Path, info: DatasetInfo, episodes: Iterator[Episode]) -> Path:
    """Write recordings, each named after its scene and number, and return their folder.

    Raises:
        ValueError: A sensor has nothing that the viewer shows.
        MissingExtraError: The extra ``[rerun]`` is not installed.
    """
    import_rerun()
    for key, space in info.observation_space.items():
        kind = info.images.get(key)
        fits = kind in IMAGES if kind else math.prod(space.shape or ()) <= MAX_VALUES
        if not fits:
            raise ValueError(f"a rerun recording cannot show the sensor {key!r}: leave it out of the collection")
    folder.mkdir()
    camera = camera_of(info)
    for episode in episodes:
        views = camera_views(camera or Camera(), episode.position, episode.heading, episode.pitch)
        seen = episode.observations
        write_episode(
            folder / f"{make_shard(info.key, episode.scene, episode.number, 1).name}.rrd",
            name=f"{episode.scene} {episode.number}",
            camera=camera,
            step_seconds=info.step_seconds,
            poses=camera_to_world(views),
            positions=episode.position,
            goals=episode.goal,
            images={key: (kind, metres(seen[key], info.depth_range.get(key))) for key, kind in info.images.items()},
            curves=_curves(info, episode),
            about=_about(info, episode),
            recording_id=hashlib.sha256(f"{info.key} {episode.scene} {episode.number}".encode()).hexdigest()[:32],
        )
    return folder


def camera_of(info: DatasetInfo) -> Camera | None:
    """Return the pinhole camera of a collection; None if it has several cameras, another lens or jitter.

    The episodes do not say where a camera with jitter was.
    """
    values = info.card.get("settings", {}).get("camera")
    if not isinstance(values, Mapping) or values.get("type") != "Camera":
        return None
    if values.get("lens") is not None or values.get("jitter") is not None:
        return None
    try:
        given: dict[str, Any] = {name: values[name] for name in _CAMERA}
        given |= {"width": int(given["width"]), "height": int(given["height"]), "offset": tuple(given["offset"])}
        return Camera(**given)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"the dataset's description has an invalid camera ({error}): copy the dataset again"
        ) from error


def _curves(info: DatasetInfo, episode: Episode) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the curves of an episode by path: frames and values."""
    frames = np.arange(episode.num_steps + 1)
    curves = {
        REWARD: (frames[1:], episode.rewards),
        RETURN: (frames[1:], np.cumsum(episode.rewards)),
        f"{MEASURES}/distance_to_goal": (frames, episode.distance),
        ACTION: (frames[:-1], episode.actions),
    }
    for key, values in episode.observations.items():
        if key not in info.images:
            curves[f"{SENSORS}/{key}"] = (frames, values)
    for name, value in episode.measures.items():
        curves[f"{ENDS}/{name}"] = (frames[-1:], np.array([value], np.float64))
    return curves


def _about(info: DatasetInfo, episode: Episode) -> dict[str, str]:
    facts = {
        "task": info.task,
        "policy": info.policy,
        "scene": episode.scene,
        "episode": episode.id,
        "goal": episode.category or "a point",
        "shortest path": f"{episode.start_distance:.2f} m",
        "steps": f"{episode.num_steps}",
        "return": f"{float(episode.rewards.sum()):.4g}",
    }
    return facts | {name: f"{float(value):.4g}" for name, value in episode.measures.items()}
