"""CameraRig: the cameras that every agent carries, and the images that they record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.geometry import Camera
from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.render.api import SENSOR_FORMATS
from gym_batchnav.render.checks import check_opengl, needs_ray_table

CameraSpec = Camera | Mapping[str, Camera] | None
_FARTHEST = 1e6  # metres
ONLY = ""  # name of a camera that was passed without a name


class CameraSensor(NamedTuple):
    """A sensor of one camera, which records an image of an observation."""

    camera: str
    sensor: str


@dataclass(frozen=True)
class CameraGroup:
    """Cameras that differ only in their place on the agent, and can be drawn in one call.

    Attributes:
        names: C names of cameras.
        cameras: The cameras, in the same order, as they are drawn: where depth is to get noise, they write it in
            metres, unclipped, and 0 where nothing is hit.
        sensors: Sensors that each of them records.
        keys: Key in the observation for each camera and each sensor: C tuples.
    """

    names: tuple[str, ...]
    cameras: tuple[Camera, ...]
    sensors: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]


class CameraRig:
    """The cameras of an agent.

    Args:
        spec: One camera, cameras by name, or None for ``Camera()``.
        sensors: Names of sensors. ``"depth"`` is recorded by every camera, ``"front/depth"`` by the camera ``front``.
        noise: The noise of images, by ``"depth"`` for every camera or ``"front/depth"`` for one; None for none.

    Attributes:
        cameras: The cameras by name; the only one has the name ``ONLY`` if it was passed without one.
        noise: The noise of images, by key in the observation.
        recordings: By key in the observation: ``"depth"`` of a camera without a name, otherwise ``"front/depth"``.
        groups: The cameras that record anything, in groups.

    Raises:
        ValueError: A camera, a name or a sensor is wrong; the message names it.
    """

    def __init__(
        self,
        spec: CameraSpec = None,
        sensors: Sequence[str] = ("depth",),
        noise: Mapping[str, SensorNoise] | None = None,
    ) -> None:
        self.cameras = cameras_of(spec)
        self.recordings = _recordings(self.cameras, sensors)
        self.noise = _noise_by_key(self.recordings, {} if noise is None else noise)
        self.groups = self._groups()

    @property
    def first(self) -> Camera:
        """The first camera."""
        return next(iter(self.cameras.values()))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all images in an observation."""
        return tuple(self.recordings)

    @property
    def spaces(self) -> dict[str, Box]:
        """The space of each image of one agent, by key."""
        return {
            key: picture_spaces(self.cameras[camera], (sensor,))[sensor]
            for key, (camera, sensor) in self.recordings.items()
        }

    @property
    def has_jitter(self) -> bool:
        """Whether a camera's place changes from episode to episode."""
        return any(camera.jitter is not None for camera in self.cameras.values())

    @property
    def needs_embree(self) -> bool:
        """Whether a lens or a sensor is one that OpenGL cannot draw."""
        return any(needs_ray_table(group.cameras[0], group.sensors) for group in self.groups)

    def check_opengl(self) -> None:
        """Raise ValueError if OpenGL cannot draw what the cameras record."""
        for group in self.groups:
            check_opengl(group.cameras[0], group.sensors)

    def sensors_of(self, camera: str) -> tuple[str, ...]:
        """Return the sensors that a camera records."""
        return tuple(one.sensor for one in self.recordings.values() if one.camera == camera)

    def drawn(self, name: str) -> Camera:
        """Return a camera as it is drawn: with depth in metres, unclipped, if its depth is to get noise."""
        camera = self.cameras[name]
        if key_of(name, "depth") not in self.noise:
            return camera
        farthest = max(camera.max_depth, _FARTHEST)
        return replace(camera, min_depth=0.0, max_depth=farthest, normalize_depth=False, depth_miss="zero")

    def _groups(self) -> tuple[CameraGroup, ...]:
        """Return the cameras that record anything in groups that differ only in their place on the agent."""
        found: dict[tuple[Camera, tuple[str, ...]], list[str]] = {}
        for name in self.cameras:
            sensors = self.sensors_of(name)
            if sensors:
                drawn = self.drawn(name)
                alike = replace(
                    drawn, eye_height=0.0, offset=(0.0, 0.0), yaw_deg=0.0, pitch_deg=0.0, roll_deg=0.0, jitter=None
                )
                found.setdefault((alike, tuple(sorted(sensors))), []).append(name)
        return tuple(
            CameraGroup(
                names=tuple(names),
                cameras=tuple(map(self.drawn, names)),
                sensors=sensors,
                keys=tuple(tuple(key_of(name, sensor) for sensor in sensors) for name in names),
            )
            for (_, sensors), names in found.items()
        )


