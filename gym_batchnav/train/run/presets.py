"""Presets: combinations of environment, policy and hyper-parameters, from the files in train/presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import Scenes
from gym_batchnav.evaluation.records import sensors_of
from gym_batchnav.geometry import Camera
from gym_batchnav.task.api import Task
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.train.ppo import PPOConfig
from gym_batchnav.train.run.config import read_config, with_changes

FOLDER = Path(__file__).parents[1] / "presets"
ON_A_GPU: dict[str, Any] = {"autocast": True, "channels_last": True, "compile": True}


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of a training run.

    Attributes:
        scenes: Training scenes.
        policy: Kind of policy, see ``make_policy``.
        ppo: Hyper-parameters.
        num_envs: N, the number of environments.
        resident_scenes: K, the number of scenes in use at a time.
        rotate_every: Minimum number of steps between two changes of scene.
        sensors: Names of the agents' sensors, images and others such as ``"map_path"``; see ``sensors_of``.
        teacher_sensors: Names of further sensors, which the teacher reads and the policy does not; it learns to predict
            their readings. Only training has them.
        camera: The agents' camera.
        task: The task, with its reward.
        num_episodes: Number of episodes to sample for a scene without any.
        device: ``"cpu"``, or ``"cuda"`` for networks and observations on an NVIDIA GPU.
        renderer: See BatchNavEnv.
        threads: Number of threads that torch and Numba share; None is one per processor.
    """

    scenes: tuple[str, ...] = ("apartments",)
    policy: str = "small"
    ppo: PPOConfig = field(default_factory=PPOConfig)
    num_envs: int = 256
    resident_scenes: int = 16
    rotate_every: int = 250
    sensors: tuple[str, ...] = ("depth",)
    teacher_sensors: tuple[str, ...] = ()
    camera: Camera = field(default_factory=Camera)
    task: Task = field(default_factory=PointNav)
    num_episodes: int = 1000
    device: str = "cpu"
    renderer: str = "auto"
    threads: int | None = None

    def make_env(self, **overrides: Any) -> BatchNavEnv:
        """Make a training environment; ``overrides`` are keywords of BatchNavEnv, including ``num_envs``.

        A plain value of ``scenes=`` names other scenes; how many are resident stays as it is.
        """
        num_envs = overrides.get("num_envs", self.num_envs)
        scenes = Scenes(
            self.scenes,
            resident=min(self.resident_scenes, num_envs),
            rotate_every=self.rotate_every,
            deterministic_rotation=self.device == "cpu",
        )
        given = overrides.get("scenes", self.scenes)
        scenes = given if isinstance(given, Scenes) else replace(scenes, source=given)
        keywords: dict[str, Any] = {
            "num_envs": num_envs,
            "sensors": sensors_of((*self.sensors, *self.teacher_sensors)),
            "episodes": self.num_episodes,
            "autoreset_mode": "same_step",
            "buffers": 2,
            "camera": self.camera,
            "task": self.task,
            "obs_device": self.device,
            "renderer": self.renderer,
        }
        return BatchNavEnv(**{**keywords, **overrides, "scenes": scenes})


def _read_presets() -> Mapping[str, Preset]:
    """Return the presets in the package's files; a file may begin with the settings of another one."""
    changes = {path.stem: read_config(path) for path in sorted(FOLDER.glob("*.toml"))}

    def preset(name: str) -> Preset:
        own = dict(changes[name])
        base = own.pop("preset", None)
        return with_changes(Preset() if base is None else preset(base), own)

    return MappingProxyType({name: preset(name) for name in changes})


PRESETS = _read_presets()
