"""The settings of a training run, and the file that records them in its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import gym_batchnav
from gym_batchnav.env.config import check_choice
from gym_batchnav.evaluation.records import sensors_of
from gym_batchnav.mapping.sensors import MapPath
from gym_batchnav.render.api import SENSOR_FORMATS
from gym_batchnav.system.nested import flattened
from gym_batchnav.system.numbers import check_counts, check_positive
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.train.imitation import TEACHERS
from gym_batchnav.train.policy import POLICIES
from gym_batchnav.train.run.config import checked_value, with_changes
from gym_batchnav.train.run.presets import ON_A_GPU, PRESETS, Preset

FILE = "run.json"
_UNITS = {"s": 1, "m": 60, "h": 3600}
# Kinds of policies that read no images, and the sensors that they have by default.
SENSORS_WITHOUT_IMAGES: dict[str, tuple[str, ...]] = {"blind": (), "scan": ("walk_scan",)}
CHANGEABLE = ("frames", "time_limit", "threads")  # settings that may differ when a run is resumed


@dataclass(frozen=True, slots=True)
class RunSettings:
    """A preset and changes to it; None keeps the value of the preset.

    Attributes:
        preset: Name of the preset.
        seed: Seed of weights, environments, actions and mini-batches.
        frames: Length of the training in environment steps, summed over environments.
        time_limit: Length of the training in seconds.
        scenes: Training scenes.
        policy: Kind of policy, see ``make_policy``.
        num_envs: N, the number of environments.
        device: ``"cpu"`` or ``"cuda"``.
        threads: Number of threads that torch and Numba share; by default one per processor that the workers of this
            machine may use.
        changes: Any other settings of the preset by dotted names, such as ``{"ppo.gamma": 0.995}``.
    """

    preset: str = "cpu"
    seed: int = 0
    frames: int | None = None
    time_limit: float | None = None
    scenes: tuple[str, ...] | None = None
    policy: str | None = None
    num_envs: int | None = None
    device: str | None = None
    threads: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError if a setting is invalid."""
        check_choice("preset", self.preset, tuple(PRESETS))
        if self.policy is not None:
            check_choice("policy", self.policy, tuple(POLICIES))
        if self.device is not None:
            check_choice("device", self.device, ("cpu", "cuda"))
        counts = {"frames": self.frames, "num_envs": self.num_envs, "threads": self.threads}
        check_counts(**{name: one for name, one in counts.items() if one is not None})
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed}: pass a whole number from 0 to 2**32 - 1")
        if self.time_limit is not None:
            check_positive(time_limit=self.time_limit)
        self.resolved()

    def resolved(self) -> Preset:
        """Return the preset with the changes applied."""
        preset = PRESETS[self.preset]
        if self.device is not None:
            on_gpu = ON_A_GPU if self.device == "cuda" else dict.fromkeys(ON_A_GPU, False)
            preset = replace(preset, ppo=replace(preset.ppo, **on_gpu))
        preset = with_changes(preset, self.changes)
        changes: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("scenes", "policy", "num_envs", "device", "threads")
            if getattr(self, name) is not None
        }
        kind = changes.get("policy", preset.policy)
        if kind in SENSORS_WITHOUT_IMAGES:
            chosen = preset.sensors if "sensors" in self.changes else SENSORS_WITHOUT_IMAGES[kind]
            changes["sensors"] = _without_images(chosen)
        learning: dict[str, Any] = {"total_frames": self.frames or preset.ppo.total_frames}
        if "ppo.num_minibatches" not in self.changes:
            learning["num_minibatches"] = min(preset.ppo.num_minibatches, self.num_envs or preset.num_envs)
        seen = (*changes.get("sensors", preset.sensors), *preset.teacher_sensors)
        if "ppo.teacher" not in self.changes and MapPath.name not in seen:
            learning["teacher"] = TEACHERS[0]  # the mapper of a preset reads this sensor
        changes["ppo"] = replace(preset.ppo, **learning)
        return replace(preset, **changes)

    def changed(self, given: dict[str, Any], where: Path) -> RunSettings:
        """Return these settings with the changes that are allowed when a run is resumed.

        Raises:
            ValueError: Another setting differs.
        """
        for name, value in given.items():
            if name == "changes" and not value:
                continue
            if name not in CHANGEABLE and getattr(self, name) != value:
                raise ValueError(
                    f"'{where}' contains a run with {name}={getattr(self, name)!r}, not {value!r}: "
                    f"leave {name}= out to resume it, or pass another out="
                )
        return replace(self, **{name: value for name, value in given.items() if name in CHANGEABLE})

    def description(self) -> dict[str, Any]:
        """Return everything that a run depends on, as JSON values."""
        described = {"version": gym_batchnav.__version__, "settings": asdict(self), "preset": asdict(self.resolved())}
        return json.loads(json.dumps(described))


def _without_images(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return sensors without the images that none of the others reads."""
    others = tuple(name for name in names if name not in SENSOR_FORMATS)
    read = {image for one in sensors_of(others) for image in getattr(one, "images", ())}
    return tuple(name for name in names if name in others or name in read)


def run_keywords(names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of RunSettings for settings by dotted names, as ``read_config`` returns them.

    Raises:
        ValueError: A value is of the wrong type.
    """
    hints = get_type_hints(RunSettings)
    given: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    for name, value in names.items():
        if name == "time_limit" and isinstance(value, str):
            given[name] = seconds_of(name, value)
        elif name in hints:
            given[name] = checked_value(name, value, hints[name])
        else:
            changes[name] = value
    return {**given, **({"changes": changes} if changes else {})}


def seconds_of(name: str, text: str) -> float:
    """Return the seconds of a duration such as ``"90s"``, ``"60m"`` or ``"1.5h"``.

    Raises:
        ValueError: The text is not a positive duration; the message begins with ``name``.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip().lower())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds:
        raise ValueError(f"{name}={text!r}: write a positive duration such as 90s, 60m or 2h")
    return seconds


def write_run_file(out: Path, settings: RunSettings) -> None:
    """Write the file that records the settings of a run."""
    write_atomically(out / FILE, (json.dumps(settings.description(), indent=2) + "\n").encode())


def read_run_file(out: Path) -> RunSettings:
    """Read the settings of the run in a folder.

    Raises:
        ValueError: The file is damaged.
    """
    path = out / FILE
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))["settings"]
        known = {one.name: stored[one.name] for one in fields(RunSettings) if one.name in stored}
        scenes = known.get("scenes")
        return RunSettings(**{**known, "scenes": None if scenes is None else tuple(scenes)})
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"'{path}' is damaged ({str(error)[:300]}): pass another out=") from error


def check_same_run(about: dict[str, Any], settings: RunSettings, path: Path) -> None:
    """Raise ValueError unless a checkpoint was written with these settings and this preset.

    Settings that only one of two versions of the package has are not compared.
    """
    own = settings.description()
    same_version = about.get("version") == own["version"]
    for section in ("settings", "preset"):
        stored, expected = (flattened(one.get(section) or {}) for one in (about, own))
        compared = stored.keys() | expected.keys() if same_version else stored.keys() & expected.keys()
        for name in sorted(compared):
            if name.split(".")[-1] not in (*CHANGEABLE, "total_frames") and stored.get(name) != expected.get(name):
                raise ValueError(
                    f"'{path}' belongs to a run with {name}={stored.get(name)!r}, not {expected.get(name)!r}: "
                    "start another run with another out="
                )
