"""BatchSettings: the validated keywords of a batch; and checks of the arguments of its methods."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gymnasium.vector import AutoresetMode

from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.choice import make_actions, make_noise
from gym_batchnav.actions.flight import FlightActions
from gym_batchnav.actions.noise import ActuationNoise
from gym_batchnav.env.delays import Delays
from gym_batchnav.env.flight import check_flight
from gym_batchnav.env.rig import CameraRig, CameraSpec
from gym_batchnav.episodes.flight import FlightEpisodes
from gym_batchnav.episodes.floors import FLOORS
from gym_batchnav.episodes.samplers import EpisodeSampler, with_floors
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.geometry import Camera
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import SceneSpec, are_shipped, scene_sources
from gym_batchnav.library.warmup import warm_up_batch
from gym_batchnav.library.workers import make_library
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.navmesh.methods import GEODESICS, is_detour
from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.noise.timing import SensorTiming
from gym_batchnav.protocols import NavigationProtocol, protocol_of
from gym_batchnav.render.api import RENDERERS, Renderer, check_device
from gym_batchnav.render.checks import check_opengl, needs_ray_table
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.scene.load import check_load_options
from gym_batchnav.system.numbers import check_counts, check_flags
from gym_batchnav.task.api import Sensor
from gym_batchnav.task.components import Components
from gym_batchnav.worlds.api import BODY_PARTS, MovingBodies, Team

RENDER_MODES = ("rgb_array",)
_PICTURE = ("rgb",)  # the sensor of pictures that a task takes


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchSettings:
    """The plain keywords of a BatchNavEnv; see there.

    Attributes:
        picture_cameras: Cameras with which the task takes pictures, besides those of the agents.

    Raises:
        ValueError: A value is wrong; the message names the keyword, the value and the choices.
        FileNotFoundError: There is no ``episode_file``.
    """

    num_envs: int = 1
    protocol: str | NavigationProtocol | None = None
    sensors: Sequence[str | Sensor] = ("depth",)
    semantic_ids: str | Mapping[str, int] = "instance"
    agents_per_world: int | tuple[int, int] | Team = 1
    bodies: Sequence[MovingBodies] = ()
    camera: CameraSpec = None
    sensor_noise: Mapping[str, SensorNoise] | None = None
    sensor_timing: Mapping[str, SensorTiming] | None = None
    renderer: str | Renderer = "auto"
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    max_episode_steps: int = 500
    episode_order: str = "random"
    episode_file: str | Path | None = None
    num_episodes: int = 1000
    floors: str | None = None
    navmesh_settings: NavMeshSettings | None = None
    actions: str | Actions = "discrete"
    actuation_noise: str | ActuationNoise | None = None
    forward_step: float = 0.25
    turn_angle_deg: float = 10.0
    sliding: bool = True
    geodesic: str = "exact"
    reuse_buffers: bool = False
    buffers: int = 2
    obs_device: str = "cpu"
    render_mode: str | None = None
    resident_scenes: int | None = None
    rotate_every: int = 250
    deterministic_rotation: bool = False
    max_scene_bytes: int | None = None
    texture_size: int | str = "auto"
    max_triangles: int | None = None
    cache_dir: str | Path | None = None
    picture_cameras: tuple[Camera, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError unless every value is valid."""
        counts = ["num_envs", "max_episode_steps", "num_episodes", "buffers", "rotate_every"]
        counts += [name for name in ("resident_scenes", "max_scene_bytes") if getattr(self, name) is not None]
        check_counts(**{name: getattr(self, name) for name in counts})
        _ = self.action_kind
        _ = self.noise
        if self.protocol is not None:
            protocol_of(self.protocol)
        check_load_options(self.texture_size, self.max_triangles)
        flags = ("sliding", "reuse_buffers", "deterministic_rotation")
        check_flags(**{name: getattr(self, name) for name in flags})
        if isinstance(self.renderer, str) or not hasattr(self.renderer, "target"):
            check_choice("renderer", self.renderer, RENDERERS)
        self._check_semantic_ids()
        rig = self.rig()
        self._check_worlds()
        if self.renderer_name == "opengl":
            rig.check_opengl()
            for camera in self.picture_cameras:
                check_picture_camera(camera)
        check_choice("geodesic", self.geodesic, GEODESICS)
        check_choice("floors", self.floors, (None, *FLOORS))
        check_choice("render_mode", self.render_mode, (None, *RENDER_MODES))
        check_choice("episode_order", self.episode_order, EPISODE_ORDERS)
        check_device(self.obs_device, self.renderer_name)
        for name in ("sensor_noise", "sensor_timing"):
            if getattr(self, name) and self.obs_device != "cpu":
                raise ValueError(f"{name}= needs observations in main memory: use obs_device='cpu'")
        if self.buffers != BatchSettings.buffers and not self.reuse_buffers and self.obs_device == "cpu":
            raise ValueError(
                f"buffers={self.buffers} has no effect on fresh arrays: also pass reuse_buffers=True, or leave it out"
            )
        check_path("cache_dir", self.cache_dir)
        check_path("episode_file", self.episode_file)
        if self.episode_file is not None and not Path(self.episode_file).is_file():
            raise FileNotFoundError(
                f"episode_file='{self.episode_file}': there is no such file: pass the path of a .json or .json.gz"
            )
        check_kind("navmesh_settings", self.navmesh_settings, NavMeshSettings)
        autoreset_mode_of(self.autoreset_mode)

    @property
    def team(self) -> Team:
        """The agents of a world."""
        return Team.of(self.agents_per_world)

    def _check_worlds(self) -> None:
        """Raise ValueError unless the agents form whole worlds and walk, and the bodies are complete."""
        size = self.team.most
        if self.num_envs % size:
            raise ValueError(
                f"num_envs={self.num_envs} with agents_per_world={self.agents_per_world}: pass a multiple of {size}"
            )
        if not isinstance(self.bodies, (tuple, list)):
            raise ValueError(f"bodies={self.bodies!r}: pass a tuple, such as (People(6),)")
        for group in self.bodies:
            missing = [name for name in BODY_PARTS if not hasattr(group, name)]
            if missing:
                raise ValueError(f"bodies= has a {type(group).__name__} without {', '.join(missing)}: see worlds.api")
        if (size > 1 or self.bodies) and isinstance(self.action_kind, FlightActions):
            raise ValueError(f"actions={self.actions!r}: agents that share a world walk, use other actions")
        if (size > 1 or self.bodies) and not isinstance(self.renderer, str):
            raise ValueError("renderer= draws no bodies: leave it out with agents_per_world= or bodies=")

    def _check_semantic_ids(self) -> None:
        """Raise ValueError unless the ids are valid, and those that a shared renderer draws."""
        wanted = SemanticIds.of(self.semantic_ids)
        drawn = getattr(self.renderer, "semantic_ids", wanted)
        if drawn != wanted and any(key.split("/")[-1] == "semantic" for key in self.rig().keys):
            raise ValueError(
                "renderer= draws other semantic_ids: pass those of the environment that made it, or leave renderer= out"
            )

    @property
    def renderer_name(self) -> str:
        """``"auto"``, ``"opengl"`` or ``"embree"``; ``"auto"`` becomes the other name where only one will do."""
        if self.renderer == "auto" and self.needs_embree:
            return "embree"
        if self.renderer == "auto" and self.obs_device == "cuda":
            return "opengl"
        return self.renderer if isinstance(self.renderer, str) else self.renderer.name

    @property
    def needs_embree(self) -> bool:
        """Whether a camera of the agents or of the task is one that OpenGL cannot draw."""
        return self.rig().needs_embree or any(needs_ray_table(one, _PICTURE) for one in self.picture_cameras)

    @property
    def action_kind(self) -> Actions:
        """The meaning of the agents' actions."""
        return make_actions(self.actions, self.forward_step, self.turn_angle_deg)

    @property
    def noise(self) -> ActuationNoise | None:
        """The noise of the agents' motion."""
        return make_noise(self.actuation_noise)

    def rig(self) -> CameraRig:
        """Return the cameras of an agent and the images that they record."""
        if not isinstance(self.sensors, (tuple, list)):
            example = repr((self.sensors,)) if isinstance(self.sensors, str) else "('depth',)"
            raise ValueError(f"sensors={self.sensors!r}: pass a tuple, such as {example}, or () for blind agents")
        sensors = [sensor for sensor in self.sensors if isinstance(sensor, str)]
        return CameraRig(self.camera, sensors, self.sensor_noise)

    def check_images(self, keys: Sequence[str]) -> None:
        """Raise ValueError unless the agents record the images that components read, as arrays."""
        for key in keys:
            if key not in self.rig().keys:
                raise ValueError(f"sensors=: one of them reads the image {key!r}, which is not among them: add it")
        if keys and self.obs_device != "cpu":
            raise ValueError(f"obs_device={self.obs_device!r}: a sensor reads the image {keys[0]!r}; use 'cpu'")

    def delays(self, components: Components) -> Delays:
        """Return the timing of the sensors."""
        return Delays(self.sensor_timing, {**self.rig().spaces, **components.spaces})

    @property
    def other_sensors(self) -> tuple[Sensor, ...]:
        """The sensors that need no camera."""
        return tuple(sensor for sensor in self.sensors if not isinstance(sensor, str))

    def preparer(self, sampler: EpisodeSampler) -> NavigationPreparer:
        """Return the preparer of the scenes' navmeshes and episodes, which are sampled by a task's sampler.

        Raises:
            ValueError: The actions or other keywords are for walking agents and the task is for flying ones, or vice
                versa.
        """
        rig = self.rig()
        cameras = rig.cameras.values() if rig.keys else ()  # blind agents carry none
        check_flight(self.action_kind, sampler, cameras, self.noise is not None, self.geodesic)
        return NavigationPreparer(
            settings=self.navmesh_settings,
            episode_file=None if self.episode_file is None else Path(self.episode_file),
            num_episodes=self.num_episodes,
            sampler=with_floors(sampler, self.floors),
            geodesic=self.geodesic,
            cache=DiskCache(None if self.cache_dir is None else Path(self.cache_dir)),
        )

    def library(
        self, scenes: SceneSpec | None, shared: SceneLibrary | None, preparer: NavigationPreparer
    ) -> SceneLibrary:
        """Return the shared library, or a new one for ``scenes``.

        Raises:
            ValueError: A library is given together with keywords for a new one, or a renderer of another library.
        """
        check_kind("library", shared, SceneLibrary)
        if shared is not None:
            names = ("resident_scenes", "max_scene_bytes", "deterministic_rotation", "rotate_every", "texture_size")
            changed = [
                name for name in (*names, "max_triangles") if getattr(self, name) != getattr(BatchSettings, name)
            ]
            if scenes is not None or changed:
                raise ValueError(
                    "library= already has its scenes: leave out scenes= and the keywords of rotation and memory"
                )
        if not isinstance(self.renderer, str) and getattr(self.renderer, "library", None) is not shared:
            raise ValueError("renderer= belongs to another library: also pass library= of the environment that made it")
        if shared is not None:
            return shared
        scenes = "apartments" if scenes is None else scenes
        # A name that no scene has is found before kernels are compiled.
        load_options = {"texture_size": self.texture_size, "max_triangles": self.max_triangles}
        sources = scene_sources(scenes, preparer.cache, load_options)
        rig = self.rig()
        shipped = are_shipped(scenes) and preparer.reads_shipped_episodes
        warm_up_batch(
            self.renderer_name,
            [sensor for sensor in self.sensors if isinstance(sensor, str)],
            pictures=bool(self.picture_cameras),
            prepares=not shipped or self.max_triangles is not None or self.navmesh_settings is not None,
            samples=not shipped,
            lenses=self.needs_embree,
            bodies=bool(self.bodies) or self.team.most > 1,
            detour=is_detour(self.geodesic),
            noise=bool(rig.noise),
            flies=isinstance(preparer.sampler, FlightEpisodes),
        )
        return make_library(
            sources,
            self.num_envs,
            preparer,
            once=self.episode_order == "once",
            resident_scenes=self.resident_scenes,
            rotate_every=self.rotate_every,
            deterministic=self.deterministic_rotation,
            max_scene_bytes=self.max_scene_bytes,
        )


def check_picture_camera(camera: Camera) -> None:
    """Raise ValueError if OpenGL cannot draw the pictures that a task takes with a camera."""
    try:
        check_opengl(camera, _PICTURE)
    except ValueError as error:
        raise ValueError(f"camera of a picture that the task takes: {error}") from error


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}")


def check_path(name: str, value: object) -> None:
    """Raise ValueError unless the value is None or a path."""
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name}={value!r}: pass a path")


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise ValueError unless the value is None or an object of a class."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}={value!r}: pass a {kind.__name__}")


def autoreset_mode_of(mode: AutoresetMode | str) -> AutoresetMode:
    """Return the autoreset mode of a case-insensitive name such as ``"next_step"``; ValueError for other names."""
    if isinstance(mode, AutoresetMode):
        return mode
    names = {member.name.lower(): member for member in AutoresetMode}
    key = str(mode).lower().replace("-", "_")
    check_choice("autoreset_mode", key, tuple(names))
    return names[key]
