"""Presets: combinations of environment, policy and hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.task.pointnav import PointNav
from gym_batchnav.train.ppo import PPOConfig

# Floor areas, in square metres, of small furnished homes with one to four rooms and open inner doors.
# Vision matters in them: walls and furniture block most straight paths to a goal, and a blind agent with the same
# training reaches an SPL of 0.51 instead of 0.87 (benchmarks/RESULTS.md).
AREAS = (28, 34, 40, 46, 52, 57)
_SMALL_HOME = "area={area}&closed_doors=0&triangles=8000"
SEEDS_OF_AN_AREA = 100
FIRST_HELD_OUT = 100_000  # training never uses this seed or a larger one
NUM_HELD_OUT = 20


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings of a training run.

    Attributes:
        scenes: Training scenes.
        held_out: Evaluation scenes.
        policy: Kind of policy, see ``make_policy``.
        ppo: Hyper-parameters.
        num_envs: N, the number of environments.
        resident_scenes: K, the number of scenes in use at a time.
        rotate_every: Minimum number of steps between two changes of scene.
        sensors: The agents' sensors.
        camera: The agents' camera.
        task: The task, with its reward.
        num_episodes: Number of episodes to sample for a scene without any.
        device: ``"cpu"``, or ``"cuda"`` for networks and observations on an NVIDIA GPU.
        threads: Number of threads that torch and Numba share; None does not change it.
    """

    scenes: tuple[str, ...]
    held_out: tuple[str, ...]
    policy: str
    ppo: PPOConfig
    num_envs: int
    resident_scenes: int
    rotate_every: int = 250
    sensors: tuple[str, ...] = ("depth",)
    camera: Camera = field(default_factory=Camera)
    task: PointNav = field(default_factory=PointNav)
    num_episodes: int = 1000
    device: str = "cpu"
    threads: int | None = None

    def make_env(self, **overrides: Any) -> BatchNavEnv:
        """Make a training environment; ``overrides`` are keywords of BatchNavEnv, including ``num_envs``."""
        num_envs = overrides.get("num_envs", self.num_envs)
        keywords: dict[str, Any] = {
            "num_envs": num_envs,
            "scenes": self.scenes,
            "resident_scenes": min(self.resident_scenes, num_envs),
            "rotate_every": self.rotate_every,
            "deterministic_rotation": self.device == "cpu",
            "num_episodes": self.num_episodes,
            "autoreset_mode": "same_step",
            "reuse_buffers": True,
        }
        return BatchNavEnv(**{**self._shared_keywords(), **keywords, **overrides})

    def make_evaluation_env(self, num_envs: int, num_episodes: int, **overrides: Any) -> BatchNavEnv:
        """Make an environment that runs each of ``num_episodes`` episodes of every held-out scene exactly once."""
        keywords: dict[str, Any] = {"scenes": self.held_out, "episode_order": "once", "autoreset_mode": "same_step"}
        return BatchNavEnv(
            num_envs, **{**self._shared_keywords(), **keywords, "num_episodes": num_episodes, **overrides}
        )

    def _shared_keywords(self) -> dict[str, Any]:
        """Return the keywords that training and evaluation share."""
        return {"sensors": self.sensors, "camera": self.camera, "task": self.task, "obs_device": self.device}


def _small_homes() -> tuple[str, ...]:
    """Return a range of seeds for each area."""
    return tuple(
        f"procedural:{index * SEEDS_OF_AN_AREA}-{(index + 1) * SEEDS_OF_AN_AREA - 1}?" + _SMALL_HOME.format(area=area)
        for index, area in enumerate(AREAS)
    )


def _small_held_out() -> tuple[str, ...]:
    """Return held-out homes with the same areas in turn."""
    return tuple(
        f"procedural:{FIRST_HELD_OUT + index}?" + _SMALL_HOME.format(area=AREAS[index % len(AREAS)])
        for index in range(NUM_HELD_OUT)
    )


# Homes of 25 to 400 square metres with all their furniture, for the paper's policies.
_LARGE_HOMES = ("procedural:0-999",)
_LARGE_HELD_OUT = (f"procedural:{FIRST_HELD_OUT}-{FIRST_HELD_OUT + NUM_HELD_OUT - 1}",)


ON_A_GPU: dict[str, Any] = {"autocast": True, "channels_last": True, "compile": True}


def _paper(sensor: str, num_envs: int, resident_scenes: int) -> Preset:
    """Return the settings of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021)."""
    return Preset(
        scenes=_LARGE_HOMES,
        held_out=_LARGE_HELD_OUT,
        policy="paper",
        ppo=PPOConfig(bootstrap_timeouts=False, **ON_A_GPU),
        num_envs=num_envs,
        resident_scenes=resident_scenes,
        sensors=(sensor,),
        task=PointNav.bps_paper(),
        device="cuda",
    )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        # Takes an hour on two cores.
        "cpu": Preset(
            scenes=_small_homes(),
            held_out=_small_held_out(),
            policy="small",
            ppo=PPOConfig(
                total_frames=24_000_000,
                num_steps=32,
                num_minibatches=4,
                optimizer="adamw",
                learning_rate=1e-3,
                scale_learning_rate=False,
                normalize_advantages=True,
                imitation_share=0.25,
            ),
            num_envs=256,
            resident_scenes=16,
            rotate_every=100,
            camera=Camera(32, 32),
            num_episodes=300,
            threads=2,
        ),
        # The same homes for the paper's network at 64 x 64; takes half a day on one GPU.
        "gpu": Preset(
            scenes=_small_homes(),
            held_out=_small_held_out(),
            policy="paper",
            ppo=PPOConfig(
                total_frames=500_000_000,
                num_minibatches=4,
                normalize_advantages=True,
                imitation_share=0.1,
                **ON_A_GPU,
            ),
            num_envs=1024,
            resident_scenes=32,
            num_episodes=300,
            device="cuda",
        ),
        "paper-depth": _paper("depth", num_envs=512, resident_scenes=16),
        "paper-rgb": _paper("rgb", num_envs=128, resident_scenes=4),
    }
)
