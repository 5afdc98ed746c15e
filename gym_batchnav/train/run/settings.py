"""The settings of a training run, and the file that records them in its folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import gym_batchnav
from gym_batchnav.env.settings import check_choice
from gym_batchnav.system.numbers import check_counts, check_positive
from gym_batchnav.system.storage import write_atomically
from gym_batchnav.train.policy import POLICIES
from gym_batchnav.train.policy_file import flattened
from gym_batchnav.train.run.presets import ON_A_GPU, PRESETS, Preset

FILE = "run.json"
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
        threads: Number of threads that torch and Numba share.
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

    def __post_init__(self) -> None:
        """Raise ValueError if a setting is invalid."""
        check_choice("preset", self.preset, tuple(PRESETS))
        check_choice("policy", self.policy, (None, *POLICIES))
        check_choice("device", self.device, (None, "cpu", "cuda"))
        counts = {"frames": self.frames, "num_envs": self.num_envs, "threads": self.threads}
        check_counts(**{name: one for name, one in counts.items() if one is not None})
        if self.seed < 0:
            raise ValueError(f"seed={self.seed}: pass a whole number of at least 0")
        if self.time_limit is not None:
            check_positive(time_limit=self.time_limit)

    def resolved(self) -> Preset:
        """Return the preset with the changes applied."""
        preset = PRESETS[self.preset]
        changes: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("scenes", "policy", "num_envs", "device", "threads")
            if getattr(self, name) is not None
        }
        if changes.get("policy") == "blind":
            changes["sensors"] = ()  # a blind agent needs no pictures
        learning: dict[str, Any] = {
            "total_frames": self.frames or preset.ppo.total_frames,
            "num_minibatches": min(preset.ppo.num_minibatches, self.num_envs or preset.num_envs),
        }
        if self.device is not None:
            learning |= ON_A_GPU if self.device == "cuda" else dict.fromkeys(ON_A_GPU, False)
        changes["ppo"] = replace(preset.ppo, **learning)
        return replace(preset, **changes)

    def changed(self, given: dict[str, Any], where: Path) -> RunSettings:
        """Return these settings with the changes that are allowed when a run is resumed.

        Raises:
            ValueError: Another setting differs.
        """
        for name, value in given.items():
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
        known = {field.name: stored[field.name] for field in fields(RunSettings)}
        scenes = known["scenes"]
        return RunSettings(**{**known, "scenes": None if scenes is None else tuple(scenes)})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"'{path}' is damaged ({error}): pass another out=") from error


def check_same_run(about: dict[str, Any], settings: RunSettings, path: Path) -> None:
    """Raise ValueError unless a checkpoint was written by this version with these settings and this preset."""
    own = settings.description()
    if about.get("version") != own["version"]:
        raise ValueError(
            f"'{path}' was written by version {about.get('version')}, this is {own['version']}: "
            "resume with that version, or start another run with another out="
        )
    for section in ("settings", "preset"):
        stored, expected = (flattened(one.get(section) or {}) for one in (about, own))
        for name in sorted(stored.keys() | expected.keys()):
            if name.split(".")[-1] not in (*CHANGEABLE, "total_frames") and stored.get(name) != expected.get(name):
                raise ValueError(
                    f"'{path}' belongs to a run with {name}={stored.get(name)!r}, not {expected.get(name)!r}: "
                    "start another run with another out="
                )
