"""The settings of a training run: a preset, a run file (TOML, or the run.json of another run) and changes by name."""

from __future__ import annotations

import difflib
import json
import re
import sys
import typing
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.evaluation.records import CLASS, NAMED_SENSORS, NONE, checked_value, fields_of, sensors_of, value_of
from gym_batchnav.evaluation.world import TASKS
from gym_batchnav.geometry import Camera
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.noise.rgb import ColorJitter
from gym_batchnav.render.api import SENSOR_FORMATS
from gym_batchnav.system.nested import flattened
from gym_batchnav.system.numbers import check_choice, check_counts, check_positive, check_seed
from gym_batchnav.task.api import Task
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.task.sensors import WalkScan
from gym_batchnav.train.imitation import FOLLOWER, MAPPER
from gym_batchnav.train.policy import POLICIES
from gym_batchnav.train.ppo import PPOConfig

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "run.json"  # in the folder of a run
FOLDER = Path(__file__).parent / "presets"
MAX_BYTES = 2**20  # of a run file
ALIASES = {"frames": "ppo.total_frames"}
# Settings that may differ when a run is resumed.
CHANGEABLE = ("ppo.total_frames", "ppo.autocast", "time_limit", "threads")
ON_A_GPU = ("ppo.channels_last", "ppo.compile")
# Kinds of policies that read no images, and the sensors that they have by default.
SENSORS_WITHOUT_IMAGES: dict[str, tuple[str, ...]] = {"blind": (), "scan": (WalkScan.name,)}
_UNITS = {"s": 1, "m": 60, "h": 3600}

