"""CameraRig and AgentCameras: the cameras that every agent carries, and the drawing of their views."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.episodes.draws import step_uniform
from gym_batchnav.geometry import Camera, CameraPlaces, camera_views
from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.render.api import SENSOR_FORMATS, Renderer, check_opengl, make_renderer, needs_ray_table
from gym_batchnav.render.bodies import BodyViews
from gym_batchnav.render.target import Target
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.state import AgentState, copy_of, rows_of
from gym_batchnav.system.notices import warn_user
from gym_batchnav.worlds.views import WorldViews

if TYPE_CHECKING:
    from gym_batchnav.env.config import EnvConfig
    from gym_batchnav.env.simulator import Simulator

CameraSpec = Camera | Mapping[str, Camera] | None
_FARTHEST = 1e6  # metres
_SHOWN = 20  # categories in a warning
ONLY = ""  # name of a camera that was passed without a name
USUAL_BUFFERS = 2  # batches of images in a ring of the default size
PICTURE_VIEWS = 64  # rendered at a time by ``pictures``, which limits its memory
PICTURE_TARGETS = 4  # cameras of pictures, and sizes, whose targets are kept


class CameraSensor(NamedTuple):
    """A sensor of one camera, which records an image of an observation."""

    camera: str
    sensor: str


@dataclass(frozen=True)
class CameraGroup:
    """C cameras that differ only in their place on the agent, and can be drawn in one call."""

    names: tuple[str, ...]  # C
    cameras: tuple[Camera, ...]  # C, as they are drawn, see ``CameraRig.drawn``
    sensors: tuple[str, ...]  # that each of them records
    keys: tuple[tuple[str, ...], ...]  # in the observation, C tuples, one key per sensor


class CameraRig:
    """The cameras of an agent, their sensors and the noise of these, see ``EnvConfig``; ValueError for a wrong one."""

    def __init__(
        self,
        spec: CameraSpec = None,
        sensors: Sequence[str] = ("depth",),
        noise: Mapping[str, SensorNoise] | None = None,
    ) -> None:
        self.cameras = cameras_of(spec)  # by name; ``ONLY`` if it was passed without one
        # By key in the observation: "depth" of a camera without a name, otherwise "front/depth".
        self.recordings = _recordings(self.cameras, sensors)
        self.noise = _noise_by_key(self.recordings, {} if noise is None else noise)
        self.groups = self._groups()

    @property
    def first(self) -> Camera:
        """The first camera."""
        return next(iter(self.cameras.values()))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all images in an observation, such as ``"depth"`` or ``"front/depth"``."""
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
    def traces_rays(self) -> bool:
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
        """Return a camera as it is drawn: if depth is to get noise, in metres, unclipped, 0 where nothing is hit."""
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
    """Return cameras by name; ValueError for a wrong name or camera."""
    if spec is None:
        return {ONLY: Camera()}
    if isinstance(spec, Camera):
        return {ONLY: spec}
    if not isinstance(spec, Mapping) or not spec:
        raise ValueError(f"camera={spec!r}: pass a Camera, or one or more Cameras by name")
    for name, camera in spec.items():
        # Dots are left to modules of torch, which cannot have them in their names.
        if not isinstance(name, str) or not name or set(name) & set("/."):
            raise ValueError(
                f"camera={{{name!r}: ...}}: camera names must be strings without '/' and '.', such as 'front'"
            )
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
    """Return the images of an observation by key; a sensor without a camera is recorded by every one."""
    found: dict[str, CameraSensor] = {}
    for text in sensors:
        camera, slash, sensor = text.rpartition("/")
        if sensor not in SENSOR_FORMATS:
            remedy = "others are objects, such as GPS() and Compass() of gym_batchnav.task.sensors"
            if text and text in cameras:
                remedy = f"one image of this camera is {text + '/depth'!r}"
            known = ", ".join(map(repr, SENSOR_FORMATS))
            raise ValueError(f"sensors={tuple(sensors)!r}: {sensor!r} is not one of {known}; {remedy}")
        if slash and (camera not in cameras or camera == ONLY):
            known = ", ".join(map(repr, filter(None, cameras))) or "none with a name: pass camera={'front': Camera()}"
            raise ValueError(f"sensors={tuple(sensors)!r}: unknown camera {camera!r}; available: {known}")
        for name in [camera] if slash else cameras:
            key = key_of(name, sensor)
            if key in found:
                raise ValueError(f"sensors={tuple(sensors)!r}: {key!r} is listed twice; list each image once")
            found[key] = CameraSensor(name, sensor)
    return found


