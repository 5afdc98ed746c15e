"""Policy files: weights and the settings of their training, in one safetensors file that is safe to share."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as pack_tensors

from gym_batchnav.actions.choice import make_noise
from gym_batchnav.actions.discrete import DiscreteActions
from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.env.rig import picture_spaces
from gym_batchnav.env.settings import check_choice
from gym_batchnav.geometry import Camera
from gym_batchnav.lenses import lens_of, lens_record
from gym_batchnav.navmesh.mesh import NavMeshSettings
from gym_batchnav.navmesh.methods import GEODESICS
from gym_batchnav.render.api import SENSOR_FORMATS
from gym_batchnav.render.checks import check_sensors
from gym_batchnav.system.nested import flattened
from gym_batchnav.system.numbers import check_counts, check_flags, check_positive
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.task.api import Task
from gym_batchnav.task.explore import Explore
from gym_batchnav.task.flee import Flee
from gym_batchnav.task.imagenav import ImageNav, InstanceImageNav
from gym_batchnav.task.multigoal import MultiGoalNav
from gym_batchnav.task.objectnav import ObjectNav
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.train.policy import GOAL, POLICIES, PREVIOUS_ACTION, Policy, make_policy
from gym_batchnav.train.records import (
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

FORMAT = "gym_batchnav policy 2"
MAX_BYTES = 256 * 2**20
MAX_HEADER_BYTES = 2**18
MAX_REASON = 300  # characters of the reason in an error about a damaged file
MAX_SENSORS = 64  # besides the camera
MAX_READINGS = 2**16  # numbers of all sensors besides the camera
TASKS: dict[str, type[Task]] = {
    task.__name__: task for task in (PointNav, MultiGoalNav, ObjectNav, ImageNav, InstanceImageNav, Explore, Flee)
}
WORLD = (
    "task", "task_settings", "sensors", "task_sensors", "camera", "forward_step", "turn_angle_deg", "sliding",
    "actuation_noise", "sensor_noise", "sensor_timing", "max_episode_steps", "navmesh_settings",
    "geodesic", "other_sensors", "spaces",
)  # fmt: skip
# Settings that older files do not have, and their values there.
LATER: dict[str, Any] = {
    "actuation_noise": None, "sensor_noise": {}, "sensor_timing": {}, "geodesic": "exact", "other_sensors": {},
    "spaces": {},
}  # fmt: skip


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
        preset: Name of the training preset, which has the held-out scenes.
        frames: Environment steps of the training, summed over environments.
        seed: Seed of the training.
        task_sensors: Sizes of the readings of all other sensors, by name.
        sliding: Whether agents slide along walls.
        task: Name of the task in ``TASKS``, or the class of a user's task as ``module:name``.
        task_settings: Records of the task's fields, by name; see ``records``. Older files have numbers and bools only,
            and the other fields have their defaults.
        navmesh_settings: Size and abilities of the agent for which navmeshes are built.
        actuation_noise: Record of the noise of the agents' motion, or None.
        sensor_noise: Records of the noise of images, by sensor.
        sensor_timing: Records of the timing of sensors, by sensor.
        geodesic: Method of distances.
        other_sensors: Records of the sensors besides images and those of the task, by name.
        spaces: By name, ``"shape"`` of the readings that have several axes or are integers, with ``"first"`` and
            ``"last"`` value of integers.
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
    task_sensors: dict[str, int] = field(default_factory=lambda: {GOAL: 2})
    sliding: bool = True
    task: str = PointNav.__name__
    task_settings: dict[str, Any] = field(default_factory=lambda: fields_of(PointNav()))
    navmesh_settings: NavMeshSettings = field(default_factory=NavMeshSettings)
    actuation_noise: dict[str, Any] | None = None
    sensor_noise: dict[str, Any] = field(default_factory=dict)
    sensor_timing: dict[str, Any] = field(default_factory=dict)
    geodesic: str = "exact"
    other_sensors: dict[str, Any] = field(default_factory=dict)
    spaces: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError unless an environment can have these settings."""
        check_choice("policy", self.kind, POLICIES)
        if self.sensors:
            check_sensors(self.sensors)
        check_positive(forward_step=self.forward_step, turn_angle_deg=self.turn_angle_deg)
        check_counts(max_episode_steps=self.max_episode_steps)
        check_flags(sliding=self.sliding)
        check_choice("geodesic", self.geodesic, GEODESICS)
        if not isinstance(self.task_sensors, dict):
            raise ValueError(f"task_sensors={self.task_sensors!r}: pass sizes by name")
        if len(self.task_sensors) > MAX_SENSORS:
            raise ValueError(f"task_sensors of {len(self.task_sensors):,} sensors: pass at most {MAX_SENSORS}")
        check_counts(**self.task_sensors)
        if sum(self.task_sensors.values()) > MAX_READINGS:
            raise ValueError(f"task_sensors={self.task_sensors!r}: pass at most {MAX_READINGS:,} numbers in all")
        for name, kind in (("preset", str), ("frames", int), ("seed", int), ("task", str)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name}={getattr(self, name)!r}: pass a value of type {kind.__name__}")
        self._check_task_settings()
        self._check_noise()
        self._check_other_sensors()
        spaces = self.spaces
        if not isinstance(spaces, dict) or any(
            not is_space(one) or math.prod(one["shape"]) != self.task_sensors.get(name) for name, one in spaces.items()
        ):
            raise ValueError(f"spaces={spaces!r}: pass shapes of the sizes in task_sensors, and bounds of integers")

    def _check_other_sensors(self) -> None:
        """Raise ValueError unless the other sensors are records of sensors with these names."""
        records = self.other_sensors
        if not isinstance(records, dict) or len(records) > MAX_SENSORS or not all(map(is_object, records.values())):
            raise ValueError(f"other_sensors={records!r}: pass records of at most {MAX_SENSORS} sensors by name")
        for name, record in records.items():
            if is_known(record) and getattr(value_of(record), "name", None) != name:
                raise ValueError(f"other_sensors={records!r}: {name!r} is not the name of such a sensor")

    def _check_noise(self) -> None:
        """Raise ValueError unless noise and timing are records of objects."""
        noise = self.actuation_noise
        if noise is not None and not is_object(noise):
            raise ValueError(f"actuation_noise={noise!r}: pass the record of a noise, or None")
        if noise is not None and is_known(noise):
            make_noise(value_of(noise))
        for name, role in (("sensor_noise", "apply"), ("sensor_timing", "period")):
            records = getattr(self, name)
            if not isinstance(records, dict) or not all(map(is_object, records.values())):
                raise ValueError(f"{name}={records!r}: pass records of objects by sensor")
            for record in filter(is_known, records.values()):
                if record.get("distortion") is None and not hasattr(value_of(record), role):
                    raise ValueError(f"{name}={records!r}: an object of this class cannot be used there")

    def _check_task_settings(self) -> None:
        """Raise ValueError unless the task's settings are records, and those of its class."""
        settings = self.task_settings
        if not isinstance(settings, dict) or not is_record(settings):
            raise ValueError(f"task_settings={settings!r}: pass finite numbers, bools, texts and records by name")
        if self.task not in TASKS:
            return
        known = fields_of(TASKS[self.task]())
        needed = {name for name, value in known.items() if isinstance(value, (bool, int, float))}
        if not needed <= settings.keys() <= known.keys():
            raise ValueError(f"task_settings={settings!r} do not match the fields of {self.task}: pass all of them")
        if all(map(is_known, settings.values())):
            self.make_task()

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
        names = ("camera", "forward_step", "turn_angle_deg", "sliding", "max_episode_steps", "geodesic")
        keywords = {"task": self.make_task(), **{name: getattr(self, name) for name in names}}
        keywords["sensors"] = (*self.sensors, *map(_made, self.other_sensors.values()))
        if self.navmesh_settings != NavMeshSettings():  # otherwise, navmeshes beside scenes are used as they are
            keywords["navmesh_settings"] = self.navmesh_settings
        if self.actuation_noise is not None:
            keywords["actuation_noise"] = _made(self.actuation_noise)
        for name in ("sensor_noise", "sensor_timing"):
            if records := getattr(self, name):
                keywords[name] = {sensor: _made(record) for sensor, record in records.items()}
        return keywords

    def observation_space(self) -> gymnasium.spaces.Dict:
        """Return the observation space of one agent of such an environment."""
        boundless = {name: gymnasium.spaces.Box(-np.inf, np.inf, (size,)) for name, size in self.task_sensors.items()}
        readings: dict[str, Any] = boundless | {name: space_of(record) for name, record in self.spaces.items()}
        if self.task in TASKS and all(map(is_known, self.task_settings.values())):
            # Layers of categories and goal pictures depend on their spaces, which older files do not have.
            spaces = {sensor.name: sensor.space for sensor in self.make_task().sensors}
            readings |= {
                name: space
                for name, space in spaces.items()
                if isinstance(space, gymnasium.spaces.Box) and math.prod(space.shape) == self.task_sensors.get(name)
            }
        return gymnasium.spaces.Dict({**picture_spaces(self.camera, self.sensors), **readings})

    def differences(self, other: PolicyAbout) -> list[str]:
        """Return one line per setting of the world that differs in another description, such as an environment's.

        The camera counts only if the policy uses images; sensors that the policy does not use do not count.
        """
        own, others = (flattened({name: _complete(one)[name] for name in WORLD}) for one in (self, other))
        if not self.sensors:
            own, others = (
                {name: value for name, value in one.items() if name[:7] != "camera."} for one in (own, others)
            )
        lines = []
        read = {*self.sensors, *self.task_sensors, PREVIOUS_ACTION}
        for name in sorted(own.keys() | others.keys()):
            value = own.get(name)
            found = others.get(name)
            if name == "sensors":
                missing = [sensor for sensor in self.sensors if sensor not in other.sensors]
                lines += [f"it has no sensor {sensor!r}, which the policy needs" for sensor in missing]
            elif name.startswith(("sensor_noise.", "sensor_timing.")) and name.split(".")[1] not in read:
                continue
            elif name.startswith(("task_sensors.", "other_sensors.")):
                if name in own and value != found:
                    lines.append(f"{name} is {found!r}, the policy was trained with {value!r}")
            elif name.startswith("spaces."):
                if name in own and name in others and value != found:
                    lines.append(f"{name} is {found!r}, the policy was trained with {value!r}")
            elif value != found:
                lines.append(f"{name} is {found!r}, the policy was trained with {value!r}")
        return lines