Settings = TypeVar("Settings")
Names = Mapping[str, Any]  # values of settings by dotted names, such as ``{"ppo.gamma": 0.995}``


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Settings of a training run; see ``make_config``.

    Attributes:
        preset: Name of the preset with which the settings began.
        seed: Seed of weights, environments, actions and mini-batches.
        time_limit: Seconds after which the training ends, if ``ppo.total_frames`` have not been reached before.
        init: A policy file from whose weights the training begins.
        scenes: Training scenes.
        policy: Kind of policy, see ``make_policy``.
        ppo: Hyper-parameters.
        num_envs: N, the number of environments.
        resident_scenes: K, the number of scenes in use at a time.
        rotate_every: Minimum number of steps between two changes of scene.
        sensors: Names of the agents' sensors, images and others such as ``"map_path"``; see ``sensors_of``.
        teacher_sensors: Names of further sensors, which the teacher reads and the policy does not; it learns to predict
            their readings. Only training has them. Those among ``sensors`` are left out.
        camera: The agents' camera.
        color_jitter: How colours vary from image to image, if the agents see any.
        task: The task, with its reward.
        num_episodes: Number of episodes to sample for a scene that comes without any.
        device: ``"cpu"``, or ``"cuda"`` for networks and, unless noise or a map reads them, images on an NVIDIA GPU.
        renderer: See BatchNavEnv.
        threads: Number of threads that torch and Numba share; by default one per processor that the workers of this
            machine may use.
    """

    preset: str = "cpu"
    seed: int = 0
    time_limit: float | None = None
    init: str | None = None
    scenes: tuple[str, ...] = ("apartments",)
    policy: str = "small"
    ppo: PPOConfig = field(default_factory=PPOConfig)
    num_envs: int = 256
    resident_scenes: int = 16
    rotate_every: int = 250
    sensors: tuple[str, ...] = ("depth",)
    teacher_sensors: tuple[str, ...] = ()
    camera: Camera = field(default_factory=Camera)
    color_jitter: ColorJitter | None = None
    task: Task = field(default_factory=PointNav)
    num_episodes: int = 1000
    device: str = "cpu"
    renderer: str = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        check_choice("policy", self.policy, POLICIES)
        check_choice("device", self.device, ("cpu", "cuda"))
        check_counts(
            num_envs=self.num_envs, resident_scenes=self.resident_scenes, rotate_every=self.rotate_every,
            num_episodes=self.num_episodes, threads=1 if self.threads is None else self.threads,
        )  # fmt: skip
        for name in ("sensors", "teacher_sensors"):
            for sensor in getattr(self, name):
                check_choice(name, sensor, (*SENSOR_FORMATS, *NAMED_SENSORS))
        further = tuple(name for name in self.teacher_sensors if name not in self.sensors)
        object.__setattr__(self, "teacher_sensors", further)
        check_seed(seed=self.seed)
        if self.time_limit is not None:
            check_positive(time_limit=self.time_limit)

    def make_env(self, **overrides: Any) -> BatchNavEnv:
        """Make a training environment; see ``env_keywords``."""
        return BatchNavEnv(**self.env_keywords(**overrides))

    def env_keywords(self, **overrides: Any) -> dict[str, Any]:
        """Return the keywords of a training environment; ``overrides`` are some of them, including ``num_envs``.

        A plain value of ``scenes=`` names other scenes; how many are resident stays as it is.
        """
        num_envs = overrides.get("num_envs", self.num_envs)
        scenes = overrides.get("scenes", self.scenes)
        if not isinstance(scenes, Scenes):
            scenes = Scenes(
                scenes,
                resident=min(self.resident_scenes, num_envs),
                rotate_every=self.rotate_every,
                deterministic_rotation=self.device == "cpu",
            )
        sensors = (*self.sensors, *self.teacher_sensors)
        color_jitter = self.color_jitter if "rgb" in self.sensors else None
        reads_images = color_jitter is not None or MapPath.name in sensors  # in main memory
        return {
            "num_envs": num_envs,
            "sensors": sensors_of(sensors),
            "episodes": self.num_episodes,
            "autoreset_mode": "same_step",
            "buffers": 2,
            "camera": self.camera,
            "sensor_noise": None if color_jitter is None else {"rgb": color_jitter},
            "task": self.task,
            "obs_device": "cpu" if reads_images else self.device,
            "renderer": self.renderer,
            **overrides,
            "scenes": scenes,
        }

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        described = {one.name: getattr(self, one.name) for one in fields(self)}
        inner = {name: fields_of(described[name]) for name in ("ppo", "camera", "task")}
        if self.color_jitter is not None:
            inner["color_jitter"] = fields_of(self.color_jitter)
        inner["task"] = {CLASS: type(self.task).__name__, **inner["task"]}
        return json.loads(json.dumps({**described, **inner}))


def make_config(names: Names) -> RunConfig:
    """Return the settings that some names choose; the others are those of the preset.

    ``preset`` names it, ``frames`` is short for ``ppo.total_frames``, and a time limit may be written as ``"90s"``,
    ``"60m"`` or ``"2h"``. Settings of the preset that do not suit those that are named are adapted: a policy without
    images loses the images that none of its other sensors reads, and ``MapPath`` with them, another ``device`` also
    sets the switches for GPUs, there are no more mini-batches than environments, without ``MapPath`` the teacher is the
    follower, and with ``init`` no teacher is imitated.

    Raises:
        ValueError: The setting is unknown, or its value is invalid.
    """
    names = {ALIASES.get(name, name): value for name, value in names.items() if value is not None}
    preset = names.get("preset", "cpu")
    check_choice("preset", preset, tuple(sorted(path.stem for path in FOLDER.glob("*.toml"))))
    limit = names.get("time_limit")
    if isinstance(limit, str) and limit != NONE:
        names["time_limit"] = seconds_of("time_limit", limit)
    base = _preset(preset)
    device = names.get("device", base.device)
    switches = dict.fromkeys(ON_A_GPU, device == "cuda") if device != base.device else {}
    config = with_changes(base, {**switches, **names})
    adapted: dict[str, Any] = {}
    if config.policy in SENSORS_WITHOUT_IMAGES:
        chosen = config.sensors if "sensors" in names else SENSORS_WITHOUT_IMAGES[config.policy]
        adapted["sensors"] = _without_images(chosen)
        if "teacher_sensors" not in names and "depth" not in (*adapted["sensors"], *config.teacher_sensors):
            adapted["teacher_sensors"] = tuple(one for one in config.teacher_sensors if one != MapPath.name)
    if "ppo.num_minibatches" not in names:
        adapted["ppo.num_minibatches"] = min(config.ppo.num_minibatches, config.num_envs)
    if config.init is not None and "ppo.imitation_share" not in names:
        adapted["ppo.imitation_share"] = 0.0
    seen = (*adapted.get("sensors", config.sensors), *adapted.get("teacher_sensors", config.teacher_sensors))
    if "ppo.teacher" not in names and config.ppo.teacher == MAPPER and MapPath.name not in seen:
        adapted["ppo.teacher"] = FOLLOWER  # the mapper of a preset reads this sensor
    return with_changes(config, adapted)


def updated(names: Names, later: Names) -> dict[str, Any]:
    """Return names with those of ``later`` behind them, by their full names, since the last one counts."""
    later = {ALIASES.get(name, name): value for name, value in later.items() if value is not None}
    return {**{name: value for name, value in names.items() if name not in later}, **later}


@cache
def _preset(name: str) -> RunConfig:
    """Return the settings of a preset's file, which may begin with those of another one."""
    names = read_config(FOLDER / f"{name}.toml")
    base = names.pop("preset", None)
    return with_changes(RunConfig() if base is None else _preset(base), {**names, "preset": name})