def key_of(camera: str, sensor: str) -> str:
    """Return the key in an observation of the image that a camera's sensor records."""
    return sensor if camera == ONLY else f"{camera}/{sensor}"


def cameras_of(spec: CameraSpec) -> dict[str, Camera]:
    """Return cameras by name.

    Raises:
        ValueError: A name or a camera is wrong.
    """
    if spec is None:
        return {ONLY: Camera()}
    if isinstance(spec, Camera):
        return {ONLY: spec}
    if not isinstance(spec, Mapping) or not spec:
        raise ValueError(f"camera={spec!r}: pass a Camera, or one or more Cameras by name")
    for name, camera in spec.items():
        # Dots are left to modules of torch, which cannot have them in their names.
        if not isinstance(name, str) or not name or set(name) & set("/."):
            raise ValueError(f"camera={{{name!r}: ...}}: name cameras by texts without '/' and '.', such as 'front'")
        if not isinstance(camera, Camera):
            raise ValueError(f"camera={{{name!r}: {camera!r}}}: pass a Camera")
    return dict(spec)


def picture_spaces(camera: Camera, sensors: Sequence[str]) -> dict[str, Box]:
    """Return the space of each image of one camera, by sensor."""
    encoding = camera.depth_encoding
    bounds: dict[str, tuple[float, float]] = {
        "depth": (encoding.low, encoding.high),
        "rgb": (0, 255),
        "semantic": (0, np.iinfo(np.int32).max),
        "normals": (-1, 1),
        "points": (-np.inf, np.inf),
    }
    spaces = {}
    for sensor in sensors:
        dtype, channels = SENSOR_FORMATS[sensor]
        low, high = bounds[sensor]
        spaces[sensor] = Box(low, high, (camera.height, camera.width, channels), dtype.type)
    return spaces


def _recordings(cameras: Mapping[str, Camera], sensors: Sequence[str]) -> dict[str, CameraSensor]:
    """Return the images of an observation by key."""
    found: dict[str, CameraSensor] = {}
    for text in sensors:
        camera, slash, sensor = text.rpartition("/")
        if sensor not in SENSOR_FORMATS:
            raise ValueError(
                f"sensors={tuple(sensors)!r}: {sensor!r} is not one of {', '.join(map(repr, SENSOR_FORMATS))}; others "
                "are objects, such as GPS() and Compass() of gym_batchnav.task.sensors"
            )
        if slash and (camera not in cameras or camera == ONLY):
            known = ", ".join(map(repr, filter(None, cameras))) or "none with a name: pass camera={'front': Camera()}"
            raise ValueError(f"sensors={tuple(sensors)!r}: there is no camera {camera!r}; the cameras are {known}")
        for name in [camera] if slash else cameras:
            key = key_of(name, sensor)
            if key in found:
                raise ValueError(f"sensors={tuple(sensors)!r}: {key!r} is listed twice; list each image once")
            found[key] = CameraSensor(name, sensor)
    return found


def keys_matching(keyword: str, text: object, keys: Collection[str]) -> list[str]:
    """Return the keys of an observation that a keyword's entry names: one key, or a sensor of all cameras.

    Raises:
        ValueError: There is no such key.
    """
    found = [key for key in keys if text in (key, key.rpartition("/")[2])]
    if not found:
        known = ", ".join(map(repr, keys)) or "none"
        raise ValueError(f"{keyword}={{{text!r}: ...}}: the agents have no such sensor; theirs are {known}")
    return found


def _noise_by_key(recordings: Mapping[str, CameraSensor], given: Mapping[str, SensorNoise]) -> dict[str, SensorNoise]:
    """Return the noise of images by key in the observation."""
    if not isinstance(given, Mapping):
        raise ValueError(f"sensor_noise={given!r}: pass a dict, such as {{'rgb': GaussianNoise(0.1)}}")
    found: dict[str, SensorNoise] = {}
    for text, noise in given.items():
        if isinstance(noise, type) or not hasattr(noise, "apply") or not hasattr(noise, "sensor"):
            raise ValueError(
                f"sensor_noise={{{text!r}: {noise!r}}}: pass an object such as GaussianNoise(0.1) for 'rgb' and "
                "RedwoodNoise() for 'depth'"
            )
        for key in keys_matching("sensor_noise", text, recordings):
            if noise.sensor != recordings[key].sensor:
                raise ValueError(f"sensor_noise={{{text!r}: {noise!r}}}: this is noise of {noise.sensor!r}")
            if key in found:
                raise ValueError(f"sensor_noise={given!r}: {key!r} has noise twice; name each image once")
            found[key] = noise
    return found
