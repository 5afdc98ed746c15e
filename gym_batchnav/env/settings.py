"""BatchSettings: the validated keywords of a batch; and checks of the arguments of its methods."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.geometry import Camera
from gym_batchnav.library.cache import DiskCache
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import SceneSpec, are_shipped
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.preparation.kernels import warm_up_batch
from gym_batchnav.preparation.navigation import NavigationPreparer
from gym_batchnav.preparation.residents import make_library
from gym_batchnav.render.api import RENDERERS, SENSORS, Renderer, check_device
from gym_batchnav.render.checks import check_sensors
from gym_batchnav.state import Action
from gym_batchnav.task.api import Sensor

RENDER_MODES = ("rgb_array",)
RESET_OPTIONS = ("reset_mask", "episode_index", "episode_order")


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchSettings:
    """The plain keywords of a BatchNavEnv; see there.

    Raises:
        ValueError: A value is wrong; the message names the keyword, the value and the choices.
    """

    num_envs: int = 1
    sensors: Sequence[str | Sensor] = ("depth",)
    camera: Camera | None = None
    renderer: str | Renderer = "auto"
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP
    max_episode_steps: int = 500
    episode_order: str = "random"
    episode_file: str | Path | None = None
    num_episodes: int = 1000
    navmesh_settings: NavMeshSettings | None = None
    forward_step: float = 0.25
    turn_angle_deg: float = 10.0
    sliding: bool = True
    reuse_buffers: bool = False
    buffers: int = 2
    obs_device: str = "cpu"
    render_mode: str | None = None
    resident_scenes: int | None = None
    rotate_every: int = 250
    deterministic_rotation: bool = False
    max_scene_bytes: int | None = None
    cache_dir: str | Path | None = None

    def __post_init__(self) -> None:
        """Raise ValueError unless every value is valid."""
        counts = ["num_envs", "max_episode_steps", "num_episodes", "buffers", "rotate_every"]
        counts += [name for name in ("resident_scenes", "max_scene_bytes") if getattr(self, name) is not None]
        check_counts(**{name: getattr(self, name) for name in counts})
        check_positive(forward_step=self.forward_step, turn_angle_deg=self.turn_angle_deg)
        flags = ("sliding", "reuse_buffers", "deterministic_rotation")
        check_flags(**{name: getattr(self, name) for name in flags})
        check_picture_sensors(self.sensors)
        if isinstance(self.renderer, str) or not hasattr(self.renderer, "target"):
            check_choice("renderer", self.renderer, RENDERERS)
        check_choice("render_mode", self.render_mode, (None, *RENDER_MODES))
        check_choice("episode_order", self.episode_order, EPISODE_ORDERS)
        check_device(self.obs_device, self.renderer_name)
        check_kind("camera", self.camera, Camera)
        check_kind("navmesh_settings", self.navmesh_settings, NavMeshSettings)
        autoreset_mode_of(self.autoreset_mode)

    @property
    def renderer_name(self) -> str:
        """``"auto"``, ``"opengl"`` or ``"embree"``."""
        return self.renderer if isinstance(self.renderer, str) else self.renderer.name

    @property
    def pictures(self) -> tuple[str, ...]:
        """The sensors that a camera records, by name."""
        return tuple(sensor for sensor in self.sensors if isinstance(sensor, str))

    @property
    def other_sensors(self) -> tuple[Sensor, ...]:
        """The sensors that need no camera."""
        return tuple(sensor for sensor in self.sensors if not isinstance(sensor, str))

    def preparer(self) -> NavigationPreparer:
        """Return the preparer of the scenes' navmeshes and episodes."""
        return NavigationPreparer(
            settings=self.navmesh_settings,
            episode_file=None if self.episode_file is None else Path(self.episode_file),
            num_episodes=self.num_episodes,
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
            given = (scenes, self.resident_scenes, self.max_scene_bytes, self.deterministic_rotation or None)
            if any(value is not None for value in given):
                raise ValueError(
                    "library= already has its scenes: leave out scenes= and the keywords of rotation and memory"
                )
        if not isinstance(self.renderer, str) and getattr(self.renderer, "library", None) is not shared:
            raise ValueError("renderer= belongs to another library: also pass library= of the environment that made it")
        if shared is not None:
            return shared
        scenes = "apartments" if scenes is None else scenes
        warm_up_batch(self.num_envs, self.renderer_name, draws=bool(self.pictures), samples=not are_shipped(scenes))
        return make_library(
            scenes,
            self.num_envs,
            preparer,
            once=self.episode_order == "once",
            resident_scenes=self.resident_scenes,
            rotate_every=self.rotate_every,
            deterministic=self.deterministic_rotation,
            max_scene_bytes=self.max_scene_bytes,
        )


def check_counts(**counts: int) -> None:
    """Raise ValueError unless every value is an int of at least 1."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"{name}={count!r}: pass a whole number of at least 1")


def check_flags(**flags: bool) -> None:
    """Raise ValueError unless every value is True or False."""
    for name, flag in flags.items():
        if not isinstance(flag, (bool, np.bool_)):
            raise ValueError(f"{name}={flag!r}: pass True or False")


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise ValueError unless the value is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, choices))}")


def check_positive(**values: float) -> None:
    """Raise ValueError unless every value is a positive finite number."""
    for name, value in values.items():
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not (number and math.isfinite(value) and value > 0):
            raise ValueError(f"{name}={value!r}: pass a positive number")


def check_kind(name: str, value: object, kind: type) -> None:
    """Raise ValueError unless the value is None or an object of a class."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name}={value!r}: pass a {kind.__name__}")


