"""What a recording shows of an episode: a tree of entities with their values over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.geometry import Camera
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.viz.viewpoints import overlook

APPLICATION = "gym_batchnav"
STEP = "step"
TIME = "time"
IMAGES = ("rgb", "depth", "semantic")  # the sensors whose images are shown
WORLD = "world"
CAMERA = f"{WORLD}/camera"
REWARD = "reward/step"
RETURN = "reward/return"
ACTION = "action"
MEASURES = "measures"  # those of every step
ENDS = "ends"  # those of the end, at the last step
SENSORS = "sensors"  # small observations that are no images
MAX_VALUES = 64  # of a sensor that is no image, to be drawn as curves
_GOAL = (225, 161, 41)
_PATH = (166, 17, 5)
_FLOOR = (120, 160, 150)
_MARK = 0.2  # metres; radius of the goal's ball
_LINE = 0.03  # metres; radius of the path
_FRUSTUM = 0.4  # metres from the eye to the picture that it sees
_HIGH = 0.05  # metres above the floor at which the path is drawn
_MAX_CLASS = 2**16  # semantic ids are shown modulo this number


def import_rerun() -> Any:
    """Return the module of rerun.

    Raises:
        MissingExtraError: The extra ``[rerun]`` is not installed.
    """
    with needs_extra("rerun", "a rerun recording"):
        import rerun
    return rerun


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """F consecutive frames of an episode.

    Attributes:
        steps: [F] int, the number of actions before each frame.
        poses: [F, 4, 4] float32, camera to world, in OpenGL's convention; see ``camera_to_world``.
        goals: [F, 3] float32, metres.
        images: By key of the observation, such as ``"rgb"`` or ``"front/depth"``: what it shows (see ``IMAGES``), and
            uint8 [F, H, W, 3], float32 metres [F, H, W, 1] or integers [F, H, W, 1].
        curves: By path, the steps [M] int and values [M] or [M, D] of numbers over time.
    """

    steps: np.ndarray
    poses: np.ndarray
    goals: np.ndarray
    images: Mapping[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)


class EpisodeTree:
    """Writes one episode to a stream of rerun.

    Args:
        stream: The ``rerun.RecordingStream``.
        root: Path of the episode's entities, such as ``"episodes/0003"``; ``""`` if it has the recording for itself.
        step_seconds: Duration of a step.
        camera: The camera of the poses; None if it is no pinhole. Images with the plain name of a sensor are its.
    """

    def __init__(self, stream: Any, root: str, step_seconds: float, camera: Camera | None) -> None:
        self._rerun = import_rerun()
        self._stream = stream
        self._root = root
        self._step_seconds = step_seconds
        self._has_camera = camera is not None
        self._fixed(WORLD, self._rerun.ViewCoordinates.RIGHT_HAND_Y_UP)
        if camera is not None:
            focal = camera.width / (2 * camera.tan_half_width)
            self._fixed(
                CAMERA,
                self._rerun.Pinhole(
                    focal_length=focal, width=camera.width, height=camera.height,
                    camera_xyz=self._rerun.ViewCoordinates.RUB, image_plane_distance=_FRUSTUM,
                ),
            )  # fmt: skip

    def add_floor(self, vertices: np.ndarray, triangles: np.ndarray) -> None:
        """Draw a navmesh: vertices [V, 3] in metres, triangles [T, 3] int."""
        self._fixed(
            f"{WORLD}/floor",
            self._rerun.Mesh3D(vertex_positions=vertices, triangle_indices=triangles, albedo_factor=_FLOOR),
        )

    def add(self, frames: Frames) -> None:
        """Write frames, which follow those that were written before."""
        rerun = self._rerun
        self._send(
            CAMERA, frames.steps,
            rerun.Transform3D.columns(translation=frames.poses[:, :3, 3], mat3x3=frames.poses[:, :3, :3]),
        )  # fmt: skip
        self._send(
            f"{WORLD}/goal", frames.steps,
            rerun.Points3D.columns(
                positions=frames.goals, radii=np.full(len(frames.steps), _MARK, np.float32),
                colors=np.tile(np.array([_GOAL], np.uint8), (len(frames.steps), 1)),
            ),
        )  # fmt: skip
        for key, (kind, images) in frames.images.items():
            self._send(image_path(key, self._has_camera), frames.steps, self._image_columns(kind, images))
        for path, (steps, values) in frames.curves.items():
            rows = np.asarray(values, np.float64).reshape(len(steps), -1)
            columns = rerun.Scalars.columns(scalars=rows.ravel())
            self._send(path, steps, columns.partition(np.full(len(steps), rows.shape[1])))

    def end(self, path: np.ndarray, about: Mapping[str, str]) -> None:
        """Draw the path [F, 3] in metres that was walked, and write a table about the episode."""
        if len(path) > 1:
            raised = path + np.array([0, _HIGH, 0], np.float32)
            self._fixed(f"{WORLD}/path", self._rerun.LineStrips3D([raised], radii=_LINE, colors=[_PATH]))
        rows = "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in about.items())
        text = f"| | |\n|---|---|\n{rows}\n"
        self._fixed("about", self._rerun.TextDocument(text, media_type=self._rerun.MediaType.MARKDOWN))

    def _image_columns(self, kind: str, images: np.ndarray) -> Any:
        """Return the columns of images [F, H, W, C]."""
        rerun = self._rerun
        count, height, width = images.shape[:3]
        if kind == "semantic":
            images = (images % _MAX_CLASS).astype(np.uint16)
        types = {
            "rgb": (rerun.Image, rerun.ChannelDatatype.U8, {"color_model": rerun.ColorModel.RGB}),
            "depth": (rerun.DepthImage, rerun.ChannelDatatype.F32, {}),
            "semantic": (rerun.SegmentationImage, rerun.ChannelDatatype.U16, {}),
        }
        archetype, datatype, options = types[kind]
        layout = rerun.components.ImageFormat(width=width, height=height, channel_datatype=datatype, **options)
        data = np.ascontiguousarray(images).reshape(count, -1).view(np.uint8)
        extra = {"meter": np.ones(count, np.float32)} if kind == "depth" else {}
        return archetype.columns(buffer=data, format=[layout] * count, **extra)

    def _send(self, path: str, steps: np.ndarray, columns: Any) -> None:
        """Write columns of an entity, one row for each step."""
        rerun = self._rerun
        times = [
            rerun.TimeColumn(STEP, sequence=steps),
            rerun.TimeColumn(TIME, duration=np.asarray(steps, np.float64) * self._step_seconds),
        ]
        self._stream.send_columns(joined(self._root, path), times, columns, strict=True)

    def _fixed(self, path: str, value: Any) -> None:
        """Write what does not change over time."""
        self._stream.log(joined(self._root, path), value, static=True, strict=True)


def image_path(key: str, has_camera: bool) -> str:
    """Return the path of an image below its episode; those of the camera are drawn in the 3-D view, too."""
    return f"{CAMERA}/{key}" if has_camera and key in IMAGES else f"images/{key}"


def joined(*parts: str) -> str:
    """Return the path of an entity from its parts, of which some may be empty."""
    return "/".join(part for part in parts if part)


def views_of(
    root: str, images: Sequence[str], curves: Sequence[str], bounds: np.ndarray, scene: str = ""
) -> Any:  # fmt: skip
    """Return the views of an episode: the scene, the images, curves and the table.

    Args:
        root: Path of the episode.
        images: Paths of its images, below ``root``.
        curves: Paths of its curves, below ``root``; those of one folder share a view.
        bounds: [2, 3], metres, what is seen at first from above.
        scene: Path of a scene outside ``root``; "" for none.
    """
    import_rerun()
    from rerun import blueprint

    def place(path: str) -> str:
        return f"/{joined(root, path)}"

    contents = ["$origin/**", *([f"/{scene}/**"] if scene else [])]
    pictures = [blueprint.Spatial2DView(origin=place(path), name=path.rpartition("/")[2]) for path in images]
    groups = list(dict.fromkeys(path.partition("/")[0] for path in curves))
    plots = [blueprint.TimeSeriesView(origin=place(group), name=group) for group in groups]
    position, target = overlook(bounds)
    eye = blueprint.EyeControls3D(position=position, look_target=target, eye_up=(0, 1, 0))
    return blueprint.Horizontal(
        blueprint.Spatial3DView(origin=place(WORLD), contents=contents, name="world", eye_controls=eye),
        *([blueprint.Vertical(*pictures)] if pictures else []),
        blueprint.Vertical(*plots, blueprint.TextDocumentView(origin=place("about"), name="about")),
        name=root or "episode",
        column_shares=[3, 1, 2] if pictures else [3, 2],
    )


def blueprint_of(*episodes: Any) -> Any:
    """Return a blueprint with the views of episodes, in tabs if there are several."""
    import_rerun()
    from rerun import blueprint

    panels = (
        blueprint.TimePanel(timeline=STEP), blueprint.SelectionPanel(expanded=False),
        blueprint.BlueprintPanel(expanded=False),
    )  # fmt: skip
    return blueprint.Blueprint(episodes[0] if len(episodes) == 1 else blueprint.Tabs(*episodes), *panels)


def open_stream(path: Path, recording: str, name: str, blueprint: Any = None) -> Any:
    """Return a new stream that is written to a file; end it with ``disconnect``.

    Args:
        path: The file.
        recording: Id of the recording, by which viewers tell recordings apart.
        name: Its name for people.
        blueprint: How it is shown; it may also be sent later.
    """
    rerun = import_rerun()
    stream = rerun.RecordingStream(APPLICATION, recording_id=recording, send_properties=False)
    stream.save(path, default_blueprint=blueprint)
    stream.send_recording_name(name)
    return stream


def _cell(text: str) -> str:
    """Return a text as a cell of a table in Markdown."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
