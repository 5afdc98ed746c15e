"""ImageNav and InstanceImageNav: go to the place or the object that a picture shows, and call STOP there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from gymnasium.spaces import Box

from gym_batchnav.episodes.objects import CATEGORIES
from gym_batchnav.episodes.samplers import ObjectEpisodes
from gym_batchnav.geometry import Camera
from gym_batchnav.task.api import Sensor, TaskState
from gym_batchnav.task.pointnav import GoalTask


class GoalPicture(Sensor):
    """The base of sensors that show a picture [H, W, 3] uint8 of the goal; each is a dataclass.

    The picture is drawn when an episode begins, for all environments that begin one at once, and kept. It is taken
    without the camera's jitter.

    Attributes:
        camera: The camera that takes the picture.
    """

    camera: Camera

    def __post_init__(self) -> None:
        if not isinstance(self.camera, Camera):
            raise ValueError(f"camera={self.camera!r} of the goal: pass a Camera")

    @property
    def picture_cameras(self) -> tuple[Camera, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The camera that takes the picture."""
        return (self.camera,)

    @property
    def space(self) -> Box:  # type: ignore[override]  # a constant that depends on a field
        """The space of one picture."""
        return Box(0, 255, (self.camera.height, self.camera.width, 3), np.uint8)

    def buffers(self, num_envs: int) -> dict[str, np.ndarray]:
        """Return buffers for the pictures."""
        return {self.name: np.zeros((num_envs, *self.space.shape), np.uint8)}

    def observe(self, state: TaskState) -> np.ndarray:
        """Return the pictures [N, H, W, 3]."""
        return state.buffers[self.name]


@dataclass(frozen=True, slots=True)
class ImageGoal(GoalPicture):
    """A picture from the goal [H, W, 3] uint8, in a direction drawn once per episode: Habitat's ``imagegoal``.

    Attributes:
        camera: The camera that takes the picture.
    """

    camera: Camera = field(default=Camera())

    name = "imagegoal"

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Draw the pictures."""
        heading = (state.uniform(self.name, 1)[indices, 0] * 2 - 1) * np.pi
        slots = state.agents.slot[indices]
        state.buffers[self.name][indices] = state.pictures(slots, state.episodes.goal[indices], heading, self.camera)


@dataclass(frozen=True, slots=True)
class InstanceImageGoal(GoalPicture):
    """A picture of the object that is the goal [H, W, 3] uint8, from one of its view points.

    It is Habitat's ``instance_imagegoal``.

    Attributes:
        camera: The camera that takes the picture, with its own lens; its angles, offset and jitter are not used.
    """

    camera: Camera = field(default=Camera(width=128, height=128, hfov_deg=60.0))

    name = "instance_imagegoal"

    def begin(self, state: TaskState, indices: np.ndarray) -> None:
        """Draw the pictures."""
        episodes = state.episodes
        heading = np.zeros(len(indices))
        pictures = state.pictures(
            state.agents.slot[indices], episodes.viewpoint[indices], heading, self.camera, episodes.target[indices]
        )
        state.buffers[self.name][indices] = pictures


@dataclass(frozen=True, slots=True)
class ImageNav(GoalTask):
    """Habitat's ImageNav: STOP within ``success_distance`` of the place of a picture is a success.

    The episodes are those of PointNav. Habitat's protocol allows 1,000 steps, as ``BatchNav/ImageNav-v0`` does.

    Attributes:
        camera: The camera of the goal picture; pass the agents' camera for Habitat's protocol. Its jitter is not used.
        success_distance: Geodesic metres below which STOP succeeds.
        success_reward: Reward of a success.
        step_reward: Reward of every step.
    """

    camera: Camera = field(default=Camera())
    success_distance: float = 1.0
    success_reward: float = 2.5
    step_reward: float = -0.01

    def __post_init__(self) -> None:
        GoalTask.__post_init__(self)
        _ = self.sensors  # checks the camera

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The goal picture."""
        return (ImageGoal(self.camera),)


@dataclass(frozen=True, slots=True)
class InstanceImageNav(GoalTask):
    """Habitat's InstanceImageNav: go to the one object that a picture shows, and call STOP at a view point of it.

    Attributes:
        camera: The camera of the goal picture, with its own lens, size and ``eye_height``; its angles, offset and
            jitter are not used.
        categories: Names of the categories of the objects; see ``ObjectNav``.
        aliases: Other names of these categories in scenes; see ``ObjectNav``.
        success_distance: Geodesic metres to a view point of the object below which STOP succeeds.
        success_reward: Reward of a success.
        step_reward: Reward of every step.
    """

    camera: Camera = field(default=InstanceImageGoal().camera)
    categories: tuple[str, ...] = CATEGORIES
    success_distance: float = 0.1
    success_reward: float = 2.5
    step_reward: float = -0.01
    aliases: Mapping[str, str] | tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        GoalTask.__post_init__(self)
        _ = self.sensors  # checks the camera
        object.__setattr__(self, "aliases", self.sampler.aliases)  # the sampler checks them and the categories

    @property
    def sensors(self) -> tuple[Sensor, ...]:  # type: ignore[override]  # a constant that depends on a field
        """The goal picture."""
        return (InstanceImageGoal(self.camera),)

    @property
    def sampler(self) -> ObjectEpisodes:  # type: ignore[override]  # a constant that depends on fields
        """Samples the episodes."""
        height = self.camera.eye_height
        return ObjectEpisodes(self.categories, per_instance=True, eye_height=height, aliases=self.aliases)
