"""EnvConfig, Scenes and Episodes: the keywords of BatchNavEnv, each declared once and checked before anything loads."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, fields
from difflib import get_close_matches
from functools import cached_property, wraps
from inspect import Parameter, signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from gymnasium.spaces import Dict
from gymnasium.vector import AutoresetMode

from gym_batchnav.actions.api import Actions
from gym_batchnav.actions.choice import make_actions, make_noise
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.actions.noise import ActuationNoise
from gym_batchnav.env.cameras import PICTURE_VIEWS, USUAL_BUFFERS, CameraRig, CameraSpec
from gym_batchnav.env.observe import Delays
from gym_batchnav.episodes.floors import FLOORS
from gym_batchnav.episodes.habitat import check_file
from gym_batchnav.episodes.samplers import with_floors
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.geometry import Camera
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.prepare import NavigationPreparer
from gym_batchnav.library.sources import SceneSpec, are_shipped, scene_sources
from gym_batchnav.library.warmup import batch_workloads
from gym_batchnav.library.workers import make_library
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.navmesh.record import GEODESICS, is_detour
from gym_batchnav.noise.api import SensorNoise
from gym_batchnav.noise.timing import SensorTiming
from gym_batchnav.protocols import NavigationProtocol, protocol_of
from gym_batchnav.render.api import (
    RENDERERS,
    Renderer,
    check_device,
    check_opengl,
    needs_ray_table,
    ray_table_bytes,
    ray_tracer,
)
from gym_batchnav.scene.categories import SemanticIds
from gym_batchnav.scene.load import check_load_options
from gym_batchnav.state import agent_state, arrays_of, episode_state
from gym_batchnav.system.compilation import compile_ahead
from gym_batchnav.system.limits import MEMORY, available_memory
from gym_batchnav.system.numbers import check_choice, check_counts, check_flags, is_count
from gym_batchnav.task.api import Measure, Sensor, Task
from gym_batchnav.task.components import Components
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.worlds.api import BODY_PARTS, MovingBodies, Team

RENDER_MODES = ("rgb_array",)
_PICTURE = ("rgb",)  # the sensor of pictures that a task takes
_COPIES = 3  # of every state array during a step: masks, infos and the outputs of kernels
_VIEW_BYTES = 3 * 64  # per view: its matrix and two copies
_OWN_AGENT = (
    ", such as NavMeshSettings(agent_radius=0.25, agent_height=0.6, agent_max_climb=0.1, agent_max_slope_deg=30) of "
    "gym_batchnav.navmesh"
)
_RENAMED = {  # keywords of version 0.2.0 and of other functions, and what to pass instead
    "resident_scenes": "scenes=Scenes(..., resident=...)",
    "max_scene_bytes": "scenes=Scenes(..., max_bytes=...)",
    "episode_file": "episodes=Episodes(file=...)",
    "episode_order": "episodes=Episodes(order=...)",
    "num_episodes": "episodes=Episodes(count=...)",
    "reuse_buffers": "buffers=2",
    "up": "scenes=load_scene(path, up=...)",
    "scale": "scenes=load_scene(path, scale=...)",
    "max_distance": "task=PointNav(sampler=PointEpisodes(max_distance=...)) (gym_batchnav.episodes.samplers)",
    "max_steps": "max_episode_steps=...",
    "seed": "it to reset(seed=...), or episodes=Episodes(seed=...)",
    "num_threads": "it to numba.set_num_threads(...)",
    "threads": "it to numba.set_num_threads(...)",
}

Arguments = ParamSpec("Arguments")
Env = TypeVar("Env")


@dataclass(frozen=True)
class Scenes:
    """The scenes of a batch, and how many of them are in use at a time: the keyword ``scenes``.

    Attributes:
        source: ``"apartments"`` (the shipped ones, the default), one of their names, the path of a scene file, a folder
            or a pattern, a Habitat scene dataset, ``"procedural:SEED"`` or ``"procedural:FIRST-LAST"``, a Scene, or a
            list of these.
        resident: K, the number of scenes in use at a time. If more are listed, a background thread loads the next
            ones, and an agent moves to a new scene when its next episode begins. By default up to eight scenes are all
            resident, and of more, one per 32 environments; with episodes in order ``"once"`` all are. A number larger
            than the number of scenes means all of them.
        rotate_every: Minimum number of steps between two changes of scene.
        deterministic_rotation: Change scenes at the same steps in every run, waiting for the loader if necessary;
            otherwise stepping never waits.
        max_bytes: Upper limit for scene data, applied separately to main memory and to the graphics device. A scene
            that does not fit waits for its next turn if scenes rotate, and is left out otherwise. If agents may already
            be in such a scene, the first reset raises an error.
        texture_size: Longest side of textures in pixels; ``"auto"`` fits those of a scene file into 256 MiB.
        max_triangles: Simplify scene files with more triangles; navmeshes are built before. See ``load_scene``. It
            saves memory rather than time: with 30,000 triangles, Embree draws a scan of 5 million 3.3 times as fast at
            64x64, but a house of 150,000 no faster. Depth changes by 15 mm and 0.2 mm on average.
        cache_dir: Folder for prepared scenes; None for the user's cache folder.

    Raises:
        ValueError: A value is wrong; the message names the keyword and the value.
    """

    source: SceneSpec | None = None
    _: KW_ONLY
    resident: int | None = None
    rotate_every: int = 250
    deterministic_rotation: bool = False
    max_bytes: int | None = None
    texture_size: int | str = "auto"
    max_triangles: int | None = None
    cache_dir: str | Path | None = None

    def __post_init__(self) -> None:
        check_counts(rotate_every=self.rotate_every)
        for name in ("resident", "max_bytes"):
            if getattr(self, name) is not None:
                check_counts(**{name: getattr(self, name)})
        check_flags(deterministic_rotation=self.deterministic_rotation)
        check_load_options(self.texture_size, self.max_triangles)
        check_path("cache_dir", self.cache_dir)

    @classmethod
    def of(cls, scenes: Scenes | SceneSpec | None) -> Scenes:
        """Return the scenes of the keyword ``scenes``."""
        return scenes if isinstance(scenes, Scenes) else cls(scenes)

    @property
    def cache(self) -> DiskCache:
        """The cache of prepared scenes."""
        return DiskCache(None if self.cache_dir is None else Path(self.cache_dir))

    @property
    def load_options(self) -> dict[str, Any]:
        """The keywords with which scene files are loaded."""
        return {"texture_size": self.texture_size, "max_triangles": self.max_triangles}


@dataclass(frozen=True)
class Episodes:
    """The episodes of a batch: the keyword ``episodes``.

    Attributes:
        file: A Habitat PointNav or ObjectNav dataset (JSON or JSON.gz) with episodes for the scenes.
        order: ``"random"`` draws episodes with replacement; ``"once"`` runs each episode exactly once, after which an
            environment reports ``episode_valid`` False and stands still.
        count: Number of episodes to sample per scene.
        floors: Where sampled episodes begin and end: ``"main"`` for the largest island of each storey, ``"habitat"``
            for all islands with a radius of 1.5 m, including roofs and furniture. None uses the rule of the task's
            sampler.
        seed: Seed of sampled episodes. A number samples other episodes, also for scenes that come with some; None
            samples the usual ones.

    Raises:
        ValueError: A value is wrong; the message names the keyword, the value and the choices.
        FileNotFoundError: The file does not exist.
    """

    file: str | Path | None = None
    _: KW_ONLY
    order: str = "random"
    count: int = 1000
    floors: str | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        check_counts(count=self.count)
        if isinstance(self.seed, np.integer):
            object.__setattr__(self, "seed", int(self.seed))
        if self.seed is not None and (not is_count(self.seed) or self.file is not None):
            remedy = "leave it out with a file" if self.file is not None else "pass a whole number of at least 0"
            raise ValueError(f"seed={self.seed!r} of Episodes: {remedy}")
        check_choice("order", self.order, EPISODE_ORDERS)
        check_choice("floors", self.floors, (None, *FLOORS))
        check_path("episodes", self.file)
        if self.file is not None:
            check_file(Path(self.file), f"episodes='{self.file}'")

    @classmethod
    def of(cls, episodes: Episodes | str | Path | int | None) -> Episodes:
        """Return the episodes of the keyword ``episodes``."""
        if isinstance(episodes, Episodes):
            return episodes
        if isinstance(episodes, (int, np.integer)):
            check_counts(episodes=episodes)
            return cls(count=episodes)
        return cls(episodes)


@dataclass(frozen=True, eq=False)
class EnvConfig:
    """The keywords of BatchNavEnv. Keywords passed explicitly override a protocol's, which override an id's defaults.

    Attributes:
        num_envs: N, the number of environments, one agent each; a multiple of ``agents_per_world``.
        protocol: Name of a paper's or challenge's protocol, such as ``"pointnav-2021"``, or a NavigationProtocol. Sets
            task, camera, noise and limits. See ``gym_batchnav.protocols`` and ``protocol_card``.
        scenes: The scenes: a name, a path, a Scene, a list of these, or Scenes to say how many are in use at a time.
        episodes: The path of a Habitat dataset, the number of episodes to sample for a scene that comes without any, or
            Episodes.
        sensors: Any of ``"depth"``, ``"rgb"``, ``"semantic"``, ``"normals"`` and ``"points"`` (see
            ``render.api.SENSOR_FORMATS``), or none of them for blind agents; and Sensor objects (see ``task.api``) in
            addition to those of the task. All of several cameras record ``"depth"``; one records ``"front/depth"``.
        semantic_ids: What ``"semantic"`` shows: ``"instance"``, the ids of objects; ``"category"``, Matterport3D's
            numbers of categories (``scene.categories.MPCAT40``); or your own, such as ``{"chair": 1, "sofa": 2}``, with
            0 for all others.
        task: The task; PointNav() by default. See ``task.api`` for how to write your own.
        measures: Measure objects (see ``task.api``) to report in addition to those of the task.
        agents_per_world: Number M of agents that share a world: they see and block each other, and their episodes begin
            and end together. Environments ``w M`` to ``w M + M - 1`` form world w. A pair ``(2, 4)`` draws the number
            for each episode; a Team also chooses the agents' shape and size.
        bodies: Other moving bodies in every world, such as ``(People(6),)``; see ``gym_batchnav.worlds``.
        camera: The agents' camera; Camera() by default (64 x 64 pixels, 90 degrees, 1.25 m above the visible floor
            under the agent). With several cameras by name, such as ``{"front": Camera(), "left": Camera(yaw_deg=90)}``,
            observations have a key per camera and sensor: ``"front/depth"``.
        sensor_noise: Noise of images, by ``"rgb"`` for all cameras or ``"front/rgb"`` for one:
            ``{"rgb": GaussianNoise(0.1), "depth": RedwoodNoise()}``; see ``gym_batchnav.noise``.
        sensor_timing: When sensors read and when their readings arrive, by name like ``sensor_noise``:
            ``{"rgb": SensorTiming(period=4, latency=1)}``. Tasks and measures read sensors without delay.
        renderer: ``"auto"`` (Warp on an NVIDIA GPU, OpenGL on another, Embree otherwise), ``"warp"``, ``"opengl"``,
            ``"embree"``, or the Renderer of another batch with the same ``library``; the batch that made a renderer
            closes it.
        autoreset_mode: ``"next_step"``, ``"same_step"``, ``"disabled"`` or Gymnasium's enum.
        max_episode_steps: An episode that has not ended after this many actions is truncated.
        navmesh_settings: Size and abilities of the agent for which navmeshes are built. By default, a navmesh that
            comes with a scene is used as it is, and others are built with NavMeshSettings().
        actions: ``"discrete"``, ``"velocity"``, ``"waypoint"``, ``"holonomic"``, or an object such as
            ``DiscreteActions(forward_step=0.5)`` or ``VelocityActions(time_step=0.5)``; see ``gym_batchnav.actions``.
        actuation_noise: ``"locobot"``, an object such as ``LoCoBotNoise(multiplier=1)``, or None for exact motion.
        sliding: Slide along walls; False stops at them.
        geodesic: Method of the distances that tasks and measures read: ``"exact"``, or ``"detour"`` for those that
            Habitat computes, which are longer where its paths are not the shortest.
        buffers: None returns images in fresh arrays; a number n returns them in a ring of arrays that remain valid for
            n further steps.
        obs_device: ``"cpu"`` for NumPy arrays, or ``"cuda"`` for torch tensors that never leave an NVIDIA device;
            images then always live in a ring, of 2 further steps by default. Read them on torch's current stream and do
            not write into them. Rewards and flags remain NumPy arrays.
        render_mode: None or ``"rgb_array"``.
        library: Scenes to share with other environments, instead of ``scenes``, of which only ``Scenes(cache_dir=...)``
            may be passed. If the scenes rotate, reseeding then does not restart their order.

    Raises:
        ValueError: A value is wrong; the message names the keyword, the value and the choices.
    """

    num_envs: int = 1
    _: KW_ONLY
    protocol: str | NavigationProtocol | None = None
    scenes: Scenes | SceneSpec | None = None
    episodes: Episodes | str | Path | int | None = None
    sensors: Sequence[str | Sensor] = ("depth",)
    semantic_ids: str | Mapping[str, int] = "instance"
    task: Task | None = None
    measures: Sequence[Measure] = ()
    agents_per_world: int | tuple[int, int] | Team = 1
    bodies: Sequence[MovingBodies] = ()
    camera: CameraSpec = None
    sensor_noise: Mapping[str, SensorNoise] | None = None
    sensor_timing: Mapping[str, SensorTiming] | None = None
    renderer: str | Renderer = "auto"
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    max_episode_steps: int = 500
    navmesh_settings: NavMeshSettings | None = None
    actions: str | Actions = "discrete"
    actuation_noise: str | ActuationNoise | None = None
    sliding: bool = True
    geodesic: str = "exact"
    buffers: int | None = None
    obs_device: str = "cpu"
    render_mode: str | None = None
    library: SceneLibrary | None = None

    def __post_init__(self) -> None:
        check_counts(num_envs=self.num_envs, max_episode_steps=self.max_episode_steps)
        if self.buffers is not None:
            check_counts(buffers=self.buffers)
        _ = self.rig, self.action_kind, self.noise, self.scene_settings, self.episode_settings
        if self.protocol is not None:
            protocol_of(self.protocol)
        check_flags(sliding=self.sliding)
        if isinstance(self.renderer, str) or not hasattr(self.renderer, "target"):
            check_choice("renderer", self.renderer, RENDERERS)
        self._check_semantic_ids()
        self._check_worlds()
        if self.renderer_name == "opengl":
            self.rig.check_opengl()
            for camera in self.components.picture_cameras:
                check_picture_camera(camera)
        check_choice("geodesic", self.geodesic, GEODESICS)
        check_choice("render_mode", self.render_mode, (None, *RENDER_MODES))
        check_device(self.obs_device, self.renderer_name)
        for name in ("sensor_noise", "sensor_timing"):
            if getattr(self, name) and self.obs_device != "cpu":
                raise ValueError(f"{name}= needs observations in main memory: use obs_device='cpu'")
        check_kind("navmesh_settings", self.navmesh_settings, NavMeshSettings, _OWN_AGENT)
        autoreset_mode_of(self.autoreset_mode)
        self._check_images()

    @cached_property
    def scene_settings(self) -> Scenes:
        """The scenes."""
        return Scenes.of(self.scenes)

    @cached_property
    def episode_settings(self) -> Episodes:
        """The episodes."""
        return Episodes.of(self.episodes)

    @cached_property
    def components(self) -> Components:
        """The task with all sensors and measures."""
        others = [sensor for sensor in self.sensors if not isinstance(sensor, str)]
        task = PointNav() if self.task is None else self.task
        return Components(task, others, self.measures, self.action_kind.space)

    @cached_property
    def observation_space(self) -> Dict:
        """The observation space of one environment."""
        return Dict({**self.rig.spaces, **self.components.spaces})

    @property
    def num_buffers(self) -> int:
        """The number of further steps for which the images of a target remain valid."""
        return USUAL_BUFFERS if self.buffers is None else self.buffers

    @property
    def team(self) -> Team:
        """The agents of a world."""
        return Team.of(self.agents_per_world)

    def _check_worlds(self) -> None:
        """Raise ValueError unless the agents form whole worlds, and the bodies are complete."""
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
                raise ValueError(
                    f"bodies= has a {type(group).__name__} without {', '.join(missing)}: add them, see "
                    "gym_batchnav.worlds.api.MovingBodies"
                )
        if (size > 1 or self.bodies) and not isinstance(self.renderer, str):
            raise ValueError("a renderer object draws no bodies: with agents_per_world= or bodies=, pass a name")

    def _check_semantic_ids(self) -> None:
        """Raise ValueError unless the ids are valid, and those that a shared renderer draws."""
        wanted = SemanticIds.of(self.semantic_ids)
        drawn = getattr(self.renderer, "semantic_ids", wanted)
        if drawn != wanted and any(key.split("/")[-1] == "semantic" for key in self.rig.keys):
            raise ValueError(
                "renderer= draws other semantic_ids: pass those of the environment that made it, or leave renderer= out"
            )

    @property
    def renderer_name(self) -> str:
        """One of ``RENDERERS``; not ``"auto"`` where some of them cannot draw what the keywords need."""
        if self.renderer == "auto" and self.obs_device == "cuda":
            return "warp"
        if self.renderer == "auto" and self.traces_rays:
            return ray_tracer()
        return self.renderer if isinstance(self.renderer, str) else self.renderer.name

    @property
    def traces_rays(self) -> bool:
        """Whether a camera of the agents or of the task is one that OpenGL cannot draw."""
        pictured = self.components.picture_cameras
        return self.rig.traces_rays or any(needs_ray_table(one, _PICTURE) for one in pictured)

    @cached_property
    def action_kind(self) -> Actions:
        """The meaning of the agents' actions."""
        return make_actions(self.actions)

    @cached_property
    def noise(self) -> ActuationNoise | None:
        """The noise of the agents' motion."""
        return make_noise(self.actuation_noise)

    @cached_property
    def rig(self) -> CameraRig:
        """The cameras of an agent and the images that they record."""
        if not isinstance(self.sensors, (tuple, list)):
            example = repr((self.sensors,)) if isinstance(self.sensors, str) else "('depth',)"
            raise ValueError(f"sensors={self.sensors!r}: pass a tuple, such as {example}, or () for blind agents")
        sensors = [sensor for sensor in self.sensors if isinstance(sensor, str)]
        return CameraRig(self.camera, sensors, self.sensor_noise)

    @cached_property
    def delays(self) -> Delays:
        """The timing of the sensors."""
        return Delays(self.sensor_timing, {**self.rig.spaces, **self.components.spaces})

    def _check_images(self) -> None:
        """Raise ValueError unless the agents record the images that components read, as arrays."""
        keys = self.components.images
        for key in keys:
            if key not in self.rig.keys:
                raise ValueError(f"sensors=: one of the sensors reads the image {key!r}: add {key!r} to sensors=")
        if keys and self.obs_device != "cpu":
            raise ValueError(f"obs_device={self.obs_device!r}: a sensor reads the image {keys[0]!r}; use 'cpu'")

    def preparer(self) -> NavigationPreparer:
        """Return the preparer of the scenes' navmeshes and episodes, which are sampled by the task's sampler.

        Raises:
            ValueError: The actions or other keywords are not for the agents of the task.
        """
        sampler = self.components.task.sampler
        episodes = self.episode_settings
        self.action_kind.check_batch(self, sampler)
        return NavigationPreparer(
            settings=self.navmesh_settings,
            episode_file=None if episodes.file is None else Path(os.path.abspath(episodes.file)),
            num_episodes=episodes.count,
            seed=episodes.seed,
            sampler=with_floors(sampler, episodes.floors),
            geodesic=self.geodesic,
            cache=self.scene_settings.cache,
        )

    def make_library(self, preparer: NavigationPreparer) -> SceneLibrary:
        """Return the shared library, or a new one for the scenes.

        Raises:
            ValueError: A library is given together with scenes for a new one, or a renderer of another library.
        """
        check_kind("library", self.library, SceneLibrary)
        scenes = self.scene_settings
        if not isinstance(self.renderer, str) and getattr(self.renderer, "library", None) is not self.library:
            raise ValueError("renderer= draws another environment's scenes: also pass library= of that environment")
        if self.library is not None:
            if scenes.source is not None or scenes != Scenes(cache_dir=scenes.cache_dir):
                raise ValueError("library= already has its scenes: leave out scenes=, except for its cache_dir")
            return self.library
        source = "apartments" if scenes.source is None else scenes.source
        # Before kernels are compiled, so that an unknown name is an error at once.
        sources = scene_sources(source, preparer.cache, scenes.load_options)
        shipped = are_shipped(source) and preparer.reads_shipped_episodes
        compile_ahead(
            batch_workloads(
                self.renderer_name,
                [sensor for sensor in self.sensors if isinstance(sensor, str)],
                pictures=bool(self.components.picture_cameras),
                prepares=not shipped or scenes.max_triangles is not None or self.navmesh_settings is not None,
                samples=not shipped,
                lenses=self.traces_rays,
                bodies=bool(self.bodies) or self.team.most > 1,
                detour=is_detour(self.geodesic),
                noise=bool(self.rig.noise),
                moving=self.action_kind.workload,
            )
        )
        return make_library(
            sources,
            self.num_envs,
            preparer,
            once=self.episode_settings.order == "once",
            resident=scenes.resident,
            rotate_every=scenes.rotate_every,
            deterministic=scenes.deterministic_rotation,
            max_bytes=scenes.max_bytes,
        )


