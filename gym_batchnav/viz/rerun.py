"""Recordings of episodes for the viewer of rerun (extra ``[rerun]``): of a running batch, or of stored episodes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gym_batchnav.env.arguments import indices_of
from gym_batchnav.env.batch import batch_of
from gym_batchnav.env.step import Move
from gym_batchnav.geometry import Camera, camera_to_world
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.numbers import check_counts
from gym_batchnav.system.storage import check_destination, replace_path
from gym_batchnav.viz.overviews import overlook
from gym_batchnav.viz.views import AgentViews
from gym_batchnav.viz.window.models import navmesh_triangles, scene_model
from gym_batchnav.worlds.api import STEP_SECONDS

IMAGES = ("rgb", "depth", "semantic")  # the sensors whose images are shown
# Paths of curves below an episode.
ACTION = "action"
REWARD = "reward/step"
RETURN = "reward/return"
MEASURES = "measures"  # those of every step
ENDS = "ends"  # those of the end, at the last step
_WORLD = "world"
_CAMERA = f"{_WORLD}/camera"
_GOAL = (225, 161, 41)
_PATH = (166, 17, 5)
_FLOOR = (120, 160, 150)
_MARK = 0.2  # metres; radius of the goal's ball
_LINE = 0.03  # metres; radius of the path
_FRUSTUM = 0.4  # metres from the eye to the picture that it sees
_HIGH = 0.05  # metres above the floor at which the path is drawn
_MAX_CLASS = 2**16  # semantic ids are shown modulo this number
_MAX_TABS = 32  # episodes with a tab of views; the others are in the list of entities


def import_rerun() -> Any:
    """Return the module of rerun; MissingExtraError unless it is installed."""
    with needs_extra("rerun", "a rerun recording"):
        import rerun
    return rerun


def write_episode(
    path: Path,
    *,
    name: str,
    camera: Camera | None,
    step_seconds: float,
    poses: np.ndarray,
    positions: np.ndarray,
    goals: np.ndarray,
    images: Mapping[str, tuple[str, np.ndarray]],
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    about: Mapping[str, str],
    recording_id: str | None = None,
) -> None:
    """Write a file, which ends in ``.rrd``, with an episode of F frames and the views that show it.

    Poses [F, 4, 4] are those of ``camera_to_world``, of a camera that is None if it is not a pinhole. Positions of the
    agent and goals are [F, 3], metres. Images are by key of the observation, such as ``"front/depth"``: the sensor (see
    ``IMAGES``), and uint8 [F, H, W, 3], float32 metres [F, H, W, 1] or integers [F, H, W, 1]. Curves are by path, such
    as ``REWARD``: steps [M] int and values [M] or [M, D]. Viewers tell recordings apart by their id, which is random
    unless it is given.

    Raises:
        MissingExtraError: The extra ``[rerun]`` is not installed.
    """
    bounds = np.stack([positions.min(axis=0), positions.max(axis=0)])
    plotted = [curve for curve in curves if not curve.startswith((ACTION, ENDS))]
    stream = _open_stream(path, name, recording_id)
    try:
        log = _EpisodeLog(stream, "", step_seconds, camera)
        for step, (pose, goal) in enumerate(zip(poses, goals, strict=True)):
            log.frame(step, pose, goal, {key: (sensor, frames[step]) for key, (sensor, frames) in images.items()})
        for curve, (steps, values) in curves.items():
            for step, value in zip(steps.tolist(), values, strict=True):
                log.plot(curve, step, value)
        log.end(positions, about)
        shown = [_image_path(key, camera is not None) for key in images]
        _send_blueprint(stream, [_views("", shown, plotted, bounds)])
        stream.flush()
    finally:
        stream.disconnect()


class _EpisodeLog:
    """Writes one episode to a stream of rerun, which stores it in the background.

    Its entities are below a path such as ``"episodes/0003"``; ``""`` if it has the recording for itself. Images with
    the plain name of a sensor are those of the camera, which is None if it is not a pinhole.
    """

    def __init__(self, stream: Any, root: str, step_seconds: float, camera: Camera | None) -> None:
        self._rerun = import_rerun()
        self._stream = stream
        self._root = root
        self._step_seconds = step_seconds
        self._has_camera = camera is not None
        self._log(_WORLD, self._rerun.ViewCoordinates.RIGHT_HAND_Y_UP)
        if camera is not None:
            pinhole = self._rerun.Pinhole(
                focal_length=camera.width / (2 * camera.tan_half_width), width=camera.width, height=camera.height,
                camera_xyz=self._rerun.ViewCoordinates.RUB, image_plane_distance=_FRUSTUM,
            )  # fmt: skip
            self._log(_CAMERA, pinhole)

    def floor(self, vertices: np.ndarray, triangles: np.ndarray) -> None:
        """Draw a navmesh: vertices [V, 3] in metres, triangles [T, 3] int."""
        mesh = self._rerun.Mesh3D(vertex_positions=vertices, triangle_indices=triangles, albedo_factor=_FLOOR)
        self._log(f"{_WORLD}/floor", mesh)

    def frame(
        self, step: int, pose: np.ndarray, goal: np.ndarray, images: Mapping[str, tuple[str, np.ndarray]]
    ) -> None:
        """Write the camera's pose [4, 4], the goal [3] and images [H, W, C] after ``step`` actions."""
        rerun = self._rerun
        self._log(_CAMERA, rerun.Transform3D(translation=pose[:3, 3], mat3x3=pose[:3, :3]), step)
        self._log(f"{_WORLD}/goal", rerun.Points3D([goal], radii=_MARK, colors=[_GOAL]), step)
        for key, (sensor, image) in images.items():
            if sensor == "rgb":
                shown = rerun.Image(image, color_model=rerun.ColorModel.RGB)
            elif sensor == "depth":
                shown = rerun.DepthImage(image[..., 0], meter=1.0)
            else:
                shown = rerun.SegmentationImage((image[..., 0] % _MAX_CLASS).astype(np.uint16))
            self._log(_image_path(key, self._has_camera), shown, step)

    def plot(self, path: str, step: int, value: Any) -> None:
        """Add a number, or numbers [D], to a curve."""
        self._log(path, self._rerun.Scalars(np.ravel(value).astype(np.float64)), step)

    def end(self, path: np.ndarray, about: Mapping[str, str]) -> None:
        """Draw the path [F, 3] in metres that was walked, and write a table about the episode."""
        if len(path) > 1:
            raised = path + np.array([0, _HIGH, 0], np.float32)
            self._log(f"{_WORLD}/path", self._rerun.LineStrips3D([raised], radii=_LINE, colors=[_PATH]))
        rows = "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in about.items())
        text = f"| | |\n|---|---|\n{rows}\n"
        self._log("about", self._rerun.TextDocument(text, media_type=self._rerun.MediaType.MARKDOWN))

    def _log(self, path: str, value: Any, step: int | None = None) -> None:
        """Write an entity at a step, or for all of time."""
        if step is not None:
            self._stream.set_time("step", sequence=step)
            self._stream.set_time("time", duration=step * self._step_seconds)
        self._stream.log(_joined(self._root, path), value, static=step is None, strict=True)