def _without_images(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return sensors without the images that none of the others reads."""
    others = tuple(name for name in names if name not in SENSOR_FORMATS)
    read = {image for one in sensors_of(others) for image in getattr(one, "images", ())}
    return tuple(name for name in names if name in others or name in read)


def seconds_of(name: str, text: str) -> float:
    """Return the seconds of a duration such as ``"90s"``, ``"60m"`` or ``"1.5h"``; errors begin with ``name``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip().lower())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds:
        raise ValueError(f"{name}={text!r}: write a positive duration such as 90s, 60m or 2h")
    return seconds


def read_config(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file, whose tables are nested settings, or a ``run.json`` by dotted names.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is too large, or neither TOML nor the file of a run.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no run file '{path}': check the path")
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise ValueError(f"'{path}' has {size:,} bytes: a run file has at most {MAX_BYTES:,}")
    try:
        text = path.read_text(encoding="utf-8")
        names = flattened(json.loads(text)["given"] if path.suffix == ".json" else tomllib.loads(text))
        return {ALIASES.get(name, name): value for name, value in names.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        kind = "the run.json of a run" if path.suffix == ".json" else "TOML"
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)[:300]
        raise ValueError(f"'{path}' is not {kind}: {reason}") from error


def parse_assignment(text: str) -> tuple[str, Any]:
    """Return the name and the value of an assignment such as ``ppo.gamma=0.995``.

    The value is one of TOML; any other word, such as ``cuda``, is a string.

    Raises:
        ValueError: There is no ``=``, or no name before it.
    """
    name, sign, value = text.partition("=")
    name = name.strip()
    if not sign or not name:
        raise ValueError(f"{text!r} assigns nothing: write name=value, such as ppo.gamma=0.995")
    try:
        return name, tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        return name, value.strip()


def with_changes(settings: Settings, changes: Mapping[str, Any], prefix: str = "") -> Settings:
    """Return a dataclass with other values of some fields, by name; the names of nested fields are joined by dots.

    ``class`` among the fields of an object, such as ``task.class``, makes one of another class. The prefix, for errors,
    is the name of the dataclass itself with a dot.

    Raises:
        ValueError: A field is unknown, or the value is not one of its type.
    """
    known = [field.name for field in fields(settings) if field.init]  # type: ignore[arg-type]
    hints = typing.get_type_hints(type(settings))
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in changes.items():
        first, _, rest = name.partition(".")
        if first not in known:
            close = difflib.get_close_matches(first, known, 1)
            remedy = f"did you mean {prefix}{close[0]}?" if close else f"choose one of {', '.join(known)}"
            raise ValueError(f"unknown setting {prefix}{first}: {remedy}")
        if rest:
            inner[first][rest] = value
        else:
            inner.pop(first, None)  # the later one counts
            try:
                own[first] = checked_value(f"{prefix}{first}", value, hints[first])
            except ValueError as error:
                current = getattr(settings, first)
                if not is_dataclass(current):
                    raise
                parts = [] if isinstance(current, tuple(TASKS.values())) else [one.name for one in fields(current)]
                raise ValueError(f"{error}: set its parts, such as {prefix}{first}.{[*parts, CLASS][0]}") from error
    for first, nested in inner.items():
        if any(typing.get_origin(kind) is Mapping for kind in typing.get_args(hints[first])):  # such as task.aliases
            own[first] = checked_value(f"{prefix}{first}", {**dict(own.get(first, ())), **nested}, hints[first])
            continue
        current = own.get(first, getattr(settings, first))
        if current is None:  # such as a camera without jitter
            makers: list[Any] = [kind for kind in typing.get_args(hints[first]) if is_dataclass(kind)]
            current = makers[0]() if makers else None
        own[first] = _nested(current, nested, f"{prefix}{first}")
    return replace(settings, **own)  # type: ignore[type-var]


def _nested(current: Any, changes: dict[str, Any], name: str) -> Any:
    """Return an object with other values of some fields, or an object of another class."""
    if CLASS not in changes:
        if not is_dataclass(current) or isinstance(current, type):
            remedy = f", or {name}.{CLASS} of an object" if current is None else ""  # such as camera.lens
            raise ValueError(f"{name}={current!r} has no nested settings: set {name} itself{remedy}")
        return with_changes(current, changes, f"{name}.")
    kind = changes.pop(CLASS)
    if isinstance(current, tuple(TASKS.values())):
        check_choice(f"{name}.{CLASS}", kind, tuple(TASKS))
        return with_changes(TASKS[kind](), changes, f"{name}.")
    try:
        return value_of({CLASS: kind, **changes})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from error
