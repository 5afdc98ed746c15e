"""Rrd: recordings for the viewer of rerun, one for each episode, made of shards of webdataset."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.collect.api import SHARDS, DatasetInfo, Episode, Format, Shard, ShardRecord, ShardWriter
from gym_batchnav.collect.webdataset import WebDataset, read_shard
from gym_batchnav.geometry import Camera, camera_to_world, camera_views
from gym_batchnav.system.storage import replace_path
from gym_batchnav.viz.rerun import ACTION, ENDS, IMAGES, MEASURES, RETURN, REWARD, import_rerun, write_episode
from gym_batchnav.viz.window.models import navmesh_triangles

SENSORS = "sensors"  # small observations that are not images
MAX_VALUES = 64  # of a sensor that is not an image, to be drawn as curves
RECORDINGS = "recordings"
_FLOOR = {"vertices.npy": np.dtype("<f4"), "triangles.npy": np.dtype("<i4")}  # arrays [M, 3] of the navmesh
_MAX_BYTES = 2**28  # of such a file
_DISTANCE = f"{MEASURES}/distance_to_goal"
_CAMERA = ("width", "height", "hfov_deg", "eye_height", "offset", "yaw_deg", "pitch_deg", "roll_deg")


class _ShardWriter:
    """Writes episodes as webdataset does, and the navmesh of their scene."""

    def __init__(self, writer: ShardWriter, folder: Path) -> None:
        self._writer = writer
        self._folder = folder

    def add(self, episode: Episode) -> None:
        """Write an episode, and with the first one the navmesh."""
        if episode.navmesh is not None and not (self._folder / "vertices.npy").exists():
            for (name, dtype), values in zip(_FLOOR.items(), navmesh_triangles(episode.navmesh), strict=True):
                np.save(self._folder / name, np.ascontiguousarray(values, dtype), allow_pickle=False)
        self._writer.add(episode)

    def close(self) -> None:
        """Complete the files."""
        self._writer.close()

    def abandon(self) -> None:
        """Close the files."""
        self._writer.abandon()


@dataclass(frozen=True, slots=True)
class Rrd(Format):
    """Recordings of rerun: ``recordings/SHARD/000003.rrd`` is an episode, with views that show it.

    The shards are those of webdataset, exact and the same in every run; rerun numbers what it writes at random.
    """

    name = "rrd"

    def options(self) -> dict[str, Any]:
        """Return the options: there are none."""
        return {}

    def check(self, info: DatasetInfo) -> None:
        """Check, before anything runs, that a dataset can be written.

        Raises:
            ValueError: A sensor has nothing that the viewer shows.
            MissingExtraError: The extra ``[rerun]`` is not installed.
        """
        import_rerun()
        WebDataset().check(info)
        for key, space in info.observation_space.spaces.items():
            kind = info.images.get(key)
            if kind not in IMAGES if kind else int(np.prod(space.shape or (), dtype=object)) > MAX_VALUES:
                raise ValueError(f"a rerun recording cannot show the sensor {key!r}: leave it out")

    def open_shard(self, folder: Path, info: DatasetInfo, shard: Shard) -> ShardWriter:
        """Begin a shard; see ``Format.open_shard``."""
        return _ShardWriter(WebDataset().open_shard(folder, info, shard), folder)

    def finish(self, root: Path, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
        """Make the recordings of shards that have none yet; see ``Format.finish``.

        Raises:
            ValueError: A shard is damaged.
        """
        recordings = root / RECORDINGS
        recordings.mkdir(exist_ok=True)
        names = {record.shard.name for record in shards}
        for path in recordings.iterdir():
            # Folders of shards that are gone, or left aside by a process that was killed; others keep their files.
            if path.name not in names and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
        for record in shards:
            folder = recordings / record.shard.name
            if folder.exists():
                continue
            aside = recordings / f".{record.shard.name}"
            aside.mkdir()
            source = root / SHARDS / record.shard.name
            floor = _read_floor(source, record)
            for episode in read_shard(source, info, record):
                _write(aside / f"{episode.number:06d}.rrd", info, episode, floor)
            replace_path(aside, folder)

    def verify(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> None:
        """Read all arrays; see ``Format.verify``."""
        WebDataset().verify(folder, info, record)
        _read_floor(folder, record)


def _write(path: Path, info: DatasetInfo, episode: Episode, floor: tuple[np.ndarray, np.ndarray] | None) -> None:
    """Write the recording of an episode."""
    camera = camera_of(info)
    views = camera_views(camera or Camera(), episode.position, episode.heading, episode.pitch)
    write_episode(
        path,
        name=f"{episode.scene} {episode.number}",
        camera=camera,
        step_seconds=info.step_seconds,
        poses=camera_to_world(views),
        positions=episode.position,
        goals=episode.goal,
        images={key: (kind, _shown(info, key, episode.observations[key])) for key, kind in info.images.items()},
        curves=_curves(info, episode),
        about=_about(info, episode),
        floor=floor,
        recording_id=hashlib.sha256(f"{info.key} {episode.scene} {episode.number}".encode()).hexdigest()[:32],
    )


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
        raise ValueError(f"the camera of the collection is no camera: {error}") from error


def _shown(info: DatasetInfo, key: str, images: np.ndarray) -> np.ndarray:
    """Return images as they are shown: depth in metres."""
    span = info.depth_range.get(key)
    if span is None:
        return images
    return np.float32(span[0]) + images * np.float32(span[1] - span[0])


def _curves(info: DatasetInfo, episode: Episode) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return what an episode has of numbers over time, by path."""
    frames = np.arange(episode.num_steps + 1)
    curves = {
        REWARD: (frames[1:], episode.rewards),
        RETURN: (frames[1:], np.cumsum(episode.rewards)),
        _DISTANCE: (frames, episode.distance),
        ACTION: (frames[:-1], episode.actions),
    }
    for key, values in episode.observations.items():
        if key not in info.images:
            curves[f"{SENSORS}/{key}"] = (frames, values)
    for name, value in episode.measures.items():
        curves[f"{ENDS}/{name}"] = (frames[-1:], np.array([value], np.float64))
    return curves


def _about(info: DatasetInfo, episode: Episode) -> dict[str, str]:
    """Return the facts about an episode."""
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


def _read_floor(folder: Path, record: ShardRecord) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the navmesh of a shard, which may come from strangers: vertices [V, 3], triangles [T, 3]; or None.

    Raises:
        ValueError: It is damaged.
    """
    if not any(name in record.files for name in _FLOOR):
        return None
    vertices, triangles = (_rows(folder / name, dtype) for name, dtype in _FLOOR.items())
    inside = not triangles.size or 0 <= triangles.min() <= triangles.max() < len(vertices)
    if not inside or not np.isfinite(vertices).all():
        raise ValueError(f"'{folder}' is damaged: its navmesh has vertices that are nowhere")
    return vertices, triangles


def _rows(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the array [M, 3] in a file.

    Raises:
        ValueError: There is none.
    """
    if not path.is_file() or path.stat().st_size > _MAX_BYTES:
        raise ValueError(f"'{path}' is missing or too large")
    try:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, is_fortran, found = np.lib.format.read_array_header_1_0(file, max_header_size=2**12)
            data = file.read()
    except Exception as error:  # of the tokenizer, too
        raise ValueError(f"'{path}' has no header of an array: {error}") from error
    if is_fortran or found != dtype or len(shape) != 2 or shape[1] != 3 or len(data) != 12 * shape[0]:
        raise ValueError(f"'{path}' is no array {dtype} [M, 3]")
    return np.frombuffer(data, dtype).reshape(shape)