@dataclass(slots=True)
class _Track:
    log: _EpisodeLog
    about: dict[str, str]
    path: list[np.ndarray] = field(default_factory=list)
    total: float = 0.0
    state: str = "not ended"


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
        self._views = AgentViews(
            self._batch, sensors, size, len(indices), normalize_depth=False, depth_miss="zero", min_depth=0.0
        )
        self._tracks: dict[int, _Track] = {}
        self._tabs: list[tuple[str, str, np.ndarray]] = []  # path, path of the scene, bounds
        self._scenes: dict[str, str] = {}
        self._aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        self._stream: Any = _open_stream(self._aside, path.stem)
        self._batch.stepper.listeners.append(self)

    def __enter__(self) -> EpisodeRecorder:
        """Return the recorder."""
        return self

    def __exit__(self, *error: object) -> None:
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
                images = [_image_path(sensor, self._views.camera.lens is None) for sensor in self._sensors]
                curves = (REWARD, *(f"{MEASURES}/{name}" for name in self._batch.components.step_measures))
                tabs = [_views(root, images, curves, bounds, scene) for root, scene, bounds in self._tabs]
                _send_blueprint(stream, tabs)
            stream.flush()
            stream.disconnect()
            replace_path(self._aside, self.path)
        except BaseException:
            stream.disconnect()
            self._aside.unlink(missing_ok=True)
            raise
        finally:
            self._stream = None
            self._views.close()

    def placed(self, indices: np.ndarray) -> None:
        """Begin the episodes of agents ``indices`` [M]; the batch calls this."""
        begun = []
        worlds = self._batch.worlds
        takes_part = self._batch.episodes.valid if worlds is None else self._batch.episodes.valid & worlds.took_part()
        for index in np.intersect1d(self._indices, indices).tolist():
            if index in self._tracks:
                self._end(index)
            if self.num_episodes < self._max_episodes and takes_part[index]:
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
            track.log.plot(ACTION, step - 1, move.actions[index])
            track.log.plot(REWARD, step, float(move.reward[index]))
            track.log.plot(RETURN, step, track.total)
            for name in self._batch.components.step_measures:
                track.log.plot(f"{MEASURES}/{name}", step, float(move.measures[name][index]))
        self._note(moving)
        for index in list(self._tracks):  # also agents that ended earlier and have waited for others of their world
            if move.done[index]:
                track = self._tracks[index]
                track.state = "ended"
                for name in self._batch.components.measures:
                    track.about[name] = f"{float(move.measures[name][index]):.4g}"
                    track.log.plot(f"{ENDS}/{name}", len(track.path) - 1, float(move.measures[name][index]))
                self._end(index)

    def _begin(self, index: int) -> None:
        batch = self._batch
        root = f"episodes/{self.num_episodes:04d}"
        camera = self._views.camera if self._views.camera.lens is None else None
        log = _EpisodeLog(self._stream, root, self._step_seconds, camera)
        name = batch.scene_name(index)
        navmesh = batch.navmesh_of(index)
        if self._draws_scene and name not in self._scenes:
            self._scenes[name] = self._add_scene(index)
        if not self._draws_scene:
            log.floor(*navmesh_triangles(navmesh))
        if len(self._tabs) < _MAX_TABS:
            self._tabs.append((root, self._scenes.get(name, ""), navmesh.floor_bounds))
        about = {"scene": name, "episode": batch.episode_name(index), "environment": f"{index}"}
        self._tracks[index] = _Track(log, about)
        self.num_episodes += 1

    def _add_scene(self, index: int) -> str:
        """Write the textured surface of an agent's scene, without its ceilings; return its path."""
        rerun = import_rerun()
        path = f"scenes/{len(self._scenes):04d}"
        scene = self._batch.library.scene(int(self._batch.agents.slot[index]))
        data, _ = scene_model(scene, self._batch.navmesh_of(index))
        self._stream.log(path, rerun.ViewCoordinates.RIGHT_HAND_Y_UP, static=True, strict=True)
        if data is not None:
            mesh = rerun.Asset3D(contents=data, media_type=rerun.MediaType.GLB)
            self._stream.log(f"{path}/surface", mesh, static=True, strict=True)
        return path

    def _note(self, indices: list[int]) -> None:
        """Write the present poses, goals and pictures of some agents."""
        if not indices:
            return
        rows = np.array(indices)
        batch = self._batch
        poses = camera_to_world(batch.cameras.views(batch.agents, rows))
        pictures = self._views.images(rows)
        for place, index in enumerate(indices):
            track = self._tracks[index]
            images = {sensor: (sensor, one[place]) for sensor, one in pictures.items()}
            track.log.frame(len(track.path), poses[place], batch.episodes.goal[index], images)
            track.path.append(batch.agents.position[index].copy())

    def _end(self, index: int) -> None:
        track = self._tracks.pop(index)
        about = {**track.about, "steps": f"{len(track.path) - 1}", "return": f"{track.total:.4g}", "state": track.state}
        track.log.end(np.array(track.path), about)


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
    task's measures over time, below one entity for each episode. Episodes begin with the next reset or autoreset, and
    with ``set_pose`` and ``set_state``. The file appears when the recorder is closed.

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
    if path.suffix != ".rrd":
        raise ValueError(f"path='{path}': pass a name that ends in .rrd")
    check_destination(path)
    check_counts(size=size, max_episodes=max_episodes)
    wanted = np.unique(indices_of(indices, batch.num_envs))
    if not wanted.size:
        raise ValueError(f"indices={indices!r}: pass at least one environment")
    wrong = [one for one in sensors if one not in IMAGES]
    if isinstance(sensors, str) or wrong:
        raise ValueError(f"sensors={sensors!r}: pass a tuple with any of {', '.join(IMAGES)}")
    import_rerun()
    return EpisodeRecorder(path, env, wanted, tuple(sensors), size, max_episodes, scene)