def with_defaults(given: Mapping[str, Any], defaults: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return the keywords of a batch: those given, else those of the protocol among them, else the defaults of an id.

    If sensors are given but no noise, a protocol's noise stays with the sensors that are left.

    Raises:
        ValueError: The protocol is unknown, or a given task lacks values that the protocol's task sets.
    """
    given = {name: value for name, value in given.items() if name != "task" or value is not None}
    if given.get("protocol") is None:
        return {**defaults, **given}
    protocol = protocol_of(given["protocol"])
    _check_task(given.get("task"), protocol)
    theirs = protocol.keywords()
    if isinstance(given.get("sensors"), (tuple, list)) and theirs["sensor_noise"] is not None:
        left = {name.rpartition("/")[2] for name in given["sensors"] if isinstance(name, str)}
        theirs["sensor_noise"] = {name: noise for name, noise in theirs["sensor_noise"].items() if name in left} or None
    return {**defaults, **theirs, **given}


def _check_task(task: Any, protocol: NavigationProtocol) -> None:
    """Raise ValueError if a protocol's task would be replaced by one of its kind that leaves out some of its values."""
    theirs: Any = protocol.task
    if not isinstance(task, type(theirs)):
        return
    values = ((one.name, one.default, getattr(theirs, one.name)) for one in fields(theirs))
    lost = [f"{name}={value!r}" for name, usual, value in values if getattr(task, name) == usual != value]
    if lost:
        protocol_there = f"protocol_of({protocol.name!r})"
        raise ValueError(
            f"task={task!r} would reset {', '.join(lost)} of protocol={protocol.name!r}: to keep them, pass "
            f"task=dataclasses.replace({protocol_there}.task, ...); to reset them, pass "
            f"protocol=dataclasses.replace({protocol_there}, task=...) (gym_batchnav.protocols)"
        )


def takes_keywords_of(
    config: Callable[Arguments, EnvConfig],
) -> Callable[[Callable[[Env, EnvConfig], None]], Callable[Concatenate[Env, Arguments], None]]:
    """Return a decorator of a constructor that takes an EnvConfig: it then takes the keywords of EnvConfig instead.

    The error of an unknown keyword names the one that replaces it, or that it resembles.
    """
    known = {one.name for one in fields(EnvConfig)}
    own = signature(config)

    def decorate(initialize: Callable[[Env, EnvConfig], None]) -> Callable[Concatenate[Env, Arguments], None]:
        @wraps(initialize)
        def with_keywords(self: Env, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
            for name in kwargs.keys() - known:
                message = f"{type(self).__name__} got an unexpected keyword argument {name!r}"
                raise TypeError(f"{message}{_remedy(name, known)}")
            initialize(self, config(*args, **with_defaults(kwargs)))

        with_keywords.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *own.parameters.values()]
        )
        return with_keywords

    return decorate