def policy_actions(env: BatchNavEnv) -> DiscreteActions:
    """Return the actions of an environment that a policy can choose.

    Raises:
        ValueError: They are not the four discrete actions.
    """
    actions = env.actions
    if not isinstance(actions, DiscreteActions) or actions.look_angle_deg is not None:
        raise ValueError(
            f"actions={actions!r}: gym_batchnav.train has policies for STOP, MOVE_FORWARD and turns only; leave out "
            "actions= or the look angle, or train with another library (docs/libraries.md, examples/sb3_sac.py)"
        )
    return actions


def policy_about(
    env: BatchNavEnv, kind: str, preset: str, frames: int, seed: int, hidden: Sequence[str] = ()
) -> PolicyAbout:
    """Return the description of a policy that was trained in an environment, without sensors that it does not read.

    Raises:
        ValueError: The environment has other actions than these policies.
    """
    actions = policy_actions(env)
    task = type(env.task)
    is_custom = TASKS.get(task.__name__) is not task
    images = (name for name in env.cameras.sensors if name in SENSOR_FORMATS)  # policies read no named cameras
    spaces = {name: space for name, space in env.components.spaces.items() if name not in (PREVIOUS_ACTION, *hidden)}
    others = (one for one in env.settings.other_sensors if one.name in spaces)
    return PolicyAbout(
        kind=kind,
        sensors=tuple(name for name in images if name not in hidden),
        camera=replace(env.cameras.camera, jitter=None),  # jitter is a matter of training
        forward_step=float(actions.forward_step),
        turn_angle_deg=float(actions.turn_angle_deg),
        max_episode_steps=env.max_episode_steps,
        preset=preset,
        frames=frames,
        seed=seed,
        task_sensors={name: math.prod(space.shape or ()) for name, space in spaces.items()},
        sliding=bool(env.simulator.sliding),
        task=f"{task.__module__}:{task.__qualname__}" if is_custom else task.__name__,
        task_settings=fields_of(env.task),
        navmesh_settings=env.simulator.navmesh(int(env.library.active[0])).settings,
        actuation_noise=record_of(env.simulator.actuation_noise),
        sensor_noise=record_of(env.settings.sensor_noise or {}),
        sensor_timing=record_of(env.settings.sensor_timing or {}),
        geodesic=env.settings.geodesic,
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
            + ". Make it with BatchNavEnv(**about.env_keywords(), ...), or allow the mismatch with allow_mismatch=True"
        )