def check_picture_sensors(sensors: Sequence[str | Sensor]) -> None:
    """Raise ValueError unless the sensors are a tuple or list whose strings name camera sensors, each once."""
    if not isinstance(sensors, (tuple, list)):
        raise ValueError(f"sensors={sensors!r}: pass a tuple, such as ('depth',), or () for blind agents")
    pictures = tuple(sensor for sensor in sensors if isinstance(sensor, str))
    unknown = [name for name in pictures if name not in SENSORS]
    if unknown:
        raise ValueError(
            f"sensors={sensors!r}: {unknown[0]!r} is not one of {', '.join(map(repr, SENSORS))}; others are objects, "
            "such as GPS() and Compass() of gym_batchnav.task.sensors"
        )
    if pictures:
        check_sensors(pictures)


def autoreset_mode_of(mode: AutoresetMode | str) -> AutoresetMode:
    """Return the autoreset mode of a case-insensitive name such as ``"next_step"``; ValueError for other names."""
    if isinstance(mode, AutoresetMode):
        return mode
    names = {member.name.lower(): member for member in AutoresetMode}
    key = str(mode).lower().replace("-", "_")
    check_choice("autoreset_mode", key, tuple(names))
    return names[key]


def warn_of_unknown(options: Collection[str]) -> None:
    """Warn about unknown reset options. They are no error, because wrappers may pass options of their own."""
    unknown = [name for name in options if name not in RESET_OPTIONS]
    if unknown:
        known = ", ".join(map(repr, RESET_OPTIONS))
        warnings.warn(f"reset options {unknown!r} are ignored: the known options are {known}", stacklevel=3)


def mask_of(name: str, mask: Any, num_envs: int) -> np.ndarray:
    """Return a mask [N] bool of environments, all True for None; ValueError for another shape or dtype."""
    if mask is None:
        return np.ones(num_envs, bool)
    mask = np.asarray(mask)
    if mask.shape != (num_envs,) or mask.dtype != bool:
        raise ValueError(f"{name} is {mask.dtype} {mask.shape}: pass bool ({num_envs},)")
    return mask


def indices_of(indices: Any, num_envs: int) -> np.ndarray:
    """Return indices of environments as int64 [M]; ValueError for one that is not from 0 to N - 1."""
    indices = np.asarray(indices)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(f"indices are {indices.dtype} {indices.shape}: pass integers (M,)")
    wrong = (indices < 0) | (indices >= num_envs)
    if wrong.any():
        raise ValueError(f"environment {indices[wrong][0]}: there are environments 0 to {num_envs - 1}")
    return indices.astype(np.int64)


def numbers_of(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return values as float32 of a shape; ValueError for another shape or values that are not numbers."""
    values = np.asarray(values)
    if values.shape != shape or values.dtype.kind not in "iuf":
        raise ValueError(f"{name} is {values.dtype} {values.shape}: pass numbers {shape}")
    return values.astype(np.float32)


def seeds_of(seed: int | Sequence[int | None] | None, num_envs: int) -> list[int | None]:
    """Return one seed per environment: ``seed + i``, or those of a sequence, in which None keeps the current seed.

    Raises:
        ValueError: ``seed`` is neither, has another length, or a seed is not from 0 to 2**64 - 1.
    """
    seeds: list[int | None]
    if seed is None:
        seeds = [None] * num_envs
    elif isinstance(seed, (int, np.integer)):
        seeds = [int(seed) + index for index in range(num_envs)]
    elif isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, (str, bytes)):
        seeds = list(seed)
    else:
        raise ValueError(f"seed={seed!r}: pass a whole number, one for each environment, or None")
    if len(seeds) != num_envs:
        raise ValueError(f"{len(seeds)} seeds for {num_envs} environments: pass one number or one each")
    if any(one is not None and not (isinstance(one, (int, np.integer)) and 0 <= one < 2**64) for one in seeds):
        raise ValueError(f"seed={seed}: pass seeds from 0 to 2**64 - 1")
    return seeds


def actions_of(actions: Any, num_envs: int) -> np.ndarray:
    """Return actions as int64 [N]; ValueError for another shape, dtype or value."""
    actions = np.asarray(actions)
    if actions.shape != (num_envs,) or actions.dtype.kind not in "iu":
        raise ValueError(f"actions are {actions.dtype} {actions.shape}: pass integers ({num_envs},)")
    wrong = (actions < 0) | (actions >= len(Action))
    if wrong.any():
        index = int(wrong.argmax())
        raise ValueError(
            f"actions[{index}] = {actions[index]}: choose 0 STOP, 1 MOVE_FORWARD, 2 TURN_LEFT or 3 TURN_RIGHT"
        )
    return actions.astype(np.int64, copy=False)


def episodes_of(episodes: Any, num_envs: int, num_episodes: int) -> np.ndarray:
    """Return episode numbers as int64 [N]; ValueError for another shape, dtype or value."""
    episodes = np.asarray(episodes)
    if episodes.shape != (num_envs,) or episodes.dtype.kind not in "iu":
        raise ValueError(f"episodes are {episodes.dtype} {episodes.shape}: pass integers ({num_envs},)")
    if episodes.min() < 0 or episodes.max() >= num_episodes:
        raise ValueError(
            f"episodes must lie between 0 and {num_episodes - 1}, not {episodes.min()} to {episodes.max()}"
        )
    return episodes.astype(np.int64)