def keys_matching(keyword: str, text: object, keys: Collection[str]) -> list[str]:
    """Return the keys that an entry of a keyword names: one, or a sensor's in all cameras; ValueError for none."""
    found = [key for key in keys if text in (key, key.rpartition("/")[2])]
    if not found:
        known = ", ".join(map(repr, keys)) or "none"
        raise ValueError(f"{keyword}={{{text!r}: ...}}: unknown sensor; available: {known}")
    return found


def _noise_by_key(recordings: Mapping[str, CameraSensor], given: Mapping[str, SensorNoise]) -> dict[str, SensorNoise]:
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
                raise ValueError(
                    f"sensor_noise={{{text!r}: {noise!r}}}: this noise is for {noise.sensor!r}: name a sensor of that "
                    "kind"
                )
            if key in found:
                raise ValueError(f"sensor_noise={given!r}: {key!r} has noise twice; name each image once")
            found[key] = noise
    return found


class AgentCameras:
    """The cameras of N agents. The renderer and its targets are created on first use.

    Cameras that differ only in their place on the agent are drawn in one call, camera by camera, so that the images of
    each are contiguous.

    Blind agents, of which no camera records anything, need no renderer. One that another batch made is not closed here.
    """

    def __init__(self, config: EnvConfig, simulator: Simulator) -> None:
        self.device = config.obs_device
        self.rig = config.rig
        self.num_agents = config.num_envs
        self._library = simulator.library
        self._navmeshes = simulator.navmeshes  # which give the visible floor under an agent
        self._is_fresh = config.buffers is None and self.device == "cpu"
        self._buffers = config.num_buffers
        self._semantic_ids = SemanticIds.of(config.semantic_ids)
        worlds = simulator.worlds
        self._bodies = None if worlds is None else WorldViews(worlds, self._navmeshes, self._semantic_ids)
        self._episode_keys = simulator.episodes.key  # written in place
        self._keys_then = self._episode_keys.copy()  # of the last batch
        self._renderer_name = config.renderer_name
        self._renderer: Renderer | None = None if isinstance(config.renderer, str) else config.renderer
        self._owns_renderer = self._renderer is None
        self._targets: list[Target] = []  # one per group of cameras
        self._partial_targets: list[Target] = []
        self._picture_targets: dict[Camera, Target] = {}
        self._drawing = False
        self._begun: tuple[int, AgentState] | None = None  # the library's generation, and the agents at that time
        self._kept: dict[str, np.ndarray] | None = None  # the images of these poses, if no caller has them
        if worlds is None and any(one.sensor == "semantic" for one in self.rig.recordings.values()):
            self._warn_of_no_ids()

    @property
    def renderer(self) -> Renderer:
        """The renderer of the library's scenes."""
        if self._renderer is None:
            shapes = None if self._bodies is None else self._bodies.library
            self._renderer = make_renderer(self._renderer_name, self._library, self._semantic_ids, shapes)
        return self._renderer

    def _warn_of_no_ids(self) -> None:
        """Warn if the sensor ``"semantic"`` shows nothing but 0 in the resident scenes."""
        scenes = [self._library.scene(slot) for slot in self._library.active.tolist()]
        if any(self._semantic_ids.of_objects(scene).any() for scene in scenes):
            return
        categories = sorted({one.category for scene in scenes for one in scene.objects if one.category})
        shown = ", ".join(categories[:_SHOWN]) + (", ..." if len(categories) > _SHOWN else "")
        remedy = f"pass numbers for some of their categories ({shown}) as semantic_ids=" if shown else "annotate them"
        warn_user(f"'semantic' shows 0 in the resident scenes, because no object there has an id: {remedy}")

    def views(self, agents: AgentState, indices: np.ndarray | None = None, camera: Camera | None = None) -> np.ndarray:
        """Return the world-to-camera matrices [M, 4, 4] float32 of one camera of agents, by default the first.

        It is above the visible floor under the agents ``indices`` [M], by default all. Every image that agents see is
        rendered with these matrices.
        """
        keys = self._episode_keys if indices is None else self._episode_keys[indices]
        agents = agents if indices is None else rows_of(agents, indices)
        return self._views(agents, self._floor(agents), (camera or self.rig.first,), keys)

    def begin(self, agents: AgentState) -> None:
        """Start rendering the views of all agents."""
        if not self.rig.groups:
            return
        if self._drawing:  # an error came between begin and finish
            _close_all(self._targets)
        if not self._targets:
            # One set more than promised: the newest is rendered while the caller still holds the others.
            self._targets = self._make_targets(self._buffers + 1)
        self._drawing = True
        self._kept = None
        self._begun = (self._library.generation, copy_of(agents))
        self._keys_then[:] = self._episode_keys
        floor = self._floor(agents)
        for group, target in zip(self.rig.groups, self._targets, strict=True):
            views = self._views(agents, floor, group.cameras, self._episode_keys)
            target.begin(self._slots(agents, group), views, self.bodies(agents, None, len(group.cameras)))

    def finish(self) -> dict[str, Any]:
        """Return the images that ``begin`` started, one array or tensor [N, ...] per key."""
        images: dict[str, Any] = {}
        for group, target in zip(self.rig.groups, self._targets, strict=True):
            images |= self._split(group, target.finish(), self.num_agents)
        images = {key: images[key] for key in self.rig.keys}
        self._drawing = False
        if not self._is_fresh or not images:
            return images
        if self.renderer.name == "embree":  # with OpenGL the last bit depends on the place in the framebuffer
            self._kept = images
        return {name: image.copy() for name, image in images.items()}

    def refresh(self, agents: AgentState) -> dict[str, Any]:
        """Call ``begin`` and ``finish``, but copy the images of agents that have not moved since the last batch."""
        moved = self._moved(agents)
        if self._kept is None or moved.all():
            self.begin(agents)
            return self.finish()
        fresh = {name: image.copy() for name, image in self._kept.items()}
        rows = np.nonzero(moved)[0]
        for name, image in self.images_of(agents, rows).items() if len(rows) else ():
            fresh[name][rows] = image
        return fresh

    def _moved(self, agents: AgentState) -> np.ndarray:
        """Return which agents [N] bool have moved since the last ``begin``; all if a slot has changed."""
        if self._begun is None or self._begun[0] != self._library.generation or self._bodies is not None:
            return np.ones(self.num_agents, bool)
        then = self._begun[1]
        turned = (agents.heading != then.heading) | (agents.pitch != then.pitch)
        if self.rig.has_jitter:
            turned |= self._episode_keys != self._keys_then
        return (agents.slot != then.slot) | (agents.position != then.position).any(axis=1) | turned

    def images_of(self, agents: AgentState, indices: np.ndarray) -> dict[str, Any]:
        """Return the views of agents ``indices`` [M], arrays or tensors [M, ...] that are valid until the next call."""
        if not self.rig.groups:
            return {}
        if not self._partial_targets:
            self._partial_targets = self._make_targets(buffers=1)
        some = rows_of(agents, indices)
        floor = self._floor(some)
        images: dict[str, Any] = {}
        try:
            for group, target in zip(self.rig.groups, self._partial_targets, strict=True):
                views = self._views(some, floor, group.cameras, self._episode_keys[indices])
                bodies = self.bodies(agents, indices, len(group.cameras))
                drawn = target.render(self._slots(some, group), views, bodies)
                images |= self._split(group, drawn, len(indices))
        except BaseException:  # otherwise a batch that has begun would never finish
            _close_all(self._partial_targets)
            raise
        return {key: images[key] for key in self.rig.keys}

    def _make_targets(self, buffers: int) -> list[Target]:
        return [
            self.renderer.target(
                group.cameras[0],
                group.sensors,
                num_views=self.num_agents * len(group.cameras),
                device=self.device,
                buffers=buffers,
            )
            for group in self.rig.groups
        ]

    def _floor(self, agents: AgentState) -> np.ndarray:
        """Return the points [N, 3] of the visible floor under agents."""
        return self._navmeshes.visible_floor(agents.slot, agents.polygon, agents.position)

    def _views(
        self, agents: AgentState, floor: np.ndarray, cameras: tuple[Camera, ...], keys: np.ndarray
    ) -> np.ndarray:
        """Return the world-to-camera matrices [C N, 4, 4] of C cameras of N agents with episode keys [N] uint64."""
        views = [camera_views(one, floor, agents.heading, agents.pitch, drawn_places(one, keys)) for one in cameras]
        return views[0] if len(views) == 1 else np.concatenate(views)

    def _slots(self, agents: AgentState, group: CameraGroup) -> np.ndarray:
        """Return the slots [C N] of the views of a group of C cameras."""
        return agents.slot if len(group.cameras) == 1 else np.tile(agents.slot, len(group.cameras))

    def bodies(self, agents: AgentState, indices: np.ndarray | None = None, num_cameras: int = 1) -> BodyViews | None:
        """Return the bodies in the views of agents, for targets of this renderer; None if each agent is alone.

        Each of the agents ``indices`` [M], by default all, looks through ``num_cameras`` cameras.
        """
        if self._bodies is None:
            return None
        indices = np.arange(self.num_agents) if indices is None else indices
        return self._bodies.bodies(agents, indices, num_cameras)

    def _split(self, group: CameraGroup, pictures: dict[str, Any], count: int) -> dict[str, Any]:
        """Return the images of ``count`` agents by key, from a group's pictures [C N, ...] by sensor."""
        return {
            key: pictures[sensor][index * count : (index + 1) * count]
            for index, keys in enumerate(group.keys)
            for sensor, key in zip(group.sensors, keys, strict=True)
        }

    def to_device(self, array: np.ndarray) -> Any:
        """Return an array as it is, or as a torch tensor on the device of the images."""
        if self.device == "cpu":
            return array
        from gym_batchnav.render.warp.device import to_cuda

        return to_cuda(array)

    def pictures(self, agents: AgentState, indices: np.ndarray, camera: Camera) -> np.ndarray:
        """Return the views of agents ``indices`` [M] through another camera, [M, H, W, 3] uint8."""
        views = self.views(agents, indices, camera)
        return self.pictures_at(agents.slot[indices], views, camera, self.bodies(agents, indices))

    def pictures_at(
        self, slots: np.ndarray, views: np.ndarray, camera: Camera, bodies: BodyViews | None = None
    ) -> np.ndarray:
        """Return RGB pictures [M, H, W, 3] uint8 of the scenes in slots [M] from views [M, 4, 4], world-to-camera."""
        target = self._picture_targets.pop(camera, None)
        if target is None:
            target = self.renderer.target(camera, ("rgb",), num_views=PICTURE_VIEWS, buffers=1)
        self._picture_targets[camera] = target  # the last one
        if len(self._picture_targets) > PICTURE_TARGETS:
            self._picture_targets.pop(next(iter(self._picture_targets))).close()
        pictures = np.empty((len(slots), camera.height, camera.width, 3), np.uint8)
        for first in range(0, len(slots), PICTURE_VIEWS):
            chunk = slice(first, first + PICTURE_VIEWS)
            shown = None if bodies is None else bodies.of_views(first, first + len(slots[chunk]))
            pictures[chunk] = target.render(slots[chunk], views[chunk], shown)["rgb"]
        return pictures

    def close(self) -> None:
        """Release the targets, and the renderer unless it is shared; idempotent."""
        _close_all(self._targets)
        _close_all(self._partial_targets)
        _close_all(list(self._picture_targets.values()))
        self._picture_targets.clear()
        if self._owns_renderer and self._renderer is not None:
            self._renderer.close()
        self._renderer = None
        self._kept = None


def drawn_places(camera: Camera, keys: np.ndarray) -> CameraPlaces | None:
    """Return the places of a camera in episodes with keys [N] uint64; None without jitter."""
    if camera.jitter is None:
        return None
    return camera.jitter.places(camera, step_uniform(keys, np.zeros(len(keys), np.int64), "camera jitter", 3))


def _close_all(targets: list[Target]) -> None:
    """Close targets and remove them from the list."""
    while targets:
        targets.pop().close()


def scatter(rows: Any, indices: np.ndarray, count: int) -> Any:
    """Return an array or tensor [count, ...] of zeros with ``rows`` [M, ...] at ``indices`` [M]."""
    shape = (count, *rows.shape[1:])
    dense = np.zeros(shape, rows.dtype) if isinstance(rows, np.ndarray) else rows.new_zeros(shape)
    dense[indices] = rows
    return dense