def save_policy(path: str | Path, policy: Policy, about: PolicyAbout, half: bool = False) -> None:
    """Write a policy file atomically.

    Args:
        path: The file.
        policy: The policy.
        about: Its description.
        half: Store the weights with 16 bits, in a file of half the size. ``load_policy`` returns them with 32.
    """
    weights = {
        name: one.detach().cpu().contiguous().clone()
        for name, one in policy.state_dict().items()
        if not name.startswith("predictions.")  # these only serve learning
    }
    if half:
        weights.update({name: weights[name].half() for name, _ in policy.named_parameters() if name in weights})
    write_atomically(Path(path), pack_tensors(weights, {"format": FORMAT, "about": json.dumps(_record(about))}))


def load_policy(path: str | Path) -> tuple[Policy, PolicyAbout]:
    """Load a policy, on the CPU, and its description.

    Loading an untrusted file is safe: nothing in it is executed, and size, header and sensors are bounded.

    Raises:
        ValueError: The file is not a safetensors file or not a policy, is damaged, or has other weights than its
            description says.
        FileNotFoundError: The file does not exist.
    """
    path = Path(path)
    _check_size(path)
    try:
        weights, described = _read(path)
        about = _about(described)
        with torch.device("meta"):  # allocates nothing: an untrusted file may describe huge weights
            policy = make_policy(about.kind, about.observation_space())
        expected = {name: (one.shape, one.dtype) for name, one in policy.state_dict().items()}
        if {name: (one.shape, one.dtype) for name, one in weights.items()} != expected:
            raise ValueError(f"its weights are not those of a {about.kind!r} policy with these sensors")
        policy.load_state_dict(weights, assign=True)
    except (SafetensorError, KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        reason = str(error)[:MAX_REASON]  # it may quote long texts of the file
        raise ValueError(f"policy file '{path}' is damaged: {reason}") from error
    return policy, about


def _check_size(path: Path) -> None:
    """Raise ValueError if a file has no safetensors header (8 bytes of length, then JSON), or either is too large."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}': check the path")
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"policy file '{path}' has more than {MAX_BYTES:,} bytes: pass a file that train wrote")
    with path.open("rb") as file:
        start = file.read(9)
    if start[8:] != b"{":  # the beginning of every header
        raise ValueError(f"policy file '{path}' is not a safetensors file: pass a file that gym-batchnav train wrote")
    (size,) = struct.unpack("<Q", start[:8])
    if size > MAX_HEADER_BYTES:
        raise ValueError(f"policy file '{path}' is damaged: its header has {size:,} bytes, over {MAX_HEADER_BYTES:,}")


def _read(path: Path) -> tuple[dict[str, torch.Tensor], Any]:
    """Return weights by name, and the description as JSON values."""
    with safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        if header.get("format") != FORMAT:
            raise ValueError(f"its format is {header.get('format')!r}, not {FORMAT!r}")
        # Copied, because tensors in the file may not be aligned, and results depend on the alignment.
        weights = {name: file.get_tensor(name).clone() for name in file.keys()}
        widened = {name: one.float() if one.dtype == torch.float16 else one for name, one in weights.items()}
        return widened, json.loads(header["about"])


def _about(described: dict[str, Any]) -> PolicyAbout:
    """Return the description that ``save_policy`` wrote as JSON."""
    described = {**LATER, **described}
    missing = {one.name for one in fields(PolicyAbout)} - described.keys()
    if missing:
        raise ValueError(f"its description has no {', '.join(sorted(missing))}")
    camera = described["camera"]
    if isinstance(camera, dict) and camera.get("lens") is not None:
        camera = {**camera, "lens": lens_of(camera["lens"])}
    changes = {
        "sensors": tuple(described["sensors"]),
        "camera": Camera(**camera),
        "navmesh_settings": NavMeshSettings(**described["navmesh_settings"]),
    }
    return PolicyAbout(**{**described, **changes})


def _record(about: PolicyAbout) -> dict[str, Any]:
    """Return a description as plain values, of which JSON makes what ``_about`` reads."""
    lens = about.camera.lens
    described = asdict(about)
    described["camera"]["lens"] = None if lens is None else lens_record(lens)
    return described


def _made(record: dict[str, Any]) -> Any:
    """Return the object of a record.

    Raises:
        ValueError: It is of a user's class, or a file that it names would be read.
    """
    if not is_known(record) or record.get("distortion") is not None:
        raise ValueError(f"the policy was trained with {record!r}: make an environment with it")
    return value_of(record)


def _complete(about: PolicyAbout) -> dict[str, Any]:
    """Return a description as plain values, with the task's fields that an older file does not have."""
    defaults = fields_of(TASKS[about.task]()) if about.task in TASKS else {}
    return {**_record(about), "task_settings": {**defaults, **about.task_settings}}