def _remedy(name: str, known: Set[str]) -> str:
    """Return the end of the error of an unknown keyword: what replaces it, or what it resembles."""
    kinds = {
        "navmesh_settings": NavMeshSettings, "scenes": Scenes, "episodes": Episodes, "actions": DiscreteActions,
        "camera": Camera, "task": PointNav,
    }  # fmt: skip
    parts = {
        one.name: f"{keyword}={kind.__name__}({'..., ' if kind is Scenes else ''}{one.name}=...)"
        for keyword, kind in kinds.items()
        for one in fields(kind)
    } | _RENAMED
    if name in parts:
        return f": pass {parts[name]}"
    close = get_close_matches(name, {*known, *parts}, 1)
    known_ones = "the keywords are the fields of EnvConfig in gym_batchnav.env.config"
    return f": did you mean {parts.get(close[0], close[0])}?" if close else f": {known_ones}"


def check_picture_camera(camera: Camera) -> None:
    """Raise ValueError if OpenGL cannot draw the pictures that a task takes with a camera."""
    try:
        check_opengl(camera, _PICTURE)
    except ValueError as error:
        raise ValueError(f"the camera of the task's pictures: {error}") from error


def check_path(name: str, value: object) -> None:
    """Raise ValueError unless the value is None or a path."""
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name}={value!r}: pass a path")


