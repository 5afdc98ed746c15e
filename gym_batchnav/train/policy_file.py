"""Policy files: weights and what an environment needs to fit them, in one safetensors file."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.env.cameras import picture_spaces
from gym_batchnav.env.settings import check_choice, check_counts, check_positive
from gym_batchnav.geometry import Camera
from gym_batchnav.render.api import check_sensors
from gym_batchnav.train.policy import GOAL, POLICIES, PREVIOUS_ACTION, Policy, make_policy
from gym_batchnav.train.run.checkpoint import join, read_file, split, write_file

FORMAT = "gym_batchnav policy 1"
MAX_BYTES = 256 * 2**20
MAX_READINGS = 2**16  # of all sensors besides the camera


@dataclass(frozen=True, slots=True)
class PolicyAbout:
    """What a policy is and which environments fit it.

    Attributes:
        kind: ``"paper"``, ``"small"`` or ``"blind"``.
        sensors: What it was trained with; empty for a blind one.
        camera: Its pictures.
        forward_step: Metres of MOVE_FORWARD.
        turn_angle_deg: Degrees of a turn.
        max_episode_steps: Actions of an episode.
        preset: What it was trained by.
        frames: Steps of all environments together that it has learned from.
        seed: Of the training.
        task_sensors: How many numbers each sensor has that it reads besides the camera, by name.
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

    def __post_init__(self) -> None:
        """Refuse what no environment can be made of."""
        check_choice("policy", self.kind, POLICIES)
        if self.sensors:
            check_sensors(self.sensors)
        check_positive(forward_step=self.forward_step, turn_angle_deg=self.turn_angle_deg)
        check_counts(max_episode_steps=self.max_episode_steps)
        if not isinstance(self.task_sensors, dict):
            raise ValueError(f"task_sensors={self.task_sensors!r}: give sizes by name")
        check_counts(**self.task_sensors)
        if sum(self.task_sensors.values()) > MAX_READINGS:
            raise ValueError(f"task_sensors={self.task_sensors!r}: give at most {MAX_READINGS:,} numbers in all")
        for name, kind in (("preset", str), ("frames", int), ("seed", int)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name}={getattr(self, name)!r}: give a value of type {kind.__name__}")

    def env_keywords(self) -> dict[str, Any]:
        """Keywords of a BatchNavEnv whose observations and actions fit the policy."""
        names = ("sensors", "camera", "forward_step", "turn_angle_deg", "max_episode_steps")
        return {name: getattr(self, name) for name in names}

    def observation_space(self) -> gymnasium.spaces.Dict:
        """What one agent of such an environment observes."""
        felt = {name: gymnasium.spaces.Box(-np.inf, np.inf, (size,)) for name, size in self.task_sensors.items()}
        return gymnasium.spaces.Dict({**picture_spaces(self.camera, self.sensors), **felt})


def policy_about(env: BatchNavEnv, kind: str, preset: str, frames: int, seed: int) -> PolicyAbout:
    """The description of a policy that was trained in an environment."""
    return PolicyAbout(
        kind=kind,
        sensors=env.cameras.sensors,
        camera=env.cameras.camera,
        forward_step=env.simulator.forward_step,
        turn_angle_deg=round(math.degrees(env.simulator.turn_angle), 9),
        max_episode_steps=env.max_episode_steps,
        preset=preset,
        frames=frames,
        seed=seed,
        task_sensors={
            name: math.prod(space.shape or ())
            for name, space in env.components.spaces.items()
            if name != PREVIOUS_ACTION
        },
    )


def save_policy(path: Path, policy: Policy, about: PolicyAbout) -> None:
    """Write a policy file; it appears whole or not at all."""
    write_file(path, *split(policy.state_dict()), FORMAT, asdict(about))


def load_policy(path: Path) -> tuple[Policy, PolicyAbout]:
    """The policy of a file, on the CPU, and its description.

    Raises:
        ValueError: it is no policy file, a damaged one, or its weights are not those of its kind.
        FileNotFoundError: there is no such file.
    """
    arrays, tree, described = read_file(path, FORMAT, MAX_BYTES)
    try:
        weights, about = join(tree, arrays), _about(described)
        with torch.device("meta"):  # no memory and no random weights: what a stranger's file asks for may be huge
            policy = make_policy(about.kind, about.observation_space())
        expected = {name: (one.shape, one.dtype) for name, one in policy.state_dict().items()}
        if {name: (one.shape, one.dtype) for name, one in weights.items()} != expected:
            raise ValueError(f"its weights are not those of a {about.kind!r} policy for such pictures")
        policy.load_state_dict(weights, assign=True)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"policy file '{path}' is damaged: {error}") from error
    return policy, about


def _about(described: dict[str, Any]) -> PolicyAbout:
    """The description that ``save_policy`` wrote as JSON."""
    return PolicyAbout(**{**described, "sensors": tuple(described["sensors"]), "camera": Camera(**described["camera"])})
