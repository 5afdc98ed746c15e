"""record: the episodes of a running batch as a recording for rerun's viewer."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.env.stepper import Move
from gym_batchnav.evaluation.loop import batch_of
from gym_batchnav.geometry import camera_to_world
from gym_batchnav.render.api import Target
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.system.storage import check_destination, replace_path
from gym_batchnav.viz.rrd.tree import (
    ACTION,
    ENDS,
    IMAGES,
    MEASURES,
    RETURN,
    REWARD,
    EpisodeTree,
    Frames,
    blueprint_of,
    image_path,
    import_rerun,
    open_stream,
    views_of,
)
from gym_batchnav.viz.window.models import navmesh_triangles, scene_model
from gym_batchnav.worlds.api import STEP_SECONDS

ENDING = ".rrd"
_CHUNK = 64  # frames that are written at once
_MAX_TABS = 32  # episodes with views of their own; the others are in the list of entities


@dataclass(slots=True)
class _Track:
    """An episode under way: its frames since the last ones that were written, and its path."""

    root: str
    tree: EpisodeTree
    about: dict[str, str]
    poses: list[np.ndarray] = field(default_factory=list)
    goals: list[np.ndarray] = field(default_factory=list)
    images: dict[str, list[np.ndarray]] = field(default_factory=dict)
    curves: dict[str, tuple[list[int], list[Any]]] = field(default_factory=dict)
    path: list[np.ndarray] = field(default_factory=list)
    total: float = 0.0
    state: str = "not ended"

    def plot(self, path: str, step: int, value: Any) -> None:
        """Add a value to a curve."""
        steps, values = self.curves.setdefault(path, ([], []))
        steps.append(step)
        values.append(value)


class EpisodeRecorder:
    """Records episodes of a running batch until it is closed; ``record`` makes it.

    Attributes:
        path: The file, which is there after ``close``.
        num_episodes: Number of episodes so far, unfinished ones included.
    """

    def __init__(
        self, path: Path, env: VectorEnv, indices: np.ndarray, sensors: tuple[str, ...], size: int, max_episodes: int,
        scene: bool,
    ) -> None:  # fmt: skip
        self.path = path
        self.num_episodes = 0
        self._batch = batch_of(env)
        self._indices = indices
        self._sensors = sensors
        self._max_episodes = max_episodes
        self._draws_scene = scene
        self._step_seconds = float(getattr(self._batch.actions, "time_step", STEP_SECONDS))
        camera = self._batch.cameras.camera
        scale = size / max(camera.width, camera.height)
        width, height = (max(1, round(scale * side)) for side in (camera.width, camera.height))
        self._camera = replace(
            camera, width=width, height=height, normalize_depth=False, depth_miss="zero", min_depth=0.0
        )
        self._target: Target | None = None
        self._tracks: dict[int, _Track] = {}
        self._tabs: list[tuple[str, str, np.ndarray]] = []  # path, path of the scene, bounds
        self._scenes: dict[str, str] = {}
        self._aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        self._stream: Any = open_stream(self._aside, secrets.token_hex(16), path.stem)
        self._batch.stepper.listeners.append(self)

    def __enter__(self) -> EpisodeRecorder:
        """Return the recorder."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it; what has been recorded is kept after an error, too."""
        self.close()

    def close(self) -> None:
        """Write the rest, also of unfinished episodes, and name the file. Idempotent; the batch goes on.

        Raises:
            OSError: The file cannot be written.
        """
        if self._stream is None:
            return
        if self in self._batch.stepper.listeners:
            self._batch.stepper.listeners.remove(self)
        stream = self._stream
        try:
            for index in list(self._tracks):
                self._end(index)
            if self._tabs:
                stream.send_blueprint(self._blueprint(), make_active=True, make_default=True)
            stream.flush()
            stream.disconnect()
            replace_path(self._aside, self.path)
        except BaseException:
            stream.disconnect()
            self._aside.unlink(missing_ok=True)
            raise
        finally:
            self._stream = None
            if self._target is not None:
                self._target.close()

    def placed(self, indices: np.ndarray) -> None:
        """Begin the episodes of agents ``indices`` [M]; the batch calls this."""
        begun = []
        for index in np.intersect1d(self._indices, indices).tolist():
            if index in self._tracks:
                self._end(index)
            if self.num_episodes < self._max_episodes and self._batch.episodes.valid[index]:
                self._begin(index)
                begun.append(index)
        self._note(begun)

    def moved(self, move: Move) -> None:
        """Record a step, and write the episodes that have ended; the batch calls this."""
        moving = [index for index in self._tracks if move.active[index]]
        for index in moving:
            track = self._tracks[index]
            step = len(track.path)  # of the frame to which the action leads
            track.total += float(move.reward[index])
            track.plot(ACTION, step - 1, np.asarray(move.actions[index], np.float64))
            track.plot(REWARD, step, float(move.reward[index]))
            track.plot(RETURN, step, track.total)
            for name in self._batch.components.step_measures:
                track.plot(f"{MEASURES}/{name}", step, float(move.measures[name][index]))
        self._note(moving)
        for index in moving:
            if move.done[index]:
                track = self._tracks[index]
                track.state = "ended"
                for name in self._batch.components.measures:
                    track.about[name] = f"{float(move.measures[name][index]):.4g}"
                    track.plot(f"{ENDS}/{name}", len(track.path) - 1, float(move.measures[name][index]))
                self._end(index)

    def _begin(self, index: int) -> None:
        """Begin the tree of an agent's episode."""
        batch = self._batch
        root = f"episodes/{self.num_episodes:04d}"
        camera = None if self._camera.lens is not None else self._camera
        tree = EpisodeTree(self._stream, root, self._step_seconds, camera)
        name = batch.scene_name(index)
        navmesh = batch.navmesh_of(index)
        if self._draws_scene and name not in self._scenes:
            self._scenes[name] = self._add_scene(index)
        if not self._draws_scene:
            tree.add_floor(*navmesh_triangles(navmesh))
        if len(self._tabs) < _MAX_TABS:
            self._tabs.append((root, self._scenes.get(name, ""), navmesh.floor_bounds))
        about = {"scene": name, "episode": batch.episode_name(index), "environment": f"{index}"}
        self._tracks[index] = _Track(root, tree, about)
        self.num_episodes += 1

    def _add_scene(self, index: int) -> str:
        """Write the textured surface of an agent's scene, without its ceilings; return its path."""
        rerun = import_rerun()
        path = f"scenes/{len(self._scenes):04d}"
        scene = self._batch.library.scene(int(self._batch.agents.slot[index]))
        data = scene_model(scene, self._batch.navmesh_of(index)).lower
        self._stream.log(path, rerun.ViewCoordinates.RIGHT_HAND_Y_UP, static=True, strict=True)
        if data is not None:
            mesh = rerun.Asset3D(contents=data, media_type=rerun.MediaType.GLB)
            self._stream.log(f"{path}/surface", mesh, static=True, strict=True)
        return path

    def _note(self, indices: list[int]) -> None:
        """Keep the present poses, goals and pictures of some agents, and write those of agents that have many."""
        if not indices:
            return
        rows = np.array(indices)
        batch = self._batch
        poses = camera_to_world(batch.cameras.views(batch.agents, rows))
        pictures = self._pictures(rows)
        for place, index in enumerate(indices):
            track = self._tracks[index]
            track.path.append(batch.agents.position[index].copy())
            track.poses.append(poses[place])
            track.goals.append(batch.episodes.goal[index].copy())
            for sensor, images in pictures.items():
                track.images.setdefault(sensor, []).append(images[place].copy())
            if len(track.poses) == _CHUNK:
                self._write(track)

    def _pictures(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return the views [M, H, W, C] of agents ``rows`` [M] by sensor, drawn to a target of their own."""
        if not self._sensors:
            return {}
        batch = self._batch
        if self._target is None:
            self._target = batch.renderer.target(self._camera, self._sensors, num_views=len(self._indices), buffers=1)
        views = batch.cameras.views(batch.agents, rows, self._camera)
        return self._target.render(batch.agents.slot[rows], views, batch.cameras.bodies(batch.agents, rows))

    def _write(self, track: _Track) -> None:
        """Write what an episode has of frames and curves, and forget it."""
        if track.poses:
            last = len(track.path)
            track.tree.add(
                Frames(
                    np.arange(last - len(track.poses), last),
                    np.stack(track.poses),
                    np.stack(track.goals),
                    {sensor: (sensor, np.stack(images)) for sensor, images in track.images.items()},
                    {path: (np.array(steps), np.array(values)) for path, (steps, values) in track.curves.items()},
                )
            )
        for kept in (track.poses, track.goals, track.images, track.curves):
            kept.clear()
        self._stream.flush()

    def _end(self, index: int) -> None:
        """Write what is left of an agent's episode."""
        track = self._tracks.pop(index)
        self._write(track)
        about = {**track.about, "steps": f"{len(track.path) - 1}", "return": f"{track.total:.4g}", "state": track.state}
        track.tree.end(np.array(track.path), about)

    def _blueprint(self) -> Any:
        """Return the views of all episodes, in tabs."""
        images = [image_path(sensor, self._camera.lens is None) for sensor in self._sensors]
        curves = (REWARD, *(f"{MEASURES}/{name}" for name in self._batch.components.step_measures))
        return blueprint_of(*(views_of(root, images, curves, bounds, scene) for root, scene, bounds in self._tabs))


def record(
    path: str | Path,
    env: VectorEnv,
    *,
    indices: Sequence[int] | np.ndarray = (0,),
    sensors: Sequence[str] = ("rgb", "depth"),
    size: int = 192,
    max_episodes: int = 100,
    scene: bool = True,
) -> EpisodeRecorder:
    """Record episodes of a batch, while a program steps it, for the viewer of rerun.

    ``with viz.record("run.rrd", envs): ...`` writes poses as transforms, paths, goals, pictures, rewards and the
    task's measures over time, below one entity for each episode. Episodes begin with the next reset or autoreset. The
    file appears when the recorder is closed.

    Args:
        path: The file, which ends in ``.rrd``; it is replaced.
        env: The batch, with or without wrappers.
        indices: [M], the environments to record.
        sensors: The pictures to record, whatever the agents' sensors: any of ``"rgb"``, ``"depth"`` (metres, 0 where
            nothing is hit) and ``"semantic"``.
        size: Pixels along the longer side of a picture.
        max_episodes: Number of episodes to record; later ones are left out.
        scene: Whether to write the textured surface of each scene once; otherwise each episode has the navmesh.

    Returns:
        The recorder. Close it before the batch, or use it in a ``with`` block.

    Raises:
        TypeError: ``env`` is not a batch of this package.
        ValueError: An argument is wrong.
        OSError: The folder of the file does not exist.
        MissingExtraError: The extra ``[rerun]`` is not installed.
    """
    batch = batch_of(env)
    path = Path(path)
    if path.suffix != ENDING:
        raise ValueError(f"path='{path}': pass a name that ends in {ENDING}")
    check_destination(path)
    check_counts(size=size, max_episodes=max_episodes)
    wanted = np.unique(np.asarray(indices, np.int64))
    if not wanted.size or wanted[0] < 0 or wanted[-1] >= batch.num_envs:
        raise ValueError(f"indices={indices!r}: pass numbers of environments, 0 to {batch.num_envs - 1}")
    wrong = [one for one in sensors if one not in IMAGES]
    if isinstance(sensors, str) or wrong:
        raise ValueError(f"sensors={sensors!r}: pass a tuple with any of {', '.join(IMAGES)}")
    import_rerun()
    return EpisodeRecorder(path, env, wanted, tuple(sensors), size, max_episodes, scene)