def check_kind(name: str, value: object, kind: type, example: str = "") -> None:
    """Raise ValueError, which ends in the example, unless the value is None or an object of a class."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}={value!r}: pass a {kind.__name__}{example}")


def autoreset_mode_of(mode: AutoresetMode | str) -> AutoresetMode:
    """Return the autoreset mode of a case-insensitive name or value of the enum; ValueError for another one."""
    if isinstance(mode, AutoresetMode):
        return mode
    names = {member.name.lower(): member for member in AutoresetMode}
    modes = names | {member.value.lower(): member for member in AutoresetMode}
    key = str(mode).lower().replace("-", "_")
    if key not in modes:
        check_choice("autoreset_mode", mode, tuple(names))
    return modes[key]


def check_memory(config: EnvConfig) -> None:
    """Raise ValueError, which says how many environments would fit, unless a batch fits into the available memory."""
    available = available_memory()
    one = bytes_per_environment(config)
    shared = shared_bytes(config)
    needed = shared + config.num_envs * one
    if available is None or needed <= available:
        return
    world = config.team.most
    fits = max(1, (available - shared) // (world * one)) * world
    hint = "use a smaller camera=, fewer sensors= or " if config.rig.keys else "use "
    if shared + world * one > available:
        hint = "use a smaller camera and "
    together = f" and {shared:,} together" if shared else ""
    raise ValueError(
        f"num_envs={config.num_envs}: these environments need about {needed / 2**30:,.1f} GiB "
        f"({one:,} bytes each{together}), but only {available / 2**30:,.1f} GiB of main memory are available: {hint}at "
        f"most num_envs={fits}, or set the environment variable {MEMORY} to the bytes that you have, or to off"
    )


def shared_bytes(config: EnvConfig) -> int:
    """Return the minimum main memory, in bytes, that a batch of any size needs for its cameras.

    It holds a table of rays for each lens, and some pictures that the task takes.
    """
    tabled = [group.cameras[0] for group in config.rig.groups if needs_ray_table(group.cameras[0], group.sensors)]
    tabled += [camera for camera in config.components.picture_cameras if needs_ray_table(camera, _PICTURE)]
    tables = [ray_table_bytes(camera) for camera in tabled]
    pictures = sum(3 * camera.width * camera.height for camera in config.components.picture_cameras)
    # Tables are made one after the other.
    most = max((meanwhile for _, meanwhile in tables), default=0)
    return sum(kept for kept, _ in tables) + most + PICTURE_VIEWS * pictures


def bytes_per_environment(config: EnvConfig) -> int:
    """Return the minimum main memory, in bytes, that one environment of a batch needs."""
    arrays = [*arrays_of(agent_state(1)).values(), *arrays_of(episode_state(1)).values()]
    kept = config.delays.nbytes
    arrays += config.action_kind.buffers(1).values()
    state = _COPIES * sum(array.nbytes for array in arrays) + config.components.buffers_nbytes() + kept
    rig = config.rig
    views = _VIEW_BYTES * max(1, sum(len(group.cameras) for group in rig.groups))
    if config.obs_device != "cpu":
        return state + views
    picture = sum(math.prod(space.shape) * space.dtype.itemsize for space in rig.spaces.values())
    sets = config.num_buffers + 1 + (config.buffers is None)  # the target's ring, and the arrays handed out
    return state + views + sets * picture