def _open_stream(path: Path, name: str, recording_id: str | None = None) -> Any:
    """Return a new stream that is written to a file; end it with ``disconnect``."""
    number = recording_id or secrets.token_hex(16)
    stream = import_rerun().RecordingStream("gym_batchnav", recording_id=number, send_properties=False)
    stream.save(path)
    stream.send_recording_name(name)
    return stream


def _views(root: str, images: Sequence[str], curves: Sequence[str], bounds: np.ndarray, scene: str = "") -> Any:
    """Return the views of an episode: the scene, the images, curves and the table.

    Paths of images and curves are below that of the episode, and the curves of one folder share a view. ``bounds``
    [2, 3], metres, are seen at first from above; ``scene`` is the path of a scene elsewhere, "" for none.
    """
    from rerun import blueprint

    def place(path: str) -> str:
        return f"/{_joined(root, path)}"

    contents = ["$origin/**", *([f"/{scene}/**"] if scene else [])]
    pictures = [blueprint.Spatial2DView(origin=place(path), name=path.rpartition("/")[2]) for path in images]
    groups = list(dict.fromkeys(path.partition("/")[0] for path in curves))
    plots = [blueprint.TimeSeriesView(origin=place(group), name=group) for group in groups]
    position, target = overlook(bounds)
    eye = blueprint.EyeControls3D(position=position, look_target=target, eye_up=(0, 1, 0))
    return blueprint.Horizontal(
        blueprint.Spatial3DView(origin=place(_WORLD), contents=contents, name="world", eye_controls=eye),
        *([blueprint.Vertical(*pictures)] if pictures else []),
        blueprint.Vertical(*plots, blueprint.TextDocumentView(origin=place("about"), name="about")),
        name=root or "episode",
        column_shares=[3, 1, 2] if pictures else [3, 2],
    )


def _send_blueprint(stream: Any, episodes: Sequence[Any]) -> None:
    """Let a recording show the views of episodes, in tabs if there are several."""
    from rerun import blueprint

    shown = blueprint.Blueprint(
        episodes[0] if len(episodes) == 1 else blueprint.Tabs(*episodes),
        blueprint.TimePanel(timeline="step"),
        blueprint.SelectionPanel(expanded=False),
        blueprint.BlueprintPanel(expanded=False),
    )
    stream.send_blueprint(shown, make_active=True, make_default=True)


def _image_path(key: str, has_camera: bool) -> str:
    """Return the path of an image below its episode; those of the camera are drawn in the 3-D view, too."""
    return f"{_CAMERA}/{key}" if has_camera and key in IMAGES else f"images/{key}"


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
