"""The settings with which a policy was trained, as its file describes them: environments like it, and differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_type_hints

import gymnasium
import numpy as np

from gym_batchnav.actions.choice import make_noise
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.cameras import picture_spaces
from gym_batchnav.evaluation.records import (
    CLASS,
    checked_value,
    fields_of,
    is_known,
    is_object,
    is_record,
    is_space,
    record_of,
    space_of,
    space_record,
    value_of,
)
from gym_batchnav.geometry import Camera
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.navmesh.record import GEODESICS
from gym_batchnav.noise.rgb import ColorJitter
from gym_batchnav.render.api import SENSOR_FORMATS, check_sensors
from gym_batchnav.system.nested import flattened
from gym_batchnav.system.numbers import check_choice, check_counts, check_positive
from gym_batchnav.task.api import Task
from gym_batchnav.task.explore import Explore, Flee
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.task.sensors import PointGoal, PreviousAction

MAX_SENSORS = 64  # besides the camera
MAX_READINGS = 2**16  # numbers of all sensors besides the camera
TASKS: dict[str, type[Task]] = {
    task.__name__: task for task in (PointNav, MultiGoalNav, ObjectNav, ImageNav, InstanceImageNav, Explore, Flee)
}
_COMPARED_APART = ("kind", "sensors", "preset", "frames", "seed")  # sensors by their names, the others not at all


@dataclass(frozen=True, slots=True)
class PolicyAbout:
    """The kind of a policy and the settings of its training.

    Attributes:
        kind: Kind of the policy, see ``make_policy``.
        sensors: Image sensors of the training; empty for a blind policy.
        camera: The agents' camera.
        forward_step: Length of MOVE_FORWARD, metres.
        turn_angle_deg: Angle of a turn, degrees.
        max_episode_steps: Number of actions after which an episode is truncated.
        preset: Name of the training preset, see ``held_out_scenes``.
        frames: Environment steps of the training, summed over environments.
        seed: Seed of the training.
        task_sensors: Sizes of the readings of all other sensors, by name.
        sliding: Whether agents slide along walls.
        task: Name of the task in ``TASKS``, or the class of a user's task as ``module:name``.
        task_settings: Records of the task's fields, by name; see ``records``. Missing ones have their defaults, as has
            the sampler, with whose episodes a policy may run as well as with others.
        navmesh_settings: Size and abilities of the agent for which navmeshes are built.
        actuation_noise: Record of the noise of the agents' motion, or None.
        sensor_noise: Records of the noise of images, by sensor.
        sensor_timing: Records of the timing of sensors, by sensor.
        geodesic: Method of distances.
        other_sensors: Records of the sensors besides images and those of the task, by name.
        spaces: By name, ``"shape"`` of the readings that have several axes or are integers, with ``"first"`` and
            ``"last"`` value of integers.

    Raises:
        ValueError: A value is of another type, out of its range, or the record of an object that cannot be made.
        TypeError: The record of an object lacks a field, or has an unknown one.
    """

    kind: str
    sensors: tuple[str, ...]
    camera: Camera
    forward_step: float
    turn_angle_deg: float
    max_episode_steps: int
    preset: str
    frames: int
    seed: int
    task_sensors: dict[str, int] = field(default_factory=lambda: {PointGoal.name: 2})
    sliding: bool = True
    task: str = PointNav.__name__
    task_settings: dict[str, Any] = field(default_factory=dict)
    navmesh_settings: NavMeshSettings = field(default_factory=NavMeshSettings)
    actuation_noise: dict[str, Any] | None = None
    sensor_noise: dict[str, Any] = field(default_factory=dict)
    sensor_timing: dict[str, Any] = field(default_factory=dict)
    geodesic: str = "exact"
    other_sensors: dict[str, Any] = field(default_factory=dict)
    spaces: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            checked_value(name, getattr(self, name), hint)
        if self.sensors:
            check_sensors(self.sensors)
        check_positive(forward_step=self.forward_step, turn_angle_deg=self.turn_angle_deg)
        check_counts(max_episode_steps=self.max_episode_steps, **self.task_sensors)
        check_choice("geodesic", self.geodesic, GEODESICS)
        sizes = self.task_sensors.values()
        if len(sizes) > MAX_SENSORS or sum(sizes) > MAX_READINGS:
            raise ValueError(
                f"task_sensors has {len(sizes):,} sensors with {sum(sizes):,} numbers: pass at most {MAX_SENSORS} with "
                f"{MAX_READINGS:,}"
            )
        for name, space in self.spaces.items():
            size = self.task_sensors.get(name)
            if not is_space(space) or math.prod(space["shape"]) != size:
                raise ValueError(
                    f"spaces[{name!r}]={space!r}: its 'shape' must hold the {size} numbers of task_sensors[{name!r}], "
                    "and a space of integers needs 'first' and 'last'"
                )
        if not is_record(self.task_settings):
            raise ValueError(f"task_settings={self.task_settings!r}: pass finite numbers, bools, strings and records")
        if self.task in TASKS:
            defaults = fields_of(TASKS[self.task]())
            object.__setattr__(self, "task_settings", {**defaults, **self.task_settings})
            if all(map(is_known, self.task_settings.values())):
                self.make_task()
        self._check_records()

    def _check_records(self) -> None:
        """Raise ValueError unless noise, timing and sensors are records of such objects."""
        noise = {} if self.actuation_noise is None else {"": self.actuation_noise}
        tables = {
            "actuation_noise": (noise, "num_draws"),
            "sensor_noise": (self.sensor_noise, "apply"),
            "sensor_timing": (self.sensor_timing, "period"),
            "other_sensors": (self.other_sensors, "observe"),
        }
        for name, (records, role) in tables.items():
            if len(records) > MAX_SENSORS:
                raise ValueError(f"{name} has {len(records):,} objects: pass at most {MAX_SENSORS}")
            for sensor, record in records.items():
                place = f"{name}[{sensor!r}]={record!r}" if sensor else f"{name}={record!r}"
                if not is_object(record):
                    raise ValueError(f"{place}: pass the record of an object, with its {CLASS!r}")
                if not is_known(record) or record.get("distortion") is not None:
                    continue  # of a user's class or file, which nothing here makes
                made = value_of(record)
                if not hasattr(made, role) or (role == "observe" and made.name != sensor):
                    of_name = " and this name" if role == "observe" else ""
                    raise ValueError(f"{place}: pass an object with {role!r}{of_name}")
        if noise and is_known(noise[""]):
            make_noise(value_of(noise[""]))

    def make_task(self) -> Task:
        """Return the task of the training.

        Raises:
            ValueError: It is a user's task, or a field is an object of a user's class.
        """
        if self.task not in TASKS:
            raise ValueError(f"the policy was trained in the task {self.task!r}: make an environment with that task")
        return TASKS[self.task](**{name: value_of(record) for name, record in self.task_settings.items()})

    def env_keywords(self) -> dict[str, Any]:
        """Return the keywords of a BatchNavEnv like that of the training, without the scenes.

        Raises:
            ValueError: The task or the noise is a user's.
        """
        names = ("camera", "sliding", "max_episode_steps", "geodesic")
        keywords = {"task": self.make_task(), **{name: getattr(self, name) for name in names}}
        keywords["actions"] = DiscreteActions(self.forward_step, self.turn_angle_deg)
        keywords["sensors"] = (*self.sensors, *map(_made, self.other_sensors.values()))
        if self.navmesh_settings != NavMeshSettings():  # otherwise, navmeshes next to scenes are used as they are
            keywords["navmesh_settings"] = self.navmesh_settings
        if self.actuation_noise is not None:
            keywords["actuation_noise"] = _made(self.actuation_noise)
        for name in ("sensor_noise", "sensor_timing"):
            if records := getattr(self, name):
                keywords[name] = {sensor: _made(record) for sensor, record in records.items()}
        return keywords

    def observation_space(self) -> gymnasium.spaces.Dict:
        """Return the observation space of one agent of such an environment: images first, then readings by name."""
        boundless = {name: gymnasium.spaces.Box(-np.inf, np.inf, (size,)) for name, size in self.task_sensors.items()}
        spaces = {name: space_of(record) for name, record in self.spaces.items()}
        return gymnasium.spaces.Dict({**picture_spaces(self.camera, self.sensors), **boundless, **spaces})

    def differences(self, other: PolicyAbout) -> list[str]:
        """Return one line per setting that differs in another description, such as an environment's.

        The camera counts only if the policy uses images. Rewards and sensors that the policy does not use do not count.
        """
        own, others = (flattened(one.record()) for one in (self, other))
        read = {*self.sensors, *self.task_sensors, PreviousAction.name}
        missing = [sensor for sensor in self.sensors if sensor not in other.sensors]
        lines = [f"it has no sensor {sensor!r}, which the policy needs" for sensor in missing]
        for name in sorted(own.keys() | others.keys()):
            table, _, rest = name.partition(".")
            counts = {
                "camera": bool(self.sensors),
                "task_settings": not rest.endswith("_reward") and not rest.startswith("sampler"),
                "task_sensors": name in own,
                "other_sensors": name in own,
                "spaces": name in own and name in others,
                "sensor_noise": rest.split(".")[0] in read,
                "sensor_timing": rest.split(".")[0] in read,
            }.get(table, table not in _COMPARED_APART)
            if counts and own.get(name) != others.get(name):
                lines.append(f"{name} is {others.get(name)!r}, the policy was trained with {own.get(name)!r}")
        return lines

    def record(self) -> dict[str, Any]:
        """Return the description as JSON values, from which ``about_of`` makes it again."""
        described = {one.name: getattr(self, one.name) for one in fields(self)}
        return {**described, **{name: fields_of(described[name]) for name in ("camera", "navmesh_settings")}}


def about_of(described: dict[str, Any]) -> PolicyAbout:
    """Return the description of which ``PolicyAbout.record`` returned ``described``.

    Raises:
        ValueError: A value is invalid, or there are no sensors, camera or navmesh_settings.
        TypeError: Another field is missing, one is unknown, or ``described`` is not a dict.
    """
    for name in ("sensors", "camera", "navmesh_settings"):
        if name not in described:
            raise ValueError(f"its description has no {name!r}")
    changes = {
        "sensors": checked_value("sensors", described["sensors"], tuple[str, ...]),
        "camera": value_of({CLASS: Camera.__name__, **described["camera"]}),
        "navmesh_settings": NavMeshSettings(**described["navmesh_settings"]),
    }
    return PolicyAbout(**{**described, **changes})


def policy_actions(env: BatchNavEnv) -> DiscreteActions:
    """Return the actions of an environment; ValueError unless they are the four that a policy can choose."""
    actions = env.actions
    if not isinstance(actions, DiscreteActions) or actions.look_angle_deg is not None:
        raise ValueError(
            f"actions={actions!r}: gym_batchnav.train has policies for STOP, MOVE_FORWARD and turns only; in Python, "
            "leave out actions= or the look angle, or train with another library (docs/libraries.md)"
        )
    return actions


def policy_about(
    env: BatchNavEnv, kind: str, preset: str, frames: int, seed: int, hidden: Sequence[str] = ()
) -> PolicyAbout:
    """Return the description of a policy that was trained in an environment, without sensors that it does not read.

    Args:
        env: The environment.
        kind: See ``make_policy``.
        preset: Name of the preset whose homes ``evaluate`` uses by default.
        frames: Number of environment steps of the training.
        seed: Its seed.
        hidden: Names of sensors of the teacher, which the policy does not read.

    Raises:
        ValueError: The environment has other actions than these policies.
    """
    actions = policy_actions(env)
    task = type(env.task)
    is_custom = TASKS.get(task.__name__) is not task
    images = (name for name in env.cameras.rig.keys if name in SENSOR_FORMATS)  # policies read no named cameras
    spaces = {
        name: space for name, space in env.components.spaces.items() if name not in (PreviousAction.name, *hidden)
    }
    others = (one for one in env.config.sensors if not isinstance(one, str) and one.name in spaces)
    return PolicyAbout(
        kind=kind,
        sensors=tuple(name for name in images if name not in hidden),
        camera=replace(env.cameras.rig.first, jitter=None),  # jitter, here and of colours, is a matter of training
        forward_step=float(actions.forward_step),
        turn_angle_deg=float(actions.turn_angle_deg),
        max_episode_steps=env.max_episode_steps,
        preset=preset,
        frames=frames,
        seed=seed,
        task_sensors={name: math.prod(space.shape or ()) for name, space in spaces.items()},
        sliding=bool(env.simulator.sliding),
        task=f"{task.__module__}:{task.__qualname__}" if is_custom else task.__name__,
        task_settings={name: record for name, record in fields_of(env.task).items() if name != "sampler"},
        navmesh_settings=env.simulator.navmesh(int(env.library.active[0])).settings,
        actuation_noise=record_of(env.simulator.actuation_noise),
        sensor_noise=record_of(
            {name: one for name, one in (env.config.sensor_noise or {}).items() if not isinstance(one, ColorJitter)}
        ),
        sensor_timing=record_of(env.config.sensor_timing or {}),
        geodesic=env.config.geodesic,
        other_sensors={one.name: record_of(one) for one in others},
        spaces={name: space_record(space) for name, space in spaces.items() if space_record(space)},
    )


def check_world(about: PolicyAbout, env: BatchNavEnv) -> None:
    """Raise ValueError unless an environment has the settings of a policy's training.

    The message names every difference.
    """
    found = policy_about(env, about.kind, about.preset, about.frames, about.seed)
    lines = about.differences(found)
    if lines:
        raise ValueError(
            "the environment differs from that of the policy's training: "
            + "; ".join(lines)
            + ". In Python, make it with BatchNavEnv(**about.env_keywords(), ...), with the about of load_policy, or "
            "allow the mismatch with PolicyAgent(..., allow_mismatch=True) or load_agent(..., allow_mismatch=True)"
        )


def _made(record: dict[str, Any]) -> Any:
    """Return the object of a record, unless it is of a user's class or names a file, which would be read."""
    if not is_known(record) or record.get("distortion") is not None:
        raise ValueError(f"the policy was trained with {record!r}: make an environment with it")
    return value_of(record)
